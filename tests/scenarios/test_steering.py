"""Steering: what a person says to an agent at work comes before its next request, once, in order,
and nothing else changes. No conversation ends with words that its agent has not heard."""

from contextlib import suppress

import anyio
import pytest

from fakes.door import client_of
from fakes.world import call, calls, kinds, of, on_both, plan, says, step, write
from gonogo.domain.errors import Conflict, Forbidden, InvalidMessage, NotFound, RateLimited
from gonogo.domain.identity import Principal, Role
from gonogo.execution.agent.inbox import MOST_UNHEARD

pytestmark = pytest.mark.measured

EVE = Principal(id="user:eve", name="eve", role=Role.OPERATOR)
LOOKER = Principal(id="user:ann", name="ann", role=Role.VIEWER)
DONE = call("attempt_completion", result="a is done")
ONE = (step("a"),)
KEPT = says("")
"""In the place of what a call said that ended a subtask: that is kept as a reply, too."""
BY_HAND = {"auto_approve_tools": False}


def script(*a, subtasks=ONE, **threads):
    return {
        "main/architect": [plan(*subtasks)], "main/orchestrator": [says("Yes?")], "a": [*a],
        **threads,
    }  # fmt: skip


async def steer(world, plan_id, content, subtask="a", by=None):
    who = by or world.ann
    return await world.runtime.plans.steer_subtask(who, plan_id, subtask, content)


def heard(request):
    """The words of people that a request holds, in order."""
    told = "A person says this to you while you work. Follow it from now on; it permits nothing new"
    said = [m.content for m in request.messages if m.role == "user"]
    return [content.partition("\n\n")[2] for content in said if content.startswith(told)]


async def subtask_of(world, plan_id, key="a"):
    found = (await world.runtime.plans.get(world.ann, plan_id)).subtasks
    return next(each for each in found if each.id == key)


async def at_work(world, thread="a", number=1):
    """Begin the plan and wait for a request, whose reply is held. Gives the plan and its gate."""
    gate = world.model.hold(thread, number)
    plan_id = await world.begin()
    await world.asked_model(thread, number)
    return plan_id, gate


# Subtasks ---------------------------------------------------------------------------------------


@pytest.mark.feature(232)
@on_both
async def test_words_to_a_running_subtask_come_before_its_next_request_and_change_nothing_else(
    make,
):
    lines = script(calls(call("list_files")), calls(call("list_files")), says("a is done"))
    async with make(lines) as world:
        plan_id, gate = await at_work(world)
        before = await world.runtime.plans.get(world.ann, plan_id)
        grants = await world.runtime.plans.grants(world.ann)
        told = await steer(world, plan_id, "Mind the tests.")
        assert told == before
        assert await world.runtime.plans.grants(world.ann) == grants
        gate.set()
        await world.until("plan_completed", status="completed")

        first, second, third = world.model.asked("a")
        assert [heard(each) for each in (first, second, third)] == [
            [], ["Mind the tests."], ["Mind the tests."],
        ]  # fmt: skip
        # After the reply that did not know of it, and the results of its calls.
        assert [m.role for m in second.messages] == ["user", "assistant", "tool", "user"]
        for earlier, later in ((first, second), (second, third)):
            assert later.messages[: len(earlier.messages)] == earlier.messages
            assert (later.system, later.tools) == (earlier.system, earlier.tools)
        [event] = of(await world.log(), "steered")
        assert (event["plan_id"], event["subtask_id"], event["agent"]) == (plan_id, "a", "coder")
        assert event["metadata"] == {"author": "ann", "content": "Mind the tests."}
        assert event["content"] == "ann says to coder: Mind the tests."
        [entry] = await world.audit("agent.steered")
        assert (entry.actor, entry.subject) == ("user:ann", "coder")
        assert entry.details["content"] == "Mind the tests."
        assert entry.details["subtask_id"] == "a"
        assert (await subtask_of(world, plan_id)).attempt == 1


