"""Writes what is to be told, in the transaction that makes it true."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from msgspec import Struct

from gonogo.domain.records import Approval
from gonogo.domain.reviews import Delivery, DeliveryStatus
from gonogo.domain.strict_json import canonical_json
from gonogo.store import Tx, go_on, new_id
from gonogo.store import events as log
from gonogo.store.calls import approval_of
from gonogo.store.columns import stamp
from gonogo.store.jobs import add_delivery
from gonogo.webhooks.config import Hook

# What a message says, within bounds: a receiver is told of a question, not handed its files.

LONGEST_TEXT = 4_000
"""Characters of one text."""
LONGEST_LIST = 200
LARGEST = 64 * 1024
"""Bytes of a body, without its links."""
NOTE = "Shortened: the whole question is in gonogo"


def body_of(event: str, now: datetime, data: Mapping[str, Any]) -> dict[str, Any]:
    """A message in the envelope of Standard Webhooks.

    Args:
        data: What is told; `approval` is left without its details where it would be too large.
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
"""With a hook's word for an event behind it: the event's type in the log."""


class Announcer(Struct, frozen=True, kw_only=True):
    """Has every hook told of the questions that it wants to hear of."""

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
