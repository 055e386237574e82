"""A SQLite file: whose it is, what it takes, and that what nothing needs is given back."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import delete, update

from fakes.rows import begin
from gonogo.domain.errors import Busy, Conflict
from gonogo.store import Footprint, Store, Tx, patiently
from gonogo.store.schema import sessions
from gonogo.store.sessions import set_session

MIB = 1 << 20
PAGE = 4_096
"""Bytes of a page of SQLite."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "er" / "gonogo.db"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    found = Store(f"sqlite:///{file}")
    yield found
    found.close()


def grow(tx: Tx) -> None:
    """Make it some MiB larger."""
    names = [f"s{number}" for number in range(600)]
    begin(tx, *names)
    tx.execute(update(sessions).values(title="x" * 5_000))


def shrink(tx: Tx) -> None:
    tx.execute(delete(sessions).where(sessions.c.id != "s1"))


def size_of(file: Path) -> int:
    return file.stat().st_size


async def test_what_a_file_takes_and_what_of_it_nothing_needs_is_known(
    store: Store, file: Path
) -> None:
    log = file.with_name("gonogo.db-wal")
    await store.write(grow)
    full = await store.room()
    await store.write(shrink)
    gap = await store.room()

    assert full.free < MIB < full.bytes
    assert gap.bytes == full.bytes
    assert MIB < gap.free < gap.bytes
    assert gap.log == size_of(log) > 0
    assert await store.settle()
    assert await store.room() == Footprint(size_of(file), gap.free, 0)
    await store.vacuum()
    after = await store.room()
    assert (after.bytes, after.free, after.log) == (size_of(file), 0, 0)
    # Tables that are written anew may lie otherwise, by a page.
    assert after.bytes <= gap.bytes - gap.free + PAGE


async def test_a_file_is_made_anew_only_where_there_is_room_for_two_copies(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.write(grow)
    await store.write(shrink)
    room = await store.room()
    needed = 2 * (room.bytes - room.free)
    free = SimpleNamespace(free=needed - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: free)

    with pytest.raises(Conflict) as refused:
        await store.vacuum()
    assert str(refused.value) == (
        f"Rebuilding the database needs 2 times its size, and only {needed // MIB} MiB are free in "
        f"{file.parent}; free some space and try again"
    )
    assert (await store.room()).free == room.free
    free.free = needed
    await store.vacuum()
    assert (await store.room()).free == 0


async def test_a_log_that_somebody_reads_is_not_emptied_and_nobody_waits(
    store: Store, file: Path
) -> None:
    await store.write(begin)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM sessions").fetchall()
        await store.write(set_session, "s1", title="more")
        assert not await store.settle()
        other.execute("ROLLBACK")
        assert await store.settle()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_file_is_its_owners_alone_whatever_it_was(file: Path) -> None:
    Store(f"sqlite:///{file}").close()
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    names = ("gonogo.db", "gonogo.db-wal", "gonogo.db-shm")
    for other, kept in ((0o640, 0o600), (0o604, 0o600), (0o700, 0o700)):
        file.chmod(other)
        store = Store(f"sqlite:///{file}")
        assert mode(file) == kept
        assert {mode(file.with_name(name)) for name in names[1:]} <= {kept & 0o666, kept}
        store.close()


def test_a_file_that_cannot_be_made_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Busy) as refused:
        Store(f"sqlite:///{tmp_path}/file/gonogo.db")
    said, _, why = (refused.value.reason or "").rpartition(": ")
    assert said == f"{tmp_path}/file/gonogo.db cannot be opened"
    assert why in {"Not a directory", "File exists"}


@pytest.mark.parametrize("replaced", [False, True])
async def test_what_would_go_into_a_file_that_was_taken_away_is_refused_until_it_is_back(
    file: Path, replaced: bool
) -> None:
    store = Store(f"sqlite:///{file}", patience=0.1)
    try:
        # What must succeed has as long as it takes; only what is refused is in a hurry.
        with patiently():
            await store.write(begin)
        away = file.with_name("away.db")
        os.rename(file, away)
        if replaced:
            shutil.copy(away, file)
        for _ in range(2):
            with pytest.raises(Busy):
                await store.write(shrink)
            with pytest.raises(Busy):
                await store.probe()
        assert (file.name in os.listdir(file.parent)) is replaced
        os.replace(away, file)
        with patiently():
            await store.write(set_session, "s1", title="kept")
    finally:
        store.close()
    with closing(sqlite3.connect(file)) as raw:
        assert raw.execute("SELECT title FROM sessions").fetchall() == [("kept",)]
