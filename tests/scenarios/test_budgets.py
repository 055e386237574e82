"""Budgets: a plan that reaches a limit stops at a safe boundary with one question, and what a
person answers is done."""

import pytest

from fakes.world import call, calls, of, on_both, plan, says, step, write
from gonogo.cli.session.interrupts import pause_lines
from gonogo.domain.errors import Conflict, InvalidMessage
from gonogo.domain.messages import HitlDecision
from gonogo.domain.tool_calls import TOKENS


def lines(*names):
    """Subtasks one after another that write a file in two requests each."""
    steps = [step(name, *names[:at][-1:]) for at, name in enumerate(names)]
    scripts = {name: [calls(write(f"{name}.txt")), says(name)] for name in names}
    return {"main/architect": [plan(*steps)], "main/orchestrator": [says("Yes?")], **scripts}


async def paused(world):
    """Run the plan until it asks. Gives its id and the question."""
    plan_id = await world.propose()
    events = await world.decide_plan(plan_id)
    [question] = await world.pending()
    assert events[-1]["is_final"]
    return plan_id, question


async def answer(world, question, decision, **more):
    return await world.ask(
        {
            "type": "hitl_decision", "approval_id": question.approval_id, "decision": decision,
            **more,
        }
    )  # fmt: skip


async def status(world, plan_id):
    return await world.runtime.plans.status(world.ann, plan_id)


@pytest.mark.feature(213)
async def test_a_plan_that_reaches_a_limit_asks_and_an_approval_gives_it_as_much_again(make):
    async with make(lines("a", "b"), budget_plan_requests=3) as world:
        plan_id, question = await paused(world)
        assert question.kind == "intervention"
        assert question.details == {"about": "budget", "what": "requests", "used": 3, "limit": 3}
        assert "GONOGO_BUDGET_PLAN_REQUESTS" in question.reason
        found = await status(world, plan_id)
        assert (found.status, found.pause_reason) == ("paused", "budget")
        shown = await world.runtime.plans.get(world.ann, plan_id)
        assert (shown.pause_reason, shown.paused_until) == ("budget", None)
        waits = await world.pending()
        assert question.approval_id in pause_lines(shown, waits, "en")[1]
        assert (found.usage.requests, found.limits) == (3, {"requests": 3})
        assert found.usage.tokens == found.usage.input_tokens + found.usage.output_tokens > 0
        (a, b) = found.subtasks
        # What the architect took belongs to no plan; the first subtask was asked twice.
        assert (a.usage.requests, b.usage.requests) == (2, 1)
        for name in ("requests", *TOKENS, "tokens", "cost", "unpriced_requests"):
            total = getattr(a.usage, name) + getattr(b.usage, name)
            assert total == getattr(found.usage, name)
        assert (found.usage.cost, found.usage.unpriced_requests) == (0, 3)

        events = await answer(world, question, "approve")
        assert events[-1]["type"] == "plan_completed"
        assert events[-1]["metadata"]["status"] == "completed"
        found = await status(world, plan_id)
        assert (found.usage.requests, found.limits) == (4, {"requests": 6})
        assert {s.attempt for s in found.subtasks} == {1}
        assert world.read("b.txt") == "made\n"
        assert of(await world.log(), "subtask_failed") == []


async def test_an_edit_sets_other_limits_and_a_wrong_one_changes_nothing(make):
    async with make(lines("a", "b"), budget_plan_requests=1) as world:
        plan_id, question = await paused(world)
        for wrong in ({"request": 9}, {"requests": 0}, {"requests": True}, {}, "lots"):
            with pytest.raises(InvalidMessage):
                await world.runtime.approvals.decide(
                    world.ann,
                    HitlDecision(
                        type="hitl_decision", approval_id=question.approval_id, decision="edit",
                        modified_arguments={"result": wrong},
                    ),
                )  # fmt: skip
        low = HitlDecision(
            type="hitl_decision", approval_id=question.approval_id, decision="edit",
            modified_arguments={"result": {"requests": 1, "tokens": 1_000_000, "subtasks": 0.5}},
        )  # fmt: skip
        with pytest.raises(InvalidMessage, match="requests: 1 used, 1 given; subtasks: 1 used"):
            await world.runtime.approvals.decide(world.ann, low)
        assert [each.approval_id for each in await world.pending()] == [question.approval_id]
        events = await answer(
            world, question, "edit", modified_arguments={"result": {"requests": 9}}
        )
        assert events[-1]["metadata"]["status"] == "completed"
        assert (await status(world, plan_id)).limits == {"requests": 9}


async def test_a_rejection_ends_the_plan_with_its_reason(make):
    async with make(lines("a", "b"), budget_plan_requests=3) as world:
        _, question = await paused(world)
        events = await answer(world, question, "reject")
        assert events[-1]["metadata"]["status"] == "partial"
        [skipped] = of(events, "subtask_skipped")
        assert skipped["metadata"]["reason"] == "the budget is spent, and ann did not extend it"


async def test_a_question_that_expires_ends_the_plan_and_says_so(make):
    more = {"budget_plan_requests": 1, "approval_expiry_intervention": 60}
    async with make(lines("a"), **more) as world:
        await paused(world)
        await world.later(61)
        await world.until("plan_completed", status="failed")
        [skipped] = of(await world.log(), "subtask_skipped")
        assert "expired" in skipped["metadata"]["reason"]


