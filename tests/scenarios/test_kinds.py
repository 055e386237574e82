"""Tool and plan decisions are one thing: the same words and audit, and room for more kinds."""

import pytest

from fakes.world import calls, of, plan, run, says, step, write
from gonogo.domain.errors import AlreadyDecided, Conflict, InvalidMessage
from gonogo.domain.events import AssistantMessage
from gonogo.domain.messages import HitlDecision
from gonogo.domain.states import ApprovalKind
from gonogo.execution.approvals import Question
from gonogo.store import events as log
from gonogo.store.sessions import set_session

BOTH = {
    "main/architect": [plan(step("a"))], "main/coder": [calls(write("a.txt")), says("ok")],
    "a": [says("a")],
}  # fmt: skip


@pytest.mark.feature(24)
@pytest.mark.parametrize("word", ["approve", "reject", "edit", "modify"])
async def test_plans_and_tools_are_decided_with_the_same_words_and_audited_alike(make, word):
    async with make(BOTH) as world:
        more = {"feedback": "as it is"}
        await world.say("Write", "coder")
        [question] = await world.pending()
        edit = {"modified_arguments": {"path": "b.txt", "content": ""}} if word[0] in "em" else {}
        await world.decide(question.call_id, word, **edit, **more)
        plan_id = await world.propose()
        edit = {"modified_subtasks": [step("a")]} if word[0] in "em" else {}
        await world.decide_plan(plan_id, word, **edit, **more)

        entries = [
            e for e in await world.audit() if "decision" in e.details and "approval_id" in e.details
        ]
        of_tool, of_plan = entries
        assert of_tool.action.split(".")[1] == of_plan.action.split(".")[1]
        assert set(of_tool.details["decision"]) == set(of_plan.details["decision"])
        assert of_tool.details["decision"]["decision"] == of_plan.details["decision"]["decision"]
        shared = {"approval_id", "digest", "decision"}
        assert shared <= set(of_tool.details) & set(of_plan.details)


@pytest.mark.feature(25)
async def test_a_new_kind_of_question_needs_one_registration(make):
    settled = []

    class Release:
        def settle(self, tx, approval, ruling):
            settled.append((approval.subject, str(ruling.word), ruling.by.name))

        def lapse(self, tx, approval):
            settled.append((approval.subject, "expired", None))

    async with make({"main/ask": [says("hi")]}) as world:
        await world.say("Hi", "ask")
        parts = world.runtime.parts
        parts.desk.kinds[ApprovalKind.SUBTASK] = Release()
        question = Question(
            session_id=world.session, kind=ApprovalKind.SUBTASK, subject="Release 1.0", details={},
            reason="because", digest="sha256:1",
        )  # fmt: skip
        opened = await parts.store.write(parts.desk.open, question)
        decision = HitlDecision(approval_id=opened.id, decision="approve")
        await world.runtime.approvals.decide(world.ann, decision)

        assert settled == [("Release 1.0", "approve", "ann")]
        with pytest.raises(AlreadyDecided):
            await world.runtime.approvals.decide(
                world.ann, HitlDecision(approval_id=opened.id, decision="reject")
            )
        assert of(await world.log(), "approval_resolved", status="approved")


async def test_of_answers_in_one_message_a_refused_one_leaves_nothing_behind(make):
    class Release:
        def settle(self, tx, approval, ruling):
            log.tell(tx, approval.session_id, AssistantMessage(content=approval.subject))
            set_session(tx, approval.session_id, title=approval.subject)
            if approval.subject == "bad":
                raise Conflict("not now")

        def lapse(self, tx, approval): ...

    async with make({"main/ask": [says("hi")]}) as world:
        await world.say("Hi", "ask")
        parts = world.runtime.parts
        parts.desk.kinds[ApprovalKind.SUBTASK] = Release()
        opened = {}
        for subject in ("good", "bad"):
            question = Question(
                session_id=world.session, kind=ApprovalKind.SUBTASK, subject=subject, details={},
                reason="because", digest="sha256:1",
            )  # fmt: skip
            opened[subject] = await parts.store.write(parts.desk.open, question)
        decisions = [HitlDecision(approval_id=a.id, decision="approve") for a in opened.values()]
        good, bad = await world.runtime.approvals.decide_many(world.ann, decisions)

        assert (good.outcome, str(bad)) == ("decided", "not now")
        assert [a.approval_id for a in await world.pending()] == [opened["bad"].id]
        session = await world.runtime.sessions.get(world.ann, world.session)
        assert session.title == "good"
        said = of(await world.log(), "assistant_message", content="bad")
        assert said == []


