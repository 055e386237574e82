"""What a session was opened with holds in it, whatever holds in the others of the runtime."""

import pytest

from fakes.openai_server import fake_openai
from fakes.world import calls, of, plan, run, says, step
from scenarios.test_away import DOWN, begin

BLIND = {
    "main/architect": [plan(step("a", approval_required=True))],
    "main/coder": [calls(run("touch made")), says("done")],
    "a": [says("done")],
}


async def opened(world, **ways):
    world.session = (await world.runtime.sessions.open(world.ann, **ways)).session_id


async def test_nobody_is_asked_in_a_session_that_is_unattended_and_in_the_others_they_are(make):
    async with make(BLIND) as world:
        await opened(world, unattended=True)
        events = await world.say("Touch", "coder")
        [refused] = of(events, "tool_result")
        assert "nobody can be asked" in refused["error"]
        assert await world.pending() == []

        await opened(world)
        await world.send({"type": "user_message", "content": "Touch", "agent_type": "coder"})
        await world.until("approval_requested", kind="tool")
        [asked] = await world.pending()
        assert asked.kind == "tool"
        assert world.read("made") is None


@pytest.mark.parametrize(("unattended", "told"), [(True, ["nobody_to_approve"]), (False, [])])
async def test_a_plan_that_would_ask_is_found_fault_with_where_nobody_answers(
    make, unattended, told
):
    async with make(BLIND) as world:
        await opened(world, unattended=unattended)
        await world.propose()
        [asked] = await world.pending()
        found = [each["code"] for each in asked.details["findings"]]
        assert [code for code in found if code == "nobody_to_approve"] == told


async def test_a_plan_of_an_unattended_session_ends_when_its_model_is_away_for_too_long(make):
    with fake_openai() as server:
        async with make({}, model_patience=5) as world:
            await opened(world, unattended=True)
            await begin(world, server, DOWN, "a")
            await world.later(6)
            await world.until("plan_completed", status="failed")
            assert await world.pending() == []


async def test_the_agents_of_a_session_ask_the_model_that_it_was_opened_with(make):
    async with make({"main": [says("scripted")]}) as world:
        world.runtime.parts.models.only = None
        await opened(world, model="demo")
        assert (await world.runtime.sessions.get(world.ann, world.session)).model == "demo"
        asked = world.runtime.parts.models.opened
        events = await world.say("What is this?")
        assert list(asked) == ["demo"]
        assert events[-1]["is_final"]
