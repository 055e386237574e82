"""Several people over one runtime: who sees, who decides, and what is between two approvals."""

import re

import anyio
import pytest

from fakes.world import call, calls, kinds, of, plan, run, says, step, write
from gonogo.cli.terminal.render import review_lines
from gonogo.domain.errors import Conflict, Forbidden, NotFound
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.states import ApprovalStatus
from gonogo.domain.views import ApprovalFilter
from gonogo.policy import BadRules

TWO = plan(step("one"), step("two", "one"))
LINES = {
    "main/orchestrator": [says("Hello")],
    "main/architect": [TWO, says("Good")],
    "main/coder": [calls(write("a.txt")), says("written")],
    "one": [calls(write("one.py")), says("one is done")],
    "two": [says("two is done")],
    "three": [says("three is done")],
}
EVE = Principal(id="user:eve", name="eve", role=Role.OPERATOR)


@pytest.fixture
def ruled(tmp_path, make):
    """Makes worlds with rules of review."""

    def making(rules, lines=LINES, **set_):
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config" / "rules.toml").write_text(rules)
        return make(lines, **set_)

    return making


async def approved_by(world, plan_id, who, **more):
    decision = PlanDecision(plan_id=plan_id, decision="approve", **more)
    return await world.runtime.approvals.decide(who, decision)


async def question(world, who=None, **wanted):
    found = await world.runtime.approvals.page(
        who or world.runtime.owner, ApprovalFilter(status=ApprovalStatus.PENDING, **wanted)
    )
    return found.approvals[0]


PLANS = '[[review]]\nkind = "plan"\napprovals = 2\nreviewers = ["ann", "bob", "eve"]\n'


async def test_a_plan_runs_after_the_second_approval_also_when_the_process_ended_between(ruled):
    async with ruled(PLANS) as world:
        plan_id = await world.propose()
        told = await world.decide_plan(plan_id)
        assert kinds(told) == ["approval_voted"]
        assert told[0]["is_final"] is True
        assert told[0]["content"] == "1 of 2 approvals (ann): A goal"
        assert kinds(await world.decide_plan(plan_id)) == []

        await world.restart()
        assert world.read("one.py") is None
        shown = await question(world)
        assert [vote.name for vote in shown.votes] == ["ann"]
        assert (shown.review.needed, shown.review.reviewers) == (2, ["ann", "bob", "eve"])
        receipt = await approved_by(world, plan_id, world.bob)
        assert receipt.outcome == "decided"
        await world.until("plan_completed")
        assert world.read("one.py") == "made\n"
        decided = await world.runtime.approvals.get(world.ann, shown.approval_id)
        assert (decided.decided_by, decided.approved_by) == ("bob", ["ann", "bob"])


async def test_reviewers_see_the_question_and_its_plan_and_nothing_else_of_the_session(ruled):
    async with ruled(PLANS) as world:
        plan_id = await world.propose()
        runtime, bob = world.runtime, world.bob
        asked = await question(world, bob, mine=True)

        assert asked.requested_by == "ann"
        assert (await runtime.approvals.get(bob, asked.approval_id)) == asked
        assert (await runtime.plans.get(bob, plan_id)).plan_id == plan_id
        assert len(await runtime.plans.revisions(bob, plan_id)) == 1
        assert (await runtime.plans.status(bob, plan_id)).total_steps == 2
        stranger = Principal(id="user:zoe", name="zoe", role=Role.OPERATOR)
        for refused in (
            runtime.approvals.get(stranger, asked.approval_id),
            runtime.plans.get(stranger, plan_id),
            approved_by(world, plan_id, stranger),
            runtime.plans.cancel(bob, plan_id),
            runtime.sessions.pending(bob, world.session),
            runtime.approvals.decide(
                bob, PlanDecision(plan_id=plan_id, decision="approve"), world.session
            ),
        ):  # fmt: skip
            with pytest.raises(NotFound):
                await refused
        assert (await runtime.approvals.page(stranger)).count == 0
        viewer = bob.model_copy(update={"role": Role.VIEWER})
        with pytest.raises(Forbidden):
            await approved_by(world, plan_id, viewer)
        assert (await runtime.approvals.page(viewer, ApprovalFilter(mine=True))).count == 0

        await approved_by(world, plan_id, bob)
        assert (await runtime.approvals.page(bob, ApprovalFilter(mine=True))).count == 0
        assert (await runtime.approvals.page(EVE, ApprovalFilter(mine=True))).count == 1
        await runtime.sessions.delete(world.ann, world.session)
        with pytest.raises(NotFound):
            await runtime.approvals.get(bob, asked.approval_id)
        assert (await runtime.approvals.page(bob)).count == 0


