"""A database that goes away under a store: nothing is lost, nothing is written twice."""

import logging
import random
import resource
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import cast

import anyio
import pytest
from anyio.to_thread import run_sync as in_thread
from sqlalchemy import event

from fakes.between import Breaking, Proxy
from fakes.disk import small_disk
from fakes.postgres import Server
from fakes.rows import begin
from fakes.until import time_passes, until
from gonogo.domain.errors import Busy, Conflict
from gonogo.domain.events import AssistantMessage
from gonogo.store import Outbox, Store, Tx, driver, patiently, postgres
from gonogo.store import events as log
from gonogo.store.events import events_after
from gonogo.store.migrate import version_of
from gonogo.store.sessions import session_of, set_session
from gonogo.store.sqlite import SqliteBackend
from store.test_schema import engine_of

LIMIT = 120
AT_ONCE, EACH = 8, 12


def say(tx: Tx, what: str) -> str:
    log.tell(tx, "s1", AssistantMessage(content=what))
    return what


class Sayers:
    """Some who each say something again and again, patiently."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.answered: list[str] = []
        self.handed_over: list[str] = []
        store.deliver = self._take

    def _take(self, box: Outbox) -> None:
        self.handed_over += [body["content"] for body in box.events]

    async def say_all(self, trouble: Callable[[], Awaitable[object]], *, times: int) -> None:
        """Say everything, while trouble comes some times."""
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:
                for who in range(AT_ONCE):
                    group.start_soon(self._say, f"{who}")
                for _ in range(times):
                    await trouble()
                    await anyio.sleep(random.random() / 10)

    async def _say(self, who: str) -> None:
        for number in range(EACH):
            with patiently():
                self.answered.append(await self.store.write(say, f"{who}.{number}"))

    async def all_is_said_once(self) -> None:
        with patiently():
            told = await self.store.read(events_after, "s1", 0, 10_000)
        wanted = Counter(f"{who}.{number}" for who in range(AT_ONCE) for number in range(EACH))
        assert Counter(body["content"] for body in told) == wanted
        assert Counter(self.answered) == Counter(self.handed_over) == wanted
        assert [body["seq"] for body in told] == list(range(1, len(told) + 1))


@pytest.fixture
def database(mortal_postgres: Server) -> Iterator[str]:
    name = mortal_postgres.make()
    yield name
    if not mortal_postgres.runs:
        mortal_postgres.start()
    mortal_postgres.drop(name)


@contextmanager
def opened(url: str, **more: float) -> Iterator[Store]:
    store = Store(url, **more)
    try:
        yield store
    finally:
        store.close()


async def test_a_server_that_stops_and_starts_again_loses_nothing(
    mortal_postgres: Server, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    ways = iter([True, False, True])

    async def restart() -> None:
        await in_thread(partial(mortal_postgres.stop, at_once=next(ways)))
        await in_thread(mortal_postgres.start)

    with opened(mortal_postgres.url(database)) as store:
        await store.write(begin)
        sayers = Sayers(store)
        with caplog.at_level(logging.WARNING):
            await sayers.say_all(restart, times=3)
        await sayers.all_is_said_once()

    # Each outage is told once, and its end once, however many were at work.
    waits = [r.getMessage().startswith("work waits") for r in caplog.records if "store" in r.name]
    assert all(one != next_one for one, next_one in pairwise(waits))


@pytest.mark.parametrize("seed", range(3))
async def test_connections_that_are_cut_twelve_times_lose_nothing(
    mortal_postgres: Server, database: str, seed: int
) -> None:
    random.seed(seed)
    with opened(mortal_postgres.url(database)) as store:
        await store.write(begin)
        sayers = Sayers(store)
        cut = partial(in_thread, mortal_postgres.cut, database)
        await sayers.say_all(cut, times=12)
        await sayers.all_is_said_once()


@pytest.fixture
def line(mortal_postgres: Server, tmp_path: Path) -> Iterator[Breaking]:
    with closing(Breaking(tmp_path / "line", mortal_postgres.folder)) as made:
        yield made


async def test_connections_on_which_nothing_comes_any_more_are_given_up(
    mortal_postgres: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a proxy keeps them whose server has gone, and another one is in its place."""
    monkeypatch.setattr(driver, "_BEAT", 0.05)
    monkeypatch.setattr(driver, "_SILENT", 0.3)
    monkeypatch.setattr(driver, "_TAKING", 2.0)
    with (
        closing(Proxy(tmp_path / "proxy", mortal_postgres.folder)) as proxy,
        opened(proxy.url(database), drives=True) as store,
    ):
        await store.write(begin)
        sayers = Sayers(store)

        async def go() -> None:
            proxy.gone += 1

        async with anyio.create_task_group() as group:
            assert store.driver is not None
            group.start_soon(store.driver.stay)
            await sayers.say_all(go, times=2)
            group.cancel_scope.cancel()
        await sayers.all_is_said_once()


