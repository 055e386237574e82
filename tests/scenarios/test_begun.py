"""A call that a person approves starts in the transaction of the approval, where its place is free:
commands and calls of subtasks too. What happens between that and its run is not taken for its own.
"""

import anyio
import pytest

from fakes.world import LIMIT, calls, of, on_both, plan, run, says, step, write
from gonogo.execution.agent import Hands, executor
from gonogo.store.calls import approval_of_call, call_of
from gonogo.store.checkpoints import changes_of_session

TOUCH = run("touch a.txt")
CALLS = {"file": write("a.txt", ""), "command": TOUCH}


def story(body, *, planned):
    """A script whose coder makes one call that asks, in a turn or in a subtask."""
    lines = [calls(body), says("Made")]
    if not planned:
        return {"main/coder": lines, "main/orchestrator": [says("Yes?")]}
    one = step("one", scope={"paths": ["b.txt"]}, must_change=False)
    return {"main/architect": [plan(one), says("Done")], "one": lines}


async def asked(world, *, planned):
    """Come to the question about the call. Gives the call's id."""
    if planned:
        events = await world.decide_plan(await world.propose())
    else:
        events = await world.say("Make it", "coder")
    assert events[-1]["type"] == "approval_requested"
    return events[-1]["call_id"]


async def moments(world, call_id):
    """When a call was approved, and when it started."""
    store = world.runtime.parts.store
    approval, row = await store.read(approval_of_call, call_id), await store.read(call_of, call_id)
    return approval.decided_at, row.started_at


async def changed(world):
    """The paths that calls have changed, as the record has it."""
    rows = await world.runtime.parts.store.read(changes_of_session, world.session)
    return sorted(row.path for row in rows)


@on_both
@pytest.mark.parametrize("planned", [False, True], ids=["turn", "subtask"])
@pytest.mark.parametrize("kind", CALLS)
async def test_an_approved_call_starts_in_the_transaction_of_its_approval(make, kind, planned):
    async with make(story(CALLS[kind], planned=planned)) as world:
        call_id = await asked(world, planned=planned)
        events = await world.decide(call_id)

        assert of(events, "tool_result")[0]["metadata"]["status"] == "completed"
        assert world.read("a.txt") == ""
        decided, started = await moments(world, call_id)
        assert started == decided
        assert await changed(world) == ["a.txt"]
        allowed = await world.audit("tool.allowed")
        assert [each.details["call_id"] for each in allowed].count(call_id) == 1


@pytest.mark.parametrize("planned", [False, True], ids=["turn", "subtask"])
async def test_a_command_whose_workspace_is_not_free_is_approved_and_waits(make, planned):
    async with make(story(TOUCH, planned=planned)) as world:
        call_id = await asked(world, planned=planned)
        async with world.runtime.parts.hands.traces.traffic.shared(world.folder):
            await world.send({"type": "hitl_decision", "call_id": call_id, "decision": "approve"})
            assert (await moments(world, call_id))[1] is None
            assert world.read("a.txt") is None
        await world.until("tool_result", call_id=call_id)

        decided, started = await moments(world, call_id)
        assert started > decided
        assert await changed(world) == ["a.txt"]


@pytest.mark.parametrize("planned", [False, True], ids=["turn", "subtask"])
async def test_what_another_call_does_before_an_approved_command_runs_is_not_its_own(
    make, monkeypatch, planned
):
    begin = Hands.run_begun

    async def after_another(hands, thread, ready):
        async with hands.traces.traffic.shared(world.folder):
            (world.folder / "other.txt").write_text("another's")
        await begin(hands, thread, ready)

    monkeypatch.setattr(Hands, "run_begun", after_another)
    async with make(story(TOUCH, planned=planned)) as world:
        call_id = await asked(world, planned=planned)
        await world.decide(call_id)

        decided, started = await moments(world, call_id)
        assert started == decided
        assert await changed(world) == ["a.txt"]


async def _before_the_answer(world, answer, change, monkeypatch):
    change()
    await answer()


async def _while_it_waits(world, answer, change, monkeypatch):
    traffic = world.runtime.parts.hands.traces.traffic
    async with traffic.shared(world.folder):
        await answer()
        with anyio.fail_after(LIMIT):
            while not traffic._ways[world.folder].queue:
                await anyio.lowlevel.checkpoint()
        change()


async def _as_it_has_begun(world, answer, change, monkeypatch):
    begin = Hands.run_begun

    async def after_another(hands, thread, ready):
        async with hands.traces.traffic.shared(world.folder):
            change()
        await begin(hands, thread, ready)

    monkeypatch.setattr(Hands, "run_begun", after_another)
    await answer()


@pytest.mark.parametrize("when", [_before_the_answer, _while_it_waits, _as_it_has_begun])
async def test_a_script_that_is_not_as_it_was_approved_does_not_run(make, monkeypatch, when):
    async with make(story(run("sh build.sh"), planned=False)) as world:
        script = world.folder / "build.sh"
        script.write_text("echo one >a.txt\n")
        call_id = await asked(world, planned=False)
        decision = {"type": "hitl_decision", "call_id": call_id, "decision": "approve"}
        await when(
            world, lambda: world.send(decision), lambda: script.write_text("echo two >a.txt\n"),
            monkeypatch,
        )  # fmt: skip
        ended = await world.until("tool_result", call_id=call_id)

        assert ended["error"].startswith("changed_since_approval: A file changed")
        assert world.read("a.txt") is None


async def test_nobody_waits_for_a_large_snapshot_to_be_told_that_the_answer_is_taken(
    make, monkeypatch
):
    monkeypatch.setattr(executor, "_PATIENCE", 0)
    async with make(story(TOUCH, planned=False)) as world:
        call_id = await asked(world, planned=False)
        await world.decide(call_id)

        decided, started = await moments(world, call_id)
        assert started > decided
        assert world.read("a.txt") == ""


@pytest.mark.parametrize("planned", [False, True], ids=["turn", "subtask"])
async def test_a_command_that_started_with_its_approval_and_never_ran_is_asked_about(
    make, monkeypatch, planned
):
    reached = anyio.Event()

    async def gone(hands, thread, ready):
        reached.set()
        await anyio.sleep_forever()

    async with make(story(TOUCH, planned=planned)) as world:
        call_id = await asked(world, planned=planned)
        with monkeypatch.context() as patch:
            patch.setattr(Hands, "run_begun", gone)
            await world.send({"type": "hitl_decision", "call_id": call_id, "decision": "approve"})
            with anyio.fail_after(LIMIT):
                await reached.wait()
            await world.stop()
        await world.start()
        await world.until("approval_requested", after=len(await world.log()) - 1)
        await world.idle()

        [question] = await world.pending()
        assert (question.kind, question.call_id) == ("intervention", call_id)
        assert world.read("a.txt") is None