async def test_an_edited_plan_is_put_before_everybody_again(ruled):
    async with ruled(PLANS) as world:
        plan_id = await world.propose()
        await approved_by(world, plan_id, world.ann, auto_approve_tools=False)
        edit = PlanDecision(
            plan_id=plan_id, decision="edit",
            modified_subtasks=[{"id": "three", "description": "Three", "agent": "coder"}],
        )  # fmt: skip
        receipt = await world.runtime.approvals.decide(world.bob, edit)
        assert receipt.outcome == "asked_again"
        asked = await question(world)
        assert (asked.revision, asked.details["edited_by"]) == (2, "bob")
        assert [vote.name for vote in asked.votes] == ["bob"]
        shown = of(await world.log(), "plan_notification")[-1]["metadata"]
        assert (shown["revision"], shown["subtask_count"]) == (2, 1)
        with pytest.raises(Conflict):
            await approved_by(world, plan_id, world.ann)
        with pytest.raises(Conflict):
            await approved_by(world, plan_id, world.ann, revision=1)

        await approved_by(world, plan_id, world.ann, revision=2)
        await world.until("plan_completed")
        told = of(await world.log(), "plan_approved")[-1]["metadata"]
        assert (told["was_edited"], told["subtask_count"]) == (True, 1)
        assert world.read("one.py") is None


async def test_a_vote_without_grants_is_not_loosened_by_a_later_one(ruled):
    async with ruled(PLANS) as world:
        plan_id = await world.propose()
        await approved_by(world, plan_id, world.ann, auto_approve_tools=False)
        await approved_by(world, plan_id, world.bob)
        assert (await world.runtime.plans.get(world.ann, plan_id)).auto_approve_tools is False


CALLS = '[[review]]\nkind = "tool"\nnot_requester = true\nreviewers = ["ann", "bob"]\n'


async def test_who_asked_edits_a_call_and_somebody_else_lets_it_run(ruled):
    async with ruled(CALLS) as world:
        await world.say("Write", "coder")
        asked = await question(world)
        refused = await world.runtime.messages.accept(
            world.ann, world.session, HitlDecision(call_ids=[asked.call_id], decision="approve")
        )
        assert [answer.code for answer in refused.answers] == ["forbidden"]
        told = await world.decide(
            asked.call_id, "edit", modified_arguments={"path": "b.txt", "content": "edited\n"}
        )
        assert kinds(told) == ["approval_resolved", "tool_call", "approval_requested"]
        assert told[-1]["is_final"] is True
        again = await question(world)
        assert (again.arguments["path"], again.details["edited_by"]) == ("b.txt", "ann")
        assert again.approval_id != asked.approval_id
        with pytest.raises(NotFound):
            await world.runtime.approvals.decide(
                world.bob, HitlDecision(approval_id=again.approval_id, decision="approve"),
                world.session,
            )  # fmt: skip

        await world.runtime.approvals.decide(
            world.bob, HitlDecision(approval_id=again.approval_id, decision="approve")
        )
        await world.idle()
        assert (world.read("a.txt"), world.read("b.txt")) == (None, "edited\n")
        told = of(await world.log(), "tool_approved")[-1]["metadata"]
        assert told["modified_arguments"]["path"] == "b.txt"
        assert [e.actor for e in await world.audit("tool.allowed")] == ["user:bob"]


