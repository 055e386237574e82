"""Messages, agents, questions and stops: what a user may say at any time, and what comes of it."""

import anyio
import pytest

from fakes.world import a_while, call, calls, is_running, kinds, of, plan, run, says, step, write
from gonogo.domain.errors import Conflict, InvalidMessage, NotFound
from gonogo.i18n import say


@pytest.mark.feature(18)
async def test_the_orchestrator_hands_over_and_answers_the_next_message_itself(make):
    lines = {
        "main/orchestrator": [
            calls(call("switch_mode", mode="ask", reason="a question", confidence="0.8")),
            says("At your service"),
        ],
        "main/ask": [says("It is blue")],
    }
    async with make(lines) as world:
        events = await world.say("What colour is it?")

        [there, back] = of(events, "agent_switched")
        assert there["metadata"] == {
            "from_agent": "orchestrator", "to_agent": "ask", "reason": "a question",
            "confidence": "0.8",
        }  # fmt: skip
        assert back["metadata"]["to_agent"] == "orchestrator"
        assert (events[-1]["content"], events[-1]["agent"]) == ("It is blue", "ask")
        assert [e for e in events if e.get("is_final")] == [events[-1]]
        assert (await world.say("Thanks"))[-1]["agent"] == "orchestrator"


async def test_a_switch_to_nobody_is_told_to_the_model(make):
    lines = {"main/orchestrator": [calls(call("switch_mode", mode="wizard")), says("Sorry")]}
    async with make(lines) as world:
        events = await world.say()

        assert of(events, "tool_result")[0]["error"].startswith("unknown_agent: ")
        assert events[-1]["content"] == "Sorry"


@pytest.mark.feature(2)
async def test_switch_agent_with_a_message_shows_the_switch_and_the_answer(make):
    async with make({"main/ask": [says("Here"), says("Still me")]}) as world:
        message = {"type": "switch_agent", "agent_type": "ask", "content": "Hi", "reason": "r"}
        events = await world.ask(message)

        [switched] = of(events, "agent_switched")
        assert (switched["metadata"]["to_agent"], switched["metadata"]["reason"]) == ("ask", "r")
        assert kinds(events)[0] == "session_info"
        assert events[-1]["content"] == "Here"
        assert [e for e in events if e.get("is_final")] == [events[-1]]
        assert (await world.say("You?"))[-1]["content"] == "Still me"


@pytest.mark.feature(2)
async def test_switch_agent_alone_ends_at_once(make):
    async with make({}) as world:
        events = await world.ask({"type": "switch_agent", "agent": "coder"})

        assert kinds(events) == ["session_info", "agent_switched"]
        assert events[-1]["is_final"] is True
        assert (await world.runtime.sessions.get(world.ann, world.session)).agent == "coder"


async def test_an_agent_that_does_not_exist_is_refused_and_opens_no_session(make):
    async with make({}) as world:
        with pytest.raises(InvalidMessage, match="wizard"):
            await world.say("Hi", "wizard")
        assert (await world.runtime.sessions.page(world.ann, 10, 0)).total == 0


async def test_a_message_of_blanks_is_answered(make):
    async with make({"main/orchestrator": [says("Yes?")]}) as world:
        assert (await world.say("  \n "))[-1]["content"] == "Yes?"


@pytest.mark.feature(14)
async def test_a_message_while_a_plan_runs_is_kept_and_answered_after_it(make):
    lines = {
        "main/architect": [plan(step("a"))], "a": [says("a")],
        "main/orchestrator": [says("Now I can")],
    }  # fmt: skip
    async with make(lines) as world:
        goes_on = world.model.hold("a")
        plan_id = await world.propose()
        receipt = await world.send(
            {"type": "plan_decision", "plan_id": plan_id, "decision": "approve"}
        )
        await world.until("subtask_started")
        events = await world.say("And this?")
        assert (
            events[-1]["content"]
            == "Message received. gonogo will answer it after the current work."
        )
        goes_on.set()
        assert (await world.answer(receipt))[-1]["type"] == "plan_completed"
        await world.until("assistant_message", content="Now I can")

        said = [m.content for m in await world.history("user") if m.subtask_id is None]
        assert said == ["Build it", "And this?"]


