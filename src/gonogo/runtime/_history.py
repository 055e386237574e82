"""A session's messages as they are shown."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from gonogo.domain.records import MAIN, CallRow
from gonogo.domain.tool_calls import MESSAGE, PlanAccount, Reply, ToolAnswer, ToolRequest
from gonogo.domain.views import MessageView
from gonogo.store import Connection
from gonogo.store.calls import thread_calls
from gonogo.store.sessions import MessageRow, history, history_in


def history_of(conn: Connection, session_id: str) -> Iterator[MessageView]:
    """Every message in order."""
    # A conversation's calls are read once, however many of its messages made some.
    calls: dict[str, dict[str, CallRow]] = {}
    for row in history(conn, session_id):
        if row.thread not in calls:
            found = thread_calls(conn, session_id, row.thread)
            calls[row.thread] = {call.id: call for call in found}
        yield from _views(row, calls[row.thread])


def said_by_people(conn: Connection, session_id: str) -> Iterator[MessageView]:
    """What people said, in order."""
    for row in history_in(conn, session_id, MAIN):
        if row.body["role"] == "user":
            yield from _views(row, {})


def _views(row: MessageRow, calls: dict[str, CallRow]) -> Iterator[MessageView]:
    message = MESSAGE.validate_python(row.body)
    place = _place_of(row)
    if isinstance(message, ToolAnswer | PlanAccount):
        return
    if not isinstance(message, Reply):
        yield MessageView(role="user", content=message.content, **place)
        return
    asked = [call.model_dump(mode="json", exclude_none=True) for call in message.calls]
    yield MessageView(role="assistant", content=message.text, tool_calls=asked or None, **place)
    yield from _results(message.calls, calls, place)


def _place_of(row: MessageRow) -> dict[str, Any]:
    parts = row.thread.split("#")[0].rsplit("/", 1)
    subtask_id = parts[1] if len(parts) == 2 else None
    return {"agent": row.agent, "subtask_id": subtask_id, "created_at": row.created_at}


def _results(
    asked: Iterable[ToolRequest], calls: dict[str, CallRow], place: dict[str, Any]
) -> Iterator[MessageView]:
    made = [calls[each.id] for each in asked if each.id in calls]
    for call in sorted(made, key=lambda call: call.position):
        if call.finished_at is not None:
            content = call.error if call.error is not None else _text(call.result)
            yield MessageView(
                role="tool", call_id=call.id, tool_name=call.tool, content=content, **place
            )


def _text(result: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(result, ensure_ascii=False)