async def test_votes_in_one_message_are_answered_one_by_one(ruled):
    lines = {**LINES, "main/coder": [calls(write("a.txt"), write("b.txt")), says("written")]}
    rules = '[[review]]\nkind = "tool"\napprovals = 2\nreviewers = ["ann", "bob"]\n'
    async with ruled(rules, lines) as world:
        await world.say("Write", "coder")
        ids = [each.call_id for each in await world.pending()]
        decision = {"type": "hitl_decision", "call_ids": ids, "decision": "approve"}
        receipt = await world.send(decision)
        assert [answer.outcome for answer in receipt.answers] == ["voted", "voted"]
        told = await world.answer(receipt)
        assert kinds(told) == ["approval_voted", "approval_voted"]
        assert [event["is_final"] for event in told] == [False, True]


async def test_a_plan_that_would_allow_what_is_reviewed_is_reviewed_itself(ruled):
    rules = '[[review]]\ncommand = "git push"\nreviewers = ["bob"]\n'
    pushing = plan(step("one", scope={"commands": ["git push origin"]}))
    async with ruled(rules, {**LINES, "main/architect": [pushing]}) as world:
        plan_id = await world.propose()
        with pytest.raises(
            Forbidden, match=("Only these people can approve this: bob; ask one of them")
        ):
            await world.decide_plan(plan_id)
        assert (await question(world, world.bob)).review.rules == ["user:review:1"]


