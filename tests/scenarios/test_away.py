"""A model that is away is no failure of the work: what needs it waits, and goes on by itself."""

import time
from collections.abc import Iterator
from datetime import datetime

import anyio
import anyio.to_thread
import pytest

from fakes.openai_server import FakeOpenAI, fake_openai
from fakes.sockets import held_port
from fakes.world import LIMIT, World, call, kinds, of, on_both, plan, step
from gonogo.cli.session.conversation import Outcome
from gonogo.cli.session.interrupts import pause_lines
from gonogo.domain.errors import Conflict, InvalidMessage
from gonogo.llm import ModelSettings, open_model

pytestmark = pytest.mark.measured

PATIENCE = 600
DOWN = {"status": 503, "error": "down for a while"}
WAYS = {
    "503": DOWN,
    "429": {"status": 429, "error": "Slow down"},
    "429 until nonsense": {"status": 429, "headers": {"Retry-After": "1e300"}, "error": "Slow"},
    "overloaded": {"status": 529, "error": "Overloaded"},
    "a cut stream": {"text": "Half of an answer", "cut": 2},
    "an error in the stream": {"chunks": ['{"error": {"message": "Oh", "type": "server_error"}}']},
    "junk": {"chunks": ["{nonsense"]},
}


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        yield running


def script(*names: str, **more) -> dict:
    """A provider that proposes subtasks of these names, and answers each."""
    proposal = plan(*(step(name) for name in names))
    rules = [{"when": {"tools": ["create_plan"]}, "replies": [proposal, {"text": "ok"}]}]
    rules += [{"when": {"user": f"Do {name}"}, "replies": [{"text": name}]} for name in names]
    return {"rules": rules, "default": {"text": "Yes?"}, **more}


def away(how: dict, *names: str) -> dict:
    """The same provider while it answers nothing of what subtasks ask."""
    whole = script(*names)
    return {**whole, "rules": [*whole["rules"][:1]], "default": how}


def provider(url: str, **more):
    settings = ModelSettings(
        name="openai:scripted", base_url=url, api_key="key-of-a-test",
        **{"backoff": 0.001, "max_attempts": 2, "timeout": LIMIT, **more},
    )  # fmt: skip
    return lambda world: open_model(settings, {})


async def begin(world: World, server: FakeOpenAI, how: dict, *names: str) -> str:
    """A plan that is approved while its model goes away. Gives its id once it is paused."""
    server.script(script(*names))
    world.open_model = provider(server.base_url)
    await world.restart()
    plan_id = await world.propose()
    server.script(away(how, *names))
    await world.send({"type": "plan_decision", "plan_id": plan_id, "decision": "approve"})
    await world.until("plan_paused")
    await world.idle()
    return plan_id


async def shown(world: World, plan_id: str):
    return await world.runtime.plans.get(world.ann, plan_id)


async def next_try(world: World, plan_id: str) -> None:
    """Let the time come in which the model is asked again, and wait for what comes of it."""
    until = (await shown(world, plan_id)).paused_until
    assert until is not None
    await world.later((until - world.clock()).total_seconds() + 0.01)
    with anyio.fail_after(LIMIT):
        while (await shown(world, plan_id)).paused_until == until:  # noqa: ASYNC110 - not told
            await anyio.sleep(0.003)
    await world.idle()


@pytest.mark.feature(230)
@pytest.mark.parametrize("way", WAYS)
async def test_a_plan_waits_for_its_model_and_goes_on_and_nothing_has_failed(make, server, way):
    async with make({}) as world:
        plan_id = await begin(world, server, WAYS[way], "a", "b", "c", "d")
        found = await shown(world, plan_id)
        assert (found.status, found.pause_reason) == ("paused", "model")
        [told] = of(await world.log(), "plan_paused")
        assert (told["metadata"]["reason"], told["metadata"]["by"]) == ("model", "gonogo")
        assert "does not answer" in told["content"]
        assert "gonogo keeps trying" in pause_lines(found, [], "en")[0]
        asked = len(server.requests)
        for _ in range(3):
            await next_try(world, plan_id)
        # One of them finds out, with one request each time; nobody else asks meanwhile.
        assert len(server.requests) == asked + 3

        server.script(script("a", "b", "c", "d"))
        await next_try(world, plan_id)
        await world.until("plan_completed", status="completed")
        found = await shown(world, plan_id)
        assert {(s.status, s.attempt) for s in found.subtasks} == {("completed", 1)}
        assert len(server.requests) == 4
        events = await world.log()
        assert of(events, "subtask_failed") == of(events, "subtask_retrying") == []
        assert of(events, "error") == []
        assert len(of(events, "plan_paused")) == len(of(events, "plan_resumed")) == 1
        assert len(of(events, "subtask_started")) == 4
        assert not any(event.get("is_final") for event in of(events, "plan_paused"))
        assert server.violations == []


