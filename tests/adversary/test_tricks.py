"""A model that tries every trick by tool calls: nothing happens without the gate."""

import pytest

from adversary.ground import CANARIES, MARK
from adversary.tricks import DECLARED, all_of
from fakes.world import calls, of, plan, says, step
from gonogo.domain.states import CallStatus
from gonogo.store.calls import call_of

WRITERS = [
    "write_file", "edit_file", "apply_patch", "create_directory", "move_file", "delete_file",
    "execute_command",
]  # fmt: skip
SCOPES = {
    "undeclared": {},
    "widest": {"scope": {"tools": WRITERS, "paths": ["**"], "commands": [DECLARED]}},
}
ALONE = ("guarded", "commands")
"""What a conversation without a plan answers otherwise than a plan does."""
APPROVED = (
    *((group, "widest") for group in ("names", "arguments", "guarded", "escapes", "commands")),
    ("guarded", "undeclared"),
)
"""The widest scope allows all that an undeclared one does; only that one names no path."""
_S = CallStatus


def outcome(row):
    """What became of a call."""
    if row.status is _S.AWAITING_APPROVAL:
        return "asks"
    if row.error is not None:
        return row.error.split(":")[0]
    return "ran" if row.status is _S.COMPLETED else str(row.status)


async def outcomes(world, subtask=None):
    """What became of the calls of a conversation, in the order in which they were made."""
    called = of(await world.log(), "tool_call")
    ids = [event["call_id"] for event in called if event.get("subtask_id") == subtask]
    rows = [await world.runtime.parts.store.read(call_of, call_id) for call_id in ids]
    return [outcome(row) for row in sorted(rows, key=lambda row: row.position)]


def missed(tricks, found):
    """The tricks that ended in another way than they must."""
    assert len(found) == len(tricks)
    return {t.name: end for t, end in zip(tricks, found, strict=True) if end not in t.ends}


async def refuse_all(world):
    while pending := await world.pending():
        ids = [question.call_id for question in pending]
        await world.ask({"type": "hitl_decision", "call_ids": ids, "decision": "reject"})


async def check_nothing_came_of_it(world, ground):
    assert ground.changed_inside() == set()
    told = str([request.messages for request in world.model.requests])
    assert not [canary for canary in CANARIES if canary in told]
    allowed = await world.audit("tool.allowed")
    assert {entry.details["rule"] for entry in allowed} <= {"default:pure", "default:control"}
    results = of(await world.log(), "tool_result")
    assert len({event["call_id"] for event in results}) == len(results)
    assert (await world.runtime.audit.verify(world.ann)).ok


@pytest.mark.feature(202)
@pytest.mark.parametrize("group", ALONE)
async def test_no_trick_of_a_conversation_has_an_effect(make, ground, group):
    tricks = all_of(str(ground.root))[group]
    lines = {"main/coder": [calls(*(t.call for t in tricks)), says("Well")]}
    async with make(lines, max_pending_approvals=1_000) as world:
        await world.say("Go", "coder")
        found = await outcomes(world)
        assert missed(tricks, found) == {}
        await refuse_all(world)
        await check_nothing_came_of_it(world, ground)


@pytest.mark.feature(202)
@pytest.mark.parametrize(("group", "scope"), APPROVED)
async def test_no_trick_of_an_approved_subtask_has_an_effect(make, ground, group, scope):
    tricks = all_of(str(ground.root))[group]
    lines = {
        "main/architect": [plan(step("a", **SCOPES[scope]))],
        "a": [calls(*(t.call for t in tricks)), says("Well")],
    }
    async with make(lines, max_pending_approvals=1_000) as world:
        plan_id = await world.propose()
        await world.decide_plan(plan_id)
        found = await outcomes(world, "a")
        assert missed(tricks, found) == {}
        await refuse_all(world)
        await check_nothing_came_of_it(world, ground)


def test_the_marks_are_looked_for(ground):
    (ground.work / MARK).touch()
    assert ground.changed_inside() == {MARK}
    (ground.root / "outside" / "secret.txt").write_text("x")
    with pytest.raises(AssertionError, match="beside the workspace"):
        ground.changed_inside()
