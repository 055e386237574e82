"""kill -9 at any moment: what a person was told is kept, and nothing happens twice in the dark."""

import fcntl
import json
import os
import re
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from fakes import mortal
from fakes.world import (
    HELD,
    LIMIT,
    a_while,
    call,
    calls,
    held_once,
    is_running,
    of,
    on_both,
    plan,
    run,
    says,
    step,
    write,
)


@contextmanager
def process(born, root: Path, db, lines, *messages, **more):
    """A runtime in a process of its own; gives its events. It is killed at the end.

    Args:
        more: More environment.
    """
    (root / "work").mkdir(exist_ok=True)
    (root / "lines.json").write_text(json.dumps(lines))
    words = [str(root), db or "", *(json.dumps(message) for message in messages)]
    read, write = os.pipe()
    with os.fdopen(read) as printed:
        child = born.start(
            "fakes.mortal", *words, env={**os.environ, **more}, cwd=root, stdout=write, stderr=2
        )
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


def proposed(born, root: Path, db, lines):
    """Have a plan proposed, and its process killed. Gives the message that approves it."""
    with process(born, root, db, lines, BUILD) as events:
        plan_id = seen(events, "plan_notification")["metadata"]["plan_id"]
    return {"type": "plan_decision", "plan_id": plan_id, "decision": "approve"}


async def killed_while_it_runs(born, root: Path, db, lines, mark):
    """Have a plan proposed and approved, and its process killed while its command runs.

    Gives the message that approved it.
    """
    go = proposed(born, root, db, lines)
    with process(born, root, db, lines, go) as events:
        seen(events, "tool_call", tool_name="execute_command")
        await is_running(mark)
    await is_running(mark, False)
    return go


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
        assert (await world.runtime.audit.verify(world.ann)).ok


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
    said = {"verb": "comment", "arguments": {"plan_id": plan_id, "content": "Sure?"}}
    back = {"verb": "revise", "arguments": {"plan_id": plan_id}}
    with process(born, tmp_path, db, lines, said, back) as events:
        seen(events, "plan_sent_back")
    async with make({**lines, "revise-1": [answers], "a": [says("a")]}) as world:
        world.session = mortal.SESSION
        notice = await world.until("plan_notification", revision=2)
        assert [c["answer"] for c in notice["metadata"]["comments"]] == ["Yes"]
        events = await world.decide_plan(plan_id, revision=2)

        assert events[-1]["metadata"]["status"] == "completed"
        assert len(of(await world.log(), "plan_sent_back")) == 1
        assert (await world.runtime.audit.verify(world.ann)).ok


@pytest.mark.each_database
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
    await killed_while_it_runs(born, tmp_path, db, lines, mark)
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
        grants = await world.runtime.plans.grants(world.ann, world.session)
        assert {g.status for g in grants} == {"ended"}
        assert (await world.runtime.audit.verify(world.ann)).ok


@pytest.mark.feature(212, 218)
async def test_what_a_command_changed_before_the_kill_is_known_and_can_be_undone(
    make, born, tmp_path
):
    mark = a_while()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/make.sh").write_text(f"echo made > made.txt\nsleep {mark}\n")
    lines = {
        "main/architect": [plan(step("a", scope={"commands": ["sh make.sh"]}))],
        "a": [calls(write("a.txt")), calls(run("sh make.sh")), says("a")],
    }
    approval = await killed_while_it_runs(born, tmp_path, None, lines, mark)
    async with make(lines) as world:
        world.session = mortal.SESSION
        await world.until("approval_requested", kind="intervention")
        [question] = await world.pending()
        await world.ask({
            "type": "hitl_decision", "approval_id": question.approval_id, "decision": "edit",
            "modified_arguments": {"result": {"exit_code": 0}},
        })  # fmt: skip
        await world.idle()
        assert (world.folder / "made.txt").exists()

        done = await world.runtime.checkpoints.rollback(
            world.ann, approval["plan_id"], whole=True, include_shared=True
        )

        assert {f.path for f in done.files} >= {"a.txt", "made.txt"}
        assert not {"a.txt", "made.txt"} & {path.name for path in world.folder.iterdir()}


@pytest.mark.feature(210, 212)
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_person_has_an_unknown_call_run_again_or_failed(make, decision):
    mark = a_while()
    lines = {
        "main/architect": [plan(step("b", scope={"commands": [HELD]}))],
        "b": [calls(run(HELD)), says("b")],
    }
    async with make(lines) as world:
        held_once(world.folder, mark)
        await world.begin()
        await is_running(mark)
        await world.restart()
        await world.until("approval_requested", kind="intervention")
        [question] = await world.pending()
        (world.folder / "go").touch()
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
        results = of(log, "tool_result", tool_name="execute_command")
        ended = "failed" if decision == "reject" else "completed"
        assert [e["metadata"]["status"] for e in results] == ["unknown", ended]
        by = [e.details for e in await world.audit("tool.allowed") if "retry_of" in e.details]
        if decision == "approve":
            assert [(e["source"], e["call_id"], e["retry_of"]) for e in by] == [
                ("person", results[1]["call_id"], results[0]["call_id"])
            ]


