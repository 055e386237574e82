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

It is read when the runtime opens. What is wrong with one server is told where that one is needed,
and stops nothing else. Secrets are named, not written: their values come from the environment, and
a server gets no other part of it than it needs to run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field, StrictBool, ValidationError, model_validator

from gonogo.domain.base import Frozen
from gonogo.domain.errors import InvalidMessage, because, defect_of
from gonogo.domain.network import address_problem
from gonogo.domain.tool_calls import ToolClass, server_problem
from gonogo.tables import TableFile

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SHELL")
"""What every program needs to run at all."""
_Text = Annotated[str, Field(min_length=1, max_length=4_000)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
_Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
_Seconds = Annotated[float, Field(gt=0, le=3_600)]
_Class = Literal["pure", "idempotent", "other", "irreversible"]


class BadServers(InvalidMessage):
    """A file of MCP servers cannot be read; the message begins with the file."""


_FILE = TableFile(what=because("a servers file"), names=("server",), refusal=BadServers, most=32)


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
            raise ValueError(because("give a server either a command or a url"))
        for name in ("args", "cwd", "env_from") if self.url else ("headers_env", "insecure"):
            if getattr(self, name):
                raise ValueError(
                    because(
                        "{name} is for servers with a {kind}",
                        name=name,
                        kind="command" if self.url else "url",
                    )
                )
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
    fault: str | None = None
    """Why it cannot be used: what is wrong with its table, with file and line."""

    @property
    def program(self) -> str:
        """What it is started with; empty for one that is not."""
        return self.command[0] if self.command else ""

    @property
    def is_unread(self) -> bool:
        """Whether it is none at all: a table without a name, or a file that cannot be read."""
        return server_problem(self.name) is not None

    def takes(self, tool: str) -> bool:
        """Whether a tool of the server is taken."""
        return self.tools is None or tool in self.tools


def load_servers(path: Path, environment: Mapping[str, str]) -> dict[str, ServerConfig]:
    """Read the file of MCP servers; one that does not exist has none.

    A server that is not described as it should be has a `fault`. Where not even its name can be
    told, file and line stand for it, and for a file that cannot be read, the file.
    """
    try:
        tables = _FILE.read(path, "server")
    except BadServers as error:
        return {path.name: ServerConfig(name=path.name, fault=error.said)}
    found: dict[str, ServerConfig] = {}
    for number, (item, where) in enumerate(tables, 1):
        server = _server(item, environment)
        name = _name(item) or Path(where).name
        if name in found:
            server = because("name: there are two servers {name!r}", name=name)
        if isinstance(server, str):
            fault = because(
                "{where}: server {number}: {problem}", where=where, number=number, problem=server
            )
            server = ServerConfig(name=name, fault=fault)
        found[name] = server
    return found


def _name(item: Any) -> str | None:  # noqa: ANN401 - any TOML value
    name: Any = cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) and server_problem(name) is None else None


def _server(item: Any, environment: Mapping[str, str]) -> ServerConfig | str:  # noqa: ANN401
    """A server, or what is wrong with it."""
    try:
        text = _ServerText.model_validate(item)
    except ValidationError as error:
        return defect_of(error, "server")
    problem = server_problem(text.name)
    if problem is not None:
        return because("name: {problem}", problem=problem)
    if text.url is not None:
        said = address_problem(
            text.url, insecure=text.insecure, shown=because("everything that is sent"),
            hint=because("; secrets go into headers_env"),
        )  # fmt: skip
        if said is not None:
            return because("url: {problem}", problem=said)
    for name in (*text.env_from, *text.headers_env.values()):
        if not environment.get(name):
            return because(
                "{field}: {name} is not set",
                field="headers_env" if text.url else "env_from",
                name=name,
            )
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
