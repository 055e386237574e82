"""Tricks and honest calls in any order, and a person who approves some and rejects some: after each
step nothing has changed but what was allowed.

A walk is decided by its seed alone.
"""

import random
from pathlib import PurePath

import pytest

from adversary.tricks import all_of
from fakes.world import call, calls, of, says, write
from gonogo.domain.paths import write_guard
from gonogo.store.calls import call_of

TURNS, CALLS = 6, 10
NEVER_APPROVED = {"read_file", "search_in_code", "execute_command"}
"""What the person would show the attacker, or let it run for long."""


def honest(dice):
    n = dice.randint(0, 5)
    return dice.choice([
        write(f"f{n}.txt", f"{n}\n"), call("read_file", path="app.py"), call("list_files"),
        call("create_directory", path=f"new{n}"), call("delete_file", path=f"f{n}.txt"),
        call("edit_file", path="src/lib.py", old="x = 1", new="x = 2"),
        call("move_file", source=f"f{n}.txt", destination=f"g{n}.txt"),
    ])  # fmt: skip


async def person(world, dice):
    """Answer every question, one way or the other."""
    while pending := await world.pending():
        question = dice.choice(pending)
        may = question.tool_name not in NEVER_APPROVED and dice.random() < 0.5
        await world.decide(question.call_id, "approve" if may else "reject")


async def allowed_paths(world):
    """The files that calls were allowed to change, by the calls' own rows and the audit."""
    found = set()
    for entry in await world.audit("tool.allowed"):
        row = await world.runtime.parts.store.read(call_of, entry.details["call_id"])
        assert entry.details["source"] in {"person", "rule", "grant", "default"}, entry
        found |= {effect["path"] for effect in row.effects}
        if row.tool == "create_directory":
            found.add(row.arguments["path"])
    return found


@pytest.mark.feature(202)
@pytest.mark.parametrize("seed", range(4))
async def test_a_walk_of_tricks_changes_only_what_was_allowed(make, ground, seed):
    dice = random.Random(seed)
    tricks = [trick for group in all_of(str(ground.root)).values() for trick in group]
    replies = [
        calls(*(honest(dice) if dice.random() < 0.4 else dice.choice(tricks).call
                for _ in range(CALLS)))
        for _ in range(TURNS)
    ]  # fmt: skip
    lines = {"main/coder": [line for reply in replies for line in (reply, says("Well"))]}
    async with make(lines) as world:
        for _ in range(TURNS):
            await world.say("Go", "coder")
            await person(world, dice)
            await world.idle()
            changed = ground.changed_inside()
            allowed = await allowed_paths(world)
            above = {str(folder) for path in allowed for folder in PurePath(path).parents}
            assert changed <= allowed | above
            assert not {path for path in changed if write_guard(path) == "deny"}
        results = of(await world.log(), "tool_result")
        assert len(results) == TURNS * CALLS