async def test_a_connection_that_can_only_read_is_kept_no_longer_than_that(
    mortal_postgres: Server, database: str
) -> None:
    """As at an address that leads to a standby for a while; each session stays as it began."""
    set_to = f"ALTER DATABASE {database} SET default_transaction_read_only ="
    with opened(mortal_postgres.url(database), patience=0.5) as store:
        with patiently():
            await store.write(begin)
        await in_thread(mortal_postgres.run, f"{set_to} on")
        await in_thread(mortal_postgres.cut, database)
        with anyio.fail_after(LIMIT):
            with pytest.raises(Busy):
                await store.probe()
            await in_thread(mortal_postgres.run, f"{set_to} off")
            with patiently():
                assert await store.write(say, "written") == "written"


async def test_a_driver_whose_server_can_only_be_read_drives_no_more_until_it_can_be_written(
    mortal_postgres: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_BEAT", 0.05)

    def alter(how: str) -> None:
        mortal_postgres.run(f"ALTER SYSTEM {how}")
        mortal_postgres.run("SELECT pg_reload_conf()")

    with opened(mortal_postgres.url(database), drives=True, patience=0.5) as store:
        driven = cast("driver.Driver", store.driver)
        async with anyio.create_task_group() as group:
            group.start_soon(driven.stay)
            try:
                await in_thread(alter, "SET default_transaction_read_only = on")
                await until(lambda: driven.problem)
            finally:
                alter("RESET default_transaction_read_only")
            await until(lambda: not driven.problem)
            group.cancel_scope.cancel()
        with patiently():
            await store.write(begin)


@pytest.mark.parametrize("breaks", ["before", "after"])
@pytest.mark.parametrize("patient", [True, False])
async def test_a_commit_whose_answer_does_not_come_is_neither_lost_nor_repeated(
    line: Breaking, database: str, breaks: str, patient: bool
) -> None:
    with opened(line.url(database)) as store:
        await store.write(begin)
        sayers = Sayers(store)
        for number in range(6):
            line.breaks = breaks
            with anyio.fail_after(LIMIT):
                if patient:
                    with patiently():
                        assert await store.write(say, f"{number}") == f"{number}"
                else:
                    assert await store.write(say, f"{number}") == f"{number}"
        told = [body["content"] for body in await store.read(events_after, "s1", 0)]

    assert line.broken == 6
    assert told == sayers.handed_over == [f"{number}" for number in range(6)]


async def test_what_a_commit_in_doubt_set_going_is_handed_over_though_nobody_waits_any_more(
    line: Breaking, mortal_postgres: Server, database: str
) -> None:
    with opened(line.url(database), patience=0.2) as store:
        with patiently():
            await store.write(begin)
        sayers = Sayers(store)
        line.breaks, line.is_shut = "after", True
        with anyio.fail_after(LIMIT):
            with pytest.raises(Busy):
                await store.write(say, "in doubt")
            assert sayers.handed_over == []
            line.is_shut = False
            while not sayers.handed_over:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.01)
            with patiently():
                told = await store.read(events_after, "s1", 0)

    assert sayers.handed_over == ["in doubt"]
    assert [body["content"] for body in told] == ["in doubt"]


async def test_what_was_rolled_back_with_its_line_sets_nothing_going(
    line: Breaking, database: str
) -> None:
    with opened(line.url(database), patience=0.2) as store:
        with patiently():
            await store.write(begin)
        sayers = Sayers(store)
        line.breaks, line.is_shut = "before", True
        with anyio.fail_after(LIMIT):
            with pytest.raises(Busy):
                await store.write(say, "never")
            line.is_shut = False
            with patiently():
                await store.write(say, "later")
                told = await store.read(events_after, "s1", 0)

    assert sayers.handed_over == ["later"]
    assert [body["content"] for body in told] == ["later"]