async def test_a_declared_command_does_not_reach_what_others_review(ruled):
    rules = '[[review]]\npath = "db/**"\nreviewers = ["bob"]\n'
    scope = {"commands": ["touch"], "paths": ["src/**"]}
    lines = {
        "main/architect": [plan(step("one", scope=scope))],
        "one": [calls(run("touch free"), run("touch ../../db/x")), says("one is done")],
        "main/orchestrator": [says("Hello")],
    }
    async with ruled(rules, lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.until("approval_requested", subject="execute_command")
        shown = await question(world, world.bob)
        assert shown.arguments["command"] == "touch ../../db/x"
        assert shown.review.rules == ["user:review:1"]
        assert world.read("free") == ""


async def test_who_was_shut_out_between_two_approvals_has_not_approved(ruled):
    async with ruled(PLANS) as world:
        runtime, plan_id = world.runtime, await world.propose()
        made = [
            await runtime.people.create_token(runtime.owner, "eve", Role.OPERATOR) for _ in range(2)
        ]
        eve = await runtime.people.authenticate(made[0][1])
        await approved_by(world, plan_id, eve)
        await runtime.people.revoke_token(runtime.owner, made[0][0].token_id)
        assert [vote.name for vote in (await question(world)).votes] == ["eve"]
        await runtime.people.revoke_token(runtime.owner, made[1][0].token_id)
        assert (await question(world)).votes == []

        assert (await approved_by(world, plan_id, world.bob)).outcome == "voted"
        assert world.read("one.py") is None
        await world.decide_plan(plan_id)
        await world.until("plan_completed")


async def test_others_are_let_in_after_a_time_also_after_a_restart(ruled):
    rules = (
        '[[review]]\nkind = "plan"\nreviewers = ["bob"]\n'
        'escalate_after = "30m"\nescalate_to = ["eve"]\n'
    )
    async with ruled(rules) as world:
        plan_id = await world.propose()
        with pytest.raises(NotFound):
            await world.runtime.plans.get(EVE, plan_id)
        await world.restart()
        await world.later(31 * 60)
        told = await world.until("approval_escalated")
        assert (
            told["content"]
            == "Nobody has decided yet. These people can now decide too: eve. The question: A goal"
        )
        asked = await question(world, EVE, mine=True)
        assert asked.escalated_at is not None
        assert asked.review.escalates_at is None
        await approved_by(world, plan_id, EVE)
        await world.until("plan_completed")


def answered(request):
    """The planner's answer to comments: the plan as it is, and a word."""
    ids = re.findall(r'"comment_id": "([^"]+)"', request.messages[0].content)
    given = [{"comment_id": each, "answer": "As it is"} for each in ids]
    return calls(call("create_plan", goal="A goal", subtasks=[step("three")], answers=given))


async def test_whoever_has_a_plan_changed_asked_for_the_revision_that_came_of_it(ruled):
    editor, orderer, sender, other = (
        Principal(id=f"user:{name}", name=name, role=Role.ADMIN)
        for name in ("ed", "or", "se", "ot")
    )
    lines = {
        **LINES, "one": [calls(call("attempt_completion", result="odd", success=False))],
        "replan-1": [plan(step("three"))], "revise-3": [answered],
    }  # fmt: skip
    rules = '[[review]]\nkind = "plan"\nnot_requester = true\n'

    async def barred(*who):
        asked = await question(world)
        found = {world.ann: "ann", editor: "ed", orderer: "or", sender: "se"}
        assert [asked.requested_by, *(asked.review.asked_too or ())] == [
            found[each] for each in who
        ]
        for each in who:
            with pytest.raises(Forbidden, match=f"{each.name} asked for this"):
                await approved_by(world, plan_id, each, revision=asked.revision)

    async with ruled(rules, lines, replanning_max_attempts=0) as world:
        plan_id, runtime = await world.propose(), world.runtime
        await barred(world.ann)
        edit = PlanDecision(plan_id=plan_id, decision="edit", modified_subtasks=[step("one")])
        assert (await runtime.approvals.decide(editor, edit)).outcome == "asked_again"
        await barred(world.ann, editor)
        await approved_by(world, plan_id, other, revision=2)
        await world.until("plan_completed")

        await runtime.plans.replan(orderer, plan_id, "Another way")
        await world.until("plan_notification", revision=3)
        await barred(world.ann, editor, orderer)
        await runtime.plans.comment(other, plan_id, "Why?")
        await runtime.plans.revise(sender, plan_id)
        await world.until("plan_notification", revision=4)
        await barred(world.ann, editor, orderer, sender)
        [said, *_] = [
            each for each in review_lines(await question(world), "en") if "cannot approve" in each
        ]
        assert said.endswith("ann, ed, or, se")
        assert (await approved_by(world, plan_id, other, revision=4)).outcome == "decided"


async def test_a_rule_of_the_session_allows_nothing_that_others_have_to_review(ruled):
    rules = '[[review]]\npath = "a.txt"\nnot_requester = true\n'
    lines = {**LINES, "main/coder": [calls(write("a.txt"), write("b.txt")), says("written")]}
    async with ruled(rules, lines) as world:
        receipt = await world.runtime.sessions.open(world.ann, session_id="s1")
        rule = {"tool": "write_file", "decision": "allow"}
        await world.runtime.sessions.add_rule(world.ann, receipt.session_id, rule)
        world.session = "s1"
        await world.say("Write", "coder")
        (asked,) = await world.pending()
        assert asked.arguments["path"] == "a.txt"
        assert (world.read("a.txt"), world.read("b.txt")) == (None, "made\n")


async def test_identical_questions_of_several_sessions_have_one_group(ruled):
    lines = {**LINES, "main/coder": [calls(run("git push"))] * 3}
    async with ruled("", lines) as world:
        await world.say("Push", "coder")
        await world.runtime.sessions.open(world.ann, session_id="s2")
        await world.say("Push", "coder", session="s2")
        found = (await world.runtime.approvals.page(world.ann)).approvals
        assert len(found) == 2
        assert len({each.group for each in found}) == 1
        assert len({each.digest for each in found}) == 1
        same = ApprovalFilter(group=found[0].group)
        assert (await world.runtime.approvals.page(world.bob, same)).count == 0


async def test_a_bad_rule_of_review_keeps_the_runtime_from_starting(ruled):
    with pytest.raises(BaseExceptionGroup) as refused:
        async with ruled('[[review]]\nkind = "plna"\n'):
            pass
    errors, left = [], [refused.value]
    while left:
        error = left.pop()
        left += getattr(error, "exceptions", ())
        errors.append(error)
    (bad,) = [error for error in errors if isinstance(error, BadRules)]
    assert "rules.toml:1: there is no kind 'plna'" in str(bad)


async def test_two_last_votes_at_once_start_the_plan_once(ruled):
    async with ruled(PLANS) as world:
        plan_id = await world.propose()
        said = []

        async def decides(who):
            try:
                said.append((await approved_by(world, plan_id, who)).outcome)
            except Conflict as late:
                said.append(late.code)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for who in (world.ann, world.bob, EVE):
                    group.start_soon(decides, who)
        assert sorted(said) == ["already_decided", "decided", "voted"]
        await world.until("plan_completed")
        assert len(of(await world.log(), "plan_approved")) == 1
