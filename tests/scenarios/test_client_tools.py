"""Sessions whose tools a client carries out: each call has exactly one accepted result."""

import logging

import pytest
from sqlalchemy import update

from fakes.world import call, calls, of, plan, run, says, step, write
from gonogo.domain.errors import AlreadyDecided, Conflict, Forbidden, NotFound
from gonogo.domain.identity import Role
from gonogo.domain.states import CallStatus
from gonogo.store.schema import tool_calls

READ = {"main/coder": [calls(call("read_file", path="a.txt")), says("Read")]}
WRITE = {"main/coder": [calls(write("a.txt")), says("Answered")]}


async def opened(world, host="client"):
    """Open a session whose tools the client (or the server) carries out."""
    found = await world.runtime.sessions.open(world.ann, tool_host=host)
    world.session = found.session_id


async def begun(world):
    """Say something and wait until a tool is called. Gives the event and the turn's receipt."""
    receipt = await world.send(
        {"type": "user_message", "content": "Go", "agent_type": "coder"}
    )  # fmt: skip
    return await world.until("tool_call"), receipt


def result(call_id, **outcome):
    """A client's result of a call."""
    return {"type": "tool_result", "call_id": call_id, **outcome}


async def test_a_call_that_needs_no_approval_waits_for_the_clients_result(make):
    async with make(READ) as world:
        await opened(world)
        called, receipt = await begun(world)
        assert called["requires_approval"] is False
        await world.idle()
        events = await world.ask(result(called["call_id"], result={"content": "mine"}))

        assert of(events, "tool_result")[0]["result"] == {"content": "mine"}
        assert events[-1]["content"] == "Read"
        assert (await world.answer(receipt))[-1]["content"] == "Read"
        [entry] = await world.audit("tool.allowed")
        assert entry.details["rule"] == "default:pure"


@pytest.mark.feature(76)
async def test_the_first_result_is_the_only_one(make):
    async with make(READ) as world:
        await opened(world)
        called, _ = await begun(world)
        await world.ask(result(called["call_id"], result=1))
        with pytest.raises(Conflict, match="already has a result"):
            await world.ask(result(called["call_id"], result=2))
        with pytest.raises(NotFound):
            await world.ask(result("call_x", result=2))

        [one] = of(await world.log(), "tool_result")
        assert one["result"] == 1


async def test_a_call_that_asks_takes_a_result_only_once_it_is_approved(make):
    async with make(WRITE) as world:
        await opened(world)
        await world.say("Go", "coder")
        [question] = await world.pending()
        with pytest.raises(Conflict, match="not approved"):
            await world.ask(result(question.call_id, result=1))
        decision = await world.send(
            {"type": "hitl_decision", "call_id": question.call_id, "decision": "approve"}
        )
        events = await world.ask(result(question.call_id, result={"done": True}))

        assert events[-1]["content"] == "Answered"
        assert (await world.answer(decision))[-1]["content"] == "Answered"
        assert world.read("a.txt") is None


async def test_calls_of_one_reply_are_asked_approved_and_answered_in_any_order(make):
    lines = {"main/coder": [calls(write("a"), call("list_files"), write("b")), says("All")]}
    async with make(lines) as world:
        await opened(world)
        receipt = await world.send(
            {"type": "user_message", "content": "Go", "agent_type": "coder"}
        )  # fmt: skip
        listed = await world.until("tool_call", tool_name="list_files")
        await world.until("approval_requested")
        await world.idle()
        first, second = await world.pending()
        await world.send({"type": "hitl_decision", "call_id": second.call_id, "decision": "reject"})
        events = await world.ask(result(listed["call_id"], result=[]))
        assert events[-1]["is_final"] is True
        await world.restart()
        await world.send({"type": "hitl_decision", "call_id": first.call_id, "decision": "approve"})
        events = await world.ask(result(first.call_id, error="disk full"))

        assert events[-1]["content"] == "All"
        told = [m.content for m in world.model.requests[-1].messages if m.role == "tool"]
        assert told[0] == "disk full"
        assert len(told) == 3
        assert (await world.answer(receipt))[-1]["is_final"] is True


async def test_a_subtask_of_a_client_session_parks_and_goes_on(make):
    lines = {
        "main/architect": [plan(step("a", scope={"tools": ["read_file"]}))],
        "a": [calls(call("read_file", path="x"), write("y")), says("ok")],
    }
    async with make(lines) as world:
        await opened(world)
        content = (await world.say("Go", "architect"))[-1]
        assert "no checkpoints" in content["content"]
        await world.send({
            "type": "plan_decision", "plan_id": content["metadata"]["plan_id"],
            "decision": "approve",
        })  # fmt: skip
        called = await world.until("tool_call", tool_name="read_file")
        await world.until("approval_requested", kind="tool")
        events = await world.ask(result(called["call_id"], result="x"))
        assert events[-1]["is_final"] is True
        [question] = await world.pending()
        await world.send(
            {"type": "hitl_decision", "call_id": question.call_id, "decision": "approve"}
        )
        events = await world.ask(result(question.call_id, result="y"))
        assert events[-1]["type"] == "plan_completed"
        assert events[-1]["metadata"]["status"] == "completed"


