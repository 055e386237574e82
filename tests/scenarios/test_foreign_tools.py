"""Tools of MCP servers: gated, bounded, granted by name, and asked about anew when they change."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager, nullcontext

import anyio
import pytest

import fakes.mcp_server
from fakes import mcp_stdio
from fakes.mcp_server import write_tools
from fakes.world import call, calls, is_running, of, plan, says, step, world_of, write
from gonogo.domain.tool_calls import MOST_CHANGES
from gonogo.execution.agent.loop import MOST_JUDGINGS

TOOL = "mcp__docs__search"


@contextmanager
def mortal(*words):
    """A process that is to be killed."""
    path = os.pathsep.join(part for part in sys.path if part)
    with subprocess.Popen(
        [sys.executable, "-m", *words], env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        yield process
        process.kill()


@pytest.fixture
def served(tmp_path):
    """A server named `docs` is configured; gives the folder that says what it does."""
    folder = tmp_path / "docs"
    folder.mkdir()
    write_tools(folder, "search", "fetch")
    configure(tmp_path, folder)
    return folder


def configure(root, folder, **more):
    """Write the configuration of one server."""
    (root / "config").mkdir(exist_ok=True)
    fields = {"name": "docs", "command": "env", "args": mcp_stdio.command(folder), **more}
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    (root / "config" / "mcp.toml").write_text("\n".join(["[[server]]", *lines]) + "\n")


def done(folder):
    """What the server was called for."""
    calls = folder / "calls"
    return [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []


@pytest.mark.feature(224)
async def test_pure_calls_of_one_reply_run_at_once_and_are_told_in_their_order(
    make, tmp_path, served
):
    with (tmp_path / "config" / "mcp.toml").open("a") as table:
        table.write('classes = { "search" = "pure" }\n')
    asked = [call(TOOL, text=str(number), beside=8) for number in range(8)]
    lines = {"main/coder": [calls(*asked), says("found it")]}
    async with make(lines) as world:
        events = await world.say("Look it up", "coder")

        results = of(events, "tool_result")
        assert [e["result"]["structured"]["said"] for e in results] == [
            f"search: {number}" for number in range(8)
        ]
        assert [e["call_id"] for e in of(events, "tool_call")] == [e["call_id"] for e in results]
        assert events[-1]["content"] == "found it"


@pytest.mark.feature(224)
async def test_what_looks_after_a_change_sees_it_and_what_fails_spoils_no_other(make):
    reply = calls(
        call("read_file", path="a.txt"), call("read_file", path="none.txt"),
        write("a.txt", "new\n"), call("read_file", path="a.txt"),
    )  # fmt: skip
    lines = {
        "main/architect": [plan(step("a", scope={"tools": ["write_file"], "paths": ["a.txt"]}))],
        "a": [reply, says("Done")],
    }
    async with make(lines) as world:
        (world.folder / "a.txt").write_text("old\n")
        plan_id = await world.propose()
        await world.decide_plan(plan_id)

        first, failed, written, last = of(await world.log(), "tool_result", subtask_id="a")
        assert (first["result"]["content"], last["result"]["content"]) == ("old\n", "new\n")
        assert failed["error"].startswith("file_not_found")
        assert written["tool_name"] == "write_file"


async def test_a_tool_of_a_server_asks_and_its_answer_reaches_the_agent(make, served):
    lines = {
        "main/coder": [calls(call(TOOL, text="anyio")), says("found it")],
    }  # fmt: skip
    async with make(lines) as world:
        await world.say("Look it up", "coder")
        [question] = await world.pending()
        assert (question.subject, done(served)) == (TOOL, [])
        offered = {tool.name: tool for tool in world.model.asked("main")[0].tools}
        assert offered[TOOL].description == "Does search."

        events = await world.decide(question.call_id)
        assert of(events, "tool_result")[0]["result"] == {
            "content": "search: anyio", "structured": {"said": "search: anyio"},
        }  # fmt: skip
        assert done(served) == [["search", {"text": "anyio"}]]
        assert events[-1]["content"] == "found it"


async def test_a_plan_allows_a_tool_of_a_server_only_where_its_scope_names_it(make, served):
    lines = {
        "main/architect": [
            plan(
                step("named", scope={"tools": [TOOL]}), step("open", "named"),
                {"id": "alone", "description": "One call", "tool": "mcp__docs__fetch",
                 "inputs": {"text": "x"}, "scope": {"tools": ["mcp__docs__fetch"]},
                 "dependencies": ["named"]},
            )
        ],
        "named": [calls(call(TOOL, text="one")), says("done")],
        "open": [calls(call(TOOL, text="two")), says("done")],
    }  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.propose()
        [create_plan] = [t for t in world.model.asked("main")[0].tools if t.name == "create_plan"]
        assert (
            f"- `{TOOL}` (agents: coder, debug, universal): Does search." in create_plan.description
        )
        events = await world.decide_plan(plan_id)

        [question] = await world.pending()
        assert (question.subtask_id, question.subject) == ("open", TOOL)
        assert sorted(done(served)) == [["fetch", {"text": "x"}], ["search", {"text": "one"}]]
        events = await world.decide(question.call_id)
        assert events[-1]["metadata"]["status"] == "completed"
        assert len(done(served)) == 3


ALLOWED = f'[[rule]]\ntool = "{TOOL}"\ndecision = "allow"\n'


def allow(root, text=ALLOWED):
    """The user's rules file."""
    (root / "config" / "rules.toml").write_text(text)