@on_both
@pytest.mark.feature(230)
async def test_waiting_goes_on_over_restarts_and_patience_is_not_begun_anew(make, server):
    async with make({}, model_patience=PATIENCE) as world:
        plan_id = await begin(world, server, DOWN, "a", "b")
        since = world.clock()
        for _ in range(3):
            await world.restart()
            await world.idle()
            await next_try(world, plan_id)
        asked = len(server.requests)
        await world.restart()
        await world.idle()
        assert len(server.requests) == asked
        left = PATIENCE - (world.clock() - since).total_seconds()
        await world.later(left + 1)
        asked = await world.until("approval_requested", kind="intervention")
        assert asked["is_final"] or (await world.log())[-1]["is_final"]
        [question] = await world.pending()
        assert (question.details["about"], question.details["tries"] > 4) == ("model", True)


@pytest.mark.feature(230)
@pytest.mark.parametrize("decision", ["approve", "reject", "edit"])
async def test_when_patience_is_over_a_person_says_whether_to_wait_on(make, server, decision):
    async with make({}, model_patience=5) as world:
        plan_id = await begin(world, server, DOWN, "a", "b")
        await world.later(6)
        await world.until("approval_requested", kind="intervention")
        await world.idle()
        [question] = await world.pending()
        assert "GONOGO_MODEL_PATIENCE" in question.reason
        found = await shown(world, plan_id)
        assert (found.status, found.pause_reason, found.paused_until) == ("paused", "model", None)
        lines = pause_lines(found, await world.pending(), "en")
        assert question.approval_id in lines[1]
        with pytest.raises(Conflict, match="about its model"):
            await world.runtime.plans.resume(world.ann, plan_id)
        message = {
            "type": "hitl_decision", "approval_id": question.approval_id, "decision": decision,
        }  # fmt: skip
        if decision == "edit":
            with pytest.raises(InvalidMessage, match="cannot edit it"):
                await world.ask(message | {"modified_arguments": {"result": {}}})
            return
        if decision == "reject":
            events = await world.ask(message)
            assert events[-1]["metadata"]["status"] == "failed"
            reasons = {e["metadata"]["reason"] for e in of(events, "subtask_skipped")}
            assert reasons == {"the model did not answer, and ann waited no longer"}
            return
        server.script(script("a", "b"))
        events = await world.ask(message)
        assert events[-1]["metadata"]["status"] == "completed"


async def test_a_question_about_the_model_that_expires_ends_the_plan(make, server):
    async with make({}, model_patience=5, approval_expiry_intervention=60) as world:
        await begin(world, server, DOWN, "a")
        await world.later(6)
        await world.until("approval_requested", kind="intervention")
        await world.later(61)
        await world.until("plan_completed", status="failed")
        [skipped] = of(await world.log(), "subtask_skipped")
        assert "expired" in skipped["metadata"]["reason"]


@pytest.mark.feature(230)
async def test_where_nobody_can_answer_the_plan_ends_after_its_patience(make, server):
    async with make({}, model_patience=5, unattended=True) as world:
        await begin(world, server, DOWN, "a")
        await world.later(6)
        await world.until("plan_completed", status="failed")
        assert await world.pending() == []


@pytest.mark.feature(230)
async def test_a_plan_that_waits_is_cancelled_at_once_and_nothing_is_asked_any_more(make, server):
    async with make({}) as world:
        plan_id = await begin(world, server, DOWN, "a", "b")
        asked = len(server.requests)
        await world.runtime.plans.cancel(world.ann, plan_id)
        assert (await shown(world, plan_id)).status == "cancelled"
        await world.later(3_600)
        await world.idle()
        assert len(server.requests) == asked


@pytest.mark.feature(230)
async def test_a_subtask_that_finds_out_is_cancelled_while_the_model_is_silent(make, server):
    async with make({}) as world:
        plan_id = await begin(world, server, DOWN, "a", "b")
        server.script(away({**DOWN, "delay": LIMIT}, "a", "b"))
        until = (await shown(world, plan_id)).paused_until
        await world.later((until - world.clock()).total_seconds() + 0.01)
        with anyio.fail_after(LIMIT):
            await anyio.to_thread.run_sync(server.news, 0)
        await world.runtime.plans.cancel(world.ann, plan_id)
        await world.idle()
        assert (await shown(world, plan_id)).status == "cancelled"