async def test_a_result_is_refused_from_elsewhere(make):
    async with make(READ) as world:
        await opened(world)
        await world.runtime.claim_tool_host(world.ann, world.session, "one")
        with pytest.raises(Conflict):
            await world.runtime.claim_tool_host(world.ann, world.session, "two")
        called, _ = await begun(world)
        with pytest.raises(Conflict, match="Another connection"):
            await world.ask(result(called["call_id"], result=1), connection="two")
        with pytest.raises(NotFound):
            await world.ask(result(called["call_id"], result=1), by=world.bob)
        other = await world.runtime.sessions.open(world.ann, tool_host="client")
        with pytest.raises(NotFound):
            await world.ask(result(called["call_id"], result=1), session=other.session_id)
        await world.runtime.release_tool_host("one")
        await world.runtime.claim_tool_host(world.ann, world.session, "two")
        events = await world.ask(result(called["call_id"], result=1), connection="two")
        assert events[-1]["content"] == "Read"


async def test_a_result_for_a_call_of_the_server_is_refused(make):
    async with make(WRITE) as world:
        await world.say("Go", "coder")
        [question] = await world.pending()
        with pytest.raises(Conflict):
            await world.ask(result(question.call_id, result=1))
        await world.decide(question.call_id)
        with pytest.raises(Conflict):
            await world.ask(result(question.call_id, result=1))
        assert world.read("a.txt") == "made\n"


async def test_a_client_that_went_away_leaves_an_unknown_outcome_and_a_question(make):
    lines = {"main/coder": [calls(run("make it")), says("I see")]}
    async with make(lines) as world:
        await opened(world)
        await world.say("Go", "coder")
        [question] = await world.pending()
        decision = await world.send(
            {"type": "hitl_decision", "call_id": question.call_id, "decision": "approve"}
        )
        await world.later(3600)
        asked = await world.until("approval_requested", kind="intervention")
        assert (await world.answer(decision))[-1]["is_final"] is True
        assert of(await world.log(), "tool_result")[0]["metadata"]["status"] == "unknown"
        with pytest.raises(Conflict):
            await world.ask(result(question.call_id, result=1))
        events = await world.ask({
            "type": "hitl_decision", "approval_id": asked["metadata"]["approval_id"],
            "decision": "edit", "modified_arguments": {"result": {"exit_code": 0}},
        })  # fmt: skip
        assert events[-1]["content"] == "I see"
        doubt, settled = of(await world.log(), "tool_result")
        assert "resolution" not in doubt["metadata"]
        assert settled["call_id"] == doubt["call_id"]
        assert (settled["metadata"]["status"], settled["metadata"]["resolution"]) == (
            "completed", True,
        )  # fmt: skip


@pytest.mark.feature(81)
@pytest.mark.parametrize("error", ["User rejected: too risky", "Операция отклонена: too risky"])
@pytest.mark.parametrize("host", ["client", "server"])
async def test_older_clients_reject_by_text_with_a_warning_in_the_log(make, error, host, caplog):
    async with make(WRITE) as world:
        await opened(world, host)
        await world.say("Go", "coder")
        [question] = await world.pending()
        with caplog.at_level(logging.WARNING):
            events = await world.ask(result(question.call_id, error=error))

        assert of(events, "tool_rejected")[0]["metadata"]["feedback"] == "too risky"
        assert events[-1]["content"] == "Answered"
        found = await world.runtime.approvals.get(world.ann, question.approval_id)
        assert (found.status, found.feedback) == ("rejected", "too risky")
        assert "deprecated" in caplog.text
        with pytest.raises(AlreadyDecided):
            await world.decide(question.call_id)


@pytest.mark.feature(82)
async def test_in_strict_mode_text_rejects_nothing(make):
    async with make(WRITE, legacy_text_rejection=False) as world:
        await opened(world)
        await world.say("Go", "coder")
        [question] = await world.pending()
        before = await world.log()
        with pytest.raises(Conflict, match="not approved"):
            await world.ask(result(question.call_id, error="User rejected: no"))

        assert await world.log() == before
        assert len(await world.pending()) == 1


async def put_into(world, call_id, status):
    """Have a call stand where it would be only for a moment, or after a longer story."""
    statement = update(tool_calls).where(tool_calls.c.id == call_id).values(status=status)
    await world.runtime.parts.store.write(lambda tx: tx.execute(statement))


