"""A driver drives while it holds its lock, says why when it does not, and waits to drive again."""

import errno
import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from gonogo.domain.errors import Busy, Conflict
from gonogo.store import driver
from gonogo.store.driver import Driver, FileLock
from gonogo.store.outage import Pool

LIMIT = 60
LOST = "the connection that holds the lock of the driver is lost"
TAKEN = "somebody has it"


class ScriptedLock:
    """A lock of which each look has its outcome, as a database would give it."""

    fence: int | None = None

    def __init__(self, **outcomes: list[object]) -> None:
        self.outcomes = outcomes
        self.asked: list[tuple[str, float | None]] = []

    def _outcome(self, what: str, seconds: float | None = None):
        self.asked.append((what, seconds))
        found = self.outcomes[what].pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def take(self, seconds: float) -> None:
        self._outcome("take", seconds)

    def claim(self) -> None:
        self._outcome("claim")

    def is_held(self) -> bool:
        return self._outcome("is_held")

    def regain(self, seconds: float) -> bool:
        return self._outcome("regain", seconds)

    def release(self) -> None:
        self.asked.append(("release", None))

    def cut(self) -> None:
        self.asked.append(("cut", None))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_BEAT", 0.001)


@contextmanager
def driving(lock: ScriptedLock) -> Iterator[tuple[Driver, list[str | None]]]:
    """A driver, and what its problem was each time that it went on."""
    went_on: list[str | None] = []
    found = Driver(lock, lambda: went_on.append(found.problem))
    yield found, went_on
    found.close()
    assert lock.asked[-1] == ("release", None)


async def finished(until: Callable[[], object]) -> None:
    with anyio.fail_after(LIMIT):
        await until()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def test_a_lock_that_is_lost_is_taken_again_however_long_the_database_is_away(caplog):
    lock = ScriptedLock(
        is_held=[True, False, False], regain=[Busy(reason="away"), Busy(reason="away"), True, False]
    )
    with caplog.at_level(logging.WARNING), driving(lock) as (found, went_on):
        await finished(found.stay)

        assert found.problem == LOST
        assert went_on == [None]
    assert said(caplog) == [
        f"nothing new begins: {LOST}", "this process drives the database again",
        f"nothing new begins: {LOST}",
    ]  # fmt: skip
    assert [what for what, _ in lock.asked] == [
        "is_held", "is_held", "regain", "regain", "regain", "is_held", "regain", "release",
    ]  # fmt: skip
    assert lock.asked[2] == ("regain", 0.001)


async def test_who_has_the_lock_instead_is_said_and_it_drives_no_more(caplog):
    lock = ScriptedLock(is_held=[False], regain=[Conflict(TAKEN)])
    with caplog.at_level(logging.WARNING), driving(lock) as (found, went_on):
        found.check()
        await finished(found.stay)

        with pytest.raises(Busy) as refused:
            found.check()
        assert str(refused.value) == (
            "This process does not own the database now; try again in a moment"
        )
        assert refused.value.reason == found.problem == TAKEN
        assert went_on == []
    assert said(caplog) == [f"nothing new begins: {LOST}", f"nothing new begins: {TAKEN}"]


async def test_it_drives_anew_once_nobody_else_does_and_says_why_not_once(caplog):
    away = Busy(reason="away")
    lock = ScriptedLock(
        take=[Conflict(TAKEN), Conflict(TAKEN), away, None, None], claim=[away, None]
    )
    with caplog.at_level(logging.WARNING), driving(lock) as (found, went_on):
        await finished(found.take_over)

        assert (found.problem, went_on) == (None, [None])
        found.check()
    assert said(caplog) == [
        f"nothing new begins: {TAKEN}", "this process drives the database again",
    ]  # fmt: skip
    assert lock.asked[:-1] == [
        ("take", 0), ("take", 0), ("take", 0), ("take", 0), ("claim", None), ("take", 0),
        ("claim", None),
    ]  # fmt: skip


class Holder(NamedTuple):
    """Who has a lock of the server's."""

    application_name: str
    pid: int
    mode: str = "ExclusiveLock"


@pytest.mark.parametrize(
    ("holder", "who"),
    [
        (None, "another process"),
        (
            Holder("gonogo 7 on host 066117d61bc0 0013", 12),
            "gonogo 7 on host (process 12 of the server)",
        ),
        (Holder("", 12), "a process (process 12 of the server)"),
    ],
)
def test_who_drives_is_said_to_who_is_refused(holder: Holder | None, who: str) -> None:
    assert driver._refusal(holder) == (
        f"The database is already used by {who}; stop that process, set GONOGO_DB to another "
        "database, or work through that process"
    )


def test_who_finds_several_at_work_together_is_told_to_start_a_server_among_them() -> None:
    said = driver._refusal(Holder("gonogo 7 on host", 12, "ShareLock"))

    assert said == (
        "Several gonogo processes share the database, such as gonogo 7 on host (process 12 of the "
        "server); start `gonogo serve --no-work` here and try again, or set GONOGO_DB to another "
        "database"
    )


def refusal(lock: FileLock) -> str:
    with pytest.raises(Conflict) as refused:
        lock.take(0)
    return str(refused.value)


def test_a_lock_of_a_file_says_whose_it_is_and_is_free_once_released(tmp_path: Path) -> None:
    path = tmp_path / "gonogo.db.lock"
    first, second = FileLock(path), FileLock(path)
    first.take(0)

    told = "already uses the database gonogo.db; stop it, or set GONOGO_DB to another database"
    assert (first.is_held(), second.is_held()) == (True, False)
    assert refusal(second) == f"Process {path.read_text().strip()} {told}"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("")
    assert refusal(second) == f"Process unknown {told}"
    path.write_text("4" * 30)
    assert refusal(second) == f"Process {'4' * 20} {told}"
    first.release()
    first.release()
    assert not first.is_held()
    assert second.regain(0)
    assert second.is_held()
    second.release()


def test_a_lock_that_cannot_be_made_is_told_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(Busy) as refused:
        FileLock(tmp_path / "none/x.lock").take(0)
    assert (
        refused.value.reason
        == f"{tmp_path}/none/x.lock cannot be locked: No such file or directory"
    )


def test_a_disk_that_knows_no_locks_is_told_and_no_file_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refusing)
    before, lock = os.listdir("/proc/self/fd"), FileLock(tmp_path / "x.lock")
    with pytest.raises(Busy) as refused:
        lock.take(60)
    assert refused.value.reason == f"{tmp_path}/x.lock cannot be locked: No locks available"
    assert (lock.is_held(), os.listdir("/proc/self/fd")) == (False, before)


async def test_threads_that_are_closed_take_nothing_more() -> None:
    pool = Pool(1, "test")
    assert await pool.run(lambda: 7) == 7
    pool.close()
    with pytest.raises(Busy) as refused:
        await pool.run(lambda: 7)
    assert refused.value.reason == "the database is closed"


async def test_where_no_more_threads_are_started_those_that_there_are_do_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refusing(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, held, done = Pool(2, "test"), threading.Event(), list[str]()

    async def ask() -> None:
        await pool.run(lambda: done.append("in its turn"))

    monkeypatch.setattr(threading.Thread, "start", refusing)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(pool.run, held.wait)
            group.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert done == []
            held.set()
    with pytest.raises(Busy) as refused:
        Pool(2, "test")
    pool.close()

    assert done == ["in its turn"]
    assert "starts no more threads" in str(refused.value.reason)
