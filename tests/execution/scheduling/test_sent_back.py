"""A plan that is sent back: what runs ends first, nothing new starts, and it goes on or ends."""

import anyio
import pytest

from fakes.workshop import Workshop
from gonogo.domain.errors import Conflict
from gonogo.domain.failures import Category, Failure, Severity
from gonogo.domain.replanning import ReplanRules
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.scheduling import Completed, Failed, Outcome, Work
from gonogo.store import Store

_S = SubtaskStatus


async def breaks(work: Work) -> Outcome:
    return Failed(Failure(message="broke", severity=Severity.HIGH, category=Category.LOGIC))


@pytest.fixture
def shop(store: Store) -> Workshop:
    return Workshop(store=store, options={"replanning": ReplanRules()})


async def sent_back(shop: Workshop) -> str:
    """A plan that a failure has sent back, with one subtask that never began."""
    shop.steps["a"] = breaks
    plan_id = await shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]})
    await shop.until_searched()
    return plan_id


async def test_a_bad_failure_sends_the_plan_back_and_leaves_its_dependants_alone(
    open_shop: Workshop,
) -> None:
    plan_id = await sent_back(open_shop)

    plan = await open_shop.plan(plan_id)
    assert (plan.status, plan.replans) == (PlanStatus.REPLANNING, 1)
    assert plan.replan is not None
    assert (plan.replan["subtask_id"], plan.replan["cause"]) == ("a", "logic")
    assert await open_shop.statuses(plan_id) == {"a": _S.FAILED, "b": _S.PENDING}


async def test_what_runs_comes_to_its_end_before_another_revision_is_looked_for(
    open_shop: Workshop,
) -> None:
    gate = anyio.Event()

    async def waits(work: Work) -> Outcome:
        await gate.wait()
        return await breaks(work)

    open_shop.steps |= {"a": breaks, "slow": waits}
    plan_id = await open_shop.start({"id": "a"}, {"id": "slow"})
    await open_shop.until(plan_id, "a", _S.FAILED)
    assert (await open_shop.plan(plan_id)).status is PlanStatus.REPLANNING
    assert open_shop.searches == 0

    gate.set()
    await open_shop.until_searched()
    # The second failure finds the plan sent back already.
    assert (await open_shop.plan(plan_id)).replans == 1


async def test_a_condition_without_an_answer_can_send_the_plan_back_in_the_middle_of_a_round(
    open_shop: Workshop,
) -> None:
    plan_id = await open_shop.start(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"], "condition": "subtasks.a.missing.field == 1"},
        {"id": "c", "dependencies": ["a"]},
        {"id": "d", "dependencies": ["b"]},
    )
    await open_shop.until_searched()

    assert await open_shop.statuses(plan_id) == {
        "a": _S.COMPLETED, "b": _S.FAILED, "c": _S.PENDING, "d": _S.PENDING,
    }  # fmt: skip
    assert open_shop.runs == ["a"]


async def test_without_a_new_revision_the_plan_goes_on_as_far_as_it_can(
    open_shop: Workshop,
) -> None:
    plan_id = await sent_back(open_shop)

    await open_shop.store.write(
        open_shop.engine.controls.go_without, plan_id, "there is no other way"
    )
    await open_shop.end_of(plan_id)
    assert (await open_shop.plan(plan_id)).status is PlanStatus.FAILED
    assert await open_shop.statuses(plan_id) == {"a": _S.FAILED, "b": _S.SKIPPED}

    before = await open_shop.events(plan_id)
    await open_shop.store.write(open_shop.engine.controls.go_without, plan_id, "late")
    assert await open_shop.events(plan_id) == before


async def test_a_plan_that_is_sent_back_can_be_ended_or_cancelled(open_shop: Workshop) -> None:
    ended = await sent_back(open_shop)
    await open_shop.store.write(open_shop.engine.controls.end_unfinished, ended, "enough")
    await open_shop.end_of(ended)
    assert (await open_shop.rows(ended))["b"].reason == "enough"

    open_shop.searches = 0
    cancelled = await sent_back(open_shop)
    await open_shop.do(open_shop.engine.controls.cancel, cancelled)
    await open_shop.end_of(cancelled)
    assert await open_shop.statuses(cancelled) == {"a": _S.FAILED, "b": _S.CANCELLED}


async def test_a_failed_plan_can_be_sent_back_and_a_completed_one_cannot(
    open_shop: Workshop,
) -> None:
    open_shop.rule(replanning=None)
    open_shop.steps["a"] = breaks
    failed = await open_shop.carry_out({"id": "a"})
    await open_shop.do(open_shop.engine.controls.replan, failed, "another way")
    await open_shop.until_searched()
    plan = await open_shop.plan(failed)
    assert (plan.status, plan.finished_at) == (PlanStatus.REPLANNING, None)

    done = await open_shop.carry_out({"id": "b"})
    with pytest.raises(Conflict, match="completed and cannot be replanned"):
        await open_shop.do(open_shop.engine.controls.replan, done, "another way")


async def test_a_crash_while_a_plan_is_sent_back_has_it_looked_for_again(shop: Workshop) -> None:
    async with shop.open():
        plan_id = await sent_back(shop)
    shop.searches = 0

    async with shop.open():
        await shop.until_searched()
        assert (await shop.plan(plan_id)).status is PlanStatus.REPLANNING


async def test_a_running_plan_is_sent_back_by_a_person_once_what_runs_has_ended(
    open_shop: Workshop,
) -> None:
    gate = anyio.Event()

    async def waits(work: Work) -> Outcome:
        await gate.wait()
        return Completed()

    open_shop.steps["slow"] = waits
    plan_id = await open_shop.start({"id": "slow"}, {"id": "b", "dependencies": ["slow"]})
    await open_shop.until_run("slow")
    await open_shop.do(open_shop.engine.controls.replan, plan_id, "another way")
    assert open_shop.searches == 0

    gate.set()
    await open_shop.until_searched()
    assert await open_shop.statuses(plan_id) == {"slow": _S.COMPLETED, "b": _S.PENDING}
