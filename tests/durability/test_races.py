"""Thousands of decisions that two processes take at the same moment: each has one winner.

`scripts/test --nightly` runs 10,000 on each database, any other run 50.
"""

from collections import Counter

import anyio.to_thread
import pytest

from durability import log_holds
from durability.evidence import read
from durability.ground import Ground
from durability.races import (
    BATCH,
    RACES,
    Race,
    ask,
    begin_races,
    nothing_said,
    race,
    run_two,
    unfair,
)
from durability.test_restart import is_a, living, times, until
from fakes.nursery import Nursery
from gonogo.store import Store
from plugins.nightly import examples

MANY = examples(50, nightly=10_000)
WRITES = 200


@pytest.mark.feature(203)
async def test_of_two_processes_on_one_database_one_wins_each_of_thousands_of_races(
    store: Store, database_url: str, born: Nursery, record_property
):
    await store.write(begin_races)
    asked, said = dict[str, Race](), nothing_said()
    with run_two(born, database_url) as two:
        for first in range(0, MANY, BATCH):
            numbers = range(first, min(first + BATCH, MANY))
            keys = await store.write(ask, numbers)
            batch = [(key, RACES[n % len(RACES)]) for key, n in zip(keys, numbers, strict=True)]
            asked |= dict(batch)
            await anyio.to_thread.run_sync(race, two, batch, said)
    found = read(database_url, None, (), ())
    won = Counter(row["decided_by"] for row in found.tables["approvals"])
    record_property("won", dict(won))

    assert len(found.tables["approvals"]) == MANY
    assert list(unfair(found, asked, said)) == []
    assert won.total() == MANY
    assert set(won) == {"ann", "bob"}
    kept = [each for each in log_holds.ALL if each is not log_holds.questions_are_decided_once]
    assert [problem for each in kept for problem in each(found)] == []


@pytest.mark.feature(203)
async def test_of_two_client_processes_one_wins_each_of_hundreds_of_races(ground: Ground):
    writes = [
        {"name": "write_file", "arguments": {"path": f"{n}.txt", "content": "x"}}
        for n in range(WRITES)
    ]
    switch = {"calls": [{"name": "switch_mode", "arguments": {"mode": "coder"}}]}
    ground.model.script({"rules": [
        {"when": {"user": "write"}, "replies": [switch, {"calls": writes}, {"text": "Done"}]}
    ]})  # fmt: skip
    said = nothing_said()
    async with living(ground) as (server, ann, wire):
        await wire.say("write")
        await until(ann, times(WRITES, is_a("approval_requested", subject="write_file")))
        asked = {each.approval_id: each.arguments["path"] for each in await wire.pending()}
        words = Race("tool", {"ann": ("approve",), "bob": ("reject",)})
        with run_two(ground.nursery, server.url, server.token) as two:
            batch = [(key, words) for key in asked]
            await anyio.to_thread.run_sync(race, two, batch, said)
        await until(ann, is_a("assistant_message", is_final=True))

    assert len(asked) == WRITES
    taken = {key: [name for name, [[_, end, _]] in by.items() if end == "taken"]
             for key, by in said.items()}  # fmt: skip
    assert [names for names in taken.values() if len(names) != 1] == []
    made = {path.name for path in ground.workspace.glob("*.txt")} - {"old.txt"}
    assert made == {asked[key] for key, names in taken.items() if names == ["ann"]}
    assert ground.problems() == []
