"""Each method of the protocol asks the server for just what it means, and is answered whole."""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from acp import schema

from fakes.until import until
from gonogo import __version__
from gonogo.acp_server import Pipe, serve_editor
from gonogo.acp_server.session import Editor
from gonogo.client import Client

AT = "2026-01-02T03:04:05Z"
SESSION = {
    "session_id": "s1", "workspace": "/project", "agent": "coder", "last_seq": 9,
    "created_at": AT, "updated_at": AT,
}  # fmt: skip
AGENT = {"name": "coder", "description": "Codes.", "tools": [], "may_write": [], "source": "x"}
MODES = {
    "currentModeId": "coder",
    "availableModes": [{"id": "coder", "name": "Coder", "description": "Codes."}],
}  # fmt: skip
STREAM = {"Content-Type": "text/event-stream"}
DONE = 'event: done\ndata: {"type": "done", "is_final": true}\n\n'
QUESTION = {
    "approval_id": "a1", "request_id": "r", "kind": "tool", "request_type": "tool",
    "session_id": "s1", "subject": "write_file", "details": {}, "reason": "why", "digest": "d",
    "status": "pending", "created_at": AT, "call_id": "c1", "tool_name": "write_file",
    "arguments": {"path": "a"},
}  # fmt: skip
FORBIDDEN = {
    "type": "about:blank", "title": "x", "status": 403, "code": "forbidden", "detail": "Not there",
}  # fmt: skip


PLAN = {
    "plan_id": "p1", "session_id": "s1", "goal": "Small", "original_task": "t", "revision": 1,
    "digest": "sha256:0", "is_approved": True, "status": "running", "critical_path": [],
    "created_at": AT, "subtasks": [],
}  # fmt: skip


def invalid(said: str, **data: Any) -> dict[str, Any]:
    """The error of a request that cannot be."""
    return {"code": -32602, "message": said, "data": data or None}


