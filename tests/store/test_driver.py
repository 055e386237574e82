"""One process drives a database: a second is refused, and a former one can write nothing more."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import anyio
import psycopg
import pytest
from anyio.to_thread import run_sync as in_thread
from sqlalchemy import Engine, text

from fakes.between import Pooler
from fakes.postgres import Server
from fakes.rows import begin
from gonogo.domain.errors import Busy, Conflict
from gonogo.domain.events import AssistantMessage
from gonogo.store import Store, Tx, driver, patiently
from gonogo.store import events as log
from gonogo.store.driver import count_transaction
from gonogo.store.events import events_after
from gonogo.store.migrate import HEAD
from gonogo.store.sessions import session_of

LIMIT = 60
ALL_LINES = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
on_postgres = pytest.mark.parametrize("kind", ["postgresql"])


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is looked at more often than in life."""
    monkeypatch.setattr(driver, "_BEAT", 0.05)


@contextmanager
def opened(url: str, *, drives: bool = True, patience: float = 1.0) -> Iterator[Store]:
    store = Store(url, drives=drives, patience=patience)
    try:
        yield store
    finally:
        store.close()


def say(tx: Tx, what: str) -> None:
    log.tell(tx, "s1", AssistantMessage(content=what))


async def said(store: Store) -> list[str]:
    return [body["content"] for body in await store.read(events_after, "s1", 0)]


def lock_pids(engine: Engine) -> list[int]:
    found = (
        "SELECT pid FROM pg_locks JOIN pg_database ON oid = database"
        " WHERE locktype = 'advisory' AND datname = current_database()"
    )
    with engine.connect() as conn:
        return list(conn.execute(text(found)).scalars())


def cut_lock(engine: Engine) -> None:
    """Cut the connection that holds the lock, and no other."""
    (pid,) = lock_pids(engine)
    with engine.connect() as conn:
        conn.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})


async def until(holds: Callable[[], object]) -> None:
    with anyio.fail_after(LIMIT):
        while not holds():  # noqa: ASYNC110 - a server tells nobody
            await anyio.sleep(0.01)


@pytest.mark.feature(234)
def test_a_second_driver_is_refused_and_told_who_the_first_one_is(
    database_url: str, kind: str
) -> None:
    with opened(database_url):
        with pytest.raises(Conflict) as refused:
            Store(database_url, drives=True, patience=0.3)
        with pytest.raises(Conflict):
            Store(database_url, drives=True, patience=0.3)

    assert f"{os.getpid()}" in str(refused.value)
    assert ("already uses" if kind == "sqlite" else "already used") in str(refused.value)
    with opened(database_url):
        pass


def test_a_link_to_a_database_is_no_other_database(tmp_path: Path) -> None:
    linked = tmp_path / "linked.db"
    linked.symlink_to(tmp_path / "gonogo.db")
    with opened(f"sqlite:///{tmp_path / 'gonogo.db'}"), pytest.raises(Conflict):
        Store(f"sqlite:///{linked}", drives=True, patience=0.3)


def test_a_driver_that_is_about_to_end_is_waited_for(database_url: str) -> None:
    first = Store(database_url, drives=True)
    ending = threading.Timer(0.3, first.close)
    ending.start()

    with opened(database_url, patience=LIMIT):
        ending.join()


async def test_who_does_not_drive_reads_and_writes_beside_the_driver(database_url: str) -> None:
    with opened(database_url) as first, opened(database_url, drives=False) as beside:
        await beside.write(begin)
        await first.write(say, "one")
        await beside.write(say, "two")

        assert await said(first) == await said(beside) == ["one", "two"]
        assert beside.driver is None


def test_who_would_change_the_schema_under_a_driver_is_refused(
    database_url: str, engine: Engine
) -> None:
    def set_version(version: str) -> None:
        with engine.connect() as conn:
            conn.execute(text("UPDATE alembic_version SET version_num = :to"), {"to": version})
            conn.commit()

    with opened(database_url):
        set_version("0003")
        with pytest.raises(Conflict):
            Store(database_url, patience=0.3)
        set_version(HEAD)
        with opened(database_url, drives=False):
            pass


def test_a_lock_that_cannot_be_had_is_no_reason_to_drive_without_it(tmp_path: Path) -> None:
    (tmp_path / "gonogo.db.lock").mkdir()

    with pytest.raises(Busy):
        Store(f"sqlite:///{tmp_path / 'gonogo.db'}", drives=True)


@on_postgres
async def test_a_lock_that_is_lost_alone_is_taken_again_and_nothing_is_missed(
    database_url: str, engine: Engine, kind: str
) -> None:
    with opened(database_url) as store:
        assert store.driver is not None
        await store.write(begin)
        async with anyio.create_task_group() as group:
            left: list[str] = []

            async def stay() -> None:
                await store.driver.stay()
                left.append("left")

            group.start_soon(stay)
            for number in range(3):
                (before,) = lock_pids(engine)
                await in_thread(cut_lock, engine)
                await until(lambda b=before: lock_pids(engine) not in ([], [b]))
                await until(lambda: store.driver.problem is None)
                await store.write(say, f"{number}")
            group.cancel_scope.cancel()

        assert left == []
        assert await said(store) == ["0", "1", "2"]


@on_postgres
async def test_a_long_text_that_the_database_lost_is_kept_again(
    database_url: str, engine: Engine, kind: str
) -> None:
    """As by a failover to a standby that was some seconds behind."""
    words = "It was said before, and at some length. " * 20
    with opened(database_url) as store:
        await store.write(begin)
        await store.write(say, words)
        lose(engine, "DELETE FROM texts")
        lose(engine, ALL_LINES)
        with patiently():
            await store.write(say, words)
    with opened(database_url) as store:
        assert (await said(store))[-1] == words