@pytest.mark.feature(230)
async def test_what_the_provider_refuses_is_a_failure_at_once(make, server):
    for status in (400, 401, 403, 404, 422):
        async with make({}) as world:
            server.script(script("a"))
            world.open_model = provider(server.base_url)
            await world.restart()
            plan_id = await world.propose()
            server.script(away({"status": status, "error": "No"}, "a"))
            events = await world.decide_plan(plan_id)
            assert "plan_paused" not in kinds(events)
            assert of(events, "subtask_failed")[0]["metadata"]["error"]["category"] == "environment"
            assert len(server.requests) == 1


async def test_without_patience_the_work_fails(make, server):
    async with make({}, model_patience=0) as world:
        server.script(script("a"))
        world.open_model = provider(server.base_url)
        await world.restart()
        plan_id = await world.propose()
        server.script(away(DOWN, "a"))
        events = await world.decide_plan(plan_id)
        assert of(events, "subtask_failed")[0]["metadata"]["error"]["category"] == "network"
        server.script({"default": DOWN})
        events = await world.say("Hello?")
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "model_error")


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as found:
        yield found


@pytest.mark.feature(230)
async def test_a_server_that_is_not_there_is_waited_for_and_costs_nothing(make, port):
    url = f"http://127.0.0.1:{port}/v1"
    async with make({}, budget_plan_requests=3) as world:
        with fake_openai(script("a", "b"), port):
            world.open_model = provider(url)
            await world.restart()
            plan_id = await world.propose()
        await world.send({"type": "plan_decision", "plan_id": plan_id, "decision": "approve"})
        await world.until("plan_paused", reason="model")
        for _ in range(5):
            await next_try(world, plan_id)
        with fake_openai(script("a", "b"), port) as server:
            await next_try(world, plan_id)
            await world.until("plan_completed", status="completed")
            assert len(server.requests) == 2
        status = await world.runtime.plans.status(world.ann, plan_id)
        assert status.usage.requests == 2


async def test_a_model_that_is_slow_is_not_away(make, server):
    # On a machine that does nothing else for so long, it may be away.
    for seconds in (2.0, 40.0):
        async with make({}) as world:
            server.script(script("a"))
            world.open_model = provider(server.base_url, timeout=seconds)
            await world.restart()
            plan_id = await world.propose()
            slow = {"text": ["a", "b", "c", "d"], "pause": 0.35 * seconds}
            server.script({"default": slow})
            events = await world.decide_plan(plan_id)
        if "plan_paused" not in kinds(events):
            break
    assert events[-1]["metadata"]["status"] == "completed"
    assert len(server.requests) == 1


# Outside of plans -------------------------------------------------------------------------------


async def asks(world: World, server: FakeOpenAI) -> object:
    """Say something while the model is away. Gives the receipt once the turn waits."""
    server.script({"default": DOWN})
    world.open_model = provider(server.base_url)
    await world.restart()
    receipt = await world.send({"type": "user_message", "content": "Hello?", "agent_type": "ask"})
    await world.until("model_away")
    await world.idle()
    return receipt


@on_both
@pytest.mark.feature(230)
async def test_a_turn_waits_for_its_model_and_says_so(make, server):
    async with make({}) as world:
        receipt = await asks(world, server)
        [told] = of(await world.log(), "model_away")
        assert told["metadata"]["reason"] == "model"
        until = datetime.fromisoformat(told["metadata"]["until"])
        assert told["content"] == (
            f"The model does not answer ({told['metadata']['error']}). gonogo keeps trying"
            f" until {until:%Y-%m-%d %H:%M:%S} UTC."
        )
        assert "503" in told["content"]
        assert "is_final" not in told
        asked = len(server.requests)
        await world.later(3)
        await world.idle()
        await world.restart()
        await world.idle()
        assert len(server.requests) > asked
        server.script({"default": {"text": "Here I am."}})
        await world.later(60)
        await world.until("model_back")
        events = await world.answer(receipt)
        [back] = of(events, "model_back")
        assert (back["content"], back["metadata"]) == (
            "The model answers again.", {"reason": "model"},
        )  # fmt: skip
        assert (events[-1]["content"], events[-1]["is_final"]) == ("Here I am.", True)
        assert kinds(events).count("model_away") == kinds(events).count("model_back") == 1
        assert "error" not in kinds(events)
        outcome = Outcome()
        for event in events:
            outcome.note(event)
        assert outcome.exit == 0
        assert len(server.requests) == 1
        # The next one begins as any other.
        assert (await world.say("And?", "ask"))[-1]["content"] == "Here I am."