async def test_a_line_that_is_lost_inside_a_part_of_a_transaction_is_an_outage_too(
    mortal_postgres: Server, database: str
) -> None:
    cuts = [1]

    def work(tx: Tx) -> None:
        from gonogo.store import part

        with part(tx):
            say(tx, "whole")
            if cuts:
                cuts.pop()
                mortal_postgres.cut(database)
            set_session(tx, "s1", title="new")

    with opened(mortal_postgres.url(database)) as store:
        await store.write(begin)
        with anyio.fail_after(LIMIT), patiently():
            await store.write(work)
            told = await store.read(events_after, "s1", 0)
            found = await store.read(session_of, "s1")

    assert [body["content"] for body in told] == ["whole"]
    assert found is not None
    assert found.title == "new"


async def test_a_server_that_is_away_is_said_in_time_and_is_no_empty_database(
    mortal_postgres: Server, database: str
) -> None:
    url = mortal_postgres.url(database)
    engine = engine_of(url)
    with opened(url, patience=0.5) as store:
        with patiently():
            await store.write(begin)
        mortal_postgres.stop()
        with anyio.fail_after(LIMIT):
            with pytest.raises(Busy):
                await store.read(session_of, "s1")
            with pytest.raises(Busy):
                await store.write(say, "never")
            with pytest.raises(Busy):
                await store.probe()
        with pytest.raises(Busy):
            version_of(engine)
        with pytest.raises(Busy):
            Store(url)
        mortal_postgres.start()
        with anyio.fail_after(LIMIT), patiently():
            await store.probe()
            assert await store.read(events_after, "s1", 0) == []
    assert version_of(engine) is not None
    engine.dispose()


