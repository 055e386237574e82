"""Tool and plan decisions are one thing: the same words and audit, and room for more kinds."""

import pytest

from fakes.world import calls, of, plan, says, step, write
from gonogo.approvals import Question
from gonogo.domain.approval_state import ApprovalKind
from gonogo.domain.errors import AlreadyDecided, Conflict, InvalidMessage
from gonogo.domain.events import AssistantMessage
from gonogo.domain.messages import HitlDecision
from gonogo.store import log
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
        def settle(self, conn, approval, ruling, now):
            settled.append((approval.subject, str(ruling.word), ruling.by.name))

        def lapse(self, conn, approval, now):
            settled.append((approval.subject, "expired", None))

    async with make({"main/ask": [says("hi")]}) as world:
        await world.say("Hi", "ask")
        parts = world.runtime.parts
        parts.desk.kinds[ApprovalKind.SUBTASK] = Release()
        question = Question(
            session_id=world.session, kind=ApprovalKind.SUBTASK, subject="Release 1.0", details={},
            reason="because", digest="sha256:1",
        )  # fmt: skip
        opened = await parts.store.write(parts.desk.open, question, world.clock())
        decision = HitlDecision(approval_id=opened.id, decision="approve")
        await world.runtime.decide(world.ann, decision)

        assert settled == [("Release 1.0", "approve", "ann")]
        with pytest.raises(AlreadyDecided):
            await world.runtime.decide(
                world.ann, HitlDecision(approval_id=opened.id, decision="reject")
            )
        assert of(await world.log(), "approval_resolved", status="approved")


async def test_of_answers_in_one_message_a_refused_one_leaves_nothing_behind(make):
    class Release:
        def settle(self, conn, approval, ruling, now):
            log.tell(conn, approval.session_id, now, AssistantMessage(content=approval.subject))
            set_session(conn, approval.session_id, title=approval.subject)
            if approval.subject == "bad":
                raise Conflict("not now")

        def lapse(self, conn, approval, now): ...

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
            opened[subject] = await parts.store.write(parts.desk.open, question, world.clock())
        decisions = [HitlDecision(approval_id=a.id, decision="approve") for a in opened.values()]
        good, bad = await world.runtime.decide_many(world.ann, decisions)

        assert (good.outcome, str(bad)) == ("decided", "not now")
        assert [a.approval_id for a in await world.pending()] == [opened["bad"].id]
        session = await world.runtime.session(world.ann, world.session)
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
