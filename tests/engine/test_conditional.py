"""A subtask with a condition runs only where it holds, and a plan never hides that it did not."""

import pytest

from fakes.workshop import Workshop
from gonogo.domain.plan_state import PlanStatus
from gonogo.domain.subtask_state import SubtaskStatus
from gonogo.engine import Completed, Outcome, Work

_S = SubtaskStatus


async def finds_three(work: Work) -> Outcome:
    return Completed({"output": {"failures": 3}})


@pytest.mark.parametrize(
    ("condition", "status", "plan_status"),
    [
        ("subtasks.look.output.failures > 0", _S.COMPLETED, PlanStatus.COMPLETED),
        ("subtasks.look.output.failures == 0", _S.SKIPPED, PlanStatus.PARTIAL),
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
