"""What operators read off `/metrics` is what happened."""

from datetime import timedelta
from pathlib import Path

import pytest

from fakes.world import calls, of, plan, says, step, world_of, write

LINES = {
    "main/architect": [plan(step("one"), step("two"), step("after", "two"))],
    "one": [calls(write("one.txt")), says("one is there")],
    "two": [],
}


@pytest.mark.feature(107)
async def test_the_four_counts_of_plans_and_steps_change_with_a_run(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        await world.decide_plan(await world.propose())

        shown = world.runtime.metrics.render().decode()
        assert 'plan_executions_total{status="partial"} 1.0' in shown
        assert 'plan_execution_duration_seconds_count{status="partial"} 1.0' in shown
        for status in ("completed", "failed", "skipped"):
            assert f'plan_steps_total{{status="{status}",step_type="action"}} 1.0' in shown
        assert 'plan_step_duration_seconds_count{step_type="action"}' in shown


@pytest.mark.feature(108)
async def test_durations_are_those_of_the_run_and_not_the_age_of_the_plan(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        plan_id = await world.propose()
        world.clock.ahead += timedelta(hours=5)
        events = await world.decide_plan(plan_id)

        assert 0 < events[-1]["metadata"]["duration_seconds"] < 3600
        for ended in of(events, "subtask_completed"):
            assert 0 < ended["metadata"]["duration_seconds"] < 3600
        status = await world.runtime.plan_status(world.ann, plan_id)
        assert status.started_at is not None
        assert status.finished_at is not None
        assert status.finished_at - status.started_at < timedelta(hours=1)