async def test_a_message_while_a_turn_runs_waits_for_its_turn(make):
    lines = {"main/orchestrator": [says("First"), says("Second")]}
    async with make(lines) as world:
        goes_on = world.model.hold("main")
        first = await world.send({"type": "user_message", "content": "One"})
        second = await world.send({"type": "user_message", "content": "Two"})
        goes_on.set()

        assert (await world.answer(second))[-1]["content"] == "Second"
        assert (await world.answer(first))[-1]["content"] == "First"
        log = await world.log()
        assert [e["content"] for e in of(log, "assistant_message")] == ["First", "Second"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Meanwhile", "Message received. gonogo will answer it after the current work."),
        ("Пока", "Сообщение получено. gonogo ответит на него после текущей работы."),
    ],
)
async def test_a_message_while_a_question_is_open_is_kept(make, content, text):
    lines = {
        "main/coder": [calls(write("a.txt")), says("Done")], "main/orchestrator": [says("Now")],
    }  # fmt: skip
    async with make(lines) as world:
        await world.say("Write", "coder")
        assert (await world.say(content))[-1]["content"] == text
        [question] = await world.pending()
        assert (await world.decide(question.call_id))[-1]["content"] == "Done"
        await world.until("assistant_message", content="Now")


@pytest.mark.feature(87)
async def test_a_question_to_the_user_is_answered_by_the_next_message(make):
    ask = call("ask_followup_question", question="Which colour?", suggestions=["red", "blue"])
    async with make({"main/ask": [calls(ask), says("Blue it is")]}) as world:
        events = await world.say("Paint it", "ask")
        assert (events[-1]["content"], events[-1]["is_final"]) == ("Which colour?", True)
        assert of(events, "tool_call")[0]["arguments"]["suggestions"] == ["red", "blue"]
        assert await world.pending() == []
        await world.restart()
        events = await world.say("Blue")

        assert of(events, "tool_result")[0]["result"] == {"answer": "Blue"}
        assert events[-1]["content"] == "Blue it is"
        [told] = [m for m in world.model.requests[-1].messages if m.role == "tool"]
        assert "Blue" in told.content


@pytest.mark.parametrize(
    ("decision", "more", "told"),
    [
        ("approve", {"feedback": "the left one"}, "the left one"),
        ("edit", {"modified_arguments": {"result": "the right one"}}, "the right one"),
        ("reject", {"feedback": "don't ask"}, "don't ask"),
    ],
)
async def test_a_question_of_a_subtask_is_an_intervention(make, decision, more, told):
    ask = call("ask_followup_question", question="Left or right?")
    lines = {"main/architect": [plan(step("a"))], "a": [calls(ask), says("I see")]}
    async with make(lines) as world:
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id)
        assert events[-1]["type"] == "approval_requested"
        assert events[-1]["metadata"]["kind"] == "intervention"
        [question] = await world.pending()
        assert question.details["question"] == "Left or right?"
        assert question.reason == "The agent coder asks (subtask a): Left or right?"
        await world.restart()
        message = {
            "type": "hitl_decision", "approval_id": question.approval_id, "decision": decision,
        }  # fmt: skip
        events = await world.ask(message | more)

        assert events[-1]["type"] == "plan_completed"
        answer = [m.content for m in world.model.requests[-1].messages if m.role == "tool"]
        assert len(answer) == 1
        assert told in answer[0]


async def test_cancel_stops_a_turn_and_its_command_at_once(make):
    mark = a_while()
    lines = {
        "main/coder": [calls(run(f"sleep {mark}")), says("Never")],
        "main/orchestrator": [says("Next")],
    }
    async with make(lines) as world:
        await world.say("Sleep", "coder")
        [question] = await world.pending()
        await world.send(
            {"type": "hitl_decision", "call_id": question.call_id, "decision": "approve"}
        )
        await is_running(mark)
        events = await world.ask({"type": "cancel"})
        await is_running(mark, False)

        assert events[-1]["content"] == "Stopped. Send another message to continue."
        assert events[-1]["is_final"] is True
        assert len(of(events, "tool_result")) == 1
        with pytest.raises(Conflict, match="Nothing is running"):
            await world.ask({"type": "cancel"})
        assert (await world.say("Again"))[-1]["content"] == "Next"
        await world.restart()
        await world.idle()
        assert await world.pending() == []


async def test_cancel_withdraws_what_a_turn_asks(make):
    lines = {"main/coder": [calls(write("a"), write("b")), says("Never")]}
    async with make(lines) as world:
        await world.say("Write", "coder")
        [first, _] = await world.pending()
        events = await world.ask({"type": "cancel"})

        assert len(of(events, "tool_result")) == 2
        assert events[-1]["content"] == "Stopped. Send another message to continue."
        assert await world.pending() == []
        with pytest.raises(Conflict):
            await world.decide(first.call_id)
        assert world.read("a") is None


