"""What another agent is told, as a whole: tools, plans, questions, results, and what is wrong.

The server behind the door is a function that answers each path; the door's own protocol is spoken
over files.
"""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from gonogo import __version__
from gonogo.client import Client
from gonogo.domain.errors import InvalidMessage, NotFound
from gonogo.mcp_server import OFFERS, serve_agents

AT = "2026-01-02T03:04:05Z"
SESSION = {
    "session_id": "s1", "workspace": "/w", "agent": "architect", "last_seq": 1, "created_at": AT,
    "updated_at": AT,
}  # fmt: skip
SUBTASK = {
    "id": "app", "description": "Do app", "type": "action", "dependencies": [],
    "estimated_time": "5 min", "status": "pending", "attempt": 0,
}  # fmt: skip
PLAN = {
    "plan_id": "p1", "session_id": "s1", "goal": "Small", "original_task": "t", "revision": 2,
    "digest": "sha256:0", "is_approved": False, "status": "awaiting_approval",
    "subtasks": [SUBTASK], "critical_path": [], "created_at": AT,
}  # fmt: skip
QUESTION = {
    "approval_id": "a1", "request_id": "r", "kind": "plan", "request_type": "plan",
    "session_id": "s1", "subject": "Carry it out?", "details": {}, "reason": "why",
    "digest": "sha256:0", "status": "pending", "created_at": AT,
}  # fmt: skip
PROBLEM = {"type": "about:blank", "title": "x", "status": 404, "code": "not_found"}
GONE = httpx.Response(404, json={**PROBLEM, "detail": "It is not there"})
TOLD = {
    "approval_id": "a1", "kind": "plan", "subject": "Carry it out?", "reason": "why",
    "session_id": "s1", "asked_at": "2026-01-02T03:04:05+00:00",
    "answered_by": "a person: gonogo approvals show a1",
}  # fmt: skip


def pending(*questions: Any) -> dict[str, Any]:
    return {"session_id": "s1", "pending_approvals": [*questions], "count": len(questions)}


