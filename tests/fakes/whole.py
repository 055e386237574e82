"""All that a story tells: to clients, in the audit log, and to models; a line of JSON for each."""

import json
import re
from collections.abc import Iterator
from typing import Any

from fakes.world import World
from gonogo.domain.tool_calls import ModelRequest
from gonogo.domain.views import ApprovalFilter

_ID = re.compile(r"\b(?:[a-z]+_)?[0-9a-f]{24,64}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00| UTC)?")
_MEASURED = re.compile(r'((?:duration_seconds|duration_ms|waited_seconds|tokens)\\*": )[0-9.]+')
_LEFT_OUT = {"seq", "ts", "session_id", "chain", "prev_hash", "hash", "seal", "salt"}
_OF_APPROVALS = {"events", "created_at", "expires_at", "decided_at", "session_id"}


async def whole(world: World) -> str:
    """All of it, without what differs from run to run: names of things, times and folders."""
    lines = [
        *[_line("told", each) for each in await world.log() if "seq" in each],
        *[_line("noted", each.model_dump(mode="json")) for each in await world.audit()],
        *[_line("asked", each) for each in await _questions(world)],
        *[_line("model", each) for each in _requests(world.model.requests)],
    ]
    return _named("".join(f"{line}\n" for line in lines).replace(str(world.root), ""))


def _line(kind: str, body: dict[str, Any]) -> str:
    said = {name: value for name, value in body.items() if name not in _LEFT_OUT}
    kept = {name: value for name, value in said.items() if value is not None}
    return f"{kind} {json.dumps(kept, ensure_ascii=False, sort_keys=True)}"


async def _questions(world: World) -> list[dict[str, Any]]:
    """Every question, oldest first, with what became of it."""
    wanted = ApprovalFilter(session_id=world.session)
    found = await world.runtime.approvals.page(world.runtime.owner, wanted)
    return [each.model_dump(mode="json", exclude=_OF_APPROVALS) for each in found.approvals]


def _requests(requests: list[ModelRequest]) -> Iterator[dict[str, Any]]:
    """What each request adds to the one before it in its conversation."""
    known: dict[str, int] = {}
    for each in requests:
        said = known.get(each.thread, 0)
        known[each.thread] = len(each.messages)
        yield {
            "thread": each.thread, "agent": each.agent,
            "system": each.system.rpartition("\n\n")[2],
            "tools": [tool.name for tool in each.tools],
            "messages": [_message(message) for message in each.messages[said:]],
        }  # fmt: skip


def _message(message: Any) -> dict[str, Any]:
    told = message.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return {"role": message.role, **{k: v for k, v in told.items() if k not in {"usage", "parts"}}}


def _named(text: str) -> str:
    """The text with the names of things in the order in which they came."""
    known: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        kind = found[0].partition("_")[0] if "_" in found[0] else "hash"
        return known.setdefault(found[0], f"<{kind} {len(known) + 1}>")

    return _MEASURED.sub(r"\g<1>0", _TIME.sub("<time>", _ID.sub(name, text)))