@pytest.mark.feature(230)
async def test_a_turn_ends_after_its_patience_with_what_the_provider_said(make, server):
    async with make({}, model_patience=5) as world:
        receipt = await asks(world, server)
        await world.later(6)
        events = await world.answer(receipt)
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "model_error")
        assert "down for a while" in events[-1]["error"]


@pytest.mark.feature(230)
async def test_a_turn_that_waits_is_cancelled_at_once(make, server):
    async with make({}) as world:
        receipt = await asks(world, server)
        asked = len(server.requests)
        await world.send({"type": "cancel", "turn_id": receipt.turn_id})
        assert (await world.answer(receipt))[-1][
            "content"
        ] == "Stopped. Send another message to continue."
        await world.later(600)
        await world.idle()
        assert len(server.requests) == asked


def failing() -> dict:
    """A provider whose plan fails in a way that another plan is looked for."""
    lost = {"calls": [call("attempt_completion", result="Agent x not found", success=False)]}
    return {
        "rules": [
            {"when": {"tools": ["create_plan"], "assistants": 0}, "replies": [plan(step("a"))]},
            {"when": {"user": "Your subtask (a)"}, "replies": [lost]},
        ],
        "default": {"text": "Yes?"},
    }


@on_both
@pytest.mark.feature(230)
@pytest.mark.parametrize("ends", ["back", "patience"])
async def test_the_search_for_another_revision_waits_for_its_model(make, server, ends):
    async with make({}, model_patience=PATIENCE) as world:
        server.script(failing())
        world.open_model = provider(server.base_url)
        await world.restart()
        plan_id = await world.propose()
        server.script({"rules": failing()["rules"][1:], "default": DOWN})
        await world.send({"type": "plan_decision", "plan_id": plan_id, "decision": "approve"})
        told = await world.until("model_away")
        assert told["plan_id"] == plan_id
        await world.idle()
        await world.restart()
        await world.idle()
        assert (await shown(world, plan_id)).status == "replanning"
        if ends == "patience":
            await world.later(PATIENCE + 1)
            await world.until("plan_completed", status="failed")
            return
        another = {"calls": plan(step("b"))["calls"]}
        server.script({"default": another})
        await world.later(60)
        await world.until("plan_notification", revision=2)
        told = [kind for kind in kinds(await world.log()) if kind.startswith("model_")]
        assert told == ["model_away", "model_back"]
        assert (await shown(world, plan_id)).status == "awaiting_approval"


@pytest.mark.feature(230)
async def test_a_plan_that_its_planner_has_can_be_decided_while_the_model_is_away(make, server):
    async with make({}) as world:
        server.script(script("a"))
        world.open_model = provider(server.base_url)
        await world.restart()
        plan_id = await world.propose()
        server.script({"default": DOWN})
        await world.runtime.plans.comment(world.ann, plan_id, "Is this needed?")
        await world.runtime.plans.revise(world.ann, plan_id)
        await world.until("model_away")
        server.script(script("a"))
        events = await world.decide_plan(plan_id)
        assert events[-1]["metadata"]["status"] == "completed"


# As long as it takes ----------------------------------------------------------------------------


async def outage(make, port: int, seconds: float) -> None:
    """The server is gone for so long, by everybody's clock."""
    url = f"http://127.0.0.1:{port}/v1"
    names = ("a", "b", "c")
    async with make({}) as world:
        with fake_openai(script(*names), port):
            world.open_model = provider(url, backoff=0.5, max_attempts=5)
            await world.restart()
            plan_id = await world.propose()
        await world.send({"type": "plan_decision", "plan_id": plan_id, "decision": "approve"})
        began = time.monotonic()
        await world.until("plan_paused", reason="model")
        await anyio.sleep(max(0, seconds - (time.monotonic() - began)))
        with fake_openai(script(*names), port) as server:
            await world.until("plan_completed", status="completed")
            assert len(server.requests) == len(names)
        assert of(await world.log(), "subtask_failed") == []
        found = await shown(world, plan_id)
        assert {s.attempt for s in found.subtasks} == {1}


@pytest.mark.nightly
@pytest.mark.feature(230)
@pytest.mark.parametrize("seconds", [6, 60])
async def test_a_server_that_is_away_for_a_minute_costs_nothing_but_time(make, port, seconds):
    await outage(make, port, seconds)
