"""What a session is opened with that it may take in all: money and requests pause its plan and ask,
time stops what works, whoever looks on or not, and over restarts."""

from functools import partial

import anyio
import pytest

from fakes.world import LIMIT, calls, kinds, of, on_both, plan, says, step, write
from gonogo.execution.recovery import SESSION_TIMEOUT
from gonogo.store.jobs import has_timer


def lines(*names):
    """Subtasks one after another that write a file in two requests each."""
    steps = [step(name, *names[:at][-1:]) for at, name in enumerate(names)]
    scripts = {name: [calls(write(f"{name}.txt")), says(name)] for name in names}
    return {"main/architect": [plan(*steps)], "main/orchestrator": [says("Yes?")], **scripts}


async def opened(world, **limits):
    view = await world.runtime.sessions.open(world.ann, limits=limits)
    world.session = view.session_id
    return view


@on_both
@pytest.mark.feature(213)
async def test_a_plan_that_would_pass_its_sessions_limit_asks_and_names_no_setting(make):
    async with make(lines("a", "b")) as world:
        assert (await opened(world, requests=3)).limits == {"requests": 3}
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        [question] = await world.pending()
        assert question.details == {
            "about": "budget", "what": "session_requests", "used": 3, "limit": 3,
        }  # fmt: skip
        assert "--max-cost" in question.reason
        assert "GONOGO_BUDGET" not in question.reason
        shown = await world.runtime.plans.status(world.ann, plan_id)
        assert (shown.status, shown.limits) == ("paused", {"session_requests": 3})
        await world.restart()
        await world.idle()
        assert [each.approval_id for each in await world.pending()] == [question.approval_id]
        usage = partial(world.runtime.sessions.usage, world.ann, world.session)
        assert (await usage()).limits == {"requests": 3}
        held = world.model.hold("b")
        raised = {"decision": "approve", "approval_id": question.approval_id}
        sent = await world.send({"type": "hitl_decision", **raised})
        await world.asked_model("b")
        # The bar of the session shows what counts now, not a limit that is raised.
        assert (await usage()).limits == {"requests": 6}
        held.set()
        events = await world.answer(sent)
        assert events[-1]["metadata"]["status"] == "completed"
        again = await world.runtime.sessions.get(world.ann, world.session)
        assert again.limits == {"requests": 3}


async def test_a_turn_that_would_pass_the_limit_fails_and_other_sessions_have_none(make):
    async with make({"main/ask": [says("one"), says("two")]}) as world:
        await opened(world, requests=1)
        await world.say("Hi", "ask")
        events = await world.say("Again", "ask")
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "rate_limited")
        assert "--max-cost" in events[-1]["error"]
        world.session = ""
        await world.say("Hi", "ask")
        assert (await world.say("Again", "ask"))[-1]["type"] == "assistant_message"


async def test_a_session_cannot_lift_what_the_settings_say(make):
    async with make({"main/ask": [says("one"), says("two")]}, budget_session_requests=1) as world:
        await opened(world, requests=99)
        await world.say("Hi", "ask")
        events = await world.say("Again", "ask")
        assert "Raise GONOGO_BUDGET_SESSION_REQUESTS" in events[-1]["error"]


@on_both
async def test_when_the_time_is_over_the_plan_ends_although_nobody_looks_on(make):
    slow = {"b": [{**reply, "delay": 3_600} for reply in lines("b")["b"]]}
    async with make(lines("a", "b") | slow) as world:
        await opened(world, seconds=60)
        plan_id = await world.begin()
        await world.asked_model("b")
        await world.restart()
        await world.asked_model("b")
        await world.later(61)
        ended = await world.until("plan_completed")
        assert ended["metadata"]["status"] == "partial"
        [failed] = of(await world.log(), "subtask_failed")
        assert failed["metadata"]["error"]["category"] == "timeout"
        assert "60 s" in failed["metadata"]["error"]["message"]
        await world.idle()
        assert world.read("b.txt") is None
        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "partial"


async def test_time_that_passed_while_nothing_ran_ends_the_plan_at_the_next_start(make):
    async with make(lines("a", "b")) as world:
        await opened(world, seconds=60)
        world.model.hold("a")
        await world.begin()
        await world.asked_model("a")
        await world.stop()
        world.clock.ahead += world.clock.ahead.resolution * 61_000_000
        await world.start()
        ended = await world.until("plan_completed")
        assert ended["metadata"]["status"] == "failed"


async def test_an_answer_under_way_fails_and_what_waits_behind_it_is_dropped(make):
    async with make({"main/ask": [says("one"), says("two")]}) as world:
        await opened(world, seconds=60)
        world.model.hold("main")
        first = await world.send({"type": "user_message", "content": "Hi", "agent_type": "ask"})
        await world.asked_model("main")
        await world.send({"type": "user_message", "content": "And?", "agent_type": "ask"})
        await world.later(61)
        events = await world.answer(first)
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "timeout")
        await world.idle()
        assert len(world.model.asked("main")) == 1
        # What somebody says after that is theirs.
        assert kinds(await world.say("Now", "ask"))[-1] == "assistant_message"


async def test_a_plan_that_nobody_has_started_waits_on(make):
    async with make(lines("a")) as world:
        await opened(world, seconds=60)
        plan_id = await world.propose()
        await world.later(61)
        read = world.runtime.parts.store.read
        with anyio.fail_after(LIMIT):
            while await read(has_timer, SESSION_TIMEOUT, world.session):  # noqa: ASYNC110 - as it is
                await anyio.sleep(0.003)
        assert (await world.runtime.plans.get(world.ann, plan_id)).status == "awaiting_approval"
        assert (await world.decide_plan(plan_id))[-1]["metadata"]["status"] == "completed"
