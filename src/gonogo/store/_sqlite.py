"""SQLite: one writer thread with group commit, and readers beside it.

The writer owns one connection. It takes every function that waits, runs them in one
`BEGIN IMMEDIATE … COMMIT` with a savepoint each, and answers all of them after the commit: what
one function does wrong undoes only its own changes, and many at once share one fsync.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from gonogo.domain.errors import Busy, Internal
from gonogo.store._outbox import Outbox, open_outbox
from gonogo.store._prepared import Direct
from gonogo.store.log import flush

Work = Callable[[Connection], Any]
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_SNAPSHOT, sqlite3.SQLITE_LOCKED})
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
        self._limiter = anyio.CapacityLimiter(_READERS)
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="gonogo-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function in a transaction that is committed before this returns."""
        if self._closed:
            raise Internal("The database is closed")
        loop = asyncio.get_running_loop()
        item = _Item(work, loop, loop.create_future())
        self._items.put(item)
        return await item.answer

    async def read(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function on one consistent snapshot."""
        return await anyio.to_thread.run_sync(partial(self._read, work), limiter=self._limiter)

    def close(self) -> None:
        """Finish what is queued and let go of the file."""
        self._closed = True
        self._items.put(None)
        self._thread.join()
        self.engine.dispose()

    def _read(self, work: Work) -> Any:  # noqa: ANN401
        with Direct(self.engine) as conn:
            conn.exec_driver_sql("BEGIN")
            try:
                return work(conn)
            finally:
                conn.exec_driver_sql("ROLLBACK")

    def _serve(self) -> None:
        with Direct(self.engine) as conn:
            while (items := self._next_group()) is not None:
                self._run_group(conn, items)

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
        try:
            _raw(conn).execute("BEGIN IMMEDIATE")
            for item in items:
                _run_item(conn, item, alone=len(items) == 1)
            _raw(conn).execute("COMMIT")
        except BaseException as error:  # The writer must outlive any failure.
            if _raw(conn).in_transaction:
                _raw(conn).execute("ROLLBACK")
            for item in items:
                item.error = item.error or _told(error)
        for item in items:
            # Whoever asked may be gone, its event loop closed: what is committed stays committed.
            with suppress(RuntimeError):
                item.loop.call_soon_threadsafe(self._answer, item)

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
        item.error = error
        raw.execute("ROLLBACK" if alone else "ROLLBACK TO one")
        if alone:
            raw.execute("BEGIN IMMEDIATE")
    if not alone:
        raw.execute("RELEASE one")


def _raw(conn: Connection) -> sqlite3.Connection:
    return conn.connection.driver_connection  # type: ignore[return-value]


def _told(error: BaseException) -> BaseException:
    if getattr(error, "sqlite_errorcode", None) in _BUSY:
        return Busy("The database stayed locked; try again in a moment")
    return error


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
