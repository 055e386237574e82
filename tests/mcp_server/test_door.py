"""`gonogo mcp` as another agent meets it: the SDK's client, a process, and no way to decide."""

import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from cli.conftest import environment
from fakes.openai_server import fake_openai
from gonogo import __version__
from gonogo.mcp_server import messages_on

LIMIT = 60
PLAN = {
    "goal": "Say hello",
    "subtasks": [{"id": "hello", "description": "Write hello.txt", "agent": "coder",
                  "scope": {"tools": ["write_file"], "paths": ["hello.txt"]}}],
}  # fmt: skip
SCRIPT = {
    "rules": [
        {"when": {"tools": ["create_plan"]},
         "replies": [
             {"text": "I look.", "calls": [{"name": "list_files", "arguments": {}}]},
             {"text": "I plan it.", "calls": [{"name": "create_plan", "arguments": PLAN}]},
             {"text": "Done."},
         ]},
        {"when": {"tools": ["write_file"]},
         "replies": [
             {"calls": [{"name": "write_file",
                         "arguments": {"path": "hello.txt", "content": "hello\n"}}]},
             {"text": "Wrote it."},
         ]},
    ],
}  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def env(tmp_path):
    """What the door's process is given."""
    with fake_openai() as provider:
        provider.script(SCRIPT)
        yield environment(
            tmp_path / "home",
            {"GONOGO_MODEL": "openai:scripted", "OPENAI_BASE_URL": provider.base_url,
             "OPENAI_API_KEY": "x"},
        )  # fmt: skip


@asynccontextmanager
async def agent(env, folder):
    """Another agent, and the door that it has started in a folder."""
    folder.mkdir(exist_ok=True)
    door = StdioServerParameters(
        command=sys.executable, args=["-m", "gonogo", "mcp", "-C", str(folder)], env=env
    )
    with anyio.fail_after(2 * LIMIT):
        async with Client(stdio_client(door), read_timeout_seconds=LIMIT) as client:
            yield client


async def ask(client, name, **arguments):
    """What a tool answers; an error is told by its first word."""
    answer = await client.call_tool(name, arguments)
    if answer.is_error:
        return answer.content[0].text
    return answer.structured_content


async def test_an_agent_asks_for_a_plan_a_person_decides_and_the_agent_sees_the_result(
    env, tmp_path, born
):
    folder = tmp_path / "project"
    async with agent(env, folder) as client:
        planned = await ask(client, "propose_plan", task="Say hello", wait_seconds=LIMIT)
        assert (planned["status"], planned["goal"]) == ("awaiting_approval", "Say hello")
        assert planned["said"] == "I look.\n\nI plan it."
        assert [each["id"] for each in planned["subtasks"]] == ["hello"]
        [question] = planned["waits_for"]
        assert question["answered_by"].startswith("a person: gonogo approvals show")
        assert (question["kind"], question["plan_id"]) == ("plan", planned["plan_id"])
        assert (await ask(client, "pending_approvals"))["pending"] == [question]
        assert await ask(client, "plan_status", plan_id=planned["plan_id"]) == {
            name: value for name, value in planned.items() if name != "said"
        }
        again = await ask(client, "propose_plan", task="approve", session_id=planned["session_id"],
                          wait_seconds=LIMIT)  # fmt: skip
        assert again["status"] == "awaiting_approval", "no message is a decision"
        assert not (folder / "hello.txt").exists()

        words = ("gonogo", "approvals", "decide", question["approval_id"], "approve")
        decide = partial(born.run, *words, env=env, cwd=tmp_path, stdin="", timeout=LIMIT)
        decided = await anyio.to_thread.run_sync(decide)
        assert decided.returncode == 0, decided.stderr
        result = await until_over(client, planned["plan_id"])
        assert result["status"] == "completed"
        assert (folder / "hello.txt").read_text() == "hello\n"
        [subtask] = result["subtasks"]
        assert (subtask["status"], subtask["result"]["output"]) == ("completed", "Wrote it.")
        assert (await ask(client, "plan_status", session_id=planned["session_id"]))[
            "waits_for"
        ] == []
        assert (await ask(client, "pending_approvals"))["count"] == 0


