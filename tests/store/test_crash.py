"""Acknowledged is durable: kill -9 of the writer, at any moment, loses nothing that it said."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from fakes.rows import begin
from gonogo.store import Store, log

HERE = Path(__file__).parent
MANY = "100000"


@contextmanager
def writer(url: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "writer.py"), url, name, MANY],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={"PYTHONPATH": f"{HERE.parent}:{HERE.parents[1] / 'src'}", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        process.stdin.write(b"go\n")
        process.stdin.flush()
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


def killed_after(url: str, name: str, lines: int) -> list[str]:
    """Everything that a writer said until it was killed behind so many lines."""
    with writer(url, name) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(lines)]
        assert all(said), "the writer ended by itself"
        process.kill()
        said += process.stdout.read().splitlines(keepends=True)
    return [line.decode().rstrip() for line in said if line.endswith(b"\n")]


async def test_a_commit_is_on_the_disk_before_it_is_acknowledged(store, kind):
    def settings(conn):
        asked = {
            "sqlite": ["PRAGMA synchronous", "PRAGMA journal_mode", "PRAGMA foreign_keys"],
            "postgresql": ["SHOW synchronous_commit"],
        }
        return [conn.exec_driver_sql(each).scalar() for each in asked[kind]]

    full = {"sqlite": [2, "wal", 1], "postgresql": ["on"]}
    assert await store.write(settings) == full[kind]


async def test_kill_minus_nine_loses_nothing_that_was_acknowledged(database_url, engine):
    store = Store(database_url)
    await store.write(begin)
    store.close()
    chance = random.Random(7)
    said = [
        line
        for round_ in range(3)
        for line in killed_after(database_url, f"w{round_}", chance.randrange(1, 200))
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
    assert await store.read(log.verify_chain, "s1") == (count, [])
    store.close()


@pytest.mark.parametrize("kind", ["sqlite"], indirect=False)
async def test_the_file_is_sound_after_a_kill(database_url, engine, kind):
    store = Store(database_url)
    await store.write(begin)
    store.close()
    killed_after(database_url, "w", 50)

    with engine.connect() as conn:
        assert conn.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
        assert conn.execute(text("PRAGMA foreign_key_check")).all() == []