class Behind:
    """The server: what it answers by path, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.paths: dict[str, Any] = {
            "/sessions/s1": SESSION, "/sessions/s1/pending-approvals": pending(),
            "/plans": {"plans": [PLAN], "total": 1}, "/plans/p1": PLAN, "/sessions": SESSION,
        }  # fmt: skip

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        given = json.loads(request.content) if request.content else dict(request.url.params)
        self.asked.append((request.method, path, given))
        found = self.paths.get(path, GONE)
        if isinstance(found, httpx.Response):
            return found
        return httpx.Response(201 if request.method == "POST" else 200, json=found)

    def says(self, *events: dict[str, Any]) -> None:
        """Have a message answered by these events."""
        frames = [f"event: message\ndata: {json.dumps(event)}\n\n" for event in events]
        done = 'event: done\ndata: {"type": "done", "is_final": true}\n\n'
        self.paths["/agent/message/stream"] = httpx.Response(
            200, text="".join(frames) + done, headers={"Content-Type": "text/event-stream"}
        )


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
def ask(behind: Behind) -> Callable[..., Any]:
    """What a tool of the door answers."""

    async def answered(name: str, **arguments: Any) -> dict[str, Any]:
        offer = next(offer for offer in OFFERS if offer.name == name)
        transport = httpx.MockTransport(behind)
        async with Client("http://127.0.0.1:1", token="t", transport=transport) as client:
            with anyio.fail_after(60):
                return await offer.run(client, offer.arguments.model_validate(arguments))

    return answered


async def test_a_plan_is_told_with_its_subtasks_and_nothing_that_is_not_there(ask, behind):
    plain = {
        "plan_id": "p1", "session_id": "s1", "goal": "Small", "status": "awaiting_approval",
        "revision": 2, "waits_for": [],
        "subtasks": [
            {"id": "app", "description": "Do app", "status": "pending", "dependencies": []}
        ],
    }  # fmt: skip
    assert await ask("plan_status", plan_id="p1") == plain
    assert await ask("plan_status", session_id="s1") == plain
    assert ("GET", "/plans", {"session_id": "s1", "limit": "1"}) in [
        (method, path, {name: given[name] for name in ("session_id", "limit") if name in given})
        for method, path, given in behind.asked
    ]
    more = {"agent": "coder", "tool": "write_file", "dependencies": ["doc"]}
    behind.paths["/plans/p1"] = {
        **PLAN, "pause_reason": "quota", "feedback": "Bluer",
        "subtasks": [{**SUBTASK, **more, "description": "x" * 8_001}],
    }  # fmt: skip
    behind.paths["/sessions/s1/pending-approvals"] = pending(QUESTION)
    cut = "x" * 8_000 + " [… 1 characters left out …]"
    assert await ask("plan_status", plan_id="p1") == {
        **plain, "pause_reason": "quota", "feedback": "Bluer", "waits_for": [TOLD],
        "subtasks": [{"id": "app", "description": cut, "status": "pending", **more}],
    }  # fmt: skip


async def test_a_session_without_a_plan_and_one_that_nobody_may_ask_about(ask, behind):
    behind.paths["/plans"] = {"plans": [], "total": 0}
    del behind.paths["/sessions/s1/pending-approvals"]
    nothing = {"session_id": "s1", "plan_id": None, "waits_for": []}
    assert await ask("plan_status", session_id="s1") == nothing
    with pytest.raises(NotFound):
        await ask("plan_status", session_id="s2")
    for both in ({}, {"plan_id": "p1", "session_id": "s1"}):
        with pytest.raises(InvalidMessage) as refused:
            await ask("plan_status", **both)
        assert str(refused.value) == "plan_status takes either a plan_id or a session_id"


async def test_a_question_is_told_with_all_that_tells_it_from_others(ask, behind):
    more = {"plan_id": "p1", "subtask_id": "app"}
    whole = {**QUESTION, **more, "expires_at": "2026-01-03T03:04:05Z", "subject": "x" * 8_001}
    behind.paths["/approvals"] = {"approvals": [whole], "count": 1}

    cut = "x" * 8_000 + " [… 1 characters left out …]"
    expires = {"expires_at": "2026-01-03T03:04:05+00:00"}
    told = {**TOLD, **more, **expires, "subject": cut}
    assert await ask("pending_approvals", session_id="s1") == {"pending": [told], "count": 1}
    [(_, path, given)] = behind.asked
    assert (path, given["status"], given["session_id"]) == ("/approvals", "pending", "s1")
    behind.paths["/approvals"] = {"approvals": [QUESTION] * 101, "count": 101}
    many = await ask("pending_approvals")
    assert (len(many["pending"]), many["count"]) == (100, 101)


async def test_what_came_of_a_plan_is_told_subtask_by_subtask_and_bounded(ask, behind):
    long = {
        "text": "x" * 8_001, "list": [*range(101)], "n": 5, "deep": [{"a": None}],
        **{f"k{n}": n for n in range(100)},
    }  # fmt: skip
    behind.paths["/plans/p1"] = {
        **PLAN, "status": "failed", "finished_at": AT,
        "subtasks": [
            {**SUBTASK, "status": "completed", "result": long},
            {**SUBTASK, "id": "doc", "status": "failed", "error": {"message": "It broke"}},
            {**SUBTASK, "id": "end", "status": "skipped", "reason": "Not needed"},
        ],
    }  # fmt: skip

    told = await ask("plan_result", plan_id="p1")

    first, *others = told.pop("subtasks")
    assert told == {
        "plan_id": "p1", "session_id": "s1", "goal": "Small", "status": "failed", "is_over": True,
    }  # fmt: skip
    assert others == [
        {"id": "doc", "status": "failed", "error": {"message": "It broke"}},
        {"id": "end", "status": "skipped", "reason": "Not needed"},
    ]
    result = first.pop("result")
    assert first == {"id": "app", "status": "completed"}
    assert result["text"] == "x" * 8_000 + " [… 1 characters left out …]"
    assert (result["list"], result["n"]) == ([*range(100)], 5)
    assert result["deep"] == [{"a": None}]
    assert list(result) == [*long][:100]
    behind.paths["/plans/p1"] = PLAN
    running = await ask("plan_result", plan_id="p1")
    assert (running["is_over"], running["subtasks"]) == (
        False,
        [{"id": "app", "status": "pending"}],
    )


async def test_what_is_wanted_is_said_to_the_architect_and_what_it_says_is_told(ask, behind):
    behind.says(
        {"type": "assistant_message", "token": "I ", "content": "I ", "is_final": False},
        {"type": "assistant_message", "content": "I look.", "seq": 1},
        {"type": "assistant_message", "content": "", "seq": 2},
        {"type": "steered", "content": "Aside", "seq": 3},
        {"type": "assistant_message", "content": "I plan.", "seq": 4, "is_final": True},
    )
    told = await ask("propose_plan", task="Make it")
    assert (told["plan_id"], told["said"], "note" in told) == ("p1", "I look.\n\nI plan.", False)
    asked = [(path, given) for method, path, given in behind.asked if method == "POST"]
    message = {"type": "user_message", "content": "Make it", "agent_type": "architect"}
    assert asked[0][0] == "/sessions"
    assert asked[1] == ("/agent/message/stream", {"session_id": "s1", "message": message})
    behind.asked.clear()
    await ask("propose_plan", task="Again", session_id="s1")
    assert [path for method, path, _ in behind.asked if method == "POST"] == [
        "/agent/message/stream"
    ]


@pytest.mark.parametrize(
    ("more", "said"), [({"content": "It is over"}, "It is over"), ({}, "{'type': 'error'")]
)
async def test_an_error_in_the_place_of_a_plan_is_an_error_of_the_door(ask, behind, more, said):
    behind.says({"type": "error", "error": "x", "code": "conflict", "is_final": True, **more})
    with pytest.raises(InvalidMessage) as refused:
        await ask("propose_plan", task="Make it")
    assert str(refused.value).startswith(said)


async def test_who_does_not_wait_is_told_where_to_look(ask, behind):
    async def silence() -> AsyncIterator[bytes]:
        await anyio.sleep_forever()
        yield b""

    behind.paths["/agent/message/stream"] = httpx.Response(
        200, content=silence(), headers={"Content-Type": "text/event-stream"}
    )
    told = await ask("propose_plan", task="Make it", wait_seconds=0)
    assert told["note"] == "The work continues; ask plan_status with the session_id for the result."
    assert (told["plan_id"], told["said"]) == ("p1", "")


async def test_who_does_not_wait_has_said_it_all_the_same(behind):
    async def slow(request: httpx.Request) -> httpx.Response:
        await anyio.lowlevel.checkpoint()
        return behind(request)

    behind.says({"type": "assistant_message", "content": "I plan.", "seq": 1, "is_final": True})
    offer = OFFERS[0]
    given = offer.arguments.model_validate({"task": "x", "session_id": "s1", "wait_seconds": 0})
    transport = httpx.MockTransport(slow)
    async with Client("http://127.0.0.1:1", token="t", transport=transport) as client:
        with anyio.fail_after(60):
            await offer.run(client, given)
    assert ("POST", "/agent/message/stream") in [each[:2] for each in behind.asked]


@pytest.mark.parametrize(
    ("name", "arguments", "fits"),
    [
        ("propose_plan", {"task": "x" * 100_000, "wait_seconds": 600}, True),
        ("propose_plan", {"task": "x" * 100_001}, False), ("propose_plan", {"task": ""}, False),
        ("propose_plan", {"task": "x", "wait_seconds": 601}, False),
        ("propose_plan", {"task": "x", "wait_seconds": -1}, False),
        ("plan_result", {"plan_id": "_" + "a" * 199}, True),
        ("plan_result", {"plan_id": "a" * 201}, False),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_the_arguments_of_a_tool_have_bounds(name, arguments, fits):
    model = next(offer.arguments for offer in OFFERS if offer.name == name)
    with suppress(ValueError):
        assert model.model_validate(arguments).model_dump(exclude_unset=True) == arguments
        assert fits
        return
    assert not fits


def test_who_says_nothing_waits_for_three_quarters_of_a_minute():
    plan = next(offer.arguments for offer in OFFERS if offer.name == "propose_plan")
    assert plan.model_validate({"task": "x"}).model_dump() == {
        "task": "x", "session_id": None, "wait_seconds": 45,
    }  # fmt: skip


@pytest.fixture
def speak(behind: Behind, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """What the door writes to whoever says hello and then these lines."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {},
             "clientInfo": {"name": "x", "version": "1"}}  # fmt: skip
    head = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    opened: list[int] = []

    async def spoken(*lines: dict[str, Any]) -> dict[int, Any]:
        sent = [*head, *({"jsonrpc": "2.0", "id": n, **each} for n, each in enumerate(lines, 1))]
        theirs, ours = os.pipe()
        read, write = os.pipe()
        opened.extend((theirs, ours, read, write))
        os.write(ours, "".join(f"{json.dumps(each)}\n\n" for each in sent).encode())
        found: dict[int, Any] = {}
        transport = httpx.MockTransport(behind)
        async with (
            Client("http://127.0.0.1:1", token="t", transport=transport) as client,
            anyio.create_task_group() as group,
        ):
            group.start_soon(serve_agents, client, theirs, write)
            held = b""
            with anyio.fail_after(60):
                while len(found) <= len(lines):
                    await anyio.wait_readable(read)
                    *whole, held = (held + os.read(read, 65_536)).split(b"\n")
                    answers = [json.loads(line) for line in whole]
                    found |= {each["id"]: each["result"] for each in answers}
            group.cancel_scope.cancel()
        return found

    yield spoken
    for handle in opened:
        os.close(handle)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


