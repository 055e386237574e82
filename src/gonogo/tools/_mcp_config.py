"""The file of MCP servers: whose tools agents may use. The user's own, never a workspace's.

    [[server]]
    name = "docs"
    command = "docs-server"
    args = ["--stdio"]
    env_from = ["DOCS_TOKEN"]
    tools = ["search", "fetch"]

    [[server]]
    name = "tracker"
    url = "https://tracker.example/mcp"
    headers_env = { Authorization = "TRACKER_AUTHORIZATION" }

It is checked whole when the runtime opens. Secrets are named, not written: their values come from
the environment, and a server gets no other part of it than it needs to run.
"""

import ipaddress
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, StrictBool, ValidationError, model_validator

from gonogo.domain.errors import InvalidMessage
from gonogo.domain.foreign import server_problem
from gonogo.domain.gate import ToolClass
from gonogo.domain.plan import Frozen

_MOST = 32
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SHELL")
"""What every program needs to run at all."""
_Text = Annotated[str, Field(min_length=1, max_length=4_000)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
_Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
_Seconds = Annotated[float, Field(gt=0, le=3_600)]
_Class = Literal["pure", "idempotent", "other", "irreversible"]


class BadServers(InvalidMessage):
    """A file of MCP servers has a defect; the message begins with file and line."""


class _ServerText(Frozen):
    """One server as it is written."""

    name: _Text
    command: _Text | None = None
    args: tuple[Annotated[str, Field(max_length=4_000)], ...] = Field(default=(), max_length=100)
    cwd: Path | None = None
    env_from: tuple[_Name, ...] = Field(default=(), max_length=50)
    url: Annotated[str, Field(max_length=2_000)] | None = None
    headers_env: Annotated[dict[_Header, _Name], Field(max_length=20)] = {}
    insecure: StrictBool = False
    tools: tuple[_Text, ...] | None = None
    agents: tuple[_Text, ...] = ("coder", "debug", "universal")
    classes: dict[_Text, _Class] = {}
    timeout: _Seconds = 60.0
    start_timeout: _Seconds = 30.0

    @model_validator(mode="after")
    def _one_way(self) -> "_ServerText":
        if (self.command is None) == (self.url is None):
            raise ValueError("a server has either a command or a url")
        for name in ("args", "cwd", "env_from") if self.url else ("headers_env", "insecure"):
            if getattr(self, name):
                raise ValueError(f"{name} is for servers with a {'command' if self.url else 'url'}")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One MCP server, and who may use what of it."""

    name: str
    command: tuple[str, ...] = ()
    """The program and its arguments; empty for a server that has a `url`."""
    folder: Path = field(default_factory=Path)
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    tools: tuple[str, ...] | None = None
    """The only ones that are taken; None is all."""
    agents: tuple[str, ...] = ()
    """Who is offered them."""
    classes: Mapping[str, ToolClass] = field(default_factory=dict[str, ToolClass])
    """What the operator says of a tool; of the others, and from servers, nothing is believed."""
    timeout: float = 60.0
    """Seconds for one call."""
    start_timeout: float = 30.0
    """Seconds until the server has told its tools."""

    def takes(self, tool: str) -> bool:
        """Whether a tool of the server is taken."""
        return self.tools is None or tool in self.tools


def load_servers(path: Path, environment: Mapping[str, str]) -> dict[str, ServerConfig]:
    """Read the file of MCP servers; one that does not exist has none.

    Raises:
        BadServers: naming file and line of the first defect.
    """
    if not path.exists():
        return {}
    try:
        source = path.read_text("utf-8")
        fields = tomllib.loads(source)
    except (OSError, ValueError) as error:
        raise BadServers(f"{path}: {error}") from error
    found: dict[str, ServerConfig] = {}
    for where, item in _written(path, source, fields):
        server = _server(item, environment)
        if isinstance(server, ServerConfig) and server.name in found:
            server = f"name: there are two servers {server.name!r}"
        if isinstance(server, str):
            raise BadServers(f"{where}: {server}")
        found[server.name] = server
    return found


def _written(path: Path, source: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    lines = [
        n for n, line in enumerate(source.splitlines(), 1) if re.match(r"\s*\[\[\s*server", line)
    ]
    written = fields.get("server", [])
    if set(fields) - {"server"} or not isinstance(written, list):
        raise BadServers(f"{path}:1: a file of servers holds [[server]] tables and nothing else")
    if len(written) > _MOST:  # pyright: ignore[reportUnknownArgumentType]
        raise BadServers(f"{path}:1: there can be at most {_MOST} servers")
    for number, item in enumerate(written):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        line = lines[number] if number < len(lines) else 1
        yield f"{path}:{line}: server {number + 1}", item


def _server(item: Any, environment: Mapping[str, str]) -> ServerConfig | str:  # noqa: ANN401
    try:
        text = _ServerText.model_validate(item)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc']) or 'server'}: {first['msg']}"
    problem = server_problem(text.name)
    if problem is not None:
        return f"name: {problem}"
    if text.url is not None and (said := _url_problem(text.url, insecure=text.insecure)):
        return f"url: {said}"
    for name in (*text.env_from, *text.headers_env.values()):
        if not environment.get(name):
            return f"{'headers_env' if text.url else 'env_from'}: {name} is not set"
    return _made(text, environment)


def _made(text: _ServerText, environment: Mapping[str, str]) -> ServerConfig:
    passed = {name: environment[name] for name in _PASSED_ON if name in environment}
    home = Path(environment.get("HOME", "/"))
    return ServerConfig(
        name=text.name,
        command=(text.command, *text.args) if text.command else (),
        folder=home if text.cwd is None else text.cwd.expanduser(),
        environment={**passed, **{name: environment[name] for name in text.env_from}},
        url=text.url,
        headers={header: environment[name] for header, name in text.headers_env.items()},
        tools=text.tools, agents=text.agents,
        classes={tool: ToolClass(word) for tool, word in text.classes.items()},
        timeout=text.timeout, start_timeout=text.start_timeout,
    )  # fmt: skip


def _url_problem(url: str, *, insecure: bool) -> str | None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "this is no address"
    if parts.scheme not in {"http", "https"} or not host or not url.isascii() or " " in url:
        return "an address begins with https:// and names a host"
    if parts.username is not None or parts.fragment:
        return "an address has no user, no password and no fragment; secrets go into headers_env"
    if parts.scheme == "http" and not insecure and not _is_loopback(host):
        return "http:// would show all that is said to the network; use https://, or say insecure = true"  # noqa: E501
    return None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
