"""kill -9 at any moment: what a person was told is kept, and nothing happens twice in the dark."""

import fcntl
import json
import os
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakes import mortal
from fakes.world import a_while, call, calls, is_running, of, on_both, plan, run, says, step, write


@contextmanager
def process(born, root: Path, db, lines, *messages):
    """A runtime in a process of its own; gives its events. It is killed at the end."""
    (root / "work").mkdir(exist_ok=True)
    (root / "lines.json").write_text(json.dumps(lines))
    words = [str(root), db or "", *(json.dumps(message) for message in messages)]
    read, write = os.pipe()
    with os.fdopen(read) as printed:
        child = born.start("fakes.mortal", *words, env=os.environ, cwd=root, stdout=write, stderr=2)
        os.close(write)
        try:
            yield map(json.loads, printed)
        finally:
            child.kill()
            child.wait(60)


def seen(events, kind, **fields):
    """Read events up to one of a kind."""
    for event in events:
        flat = {**event.get("metadata", {}), **event}
        if event["type"] == kind and all(flat.get(k) == v for k, v in fields.items()):
            return event
    raise AssertionError(f"the process ended before {kind}")


BUILD = {"type": "user_message", "content": "Build", "agent_type": "architect"}


@on_both
@pytest.mark.feature(22)
async def test_a_plan_that_waits_survives_a_kill(make, born, tmp_path, db):
    lines = {"main/architect": [plan(step("a"))], "a": [calls(write("a.txt")), says("a")]}
    with process(born, tmp_path, db, lines, BUILD) as events:
        plan_id = seen(events, "plan_notification")["metadata"]["plan_id"]
    async with make(lines) as world:
        world.session = mortal.SESSION
        assert [a.plan_id for a in await world.pending()] == [plan_id]
        events = await world.decide_plan(plan_id)

        assert events[-1]["type"] == "plan_completed"
        assert world.read("a.txt") == "made\n"
        assert (await world.runtime.verify_audit(world.ann)).ok


def answers(request):
    """A planner that answers each comment that it was told of."""
    found = re.findall(r'"comment_id": "([^"]+)"', request.messages[0].content)
    given = [{"comment_id": each, "answer": "Yes"} for each in found]
    return calls(call("create_plan", goal="A goal", subtasks=[step("a")], answers=given))


@on_both
async def test_comments_that_a_planner_was_answering_are_answered_after_a_kill(
    make, born, tmp_path, db
):
    lines = {"main/architect": [plan(step("a"))], "revise-1": [says("…", delay=60)]}
    with process(born, tmp_path, db, lines, BUILD) as events:
        plan_id = seen(events, "plan_notification")["metadata"]["plan_id"]
    said = {"verb": "comment_plan", "arguments": {"plan_id": plan_id, "content": "Sure?"}}
    back = {"verb": "revise_plan", "arguments": {"plan_id": plan_id}}
    with process(born, tmp_path, db, lines, said, back) as events:
        seen(events, "plan_sent_back")
    async with make({**lines, "revise-1": [answers], "a": [says("a")]}) as world:
        world.session = mortal.SESSION
        notice = await world.until("plan_notification", revision=2)
        assert [c["answer"] for c in notice["metadata"]["comments"]] == ["Yes"]
        events = await world.decide_plan(plan_id, revision=2)

        assert events[-1]["metadata"]["status"] == "completed"
        assert len(of(await world.log(), "plan_sent_back")) == 1
        assert (await world.runtime.verify_audit(world.ann)).ok


