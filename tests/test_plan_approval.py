"""Plan approval from end to end: what each decision does, to the log, the plan and the files.

The rooms have their own, finer tests; this one is the whole of it on one page.
"""

from pathlib import Path
from typing import Any

import pytest

from fakes.world import calls, kinds, of, plan, says, step, world_of, write

LINES = {
    "main/architect": [plan(step("one"), step("two", "one"))],
    "one": [calls(write("one.txt")), says("one is there")],
    "two": [calls(write("two.txt")), says("two is there")],
    "mine": [calls(write("mine.txt")), says("mine is there")],
}
EDIT = {"modified_subtasks": [{"id": "mine", "description": "As I want it", "agent": "coder"}]}


@pytest.mark.feature(30)
@pytest.mark.parametrize(
    ("decision", "more", "status", "last", "files"),
    [
        ("approve", {}, "completed", "plan_completed", {"one.txt", "two.txt"}),
        ("edit", EDIT, "completed", "plan_completed", {"mine.txt"}),
        ("reject", {"feedback": "no"}, "rejected", "plan_rejected", set()),
        ("hold", {}, "approved", "plan_approved", set()),
        ("approve", {"start": False}, "approved", "plan_approved", set()),
    ],
    ids=["approve", "edit", "reject", "hold", "approve later"],
)
async def test_a_decision_does_what_it_says_and_nothing_happens_before_it(
    tmp_path: Path, decision: str, more: dict[str, Any], status: str, last: str, files: set[str]
) -> None:
    async with world_of(tmp_path, LINES) as world:
        plan_id = await world.propose()
        assert not of(await world.log(), "subtask_started")
        assert list(world.folder.iterdir()) == []

        events = await world.decide_plan(plan_id, decision, **more)

        assert kinds(events)[-1] == last
        assert [event for event in events if event.get("is_final")] == [events[-1]]
        assert (await world.runtime.plans.get(world.ann, plan_id)).status == status
        assert {path.name for path in world.folder.iterdir()} == files
        assert await world.pending() == []
        (entry,) = [
            e
            for e in await world.audit()
            if e.action.startswith("plan.") and e.details.get("decision")
        ]
        assert entry.details["decision"]["decision"] == decision
        assert entry.actor == "user:ann"


@pytest.mark.feature(30)
@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_question_outlives_the_runtime_and_is_answered_after_it(
    tmp_path: Path, decision: str
) -> None:
    async with world_of(tmp_path, LINES) as world:
        plan_id = await world.propose()
        await world.restart()
        assert [approval.plan_id for approval in await world.pending()] == [plan_id]

        events = await world.decide_plan(plan_id, decision)

        assert kinds(events)[-1] == f"plan_{'completed' if decision == 'approve' else 'rejected'}"
