"""SQLite: one writer thread with group commit, and readers beside it.

The writer owns one connection. It takes all functions that wait, runs them in one
`BEGIN IMMEDIATE … COMMIT` with a savepoint for each, and answers all of them after the commit. So
many functions share one fsync, and one that fails undoes only its own changes.
"""

import asyncio
import json
import logging
import os
import queue
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from gonogo.disks import disk_problem
from gonogo.domain.errors import Busy, Conflict, Internal, because, together
from gonogo.store.driver import FileLock
from gonogo.store.events import extent_of, flush, hash_at
from gonogo.store.outage import Pool, is_away, raise_told, told
from gonogo.store.transaction import (
    Clock,
    Direct,
    Extent,
    Footprint,
    KnownPlans,
    Outbox,
    Recent,
    Tx,
)

# Known heads: a small file beside a database records the ends of its audit chains.
#
# A database that lost its write-ahead log, or that was replaced by an old copy, looks complete and
# does not know what was done since. The file knows. It is written after commits, at most once a
# second and without a sync. So it is never ahead of the database; after a crash it may be behind,
# which does no harm.

_LOG = logging.getLogger(__name__)
_EVERY = 1.0
"""Seconds between two writes of the file."""
_MOST = 100
"""How many chains the file names: those that got the latest entries."""
_NAMED = 3
_EXTENTS = TypeAdapter(dict[str, Extent])


class KnownHeads:
    """The file that records the ends of a database's chains, outside the database."""

    def __init__(self, database: Path) -> None:
        """Read the file of a database, if there is one that can be read."""
        self.database = database
        self.path = database.with_name(f"{database.name}-heads")
        self._extents = self._read()
        self._is_new = False
        self._written = -_EVERY

    def missing(self, tx: Tx | None, *, accept: bool) -> list[str]:
        """What was in the database and is not there any more.

        Args:
            tx: None if there is no database at all.
            accept: Continue with what is there.

        Raises:
            Conflict: something is missing and `accept` is False; the text says how to continue.
            Busy: the database cannot be read.
        """
        lost = [said for chain, known in self._extents.items() for said in _lost(tx, chain, known)]
        if lost and not accept:
            left = len(lost) - _NAMED
            more = because(" (and {count} more)", count=left) if left > 0 else ""
            raise Conflict(
                "The database {database} is older than gonogo's last record of it: "
                "{lost}{more}. Its -wal file was lost, or an older copy replaced it, so later "
                "work is missing from it. Restore the newer database together with its -wal "
                "file. To continue with this one, check what changed in your files, then accept "
                "it: start once with --accept-restored (gonogo serve or gonogo db migrate)",
                database=self.database, lost=together(lost[:_NAMED]), more=more,
            )  # fmt: skip
        if lost:
            self._extents = {}
        return lost

    def saw(self, extents: Mapping[str, Extent]) -> None:
        """Remember the ends of chains after a commit, and write the file if it is time."""
        for chain, extent in extents.items():
            self._extents.pop(chain, None)
            self._extents[chain] = extent
        while len(self._extents) > _MOST:
            del self._extents[next(iter(self._extents))]
        self._is_new = self._is_new or bool(extents)
        if self._is_new and not self.due:
            self.write()

    @property
    def due(self) -> float | None:
        """Seconds until the file must be written; None: not before the next commit."""
        if not self._is_new:
            return None
        return max(0.0, self._written + _EVERY - time.monotonic())

    def write(self) -> None:
        """Write the file, if there is something new."""
        if not self._is_new:
            return
        self._is_new, self._written = False, time.monotonic()
        new = self.path.with_name(f"{self.path.name}-{os.getpid()}")
        try:
            with open(new, "w", opener=_private) as file:
                json.dump(self._extents, file)
            new.replace(self.path)
        except OSError as failure:
            # For example a full disk: the database will report that by itself.
            _LOG.warning("%s cannot be written: %s", self.path, failure.strerror)
            with suppress(OSError):
                new.unlink(missing_ok=True)

    def _read(self) -> dict[str, Extent]:
        try:
            return _EXTENTS.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError):
            # Cut off by a crash of the machine, as the file is not synced.
            _LOG.warning("%s cannot be read; it is made anew", self.path)
            return {}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _lost(tx: Tx | None, chain: str, known: Extent) -> Iterator[str]:
    try:
        found = tx and extent_of(tx, chain)
    except DBAPIError as error:
        if is_away(error):
            raise_told(error)
        # The database does not even have the tables.
        found = None
    if tx is None or found is None:
        yield because(
            "chain {chain} had {known} entries, and is gone", chain=chain, known=known.entries
        )
    elif found.entries < known.entries:
        yield because(
            "chain {chain} had {known} entries, and now has {found}",
            chain=chain, known=known.entries, found=found.entries,
        )  # fmt: skip
    elif found.events is not None and found.events < (known.events or 0):
        yield because(
            "session {session} had {known} events, and now has {found}",
            session=chain, known=known.events, found=found.events,
        )  # fmt: skip
    elif hash_at(tx, chain, known.entries) not in (None, known.hash):
        yield because(
            "entry {seq} of chain {chain} was another one", seq=known.entries, chain=chain
        )