@pytest.mark.feature(32, 33)
@pytest.mark.parametrize("meanwhile", ["its grant was revoked", "other rules hold"])
async def test_a_call_that_was_cut_off_is_not_run_again_by_itself_where(
    make, born, tmp_path, meanwhile
):
    lines = {"main/architect": [plan(step("a"))], "a": [calls(write("a.txt")), says("a")]}
    go = proposed(born, tmp_path, None, lines)
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
                [grant] = await world.runtime.plans.grants(world.ann, world.session)
                await world.runtime.plans.revoke_grant(world.ann, grant.grant_id)
            fcntl.flock(folder, fcntl.LOCK_UN)
            await world.until("approval_requested", kind="intervention")

            assert world.read("a.txt") is None
    finally:
        os.close(folder)


# What a command left ------------------------------------------------------------------------------

PLANTS = "mkdir -p .git/hooks; echo evil > .git/hooks/x; touch .envrc"
MAKES = {
    "main/architect": [plan(step("a", scope={"commands": ["python3 make.py"]}))],
    "a": [calls(run("python3 make.py")), says("a")],
}


def makes(root: Path, script: str) -> None:
    """What the command of the plan does."""
    (root / "work").mkdir(exist_ok=True)
    text = f"import subprocess; subprocess.run(['bash', '-c', {script!r}])"
    (root / "work" / "make.py").write_text(text)


def is_intervention(event):
    return event["type"] == "approval_requested" and event["metadata"]["kind"] == "intervention"


async def decides(world, decision):
    """Answer the one question."""
    [asked] = await world.pending()
    await world.send(
        {"type": "hitl_decision", "approval_id": asked.approval_id, "decision": decision}
    )
    await world.idle()
    return asked


async def test_names_that_a_command_left_are_asked_about_after_a_kill_while_it_ran(
    make, born, tmp_path
):
    mark = a_while()
    makes(tmp_path, f"{PLANTS}; sleep {mark}")
    go = proposed(born, tmp_path, None, MAKES)
    with process(born, tmp_path, None, MAKES, go), anyio.fail_after(LIMIT):
        # The shell that runs it all has the mark on its command line before it has made anything.
        while not (tmp_path / "work" / ".envrc").exists():  # noqa: ASYNC110 - files tell nobody
            await anyio.sleep(0.01)
        await is_running(mark)
    await is_running(mark, False)
    async with make(MAKES) as world:
        world.session = mortal.SESSION
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        asked = await decides(world, "reject")

        assert asked.details["names"] == [".envrc", ".git"]
        assert not (world.folder / ".git").exists()
        # And what came of the command nobody knows all the same.
        doubted = await decides(world, "reject")
        assert "It is unknown whether this took effect" in doubted.reason
        assert "Reason: gonogo stopped while it was running." in doubted.reason


@pytest.mark.parametrize("moment", ["guarded_names", "tool.left_names", "INSERT INTO approvals"])
async def test_a_kill_between_a_commands_end_and_the_question_loses_no_question(
    make, born, tmp_path, moment
):
    makes(tmp_path, PLANTS)
    go = proposed(born, tmp_path, None, MAKES)
    with process(born, tmp_path, None, MAKES, go, DIES_AT=moment) as events:
        assert [e for e in events if is_intervention(e)] == []
    async with make(MAKES) as world:
        world.session = mortal.SESSION
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        asked = await decides(world, "approve")

        assert asked.details["names"] == [".envrc", ".git"]
        assert len(await world.pending()) == 1


@pytest.mark.parametrize("moment", ["tool.names_taken", "DELETE FROM watches"])
async def test_a_kill_while_names_are_taken_away_leaves_them_taken_away(
    make, born, tmp_path, moment
):
    makes(tmp_path, PLANTS)
    go = proposed(born, tmp_path, None, MAKES)
    with process(born, tmp_path, None, MAKES, go) as events:
        asked = next(e["metadata"]["approval_id"] for e in events if is_intervention(e))
    no = {"type": "hitl_decision", "approval_id": asked, "decision": "reject"}
    with process(born, tmp_path, None, MAKES, no, DIES_AT=moment) as events:
        list(events)
    async with make(MAKES) as world:
        world.session = mortal.SESSION
        await world.until("plan_completed")

        assert await world.pending() == []
        assert not (world.folder / ".git").exists()
        found = {p.name for p in (world.settings.home / "taken").rglob("*") if p.is_file()}
        assert found == {".envrc", "x"}