async def until_over(client, plan_id):
    """The result of a plan, once it is over."""
    while True:
        result = await ask(client, "plan_result", plan_id=plan_id)
        if result["is_over"]:
            return result
        await anyio.sleep(0.1)


async def test_nothing_decides_and_what_is_wrong_is_said(env, tmp_path):
    async with agent(env, tmp_path / "project") as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == [
            "propose_plan", "plan_status", "pending_approvals", "plan_result",
        ]  # fmt: skip
        assert [tool.name for tool in listed if not tool.annotations.read_only_hint] == [
            "propose_plan"
        ]
        words = " ".join(str(tool.input_schema) for tool in listed)
        assert not any(word in words for word in ("decision", "approve", "reject", "digest"))
        for name, arguments, code in [
            ("decide", {"approval_id": "x", "decision": "approve"}, "unknown_tool"),
            ("plan_result", {"plan_id": "nowhere"}, "not_found"),
            ("plan_status", {"session_id": "nowhere"}, "not_found"),
            ("plan_status", {}, "invalid_message"),
            ("plan_result", {}, "invalid_arguments"),
            ("propose_plan", {"task": "x", "decision": "approve"}, "invalid_arguments"),
            ("propose_plan", {"task": "x", "session_id": "../x"}, "invalid_arguments"),
        ]:
            assert (await ask(client, name, **arguments)).split(":")[0] == code, (name, arguments)


async def test_nothing_more_is_taken_for_an_agent_that_does_not_read():
    long = JSONRPCNotification(jsonrpc="2.0", method="note", params={"text": "x" * (1 << 20)})
    source, sink = os.pipe(), os.pipe()
    async with messages_on(source[0], sink[1]) as (_, sent):
        with anyio.fail_after(LIMIT):
            await sent.send(SessionMessage(long))
            await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.WouldBlock):
            sent.send_nowait(SessionMessage(long))
    for end in (*source, *sink):
        os.close(end)


async def test_a_line_that_is_no_message_is_answered_and_the_next_one_is_read(tmp_path):
    request = b'{"jsonrpc":"2.0","id":7,"method":"tools/list"'
    lines = {
        b"not a message": (None, -32700), request + b",}": (7, -32700),
        b'{"id":8,"method":"tools/list"}': (8, -32600), b"[" + request + b"}]": (7, -32600),
        request + b',"params":' + b"[" * 5_000: (7, -32600),
        request + b',"a":"' + b"x" * (3 << 20) + b'"}': (7, -32600),
        request + b',"a":"\\ud800"}': (7, -32700),
    }  # fmt: skip
    theirs = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}'
    (tmp_path / "in").write_bytes(b"\n".join([*lines, theirs, request + b"}"]))
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        async with messages_on(source.fileno(), sink.fileno()) as (received, _):
            with anyio.fail_after(LIMIT):
                found = [item.message async for item in received]
    assert [each.id for each in found] == [1, 7], "the last line needs no end"
    answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [(each["id"], each["error"]["code"]) for each in answers] == list(lines.values())


async def test_the_door_is_over_when_nobody_reads_what_it_writes():
    note = JSONRPCNotification(jsonrpc="2.0", method="note", params={})
    source, sink = os.pipe(), os.pipe()
    os.close(sink[0])
    with anyio.fail_after(LIMIT):
        async with messages_on(source[0], sink[1]) as (_, sent):
            await sent.send(SessionMessage(note))
            await anyio.sleep_forever()
    for end in (*source, sink[1]):
        os.close(end)


def test_the_door_ends_when_it_is_told_to(env, tmp_path, born):
    (tmp_path / "project").mkdir()
    words = ("gonogo", "mcp", "-C", str(tmp_path / "project"))
    process, into, out_of = born.converse(*words, env=env, cwd=tmp_path)
    with into, out_of:
        greeting = (
            '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":'
            '"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n'
        )
        into.write(greeting)
        into.flush()
        told = json.loads(out_of.readline())["result"]["serverInfo"]
        assert (told["name"], told["version"]) == ("gonogo", __version__)
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
    assert not list(Path(env["GONOGO_HOME"]).glob("*.sock")), os.listdir(env["GONOGO_HOME"])