@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "idle"])
async def test_a_server_that_never_answers_holds_up_neither_who_asks_nor_the_end(
    mortal_postgres: Server, database: str, monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    monkeypatch.setattr(driver, "_BEAT", 0.05)
    monkeypatch.setattr(postgres, "_MANNERS", 0.2)
    store = Store(mortal_postgres.url(database), drives=True, patience=0.5)
    with anyio.fail_after(LIMIT):
        with patiently():
            await store.write(begin)
        with mortal_postgres.frozen():
            async with anyio.create_task_group() as group:
                assert store.driver is not None
                group.start_soon(store.driver.stay)
                for ask in (store.read, store.write) if is_asked else ():
                    with pytest.raises(Busy):
                        await ask(session_of, "s1")
                await anyio.sleep(0.2)
                group.cancel_scope.cancel()
            store.stop_waiting()
            await in_thread(store.close, abandon_on_cancel=True)


def test_what_is_no_database_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("What is this?\n" * 1000)
    for name in ("file", "file/below.db"):
        with pytest.raises(Busy):
            Store(f"sqlite:///{tmp_path / name}")

    assert (tmp_path / "file").read_text() == "What is this?\n" * 1000


@contextmanager
def locked(path: Path) -> Iterator[None]:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


async def test_a_file_that_another_process_locks_for_long_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "gonogo.db"
    with opened(f"sqlite:///{path}", patience=0.2) as store:
        with patiently():
            await store.write(begin)
        sayers = Sayers(store)
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:
                with locked(path):
                    with pytest.raises(Busy):
                        await store.write(say, "never")
                    with patiently():
                        group.start_soon(store.write, say, "later")
                    with pytest.raises(Busy):
                        await store.write(say, "nor this")
                    with patiently():
                        assert await store.read(events_after, "s1", 0) == []
            with patiently():
                told = await store.read(events_after, "s1", 0)

    assert [body["content"] for body in told] == sayers.handed_over == ["later"]


async def test_a_full_disk_that_is_freed_loses_nothing(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk") as disk,
        opened(f"sqlite:///{disk.folder / 'gonogo.db'}", patience=0.5) as store,
    ):
        with patiently():
            await store.write(begin)
        sayers = Sayers(store)

        async def insist() -> None:
            # A little fits into the room that the log has already.
            while True:
                await store.probe()

        async def trouble() -> None:
            await in_thread(disk.fill)
            with pytest.raises(Busy):
                await insist()
            await in_thread(disk.free)

        await sayers.say_all(trouble, times=3)
        await sayers.all_is_said_once()


async def test_what_a_full_disk_refuses_says_that_it_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        url = f"sqlite:///{disk.folder / 'gonogo.db'}"
        with opened(url, patience=LIMIT) as store:
            await store.write(begin)
            disk.fill()
            # Not the store's: that would wait for room.
            backend = cast("SqliteBackend", store._backend)
            for work in (backend.write, backend.read):
                with pytest.raises(Busy) as refused:
                    await work(fails_for_its_disk)
                said = f"the disk of {disk.folder} is full; free some space"
                assert refused.value.reason == said
            disk.free()
            with pytest.raises(Busy) as refused:
                await backend.write(fails_for_its_disk)
            assert refused.value.reason == "disk I/O error"
            # The writer outlives a folder that is gone, too.
            backend._path = tmp_path / "gone" / "gonogo.db"
            with pytest.raises(Busy) as refused:
                await backend.write(fails_for_its_disk)
            assert refused.value.reason == "disk I/O error"


@contextmanager
def limited(kind: int, most: int) -> Iterator[None]:
    """A lower limit of this process."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


async def test_what_a_limit_of_the_process_refuses_names_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "gonogo.db"
    with opened(f"sqlite:///{file}", patience=LIMIT) as store:
        await store.write(begin)
        backend = cast("SqliteBackend", store._backend)
        with limited(resource.RLIMIT_FSIZE, 2_000_000), pytest.raises(Busy) as refused:
            await backend.write(fills)
        said = "is as large as this process may make a file; raise the limit (ulimit -f)"
        assert refused.value.reason == f"{file}-wal {said}"


def fails_for_its_disk(_tx: Tx) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    raise error


async def test_a_disk_that_is_read_only_is_written_again_once_it_can_be(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        url = f"sqlite:///{disk.folder / 'gonogo.db'}"
        with opened(url) as store:
            await store.write(begin)
        disk.allow_writing(False)
        with pytest.raises(Busy) as refused:
            Store(url, drives=True)
        said = f"the disk of {disk.folder} is read-only; make it writable"
        assert refused.value.reason == said
        disk.allow_writing(True)
        with opened(url) as store, anyio.fail_after(LIMIT):
            await store.write(say, "there")
            told = await store.read(events_after, "s1", 0)

    assert [body["content"] for body in told] == ["there"]


def fills(tx: Tx) -> None:
    set_session(tx, "s1", title="x" * 4_000_000)


def refuses(tx: Tx) -> None:
    del tx
    raise Conflict("no")


@contextmanager
def no_room(store: Store) -> Iterator[None]:
    """A database file that may not grow."""

    def limit(raw: sqlite3.Connection, _record: object) -> None:
        raw.execute("PRAGMA max_page_count = 100")

    backend = cast("SqliteBackend", store._backend)
    event.listen(backend.engine, "connect", limit)
    backend._let_go()
    yield
    event.remove(backend.engine, "connect", limit)


async def test_who_is_refused_beside_one_who_has_no_room_stays_refused(tmp_path: Path) -> None:
    outcomes: dict[str, str] = {}
    with opened(f"sqlite:///{tmp_path / 'gonogo.db'}", patience=LIMIT / 4) as store:
        with patiently():
            await store.write(begin)

        async def ask(fn: Callable[[Tx], object]) -> None:
            try:
                await store.write(fn)
            except (Busy, Conflict) as error:
                outcomes[fn.__name__] = type(error).__name__

        with anyio.fail_after(LIMIT):
            with no_room(store):
                async with anyio.create_task_group() as group:
                    group.start_soon(ask, fills)
                    group.start_soon(ask, refuses)
                    await until(lambda: "refuses" in outcomes)
                    time_passes(LIMIT / 2)
            with patiently():
                await store.write(fills)
                found = await store.read(session_of, "s1")

    assert outcomes == {"fills": "Busy", "refuses": "Conflict"}
    assert found is not None
    assert len(found.title or "") == 4_000_000