class Behind:
    """The server: what it answers by path, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.happens, self.events = anyio.create_memory_object_stream[dict[str, Any]](10)
        self.then: dict[str, dict[str, Any]] = {}
        """What happens in the session once a path was asked for."""
        self.paths: dict[str, Any] = {
            "/sessions": SESSION, "/sessions/s1": SESSION, "/agents": {"agents": [AGENT]},
            "/sessions/s1/pending-approvals": {
                "session_id": "s1", "pending_approvals": [], "count": 0,
            },
            "/sessions/s1/history": {"session_id": "s1", "messages": []},
            "/plans": {"plans": [], "total": 0}, "/servers": {"servers": []},
        }  # fmt: skip

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        if path.endswith("/events") and path not in self.paths:
            return httpx.Response(200, content=self._frames(), headers=STREAM)
        given = json.loads(request.content) if request.content else dict(request.url.params)
        self.asked.append((request.method, path, given))
        if path in self.then:
            await self.happens.send(self.then[path])
        if request.method == "DELETE":
            return httpx.Response(204)
        found = self.paths[path]
        if isinstance(found, httpx.Response):
            return found
        return httpx.Response(201 if request.method == "POST" else 200, json=found)

    async def _frames(self) -> AsyncIterator[bytes]:
        async for event in self.events:
            yield f"event: message\nid: {event['seq']}\ndata: {json.dumps(event)}\n\n".encode()

    def of(self, method: str) -> list[tuple[str, Any]]:
        """What was asked by a method."""
        return [(path, given) for way, path, given in self.asked if way == method]


class Pad:
    """An editor by hand: asks, and keeps what it is told."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out = into, out
        self._held, self._number = b"", 0
        self.told: list[dict[str, Any]] = []
        self.questions: list[dict[str, Any]] = []
        self.forms: list[dict[str, Any]] = []
        self.choice: str | None = None
        """What the person chooses; None closes a question."""
        self.fields: dict[str, Any] | None = None
        """What they fill in; None closes a form."""

    async def ask(self, method: str, **params: Any) -> Any:
        """The result of a request, or its error."""
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        os.write(self._into, json.dumps(request).encode() + b"\n")
        while True:
            message = await self._message()
            if "method" not in message and message["id"] == self._number:
                return message["result"] if "result" in message else message["error"]
            self.told.append(message["params"]["update"])

    def note(self, method: str, **params: Any) -> None:
        """Say something that is not answered."""
        note = {"jsonrpc": "2.0", "method": method, "params": params}
        os.write(self._into, json.dumps(note).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        """The next update."""
        return (await self._message())["params"]["update"]

    async def _message(self) -> dict[str, Any]:
        """What comes next; the person answers what they are asked."""
        while "id" in (message := await self._line()) and "method" in message:
            if message["method"] == "session/request_permission":
                self.questions.append(message["params"])
                chosen = {"outcome": "selected", "optionId": self.choice}
                result: Any = {"outcome": chosen if self.choice else {"outcome": "cancelled"}}
            else:
                self.forms.append(message["params"])
                filled = {"action": "accept", "content": self.fields}
                result = {"action": "decline"} if self.fields is None else filled
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            os.write(self._into, json.dumps(answer).encode() + b"\n")
        return message

    async def _line(self) -> dict[str, Any]:
        with anyio.fail_after(60):
            while b"\n" not in self._held:
                await anyio.wait_readable(self._out)
                self._held += os.read(self._out, 65_536)
        line, _, self._held = self._held.partition(b"\n")
        return json.loads(line)


@pytest.fixture
def behind() -> Iterator[Behind]:
    behind = Behind()
    with behind.happens, behind.events:
        yield behind


@pytest.fixture
def editor(behind: Behind) -> Callable[..., Any]:
    """A door to the server, and an editor at it: `async with editor() as pad`."""

    @asynccontextmanager
    async def opened(locale: str | None = None) -> AsyncIterator[Pad]:
        theirs, into = os.pipe()
        out, write = os.pipe()
        transport = httpx.MockTransport(behind)
        async with (
            Client("http://127.0.0.1:1", token="t", transport=transport) as client,
            anyio.create_task_group() as group,
        ):
            group.start_soon(serve_editor, client, Pipe(theirs, write), locale)
            yield Pad(into, out)
            os.close(into)
        for handle in (theirs, out, write):
            os.close(handle)

    return opened


async def test_hello_is_answered_with_all_that_the_agent_can(editor):
    async with editor() as pad:
        assert await pad.ask("initialize", protocolVersion=1) == {
            "protocolVersion": 1, "authMethods": [],
            "agentInfo": {"name": "gonogo", "title": "gonogo", "version": __version__},
            "agentCapabilities": {
                "auth": {}, "loadSession": True,
                "mcpCapabilities": {"acp": False, "http": False, "sse": False},
                "promptCapabilities": {"audio": False, "embeddedContext": True, "image": False},
                "sessionCapabilities": {"close": {}, "delete": {}, "list": {}, "resume": {}},
            },
        }  # fmt: skip
        assert await pad.ask("authenticate", methodId="x") == {}


async def test_a_session_is_opened_in_the_editors_folder_and_the_operators_language(editor, behind):
    async with editor("ru") as pad:
        answer = await pad.ask("session/new", cwd="/project", mcpServers=[])
        commands = await pad.hear()
        again = await pad.ask("session/load", sessionId="s1", cwd="/project", mcpServers=[])
        back = await pad.ask("session/resume", sessionId="s1", cwd="/project")

    assert behind.of("POST") == [("/sessions", {"workspace": "/project", "locale": "ru"})]
    assert answer == {"sessionId": "s1", "modes": MODES}
    assert again == back == {"modes": MODES}
    assert commands["sessionUpdate"] == "available_commands_update"
    assert not commands["availableCommands"][0]["description"].isascii()
    plans = [given for path, given in behind.of("GET") if path == "/plans"]
    assert plans == [{"session_id": "s1", "limit": "1", "offset": "0"}]


async def test_a_folder_that_the_server_may_not_use_is_refused_with_what_helps(editor, behind):
    behind.paths["/sessions"] = httpx.Response(403, json=FORBIDDEN)
    async with editor() as pad:
        refused = await pad.ask("session/new", cwd="/other", mcpServers=[])
        relative = await pad.ask("session/new", cwd="other", mcpServers=[])

    assert (refused["code"], refused["data"]["code"]) == (-32001, "forbidden")
    assert refused["data"]["params"]["error"] == "Not there"
    assert refused["message"].startswith("Not there. Start the agent in that folder (gonogo acp -C")
    assert relative == invalid("cwd: it must be an absolute path", code="invalid_message")


async def test_servers_that_are_not_known_here_are_named_once(editor, behind):
    behind.paths["/servers"] = {"servers": [
        {"name": "docs", "place": "x", "state": "idle", "tools": [], "refused": {}, "agents": []}
    ]}  # fmt: skip
    offered = [{"name": name, "command": "x", "args": [], "env": []} for name in ("b", "docs", "a")]
    async with editor() as pad:
        await pad.ask("session/new", cwd="/project", mcpServers=offered)
        commands, said = await pad.hear(), await pad.hear()
        await pad.ask("session/load", sessionId="s1", cwd="/project", mcpServers=offered)
        await pad.hear()
        told = [*pad.told, said]
        behind.paths["/servers"] = httpx.Response(403, json=FORBIDDEN)
        offered.append({"name": "c", "command": "x", "args": [], "env": []})
        await pad.ask("session/load", sessionId="s1", cwd="/project", mcpServers=offered)
        await pad.hear()
        more = await pad.hear()

    assert commands["sessionUpdate"] == "available_commands_update"
    assert [each["content"]["text"] for each in told if "content" in each] == [
        said["content"]["text"]
    ]
    start = "The MCP servers that this editor offers are not used: {}. They would run with your"
    assert said["content"]["text"].startswith(start.format("a, b"))
    assert said["content"]["text"].endswith("\n\n")
    assert more["content"]["text"].startswith(start.format("c, docs"))


async def test_sessions_are_listed_a_page_at_a_time(editor, behind):
    titled = {**SESSION, "session_id": "s2", "title": "T", "workspace": "/other"}
    behind.paths["/sessions"] = {"sessions": [SESSION, titled], "total": 3}
    first = {"sessionId": "s1", "cwd": "/project", "updatedAt": "2026-01-02T03:04:05+00:00"}
    second = {**first, "sessionId": "s2", "cwd": "/other", "title": "T"}
    async with editor() as pad:
        assert await pad.ask("session/list") == {"sessions": [first, second], "nextCursor": "2"}
        assert await pad.ask("session/list", cursor="1") == {"sessions": [first, second]}
        assert await pad.ask("session/list", cursor="0", cwd="/x/../other/.") == {
            "sessions": [second], "nextCursor": "2",
        }  # fmt: skip
        behind.paths["/sessions"] = {"sessions": [], "total": 3}
        assert await pad.ask("session/list", cursor="2") == {"sessions": []}
        for cursor in ("x", "-1", "1" * 10, "\u0661", ""):
            assert await pad.ask("session/list", cursor=cursor) == {
                "code": -32602, "message": (
                    "cursor: this agent did not issue it; start again without a cursor"
                ),
                "data": {"code": "invalid_message"},
            }  # fmt: skip
        assert await pad.ask("session/list", cursor="9" * 9) == {"sessions": []}

    pages = [(given["limit"], given["offset"]) for _, given in behind.of("GET")]
    assert pages == [("100", "0"), ("100", "1"), ("100", "0"), ("100", "2"), ("100", "9" * 9)]


@pytest.mark.parametrize(
    ("method", "more"),
    [("session/prompt", {"prompt": [{"type": "text", "text": "x"}]}),
     ("session/set_mode", {"modeId": "ask"}), ("session/close", {})],
)  # fmt: skip
async def test_a_session_that_was_not_opened_here_is_not_known(editor, behind, method, more):
    async with editor() as pad:
        unknown = invalid(
            "No session 's1' was opened or loaded here; open or load it first",
            code="invalid_message", params={"session_id": "s1"},
            template="No session {session_id!r} was opened or loaded here; open or load it first",
        )  # fmt: skip
        assert await pad.ask(method, sessionId="s1", **more) == unknown
        await pad.ask("session/new", cwd="/project", mcpServers=[])
        assert await pad.ask("session/close", sessionId="s1") == {}
        assert await pad.ask(method, sessionId="s1", **more) == unknown
        await pad.ask("session/load", sessionId="s1", cwd="/project", mcpServers=[])
        assert await pad.ask("session/delete", sessionId="s1") == {}
        assert await pad.ask(method, sessionId="s1", **more) == unknown
        assert await pad.ask("session/delete", sessionId="s1") == {}

    assert [path for path, _ in behind.of("DELETE")] == ["/sessions/s1"] * 2


async def test_another_agent_answers_once_it_is_chosen(editor, behind):
    behind.paths["/agent/message/stream"] = httpx.Response(200, text=DONE, headers=STREAM)
    async with editor() as pad:
        await pad.ask("session/new", cwd="/project", mcpServers=[])
        assert await pad.ask("session/set_mode", sessionId="s1", modeId="ask") == {}

    message = {"type": "switch_agent", "agent_type": "ask"}
    assert behind.of("POST")[1:] == [
        ("/agent/message/stream", {"session_id": "s1", "message": message})
    ]


async def says(pad: Pad, text: str) -> Any:
    """What a prompt ends with."""
    return await pad.ask("session/prompt", sessionId="s1", prompt=[{"type": "text", "text": text}])


def talks_over(behind: Any) -> str:
    """Have a plan's changes talked over; gives where its questions are listed."""
    behind.paths["/agent/message/stream"] = httpx.Response(200, text=DONE, headers=STREAM)
    behind.paths["/plans/p1/comments"] = {
        "comment_id": "k", "plan_id": "p1", "revision": 1, "author": "a", "content": "Bluer",
        "created_at": AT,
    }  # fmt: skip
    behind.paths["/plans/p1/revise"] = PLAN
    behind.then["/plans/p1/revise"] = {"type": "plan_progress", "seq": 10, "is_final": True}
    return "/sessions/s1/pending-approvals"


def pending(*questions: Any) -> dict[str, Any]:
    return {"session_id": "s1", "pending_approvals": [*questions], "count": len(questions)}


async def test_a_plan_is_steered_by_the_words_for_it(editor, behind):
    async with editor() as pad:
        await pad.ask("session/new", cwd="/project", mcpServers=[])
        for word in ("/start", "/pause", "/resume now"):
            assert await says(pad, word) == invalid(
                "This session has no plan. Ask the agent for one."
            )
        behind.paths["/sessions/s1"] = {**SESSION, "active_plan_id": "p1"}
        for verb in ("pause", "start", "resume"):
            behind.paths[f"/plans/p1/{verb}"] = PLAN
        assert await says(pad, "/pause") == {"stopReason": "end_turn"}
        for number, word in enumerate(("start", "resume"), 10):
            over = {"type": "plan_progress", "seq": number, "is_final": True}
            behind.then[f"/plans/p1/{word}"] = over
            assert await says(pad, f"/{word}") == {"stopReason": "end_turn"}

    assert [path for path, _ in behind.of("POST")[1:]] == [
        "/plans/p1/pause", "/plans/p1/start", "/plans/p1/resume",
    ]  # fmt: skip


@pytest.mark.parametrize("choice", ["revise", "reject", None])
async def test_a_plan_that_is_rejected_with_a_reason_is_planned_again_or_all_stops(
    editor, behind, choice
):
    place = talks_over(behind)
    async with editor() as pad:
        await pad.ask("session/new", cwd="/project", mcpServers=[])
        await until(lambda: ("GET", place, {}) in behind.asked)
        behind.paths[place] = pending(ABOUT_PLAN)
        pad.choice = choice
        await says(pad, "/reject  not so ")

    (asked, *_) = pad.questions
    names = [(each["optionId"], each["name"]) for each in asked["options"]]
    assert names == [
        ("revise", "Replan: say what should change"), ("reject", "Stop: reject the plan"),
    ]  # fmt: skip
    sent = [(path, given) for path, given in behind.of("POST")[1:]]
    if choice == "revise":
        assert [path for path, _ in sent] == ["/plans/p1/comments", "/plans/p1/revise"]
        assert sent[0][1] == {"content": "not so"}
    elif choice == "reject":
        given = sent[0][1]
        assert given["message"]["decision"] == "reject"
        assert given["message"]["feedback"] == "not so"
    else:
        assert sent == []


async def test_a_question_is_answered_by_the_words_for_it_and_no_other(editor, behind):
    behind.paths["/agent/message/stream"] = httpx.Response(200, text=DONE, headers=STREAM)
    nothing = "There are no open questions here."
    async with editor() as pad:
        await pad.ask("session/new", cwd="/project", mcpServers=[])
        for word in ("/approve", "/hold", "/reject why", "/revise it"):
            assert (await says(pad, word))["message"] == nothing
        behind.paths["/sessions/s1/pending-approvals"] = pending(QUESTION)
        for word in ("/hold", "/revise it"):
            assert (await says(pad, word))["message"] == nothing
        assert await says(pad, "/reject  not so ") == {"stopReason": "end_turn"}
        other = {**QUESTION, "approval_id": "a2"}
        behind.paths["/sessions/s1/pending-approvals"] = pending(QUESTION, other)
        many = await says(pad, "/approve")
        plan = {**other, "kind": "plan", "request_type": "plan", "plan_id": "p1", "revision": 1}
        behind.paths["/sessions/s1/pending-approvals"] = pending(QUESTION, plan)
        empty = await says(pad, "/revise ")
        # What another client has put there was never read here: it is shown, and not agreed to.
        for word in ("/hold", "/approve"):
            unseen = {**plan, "approval_id": word} if word == "/hold" else plan
            behind.paths["/sessions/s1/pending-approvals"] = pending(QUESTION, unseen)
            assert await says(pad, word) == {"stopReason": "end_turn"}
        assert await says(pad, "/approve") == {"stopReason": "end_turn"}

    said = "There are 2 open questions; answer each where it is shown."
    assert (many["code"], many["message"]) == (-32602, said)
    assert empty["message"] == "Say in your next message what should change in the plan."
    sent = [given["message"] for path, given in behind.of("POST")[1:]]
    assert sent == [
        {"type": "hitl_decision", "approval_id": "a1", "decision": "reject", "digest": "d",
         "for_session": False, "for_plan": False, "feedback": "not so"},
        {"type": "plan_decision", "plan_id": "p1", "decision": "approve", "digest": "d",
         "revision": 1, "start": True, "auto_approve_tools": True},
    ]  # fmt: skip
    asked = {each["toolCall"]["toolCallId"] for each in pad.questions}
    assert asked == {"c1", "a2", "/hold"}
    unread = "\n\nThis question was not shown here before. Read it, then answer.\n\n"
    said = [each["content"]["text"] for each in pad.told if "chunk" in each["sessionUpdate"]]
    assert said.count(unread) == 2


def message_of(seq: int) -> httpx.Response:
    """The stream of a message that causes one event."""
    event = {"type": "steered", "content": "Well", "seq": seq}
    text = f"event: message\ndata: {json.dumps(event)}\n\n{DONE}"
    return httpx.Response(200, text=text, headers=STREAM)


async def test_a_session_that_is_lost_says_so_and_is_followed_anew(editor, behind, caplog):
    lost = {**FORBIDDEN, "status": 404, "code": "not_found", "detail": "It is gone"}
    behind.paths["/sessions/s1/events"] = httpx.Response(404, json=lost)
    async with editor() as pad:
        await pad.ask("session/new", cwd="/project", mcpServers=[])
        behind.paths["/agent/message/stream"] = message_of(12)
        gone = await says(pad, "hello")
        del behind.paths["/sessions/s1/events"]
        await behind.happens.send({"type": "steered", "content": "Well", "seq": 12})
        assert await says(pad, "hello") == {"stopReason": "end_turn"}
        behind.then["/agent/message/stream"] = {"type": "plan_notification", "seq": 13}
        behind.paths["/agent/message/stream"] = message_of(20)
        broken = await says(pad, "hello")

    assert (gone["code"], gone["message"]) == (-32002, "It is gone")
    assert (broken["code"], broken["message"]) == (
        -32603, "The session can no longer be shown: KeyError('metadata'); load it again"
    )  # fmt: skip
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "what happens in s1 is not shown any more"
    ]


