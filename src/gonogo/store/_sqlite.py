"""SQLite: one writer thread with group commit, and readers beside it.

The writer owns one connection. It takes every function that waits, runs them in one
`BEGIN IMMEDIATE … COMMIT` with a savepoint each, and answers all of them after the commit: what
one function does wrong undoes only its own changes, and many at once share one fsync.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from gonogo.domain.errors import Internal
from gonogo.store._outbox import Outbox, open_outbox
from gonogo.store._prepared import Direct
from gonogo.store.driver import FileLock
from gonogo.store.log import flush
from gonogo.store.outage import Pool, is_away, raise_told, told

Work = Callable[[Connection], Any]
_GROUP = 256
_READERS = 4


@dataclass(slots=True)
class _Item:
    work: Work
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Any]"
    outcome: Any = None
    error: BaseException | None = None
    box: Outbox | None = None


class SqliteBackend:
    """Runs functions on one SQLite file."""

    def __init__(self, path: Path, deliver: Callable[[Outbox], None], patience: float) -> None:
        self._deliver = deliver
        self._closed = False
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.engine = _engine(path, patience)
        # Beside the file itself, by whatever link it is named.
        self.lock = FileLock(path.resolve().with_name(f"{path.resolve().name}.lock"))
        self._readers = Pool(_READERS, "gonogo-reader")
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._conn: Connection | None = None
        self._thread = threading.Thread(target=self._serve, name="gonogo-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function in a transaction that is committed before this returns.

        What nobody waits for any more when its turn comes is not begun.

        Raises:
            Busy: the database is away; nothing was written.
        """
        if self._closed:
            raise Internal("The database is closed")
        loop = asyncio.get_running_loop()
        item = _Item(work, loop, loop.create_future())
        self._items.put(item)
        return await item.answer

    async def read(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function on one consistent snapshot.

        Raises:
            Busy: the database is away.
        """
        return await self._readers.run(partial(self._read, work))

    def give_up(self) -> None:
        """Nothing goes on here that nobody waits for."""

    def ending(self) -> AbstractContextManager[None]:
        """What is closed inside ends by itself: a file answers, or says that it cannot."""
        return nullcontext()

    def close(self) -> None:
        """Finish what is queued and let go of the file."""
        self._closed = True
        self._items.put(None)
        self._thread.join()
        self._readers.close()
        self.engine.dispose()

    def _read(self, work: Work) -> Any:  # noqa: ANN401
        try:
            with Direct(self.engine) as conn, _snapshot(conn):
                return work(conn)
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise_told(error)

    def _serve(self) -> None:
        while (items := self._next_group()) is not None:
            try:
                self._run_group(self._connection(), items)
            except BaseException as error:  # The writer must outlive any failure.
                self._let_go()
                for item in items:
                    item.error = item.error or told(error)
            for item in items:
                # Whoever asked may be gone, its event loop closed: what is committed stays so.
                with suppress(RuntimeError):
                    item.loop.call_soon_threadsafe(self._answer, item)
        self._let_go()

    def _connection(self) -> Connection:
        self._conn = self._conn or Direct(self.engine)
        return self._conn

    def _let_go(self) -> None:
        """Begin anew with the file: what was wrong with it may be held in the connection."""
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.invalidate()
            conn.close()

    def _next_group(self) -> list[_Item] | None:
        first = self._items.get()
        if first is None:
            return None
        group = [first]
        while len(group) < _GROUP:
            try:
                item = self._items.get_nowait()
            except queue.Empty:
                break
            if item is None:
                self._items.put(None)
                break
            group.append(item)
        return group

    def _run_group(self, conn: Connection, items: list[_Item]) -> None:
        _raw(conn).execute("BEGIN IMMEDIATE")
        for item in items:
            if not item.answer.cancelled():
                _run_item(conn, item, alone=len(items) == 1)
        _raw(conn).execute("COMMIT")

    def _answer(self, item: _Item) -> None:
        try:
            if item.error is None and item.box is not None:
                self._deliver(item.box)
        finally:
            _settle(item)


def _settle(item: _Item) -> None:
    if item.answer.cancelled():
        return
    if item.error is not None:
        item.answer.set_exception(item.error)
    else:
        item.answer.set_result(item.outcome)


def _run_item(conn: Connection, item: _Item, *, alone: bool) -> None:
    raw = _raw(conn)
    if not alone:
        raw.execute("SAVEPOINT one")
    try:
        item.box = open_outbox(conn)
        item.outcome = item.work(conn)
        flush(conn)
    except Exception as error:
        # SQLite may have rolled everything back by itself; the others try again as well.
        if is_away(error):
            raise
        item.error = error
        raw.execute("ROLLBACK" if alone else "ROLLBACK TO one")
        if alone:
            raw.execute("BEGIN IMMEDIATE")
    if not alone:
        raw.execute("RELEASE one")


def _raw(conn: Connection) -> sqlite3.Connection:
    return conn.connection.driver_connection  # type: ignore[return-value]


@contextmanager
def _snapshot(conn: Connection) -> Generator[None]:
    try:
        conn.exec_driver_sql("BEGIN")
        yield
        conn.exec_driver_sql("ROLLBACK")
    except BaseException as error:
        if is_away(error):
            conn.invalidate()
        else:
            conn.exec_driver_sql("ROLLBACK")
        raise


def _engine(path: Path, patience: float) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        isolation_level="AUTOCOMMIT",
        poolclass=QueuePool,
        pool_size=_READERS + 1,
        max_overflow=1,
        connect_args={"check_same_thread": False, "timeout": patience},
    )
    event.listen(engine, "connect", _prepare)
    return engine


def _prepare(raw: sqlite3.Connection, _record: object) -> None:
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "temp_store=MEMORY",
        "cache_size=-16000",
    ):
        raw.execute(f"PRAGMA {pragma}")