@pytest.mark.feature(232)
@pytest.mark.parametrize("last", [[says("a is done")], [calls(DONE), KEPT]], ids=["word", "call"])
async def test_a_subtask_does_not_end_before_its_agent_has_heard_what_was_said(make, last):
    async with make(script(*last, *last, says("Both now"))) as world:
        plan_id, gate = await at_work(world)
        again = world.model.hold("a", 2)
        for words in ("One more thing.", "And another."):
            await steer(world, plan_id, words)
        gate.set()
        await world.asked_model("a", 2)
        await steer(world, plan_id, "The last.")
        again.set()
        await world.until("plan_completed")

        requests = world.model.asked("a")
        assert heard(requests[1]) == ["One more thing.", "And another."]
        assert heard(requests[2]) == ["One more thing.", "And another.", "The last."]
        assert len(requests) == 3
        assert requests[2].messages[: len(requests[1].messages)] == requests[1].messages
        found = await subtask_of(world, plan_id)
        assert (found.status, found.attempt) == ("completed", 1)
        assert found.result["output"] == "Both now"
        log = await world.log()
        said = [each["content"] for each in of(log, "assistant_message", subtask_id="a")]
        assert said == ["a is done", "a is done", "Both now"]
        assert len(of(log, "subtask_completed")) == 1
        used = (await world.runtime.plans.status(world.ann, plan_id)).usage
        assert used.requests == 3


async def test_a_decision_is_made_anew_with_what_was_said(make):
    choice = {"id": "a", "description": "Choose", "type": "decision"}
    first, last = (
        calls(call("give_decision", options=["x", "y"], choice=each, reasoning=each))
        for each in "xy"
    )
    async with make(script(first, KEPT, last, subtasks=[choice])) as world:
        plan_id, gate = await at_work(world)
        await steer(world, plan_id, "Rather y.")
        gate.set()
        await world.until("plan_completed")
        assert (await subtask_of(world, plan_id)).result["output"] == "y"
        assert of(await world.log(), "steered")[0]["agent"] == "model"


@pytest.mark.parametrize(
    "gives_up",
    [[calls(call("attempt_completion", result="I cannot", success=False)), KEPT], [says("Done.")]],
    ids=["says so", "did nothing"],
)
async def test_an_agent_that_gives_up_is_not_failed_before_it_has_heard_what_was_said(
    make, gives_up
):
    one = step("a", scope={"paths": ["new.txt"]})
    made = [calls(write("new.txt")), says("Written.")]
    async with make(script(*gives_up, *made, subtasks=[one])) as world:
        plan_id, gate = await at_work(world)
        await steer(world, plan_id, "It goes into new.txt.")
        gate.set()
        await world.until("plan_completed", status="completed")
        found = await subtask_of(world, plan_id)
        assert (found.status, found.attempt, world.read("new.txt")) == ("completed", 1, "made\n")
        assert not of(await world.log(), "subtask_retrying")


async def test_what_was_begun_before_somebody_spoke_is_still_one_answer(make):
    cut = {"text": "The sum is fo", "cut": True}
    async with make(script(cut, says("rty-two."))) as world:
        plan_id, gate = await at_work(world)
        await steer(world, plan_id, "In words.")
        gate.set()
        await world.until("plan_completed")
        assert heard(world.model.asked("a")[1]) == ["In words."]
        assert (await subtask_of(world, plan_id)).result["output"] == "The sum is forty-two."


@pytest.mark.feature(232)
async def test_a_subtask_that_waits_for_an_answer_hears_it_before_its_next_request(make):
    async with make(script(calls(write("a.txt")), says("a is done"))) as world:
        plan_id = await world.propose()
        await world.send({
            "type": "plan_decision", "plan_id": plan_id, "decision": "approve", **BY_HAND
        })  # fmt: skip
        asked = await world.until("approval_requested", kind="tool")
        await steer(world, plan_id, "Then stop.")
        assert (await subtask_of(world, plan_id)).status == "waiting_approval"
        [question] = await world.pending()
        assert question.approval_id == asked["metadata"]["approval_id"]
        await world.decide(question.call_id)
        assert heard(world.model.asked("a")[1]) == ["Then stop."]
        assert (await subtask_of(world, plan_id)).status == "completed"