async def test_cancel_of_a_kept_message_and_of_none(make):
    async with make({"main/orchestrator": [says("First")]}) as world:
        goes_on = world.model.hold("main")
        first = await world.send({"type": "user_message", "content": "One"})
        second = await world.send({"type": "user_message", "content": "Two"})
        await world.ask({"type": "cancel", "turn_id": second.turn_id})
        with pytest.raises(NotFound):
            await world.ask({"type": "cancel", "turn_id": "turn_x"})

        goes_on.set()
        assert (await world.answer(first))[-1]["content"] == "First"
        with pytest.raises(Conflict):
            await world.ask({"type": "cancel", "turn_id": first.turn_id})
        await world.idle()
        assert len(world.model.requests) == 1


@pytest.mark.feature(64)
async def test_a_model_that_fails_ends_the_turn_with_an_error(make):
    lines = {"main/orchestrator": [], "main/ask": [says("Fine")]}
    async with make(lines) as world:
        events = await world.say()

        assert events[-1]["type"] == "error"
        assert events[-1]["code"] == "model_error"
        assert events[-1]["is_final"] is True
        assert (await world.say("Hi", "ask"))[-1]["content"] == "Fine"


async def test_a_defect_ends_the_turn_and_says_what_to_look_for_in_the_log(make, monkeypatch):
    async def broken(*_):
        raise ZeroDivisionError

    async with make({"main/ask": [says("Fine")]}) as world:
        with monkeypatch.context() as patched:
            patched.setattr(type(world.model), "request", broken)
            [*_, ended] = await world.say("Hi", "ask")

        assert (ended["code"], ended["is_final"]) == ("internal", True)
        assert ended["error"].startswith("gonogo hit an internal error.")
        assert "turn_" in ended["error"]
        assert "ZeroDivision" not in str(ended)
        assert (await world.say("Hi", "ask"))[-1]["content"] == "Fine"


async def test_a_turn_that_finds_no_end_is_stopped(make):
    lines = {"main/ask": [calls(call("list_files"))] * 9}
    async with make(lines, max_steps=4) as world:
        events = await world.say("Go", "ask")

        assert events[-1]["type"] == "error"
        assert "Stopped after 4 steps" in events[-1]["error"]
        assert len(world.model.requests) == 4


async def test_a_deleted_session_is_gone_and_nothing_of_it_runs(make):
    lines = {"main/architect": [plan(step("a"))], "a": [says("x", delay=30)]}
    async with make(lines) as world:
        plan_id = await world.begin()
        await world.until("subtask_started")
        await world.runtime.sessions.delete(world.ann, world.session)
        await world.idle()

        for attempt in (world.say("Hi"), world.pending(), world.decide_plan(plan_id)):
            with pytest.raises(NotFound):
                await attempt
        with pytest.raises(Conflict):
            await world.runtime.sessions.open(world.ann, session_id=world.session)
        await world.restart()
        await world.idle()


async def test_strangers_see_nothing_of_a_session(make):
    lines = {"main/coder": [calls(write("a"))], "main/architect": [plan(step("a"))]}
    async with make(lines) as world:
        await world.say("Write", "coder")
        [question] = await world.pending()
        bob, runtime = world.bob, world.runtime
        for attempt in (
            runtime.sessions.get(bob, world.session),
            runtime.sessions.history(bob, world.session),
            runtime.sessions.pending(bob, world.session),
            runtime.approvals.get(bob, question.approval_id),
            runtime.sessions.edit(bob, world.session, title="mine"),
            runtime.sessions.delete(bob, world.session),
            world.decide(question.call_id, by=bob),
            world.say("Hi", by=bob),
            world.ask({"type": "cancel"}, by=bob),
            world.ask({"type": "tool_result", "call_id": question.call_id, "result": 1}, by=bob),
        ):
            with pytest.raises(NotFound):
                await attempt
        with pytest.raises(NotFound):
            async with runtime.streams.follow(bob, world.session, 0):
                pass
        assert (await runtime.approvals.page(bob)).count == 0
        assert (await runtime.plans.page(bob)).total == 0
        assert (await runtime.sessions.page(bob, 10, 0)).total == 0
        assert await runtime.plans.grants(bob) == []
        assert await runtime.audit.entries(bob, world.session) == []
        assert len(await world.pending()) == 1


