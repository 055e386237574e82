"""Tells other programs what people are asked and what they answered: signed, until it arrives.

Promises: what is to be told is written with the change itself and survives whatever follows; each
message keeps its id over all attempts, is signed by the Standard Webhooks scheme and goes only to
the address that the operator wrote down, never where an answer points to; a receiver that is slow
or dead holds up nothing but its own messages.

The hooks file says whom to tell of what. It is the operator's, never a workspace's.

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
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import uniform
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field, StrictBool, ValidationError, field_validator

from gonogo import __version__
from gonogo.domain.base import Frozen, canonical_json
from gonogo.domain.errors import InvalidMessage, because, defect_of
from gonogo.domain.network import address_problem
from gonogo.domain.records import Approval, Job, Timer
from gonogo.domain.reviews import Delivery, DeliveryStatus
from gonogo.store import Store, Tx, go_on, new_id
from gonogo.store import events as log
from gonogo.store.calls import approval_of
from gonogo.store.columns import stamp
from gonogo.store.jobs import (
    add_delivery,
    delivery_of,
    drop_timer,
    due_delivery,
    pending_deliveries,
    set_delivery,
    set_timer,
    take_delivery,
)
from gonogo.tables import TableFile

if TYPE_CHECKING:
    import httpx


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


# Writes what is to be told, in the transaction that makes it true.

# What a message says, within limits: a receiver learns about a question, but gets no whole files.

LONGEST_TEXT = 4_000
"""Characters of one text."""
LONGEST_LIST = 200
LARGEST = 64 * 1024
"""Bytes of a body, without its links."""
NOTE = "Shortened: the whole question is in gonogo"


def body_of(event: str, now: datetime, data: Mapping[str, Any]) -> dict[str, Any]:
    """A message in the envelope of Standard Webhooks.

    Args:
        data: What is told; if the body would be too large, `approval` is sent without details.
    """
    short = {name: _short(value) for name, value in data.items()}
    if short != data:
        short["shortened"] = NOTE
    if len(canonical_json(short).encode(errors="replace")) > LARGEST:
        short = {**short, "approval": _bare(short["approval"]), "shortened": NOTE}
    return {"type": event, "timestamp": stamp(now), "data": short}


def _bare(approval: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in approval.items() if name not in {"details", "arguments"}}


def _short(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    match value:
        case str() if len(value) > LONGEST_TEXT:
            return f"{value[:LONGEST_TEXT]} … +{len(value) - LONGEST_TEXT}"
        case list():
            items = cast("list[Any]", value)
            rest = len(items) - LONGEST_LIST
            shown = [_short(item) for item in items[:LONGEST_LIST]]
            return [*shown, f"… +{rest}"] if rest > 0 else shown
        case dict():
            return {name: _short(item) for name, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


HOOK = "hook"
"""The job that sends what a hook has to be told. Its key is the hook's name."""
_OF = "approval_"
"""The prefix of an event's type in the log, before the hook's word for the event."""


class Announcer(Struct, frozen=True, kw_only=True):
    """Writes deliveries for every hook about the questions that it wants to hear of."""

    hooks: Mapping[str, Hook]
    shown: Callable[[Tx, Approval], dict[str, Any]]
    """A question as other programs are shown it."""
    links: Callable[[Tx, Approval, tuple[str, ...]], list[dict[str, Any]]]
    """Makes a link for each of the named people, to be completed when it is sent."""

    def announce(self, tx: Tx) -> None:
        """Write a delivery for each hook and each change of a question in this transaction."""
        for event in log.told(tx):
            word = event["type"].removeprefix(_OF)
            if word == event["type"]:
                continue
            facts = event["metadata"]
            wanted = [hook for hook in self.hooks.values() if hook.wants(word, facts["kind"])]
            approval = approval_of(tx, facts["approval_id"]) if wanted else None
            if approval is not None:
                self._write(tx, word, approval, wanted)

    def _write(self, tx: Tx, word: str, approval: Approval, hooks: list[Hook]) -> None:
        shown = self.shown(tx, approval)
        for hook in hooks:
            links = self._links(tx, approval, hook)
            body = body_of(
                f"approval.{word}", tx.now, {**shown, **({"links": links} if links else {})}
            )
            add_delivery(
                tx,
                Delivery(
                    id=new_id("msg"), session_id=approval.session_id, approval_id=approval.id,
                    hook=hook.name, event=word, status=DeliveryStatus.PENDING, attempt=0, epoch=0,
                    body=body, error=None, created_at=tx.now, not_before=tx.now, finished_at=None,
                ),
            )  # fmt: skip
            go_on(tx, HOOK, hook.name)

    def _links(self, tx: Tx, approval: Approval, hook: Hook) -> list[dict[str, Any]]:
        if not hook.links_for or approval.decided_at is not None:
            return []
        return self.links(tx, approval, hook.links_for)


# Sends what is due, and tries again what did not arrive.
#
# Each hook has one job, which sends a few messages at once, but never two about one question. If
# this process ends during an attempt, the next process repeats it. So a receiver may get a message
# twice, and recognizes it by its id.

OnTimer = Callable[[Tx, Timer], None]
DELIVERY = "delivery"
"""The timer of the next attempt. Its key is the delivery."""
DELAYS = tuple(timedelta(seconds=seconds) for seconds in (5, 60, 300, 1_800, 7_200, 21_600, 54_000))
"""The times between attempts, before `spread`: eight attempts within about a day."""
_AT_ONCE = 4
_MARGIN = timedelta(seconds=2)
"""Between the end of an attempt and the moment when it counts as lost."""


