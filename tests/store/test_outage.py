"""What is away is waited for by those who can, and said in time to those who cannot."""

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import psycopg
import pytest
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from fakes.until import time_passes
from gonogo.domain.errors import Busy, Conflict, NotFound
from gonogo.store import outage as module
from gonogo.store.outage import Outage, Stopwatch, is_away, patiently, standing_still, told

LIMIT = 60
LONG, SHORT = 30.0, 0.1


class Thing:
    """Something that is away until it is back."""

    def __init__(self) -> None:
        self.is_back = False
        self.asked = 0
        self.news = anyio.Event()

    async def use(self) -> str:
        self.asked += 1
        self.news.set()
        self.news = anyio.Event()
        if not self.is_back:
            raise Busy(reason="it is somewhere else")
        return "used"

    async def until_asked(self, times: int) -> None:
        with anyio.fail_after(LIMIT):
            while self.asked < times:
                await self.news.wait()


def told_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def together(*works: Callable[[], Awaitable[Any]]) -> None:
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for work in works:
                group.start_soon(work)


async def test_who_waits_patiently_waits_longer_than_anybody_else_would() -> None:
    outage, thing = Outage("it", SHORT), Thing()
    found: list[str] = []

    async def wait() -> None:
        with patiently():
            found.append(await outage.ride(thing.use))

    async def come_back() -> None:
        # The pauses before the fifth try are at least six times as long as the patience of others.
        await thing.until_asked(5)
        thing.is_back = True

    await together(wait, come_back)

    assert found == ["used"]


async def test_who_is_in_a_hurry_is_told_in_time_and_at_once_when_it_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "monotonic", anyio.current_time)
    outage, thing = Outage("it", LONG), Thing()

    async def hurry() -> None:
        with pytest.raises(Busy):
            await outage.ride(thing.use)

    async def wait() -> None:
        # It is tried again meanwhile.
        await thing.until_asked(4)
        time_passes(LONG + 1)

    await together(hurry, wait)
    before = thing.asked
    await together(hurry)

    assert thing.asked == before + 1


async def test_what_hangs_is_left_when_the_time_is_over() -> None:
    outage = Outage("it", SHORT)

    with (
        anyio.fail_after(LIMIT),
        pytest.raises(Busy, match=r"^The database does not answer in time; try again in a moment$"),
    ):
        await outage.ride(anyio.sleep_forever)


async def test_what_is_nobodys_outage_is_raised_at_once() -> None:
    outage, asked = Outage("it", LONG), []

    async def refuse() -> None:
        asked.append(1)
        raise Conflict("no")

    with anyio.fail_after(LIMIT), pytest.raises(Conflict):
        await outage.ride(refuse)

    assert asked == [1]


async def test_the_log_says_once_that_it_is_away_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage, thing = Outage("the thing", SHORT), Thing()

    async def wait() -> None:
        with patiently():
            await outage.ride(thing.use)

    async def come_back() -> None:
        await thing.until_asked(12)
        thing.is_back = True

    with caplog.at_level(logging.WARNING):
        await together(wait, wait, wait, come_back)
        await outage.ride(thing.use)

    away, back = told_in(caplog)
    assert away == "work waits for the thing: it is somewhere else"
    assert back.startswith("the thing is back after ")


async def test_one_failure_that_the_next_attempt_mends_is_not_worth_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage, thing = Outage("it", LONG), Thing()

    async def use() -> str:
        try:
            return await thing.use()
        finally:
            thing.is_back = True

    with caplog.at_level(logging.WARNING), anyio.fail_after(LIMIT):
        assert await outage.ride(use) == "used"

    assert told_in(caplog) == []


async def test_that_it_can_be_read_does_not_show_that_it_can_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage, full, whole = Outage("it", SHORT), Thing(), Thing()
    whole.is_back = True
    with caplog.at_level(logging.WARNING), anyio.fail_after(LIMIT):
        with pytest.raises(Busy):
            await outage.ride(full.use, writes=True)
        await outage.ride(whole.use)
        assert [line.startswith("work waits") for line in told_in(caplog)] == [True]

        full.is_back = True
        await outage.ride(full.use, writes=True)

    assert [line.startswith("it is back") for line in told_in(caplog)] == [False, True]


async def test_whoever_finds_it_back_wakes_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody asks again of himself while this test lasts.
    monkeypatch.setattr(module, "_FIRST", 10 * LIMIT)
    outage, thing = Outage("it", LONG), Thing()
    found: list[str] = []

    async def wait() -> None:
        with patiently():
            found.append(await outage.ride(thing.use))

    async def find() -> None:
        await thing.until_asked(3 * 2)
        thing.is_back = True
        assert await outage.ride(thing.use) == "used"

    await together(wait, wait, wait, find)

    assert found == ["used"] * 3


