"""Attempts: what fails in a way that may pass is tried again after a delay, as often as the subtask
says; what takes too long is stopped."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import anyio
import pytest

from fakes.rows import NOW
from fakes.until import time_passes
from fakes.workshop import Workshop
from gonogo.domain.errors import Busy, ModelFailed
from gonogo.domain.failures import Category, Failure
from gonogo.domain.records import Job
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.scheduling import Completed, Deferred, Failed, Outcome, Parked, Work

_S = SubtaskStatus
_AGAIN = {"max_attempts": 3, "delay": 10, "backoff": 2}


async def breaks(work: Work) -> Outcome:
    return Failed(Failure(message="no line", category=Category.NETWORK))


async def hangs(work: Work) -> Outcome:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.feature(58, 116)
async def test_a_transient_failure_is_tried_again_with_backoff_and_then_fails(
    open_shop: Workshop,
) -> None:
    open_shop.steps["a"] = breaks
    plan_id = await open_shop.start({"id": "a", "retry_policy": _AGAIN})
    for times, delay in ((1, 10), (2, 20)):
        await open_shop.until(plan_id, "a", _S.PENDING)
        row = (await open_shop.rows(plan_id))["a"]
        assert (row.not_before - open_shop.now).total_seconds() == delay
        await open_shop.fire(plan_id, delay - 1)
        assert open_shop.runs.count("a") == times
        await open_shop.fire(plan_id, 1)
        await open_shop.until_run("a", times + 1)
    await open_shop.end_of(plan_id)

    row = (await open_shop.rows(plan_id))["a"]
    assert (row.status, row.attempt) == (_S.FAILED, 3)
    assert (await open_shop.plan(plan_id)).status is PlanStatus.FAILED
    told = [e["type"] for e in await open_shop.events(plan_id) if e["type"].startswith("subtask")]
    assert told == ["subtask_started", "subtask_retrying"] * 2 + [
        "subtask_started", "subtask_failed"
    ]  # fmt: skip
    assert open_shop.drops == {("a", 1), ("a", 2), ("a", 3)}


async def test_how_long_a_subtask_took_is_told_to_the_microsecond(open_shop: Workshop) -> None:
    async def works(work: Work) -> Outcome:
        open_shop.now += timedelta(seconds=1, microseconds=250_001)
        return Completed({})

    open_shop.steps["a"] = works
    events = await open_shop.events(await open_shop.carry_out({"id": "a"}))
    [ended] = [each for each in events if each["type"] == "subtask_completed"]
    assert ended["metadata"]["duration_seconds"] == 1.250001


@pytest.mark.feature(58, 116)
async def test_a_retry_that_succeeds_completes_the_plan(open_shop: Workshop) -> None:
    async def second_time(work: Work) -> Outcome:
        if open_shop.runs.count("a") == 1:
            raise ModelFailed("overloaded", transient=True)
        return Completed()

    open_shop.steps["a"] = second_time
    plan_id = await open_shop.start({"id": "a", "retry_policy": _AGAIN})
    await open_shop.until(plan_id, "a", _S.PENDING)
    await open_shop.fire(plan_id, 10)
    await open_shop.end_of(plan_id)

    assert (await open_shop.plan(plan_id)).status is PlanStatus.COMPLETED
    assert (await open_shop.rows(plan_id))["a"].attempt == 2


async def test_what_is_not_transient_is_not_tried_again(open_shop: Workshop) -> None:
    async def wrong(work: Work) -> Outcome:
        return Failed(Failure(message="wrong", category=Category.LOGIC))

    open_shop.steps["a"] = wrong
    plan_id = await open_shop.carry_out({"id": "a", "retry_policy": _AGAIN})

    assert open_shop.runs == ["a"]
    assert (await open_shop.statuses(plan_id)) == {"a": _S.FAILED}


@pytest.mark.feature(60)
async def test_a_subtask_over_its_time_is_stopped_and_failed(open_shop: Workshop) -> None:
    open_shop.steps["a"] = hangs
    plan_id = await open_shop.carry_out({"id": "a", "timeout": 0.05}, {"id": "b"})
    row = (await open_shop.rows(plan_id))["a"]

    assert row.status is _S.FAILED
    assert row.error["category"] == "timeout"
    assert row.error["message"] == "Timed out after 0.05 s"
    assert open_shop.going == 0
    assert (await open_shop.statuses(plan_id))["b"] is _S.COMPLETED


@pytest.mark.feature(60)
async def test_a_subtask_that_names_no_time_has_that_of_the_settings(shop: Workshop) -> None:
    shop.runner.timeout = 0.05
    shop.steps["a"] = hangs
    async with shop.open():
        plan_id = await shop.carry_out({"id": "a"})

    assert (await shop.rows(plan_id))["a"].error["category"] == "timeout"


def waits(tries: int, *, seconds: float = 0) -> Callable[[], Awaitable[None]]:
    """An attempt at something that is away at first, each time for so long."""
    left = [tries]

    async def attempt() -> None:
        left[0] -= 1
        if left[0] > 0:
            asyncio.get_running_loop().call_soon(time_passes, seconds)
            raise Busy(reason="away")

    return attempt


async def test_time_for_which_the_database_is_away_is_no_time_of_a_subtask(
    open_shop: Workshop,
) -> None:
    async def step(work: Work) -> Outcome:
        await open_shop.store.ride(waits(3, seconds=20))
        return Completed()

    open_shop.steps["a"] = step
    plan_id = await open_shop.carry_out({"id": "a", "timeout": 30})

    assert (await open_shop.statuses(plan_id)) == {"a": _S.COMPLETED}


@pytest.mark.parametrize(
    "outcome", [Parked(), Deferred(NOW + timedelta(days=1))], ids=["parked", "deferred"]
)
async def test_what_a_subtask_has_worked_when_it_rests_is_without_that_time(
    open_shop: Workshop, outcome: Outcome
) -> None:
    stood: list[float] = []

    async def step(work: Work) -> Outcome:
        open_shop.now += timedelta(seconds=100)
        await open_shop.store.ride(waits(5))
        stood.append(work.watch.stood)
        if isinstance(outcome, Parked):
            await open_shop.store.write(open_shop.engine.work.park, work)
        return outcome

    open_shop.steps["a"] = step
    plan_id = await open_shop.start({"id": "a"})
    rests = _S.WAITING_APPROVAL if isinstance(outcome, Parked) else _S.PENDING
    await open_shop.until(plan_id, "a", rests)

    assert stood[0] > 0
    worked = (await open_shop.rows(plan_id))["a"].worked_ms
    assert worked == pytest.approx(100_000 - 1_000 * stood[0], abs=1)


async def test_a_subtask_whose_runner_gives_up_waiting_for_the_database_has_not_failed(
    shop: Workshop,
) -> None:
    async def gives_up(work: Work) -> Outcome:
        raise Busy(reason="the process is about to end")

    shop.steps["a"] = gives_up
    plan_id = await shop.start({"id": "a"})
    row = (await shop.rows(plan_id))["a"]
    with pytest.raises(Busy):
        await shop.runner.subtask_job(Job("subtask", row.key, row.epoch))

    assert (await shop.rows(plan_id))["a"] == row
    shop.steps.clear()
    async with shop.open():
        await shop.end_of(plan_id)
    assert (await shop.statuses(plan_id)) == {"a": _S.COMPLETED}
