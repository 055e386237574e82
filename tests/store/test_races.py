"""Races: of many who saw the same thing, one changes it, and the others learn that they did not."""

from collections import Counter
from contextlib import ExitStack

import anyio
import pytest

from fakes.rows import NOW, approval, begin, begin_plan, call, subtask, verify_chain
from gonogo.domain.errors import Conflict, IllegalTransition
from gonogo.domain.states import ApprovalStatus, CallStatus, PlanStatus, SubtaskStatus, TurnStatus
from gonogo.store import events as log
from gonogo.store.calls import (
    add_approval,
    add_calls,
    approval_of,
    call_of,
    close_approval,
    move_call,
)
from gonogo.store.plans import (
    Move,
    move_plan,
    move_subtasks,
    plan_of,
    revise_plan,
    revision_of,
    standings,
    subtask_row,
    take_subtask,
)
from gonogo.store.sessions import add_turn, move_turn, open_turns, take_turn, turn_of
from store.writing import Writer

LIMIT = 60
WRITERS = 50
S = SubtaskStatus


async def how_it_went(store, fn, *args, times=WRITERS, **more):
    """What each of many writers at once was told."""
    said = []

    async def one():
        try:
            said.append(await store.write(fn, *args, **more))
        except Conflict:
            said.append(False)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for _ in range(times):
                group.start_soon(one)
    return Counter(bool(each) for each in said)


async def test_one_of_fifty_moves_a_turn(store):
    await store.write(begin)
    turn = await store.write(add_turn, "t1", "s1", "Hi", "ask")

    assert await how_it_went(store, move_turn, turn, TurnStatus.RUNNING) == {True: 1, False: 49}


async def test_one_of_fifty_moves_a_call_a_plan_and_an_approval(store):
    await store.write(begin)
    await store.write(begin_plan)
    await store.write(add_calls, [call()])
    await store.write(add_approval, approval())
    seen = await store.read(call_of, "call_1")
    plan = await store.read(plan_of, "p1")
    asked = await store.read(approval_of, "appr_1")

    once = {True: 1, False: 49}
    assert await how_it_went(store, move_call, seen, CallStatus.ALLOWED) == once
    assert await how_it_went(store, move_plan, plan, PlanStatus.APPROVED, approved_at=NOW) == once
    assert await how_it_went(store, close_approval, asked, ApprovalStatus.APPROVED) == once
    assert (await store.read(plan_of, "p1")).approved_at == NOW


async def test_one_of_fifty_claims_a_round_of_subtasks(store):
    await store.write(begin)
    await store.write(begin_plan, subtask("a"), subtask("b"))

    def claims(tx):
        moves = [
            Move(f"p1/1/{key}", S.PENDING, 0, S.RUNNING, {"epoch": 1, "started_at": NOW})
            for key in ("a", "b")
        ]
        if not move_subtasks(tx, moves):
            raise Conflict("somebody was faster")
        return True

    assert await how_it_went(store, claims) == {True: 1, False: 49}
    found = await store.read(standings, "p1", 1)
    assert {key: (row.status, row.epoch) for key, row in found.items()} == {
        "a": (S.RUNNING, 1), "b": (S.RUNNING, 1),
    }  # fmt: skip


async def test_a_round_that_fits_only_in_part_changes_nothing(store):
    await store.write(begin)
    await store.write(begin_plan, subtask("a"), subtask("b"), subtask("c"))
    running = [Move("p1/1/b", S.PENDING, 0, S.RUNNING, {"epoch": 1})]
    assert await store.write(move_subtasks, running)

    def claims(tx):
        moves = [Move(f"p1/1/{key}", S.PENDING, 0, S.RUNNING, {"epoch": 1}) for key in "abc"]
        if not move_subtasks(tx, moves):
            raise Conflict("stale")

    with pytest.raises(Conflict, match="stale"):
        await store.write(claims)
    found = await store.read(standings, "p1", 1)
    assert [found[key].status for key in "abc"] == [S.PENDING, S.RUNNING, S.PENDING]


