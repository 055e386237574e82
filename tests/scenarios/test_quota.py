"""A provider's quota is not a bug: 429 with a reset time pauses the plan until then."""

from collections.abc import Iterator

import anyio
import pytest

from fakes.openai_server import FakeOpenAI, fake_openai
from fakes.world import LIMIT, World, of, on_both, plan, step
from gonogo.llm import ModelSettings, open_model

HOUR = 3_600
USED_UP = {"status": 429, "headers": {"Retry-After": str(HOUR)}, "error": {"message": "Slow down"}}


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        yield running


def provider(server: FakeOpenAI):
    settings = ModelSettings(
        name="openai:scripted", base_url=server.base_url, api_key="key-of-a-test", backoff=0.001
    )
    return lambda world: open_model(settings, {})


def script(*names: str, quota_of: frozenset[str] = frozenset()) -> dict:
    """A provider that proposes these subtasks, and answers some of them 429 the first time."""
    proposal = plan(*(step(name) for name in names))
    rules = [{"when": {"tools": ["create_plan"]}, "replies": [proposal, {"text": "ok"}]}]
    for name in names:
        good = {"text": f"done {name}"}
        reply = [USED_UP, good] if name in quota_of else good
        rules.append({"when": {"user": f"Do {name}"}, "replies": [reply]})
    return {"rules": rules, "default": {"text": "Yes?"}}


async def begin(world: World, server: FakeOpenAI, *names: str, **more) -> str:
    server.script(script(*names, **more))
    world.open_model = provider(server)
    await world.restart()
    return await world.begin()


async def status(world: World, plan_id: str):
    return await world.runtime.plans.status(world.ann, plan_id)


@pytest.mark.feature(214)
async def test_a_429_with_a_reset_time_pauses_the_plan_and_siblings_share_it(make, server):
    async with make({}) as world:
        plan_id = await begin(world, server, "a", "b", "c", quota_of=frozenset("ab"))
        await world.until("plan_paused")
        await world.until("subtask_completed", subtask_id="c")
        await world.idle()
        found = await status(world, plan_id)
        assert (found.status, found.pause_reason) == ("paused", "quota")
        assert found.paused_until is not None
        left = (found.paused_until - world.clock()).total_seconds()
        assert HOUR - LIMIT < left <= HOUR
        assert {s.id: (str(s.status), s.attempt) for s in found.subtasks} == {
            "a": ("pending", 1), "b": ("pending", 1), "c": ("completed", 1),
        }  # fmt: skip

        await world.later(HOUR)
        await world.until("plan_completed")
        found = await status(world, plan_id)
        assert (found.status, found.pause_reason, found.paused_until) == ("completed", None, None)
        assert {s.attempt for s in found.subtasks} == {1}
        events = await world.log()
        assert len(of(events, "plan_paused")) == 1
        assert of(events, "subtask_failed") == of(events, "subtask_retrying") == []
        assert not any(event.get("is_final") for event in of(events, "plan_paused"))
        assert server.violations == []


@on_both
@pytest.mark.feature(214)
async def test_the_pause_holds_over_a_restart_and_ends_by_itself(make, server):
    async with make({}) as world:
        plan_id = await begin(world, server, "a", quota_of=frozenset("a"))
        await world.until("plan_paused")
        await world.restart()
        await world.idle()
        asked = len(server.requests)
        assert (await status(world, plan_id)).status == "paused"
        await world.later(HOUR)
        await world.until("plan_completed", status="completed")
        assert len(server.requests) == asked + 1


async def test_a_person_goes_on_before_the_reset(make, server):
    async with make({}) as world:
        plan_id = await begin(world, server, "a", quota_of=frozenset("a"))
        await world.until("plan_paused")
        with anyio.fail_after(LIMIT):
            await world.runtime.plans.resume(world.ann, plan_id)
        await world.until("plan_completed", status="completed")
