"""Tricks and honest calls in any order, and a person who approves some and rejects some: after each
step nothing has changed but what was allowed. A walk that fails is made as short as it can be.
"""

from pathlib import PurePath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adversary.ground import Ground
from adversary.tricks import all_of
from fakes.world import call, calls, of, says, world_of, write
from gonogo.domain.paths import write_guard
from gonogo.store.calls import call_of

NEVER_APPROVED = {"read_file", "search_in_code", "execute_command"}
"""What the person would show the attacker, or let it run for long."""
HONEST = (
    *(write(f"f{n}.txt", f"{n}\n") for n in range(3)),
    *(call("delete_file", path=f"f{n}.txt") for n in range(3)),
    *(call("move_file", source=f"f{n}.txt", destination=f"g{n}.txt") for n in range(3)),
    call("create_directory", path="new"), call("read_file", path="app.py"), call("list_files"),
    call("edit_file", path="src/lib.py", old="x = 1", new="x = 2"),
)  # fmt: skip
TRICKS = sum(len(group) for group in all_of("/").values())
WISHES = st.sampled_from(HONEST) | st.integers(0, TRICKS - 1)
"""An honest call, or the number of a trick."""
TURNS = st.tuples(st.lists(WISHES, min_size=1, max_size=8), st.lists(st.booleans(), max_size=8))
"""What is asked for, and which questions are approved, in order."""


async def person(world, answers):
    """Answer every question, one way or the other."""
    yes = iter(answers)
    while pending := await world.pending():
        may = next(yes, False) and pending[0].tool_name not in NEVER_APPROVED
        await world.decide(pending[0].call_id, "approve" if may else "reject")


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
@settings(
    max_examples=6, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(walk=st.lists(TURNS, min_size=1, max_size=4))
async def test_a_walk_of_tricks_changes_only_what_was_allowed(tmp_path_factory, walk):
    ground = Ground(tmp_path_factory.mktemp("walk") / "ground")
    tricks = [trick.call for group in all_of(str(ground.root)).values() for trick in group]
    replies = [[tricks[w] if isinstance(w, int) else w for w in wishes] for wishes, _ in walk]
    lines = {"main/coder": [line for reply in replies for line in (calls(*reply), says("Well"))]}
    async with world_of(ground.root, lines) as world:
        for _, answers in walk:
            await world.say("Go", "coder")
            await person(world, answers)
            await world.idle()
            changed = ground.changed_inside()
            allowed = await allowed_paths(world)
            above = {str(folder) for path in allowed for folder in PurePath(path).parents}
            assert changed <= allowed | above
            assert not {path for path in changed if write_guard(path) == "deny"}
        results = of(await world.log(), "tool_result")
        assert len(results) == sum(map(len, replies))
    assert ground.rows_that_lie(None) == []