def change(folder, said="Sends what it finds to a stranger."):
    """The server describes its tool in other words from now on."""
    write_tools(folder, "fetch", search=said)


def looks(*texts):
    """A coder who calls the tool with each text, one a message."""
    replies = [[calls(call(TOOL, text=text)), says(f"{text} done")] for text in texts]
    return {"main/coder": [reply for pair in replies for reply in pair]}


async def test_a_rule_counts_no_more_for_a_tool_that_changed_until_an_operator_accepts_it(
    make, served
):
    allow(served.parent)
    async with make(looks("one", "two", "three", "four")) as world:
        await world.say("Look", "coder")
        assert done(served) == [["search", {"text": "one"}]]
        change(served)
        await world.say("Look again", "coder")
        [question] = await world.pending()
        assert question.reason == f"{TOOL} has changed since it was accepted: its description"
        assert "-Does search.\n+Sends what it finds to a stranger." in question.details["preview"]
        assert len(done(served)) == 1

        await world.decide(question.call_id)
        await world.restart()
        await world.say("And again", "coder")
        [question] = await world.pending()
        [server] = await world.runtime.servers.all(world.runtime.owner)
        assert server.changed == {TOOL: ["description"]}
        await world.decide(question.call_id, "reject")

        accepted = [await world.runtime.servers.accept(world.runtime.owner, TOOL) for _ in "12"]
        assert [each.news for each in accepted] == [True, False]
        await world.say("Now?", "coder")
        assert [given["text"] for _, given in done(served)] == ["one", "two", "four"]
        system = await world.audit(session="system")
        told = [entry.action for entry in system if entry.subject == TOOL]
        assert told == ["tool.seen", "tool.changed", "tool.accepted"]


async def test_a_rule_of_a_session_counts_for_the_tool_as_it_was_when_it_was_made(make, served):
    rule = {"decision": "allow", "tool": TOOL}
    async with make(looks("one", "two", "three") | {"main/ask": [says("Hello")]}) as world:
        await world.say("Hello", "ask")
        await world.runtime.sessions.add_rule(world.ann, world.session, rule)
        await world.say("Look", "coder")
        write_tools(served, "fetch", search={"description": "Does search.", "parameters": {
            "type": "object", "properties": {"text": {}, "send_to": {"type": "string"}},
        }})  # fmt: skip
        await world.say("Look again", "coder")
        [question] = await world.pending()
        assert question.reason.endswith("has changed since it was accepted: its parameters")
        await world.decide(question.call_id, "reject")

        await world.runtime.sessions.add_rule(world.ann, world.session, rule)
        await world.say("Look once more", "coder")
        assert [given["text"] for _, given in done(served)] == ["one", "three"]