class Sender(Struct, frozen=True, kw_only=True):
    """Makes the deliveries of every hook."""

    store: Store
    hooks: Mapping[str, Hook]
    counted: Callable[[str, str], None]
    """Told the hook and what came of an attempt: `sent`, `retried`, `failed`."""
    completed: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
    """A body with what is not kept in the database."""
    spread: Callable[[], float] = lambda: uniform(0.8, 1.2)  # noqa: S311 - spreads attempts
    """A random factor for delays, so that a receiver that comes back is not overloaded."""
    delays: tuple[timedelta, ...] = DELAYS

    def recover(self, tx: Tx) -> None:
        """After a start: send what is left, and give up what has no hook any more."""
        for delivery in pending_deliveries(tx):
            if delivery.hook in self.hooks:
                go_on(tx, HOOK, delivery.hook)
            else:
                self._give_up(tx, delivery, because("the hook no longer exists"))

    def before(self, others: OnTimer) -> OnTimer:
        """What carries out the timers of deliveries, and leaves all others to `others`."""

        def fire(tx: Tx, timer: Timer) -> None:
            if timer.kind != DELIVERY:
                others(tx, timer)
                return
            delivery = delivery_of(tx, timer.key)
            if delivery is not None and delivery.status is DeliveryStatus.PENDING:
                go_on(tx, HOOK, delivery.hook)

        return fire

    async def job(self, job: Job) -> None:
        """Send whatever is due for one hook."""
        hook = self.hooks.get(job.key)
        if hook is None:
            return

        async with posting(hook) as post, anyio.create_task_group() as group:
            for _ in range(_AT_ONCE):
                group.start_soon(self._send_due, hook, post)

    async def _send_due(self, hook: Hook, post: "Post") -> None:
        while (delivery := await self.store.write(self._take, hook)) is not None:
            problem = await self._attempt(post, delivery)
            outcome = await self.store.write(self._settle, delivery, problem)
            if outcome is not None:
                self.counted(hook.name, outcome)

    def _take(self, tx: Tx, hook: Hook) -> Delivery | None:
        until = tx.now + timedelta(seconds=hook.timeout) + _MARGIN
        while (delivery := due_delivery(tx, hook.name)) is not None:
            if take_delivery(tx, delivery, until):
                # If this process ends during the attempt, the timer repeats the attempt.
                set_timer(tx, DELIVERY, delivery.id, until)
                return replace(
                    delivery, epoch=delivery.epoch + 1, attempt=delivery.attempt + 1,
                    not_before=until,
                )  # fmt: skip
        return None

    async def _attempt(self, post: "Post", delivery: Delivery) -> str | None:
        try:
            body = json.dumps(await self.completed(delivery.body)).encode()
        except OSError as error:
            # A problem of this machine; it need not affect the next messages.
            return f"not made: {type(error).__name__}"
        return await post(delivery.id, body, int(self.store.clock().timestamp()))

    def _settle(self, tx: Tx, delivery: Delivery, problem: str | None) -> str | None:
        if problem is None:
            done = set_delivery(
                tx, delivery, DeliveryStatus.SENT, body={}, error=None, finished_at=tx.now
            )
            if done:
                drop_timer(tx, DELIVERY, delivery.id)
            return "sent" if done else None
        if delivery.attempt > len(self.delays):
            return self._give_up(tx, delivery, problem)
        again = tx.now + self.delays[delivery.attempt - 1] * self.spread()
        to = {"error": problem, "not_before": again}
        if not set_delivery(tx, delivery, DeliveryStatus.PENDING, **to):
            return None
        set_timer(tx, DELIVERY, delivery.id, again)
        return "retried"

    def _give_up(self, tx: Tx, delivery: Delivery, problem: str) -> str | None:
        if not set_delivery(tx, delivery, DeliveryStatus.FAILED, error=problem, finished_at=tx.now):
            return None
        log.note(
            tx, delivery.session_id, actor="gonogo", action="webhook.failed",
            subject=delivery.hook, delivery_id=delivery.id, approval_id=delivery.approval_id,
            event=delivery.event, attempts=delivery.attempt, error=problem,
        )  # fmt: skip
        drop_timer(tx, DELIVERY, delivery.id)
        return "failed"


# One message, posted once.

Post = Callable[[str, bytes, int], Awaitable[str | None]]
"""Posts a body under a message's id, at a time in seconds since 1970. Gives why it did not arrive,
without anything that the receiver said."""


@asynccontextmanager
async def posting(hook: Hook) -> AsyncGenerator[Post]:
    """Open a client that posts to one hook."""
    # Imported here because only hooks need it; the import takes 0.03 s.
    import httpx

    secure = hook.url.startswith("https:")
    async with httpx.AsyncClient(
        verify=await anyio.to_thread.run_sync(_trusted) if secure else False,
        follow_redirects=False,
        # No proxy or .netrc from the environment: messages go to the address in the hooks file.
        trust_env=False,
        timeout=hook.timeout,
        headers={"user-agent": f"gonogo/{__version__}", "content-type": "application/json"},
    ) as client:

        async def post(message_id: str, body: bytes, timestamp: int) -> str | None:
            return await _post(client, hook, message_id, body, timestamp)

        yield post


async def _post(
    client: "httpx.AsyncClient", hook: Hook, message_id: str, body: bytes, timestamp: int
) -> str | None:
    import httpx

    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(hook.secrets, message_id, timestamp, body),
    }
    try:
        with anyio.fail_after(hook.timeout):
            # The answer's body is of no interest, and never read.
            async with client.stream("POST", hook.url, content=body, headers=headers) as answer:
                return None if answer.is_success else f"HTTP {answer.status_code}"
    except (TimeoutError, httpx.TimeoutException):
        return because("it did not answer in time")
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return type(error).__name__


@cache
def _trusted() -> ssl.SSLContext:
    # Reading the certificate authorities takes tens of milliseconds.
    import httpx

    return httpx.create_ssl_context()