def lose(engine: Engine, statement: str) -> None:
    with engine.begin() as conn:
        conn.execute(text(statement))


async def taken_over(url: str, engine: Engine, stack: ExitStack) -> Store:
    """Have another process take a database over whose driver has lost its lock."""
    found: list[Store] = []
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            found.append(await in_thread(lambda: Store(url, drives=True, patience=LIMIT)))

        group.start_soon(wait)
        await in_thread(cut_lock, engine)
    stack.callback(found[0].close)
    return found[0]


@on_postgres
@pytest.mark.feature(234)
async def test_a_former_driver_writes_nothing_more_until_it_drives_again(
    database_url: str, engine: Engine, kind: str
) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(opened(database_url))
        assert first.driver is not None
        await first.write(begin)
        second = await taken_over(database_url, engine, stack)

        # It has not yet looked at its lock: the database itself refuses it.
        with pytest.raises(Busy):
            await first.write(say, "stale")
        with anyio.fail_after(LIMIT):
            await first.driver.stay()
        assert "already used" in (first.driver.problem or "")
        with pytest.raises(Busy):
            await first.write(say, "stale too")
        await second.write(say, "second")
        assert await said(first) == ["second"]

        async with anyio.create_task_group() as group:
            group.start_soon(first.driver.take_over)
            await anyio.sleep(0.2)
            assert "already used" in (first.driver.problem or "")
            await in_thread(second.close)
        await first.write(say, "first again")
        assert await said(first) == ["second", "first again"]


@on_postgres
async def test_what_a_driver_had_begun_before_it_was_taken_over_is_not_committed(
    database_url: str, engine: Engine, kind: str
) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(opened(database_url, patience=LIMIT))
        assert first.driver is not None
        await first.write(begin)
        begun, go = threading.Event(), threading.Event()

        def slow(tx: Tx) -> None:
            say(tx, "stale")
            begun.set()
            assert go.wait(LIMIT)

        async with anyio.create_task_group() as group:
            refused: list[str] = []

            async def write() -> None:
                with pytest.raises(Busy):
                    await first.write(slow)
                refused.append("refused")

            group.start_soon(write)
            await in_thread(begun.wait, LIMIT)
            second = await taken_over(database_url, engine, stack)
            go.set()
            await first.driver.stay()
            first.drop_waiting()

        assert refused == ["refused"]
        assert await said(second) == []


@on_postgres
async def test_a_takeover_waits_for_what_is_being_committed(
    database_url: str, engine: Engine, kind: str
) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(opened(database_url))
        await first.write(begin)
        with engine.connect() as conn:
            (writer,) = conn.execute(text("SELECT id FROM writers")).scalars()
            assert count_transaction(conn, writer) is not None
            async with anyio.create_task_group() as group:
                found: list[Store] = []

                async def take() -> None:
                    found.append(await taken_over(database_url, engine, stack))

                group.start_soon(take)
                await until(lambda: _waits(engine))
                assert found == []
                conn.commit()
        assert len(found) == 1


def _waits(engine: Engine) -> bool:
    """Whether somebody waits for a row that another transaction holds."""
    with engine.connect() as conn:
        return bool(conn.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar())


@on_postgres
def test_each_schema_of_a_database_has_a_driver_of_its_own(postgres: Server, kind: str) -> None:
    name = postgres.make()
    with psycopg.connect(postgres.url(name), autocommit=True) as conn:
        for schema in ("one", '"Two"', "empty"):
            conn.execute(f"CREATE SCHEMA {schema}")

    def url(path: str) -> str:
        return f"{postgres.url(name)}&options=-csearch_path%3D{path}"

    with opened(url("one")), opened(url('"Two"')), opened(postgres.url(name)):
        # By this path too the tables are those of a schema that is driven already.
        with pytest.raises(Conflict):
            Store(url("empty,one"), drives=True, patience=0.3)
        with pytest.raises(
            Conflict,
            match=(
                r"^The search_path in GONOGO_DB names no existing schema; create the schema, or "
                r"correct search_path$"
            ),
        ):
            Store(url("none"), drives=True, patience=0.3)
    postgres.drop(name)


@on_postgres
@pytest.mark.feature(234)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_pooler_that_shares_connections_is_refused(
    postgres: Server, database_url: str, tmp_path: Path, kind: str, size: int
) -> None:
    name = database_url.rpartition("/")[2].partition("?")[0]
    with (
        closing(Pooler(tmp_path / "pool", postgres.folder, size)) as pooler,
        pytest.raises(Conflict) as refused,
    ):
        Store(pooler.url(name), drives=True, patience=0.3)
    assert str(refused.value) == (
        "GONOGO_DB is the address of a pooler that shares connections between clients, so gonogo"
        " could not keep a second process from the same work; use the address of the server itself,"
        " or of a pool in session mode"
    )

    # Nothing of it is left: the server itself can be driven.
    with opened(database_url):
        pass


@on_postgres
async def test_who_only_looks_may_come_through_a_pooler(
    postgres: Server, database_url: str, tmp_path: Path, kind: str
) -> None:
    name = database_url.rpartition("/")[2].partition("?")[0]
    with closing(Pooler(tmp_path / "pool", postgres.folder, 3)) as pooler:
        with opened(database_url) as store:
            await store.write(begin)
        with opened(pooler.url(name), drives=False) as looking:
            found = await looking.read(session_of, "s1")

    assert found is not None