@on_both
@pytest.mark.feature(213)
async def test_the_question_holds_over_a_restart_and_so_does_what_was_used(make):
    async with make(lines("a", "b"), budget_plan_requests=3) as world:
        plan_id, question = await paused(world)
        await world.restart()
        await world.idle()
        with pytest.raises(Conflict, match="budget"):
            await world.runtime.plans.resume(world.ann, plan_id)
        found = await status(world, plan_id)
        assert (found.status, found.usage.requests) == ("paused", 3)
        [again] = await world.pending()
        assert again.approval_id == question.approval_id
        events = await answer(world, again, "approve")
        assert events[-1]["metadata"]["status"] == "completed"


async def test_eight_at_once_open_one_question_and_stay_within_the_limit(make):
    names = "abcdefgh"
    scripts = {name: [says(name, delay=0.02)] for name in names}
    script = {"main/architect": [plan(*(step(n) for n in names))], **scripts}
    async with make(script, budget_plan_requests=5, max_parallel=8) as world:
        plan_id, _ = await paused(world)
        found = await status(world, plan_id)
        assert found.usage.requests == 5
        assert sum(str(s.status) == "completed" for s in found.subtasks) == 5
        assert len(world.model.asked("a")) <= 1
        assert len([r for r in world.model.requests if r.thread != "main"]) == 5


async def test_a_turn_that_passes_the_sessions_budget_fails_and_says_what_to_raise(make):
    async with make({"main/ask": [says("one"), says("two")]}, budget_session_requests=1) as world:
        await world.say("Hi", "ask")
        events = await world.say("Again", "ask")
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "rate_limited")
        assert "Raise GONOGO_BUDGET_SESSION_REQUESTS" in events[-1]["error"]
        assert events[-1]["is_final"]


async def test_without_a_budget_usage_is_shown_too(make):
    async with make(lines("a")) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        found = await status(world, plan_id)
        assert (found.usage.requests, found.usage.subtasks, found.limits) == (2, 1, None)
        assert found.usage.seconds > 0


def search(*more):
    """A plan whose second subtask fails so that another revision is looked for."""
    bad = calls(call("attempt_completion", result="Agent x not found", success=False))
    return {
        "main/architect": [plan(step("a"), step("b", "a"))], "main/orchestrator": [says("Yes?")],
        "a": [says("a")], "b": [bad], "c": [says("c")], "replan-1": list(more),
    }  # fmt: skip


@pytest.mark.feature(213)
async def test_a_budget_spent_by_the_search_for_another_revision_asks_and_then_it_searches_on(make):
    lines = search(calls(call("list_files", path=".")), plan(step("c", "a")))
    async with make(lines, budget_plan_requests=3) as world:
        plan_id, question = await paused(world)
        assert question.details == {"about": "budget", "what": "requests", "used": 3, "limit": 3}
        found = await status(world, plan_id)
        assert (found.status, found.pause_reason) == ("replanning", "budget")
        [told] = of(await world.log(), "plan_paused")
        assert told["metadata"]["reason"] == "budget"

        await world.restart()
        await world.idle()
        with pytest.raises(Conflict, match="budget"):
            await world.runtime.plans.resume(world.ann, plan_id)
        assert [p.approval_id for p in await world.pending()] == [question.approval_id]
        assert world.model.requests == []

        events = await answer(world, question, "approve")
        assert events[-1]["type"] == "plan_notification"
        found = await status(world, plan_id)
        assert (found.status, found.pause_reason, found.revision) == ("awaiting_approval", None, 2)
        [asked] = world.model.asked("replan-1")
        assert len(asked.messages) > 1
        after = await world.decide_plan(plan_id, revision=2)
        assert after[-1]["metadata"]["status"] == "completed"
        assert (await status(world, plan_id)).usage.subtasks == 3


async def test_a_search_that_gets_no_more_ends_the_plan_with_what_it_has(make):
    lines = search(calls(call("list_files", path=".")))
    async with make(lines, budget_plan_requests=3) as world:
        plan_id, question = await paused(world)
        events = await answer(world, question, "reject")
        assert events[-1]["metadata"]["status"] == "partial"
        found = await status(world, plan_id)
        assert (found.pause_reason, await world.pending()) == (None, [])


async def test_runs_of_earlier_revisions_count_although_no_budget_asks_for_it(make):
    async with make(search(plan(step("c", "a")))) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.decide_plan(plan_id, revision=2)
        found = await status(world, plan_id)
        assert {s.id: s.attempt for s in found.subtasks} == {"a": 1, "c": 1}
        assert found.usage.subtasks == 3


@pytest.mark.feature(213)
async def test_the_answer_ends_when_the_last_of_those_that_ran_is_refused_as_well(make):
    slow = {**calls(call("list_files", path=".")), "delay": 0.3}
    lines = {
        "main/architect": [plan(step("a"), step("b"))],
        "a": [calls(call("list_files", path=".")), says("a")], "b": [slow, says("b")],
    }  # fmt: skip
    async with make(lines, budget_plan_requests=2, max_parallel=2) as world:
        _, question = await paused(world)
        assert question.details["about"] == "budget"