@pytest.mark.parametrize("word", ["drop", "end"])
async def test_who_waits_for_nobody_any_more_is_refused(word: str) -> None:
    outage, thing = Outage("it", LONG), Thing()
    refused: list[str] = []

    async def wait() -> None:
        with patiently(), pytest.raises(Busy):
            await outage.ride(thing.use)
        refused.append("refused")

    async def stop() -> None:
        await thing.until_asked(4)
        getattr(outage, word)()

    await together(wait, wait, stop)

    assert refused == ["refused"] * 2


async def test_after_a_drop_others_wait_anew_and_after_the_end_nobody_does() -> None:
    outage, thing = Outage("it", LONG), Thing()
    outage.drop()

    async def wait() -> None:
        with patiently():
            await outage.ride(thing.use)

    async def come_back() -> None:
        await thing.until_asked(4)
        thing.is_back = True

    await together(wait, come_back)
    outage.end()
    thing.is_back, thing.asked = False, 0
    with anyio.fail_after(LIMIT), patiently(), pytest.raises(Busy):
        await outage.ride(thing.use)

    assert thing.asked == 1


async def test_a_deadline_stands_still_while_its_work_waits() -> None:
    outage, thing, watch = Outage("it", SHORT), Thing(), Stopwatch()
    with patiently(), anyio.move_on_after(LONG) as scope, watch.holding(scope):
        began = anyio.current_time()
        left = scope.deadline - began

        async def wait() -> None:
            assert await outage.ride(thing.use) == "used"

        async def come_back() -> None:
            await thing.until_asked(9)
            assert scope.deadline == float("inf")
            thing.is_back = True

        await together(wait, wait, come_back)
        now = anyio.current_time()

    assert 0 < watch.stood <= now - began
    assert scope.deadline - now == pytest.approx(left - (now - began) + watch.stood, abs=0.1)


async def test_a_deadline_passes_for_work_that_does_not_wait() -> None:
    with anyio.fail_after(LIMIT):
        with anyio.move_on_after(SHORT) as scope, Stopwatch().holding(scope):
            await anyio.sleep_forever()
        with standing_still():
            await anyio.lowlevel.checkpoint()

    assert scope.cancelled_caught


def of_sqlite(code: int) -> BaseException:
    error = sqlite3.OperationalError("said")
    error.sqlite_errorcode = code
    return error


def of_postgres(state: str | None, kind: str = "OperationalError") -> BaseException:
    cause: Any = getattr(psycopg, kind)("said")
    if state is not None:
        cause = psycopg.errors.lookup(state)("said")
    dialect = SimpleNamespace(dbapi=psycopg, dbapi_exception_translation_map={}, name="postgresql")
    dialect.loaded_dbapi = psycopg
    return DBAPIError.instance("SELECT", {}, cause, psycopg.Error, dialect=dialect)


@pytest.mark.parametrize(
    "error",
    [
        *(of_sqlite(code) for code in (
            sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_SNAPSHOT, sqlite3.SQLITE_LOCKED,
            sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_READONLY_DBMOVED,
            sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM,
            sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL,
        )),
        *(of_postgres(state) for state in (
            "08006", "53100", "53300", "55P03", "57014", "57P01", "57P02", "57P03", "58030",
            "25006", "25P03", "40001", "40P01", "XX001", "XX002",
        )),
        of_postgres(None), of_postgres(None, "InterfaceError"),
        PoolTimeout(), PendingRollbackError("invalid transaction"),
    ],
    ids=repr,
)  # fmt: skip
def test_what_passes_by_itself_is_an_outage(error: BaseException) -> None:
    assert is_away(error)
    found = told(error)
    assert isinstance(found, Busy)
    # What the driver says may name hosts and files: it is for the log.
    assert "said" not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        of_sqlite(sqlite3.SQLITE_ERROR), of_sqlite(sqlite3.SQLITE_CONSTRAINT),
        of_sqlite(sqlite3.SQLITE_CONSTRAINT_UNIQUE), of_sqlite(sqlite3.SQLITE_TOOBIG),
        of_postgres("23505"), of_postgres("42P01"), of_postgres("42601"), of_postgres("22P02"),
        of_postgres("XX000"),
        of_postgres(None, "ProgrammingError"), ValueError("said"), Conflict("said"),
        OSError(28, "No space left on device"),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_wrong_with_the_work_is_none(error: BaseException) -> None:
    assert not is_away(error)
    assert told(error) is error


@pytest.mark.parametrize(
    "error", [of_sqlite(sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY), of_postgres("23503")], ids=repr
)
def test_what_refers_to_nothing_belongs_to_what_was_deleted(error: BaseException) -> None:
    found = told(error)

    assert isinstance(found, NotFound)
    assert str(found) == "Its session has been deleted; open a new session"


def test_the_log_is_told_what_the_driver_says_on_one_line() -> None:
    long, nothing = sqlite3.OperationalError(" disk\n is  full "), sqlite3.OperationalError()
    for error in (long, nothing):
        error.sqlite_errorcode = sqlite3.SQLITE_FULL

    reasons = [found.reason for found in map(told, (long, nothing)) if isinstance(found, Busy)]
    assert reasons == ["disk is full", "OperationalError"]
