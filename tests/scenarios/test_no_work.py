"""A word is no work: what is empty goes on to be asked for, what is cut off goes on, and who says
that it is done has done something, or is not believed."""

import pytest

from fakes.world import call, calls, kinds, of, on_both, plan, run, says, step, write
from gonogo.cli.session.conversation import Outcome

EMPTY = says("")
NEW = {"paths": ["new.txt"]}


def cut(text, *made):
    return {"text": text, "calls": list(made), "cut": True}


def script(*subtasks, **threads):
    return {"main/architect": [plan(*subtasks)], **threads}


async def ended(make, lines, **set_):
    """Run a plan to its end. Gives its events and its subtasks as they are shown."""
    async with make(lines, **set_) as world:
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id)
        found = await world.runtime.plans.get(world.ann, plan_id)
        return events, {subtask.id: subtask for subtask in found.subtasks}, world


def whole(events):
    """What was said, message by message."""
    return [event["content"] for event in of(events, "assistant_message")]


@pytest.mark.feature(226)
@pytest.mark.parametrize("agent", ["coder", "ask", "debug", "universal"])
async def test_who_says_nothing_is_asked_once_more_and_then_the_attempt_fails(make, agent):
    lines = script(step("a", agent=agent), step("b", "a"), a=[EMPTY, EMPTY, says("late")])
    _, found, world = await ended(make, lines)

    assert (found["a"].status, found["a"].error["category"]) == ("failed", "no_work")
    assert found["b"].status == "skipped"
    first, second = world.model.asked("a")
    assert [m for m in second.messages if m.role == "user"] == list(first.messages)


async def test_an_answer_at_the_second_asking_is_an_answer(make):
    lines = script(step("a"), a=[EMPTY, says("I looked; all is well.")])
    events, found, _ = await ended(make, lines)

    assert found["a"].result["output"] == "I looked; all is well."
    assert "" not in whole(events)


@pytest.mark.feature(226)
async def test_a_decision_is_not_made_by_saying_nothing(make):
    one = {"id": "a", "description": "Choose", "type": "decision"}
    _, found, _ = await ended(make, script(one, a=[EMPTY, EMPTY]))

    assert (found["a"].status, found["a"].error["category"]) == ("failed", "no_work")


@pytest.mark.feature(226)
async def test_what_was_cut_off_goes_on_and_is_told_as_one(make):
    lines = script(step("a"), step("b", "a"), a=[cut("The sum is fo"), cut("rty"), says("-two.")])
    events, found, world = await ended(make, lines | {"b": [says("b")]})

    assert found["a"].result["output"] == "The sum is forty-two."
    assert "The sum is forty-two." in whole(events)
    assert not {"The sum is fo", "rty", "-two."} & set(whole(events))
    asked = world.model.asked("a")
    assert [len(request.messages) for request in asked] == [1, 3, 5]
    assert "cut off" in asked[1].messages[-1].content
    assert "forty-two" in world.model.asked("b")[0].messages[0].content


async def test_what_was_said_before_a_call_goes_on_with_it(make):
    lines = script(
        step("a", scope=NEW),
        a=[cut("I write "), calls(write("new.txt"), text="the file."), says("Written.")],
    )
    events, found, _ = await ended(make, lines)

    assert "I write the file." in whole(events)
    assert found["a"].result["output"] == "Written."


@pytest.mark.feature(226)
async def test_a_reply_that_comes_to_no_end_is_given_up(make):
    _, found, world = await ended(make, script(step("a"), a=[cut("and then ")]))

    assert found["a"].error["category"] == "no_work"
    assert "8 times" in found["a"].error["message"]
    assert len(world.model.asked("a")) == 8


@pytest.mark.feature(226)
async def test_a_call_that_was_cut_off_is_not_made_and_the_agent_goes_on(make):
    half = {"name": "write_file", "arguments": '{"path": "new.txt", "content": "ha'}
    lines = script(step("a", scope=NEW), a=[cut("", half), calls(write("new.txt")), says("Done.")])
    events, found, world = await ended(make, lines)

    first, second = of(events, "tool_result")
    assert first["error"].startswith("invalid_arguments")
    assert "error" not in second
    assert (found["a"].status, world.read("new.txt")) == ("completed", "made\n")


