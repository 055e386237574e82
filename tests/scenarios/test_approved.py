"""What was approved last is what a plan goes on with: nothing that was proposed since ever runs.

When a world ends, its rows are held against the answers of people: see
`durability.plans_hold.only_what_was_approved_runs`.
"""

import pytest

from fakes.world import call, calls, of, on_both, plan, says, step, write
from gonogo.domain.errors import NotFound
from gonogo.domain.messages import PlanDecision

LOST = calls(call("attempt_completion", result="Agent x not found", success=False))
WIDE = {"tools": ["write_file", "execute_command"], "commands": ["touch pwned"]}
FIRST = (step("a"), step("b", "a"), step("late", "b"))


def in_turn(*replies):
    """What a model says the first time that it is asked, the second time, and so on."""
    left = list(replies)
    return [lambda request: left.pop(0)]


def script(*proposals, **threads):
    """A plan whose `b` fails at first, and what the architect makes of it each time."""
    later = {f"replan-{n}": [each] for n, each in enumerate(proposals, 1)}
    return {
        "main/architect": [plan(*FIRST)], "main/orchestrator": [says("Yes?")],
        "a": [calls(write("a.txt")), says("a")], "b": in_turn(LOST, says("b")), "c": [says("c")],
        "late": [says("late")], **later, **threads,
    }  # fmt: skip


EVIL = plan(step("c", "a", scope=WIDE), step("b", "a", scope=WIDE))
REVIEWED = '[[review]]\nkind = "plan"\nreviewers = ["bob"]\n'


@pytest.fixture
def reviewed(tmp_path, make):
    """Makes worlds in which bob alone approves plans, and ann sends messages."""

    def making(lines, **set_):
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config" / "rules.toml").write_text(REVIEWED)
        return make(lines, **set_)

    return making


async def decide(world, plan_id, decision, revision, by=None, **more):
    """Decide, and wait until all that it sets going has come to rest."""
    answer = PlanDecision(plan_id=plan_id, decision=decision, revision=revision, **more)
    await world.runtime.approvals.decide(by or world.ann, answer)
    await world.idle()


async def sent_back(world):
    """A plan that ran as bob approved it, and of which another revision is proposed."""
    plan_id = await world.propose()
    await decide(world, plan_id, "approve", 1, world.bob)
    await world.until("plan_notification", revision=2)
    await world.idle()
    assert (await standing(world, plan_id))[:2] == ("awaiting_approval", 2)
    return plan_id


async def standing(world, plan_id):
    found = await world.runtime.plans.get(world.ann, plan_id)
    return str(found.status), found.revision, {s.id: str(s.status) for s in found.subtasks}


def ran(world):
    """The subtasks that a model was asked for."""
    return {request.thread for request in world.model.requests} & {"a", "b", "c", "late"}


async def reject(world, plan_id):
    await decide(world, plan_id, "reject", 2)


async def expire(world, plan_id):
    await world.later(31)
    await world.until("plan_completed")
    await world.idle()


WAYS = {"rejected": reject, "not decided in time": expire}


@on_both
@pytest.mark.feature(202)
@pytest.mark.parametrize("way", WAYS)
async def test_a_retry_after_a_revision_that_was_not_approved_does_what_was(reviewed, way):
    async with reviewed(script(EVIL), approval_expiry_plan=30) as world:
        plan_id = await sent_back(world)
        await WAYS[way](world, plan_id)

        assert await standing(world, plan_id) == (
            "partial", 1, {"a": "completed", "b": "failed", "late": "skipped"},
        )  # fmt: skip
        [ended] = of(await world.log(), "plan_completed")
        assert (ended["metadata"]["revision"], ended["metadata"]["failed"]) == (1, 1)
        with pytest.raises(NotFound, match="no subtask c"):
            await world.runtime.plans.retry_subtask(world.ann, plan_id, "c")
        await world.restart()
        await world.runtime.plans.retry_subtask(world.ann, plan_id, "b")
        await world.until("subtask_completed", subtask_id="late")
        await world.idle()

        assert await standing(world, plan_id) == (
            "completed", 3, {"a": "completed", "b": "completed", "late": "completed"},
        )  # fmt: skip
        grants = await world.runtime.plans.grants(world.ann, world.session)
        assert {(g.subtask_id, g.revision) for g in grants} == {
            ("a", 1), ("b", 1), ("late", 1), ("b", 3), ("late", 3),
        }  # fmt: skip
        assert {g.scope for g in grants} == {None}
        assert "c" not in ran(world)


