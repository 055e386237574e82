"""A question that nobody answers: people are warned, it expires, and that is no rejection."""

import pytest

from fakes.world import calls, kinds, of, on_both, plan, says, step, write
from gonogo.domain.errors import AlreadyDecided, Expired

CODER = {"main/coder": [calls(write("a.txt")), says("Nobody answered")]}


@on_both
@pytest.mark.feature(84, 85, 209)
async def test_a_call_expires_after_a_warning_and_the_model_is_told_so(make):
    async with make(CODER, approval_expiry_tool=3600, approval_warning=600) as world:
        events = await world.say("Write", "coder")
        [question] = await world.pending()
        assert events[-1]["metadata"]["expires_at"]
        assert question.expires_at is not None
        await world.later(3001)
        warned = await world.until("approval_warning")
        assert warned["metadata"]["approval_id"] == question.approval_id
        assert len(await world.pending()) == 1
        await world.later(600)
        await world.until("assistant_message", content="Nobody answered")

        log = await world.log()
        resolved = of(log, "approval_resolved")[0]["metadata"]
        assert resolved["status"] == "expired"
        assert "decided_by" not in resolved
        rejected = of(log, "tool_rejected")[0]["metadata"]
        assert rejected == {"decision": "expired", "source": "expiry"}
        result = of(log, "tool_result")[0]
        assert result["metadata"]["status"] == "expired"
        [told] = [m.content for m in world.model.requests[-1].messages if m.role == "tool"]
        assert told.startswith("expired: The request expired")
        assert "It was not rejected" in told
        assert (await world.audit("tool.expired"))[0].actor == "gonogo"
        found = await world.runtime.approvals.get(world.ann, question.approval_id)
        assert (found.status, found.decided_by) == ("expired", None)
        assert await world.pending() == []
        assert world.read("a.txt") is None


@pytest.mark.feature(84, 209)
async def test_an_answer_after_the_expiry_is_refused_although_no_timer_fired(make):
    async with make(CODER, approval_expiry_tool=3600) as world:
        await world.say("Write", "coder")
        [question] = await world.pending()
        world.clock.ahead += world.clock.ahead.__class__(hours=2)
        with pytest.raises(Expired):
            await world.decide(question.call_id)

        await world.until("assistant_message", content="Nobody answered")
        assert world.read("a.txt") is None
        with pytest.raises(Expired):
            await world.decide(question.call_id)


@pytest.mark.feature(84)
async def test_a_question_expires_while_nothing_runs(make):
    async with make(CODER, approval_expiry_tool=3600) as world:
        await world.say("Write", "coder")
        await world.stop()
        world.clock.ahead += world.clock.ahead.__class__(hours=2)
        await world.start()
        await world.until("assistant_message", content="Nobody answered")

        assert kinds(await world.log()).count("tool_result") == 1


@pytest.mark.feature(84)
async def test_questions_may_wait_for_ever(make):
    async with make(CODER, approval_expiry_action="keep_waiting") as world:
        await world.say("Write", "coder")
        [question] = await world.pending()
        assert question.expires_at is None


@pytest.mark.feature(25, 209)
@pytest.mark.parametrize(
    ("task", "text"),
    [
        (
            "Build",
            "The plan expired: nobody decided in time, and nothing was run. To get a new "
            "plan, send your request again.",
        ),
        (
            "Собери",
            "Срок плана истёк: решение не приняли вовремя, ничего не выполнено. Чтобы "
            "получить новый план, отправьте запрос ещё раз.",
        ),
    ],
)
async def test_a_plan_expires_with_a_notice(make, task, text):
    lines = {"main/architect": [plan(step("a"))], "main/orchestrator": [says("Yes?")]}
    async with make(lines, approval_expiry_plan=3600) as world:
        plan_id = await world.propose(task)
        await world.later(3000)
        await world.until("approval_warning")
        await world.later(601)
        notice = await world.until("assistant_message", content=text)

        assert notice["is_final"] is True
        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "expired"
        assert of(await world.log(), "approval_resolved")[0]["metadata"]["status"] == "expired"
        with pytest.raises(Expired):
            await world.decide_plan(plan_id)
        session = await world.runtime.sessions.get(world.ann, world.session)
        assert (session.agent, session.active_plan_id) == ("orchestrator", None)
        assert (await world.say("So?"))[-1]["content"] == "Yes?"


@pytest.mark.feature(84)
async def test_an_expired_question_of_a_subtask_lets_the_plan_end(make):
    lines = {
        "main/architect": [plan(step("a", scope={"tools": ["read_file"]}))],
        "a": [calls(write("a.txt")), says("without it")],
    }
    async with make(lines, approval_expiry_tool=3600) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        await world.later(3601)
        ended = await world.until("plan_completed")

        assert ended["metadata"]["status"] == "completed"
        assert world.read("a.txt") is None


@pytest.mark.feature(84, 85)
async def test_an_operator_may_have_expiry_count_as_a_rejection(make):
    async with make(
        CODER, approval_expiry_tool=3600, approval_expiry_action="reject"
    ) as world:  # fmt: skip
        await world.say("Write", "coder")
        [question] = await world.pending()
        await world.later(3601)
        await world.until("assistant_message", content="Nobody answered")

        log = await world.log()
        assert of(log, "approval_resolved")[0]["metadata"]["status"] == "rejected"
        facts = of(log, "tool_rejected")[0]["metadata"]
        assert (facts["source"], facts["decided_by"]) == ("expiry", "gonogo")
        [told] = [m.content for m in world.model.requests[-1].messages if m.role == "tool"]
        assert "nobody decided in time" in told
        assert world.read("a.txt") is None
        with pytest.raises(AlreadyDecided, match="by gonogo"):
            await world.decide(question.call_id)
