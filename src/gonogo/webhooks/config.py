"""The hooks file: whom to tell of what. The operator's, never a workspace's.

    [[hook]]
    name = "chat"
    url = "https://chat.example/gonogo"
    secret_env = "CHAT_SECRET"
    events = ["requested", "resolved"]
    links_for = ["ann"]

It is checked whole when the runtime opens: a hook that could not work is refused there and then.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, ValidationError, field_validator

from gonogo.domain.base import Frozen
from gonogo.domain.errors import InvalidMessage, because, defect_of
from gonogo.domain.network import address_problem
from gonogo.tables import TableFile

# Signatures by the Standard Webhooks scheme, which receivers have libraries for.
#
# A secret is written `whsec_` and the base64 of 24 to 64 bytes.

_MARK = "whsec_"
_SHORTEST, _LONGEST = 24, 64


def read_secret(text: str) -> bytes | str:
    """The bytes of a secret; the defect if it has one, which never repeats the secret."""
    text = text.strip()
    if not text.startswith(_MARK):
        return because("the secret must begin with {mark}", mark=_MARK)
    try:
        secret = base64.b64decode(text.removeprefix(_MARK), validate=True)
    except (binascii.Error, ValueError):
        return because("the text after {mark} must be base64", mark=_MARK)
    if not _SHORTEST <= len(secret) <= _LONGEST:
        return because(
            "the secret must have {least} to {most} bytes, not {count}",
            least=_SHORTEST,
            most=_LONGEST,
            count=len(secret),
        )
    return secret


def signature(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: one signature for each secret, so that they can be changed.

    Args:
        timestamp: Seconds since 1970.
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.digest(secret, signed, "sha256") for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


Word = Literal["requested", "warning", "resolved", "escalated"]
_ALL: tuple[Word, ...] = ("requested", "warning", "resolved", "escalated")
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class BadHooks(InvalidMessage):
    """A hooks file has a defect; the message begins with file and line."""


_FILE = TableFile(what=because("a hooks file"), names=("hook",), refusal=BadHooks, most=32)


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
    found: dict[str, Hook] = {}
    for number, (item, where) in enumerate(_FILE.read(path, "hook"), 1):
        hook = _hook(item, environment, links=links)
        if isinstance(hook, Hook) and hook.name in found:
            hook = because("name: there are two hooks {name!r}", name=hook.name)
        if isinstance(hook, str):
            raise BadHooks("{where}: hook {number}: {hook}", where=where, number=number, hook=hook)
        found[hook.name] = hook
    return found


def _hook(item: Any, environment: Mapping[str, str], *, links: bool) -> Hook | str:  # noqa: ANN401
    try:
        text = _HookText.model_validate(item)
    except ValidationError as error:
        return defect_of(error, "hook")
    problem = address_problem(text.url, insecure=text.insecure, shown=because("the questions"))
    if problem is not None:
        return because("url: {problem}", problem=problem)
    if text.links_for and not links:
        return because("links_for: links need this server's public address: set GONOGO_PUBLIC_URL")
    secrets = _secrets(text.secret_env, environment)
    if isinstance(secrets, str):
        return because("{name}: {problem}", name="secret_env", problem=secrets)
    return Hook(
        name=text.name, url=text.url, secrets=secrets, events=text.events, kinds=text.kinds,
        links_for=text.links_for, timeout=text.timeout,
    )  # fmt: skip


_UNSET = because("it is not set")


def _secrets(names: tuple[str, ...], environment: Mapping[str, str]) -> tuple[bytes, ...] | str:
    found: list[bytes] = []
    for name in names:
        secret = read_secret(environment[name]) if environment.get(name) else _UNSET
        if isinstance(secret, str):
            return because("{name}: {problem}", name=name, problem=secret)
        found.append(secret)
    return tuple(found)
