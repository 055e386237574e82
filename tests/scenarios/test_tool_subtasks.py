"""A subtask by a tool: one call of the runtime itself, through the same gate and records."""

import re

import pytest

from fakes.world import HELD, a_while, held_once, is_running, of, plan, says, step
from gonogo.domain.errors import InvalidPlan


def by_tool(key, *after, tool, **inputs):
    """One subtask that is one call of a tool."""
    return {
        "id": key, "description": f"Do {key}", "tool": tool, "dependencies": list(after),
        "inputs": inputs,
    }  # fmt: skip


def command(key, *after, run, allowed=True, scope=None):
    """One subtask that is one command."""
    scope = {"scope": {"commands": [scope or run.split()[0]]}} if allowed else {}
    return by_tool(key, *after, tool="execute_command", command=run) | scope


async def run(world):
    """The one plan of a world, from its proposal as far as it goes. Gives its id and events."""
    plan_id = await world.propose()
    return plan_id, await world.decide_plan(plan_id)


async def subtasks(world, plan_id):
    """The subtasks of a plan as clients see them."""
    found = await world.runtime.plans.get(world.ann, plan_id)
    return {subtask.id: subtask for subtask in found.subtasks}


@pytest.mark.feature(95, 97, 98)
async def test_a_tool_carries_a_subtask_out_with_its_inputs_and_others_see_the_result(make):
    lines = {
        "main/architect": [
            plan(
                by_tool("make", tool="write_file", path="a.txt", content="one\n"),
                by_tool("look", "make", tool="read_file", path="${subtasks.make.output.path}"),
                step("tell", "look"),
            )
        ],
        "tell": [says("told")],
    }
    async with make(lines) as world:
        plan_id, events = await run(world)

        assert events[-1]["metadata"]["status"] == "completed"
        assert world.read("a.txt") == "one\n"
        found = await subtasks(world, plan_id)
        result = found["look"].result
        assert (result["status"], result["metadata"]) == ("completed", {"tool": "read_file"})
        assert result["output"]["content"] == "one\n"
        assert [request.thread for request in world.model.requests] == ["main", "tell"]
        brief = world.model.asked("tell")[0].messages[0].content
        assert "status completed" in brief
        assert '{"tool": "read_file"}' in brief
        assert '"content": "one\\n"' in brief
        assert "Do look, by read_file" in brief


async def test_each_call_of_a_tool_subtask_is_recorded_as_an_agents_is(make):
    lines = {
        "main/architect": [plan(by_tool("make", tool="write_file", path="a.txt", content="one\n"))]
    }
    async with make(lines) as world:
        _, events = await run(world)

        [called] = of(events, "tool_call", subtask_id="make")
        [result] = of(events, "tool_result", subtask_id="make")
        assert called["call_id"] == result["call_id"]
        assert called["call_id"].startswith("call_")
        assert called["agent"] == "gonogo"
        [allowed] = [e for e in await world.audit("tool.allowed") if e.subject == "write_file"]
        assert allowed.details["source"] == "grant"
        assert allowed.details["subtask_id"] == "make"
        [started] = of(events, "subtask_started", subtask_id="make")
        assert started["metadata"]["tool"] == "write_file"
        assert "agent" not in started["metadata"]
        assert of(events, "agent_switched", subtask_id="make") == []
        assert (await world.runtime.audit.verify(world.ann)).ok


async def test_a_tool_subtask_outside_its_scope_asks_and_goes_on_with_the_answer(make):
    outside = by_tool("make", tool="write_file", path="b/a.txt", content="one\n")
    lines = {"main/architect": [plan({**outside, "scope": {"paths": ["src/**"]}})]}
    async with make(lines) as world:
        _, events = await run(world)

        assert events[-1]["type"] == "approval_requested"
        [question] = await world.pending()
        assert question.tool_name == "write_file"
        assert world.read("b/a.txt") is None
        events = await world.decide(question.call_id)
        assert events[-1]["metadata"]["status"] == "completed"
        assert world.read("b/a.txt") == "one\n"


@pytest.mark.parametrize(
    ("word", "content"), [("reject", None), ("edit", "other\n")], ids=["rejected", "edited"]
)
async def test_a_person_rejects_or_changes_the_call_of_a_tool_subtask(make, word, content):
    outside = by_tool("make", tool="write_file", path="b/a.txt", content="one\n")
    lines = {"main/architect": [plan({**outside, "scope": {"paths": ["src/**"]}})]}
    async with make(lines) as world:
        plan_id, _ = await run(world)
        [question] = await world.pending()
        changed = {"modified_arguments": {"path": "b/a.txt", "content": content}} if content else {}
        events = await world.decide(question.call_id, word, feedback="not there", **changed)

        assert world.read("b/a.txt") == content
        subtask = (await subtasks(world, plan_id))["make"]
        if content:
            assert subtask.status == "completed"
        else:
            assert subtask.status == "failed"
            assert subtask.error["category"] == "permission"
            assert "not there" in subtask.error["message"]
            assert events[-1]["metadata"]["status"] == "failed"