@on_both
async def test_being_cut_off_and_saying_nothing_are_counted_over_a_restart(make):
    def late(reply):
        return lambda request: {**reply, "delay": 30 if len(request.messages) > 1 else 0}

    lines = script(
        step("a"), step("b"), a=[cut("One "), late(says("two."))], b=[EMPTY, late(EMPTY)]
    )
    async with make(lines, max_parallel=2) as world:
        plan_id = await world.begin()
        await world.asked_model("a", 2)
        await world.asked_model("b", 2)
        world.lines |= {"a": [cut("One "), says("two.")], "b": [EMPTY]}
        await world.restart()
        await world.until("plan_completed")
        found = {s.id: s for s in (await world.runtime.plans.get(world.ann, plan_id)).subtasks}
        assert found["a"].result["output"] == "One two."
        assert found["b"].error["category"] == "no_work"
        assert (len(world.model.asked("a")), len(world.model.asked("b"))) == (1, 1)


# Turns ------------------------------------------------------------------------------------------


@pytest.mark.feature(226)
async def test_a_turn_does_not_end_in_silence(make):
    async with make({"main/ask": [EMPTY, EMPTY, says("Here.")]}) as world:
        events = await world.say("What is it?", "ask")
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "model_error")
        assert "empty" in events[-1]["error"]
        events = await world.say("Well?", "ask")
        assert (events[-1]["content"], events[-1]["is_final"]) == ("Here.", True)


@pytest.mark.feature(226)
async def test_an_answer_that_was_cut_off_is_one_answer(make):
    async with make({"main/ask": [cut("It is "), says("a test.")]}) as world:
        events = await world.say("What is it?", "ask")
        assert whole(events) == ["It is a test."]
        assert events[-1]["is_final"]


# What was to be changed -------------------------------------------------------------------------


@pytest.mark.feature(226)
@pytest.mark.parametrize(
    "last", [says("Done."), calls(call("attempt_completion", result="Written."))]
)
async def test_an_action_that_declares_files_and_changed_none_has_not_been_done(make, last):
    lines = script(step("a", scope=NEW), step("b", "a"), a=[calls(call("list_files")), last])
    events, found, world = await ended(make, lines)

    assert (found["a"].status, found["b"].status) == ("failed", "skipped")
    assert found["a"].error["category"] == "no_work"
    assert "leave the subtask out" in found["a"].error["message"]
    assert events[-1]["metadata"]["status"] == "failed"
    assert world.read("new.txt") is None


@pytest.mark.feature(226)
async def test_what_is_there_already_was_not_done_by_saying_so(make):
    async with make(
        script(step("a", scope=NEW), a=[calls(write("new.txt", "made\n")), says("Done.")])
    ) as world:
        (world.folder / "new.txt").write_text("made\n")
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        [found] = (await world.runtime.plans.get(world.ann, plan_id)).subtasks
        assert (found.status, found.error["category"]) == ("failed", "no_work")


@pytest.mark.feature(226)
@pytest.mark.parametrize(
    "exempt",
    [
        step("a", agent="ask", scope=NEW),
        step("a", agent="debug", scope=NEW),
        step("a"),
        step("a", scope={"commands": ["ls"]}),
        {"id": "a", "description": "Say", "scope": NEW},
    ],
)
async def test_who_has_nothing_to_change_is_believed(make, exempt):
    _, found, _ = await ended(make, script(exempt, a=[says("It is so.")]))

    assert found["a"].status == "completed"


@pytest.mark.feature(226)
async def test_decisions_and_validations_change_nothing_and_are_believed(make):
    decision = call("give_decision", options=["x", "y"], choice="x", reasoning="So.")
    verdict = call("give_verdict", valid=True, reasons=["seen"])
    lines = script(
        step("a", type="decision", scope=NEW), step("b", type="validation", scope=NEW),
        a=[calls(decision)], b=[calls(verdict)],
    )  # fmt: skip
    _, found, _ = await ended(make, lines)

    assert {s.status for s in found.values()} == {"completed"}