@on_both
@pytest.mark.feature(23, 33, 212)
async def test_a_command_that_was_cut_off_is_unknown_and_not_run_again_by_itself(
    make, born, tmp_path, db
):
    mark = a_while()
    scope = {"commands": ["sleep"]}
    lines = {
        "main/architect": [plan(step("a"), step("b", "a", scope=scope))],
        "a": [calls(write("a.txt")), says("a")],
        "b": [calls(run(f"sleep {mark}")), says("b")],
    }
    with process(born, tmp_path, db, lines, BUILD) as events:
        plan_id = seen(events, "plan_notification")["metadata"]["plan_id"]
    go = {"type": "plan_decision", "plan_id": plan_id, "decision": "approve"}
    with process(born, tmp_path, db, lines, go) as events:
        seen(events, "tool_call", tool_name="execute_command")
        await is_running(mark)
    await is_running(mark, False)
    async with make(lines) as world:
        world.session = mortal.SESSION
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        [question] = await world.pending()
        assert question.kind == "intervention"
        assert f"sleep {mark}" in question.subject
        result = of(await world.log(), "tool_result", tool_name="execute_command")
        assert [e["metadata"]["status"] for e in result] == ["unknown"]
        await is_running(mark, False)
        events = await world.ask({
            "type": "hitl_decision", "approval_id": question.approval_id, "decision": "edit",
            "modified_arguments": {"result": {"exit_code": 0}},
        })  # fmt: skip

        assert events[-1]["type"] == "plan_completed"
        assert events[-1]["metadata"]["completed"] == 2
        assert world.model.asked("a") == []
        grants = await world.runtime.grants(world.ann, world.session)
        assert {g.status for g in grants} == {"ended"}
        assert (await world.runtime.verify_audit(world.ann)).ok


@pytest.mark.feature(212)
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_person_has_an_unknown_call_run_again_or_failed(make, decision):
    mark = a_while(5)
    lines = {
        "main/architect": [plan(step("b", scope={"commands": ["sleep"]}))],
        "b": [calls(run(f"sleep {mark}")), says("b")],
    }
    async with make(lines) as world:
        await world.begin()
        await is_running(mark)
        await world.restart()
        await world.until("approval_requested", kind="intervention")
        [question] = await world.pending()
        events = await world.ask({
            "type": "hitl_decision", "approval_id": question.approval_id, "decision": decision,
        })  # fmt: skip

        assert events[-1]["type"] == "plan_completed"
        told = [m for m in world.model.asked("b")[-1].messages if m.role == "tool"]
        assert len(told) == 1
        assert told[0].is_error is (decision == "reject")
        log = await world.log()
        called = {e["call_id"] for e in of(log, "tool_call")}
        assert {e["call_id"] for e in of(log, "tool_result")} == called


@pytest.mark.feature(32, 33)
@pytest.mark.parametrize("meanwhile", ["its grant was revoked", "other rules hold"])
async def test_a_call_that_was_cut_off_is_not_run_again_by_itself_where(
    make, born, tmp_path, meanwhile
):
    lines = {"main/architect": [plan(step("a"))], "a": [calls(write("a.txt")), says("a")]}
    with process(born, tmp_path, None, lines, BUILD) as events:
        plan_id = seen(events, "plan_notification")["metadata"]["plan_id"]
    go = {"type": "plan_decision", "plan_id": plan_id, "decision": "approve"}
    folder = os.open(tmp_path / "work", os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Somebody else changes the workspace, so that the call starts, and waits.
        fcntl.flock(folder, fcntl.LOCK_EX)
        with process(born, tmp_path, None, lines, go) as events:
            seen(events, "tool_call", tool_name="write_file")
        if meanwhile == "other rules hold":
            (tmp_path / "config").mkdir()
            (tmp_path / "config" / "rules.toml").write_text(
                '[[rule]]\ntool = "delete_file"\ndecision = "deny"\n'
            )
        async with make(lines) as world:
            world.session = mortal.SESSION
            if meanwhile == "its grant was revoked":
                [grant] = await world.runtime.grants(world.ann, world.session)
                await world.runtime.revoke_grant(world.ann, grant.grant_id)
            fcntl.flock(folder, fcntl.LOCK_UN)
            await world.until("approval_requested", kind="intervention")

            assert world.read("a.txt") is None
    finally:
        os.close(folder)