@pytest.mark.feature(232)
@on_both
async def test_words_survive_the_end_of_the_process_and_are_heard_once(make):
    async with make(script(calls(call("list_files")), says("a is done"))) as world:
        plan_id, _ = await at_work(world)
        await steer(world, plan_id, "Mind the tests.")
        await world.restart()
        await world.until("plan_completed")
        assert [heard(each) for each in world.model.asked("a")] == [["Mind the tests."]] * 2
        assert len(of(await world.log(), "steered")) == 1


async def test_what_was_said_is_kept_over_an_end_that_was_none(make):
    async with make(script(says("a is done"), says("Better now"))) as world:
        plan_id, gate = await at_work(world)
        again = world.model.hold("a", 2)
        await steer(world, plan_id, "Not yet.")
        gate.set()
        await world.asked_model("a", 2)
        await world.restart()
        await world.until("plan_completed")
        assert not again.is_set()
        [request] = world.model.asked("a")
        assert [m.role for m in request.messages] == ["user", "assistant", "user"]
        assert (await subtask_of(world, plan_id)).result["output"] == "Better now"


@pytest.mark.feature(232)
async def test_a_new_attempt_is_told_what_people_said_to_the_one_before(make):
    lines = script(
        calls(call("list_files")), {"text": ""}, {"text": ""},
        subtasks=[step("a", retry_policy={"max_attempts": 1}), step("b")], b=[says("b is done")],
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, gate = await at_work(world)
        await steer(world, plan_id, "Mind the tests.")
        gate.set()
        await world.until("plan_completed")
        assert (await subtask_of(world, plan_id)).status == "failed"
        world.lines["a"][:] = [says("a is done")]
        after = len(await world.log())
        await world.runtime.plans.retry_subtask(world.ann, plan_id, "a")
        await world.until("plan_completed", after=after)

        last = world.model.asked("a")[-1]
        [told] = last.messages
        assert "What people said to earlier attempts" in told.content
        assert "Mind the tests." in told.content
        assert "Mind the tests." not in world.model.asked("b")[0].messages[0].content
        assert (await subtask_of(world, plan_id)).status == "completed"


@on_both
async def test_whoever_comes_first_no_words_that_were_taken_are_lost(make):
    keys = [f"s{number}" for number in range(6)]
    lines = script(
        subtasks=[step(key) for key in keys], **{key: [says("One"), says("Two")] for key in keys}
    )
    async with make(lines, max_parallel=len(keys)) as world:
        gates = {key: world.model.hold(key) for key in keys}
        plan_id = await world.begin()
        for key in keys:
            await world.asked_model(key)
        taken: set[str] = set()

        async def speak(key):
            with suppress(Conflict):
                await steer(world, plan_id, "Wait!", subtask=key)
                taken.add(key)

        async with anyio.create_task_group() as group:
            for key in keys:
                gates[key].set()
                group.start_soon(speak, key)
        await world.until("plan_completed", status="completed")
        for key in keys:
            last = world.model.asked(key)[-1]
            assert heard(last) == (["Wait!"] if key in taken else [])


# Turns ------------------------------------------------------------------------------------------


@pytest.mark.feature(232)
@pytest.mark.parametrize(
    "last", [says("It is so."), calls(call("attempt_completion", result="It is so."))]
)
async def test_a_turn_does_not_end_before_its_agent_has_heard_what_was_said(make, last):
    async with make({"main/ask": [last, says("So it is."), says("Hello.")]}) as world:
        gate = world.model.hold("main")
        await world.send({"type": "user_message", "content": "Is it?", "agent_type": "ask"})
        await world.asked_model("main")
        receipt = await world.send({"type": "steer", "content": "Be brief."})
        gate.set()
        events = await world.answer(receipt)
        assert (events[-1]["content"], events[-1]["is_final"]) == ("So it is.", True)
        assert [heard(each) for each in world.model.asked("main")] == [[], ["Be brief."]]
        [event] = of(await world.log(), "steered")
        assert (event["turn_id"], event["agent"]) == (receipt.turn_id, "ask")
        assert len([e for e in await world.log() if e.get("is_final")]) == 1

        await world.say("And now?", "ask")
        assert heard(world.model.asked("main")[-1]) == ["Be brief."]
        assert [m.role for m in world.model.asked("main")[-1].messages][-1] == "user"


async def test_a_plan_is_not_proposed_before_its_architect_has_heard_what_was_said(make):
    async with make({"main/architect": [plan(step("a")), plan(step("b"))]}) as world:
        gate = world.model.hold("main")
        await world.send({"type": "user_message", "content": "Go", "agent_type": "architect"})
        await world.asked_model("main")
        await world.send({"type": "steer", "content": "Call it b."})
        gate.set()
        event = await world.until("plan_notification")
        assert [each["id"] for each in event["metadata"]["subtasks"]] == ["b"]
        [refused] = of(await world.log(), "tool_result", status="failed")
        assert refused["error"].startswith("not_heard: ")


async def test_words_to_a_turn_that_asked_something_come_with_the_answer(make):
    question = calls(call("ask_followup_question", question="Which one?"))
    async with make({"main/ask": [question, says("Good.")]}) as world:
        await world.say("Look", "ask")
        await world.send({"type": "steer", "content": "Be brief."})
        assert len(world.model.asked("main")) == 1
        await world.say("The first")
        assert heard(world.model.asked("main")[1]) == ["Be brief."]


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.feature(232)
async def test_who_is_not_at_work_hears_nothing_and_the_refusal_says_what_to_do(make):
    tool = {"id": "t", "description": "List", "tool": "list_files", "inputs": {"path": "."}}
    lines = script(
        says("a is done"), subtasks=[step("a"), step("b"), step("c", "b"), tool],
        b=[says("b is done")], c=[says("c is done")],
    )  # fmt: skip
    async with make(lines) as world:
        plan_id, gate = await at_work(world, "b")
        await world.until("subtask_completed", subtask_id="a")
        await world.until("subtask_completed", subtask_id="t")
        events = len(await world.log())
        said = {
            "a": "is completed, so no agent can read your message; retry the subtask, or",
            "c": "has not started; send your message when it is running",
        }
        for key, why in said.items():
            with pytest.raises(Conflict, match=f"Subtask {key} {why}"):
                await steer(world, plan_id, "Hey", subtask=key)
        with pytest.raises(NotFound):
            await steer(world, plan_id, "Hey", subtask="zz")
        with pytest.raises(NotFound):
            await steer(world, plan_id, "Hey", subtask="b", by=EVE)
        with pytest.raises(Forbidden):
            await steer(world, plan_id, "Hey", subtask="b", by=LOOKER)
        with pytest.raises(InvalidMessage, match="it is empty"):
            await steer(world, plan_id, " \n", subtask="b")
        with pytest.raises(InvalidMessage, match="at most 4000 characters"):
            await steer(world, plan_id, "x" * 4_001, subtask="b")
        with pytest.raises(Conflict, match="No agent is answering now; send a message"):
            await world.send({"type": "steer", "content": "Hey"})
        with pytest.raises(NotFound):
            await world.send({"type": "steer", "content": "Hey", "turn_id": "turn_x"})
        assert len(await world.log()) == events
        assert await world.audit("agent.steered") == []
        gate.set()
        await world.until("plan_completed")
        with pytest.raises(Conflict, match="Subtask b is completed"):
            await steer(world, plan_id, "Hey", subtask="b")


async def test_a_subtask_that_is_one_call_has_nobody_who_listens(make):
    tool = {"id": "t", "description": "Write", "tool": "write_file", "inputs": {"path": "x",
            "content": "y"}, "scope": {"paths": ["z"]}}  # fmt: skip
    async with make(script(subtasks=[tool])) as world:
        plan_id = await world.begin()
        await world.until("approval_requested", kind="tool")
        with pytest.raises(Conflict, match="tool:write_file carries out subtask t and reads no"):
            await steer(world, plan_id, "Hey", subtask="t")


async def test_words_that_nobody_hears_yet_are_bounded(make):
    async with make(script(says("One"), says("Two"))) as world:
        plan_id, gate = await at_work(world)
        for number in range(MOST_UNHEARD):
            await steer(world, plan_id, f"{number}")
        with pytest.raises(RateLimited, match=f"The agent has {MOST_UNHEARD} messages to read"):
            await steer(world, plan_id, "Too much")
        gate.set()
        await world.until("plan_completed")
        assert heard(world.model.asked("a")[1]) == [f"{n}" for n in range(MOST_UNHEARD)]


async def test_words_to_a_turn_that_is_over_or_has_not_begun_are_refused(make):
    lines = {"main/ask": [says("One"), says("Two")]}
    async with make(lines) as world:
        gate = world.model.hold("main")
        first = await world.send({"type": "user_message", "content": "1", "agent_type": "ask"})
        await world.asked_model("main")
        later = await world.send({"type": "user_message", "content": "2", "agent_type": "ask"})
        steering = {"type": "steer", "content": "Hey"}
        with pytest.raises(Conflict, match=f"Turn {later.turn_id} is queued, so no agent can"):
            await world.send({**steering, "turn_id": later.turn_id})
        gate.set()
        await world.answer(later)
        with pytest.raises(Conflict, match=f"Turn {first.turn_id} is done, so no agent can"):
            await world.send({**steering, "turn_id": first.turn_id})
        assert "steered" not in kinds(await world.log())


async def test_a_message_names_a_turn_or_a_subtask_of_its_own_session(make):
    async with make(script(says("One"), says("Two"))) as world:
        plan_id, gate = await at_work(world)
        named = {"type": "steer", "content": "Hey", "plan_id": plan_id, "subtask_id": "a"}
        for wrong in ({"plan_id": None}, {"subtask_id": None}, {"turn_id": "turn_x"}):
            with pytest.raises(InvalidMessage):
                await world.send({**named, **wrong})
        other = (await world.runtime.sessions.open(world.ann)).session_id
        with pytest.raises(NotFound):
            await world.send(named, session=other)
        receipt = await world.send(named)
        gate.set()
        events = await world.answer(receipt)
        assert (kinds(events)[0], kinds(events)[-1]) == ("steered", "plan_completed")


# Doors ------------------------------------------------------------------------------------------


@pytest.mark.feature(232)
async def test_programs_say_it_over_http_once_for_each_key(make):
    lines = script(says("One"), says("Two")) | {"main/ask": [says("It is."), says("So.")]}
    async with make(lines) as world, client_of(world) as client:
        plan_id, gate = await at_work(world)
        path = f"/plans/{plan_id}/subtasks/a/steer"
        for _ in range(2):
            answer = await client._http.post(
                f"/api/v1{path}", json={"content": "Hey"}, headers={"Idempotency-Key": "k"}
            )
            assert (answer.status_code, answer.json()["plan_id"]) == (202, plan_id)
        assert (await client.steer_subtask(plan_id, "a", "And this")).status == "running"
        with pytest.raises(InvalidMessage):
            await client.steer_subtask(plan_id, "a", "x" * 4_001)
        gate.set()
        await world.until("plan_completed")
        assert heard(world.model.asked("a")[1]) == ["Hey", "And this"]
        with pytest.raises(
            Conflict, match="Subtask a is completed, so no agent can read your message"
        ):
            await client.steer_subtask(plan_id, "a", "Late")

        answered = len(world.model.asked("main"))
        gate = world.model.hold("main", answered + 1)
        receipt = await world.send(
            {"type": "user_message", "content": "Is it?", "agent_type": "ask"}
        )
        await world.asked_model("main", answered + 1)
        steered = await client.steer_turn(world.session, "Be brief.")
        assert steered.turn_id == receipt.turn_id
        await client.steer_turn(world.session, "Briefer.", turn_id=receipt.turn_id)
        gate.set()
        await world.answer(receipt)
        assert heard(world.model.asked("main")[-1])[-2:] == ["Be brief.", "Briefer."]
        with pytest.raises(Conflict, match="No agent is answering now"):
            await client.steer_turn(world.session, "Late")