@pytest.mark.feature(226)
async def test_what_an_earlier_attempt_did_counts(make):
    again = {"max_attempts": 2, "delay": 0, "on": ["unknown"]}
    fails = calls(call("attempt_completion", result="Some random error", success=False))
    lines = script(
        step("a", scope=NEW, retry_policy=again),
        a=[lambda request: calls(write("new.txt")) if len(request.messages) == 1 else fails],
    )
    async with make(lines) as world:
        tries = []

        def answer(request):
            if len(request.messages) > 1:
                return fails
            tries.append(request)
            return calls(write("new.txt")) if len(tries) == 1 else says("It was there.")

        world.lines["a"] = [answer, fails]
        await world.restart()
        await world.decide_plan(await world.propose())
        await world.until("plan_completed", status="completed")


@pytest.mark.feature(226)
async def test_what_an_earlier_attempt_did_counts_no_more_once_it_was_taken_back(make):
    again = {"max_attempts": 2, "delay": 0, "on": ["unknown"]}
    fails = calls(call("attempt_completion", result="Some random error", success=False))
    async with make(
        script(step("a", scope=NEW, retry_policy=again)), on_failure="rollback"
    ) as world:
        tries = []

        def answer(request):
            tries.append(request)
            return calls(write("new.txt")) if len(tries) == 1 else says("It was there.")

        world.lines["a"] = [answer, fails]
        await world.restart()
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        [found] = (await world.runtime.plans.get(world.ann, plan_id)).subtasks
        assert (found.attempt, found.error["category"]) == (2, "no_work")


async def test_a_client_that_carries_tools_out_is_believed_when_it_has(make):
    lines = script(
        step("a", scope=NEW), step("b", scope=NEW), a=[calls(write("new.txt")), says("Done.")],
        b=[says("Done.")],
    )  # fmt: skip
    async with make(lines) as world:
        opened = await world.runtime.sessions.open(world.ann, tool_host="client")
        world.session = opened.session_id
        plan_id = await world.begin()
        asked = await world.until("tool_call", tool_name="write_file")
        await world.send(
            {"type": "tool_result", "call_id": asked["call_id"], "result": {"bytes": 5}}
        )
        await world.until("plan_completed", status="partial")
        found = {s.id: s for s in (await world.runtime.plans.get(world.ann, plan_id)).subtasks}
        assert (found["a"].status, found["b"].status) == ("completed", "failed")


@pytest.mark.feature(226)
async def test_a_policy_of_retries_tries_again_what_was_not_done(make):
    again = {"max_attempts": 2, "delay": 0}
    _, found, _ = await ended(make, script(step("a", scope=NEW, retry_policy=again), a=[says("x")]))

    assert (found["a"].attempt, found["a"].error["category"]) == (2, "no_work")


# What was not allowed ---------------------------------------------------------------------------


@pytest.mark.feature(226)
async def test_what_was_denied_or_rejected_is_in_the_result_and_in_the_account(make):
    lines = script(
        step("a", scope=NEW), step("b", "a"),
        a=[
            calls(write(".git/config"), write("new.txt"), run("make it")),
            calls(call("read_file", path="nowhere.txt")), says("Done, in part."),
        ],
        b=[says("b")],
    )  # fmt: skip
    async with make(lines) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        [question] = await world.pending()
        events = await world.decide(question.call_id, "reject", feedback="Not now")

        [done] = of(events, "subtask_completed", subtask_id="a")
        denied, rejected = done["metadata"]["result"]["refused"]
        assert (denied["tool_name"], denied["about"]) == ("write_file", ".git/config")
        assert denied["error"].startswith("protected_path: ")
        assert (rejected["tool_name"], rejected["about"]) == ("execute_command", "make it")
        assert "Not now" in rejected["error"]
        assert (
            "refused"
            not in of(events, "subtask_completed", subtask_id="b")[0]["metadata"]["result"]
        )
        assert events[-1]["metadata"]["status"] == "completed"
        assert events[-1]["metadata"]["refused"] == 2
        assert "denied or rejected: 2" in events[-1]["content"]
        assert (await world.runtime.plans.status(world.ann, plan_id)).refused == 2
        outcome = Outcome()
        for event in await world.log():
            outcome.note(event)
        assert outcome.exit == 4


async def test_where_nothing_was_denied_nothing_is_said_of_it(make):
    events, found, _ = await ended(make, script(step("a"), a=[says("a")]))

    assert set(found["a"].result) == {"status", "output", "metadata"}
    assert "refused" not in events[-1]["metadata"]
    assert "denied" not in events[-1]["content"]
    assert "plan_completed" in kinds(events)