async def test_the_door_says_who_it_is_and_what_it_offers(speak):
    found = await speak({"method": "tools/list", "params": {}})

    assert found[0]["serverInfo"] == {"name": "gonogo", "version": __version__}
    assert found[0]["instructions"].endswith("tell your user what waits.")
    tools = found[1]["tools"]
    looks = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}
    assert [(each["name"], each["annotations"]) for each in tools] == [
        ("propose_plan", {**looks, "readOnlyHint": False}),
        ("plan_status", looks), ("pending_approvals", looks), ("plan_result", looks),
    ]  # fmt: skip
    assert [each["description"] for each in tools] == [offer.description for offer in OFFERS]
    assert tools[3]["inputSchema"] == {
        "type": "object", "additionalProperties": False, "description": "Which plan.",
        "required": ["plan_id"],
        "properties": {"plan_id": {
            "type": "string", "title": "Plan Id", "description": "The plan.",
            "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$",
        }},
    }  # fmt: skip
    words = tools[0]["inputSchema"]["properties"]["wait_seconds"]
    assert words["description"] == "How long to wait; the work continues in any case."


async def test_an_answer_is_text_and_a_structure_and_an_error_has_its_word(speak, behind):
    behind.paths["/approvals"] = {"approvals": [{**QUESTION, "subject": "Ж"}], "count": 1}
    found = await speak(
        call("pending_approvals"), call("decide", approval_id="a1"), call("plan_result"),
        call("plan_result", plan_id="p2"),
        {"method": "tools/call", "params": {"name": "plan_status"}},
    )  # fmt: skip

    told = {"pending": [{**TOLD, "subject": "Ж"}], "count": 1}
    assert found[1]["structuredContent"] == told
    assert json.loads(found[1]["content"][0]["text"]) == told
    assert "Ж" in found[1]["content"][0]["text"]
    said = [(each["isError"], each["content"][0]["text"]) for _, each in sorted(found.items())[2:]]
    assert said == [
        (True, "unknown_tool: There is no tool 'decide'; see tools/list"),
        (True, "invalid_arguments: plan_id: Field required"),
        (True, "not_found: It is not there"),
        (True, "invalid_message: plan_status takes either a plan_id or a session_id"),
    ]
