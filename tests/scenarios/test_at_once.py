"""Two people decide at the same moment: one decision stands, and all others are told."""

import anyio
import pytest

from fakes.world import calls, of, plan, says, step, write
from gonogo.domain.errors import AlreadyDecided, GonogoError
from gonogo.domain.principal import Principal, Role


def people(count):
    """Admins, who may all decide."""
    return [Principal(id=f"user:p{n}", name=f"p{n}", role=Role.ADMIN) for n in range(count)]


async def all_at_once(world, messages):
    """Send messages of several people together. Gives the winners and the refusals."""
    won, refused = [], []

    async def one(person, message):
        try:
            await world.send(message, by=person)
            won.append(person.name)
        except GonogoError as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for person, message in messages:
            group.start_soon(one, person, message)
    return won, refused


@pytest.mark.feature(203)
async def test_of_many_decisions_about_a_call_one_stands(make):
    lines = {"main/coder": [calls(write("a.txt")), says("ok")]}
    async with make(lines) as world:
        await world.say("Write", "coder")
        [question] = await world.pending()
        words = ["approve", "reject"] * 5
        won, refused = await all_at_once(world, [
            (person, {"type": "hitl_decision", "call_id": question.call_id, "decision": word})
            for person, word in zip(people(10), words, strict=True)
        ])  # fmt: skip

        assert len(won) == 1
        assert len(refused) == 9
        for error in refused:
            assert isinstance(error, AlreadyDecided)
            assert error.decided_by == won[0]
            assert error.decided_at
        await world.until("assistant_message", content="ok")
        assert len(of(await world.log(), "tool_result")) == 1
        assert len(of(await world.log(), "approval_resolved")) == 1


@pytest.mark.feature(203)
async def test_of_many_decisions_about_a_plan_one_stands(make):
    lines = {"main/architect": [plan(step("a"))], "a": [says("a")]}
    async with make(lines) as world:
        plan_id = await world.propose()
        words = ["approve", "reject", "hold", "edit"] * 2
        won, refused = await all_at_once(world, [
            (person, {
                "type": "plan_decision", "plan_id": plan_id, "decision": word, "revision": 1,
                **({"modified_subtasks": [step("a")]} if word == "edit" else {}),
            })
            for person, word in zip(people(8), words, strict=True)
        ])  # fmt: skip

        assert len(won) == 1
        assert all(isinstance(error, AlreadyDecided) for error in refused)
        assert len(of(await world.log(), "approval_resolved")) == 1
        await world.idle()
        assert len(await world.runtime.revisions(world.ann, plan_id)) <= 2