@pytest.mark.feature(217)
@pytest.mark.parametrize(
    ("locale", "task", "text"),
    [
        (None, "Build", "Plan approved. Starting 1 subtask..."),
        (None, "Собери", "План подтвержден. Начинаю выполнение 1 подзадачи..."),
        ("ru", "Build", "План подтвержден. Начинаю выполнение 1 подзадачи..."),
        ("en", "Собери", "Plan approved. Starting 1 subtask..."),
    ],
)
async def test_people_are_spoken_to_in_their_language(make, locale, task, text):
    lines = {"main/architect": [plan(step("a"))], "a": [says("ok")]}
    async with make(lines) as world:
        opened = await world.runtime.sessions.open(world.ann, locale=locale)
        world.session = opened.session_id
        plan_id = await world.propose(task)
        events = await world.decide_plan(plan_id)

        assert of(events, "plan_approved")[0]["content"] == text
        assert of(events, "subtask_started")[0]["content"] == "Subtask 1/1: Do a"
        assert events[-1]["content"].startswith("Plan Execution Complete\n- Total: 1")


@pytest.mark.feature(217)
async def test_the_operators_language_goes_before_that_of_the_message(make):
    lines = {"main/architect": [plan(step("a"))]}
    async with make(lines, locale="ru") as world:
        plan_id = await world.propose("Build")
        events = await world.decide_plan(plan_id, "reject")
        assert events[-1]["content"] == "План отменен. Чем могу помочь?"


@pytest.mark.feature(217)
@pytest.mark.parametrize(("setting", "to"), [(None, "ru"), ("en", "ru"), ("ru", None)])
async def test_a_session_whose_language_is_changed_is_spoken_to_in_it_at_once(make, setting, to):
    lines = {"main/architect": [plan(step("a"))]}
    async with make(lines, locale=setting) as world:
        opened = await world.runtime.sessions.open(world.ann, locale="en")
        world.session = opened.session_id
        plan_id = await world.propose("Build")
        await world.runtime.sessions.edit(world.ann, world.session, locale=to)
        events = await world.decide_plan(plan_id, "reject")
        assert events[-1]["content"] == "План отменен. Чем могу помочь?"


async def test_many_sessions_at_once_do_not_mix(make):
    lines = {"main/ask": [says("Hello", delay=0.05)]}
    async with make(lines) as world:
        found = {}

        async def one(name):
            message = {"type": "user_message", "content": name, "agent_type": "ask"}
            found[name] = await world.ask(message, session=f"s-{name}")

        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(one, f"n{n}")

        for name, events in found.items():
            assert {e["session_id"] for e in events} == {f"s-{name}"}
            assert events[-1]["content"] == "Hello"


async def test_a_log_is_read_from_its_end_in_pages_and_what_people_said_alone(make):
    async with make({"main/orchestrator": [says("Yes?")]}) as world:
        await world.say("hi")
        runtime, ann, session = world.runtime, world.ann, world.session
        whole = await runtime.sessions.log_page(ann, session, None, 1_000)
        assert [body["seq"] for body in whole] == list(range(1, len(whole) + 1))
        late = await runtime.sessions.log_page(ann, session, None, 2)
        early = await runtime.sessions.log_page(ann, session, late[0]["seq"], 1_000)
        assert early + late == whole
        assert await runtime.sessions.log_page(ann, session, 1, 5) == []
        said = (await runtime.sessions.history(ann, session, by_people=True)).messages
        assert [(message.role, message.content) for message in said] == [("user", "hi")]


async def test_a_call_behind_the_end_of_a_turn_is_not_carried_out_and_says_so(make):
    end = calls(call("attempt_completion", result="Готово"), call("switch_mode", mode="ask"))
    async with make({"main/coder": [end], "main/orchestrator": [says("Да?")]}) as world:
        events = await world.say("Сделай это", "coder")

        errors = [event["error"] for event in of(events, "tool_result") if "error" in event]
        assert errors == [say("model_not_run", "ru")]


async def test_what_leads_a_conversation_cannot_be_used_inside_a_subtask(make):
    lines = {
        "main/architect": [plan(step("a"))], "main/orchestrator": [says("Yes?")],
        "a": [calls(call("switch_mode", mode="ask")), says("a")],
    }  # fmt: skip
    async with make(lines) as world:
        events = await world.decide_plan(await world.propose())

        [result] = of(events, "tool_result")
        assert result["error"] == "not_here: switch_mode cannot be used inside a subtask"