async def test_a_plan_that_is_cancelled_while_a_revision_waits_ends_as_it_was_approved(reviewed):
    async with reviewed(script(EVIL)) as world:
        plan_id = await sent_back(world)
        shown = await world.runtime.plans.get(world.ann, plan_id)
        assert (shown.is_approved, shown.approved_revision) == (False, 1)
        await world.runtime.plans.cancel(world.ann, plan_id)

        assert await standing(world, plan_id) == (
            "cancelled", 1, {"a": "completed", "b": "failed", "late": "cancelled"},
        )  # fmt: skip
        shown = await world.runtime.plans.get(world.ann, plan_id)
        assert (shown.is_approved, shown.approved_revision) == (True, 1)
        [ended] = of(await world.log(), "plan_cancelled")
        assert ended["metadata"]["revision"] == 1


async def test_a_plan_whose_time_is_over_while_a_revision_waits_ends_as_it_was_approved(reviewed):
    async with reviewed(script(EVIL), plan_timeout=600) as world:
        plan_id = await sent_back(world)
        await world.later(601)
        await world.until("plan_completed")

        assert (await standing(world, plan_id))[:2] == ("partial", 1)
        assert await world.pending() == []


async def test_an_edit_that_its_author_may_not_approve_leaves_nothing_behind(reviewed):
    edit = [step("a"), step("c", "a", scope=WIDE)]
    async with reviewed(script(EVIL)) as world:
        plan_id = await sent_back(world)
        await decide(world, plan_id, "edit", 2, modified_subtasks=edit)
        assert (await standing(world, plan_id))[:2] == ("awaiting_approval", 3)
        await decide(world, plan_id, "reject", 3)

        assert (await standing(world, plan_id))[:2] == ("partial", 1)
        await world.runtime.plans.retry_subtask(world.ann, plan_id, "b")
        await world.until("subtask_completed", subtask_id="late")
        await world.idle()
        assert (await standing(world, plan_id))[:2] == ("completed", 4)
        assert "c" not in ran(world)


async def test_what_was_rejected_is_no_ground_for_what_is_proposed_next(reviewed):
    other = plan(step("c", "a", scope=WIDE), step("late", "c"))
    async with reviewed(script(EVIL, other), replan_within_grant=True) as world:
        plan_id = await sent_back(world)
        await reject(world, plan_id)
        await world.runtime.plans.replan(world.ann, plan_id, "Do it otherwise")
        notice = await world.until("plan_notification", revision=3)

        changes = notice["metadata"]["changes"]
        assert [s["id"] for s in changes["added"]] == ["c"]
        assert changes["removed"] == ["b"]
        diff = await world.runtime.plans.diff(world.ann, plan_id, 1, 3)
        assert [s.id for s in diff.added] == ["c"]
        await world.idle()
        assert "c" not in ran(world)


async def test_a_plan_of_which_all_that_was_approved_is_done_is_completed_though_more_is_not(make):
    lines = script(plan(step("c", "a")), **{"main/architect": [plan(step("a"))]})
    lines["a"] = [says("a")]
    async with make(lines) as world:
        goes_on = world.model.hold("a")
        plan_id = await world.begin()
        await world.until("subtask_started")
        await world.runtime.plans.replan(world.ann, plan_id, "And c")
        goes_on.set()
        await world.until("plan_notification", revision=2)
        await reject(world, plan_id)

        assert await standing(world, plan_id) == ("completed", 1, {"a": "completed"})


async def test_what_an_approved_revision_left_out_comes_back_by_no_verb(make):
    without = plan(step("c", "a"))
    async with make(script(without)) as world:
        plan_id = await world.propose()
        await decide(world, plan_id, "approve", 1)
        await world.until("plan_notification", revision=2)
        first = (await world.runtime.checkpoints.page(world.ann, plan_id)).checkpoints[0]
        await decide(world, plan_id, "hold", 2)
        await world.runtime.plans.start(world.ann, plan_id)
        await world.until("plan_completed")
        await world.idle()

        await world.runtime.checkpoints.rollback(world.ann, plan_id, first.checkpoint_id)
        assert (await standing(world, plan_id))[2].keys() == {"a", "c"}
        assert len(world.model.asked("b")) == 1
