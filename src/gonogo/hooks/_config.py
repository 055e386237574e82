"""The hooks file: whom to tell of what. The operator's, never a workspace's.

    [[hook]]
    name = "chat"
    url = "https://chat.example/gonogo"
    secret_env = "CHAT_SECRET"
    events = ["requested", "resolved"]
    links_for = ["ann"]

It is checked whole when the runtime opens: a hook that could not work is refused there and then.
"""

import ipaddress
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, StrictBool, ValidationError, field_validator

from gonogo.domain.errors import InvalidMessage
from gonogo.domain.plan import Frozen
from gonogo.hooks._signing import read_secret

Word = Literal["requested", "warning", "resolved", "escalated"]
_ALL: tuple[Word, ...] = ("requested", "warning", "resolved", "escalated")
_MOST = 32
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class BadHooks(InvalidMessage):
    """A hooks file has a defect; the message begins with file and line."""


class _HookText(Frozen):
    """One hook as it is written."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    url: Annotated[str, Field(max_length=2_000)]
    secret_env: tuple[_Text, ...] = Field(min_length=1, max_length=4)
    events: tuple[Word, ...] = Field(default=_ALL, min_length=1)
    kinds: tuple[_Text, ...] | None = None
    links_for: tuple[_Text, ...] = Field(default=(), max_length=50)
    timeout: Annotated[float, Field(gt=0, le=60)] = 10.0
    insecure: StrictBool = False

    @field_validator("secret_env", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:  # noqa: ANN401 - as it was written
        return (value,) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One program that is told."""

    name: str
    url: str = field(repr=False)
    """Not shown: for some receivers the address is the secret."""
    secrets: tuple[bytes, ...] = field(repr=False)
    events: tuple[str, ...] = _ALL
    kinds: tuple[str, ...] | None = None
    """Of questions; None is every one."""
    links_for: tuple[str, ...] = ()
    """Names or ids of those for whom links are made that decide."""
    timeout: float = 10.0
    """Seconds for one attempt, from the connection to the answer's head."""

    def wants(self, event: str, kind: str) -> bool:
        """Whether it is told of such an event."""
        return event in self.events and (self.kinds is None or kind in self.kinds)


def load_hooks(
    path: Path, environment: Mapping[str, str], *, links: bool = False
) -> dict[str, Hook]:
    """Read the hooks file; one that does not exist has no hooks.

    Args:
        links: The server has an address for the public, so that links can be made.

    Raises:
        BadHooks: naming file and line of the first defect.
    """
    if not path.exists():
        return {}
    try:
        source = path.read_text("utf-8")
        fields = tomllib.loads(source)
    except (OSError, ValueError) as error:
        raise BadHooks(f"{path}: {error}") from error
    found: dict[str, Hook] = {}
    for where, item in _written(path, source, fields):
        hook = _hook(item, environment, links=links)
        if isinstance(hook, Hook) and hook.name in found:
            hook = f"name: there are two hooks {hook.name!r}"
        if isinstance(hook, str):
            raise BadHooks(f"{where}: {hook}")
        found[hook.name] = hook
    return found


def _written(path: Path, source: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    lines = [
        n for n, line in enumerate(source.splitlines(), 1) if re.match(r"\s*\[\[\s*hook", line)
    ]
    written = fields.get("hook", [])
    if set(fields) - {"hook"} or not isinstance(written, list):
        raise BadHooks(f"{path}:1: a hooks file holds [[hook]] tables and nothing else")
    if len(written) > _MOST:  # pyright: ignore[reportUnknownArgumentType]
        raise BadHooks(f"{path}:1: there can be at most {_MOST} hooks")
    for number, item in enumerate(written):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        line = lines[number] if number < len(lines) else 1
        yield f"{path}:{line}: hook {number + 1}", item


def _hook(item: Any, environment: Mapping[str, str], *, links: bool) -> Hook | str:  # noqa: ANN401
    try:
        text = _HookText.model_validate(item)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc']) or 'hook'}: {first['msg']}"
    problem = _url_problem(text.url, insecure=text.insecure)
    if problem is not None:
        return f"url: {problem}"
    if text.links_for and not links:
        return "links_for: links need the server's public address: set GONOGO_PUBLIC_URL"
    secrets = _secrets(text.secret_env, environment)
    if isinstance(secrets, str):
        return f"secret_env: {secrets}"
    return Hook(
        name=text.name, url=text.url, secrets=secrets, events=text.events, kinds=text.kinds,
        links_for=text.links_for, timeout=text.timeout,
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
        return "an address has no user, no password and no fragment"
    if parts.scheme == "http" and not insecure and not _is_loopback(host):
        return "http:// would show what people are asked to the network; use https://, or say insecure = true"  # noqa: E501
    return None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _secrets(names: tuple[str, ...], environment: Mapping[str, str]) -> tuple[bytes, ...] | str:
    found: list[bytes] = []
    for name in names:
        secret = read_secret(environment[name]) if environment.get(name) else "it is not set"
        if isinstance(secret, str):
            return f"{name}: {secret}"
        found.append(secret)
    return tuple(found)