Work = Callable[[Tx], Any]
_COPIES = 2
"""While a file is rebuilt, there is a copy beside the old file, and another one in the log."""
_GROUP = 256
_READERS = 4
_MOMENT = 0.005
"""Seconds until the next try if another connection is just switching the file to WAL."""


class _Item(Struct):
    work: Work
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Any]"
    bare: bool = False
    """It is not a transaction, and runs alone."""
    outcome: Any = None
    error: BaseException | None = None
    box: Outbox | None = None


class SqliteBackend:
    """Runs functions on one SQLite file."""

    def __init__(
        self, path: Path, deliver: Callable[[Outbox], None], patience: float, clock: Clock
    ) -> None:
        self._deliver, self._clock = deliver, clock
        self._closed = False
        # The files beside the database are beside the real file, even if the path is a link.
        self._path = path.resolve()
        _make_private(self._path)
        self._opened, self._file = path, path.stat()
        self.engine = _engine(path, patience)
        event.listen(self.engine, "do_connect", lambda *_: self._check_file())
        self._recent, self._plans = Recent(), KnownPlans()
        self._known = KnownHeads(self._path)
        self.lock = FileLock(self._path.with_name(f"{self._path.name}.lock"))
        self._readers = Pool(_READERS, "gonogo-reader")
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._next: list[_Item | None] = []
        """What was taken from the queue but does not belong to the last group."""
        self._conn: Direct | None = None
        self._thread = threading.Thread(target=self._serve, name="gonogo-writer", daemon=True)
        self._thread.start()

    def explain(self, error: BaseException) -> BaseException:
        """Add the problem of the disk to an error, if there is one: SQLite says only "disk I/O"."""
        files = (self._path, self._path.with_name(f"{self._path.name}-wal"))
        if isinstance(error, Busy) and (problem := disk_problem(self._path.parent, *files)):
            error.reason = problem
        return error

    def damage(self) -> str | None:
        """The first damage that SQLite finds in the file; None if it finds none.

        Raises:
            Busy: the file cannot be read at all.
        """
        try:
            with self.engine.connect() as conn:
                said = conn.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        except DBAPIError as error:
            raise_told(error)
        return None if said == "ok" else str(said)

    async def write(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function in a transaction that is committed before this returns.

        A function is not begun if nobody waits for it any more.

        Raises:
            Busy: the database is away; nothing was written.
        """
        return await self._order(work)

    async def settle(self) -> bool:
        """Copy the log into the file and empty it. False: somebody still reads from the log."""
        return await self._order(_empty_log, bare=True)

    async def vacuum(self) -> None:
        """Rebuild the file without its gaps; writes wait until that is done.

        Raises:
            Conflict: there is not enough room on the disk.
            Busy: somebody else held the file for too long.
        """
        room = await self.room()
        free = shutil.disk_usage(self._path.parent).free
        if free < _COPIES * (room.bytes - room.free):
            raise Conflict(
                "Rebuilding the database needs {times} times its size, and only {free} MiB are "
                "free in {parent}; free some space and try again",
                times=_COPIES, free=free >> 20, parent=self._path.parent,
            )  # fmt: skip
        await self._order(_vacuum, bare=True)

    async def room(self) -> Footprint:
        """The sizes of the file and of its log."""
        room = await self.read(_room)
        log = self._path.with_name(f"{self._path.name}-wal")
        return room._replace(log=log.stat().st_size if log.exists() else 0)

    async def _order(self, work: Work, *, bare: bool = False) -> Any:  # noqa: ANN401
        if self._closed:
            raise Internal("The database is closed; start gonogo again")
        loop = asyncio.get_running_loop()
        item = _Item(work, loop, loop.create_future(), bare=bare)
        self._items.put(item)
        return await item.answer

    async def read(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function on one consistent snapshot.

        Raises:
            Busy: the database is away.
        """
        return await self._readers.run(partial(self._read, work))

    def missing(self, *, accept: bool = False) -> list[str]:
        """What was in the file and is not there any more.

        Args:
            accept: Continue with what is there.

        Raises:
            Conflict: something is missing, and `accept` is False.
            Busy: the file cannot be read.
        """
        try:
            with Direct(self.engine) as conn:
                return self._known.missing(self._tx(conn), accept=accept)
        except SQLAlchemyError as error:
            raise_told(error)

    def give_up(self) -> None:
        """Do nothing: this backend has no work in the background."""

    def ending(self) -> AbstractContextManager[None]:
        """A context for closing that does nothing: a file always answers, or fails."""
        return nullcontext()

    def close(self) -> None:
        """Finish what is queued, and close the file."""
        self._closed = True
        self._items.put(None)
        self._thread.join()
        self._readers.close()
        self.engine.dispose()

    def _read(self, work: Work) -> Any:  # noqa: ANN401
        try:
            with Direct(self.engine) as conn, _snapshot(conn):
                return work(self._tx(conn))
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise self.explain(told(error)) from error

    def _serve(self) -> None:
        while (items := self._next_group()) is not None:
            try:
                self._run_group(self._connection(), items)
            except BaseException as error:  # The writer must outlive any failure.
                # First explain: closing the last connection shortens a file that is too large.
                said = self.explain(told(error))
                self._let_go()
                for item in items:
                    item.error = item.error or said
            for loop in {item.loop for item in items}:
                # The caller's event loop may be closed; what is committed stays committed.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._answer, [i for i in items if i.loop is loop])
        self._let_go()
        self._known.write()

    def _connection(self) -> Direct:
        if self._conn is None:
            self._conn = Direct(self.engine)
            self._conn.writes_plans = self._plans.told_of_write
        return self._conn

    def _check_file(self) -> None:
        """Check that this process writes to the file that the next process will open.

        Raises:
            Busy: the file was removed, or another one is in its place.
        """
        with suppress(FileNotFoundError):
            if os.path.samestat(self._opened.stat(), self._file):
                return
        raise Busy(
            reason=because(
                "the file {path} was removed or replaced; put it back, or stop gonogo and start it "
                "again",
                path=self._opened,
            )
        )

    def _let_go(self) -> None:
        """Drop the connection, so that the next use opens a new one: the fault may be in it."""
        conn, self._conn = self._conn, None
        self._plans.forget()
        if conn is not None:
            conn.invalidate()
            conn.close()

    def _next_group(self) -> list[_Item] | None:
        first = self._next.pop() if self._next else self._first()
        if first is None:
            return None
        group = [first]
        # Nobody else takes from the queue, so `get_nowait` cannot fail.
        while len(group) < _GROUP and not first.bare and not self._items.empty():
            item = self._items.get_nowait()
            if item is None or item.bare:
                self._next.append(item)
                break
            group.append(item)
        return group

    def _first(self) -> _Item | None:
        while True:
            try:
                return self._items.get(timeout=self._known.due)
            except queue.Empty:
                self._known.write()

    def _run_group(self, conn: Direct, items: list[_Item]) -> None:
        if items[0].bare:
            items[0].outcome = items[0].work(self._tx(conn))
            return
        raw = conn.raw
        raw.execute("BEGIN IMMEDIATE")
        self._plans.begin(*raw.execute("PRAGMA data_version").fetchone())
        for item in items:
            if not item.answer.cancelled():
                _run_item(raw, self._tx(conn, self._plans), item, alone=len(items) == 1)
        self._check_file()
        raw.execute("COMMIT")
        for box in (item.box for item in items if item.box and item.error is None):
            self._recent.add(box.texts)
            self._known.saw(box.extents)

    def _tx(self, conn: Connection, known: KnownPlans | None = None) -> Tx:
        return Tx(conn, self._clock(), self._recent, known)

    def _answer(self, items: Sequence[_Item]) -> None:
        for item in items:
            try:
                if item.error is None and item.box is not None:
                    self._deliver(item.box)
            except Exception as error:
                said = "what a transaction set going was not handed over"
                item.loop.call_exception_handler({"message": said, "exception": error})
            _settle(item)


def _make_private(path: Path) -> None:
    """Let only the owner access the database, whatever its folder allows; its log gets the same.

    A file that exists is not opened here: to close it would release this process's locks on it.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for name in ("", "-wal", "-shm"):
        file = path.with_name(f"{path.name}{name}")
        # A file of another user, or on a read-only disk, stays as it is.
        with suppress(OSError):
            if stat.S_IMODE(file.stat().st_mode) & 0o077:
                file.chmod(0o600)


def _settle(item: _Item) -> None:
    if item.answer.cancelled():
        return
    if item.error is not None:
        item.answer.set_exception(item.error)
    else:
        item.answer.set_result(item.outcome)


def _run_item(raw: sqlite3.Connection, tx: Tx, item: _Item, *, alone: bool) -> None:
    if not alone:
        raw.execute("SAVEPOINT one")
    try:
        item.box = tx.outbox
        item.outcome = item.work(tx)
        flush(tx)
        if tx.known:
            tx.known.give_back()
    except Exception as error:
        # SQLite may have rolled back the whole transaction: all its functions must run again.
        if is_away(error):
            raise
        item.error = told(error)
        if tx.known:
            tx.known.forget()
        raw.execute("ROLLBACK" if alone else "ROLLBACK TO one")
        if alone:
            raw.execute("BEGIN IMMEDIATE")
    if not alone:
        raw.execute("RELEASE one")


def _vacuum(tx: Tx) -> None:
    raw = _raw(tx.conn)
    # The copy may be larger than the memory.
    raw.execute("PRAGMA temp_store=FILE")
    try:
        raw.execute("VACUUM")
    finally:
        raw.execute("PRAGMA temp_store=MEMORY")
    _empty_log(tx)


def _room(tx: Tx) -> Footprint:
    raw = _raw(tx.conn)
    pages, free, size = (
        raw.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return Footprint(pages * size, free * size)


def _empty_log(tx: Tx) -> bool:
    # Do not wait for readers: nobody could write until they are done.
    raw = _raw(tx.conn)
    (patience,) = raw.execute("PRAGMA busy_timeout").fetchone()
    raw.execute("PRAGMA busy_timeout=0")
    try:
        (busy, *_) = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.execute(f"PRAGMA busy_timeout={patience}")
    return not busy


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


def _write_ahead(raw: sqlite3.Connection) -> None:
    """Switch the file to write-ahead logging.

    If two connections switch a new file at the same moment, SQLite refuses one at once and ignores
    its timeout, as each holds what the other needs. So that one tries again, and finds it switched.

    Raises:
        sqlite3.OperationalError: the file is locked for longer than this connection waits.
    """
    (patience,) = raw.execute("PRAGMA busy_timeout").fetchone()
    give_up = time.monotonic() + patience / 1000
    while True:
        try:
            raw.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(_MOMENT)
        else:
            return


def _prepare(raw: sqlite3.Connection, _record: object) -> None:
    _write_ahead(raw)
    for pragma in (
        "synchronous=FULL",
        "foreign_keys=ON",
        # Deleted data is overwritten at once, and does not stay in the file.
        "secure_delete=ON",
        "temp_store=MEMORY",
        "cache_size=-16000",
    ):
        raw.execute(f"PRAGMA {pragma}")