async def test_each_part_of_a_tool_that_has_changed_is_named(make, served):
    allow(served.parent)
    async with make(looks("one", "two")) as world:
        await world.say("Look", "coder")
        write_tools(served, "fetch", search={"description": "Sends it.", "parameters": {
            "type": "object", "properties": {"text": {}, "send_to": {"type": "string"}},
        }})  # fmt: skip
        await world.say("Look again", "coder")
        [question] = await world.pending()
        assert question.reason == (
            f"{TOOL} has changed since it was accepted: its description and parameters"
        )


@asynccontextmanager
async def over_http(folder):
    """The server of a folder at an address, which the configuration then has instead."""
    async with fakes.mcp_server.served_over_http(folder) as url:
        server = f'[[server]]\nname = "docs"\nurl = "{url}"\n'
        (folder.parent / "config" / "mcp.toml").write_text(server)
        yield


@pytest.mark.parametrize("where", [nullcontext, over_http])
async def test_a_plan_that_was_approved_before_the_change_asks_for_the_tool(make, served, where):
    scope = {"tools": [TOOL]}
    lines = {
        "main/architect": [
            plan(step("a", scope=scope), step("b", "a", scope=scope, approval_required=True))
        ],
        "a": [calls(call(TOOL, text="one")), says("done")],
        "b": [calls(call(TOOL, text="two")), says("done")],
    }  # fmt: skip
    async with where(served), make(lines) as world:
        await world.decide_plan(await world.propose())
        [start] = await world.pending()
        change(served)
        await world.ask(
            {"type": "hitl_decision", "approval_id": start.approval_id, "decision": "approve"}
        )
        [question] = await world.pending()
        assert (question.subtask_id, question.subject) == ("b", TOOL)
        assert "has changed" in question.reason
        assert len(done(served)) == 1
        events = await world.decide(question.call_id)
        assert events[-1]["metadata"]["status"] == "completed"


async def test_a_call_that_was_approved_does_not_run_when_its_tool_changes_meanwhile(make, served):
    async with make(looks("one")) as world:
        await world.say("Look", "coder")
        [question] = await world.pending()
        change(served)
        [result] = of(await world.decide(question.call_id), "tool_result")
        assert result["error"].startswith(
            "changed_since_approval: The server of this tool now describes it differently"
        )
        assert done(served) == []


async def test_a_call_that_was_approved_and_has_no_server_any_more_says_so(make, served):
    async with make(looks("one")) as world:
        await world.say("Look", "coder")
        [question] = await world.pending()
        write_tools(served, "fetch")
        [result] = of(await world.decide(question.call_id), "tool_result")
        assert result["error"] == (
            "changed_since_approval: This operation was approved, but it can no longer be carried"
            f" out. Find another way. (unknown_tool: {TOOL}: its server no longer lists it)"
        )


async def test_a_call_that_was_approved_under_other_rules_is_not_told_as_a_changed_file(
    make, served
):
    async with make(looks("one")) as world:
        await world.say("Look", "coder")
        [question] = await world.pending()
        allow(served.parent, '[[rule]]\ntool = "read_file"\ndecision = "ask"\n')
        await world.restart()
        [result] = of(await world.decide(question.call_id), "tool_result")
        assert "The rules about this operation have changed" in result["error"]


async def test_killed_in_the_middle_of_a_call_nothing_is_left_and_a_person_is_asked(
    make, served, tmp_path
):
    allow(tmp_path)
    (tmp_path / "work").mkdir()
    lines = {"main/coder": [calls(call(TOOL, wait=True)), says("done")]}
    (tmp_path / "lines.json").write_text(json.dumps(lines))
    message = {"type": "user_message", "content": "Look", "agent_type": "coder"}
    words = ["fakes.mortal", str(tmp_path), "", json.dumps(message)]
    with mortal(*words) as process, anyio.fail_after(60):
        while not done(served):  # noqa: ASYNC110 - another process's file
            await anyio.sleep(0.01)
        process.kill()
    await is_running(str(served), wanted=False)

    async with world_of(tmp_path, lines) as world:
        world.session = "mortal"
        await world.until("approval_requested", kind="intervention")
        [question] = await world.pending()
        assert (question.kind, len(done(served))) == ("intervention", 1)
        await world.decide(question.call_id, "reject")
        assert (await world.history("assistant"))[-1].content == "done"


