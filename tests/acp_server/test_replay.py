"""A session that is loaded is shown as it went: what was said, the calls, and the plan as it is."""

import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from gonogo.acp_server import replay
from gonogo.acp_server.session import plain
from gonogo.acp_server.updates import ShownPlan, Updates
from gonogo.client import Client
from gonogo.domain.views import SessionView

AT = "2026-01-02T03:04:05Z"
SESSION = SessionView.model_validate({
    "session_id": "s1", "workspace": "/project", "agent": "coder", "last_seq": 9,
    "created_at": AT, "updated_at": AT,
})  # fmt: skip
PLAN = {
    "plan_id": "p1", "session_id": "s1", "goal": "Small", "original_task": "t", "revision": 2,
    "digest": "sha256:0", "is_approved": True, "status": "running", "critical_path": ["app"],
    "created_at": AT, "subtasks": [{
        "id": "app", "description": "Do app", "type": "action", "dependencies": [],
        "estimated_time": "5 min", "status": "running", "attempt": 1, "agent": "coder",
    }],
}  # fmt: skip
ENTRY = {
    "content": "Do app", "priority": "high", "status": "in_progress",
    "_meta": {"id": "app", "dependencies": [], "agent": "coder", "type": "action",
              "estimated_time": "5 min", "status": "running", "plan_id": "p1", "revision": 2},
}  # fmt: skip


def message(role: str, content: str = "", **more: Any) -> dict[str, Any]:
    return {"message_id": "m", "role": role, "content": content, "created_at": AT, **more}


def called(name: str, call_id: str = "c", **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": arguments}


def of_text(kind: str, text: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


async def shown(
    *messages: dict[str, Any], session: SessionView = SESSION, plans: Any = (), **paths: Any
) -> list[dict[str, Any]]:
    """What an editor is sent of a conversation."""
    known = {
        "/api/v1/sessions/s1/history": {"session_id": "s1", "messages": messages},
        "/api/v1/plans": {"plans": plans, "total": len(plans)}, **paths,
    }  # fmt: skip
    found: list[dict[str, Any]] = []

    def answered(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/v1/plans":
            assert request.url.params["session_id"] == "s1"
            assert request.url.params["limit"] == "1"
        return httpx.Response(200, json=known[request.url.path])

    async def show(*updates: Any) -> None:
        found.extend(plain(update) for update in updates)

    dialogue: Any = SimpleNamespace(updates=Updates("/project", ShownPlan()), show=show)
    transport = httpx.MockTransport(answered)
    async with Client("http://127.0.0.1:1", token="t", transport=transport) as client:
        await replay(client, dialogue, session)
    return found


async def test_what_was_said_is_told_by_whom_and_of_a_subtask_not_what_it_was_told():
    assert await shown(
        message("user", "Make it"),
        message("user", "Do app", subtask_id="app"),
        message("assistant", "I make it."),
        message("assistant", "Made.", subtask_id="app"),
        message("assistant", ""),
    ) == [
        of_text("user_message_chunk", "Make it"),
        of_text("agent_message_chunk", "I make it.\n\n"),
        of_text("agent_message_chunk", "[app] Made.\n\n"),
    ]


async def test_calls_are_shown_with_what_came_of_them():
    calls = [called("read_file", path="a"), called("create_plan", "p"), called("list_files", "d")]
    begun = {"sessionUpdate": "tool_call", "status": "pending"}
    over = {"sessionUpdate": "tool_call_update", "status": "completed"}

    assert await shown(
        message("assistant", "I look.", tool_calls=calls, subtask_id="app"),
        message("tool", json.dumps({"content": "x"}), tool_name="read_file", call_id="c"),
        message("tool", "{}", tool_name="create_plan", call_id="p"),
        message("tool", "no JSON", tool_name="list_files", call_id="d"),
        message("tool", "{}", tool_name="list_files"),
    ) == [
        of_text("agent_message_chunk", "[app] I look.\n\n"),
        {**begun, "toolCallId": "c", "title": "[app] read_file a", "kind": "read",
         "rawInput": {"path": "a"}, "locations": [{"path": "/project/a"}]},
        {**begun, "toolCallId": "d", "title": "[app] list_files", "kind": "search", "rawInput": {}},
        {**over, "toolCallId": "c", "rawOutput": {"content": "x"}},
        {**over, "toolCallId": "d", "rawOutput": "no JSON"},
    ]  # fmt: skip


@pytest.mark.parametrize("active", [True, False])
async def test_the_plan_is_shown_as_it_stands(active):
    update = {"active_plan_id": "p1"} if active else {}
    session = SESSION.model_copy(update=update)
    paths = {"/api/v1/plans/p1": PLAN} if active else {}

    found = await shown(session=session, plans=() if active else (PLAN,), **paths)

    assert found == [{"sessionUpdate": "plan", "entries": [ENTRY]}]


async def test_without_a_plan_none_is_shown():
    assert await shown() == []
