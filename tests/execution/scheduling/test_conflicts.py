"""Conflicts: whoever is too late by one moment writes nothing, and is told so; what has been
answered for another revision touches nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from sqlalchemy import event

from execution.scheduling.test_holders import hangs
from fakes.workshop import LIMIT, Workshop
from gonogo.domain.errors import Conflict
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.plans.engine import Batches
from gonogo.execution.scheduling import Completed, Work
from gonogo.store import Tx
from gonogo.store.plans import move_plan, plan_of, subtask_row, take_subtask

pytestmark = pytest.mark.each_database

_S = SubtaskStatus


@pytest.fixture
async def held(shop: Workshop) -> Work:
    """A subtask of a running plan, with its holder gone."""
    shop.steps["a"] = hangs
    async with shop.open():
        plan_id = await shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]})
        await shop.until_run("a")
    return await shop.held(plan_id, "a")


def faster(tx: Tx, table: str, act: Callable[[], object]) -> None:
    """Let somebody act right before the next change of a table."""
    waiting = [act]

    def look(tx: Tx, cursor: object, statement: str, *about: object) -> None:
        if waiting and statement.startswith(f"UPDATE {table}"):
            waiting.pop()()

    event.listen(tx.conn, "before_cursor_execute", look)


def replaced(tx: Tx, key: str) -> bool:
    row = subtask_row(tx, key)
    assert row is not None
    return take_subtask(tx, row)


def paused(tx: Tx, plan_id: str) -> bool:
    plan = plan_of(tx, plan_id)
    assert plan is not None
    return move_plan(tx, plan, PlanStatus.PAUSED)


async def test_an_outcome_that_comes_in_the_moment_of_a_takeover_is_not_written(
    shop: Workshop, held: Work
) -> None:
    before = await shop.events(held.revision.plan_id)

    def finish(tx: Tx) -> None:
        faster(tx, "subtasks", lambda: replaced(tx, held.key))
        shop.engine.work.finish(tx, [(held, Completed({}))])

    with pytest.raises(Conflict, match="has just changed"):
        await shop.store.write(finish)
    assert (await shop.rows(held.revision.plan_id))["a"].status is _S.RUNNING
    assert await shop.events(held.revision.plan_id) == before


async def test_of_two_verbs_for_a_plan_in_one_moment_the_later_one_is_refused(
    shop: Workshop, held: Work
) -> None:
    plan_id = held.revision.plan_id

    def cancel(tx: Tx) -> None:
        faster(tx, "plans", lambda: paused(tx, plan_id))
        shop.engine.controls.cancel(tx, plan_id, "ann")

    with pytest.raises(Conflict, match=f"Plan {plan_id} has just changed; look at it again"):
        await shop.store.write(cancel)
    assert (await shop.plan(plan_id)).status is PlanStatus.RUNNING
    assert (await shop.rows(plan_id))["a"].status is _S.RUNNING


async def test_of_two_who_take_a_subtask_over_in_one_moment_one_carries_it_out(
    shop: Workshop, held: Work
) -> None:
    plan_id = held.revision.plan_id

    def take_over(tx: Tx) -> list[Any]:
        faster(tx, "subtasks", lambda: replaced(tx, held.key))
        shop.engine.work.take_over(tx, held.key)
        return list(tx.outbox.jobs)

    assert await shop.store.write(take_over) == []
    row = (await shop.rows(plan_id))["a"]
    assert (row.status, row.epoch) == (_S.RUNNING, held.epoch + 1)


@pytest.mark.parametrize("key", ["{plan}/2/a", "{plan}/1/nothing"])
async def test_an_answer_for_another_revision_or_subtask_sets_nothing_going(
    shop: Workshop, held: Work, key: str
) -> None:
    plan_id = held.revision.plan_id
    before = await shop.rows(plan_id), await shop.events(plan_id)

    await shop.store.write(shop.engine.work.resume, key.format(plan=plan_id))

    assert (await shop.rows(plan_id), await shop.events(plan_id)) == before


class Broken(Exception):
    """What a value that cannot be written raises."""


async def write(items: Sequence[int]) -> None:
    await anyio.lowlevel.checkpoint()
    if 0 in items:
        raise Broken


async def test_a_value_that_cannot_be_written_alone_says_so() -> None:
    with anyio.fail_after(LIMIT), pytest.raises(Broken):
        await Batches(write).put("plan", 0)


async def test_of_values_that_come_together_only_the_one_that_cannot_be_written_says_so() -> None:
    batches, told = Batches(write), dict[int, bool]()

    async def put(item: int) -> None:
        try:
            await batches.put("plan", item)
        except Broken:
            told[item] = False
        else:
            told[item] = True

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for item in (1, 0, 2):
                group.start_soon(put, item)

    assert told == {0: False, 1: True, 2: True}


@pytest.mark.parametrize("limit", [None, 60.0])
async def test_a_plan_whose_time_is_not_over_goes_on(
    shop: Workshop, held: Work, limit: float | None
) -> None:
    plan_id = held.revision.plan_id
    before = await shop.rows(plan_id), await shop.events(plan_id)
    shop.rule(plan_timeout=limit)

    await shop.store.write(shop.engine.pauses.time_out, plan_id)

    assert (await shop.rows(plan_id), await shop.events(plan_id)) == before
    assert (await shop.plan(plan_id)).status is PlanStatus.RUNNING


async def test_a_plan_that_ends_unfinished_cancels_what_runs_and_skips_the_rest(
    shop: Workshop, held: Work
) -> None:
    plan_id = held.revision.plan_id

    await shop.store.write(shop.engine.controls.end_unfinished, plan_id, "enough")

    assert await shop.statuses(plan_id) == {"a": _S.CANCELLED, "b": _S.SKIPPED}
    assert (await shop.plan(plan_id)).status is PlanStatus.FAILED