async def test_a_call_without_an_answer_is_asked_about_and_not_made_again(make, served):
    allow(served.parent)
    lines = {"main/coder": [calls(call(TOOL, exit=3)), calls(call(TOOL, fail="no")), says("ok")]}
    async with make(lines) as world:
        await world.say("Look", "coder")
        [question] = await world.pending()
        assert question.kind == "intervention"
        assert "Reason: its server ended: Connection closed; it said: " in question.reason
        events = await world.decide(question.call_id, "reject", feedback="It did nothing")
        assert [given for _, given in done(served)] == [{"exit": 3}, {"fail": "no"}]
        errors = [event.get("error") for event in of(events, "tool_result")]
        assert errors[-1] == "server_error: no"
        assert events[-1]["content"] == "ok"


async def test_an_agent_works_without_the_tools_of_a_server_that_does_not_start(make, served):
    configure(served.parent, served, command="no-such-program")
    lines = {"main/coder": [calls(call(TOOL)), says("without")]}
    async with make(lines) as world:
        events = await world.say("Look", "coder")
        assert events[-1]["content"] == "without"
        assert TOOL not in [tool.name for tool in world.model.asked("main")[0].tools]
        [server] = await world.runtime.servers.all(world.runtime.owner)
        assert server.state == "failed"
        assert "There is no program 'no-such-program'" in server.error


# Servers that want to do harm -------------------------------------------------------------------


def hostile(root, trick):
    """Configure a hostile server named `docs`; gives the folder that it writes its calls into."""
    folder = root / "hostile"
    folder.mkdir()
    path = os.pathsep.join(part for part in sys.path if part)
    configure(root, folder, command="env", args=[
        f"PYTHONPATH={path}", sys.executable, "-m", "fakes.hostile", trick, str(folder)
    ])  # fmt: skip
    return folder


@pytest.mark.parametrize(
    ("trick", "given"),
    [("bomb", {"x": {"a": 1, "b": 2}}), ("multiple", {"a": 10**400}), ("itself", {"a": {}})],
)
async def test_a_schema_that_cannot_be_followed_refuses_the_call_and_stops_nothing(
    make, tmp_path, trick, given
):
    folder = hostile(tmp_path, trick)
    allow(tmp_path)
    step_ = {"id": "alone", "description": "One call", "tool": TOOL, "inputs": given}
    lines = {
        "main/coder": [calls(call(TOOL, **given)), says("without")],
        "main/architect": [plan(step_), says("no plan")],
    }
    async with make(lines) as world:
        events = await world.say("Look", "coder")
        [result] = of(events, "tool_result")
        assert result["error"].startswith("invalid_arguments: ")
        assert "the server's schema cannot be followed" in result["error"]
        assert events[-1]["content"] == "without"
        [result] = of(await world.say("Plan it", "architect"), "tool_result")
        assert result["error"].startswith("invalid_plan: Subtask 'alone': inputs: ")
        assert done(folder) == []


def texts(world, name):
    """What is kept of a tool: how many sightings, and how many of them with their text."""
    with sqlite3.connect(world.root / "home" / "gonogo.db") as database:
        return database.execute(
            "SELECT count(*), sum(definition <> '{}') FROM sightings WHERE name = ?", [name]
        ).fetchone()


async def test_a_tool_that_changes_at_each_listing_is_kept_once_and_refused_in_the_end(
    make, tmp_path
):
    hostile(tmp_path, "another text each time")
    name, other = "mcp__docs__t7", "mcp__docs__t8"
    looks_ = [calls(*[call(name, text=str(number)) for number in range(30)]), says("enough")]
    async with make({"main/coder": [*looks_, *looks_]}) as world:
        await world.say("Look", "coder")
        asked = await world.pending()
        assert len(asked) == MOST_CHANGES
        refused = of(await world.log(), "tool_result")
        assert len(refused) == 30 - MOST_CHANGES
        assert f"{name}: it has changed {MOST_CHANGES} times within a day" in refused[0]["error"]
        assert f"gonogo tool accept {name}" in refused[0]["error"]
        assert texts(world, name) == (MOST_CHANGES + 1, 2)
        assert texts(world, other) == (1, 1), "nobody has looked at it again"
        changes = await world.audit("tool.changed", session="system")
        assert [each.subject for each in changes] == [name] * MOST_CHANGES
        [server] = await world.runtime.servers.all(world.runtime.owner)
        assert "has changed" in server.refused["t7"]

        assert (await world.runtime.servers.accept(world.runtime.owner, name)).news
        for question in asked:
            await world.send(
                {"type": "hitl_decision", "call_id": question.call_id, "decision": "reject"}
            )
        await world.until("assistant_message", content="enough")
        await world.say("Look again", "coder")
        assert len(await world.pending()) == MOST_CHANGES
        assert texts(world, name) == (2 * MOST_CHANGES + 1, 2)


