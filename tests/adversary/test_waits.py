"""What was allowed while a call waits for its place is allowed still when it has it, or it asks.

A call waits where somebody else has the workspace alone: until then people take back what they
gave, and others change what lies on the disk.
"""

from contextlib import asynccontextmanager

import pytest

from fakes.until import until
from fakes.world import calls, of, plan, run, says, step

MADE = "touch made"
SHOWN = "cat shown.txt"
LINES = {
    "main/coder": [calls(run(MADE)), says("Well")],
    "main/architect": [plan(step("a", scope={"commands": ["touch"]}))],
    "a": [calls(run(MADE)), says("Well")],
}


@asynccontextmanager
async def kept_waiting(world):
    """Have the workspace alone, and give it up once somebody else waits for it."""
    traffic = world.runtime.parts.hands.traces.traffic
    async with traffic.alone(world.folder):
        yield lambda: until(lambda: traffic._ways[world.folder].queue)


async def allow(world, command):
    await world.say("Hello", "ask")
    rule = {"tool": "execute_command", "command": command, "decision": "allow"}
    return await world.runtime.sessions.add_rule(world.ann, world.session, rule)


@pytest.mark.parametrize("taken_back", [True, False], ids=["taken back", "kept"])
async def test_a_rule_that_is_removed_while_a_call_waits_lets_nothing_run(make, taken_back):
    async with make(LINES | {"main/ask": [says("Hi")]}) as world:
        rule = await allow(world, "touch")
        async with kept_waiting(world) as others:
            message = {"type": "user_message", "content": "Go", "agent_type": "coder"}
            receipt = await world.send(message)
            await others()
            if taken_back:
                await world.runtime.sessions.remove_rule(world.ann, world.session, rule.rule_id)
        await world.answer(receipt)

        assert [q.arguments["command"] for q in await world.pending()] == [MADE] * taken_back
        assert (world.read("made") is None) is taken_back
        assert len(await world.audit("tool.allowed")) == (not taken_back)


async def test_a_grant_that_is_revoked_while_a_call_waits_lets_nothing_run(make):
    async with make(LINES) as world:
        async with kept_waiting(world) as others:
            await world.begin()
            await others()
            [grant] = await world.runtime.plans.grants(world.ann, world.session)
            await world.runtime.plans.revoke_grant(world.ann, grant.grant_id)
        await world.until("approval_requested", kind="tool")

        assert world.read("made") is None
        assert of(await world.log(), "tool_result", subtask_id="a") == []


async def test_a_file_that_became_a_link_while_a_call_waits_is_not_shown(make, ground):
    lines = {"main/ask": [says("Hi")], "main/coder": [calls(run(SHOWN)), says("Well")]}
    async with make(lines, sandbox=False) as world:
        (world.folder / "shown.txt").write_text("plain\n")
        await allow(world, "cat")
        async with kept_waiting(world) as others:
            message = {"type": "user_message", "content": "Go", "agent_type": "coder"}
            receipt = await world.send(message)
            await others()
            (world.folder / "shown.txt").unlink()
            (world.folder / "shown.txt").symlink_to("../outside/secret.txt")
        await world.answer(receipt)

        [asked] = await world.pending()
        assert "leads out of the workspace" in asked.reason
        assert "CANARY" not in str(await world.log())
