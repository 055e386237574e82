"""Sightings of foreign tools are kept once each, accepted at first sight, and bounded."""

from datetime import timedelta

import anyio

from fakes.rows import NOW
from gonogo.store.log import start_system_chain
from gonogo.store.sightings import accept, all_standings, sight, standing_of

NAME = "mcp__docs__search"


def body(text):
    return {"name": "search", "description": text, "parameters": {}}


async def see(store, letter, minutes=0):
    return await store.write(sight, NAME, letter, body(letter), NOW + timedelta(minutes=minutes))


async def test_the_first_sight_is_accepted_and_a_change_is_not_until_somebody_does(store):
    await store.write(start_system_chain)
    assert (await see(store, "a")).accepted
    assert len((await see(store, "a")).sightings) == 1
    changed = await see(store, "b", 1)
    assert not changed.accepted
    assert await store.write(accept, changed.now, "ann", NOW, actor="user:ann")
    assert not await store.write(accept, changed.now, "bob", NOW, actor="user:bob")
    standing = (await store.read(all_standings))[NAME]
    assert standing.accepted
    assert standing.now.accepted_by == "ann"
    assert await store.read(standing_of, "mcp__docs__other") is None


async def test_two_who_see_the_same_change_at_once_write_it_down_once(store):
    await store.write(start_system_chain)
    await see(store, "a")
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(see, store, "b")
    standing = await store.read(standing_of, NAME)
    assert [s.digest for s in standing.sightings] == ["a", "b"]


async def test_of_a_tool_that_changes_all_the_time_the_latest_and_the_accepted_are_kept(store):
    await store.write(start_system_chain)
    for number in range(60):
        await see(store, f"v{number}", number)
    standing = await store.read(standing_of, NAME)
    assert [standing.sightings[0].digest, standing.now.digest] == ["v0", "v59"]
    assert len(standing.sightings) == 51