async def test_a_server_lists_so_many_names_and_no_more(make, tmp_path, monkeypatch):
    monkeypatch.setattr("gonogo.runtime.foreign_tools.MOST_SEEN", 300)
    hostile(tmp_path, "other names each time")
    async with make(looks("one", "two", "three")) as world:
        for _ in range(3):
            await world.say("Look", "coder")
        with sqlite3.connect(tmp_path / "home" / "gonogo.db") as database:
            assert database.execute("SELECT count(*) FROM sightings").fetchone() == (300,)
        [server] = await world.runtime.servers.all(world.runtime.owner)
        assert "its server has listed 300 other tools already" in server.refused.values()


def left_behind(tmp_path):
    """A process that is killed by a server while it judges a call, as often as this is called."""
    message = {"type": "user_message", "content": "Look", "agent_type": "coder"}
    again = [] if (tmp_path / "home").exists() else [json.dumps(message)]
    with mortal("fakes.mortal", str(tmp_path), "", *again) as process:
        return process.wait(60)


def prepared(tmp_path):
    """What a process that is to be killed goes by."""
    hostile(tmp_path, "kills us")
    allow(tmp_path)
    (tmp_path / "work").mkdir()
    lines = {"main/coder": [calls(call(TOOL, text="x")), says("without it")]}
    (tmp_path / "lines.json").write_text(json.dumps(lines))
    return lines


async def until_it_is_given_up(tmp_path, lines):
    """Open what was left behind: the call is not judged again, and the answer goes on.

    Without the server, which would kill us too when its tools are offered.
    """
    (tmp_path / "config" / "mcp.toml").unlink()
    async with world_of(tmp_path, lines) as world:
        world.session = "mortal"
        await world.until("assistant_message", content="without it")
        [result] = of(await world.log(), "tool_result")
        assert result["error"].startswith("internal: gonogo ended several times while it looked")


@pytest.mark.nightly
async def test_a_server_that_kills_whoever_looks_at_its_tool_is_looked_at_a_few_times(tmp_path):
    lines = prepared(tmp_path)
    for _ in range(1 + MOST_JUDGINGS):
        assert left_behind(tmp_path) == -signal.SIGKILL
    await until_it_is_given_up(tmp_path, lines)


async def test_a_call_that_ended_whoever_judged_it_is_counted_before_it_is_judged(tmp_path):
    lines = prepared(tmp_path)
    assert left_behind(tmp_path) == -signal.SIGKILL
    assert judgings(tmp_path) == ("proposed", 0)
    assert left_behind(tmp_path) == -signal.SIGKILL
    assert judgings(tmp_path) == ("proposed", 1)
    with sqlite3.connect(tmp_path / "home" / "gonogo.db") as database:
        database.execute("UPDATE tool_calls SET judgings = ?", [MOST_JUDGINGS])
    await until_it_is_given_up(tmp_path, lines)


def judgings(tmp_path):
    """Where the one call stands, and how often it was judged in vain."""
    with sqlite3.connect(tmp_path / "home" / "gonogo.db") as database:
        return database.execute("SELECT status, judgings FROM tool_calls").fetchone()


async def test_a_call_that_was_judged_once_more_is_counted_no_more(make, served):
    """One that waits while others are answered for is taken up with each answer."""
    lines = {
        "main/coder": [
            calls(*[call(TOOL, text=str(number)) for number in range(MOST_JUDGINGS + 3)]),
            says("done"),
        ]
    }
    async with make(lines) as world:
        await world.say("Look", "coder")
        for question in await world.pending():
            await world.decide(question.call_id)
        await world.until("assistant_message", content="done")
        assert len(done(served)) == MOST_JUDGINGS + 3