ANSWER = {
    "type": "hitl_decision", "approval_id": "a1", "decision": "approve", "digest": "d",
    "for_session": False, "for_plan": False,
}  # fmt: skip
OF_PLAN = {
    "type": "plan_decision", "plan_id": "p1", "decision": "hold", "digest": "d", "revision": 1,
    "start": True, "auto_approve_tools": True,
}  # fmt: skip
ABOUT_PLAN = {
    **QUESTION, "kind": "plan", "request_type": "plan", "plan_id": "p1", "revision": 1,
}  # fmt: skip
OF_AGENT = {
    **QUESTION, "kind": "intervention", "request_type": "intervention", "tool_name": None,
    "arguments": None, "subtask_id": "b",
    "details": {"question": "Which one?", "suggestions": ["the first", "the second"]},
}  # fmt: skip
NOTHING: list[Any] = []


@pytest.mark.parametrize(
    ("asked", "choice", "fields", "sent"),
    [
        (QUESTION, "approve", None, [ANSWER]),
        (QUESTION, "approve_session", None, [{**ANSWER, "for_session": True}]),
        (QUESTION, "reject", None, [{**ANSWER, "decision": "reject"}]),
        (QUESTION, "edit", {"path": "b"},
         [{**ANSWER, "decision": "edit", "modified_arguments": {"path": "b"}}]),
        (QUESTION, "edit", {}, NOTHING), (QUESTION, "edit", None, NOTHING),
        (QUESTION, "approve_plan", None, NOTHING), (QUESTION, None, None, NOTHING),
        (ABOUT_PLAN, "hold", None, [OF_PLAN]), (ABOUT_PLAN, "revise", None, NOTHING),
        (ABOUT_PLAN, "revise", {"changes": "Bluer"}, [{"content": "Bluer"}, {}]),
        (OF_AGENT, "answer:the second", None, [{**ANSWER, "feedback": "the second"}]),
        (OF_AGENT, "answer", {"answer": "Both"}, [{**ANSWER, "feedback": "Both"}]),
        (OF_AGENT, "answer", None, NOTHING), (OF_AGENT, "approve", None, NOTHING),
        (OF_AGENT, "reject", None, [{**ANSWER, "decision": "reject"}]),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
async def test_what_a_person_chooses_is_sent_as_they_meant_it(
    editor, behind, asked, choice, fields, sent
):
    place = talks_over(behind)
    able = {"elicitation": {"form": {}}}
    async with editor() as pad:
        await pad.ask("initialize", protocolVersion=1, clientCapabilities=able)
        await pad.ask("session/new", cwd="/project", mcpServers=[])
        await until(lambda: ("GET", place, {}) in behind.asked)
        behind.paths[place] = pending(asked)
        pad.choice, pad.fields = choice, fields
        assert await says(pad, "hello") == {"stopReason": "end_turn"}

    assert [given.get("message", given) for _, given in behind.of("POST")[2:]] == sent
    assert len(pad.questions) == 1
    assert len(pad.forms) == (choice in {"edit", "revise", "answer"})
    left = "Not decided yet. Answer with /approve or /reject, or from any other client."
    said = [each["content"]["text"] for each in pad.told if "chunk" in each["sessionUpdate"]]
    assert said == ([f"\n\n{left}\n\n"] if sent == NOTHING and not pad.forms else [])


async def test_who_cancels_has_not_answered_an_agent_with_what_they_say_next(editor, behind):
    place = talks_over(behind)
    async with editor() as pad:
        await pad.ask("session/new", cwd="/project", mcpServers=[])
        await until(lambda: ("GET", place, {}) in behind.asked)
        behind.paths[place], pad.choice = pending(OF_AGENT), "answer"
        assert await says(pad, "hello") == {"stopReason": "end_turn"}
        pad.note("session/cancel", sessionId="s1")
        behind.paths[place] = pending()
        assert await says(pad, "How is the weather?") == {"stopReason": "end_turn"}

    said = [given["message"] for _, given in behind.of("POST")[1:] if "message" in given]
    assert [each["type"] for each in said] == ["user_message", "user_message"]


@pytest.mark.parametrize(("name", "chosen"), [("optionId", "approve"), ("option_id", None)])
async def test_a_choice_has_the_name_that_the_protocol_gives_it(name, chosen):
    class Answers:
        async def send_request(self, method, params):
            return {"outcome": {"outcome": "selected", name: "approve"}}

        def number_of(self, params):
            return None

    option = schema.PermissionOption(option_id="approve", kind="allow_once", name="Approve")
    call = schema.ToolCallUpdate(tool_call_id="c")
    assert await Editor(Answers(), Answers()).choose("s1", call, [option]) == chosen


async def test_without_forms_the_next_message_answers_an_agent_unless_somebody_else_has(
    editor, behind
):
    place = talks_over(behind)
    async with editor() as pad:
        await pad.ask("session/new", cwd="/project", mcpServers=[])
        await until(lambda: ("GET", place, {}) in behind.asked)
        behind.paths[place], pad.choice = pending(OF_AGENT), "answer"
        assert await says(pad, "hello") == {"stopReason": "end_turn"}
        empty = await says(pad, "/approve")
        behind.paths[place] = pending()
        assert await says(pad, "Both") == {"stopReason": "end_turn"}
        behind.paths[place] = pending({**OF_AGENT, "approval_id": "a2"})
        assert await says(pad, "hello") == {"stopReason": "end_turn"}
        behind.paths[place] = pending()
        over = {
            "type": "approval_resolved", "seq": 10, "is_final": True,
            "metadata": {"approval_id": "a2", "kind": "intervention", "status": "approved"},
        }  # fmt: skip
        behind.paths["/plans/p1/start"] = PLAN
        behind.then["/plans/p1/start"] = over
        behind.paths["/sessions/s1"] = {**SESSION, "active_plan_id": "p1"}
        assert await says(pad, "/start") == {"stopReason": "end_turn"}
        assert await says(pad, "Neither") == {"stopReason": "end_turn"}

    asks = "\n\nWrite your answer as your next message.\n\n"
    assert [each["content"]["text"] for each in pad.told if "chunk" in each["sessionUpdate"]] == [
        asks
    ] * 2
    assert empty["message"] == "An agent asks a question. Write your answer after /approve."
    said = [given["message"] for path, given in behind.of("POST")[1:] if "message" in given]
    assert [each.get("content", each.get("feedback")) for each in said] == [
        "hello", "Both", "hello", "Neither",
    ]  # fmt: skip
    assert said[1] == {**ANSWER, "feedback": "Both"}
    assert said[3]["type"] == "user_message"


async def test_without_forms_the_next_message_says_what_should_change(editor, behind):
    place = talks_over(behind)
    async with editor() as pad:
        await pad.ask("session/new", cwd="/project", mcpServers=[])
        await until(lambda: ("GET", place, {}) in behind.asked)
        behind.paths[place], pad.choice = pending(ABOUT_PLAN), "revise"
        assert await says(pad, "hello") == {"stopReason": "end_turn"}
        behind.paths[place] = pending()
        assert await says(pad, "Bluer") == {"stopReason": "end_turn"}
        assert await says(pad, "hello") == {"stopReason": "end_turn"}

    hello = {"type": "user_message", "content": "hello"}
    assert [given.get("message", given) for _, given in behind.of("POST")[1:]] == [
        hello, {"content": "Bluer"}, {}, hello,
    ]  # fmt: skip
    assert "\n\nSay in your next message what should change in the plan.\n\n" in [
        each["content"]["text"] for each in pad.told if "chunk" in each["sessionUpdate"]
    ]
    assert pad.forms == []