async def test_moves_of_different_shapes_go_in_one_round(store):
    await store.write(begin)
    await store.write(begin_plan, subtask("a"), subtask("b"), subtask("c"))
    moves = [
        Move("p1/1/a", S.PENDING, 0, S.RUNNING, {"epoch": 1}),
        Move("p1/1/b", S.PENDING, 0, S.SKIPPED, {"reason": "x", "finished_at": NOW}),
        Move("p1/1/c", S.PENDING, 0, S.RUNNING, {"epoch": 1}),
    ]

    assert await store.write(move_subtasks, moves)
    assert await store.write(move_subtasks, [])
    found = await store.read(standings, "p1", 1)
    assert [found[key].status for key in "abc"] == [S.RUNNING, S.SKIPPED, S.RUNNING]


async def test_a_stale_holder_of_a_turn_is_fenced(store):
    await store.write(begin)
    turn = await store.write(add_turn, "t1", "s1", "Hi", "ask")
    first = await store.write(take_turn, turn, TurnStatus.RUNNING)
    second = await store.write(take_turn, first, TurnStatus.RUNNING, "coder")

    assert (second.epoch, second.agent) == (2, "coder")
    assert not await store.write(move_turn, first, TurnStatus.DONE)
    with pytest.raises(Conflict, match=r"^Another worker has taken turn \S+; it continues there$"):
        await store.write(take_turn, first, TurnStatus.RUNNING)
    assert await store.write(move_turn, second, TurnStatus.DONE, finished_at=NOW)
    assert (await store.read(turn_of, "t1")).status is TurnStatus.DONE


async def test_one_of_fifty_takes_over_a_subtask_and_the_old_holder_is_fenced(store):
    await store.write(begin)
    await store.write(begin_plan)
    await store.write(move_subtasks, [Move("p1/1/a", S.PENDING, 0, S.RUNNING, {"epoch": 1})])
    row = await store.read(subtask_row, "p1/1/a")

    assert await how_it_went(store, take_subtask, row) == {True: 1, False: 49}
    done = {"result": {"x": 1}, "finished_at": NOW}
    assert not await store.write(move_subtasks, [Move(row.key, S.RUNNING, 1, S.COMPLETED, done)])
    assert await store.write(move_subtasks, [Move(row.key, S.RUNNING, 2, S.COMPLETED, done)])
    assert (await store.read(subtask_row, row.key)).result == {"x": 1}


async def test_a_move_that_its_table_lacks_is_refused_before_the_database_is_asked(store):
    await store.write(begin)
    await store.write(begin_plan)
    plan = await store.read(plan_of, "p1")

    with pytest.raises(IllegalTransition):
        await store.write(move_plan, plan, PlanStatus.RUNNING)
    with pytest.raises(IllegalTransition):
        await store.write(move_subtasks, [Move("p1/1/a", S.COMPLETED, 0, S.RUNNING, {})])


async def test_a_revision_is_made_current_once(store):
    await store.write(begin)
    await store.write(begin_plan)
    plan = await store.read(plan_of, "p1")
    second = (await store.read(revision_of, "p1", 1)).model_copy(update={"number": 2})

    assert await how_it_went(store, revise_plan, plan, second, 0) == {True: 1, False: 49}
    assert (await store.read(plan_of, "p1")).revision == 2


async def test_turns_that_come_at_once_stand_in_one_line(store):
    await store.write(begin)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(store.write, add_turn, f"t{number}", "s1", "Hi", "ask")

    assert [turn.position for turn in await store.read(open_turns, "s1")] == [1, 2, 3, 4, 5]


def write_at_once(born, url, *names):
    """What each of several writers in processes of their own says."""
    with ExitStack() as there:
        writers = [there.enter_context(Writer(born, url, name, 5)) for name in names]
        for each in writers:
            each.go()
        said = [each.said.read() for each in writers]
        assert [each.process.wait(LIMIT) for each in writers] == [0] * len(names)
    return [each.splitlines() for each in said]


async def test_two_processes_write_one_log(store, born, database_url):
    await store.write(begin)
    said = await anyio.to_thread.run_sync(write_at_once, born, database_url, "one", "other")
    events = await store.read(log.events_after, "s1", 0)
    assert [event["seq"] for event in events] == list(range(1, 81))
    assert {f"{e['seq']} {e['content']}" for e in events} == {*said[0], *said[1]}
    assert await store.read(verify_chain, "s1") == (80, [])