@pytest.mark.parametrize(
    ("subtask", "category", "said"),
    [
        (by_tool("a", tool="write_file", path=".git/config", content=""), "policy", "config"),
        (command("a", run="sh -c true") | {"scope": None}, "policy", ""),
        (by_tool("a", tool="read_file", path="gone.txt"), "logic", "gone.txt"),
        (command("a", run="ls gone.txt"), "logic", "exit code 2"),
        (command("a", run="nosuchprogram now"), "environment", "exit code 127"),
    ],
    ids=["protected", "denied", "missing file", "exit code", "missing program"],
)
async def test_a_call_that_is_denied_or_fails_fails_its_subtask(make, subtask, category, said):
    lines = {"main/architect": [plan(subtask, step("b", "a"))]}
    async with make(lines, unattended=True) as world:
        plan_id, events = await run(world)

        found = await subtasks(world, plan_id)
        assert found["a"].status == "failed", found["a"]
        assert found["a"].error["category"] == category, found["a"].error
        assert said in found["a"].error["message"]
        assert found["b"].status == "skipped"
        assert events[-1]["metadata"]["status"] == "failed"


@pytest.mark.parametrize("decision", ["approve", "edit", "reject"])
async def test_a_command_of_a_tool_subtask_that_was_cut_off_is_unknown_and_not_run_twice(
    make, decision
):
    mark = a_while()
    lines = {"main/architect": [plan(command("a", run=HELD, scope=HELD))]}
    async with make(lines) as world:
        held_once(world.folder, mark)
        await world.begin()
        await is_running(mark)
        await world.restart()
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        [question] = await world.pending()
        assert len(of(await world.log(), "tool_call")) == 1 + 1  # create_plan and the command
        (world.folder / "go").touch()
        answer = {"modified_arguments": {"result": {"exit_code": 0}}} if decision == "edit" else {}
        events = await world.ask({
            "type": "hitl_decision", "approval_id": question.approval_id, "decision": decision,
            **answer,
        })  # fmt: skip

        ended = "failed" if decision == "reject" else "completed"
        assert events[-1]["metadata"]["status"] == ended
        runs = of(await world.log(), "tool_call", tool_name="execute_command")
        assert len(runs) == (2 if decision == "approve" else 1)
        assert (await world.runtime.audit.verify(world.ann)).ok


@pytest.mark.parametrize(
    ("subtask", "said"),
    [
        (by_tool("a", tool="create_plan"), "no tool 'create_plan'"),
        (by_tool("a", tool="teleport"), "no tool 'teleport'"),
        (by_tool("a", tool="read_file", file="a.txt"), "inputs: read_file: "),
        (by_tool("a", tool="read_file", path="${subtasks.b.output}"), "does not depend on"),
        (by_tool("a", tool="read_file", path="${subtasks.c.output}"), "unknown subtask"),
        (step("a", condition="subtasks.b.output =="), "'a': condition"),
    ],
)
async def test_what_cannot_work_refuses_the_plan_with_its_place(make, subtask, said):
    lines = {
        "main/architect": [plan(subtask, step("b")), plan(step("b"))], "b": [says("b")],
    }  # fmt: skip
    async with make(lines) as world:
        events = await world.say("Build it", "architect")

        refused, stored = of(events, "tool_result", tool_name="create_plan")
        assert refused["error"].startswith("invalid_plan: ")
        assert said in refused["error"]
        plan_id = stored["result"]["plan_id"]
        edited = {"modified_subtasks": [subtask, step("b")]}
        with pytest.raises(InvalidPlan, match=re.escape(said)):
            await world.decide_plan(plan_id, "edit", **edited)


async def test_a_client_carries_out_the_tool_of_a_subtask(make):
    lines = {"main/architect": [plan(by_tool("a", tool="read_file", path="a.txt"))]}
    async with make(lines) as world:
        opened = await world.runtime.sessions.open(world.ann, tool_host="client")
        world.session = opened.session_id
        await world.runtime.claim_tool_host(world.ann, world.session, "editor")
        plan_id = await world.begin()
        called = await world.until("tool_call", tool_name="read_file")
        answer = {"type": "tool_result", "call_id": called["call_id"], "result": {"content": "x"}}
        await world.send(answer, connection="editor")
        await world.until("plan_completed")

        found = await subtasks(world, plan_id)
        assert found["a"].result["output"] == {"content": "x"}
