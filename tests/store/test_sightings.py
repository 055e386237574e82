"""Sightings of foreign tools are kept once each, accepted at first sight, and bounded."""

from datetime import timedelta

import anyio

from fakes.rows import NOW, at
from gonogo.store.events import start_system_chain
from gonogo.store.people import accept, all_standings, count_seen, sight, standing_of

NAME = "mcp__docs__search"


def body(text):
    return {"name": "search", "description": text, "parameters": {}}


async def see(store, letter, minutes=0):
    return await store.write(
        at(NOW + timedelta(minutes=minutes), sight), NAME, letter, body(letter)
    )


async def test_the_first_sight_is_accepted_and_a_change_is_not_until_somebody_does(store):
    await store.write(start_system_chain)
    assert (await see(store, "a")).accepted
    assert len((await see(store, "a")).sightings) == 1
    changed = await see(store, "b", 1)
    assert not changed.accepted
    assert await store.write(accept, changed.now, "ann", actor="user:ann")
    assert not await store.write(accept, changed.now, "bob", actor="user:bob")
    standing = (await store.read(all_standings))[NAME]
    assert standing.accepted
    assert standing.now.accepted_by == "ann"
    assert await store.read(standing_of, "mcp__docs__other") is None


async def test_all_that_was_seen_comes_by_the_names_of_tools_each_with_its_changes_in_order(store):
    await store.write(start_system_chain)
    for name, letter in (("b", "1"), ("c", "1"), ("a", "1"), ("a", "2"), ("b", "2")):
        await store.write(sight, name, letter, body(letter))
    standings = await store.read(all_standings)
    assert [(name, [s.digest for s in of.sightings]) for name, of in standings.items()] == [
        ("a", ["1", "2"]), ("b", ["1", "2"]), ("c", ["1"]),
    ]  # fmt: skip


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


async def test_of_all_texts_only_the_latest_and_the_one_accepted_last_are_kept(store):
    await store.write(start_system_chain)
    for number, letter in enumerate("abc"):
        await see(store, letter, number)
    standing = await see(store, "d", 4)
    assert [s.definition.get("description") for s in standing.sightings] == ["a", None, None, "d"]
    assert [s.digest for s in standing.sightings] == ["a", "b", "c", "d"]
    assert standing.changed == ("description",)

    await store.write(accept, standing.now, "ann", actor="user:ann")
    for number, letter in enumerate("efa", 5):
        standing = await see(store, letter, number)
    kept = [(s.digest, s.definition.get("description")) for s in standing.sightings]
    assert kept == [
        ("a", None), ("b", None), ("c", None), ("d", "d"), ("e", None), ("f", None), ("a", "a"),
    ]  # fmt: skip
    assert standing.accepted, "it is as it was at first sight"


async def test_the_tools_of_one_server_are_counted_whatever_others_are_called(store):
    await store.write(start_system_chain)
    names = ["mcp__docs__a", "mcp__docs__b", "mcp__docsx__a", "mcp__docs-__a", "mcp__d_cs__a"]
    for name in names:
        for letter in "ab":
            await store.write(sight, name, letter, body(letter))
    assert await store.read(count_seen, "mcp__docs__") == 2
    assert await store.read(count_seen, "mcp__none__") == 0