@pytest.mark.feature(72, 81, 82)
@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("host", ["client", "server"])
async def test_text_rejects_only_what_waits_for_approval_whatever_else_becomes_of_a_call(
    make, host, legacy
):
    async with make(WRITE, legacy_text_rejection=legacy) as world:
        await opened(world, host)
        await world.say("Go", "coder")
        [question] = await world.pending()
        before = await world.log()
        waits, taken = CallStatus.AWAITING_APPROVAL, (CallStatus.STARTED, "client")
        for status in CallStatus:
            if status is waits or (status, host) == taken:
                continue
            await put_into(world, question.call_id, status)
            for error in ("User rejected: no", "Операция отклонена: нет"):
                with pytest.raises(Conflict):
                    await world.ask(result(question.call_id, error=error))
        await put_into(world, question.call_id, waits)

        assert await world.log() == before
        assert await world.audit("tool.rejected") == []
        events = await world.decide(question.call_id, "reject")
        assert events[-1]["content"] == "Answered"


@pytest.mark.feature(81)
@pytest.mark.parametrize("outcome", [
    {"error": "user rejected: no"}, {"error": " User rejected: no"}, {"error": "Rejected by user"},
    {"error": "the User rejected it"}, {"error": "операция отклонена"}, {"error": ""},
    {"error": "User approved"}, {"result": "User rejected: no"},
    {"result": {"error": "Операция отклонена"}},
])  # fmt: skip
@pytest.mark.parametrize("host", ["client", "server"])
async def test_no_other_text_rejects_a_call_that_waits(make, host, outcome):
    async with make(WRITE) as world:
        await opened(world, host)
        await world.say("Go", "coder")
        [question] = await world.pending()
        before = await world.log()
        with pytest.raises(Conflict, match="not approved"):
            await world.ask(result(question.call_id, **outcome))

        assert await world.log() == before
        assert [each.call_id for each in await world.pending()] == [question.call_id]


@pytest.mark.feature(81)
async def test_a_stranger_and_a_viewer_reject_nothing_by_text(make):
    async with make(WRITE) as world:
        await world.say("Go", "coder")
        [question] = await world.pending()
        before = await world.log()
        viewer = world.ann.model_copy(update={"role": Role.VIEWER})
        for who, refusal in ((world.bob, NotFound), (viewer, Forbidden)):
            with pytest.raises(refusal):
                await world.ask(result(question.call_id, error="User rejected: x"), by=who)

        assert await world.log() == before
        assert len(await world.pending()) == 1


@pytest.mark.feature(72)
@pytest.mark.parametrize("error", ["User rejected: x", "Операция отклонена"])
async def test_the_error_of_a_running_call_is_an_error_whatever_it_says(make, error):
    async with make(READ) as world:
        await opened(world)
        called, _ = await begun(world)
        events = await world.ask(result(called["call_id"], error=error))

        ended = of(events, "tool_result")[0]
        assert (ended["error"], ended["metadata"]["status"]) == (error, "failed")
        assert not of(events, "tool_rejected")
        assert await world.audit("tool.rejected") == []


@pytest.mark.feature(202)
async def test_a_client_is_not_told_to_run_what_is_denied_or_dropped(make):
    ending = call("attempt_completion", result="ok")
    lines = {
        "main/architect": [plan(step("a"))],
        "a": [calls(write(".git/config"), write("../x"), ending, call("switch_mode", mode="ask"))],
    }
    async with make(lines) as world:
        await opened(world)
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id)

        assert events[-1]["type"] == "plan_completed"
        called = of(events, "tool_call")
        assert len(called) == 4
        for event in called:
            runs = event["requires_approval"] is False
            assert not runs or event["tool_name"] == "attempt_completion"
        assert {e["call_id"] for e in of(events, "tool_result")} == {e["call_id"] for e in called}


async def test_who_plans_anew_reads_the_files_of_the_client(make):
    lost = call("attempt_completion", result="Agent x not found", success=False)
    lines = {
        "main/architect": [plan(step("a"))],
        "a": [calls(lost)],
        "replan-1": [calls(call("read_file", path="x")), plan(step("b"))],
    }
    async with make(lines) as world:
        await opened(world)
        plan_id = await world.begin()
        called = await world.until("tool_call", tool_name="read_file")
        await world.ask(result(called["call_id"], result="what the client has"))
        await world.until("plan_notification", revision=2)

        [told] = [m.content for m in world.model.asked("replan-1")[-1].messages if m.role == "tool"]
        assert told == '"what the client has"'
        assert (await world.runtime.plans.get(world.ann, plan_id)).revision == 2
