"""After an answer, a timer or a start each work goes on where it stood, and nothing else."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fakes import rows
from fakes.world import World, world_of
from gonogo.domain.records import MAIN, CallRow, Job, Timer
from gonogo.domain.states import CallStatus, PlanStatus, SubtaskStatus, TurnStatus
from gonogo.domain.tool_calls import ToolClass
from gonogo.execution.recovery import recover
from gonogo.i18n import say
from gonogo.store import Tx
from gonogo.store.calls import add_calls, call_of, open_calls, pending_approvals
from gonogo.store.plans import Move, move_plan, move_subtasks, plan_of, set_plan, subtask_row
from gonogo.store.sessions import add_session, add_turn, move_turn, take_turn, turn_of

_S = SubtaskStatus
A = "p1/1/a"
NONE: list[tuple[str, str, int]] = []


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(tmp_path, {}) as found:
        found.honest = False
        yield found


async def sets_going(world: World, does: Callable[[Tx], object]) -> list[tuple[str, str, int]]:
    """The jobs that something sets going; none of them runs."""

    def write(tx: Tx) -> list[Job]:
        tx.outbox.jobs.clear()
        does(tx)
        jobs = [*tx.outbox.jobs]
        tx.outbox.jobs.clear()
        return jobs

    return [(j.kind, j.key, j.epoch) for j in await world.runtime.parts.store.write(write)]


async def fired(world: World, kind: str, key: str = "x") -> list[tuple[str, str, int]]:
    def fire(tx: Tx) -> None:
        world.runtime.parts.on_timer(tx, Timer(kind=kind, key=key, run_at=tx.now))

    return await sets_going(world, fire)


def begin(tx: Tx, *, runs: bool = True) -> None:
    """A session with a plan that runs, and its first subtask."""
    add_session(tx, rows.session(workspace="/"))
    rows.begin_plan(tx)
    plan = plan_of(tx, "p1")
    assert plan is not None
    assert move_plan(tx, plan, PlanStatus.APPROVED)
    plan = plan_of(tx, "p1")
    assert plan is not None
    assert move_plan(tx, plan, PlanStatus.RUNNING, started_at=tx.now)
    if runs:
        stands(tx, _S.RUNNING)
    tx.outbox.jobs.clear()


def stands(tx: Tx, status: SubtaskStatus) -> None:
    row = subtask_row(tx, A)
    assert row is not None
    to = {"attempt": 1, "epoch": 4} if status is _S.RUNNING else {}
    assert move_subtasks(tx, [Move(A, row.status, row.epoch, status, to)])


def call(status: CallStatus, **more: Any) -> CallRow:
    place = {"plan_id": "p1", "revision": 1, "subtask_id": "a", "thread": f"{A}#1", "tool": "fetch"}
    return rows.call(**{**place, "status": status, "tool_class": ToolClass.OTHER, **more})


async def test_what_was_put_off_is_gone_on_with_under_its_own_name(world: World) -> None:
    for name in ("turn", "replan", "hook", "sweep", "watch", "erase"):
        assert await fired(world, f"again_{name}", "key") == [(name, "key", 0)]
    assert await fired(world, "sweep", "snapshots") == [("sweep", "snapshots", 0)]
    for name in ("again_other", "nudge", "again_subtask"):
        assert await fired(world, name, "p1/1/x") == NONE


async def test_a_plan_and_a_subtask_that_were_put_off_go_on_as_they_stand(world: World) -> None:
    store = world.runtime.parts.store
    await store.write(begin)
    # Whoever held it before holds it no more.
    assert await fired(world, "again_subtask", A) == [("subtask", A, 5)]
    await store.write(stands, _S.PENDING)
    assert await fired(world, "again_plan", "p1") == [("subtask", A, 6)]
    assert await fired(world, "plan_advance", "p1") == NONE


async def test_a_call_that_its_client_does_not_answer_is_asked_about_and_its_owner_rests(
    world: World,
) -> None:
    store = world.runtime.parts.store
    await store.write(begin)
    await store.write(add_calls, [call(CallStatus.STARTED, started_at=rows.NOW)])
    await fired(world, "client_call", "gone")
    assert await fired(world, "client_call", "call_1") == NONE

    found = await store.read(call_of, "call_1")
    assert found is not None
    assert found.status is CallStatus.UNKNOWN
    [asked] = await store.read(pending_approvals, "s1")
    assert (asked.kind, asked.call_id, asked.subtask_id) == ("intervention", "call_1", "a")
    why = "its client did not report the result in time"
    assert asked.reason == say("intervention_unknown", "en", subject="fetch", why=why)
    row = await store.read(subtask_row, A)
    assert row is not None
    assert row.status is _S.WAITING_APPROVAL
    # It has its end: nobody is asked again.
    await fired(world, "client_call", "call_1")
    assert len(await store.read(pending_approvals, "s1")) == 1


async def test_a_call_with_its_end_has_its_owner_go_on(world: World) -> None:
    parts = world.runtime.parts
    await parts.store.write(begin)

    async def goes_on(found: CallRow) -> list[tuple[str, str, int]]:
        return await sets_going(world, lambda tx: parts.went_on.of_call(tx, found))

    ended = call(CallStatus.COMPLETED)
    assert await goes_on(ended) == [("subtask", A, 4)]
    assert await goes_on(call(CallStatus.COMPLETED, subtask_id="x")) == NONE
    search = call(CallStatus.COMPLETED, subtask_id=None)
    assert await goes_on(search) == [("replan", "p1", 0)]

    await parts.store.write(stands, _S.WAITING_APPROVAL)
    await parts.store.write(add_calls, [call(CallStatus.UNKNOWN, id="lost")])
    # Another of its calls waits for a person, so it does not begin.
    assert await goes_on(ended) == NONE
    row = await parts.store.read(subtask_row, A)
    assert row is not None
    assert row.status is _S.WAITING_APPROVAL
    assert await goes_on(call(CallStatus.COMPLETED, thread="other")) == [("subtask", A, 5)]


async def test_a_turn_goes_on_once_nothing_of_it_waits_for_a_person(world: World) -> None:
    parts = world.runtime.parts

    def asked(tx: Tx) -> None:
        add_session(tx, rows.session(workspace="/"))
        queued = add_turn(tx, "t1", "s1", "Hi", "ask")
        held = take_turn(tx, queued, TurnStatus.RUNNING)
        waits = {"turn_id": "t1", "status": CallStatus.UNKNOWN}
        add_calls(tx, [rows.call("lost", **waits)])
        move_turn(tx, held, TurnStatus.PARKED)

    def has_its_end(tx: Tx) -> None:
        parts.went_on.of_call(tx, rows.call("ended", turn_id="t1"))

    await parts.store.write(asked)
    assert await sets_going(world, has_its_end) == NONE

    def over(tx: Tx) -> None:
        parts.turns.resume(tx, "gone")
        add_calls(tx, [rows.call("again", turn_id="t1", retry_of="lost", position=2,
                                 status=CallStatus.ALLOWED)])  # fmt: skip
        has_its_end(tx)

    # The turn is taken for its job by who wakes it, with what may be the end of who judges it.
    assert await sets_going(world, over) == [("turn", "t1", 2)]
    turn = await parts.store.read(turn_of, "t1")
    assert turn is not None
    assert (turn.status, turn.epoch) == (TurnStatus.RUNNING, 2)
    found = await parts.store.read(open_calls, "s1", MAIN)
    assert [(call.id, call.judgings) for call in found] == [("lost", 0), ("again", 1)]

    # A job that comes after somebody else has taken the turn changes nothing of it.
    await parts.store.write(take_turn, turn, TurnStatus.RUNNING)
    await parts.turns.job(Job("turn", "t1", 2))
    assert await parts.store.read(open_calls, "s1", MAIN) == found


async def test_after_a_start_goes_on_all_that_waits_for_nobody(world: World) -> None:
    parts = world.runtime.parts
    await parts.store.write(begin)

    def turns(tx: Tx) -> None:
        add_turn(tx, "t1", "s1", "Hi", "ask")

    await parts.store.write(turns)
    found = await sets_going(world, lambda tx: recover(tx, parts.engine))
    assert found == [("turn", "t1", 0), ("subtask", A, 5)]

    def searched(tx: Tx) -> None:
        plan = plan_of(tx, "p1")
        assert plan is not None
        assert set_plan(tx, plan, revising={"id": "r", "comments": []})

    await parts.store.write(searched)
    found = await sets_going(world, lambda tx: recover(tx, parts.engine))
    assert ("subtask", A, 6) in found
