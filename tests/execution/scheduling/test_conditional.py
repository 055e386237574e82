"""A subtask with a condition runs only where it holds; what it leaves out is no failure."""

import anyio
import pytest

from fakes.workshop import Workshop
from gonogo.domain.failures import Category, Failure
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.scheduling import Completed, Failed, Outcome, Work

_S = SubtaskStatus


async def finds_three(work: Work) -> Outcome:
    return Completed({"output": {"failures": 3}})


@pytest.mark.parametrize(
    ("condition", "status", "plan_status"),
    [
        ("subtasks.look.output.failures > 0", _S.COMPLETED, PlanStatus.COMPLETED),
        ("subtasks.look.output.failures == 0", _S.SKIPPED, PlanStatus.COMPLETED),
        ("subtasks.look.output.missing == 0", _S.FAILED, PlanStatus.PARTIAL),
    ],
    ids=["true", "false", "without an answer"],
)
async def test_a_condition_decides_whether_its_subtask_runs(
    open_shop: Workshop, condition: str, status: SubtaskStatus, plan_status: PlanStatus
) -> None:
    open_shop.steps["look"] = finds_three

    plan_id = await open_shop.carry_out(
        {"id": "look"}, {"id": "mend", "dependencies": ["look"], "condition": condition}
    )

    row = (await open_shop.rows(plan_id))["mend"]
    assert row.status is status
    assert ("mend" in open_shop.runs) is (status is _S.COMPLETED)
    assert (await open_shop.plan(plan_id)).status is plan_status


async def test_who_waits_for_a_subtask_with_a_false_condition_is_skipped_with_it(
    open_shop: Workshop,
) -> None:
    open_shop.steps["look"] = finds_three

    plan_id = await open_shop.carry_out(
        {"id": "look"},
        {"id": "mend", "dependencies": ["look"], "condition": "subtasks.look.output.failures > 9"},
        {"id": "tell", "dependencies": ["mend"]},
        {"id": "other"},
    )

    mend, tell = (await open_shop.rows(plan_id))["mend"], (await open_shop.rows(plan_id))["tell"]
    assert (mend.status, tell.status) == (_S.SKIPPED, _S.SKIPPED)
    assert "condition is false" in (mend.reason or "")
    assert "mend" in (tell.reason or "")
    assert "other" in open_shop.runs
    assert (await open_shop.plan(plan_id)).status is PlanStatus.COMPLETED


async def test_a_plan_with_a_failure_is_partial_although_a_condition_left_something_out(
    open_shop: Workshop,
) -> None:
    async def fails(work: Work) -> Outcome:
        return Failed(Failure(message="no", category=Category.LOGIC))

    open_shop.steps |= {"look": finds_three, "other": fails}

    plan_id = await open_shop.carry_out(
        {"id": "look"},
        {"id": "mend", "dependencies": ["look"], "condition": "subtasks.look.output.failures > 9"},
        {"id": "other"},
        {"id": "after", "dependencies": ["other"]},
    )

    rows = await open_shop.rows(plan_id)
    assert (rows["other"].status, rows["after"].status) == (_S.FAILED, _S.SKIPPED)
    assert (await open_shop.plan(plan_id)).status is PlanStatus.PARTIAL


async def test_a_dependant_that_says_so_runs_although_a_condition_skipped_what_it_waits_for(
    open_shop: Workshop,
) -> None:
    open_shop.steps["look"] = finds_three
    run = {"after_skipped": "run"}

    plan_id = await open_shop.carry_out(
        {"id": "look"},
        {"id": "mend", "dependencies": ["look"], "condition": "subtasks.look.output.failures > 9"},
        {"id": "tell", "dependencies": ["mend", "look"], **run},
        {"id": "close", "dependencies": ["tell"], "condition": "subtasks.mend.status == 'skipped'"},
        {"id": "other", "dependencies": ["mend"]},
        {"id": "last", "dependencies": ["other"], **run},
    )

    rows = await open_shop.rows(plan_id)
    ended = {key: (row.status, row.declined) for key, row in rows.items()}
    assert ended["mend"] == (_S.SKIPPED, True)
    assert ended["tell"] == ended["close"] == (_S.COMPLETED, False)
    assert ended["other"] == ended["last"] == (_S.SKIPPED, False)
    assert open_shop.runs == ["look", "tell", "close"]


async def test_a_restart_forgets_nothing_of_what_a_condition_skipped(shop: Workshop) -> None:
    plan_id = await shop.approved(
        {"id": "mend", "condition": "1 > 2"},
        {"id": "wait", "approval_required": False},
        {"id": "tell", "dependencies": ["mend", "wait"], "after_skipped": "run"},
    )
    stuck = anyio.Event()

    async def never(work: Work) -> Outcome:
        await stuck.wait()
        return Completed()

    shop.steps["wait"] = never
    async with shop.open():
        await shop.do(shop.engine.controls.start, plan_id)
        await shop.until_run("wait")
    stuck.set()
    async with shop.open():
        await shop.end_of(plan_id)

    assert (await shop.statuses(plan_id))["tell"] is _S.COMPLETED
