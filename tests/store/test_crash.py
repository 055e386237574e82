"""Acknowledged is durable: kill -9 of the writer, at any moment, loses nothing that it said."""

import random

import pytest
from sqlalchemy import text

from fakes.nursery import Nursery
from fakes.rows import begin, verify_chain
from gonogo.store import Store
from gonogo.store import events as log
from store.writing import Writer

MANY = 100_000


def killed_after(born: Nursery, url: str, name: str, lines: int) -> list[str]:
    """Everything that a writer said until it was killed behind so many lines."""
    with Writer(born, url, name, MANY) as writer:
        writer.go()
        said = [writer.said.readline() for _ in range(lines)]
        assert all(said), "the writer ended by itself"
        writer.process.kill()
        said += writer.said.read().splitlines(keepends=True)
    return [line.rstrip() for line in said if line.endswith("\n")]


async def test_a_commit_is_on_the_disk_before_it_is_acknowledged(store, kind):
    def settings(tx):
        asked = {
            "sqlite": ["PRAGMA synchronous", "PRAGMA journal_mode", "PRAGMA foreign_keys"],
            "postgresql": ["SHOW synchronous_commit"],
        }
        return [tx.conn.exec_driver_sql(each).scalar() for each in asked[kind]]

    full = {"sqlite": [2, "wal", 1], "postgresql": ["on"]}
    assert await store.write(settings) == full[kind]


async def test_kill_minus_nine_loses_nothing_that_was_acknowledged(born, database_url, engine):
    store = Store(database_url)
    await store.write(begin)
    store.close()
    chance = random.Random(7)
    said = [
        line
        for round_ in range(3)
        for line in killed_after(born, database_url, f"w{round_}", chance.randrange(1, 200))
    ]

    store = Store(database_url)
    count = await store.read(log.last_seq, "s1")
    events = await store.read(log.events_after, "s1", 0, count + 1)
    assert [event["seq"] for event in events] == list(range(1, count + 1))
    kept = {f"{event['seq']} {event['content']}" for event in events}
    assert len(set(said)) == len(said)
    assert set(said) - kept == set()
    # What the dying writer had committed but not said is at most one group of its tasks.
    assert len(kept) - len(said) <= 3 * 2 * 8
    assert await store.read(verify_chain, "s1") == (count, [])
    store.close()


@pytest.mark.parametrize("kind", ["sqlite"], indirect=False)
async def test_the_file_is_sound_after_a_kill(born, database_url, engine, kind):
    store = Store(database_url)
    await store.write(begin)
    store.close()
    killed_after(born, database_url, "w", 50)

    with engine.connect() as conn:
        assert conn.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
        assert conn.execute(text("PRAGMA foreign_key_check")).all() == []
