"""Holders: whoever takes a subtask over fences whoever held it; after a crash the plan goes on from
what is written, and no finished subtask runs again."""

import anyio
import pytest

from fakes.workshop import Workshop
from gonogo.domain.failures import Failure
from gonogo.domain.records import Job
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.plans import check_held
from gonogo.execution.scheduling import Completed, Failed, Outcome, Superseded, Work
from gonogo.store import Store

_S = SubtaskStatus


async def hangs(work: Work) -> Outcome:
    await anyio.sleep_forever()
    raise AssertionError


async def broken_off(shop: Workshop) -> str:
    """A plan whose process ends while its second subtask runs."""
    shop.steps["b"] = hangs
    async with shop.open():
        plan_id = await shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]}, {"id": "c"})
        await shop.until_run("b")
        await shop.until(plan_id, "c", _S.COMPLETED)
    return plan_id


async def test_after_a_crash_a_plan_goes_on_and_nothing_finished_runs_again(
    shop: Workshop, database_url: str
) -> None:
    plan_id = await broken_off(shop)
    store = Store(database_url)
    second = Workshop(store=store)
    async with second.open():
        await second.end_of(plan_id)

    assert second.runs == ["b"]
    assert (await second.plan(plan_id)).status is PlanStatus.COMPLETED
    assert (await second.rows(plan_id))["b"].attempt == 1
    store.close()


@pytest.mark.parametrize("outcome", [Completed({"by": "first"}), Failed(Failure(message="no"))])
async def test_what_a_holder_brings_that_was_replaced_is_dropped(
    shop: Workshop, outcome: Completed | Failed
) -> None:
    plan_id = await broken_off(shop)
    old = await shop.held(plan_id, "b")
    await shop.store.write(shop.engine.work.take_over, old.key)
    before = await shop.events(plan_id)

    await shop.store.write(shop.engine.work.finish, [(old, outcome)])

    row = (await shop.rows(plan_id))["b"]
    assert (row.status, row.epoch) == (_S.RUNNING, old.epoch + 1)
    assert await shop.events(plan_id) == before


async def test_a_holder_that_was_replaced_is_told_before_it_writes(shop: Workshop) -> None:
    plan_id = await broken_off(shop)
    old = await shop.held(plan_id, "b")
    await shop.store.read(check_held, old)
    await shop.store.write(shop.engine.work.take_over, old.key)

    with pytest.raises(Superseded):
        await shop.store.read(check_held, old)
    with pytest.raises(Superseded):
        await shop.store.write(shop.engine.work.park, old)


async def test_a_runner_that_was_replaced_leaves_no_outcome(open_shop: Workshop) -> None:
    async def superseded(work: Work) -> Outcome:
        raise Superseded("somebody else")

    open_shop.steps["a"] = superseded
    plan_id = await open_shop.start({"id": "a"}, {"id": "b"})
    await open_shop.until(plan_id, "b", _S.COMPLETED)

    assert (await open_shop.statuses(plan_id))["a"] is _S.RUNNING


async def test_a_subtask_that_does_not_run_is_not_taken_over(shop: Workshop) -> None:
    async with shop.open():
        plan_id = await shop.carry_out({"id": "a"})
    row = (await shop.rows(plan_id))["a"]

    await shop.store.write(shop.engine.work.take_over, row.key)
    await shop.store.write(shop.engine.work.take_over, f"{plan_id}/1/nothing")

    assert (await shop.rows(plan_id))["a"] == row


async def test_a_job_of_nothing_does_nothing(shop: Workshop) -> None:
    await shop.runner.subtask_job(Job("subtask", "plan_nowhere/1/a", 1))

    assert shop.runs == []


async def test_a_round_may_be_asked_for_at_any_time(open_shop: Workshop) -> None:
    plan_id = await open_shop.carry_out({"id": "a"})
    before = await open_shop.events(plan_id)

    await open_shop.runner.plan_job(Job("plan", plan_id))

    assert await open_shop.events(plan_id) == before


async def test_the_time_of_a_subtask_runs_on_through_a_restart(shop: Workshop) -> None:
    plan_id = await broken_off(shop)
    second = Workshop(store=shop.store, steps={"b": hangs}, timeout=0.05)
    second.runner.timeout = 3600
    second.now = shop.now.replace(hour=23)
    async with second.open():
        await second.end_of(plan_id)

    assert (await second.rows(plan_id))["b"].error["category"] == "timeout"
