"""What is no message, or asks for what is not there, is answered with an error; nothing else is."""

import json
import os
from collections.abc import Iterator

import anyio
import pytest

from gonogo.acp_server.protocol import Pipe, farewell

HELLO = {"protocolVersion": 1, "clientCapabilities": {}}


NO_MESSAGES = (
    (b"{bad", -32700),
    (b'{"a": 1, "a": 2}', -32700),
    (b"\xff\xfe", -32700),
    (b'{"jsonrpc": "2.0", "id": "\xd1", "method": "initialize"}', -32700),
    (b'{"jsonrpc": "2.0", "id": "\t", "method": "initialize"}', -32700),
    (b'"text"', -32600),
    (b"[]", -32600),
    (b"{}", -32600),
    (b'{"id": [1], "result": {}}', -32600),
    (b'{"id": 1, "error": "no"}', -32600),
    (b'{"jsonrpc": "2.0", "method": 5, "id": null}', -32600),
    (b"[" * 100_000, -32600),
    (b'"' + b"x" * 3_000_000 + b'"', -32600),
)


def test_a_line_that_is_no_message_is_answered_with_an_error(raw):
    for line, code in NO_MESSAGES:
        raw.write(line + b"\n")
        answer = raw.read()
        assert (answer["id"], answer["error"]["code"]) == (None, code), line[:80]
    assert raw.ask("initialize", HELLO)["result"]["protocolVersion"] == 1


def test_a_request_that_cannot_be_read_is_answered_by_its_id(raw):
    raw.write(
        b'{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"prompt":"'
        + b"x" * 3_000_000
        + b'"}}\n'
    )
    answer = raw.read()
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", 7, -32600)


def test_what_is_asked_wrongly_is_refused_and_the_next_is_answered(raw, folder):
    def refused(method: str, params: object, said: str = "") -> int:
        answer = raw.ask(method, params)
        assert "Traceback" not in json.dumps(answer)
        assert answer["error"]["message"].startswith(said)
        return answer["error"]["code"]

    text = [{"type": "text", "text": "hi"}]
    unknown = "No session 'none' was opened or loaded here; open or load it first"
    assert refused("nonsense", {}) == -32601
    assert refused("initialize", [1]) == -32602
    relative = {"cwd": "relative", "mcpServers": []}
    assert refused("session/new", relative, "cwd: it must be an absolute path") == -32602
    assert refused("session/new", {"cwd": "/", "mcpServers": []}) == -32001
    assert refused("session/prompt", {"sessionId": "none", "prompt": text}, unknown) == -32602
    assert refused("session/set_mode", {"sessionId": "none", "modeId": "ask"}, unknown) == -32602
    assert refused("session/close", {"sessionId": "none"}, unknown) == -32602
    assert refused("session/load", {"sessionId": "none", "cwd": "/", "mcpServers": []}) == -32002
    assert refused("session/resume", {"sessionId": "none", "cwd": "/", "mcpServers": []}) == -32002
    assert refused("session/delete", {"sessionId": "none"}) == -32002
    foreign = "cursor: this agent did not issue it; start again without a cursor"
    for cursor in ("x", "-1", "1" * 10, "\u0661", ""):
        assert refused("session/list", {"cursor": cursor}, foreign) == -32602
    assert raw.ask("session/list", {"cursor": "9" * 9})["result"] == {"sessions": []}
    assert raw.ask("authenticate", {"methodId": "x"})["result"] == {}
    opened = raw.ask("session/new", {"cwd": str(folder), "mcpServers": []})["result"]
    where = {"sessionId": opened["sessionId"]}
    assert refused("session/prompt", {**where, "prompt": []}) == -32602
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    assert refused("session/prompt", {**where, "prompt": [image]}) == -32602
    assert refused("session/set_mode", {**where, "modeId": "nobody"}) == -32602
    raw.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}})
    raw.send({"jsonrpc": "2.0", "id": 99, "result": {}})
    assert raw.ask("initialize", HELLO)["result"]["agentInfo"]["name"] == "gonogo"


@pytest.mark.parametrize("able", [[], 5, "all", True, {"elicitation": []}])
def test_abilities_that_cannot_be_read_are_none(raw, able):
    answer = raw.ask("initialize", {"protocolVersion": 1, "clientCapabilities": able})
    assert answer["result"]["protocolVersion"] == 1


def test_a_session_that_is_closed_twice_at_once_is_closed(raw, folder, provider):
    provider.script({"default": {"text": "Late.", "held": True}})
    where = raw.ask("session/new", {"cwd": str(folder), "mcpServers": []})["result"]["sessionId"]
    text = [{"type": "text", "text": "hi"}]
    for number, method, more in (
        (2, "session/prompt", {"prompt": text}), (3, "session/close", {}), (4, "session/close", {})
    ):  # fmt: skip
        params = {"sessionId": where, **more}
        raw.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    answers = {}
    while len(answers) < 3:
        message = raw.read()
        if "method" not in message:
            answers[message["id"]] = message.get("result", message)
    assert answers == {2: {"stopReason": "cancelled"}, 3: {}, 4: {}}


def test_fields_of_meta_take_the_place_of_nothing(raw, folder):
    opened = raw.ask("session/new", {"cwd": str(folder), "mcpServers": []})["result"]
    answer = raw.ask(
        "session/set_mode",
        {
            "sessionId": opened["sessionId"],
            "modeId": "ask",
            "_meta": {"session_id": "other", "mode_id": "nobody"},
        },
    )
    assert answer["result"] == {}


def test_the_command_leaves_when_its_editor_does(raw):
    raw.ask("initialize", HELLO)
    assert raw.end() == 0


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """The ends of a pipe of the system: to read from, to write to."""
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


async def test_what_was_sent_last_is_still_read_when_everything_else_is_called_off(ends):
    read, write = ends
    pipe, wrote = Pipe(read, write), anyio.Event()
    await pipe.send({"last": "words"})

    async def write_out() -> None:
        await anyio.wait_all_tasks_blocked()
        await pipe.write()
        wrote.set()

    async with anyio.create_task_group() as group:
        group.start_soon(write_out)
        with anyio.CancelScope() as called_off:
            called_off.cancel()
            await farewell(pipe, wrote)

    assert not called_off.cancelled_caught
    assert os.read(read, 100) == b'{"last": "words"}\n'