async def test_a_plan_is_not_decided_as_a_tool(make):
    async with make(BOTH) as world:
        await world.propose()
        [question] = await world.pending()
        with pytest.raises(InvalidMessage, match="plan_decision"):
            await world.ask({
                "type": "hitl_decision", "approval_id": question.approval_id,
                "decision": "approve",
            })  # fmt: skip


async def test_questions_of_one_session_are_limited(make):
    lines = {"main/coder": [calls(*(write(f"{n}") for n in range(4))), says("ok")]}
    async with make(lines, max_pending_approvals=3) as world:
        events = await world.say("Write", "coder")

        assert events[-1]["is_final"] is True
        assert events[-1]["type"] == "error"
        assert events[-1]["code"] == "rate_limited"
        assert await world.pending() == []


async def letting_start(world):
    """The subtasks that a person is asked about, and the answer that lets one of them start."""
    waiting = {q.subtask_id: q.approval_id for q in await world.pending()}

    async def answer(subtask_id, decision="approve"):
        await world.ask({
            "type": "hitl_decision", "approval_id": waiting[subtask_id], "decision": decision,
        })  # fmt: skip
        await world.idle()

    return waiting, answer


async def test_what_there_is_no_room_to_ask_about_is_asked_later(make):
    steps = [step(f"s{n}", approval_required=True) for n in range(6)]
    lines = {
        "main/architect": [plan(*steps, step("free"))], "free": [says("free")],
        **{each["id"]: [says(each["id"])] for each in steps},
    }  # fmt: skip
    async with make(lines, max_pending_approvals=3) as world:
        events = await world.decide_plan(await world.propose())
        # What needs nobody does not wait behind what does.
        assert of(events, "subtask_completed", subtask_id="free")
        assert events[-1]["is_final"]
        waiting, answer = await letting_start(world)
        assert list(waiting) == ["s0", "s1", "s2"]

        await answer("s1")
        waiting, answer = await letting_start(world)
        assert list(waiting) == ["s0", "s2", "s3"]
        await answer("s0", "reject")
        for subtask_id in ("s2", "s3", "s4", "s5"):
            _, answer = await letting_start(world)
            await answer(subtask_id)
        await world.until("plan_completed", status="partial", completed=6, skipped=1)


async def test_room_that_another_question_leaves_is_used_as_well(make):
    lines = {
        "main/architect": [plan(step("a"), step("b", approval_required=True))],
        "a": [calls(write("a.txt"), write("b.txt")), says("a")], "b": [says("b")],
    }  # fmt: skip
    async with make(lines, max_pending_approvals=2, max_parallel=1) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id, auto_approve_tools=False)
        asked = await world.pending()
        assert [q.kind for q in asked] == ["tool", "tool"]
        await world.decide(asked[0].call_id)
        await world.until("approval_requested", kind="subtask")
        for question in await world.pending():
            await world.ask({
                "type": "hitl_decision", "approval_id": question.approval_id, "decision": "approve",
            })  # fmt: skip
        await world.until("plan_completed", status="completed")


async def test_what_was_let_start_finds_room_for_its_own_questions(make):
    steps = [step(f"s{n}", approval_required=True) for n in range(5)]
    threads = {each["id"]: [calls(run("make it")), says(each["id"])] for each in steps}
    lines = {"main/architect": [plan(*steps)], **threads}
    async with make(lines, max_pending_approvals=2) as world:
        await world.decide_plan(await world.propose())
        for _ in range(10):
            oldest, *others = await world.pending()
            assert len(others) < 2
            await world.ask({
                "type": "hitl_decision", "approval_id": oldest.approval_id, "decision": "approve",
            })  # fmt: skip
            await world.idle()
        await world.until("plan_completed", status="completed")


async def test_what_the_runtime_itself_has_to_ask_it_asks_however_many_questions_are_open(make):
    lines = {
        "main/architect": [plan(step("a"), step("b"))],
        "a": [calls(write("a.txt")), says("a")], "b": [says("b"), says("b")],
    }  # fmt: skip
    limits = {"max_pending_approvals": 1, "budget_plan_requests": 1, "max_parallel": 1}
    async with make(lines, **limits) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id, auto_approve_tools=False)
        assert {q.kind for q in await world.pending()} == {"tool", "intervention"}


@pytest.mark.nightly
async def test_a_plan_of_three_hundred_subtasks_that_ask_can_be_approved(make):
    steps = [step(f"s{n}", approval_required=True) for n in range(300)]
    async with make({"main/architect": [plan(*steps)]}) as world:
        await world.decide_plan(await world.propose())
        assert len(await world.pending()) == 256
