"""The driver: the one process on a database that carries work out.

It holds a lock as long as it lives, so a second driver is refused: on SQLite a lock on a file
beside the database, on PostgreSQL a session-level advisory lock on a connection of its own. That
connection can be cut while the process lives. So each driver also has a fence, a number that grows
with every takeover: after a takeover the database refuses the writes of the earlier driver. A
driver that lost its lock, and finds it free and its own fence unchanged, has missed nothing.

An advisory lock belongs to a process of the PostgreSQL server. A pooler that shares these processes
between its clients would pass the lock to its next client. gonogo detects that before it takes one.
"""

import asyncio
import fcntl
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Protocol, TypeVar

import anyio
from sqlalchemy import Connection, Engine, bindparam, delete, func, literal, select, text, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gonogo import __version__
from gonogo.domain.errors import Busy, Conflict, because
from gonogo.store.migrate import HEAD
from gonogo.store.outage import Pool, raise_told
from gonogo.store.places import BEAT, FORGET, JOIN, LEAVE, Membership
from gonogo.store.rows import put
from gonogo.store.schema import drivers, places, writers
from gonogo.store.transaction import Tx, new_id, seconds_passed

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_BEAT, _GLANCE = 2.0, 0.1
_SILENT, _TAKING = 8.0, 40.0
"""Seconds after which a server that says nothing counts as away, as by TCP itself, since a proxy
answers for one that is gone; and while the lock is taken, by several connections."""
_APART = 3
"""How many connections at once show whether a pooler shares processes of the server."""
_KIND = 0x676F6E6F
"""The upper half of the advisory lock's key; the lower half is the schema of the tables."""
_THE_ONE = "driver"
_SCHEMA = text(
    "SELECT coalesce("
    "(SELECT relnamespace FROM pg_class WHERE oid = to_regclass('alembic_version')),"
    " (SELECT oid FROM pg_namespace WHERE nspname = current_schema()))::bigint"
)
_PID = text("SELECT pg_backend_pid()")
_NAME = text("SELECT set_config('application_name', :name, false)")
_END = text("SELECT pg_terminate_backend(:pid)")
_TRY = {
    False: text("SELECT pg_try_advisory_lock(:key)"),
    True: text("SELECT pg_try_advisory_lock_shared(:key)"),
}
_OURS = "locktype = 'advisory' AND granted AND classid = :kind AND objid = :schema AND objsubid = 1"
_HELD = text(
    "SELECT pg_backend_pid() AS pid, EXISTS (SELECT FROM pg_locks"  # noqa: S608 - our own words
    f" WHERE pid = pg_backend_pid() AND {_OURS})"
    " AND current_setting('transaction_read_only') = 'off' AS held"
)
_HOLDER = text(
    "SELECT application_name, pid, mode FROM pg_locks JOIN pg_stat_activity USING (pid)"  # noqa: S608
    " WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    f" AND {_OURS}"
)
_SHARERS = text(f"{_HOLDER} AND mode = 'ShareLock'")
_FENCE = select(drivers.c.fence).where(drivers.c.id == _THE_ONE)
_TAKE_OVER = text(
    f"INSERT INTO drivers (id, fence) VALUES ('{_THE_ONE}', 1)"  # noqa: S608 - our own word
    " ON CONFLICT (id) DO UPDATE SET fence = drivers.fence + 1 RETURNING fence"
)
_END_ALL = delete(writers)
_NODES = "nodes"
_BEGIN = text(
    f"INSERT INTO drivers (id, fence) VALUES ('{_THE_ONE}', 0) ON CONFLICT DO NOTHING"  # noqa: S608
)
_HOLD_ALL = select(drivers.c.id, drivers.c.fence).order_by(drivers.c.id).with_for_update()
_TOGETHER = text(
    f"INSERT INTO drivers (id, fence) VALUES ('{_NODES}', :of)"  # noqa: S608 - our own word
    " ON CONFLICT (id) DO UPDATE SET fence = excluded.fence"
)
_FREE_ALL = update(places).values(owner=None, placed=True, fence=places.c.fence + 1)
_HOLD_FENCE = _FENCE.with_for_update(read=True)
_COUNT = (
    update(writers)
    .where(writers.c.id == bindparam("writer"))
    .values(number=writers.c.number + 1)
    .returning(writers.c.number)
)
_COUNTING = _COUNT.cte("counting")
COUNT_OR_FAIL = select(literal(1).op("/")(func.count(_COUNTING.c.number)))
"""Counts the transaction of `writer` too; fails if a takeover has ended this writer."""
_COUNTED = select(writers.c.number).where(writers.c.id == bindparam("writer")).with_for_update()


def join_writers(tx: Tx, writer: str, fence: int | None) -> bool:
    """Register a connection as a writer, which counts its transactions under its own name.

    Args:
        fence: The driver's; None for a process that does not drive.

    Returns:
        False: another process has become the driver.
    """
    # The lock blocks a takeover at this moment, which would not see the new row.
    if fence is not None and tx.execute(_HOLD_FENCE).scalar() != fence:
        return False
    put(tx, writers, {"id": writer, "number": 0})
    return True


def count_transaction(tx: Tx, writer: str) -> int | None:
    """The number of the transaction that runs; None if a takeover has ended this writer."""
    return tx.execute(_COUNT, {"writer": writer}).scalar()


def last_transaction(tx: Tx, writer: str) -> int | None:
    """The number of a writer's last committed transaction; waits for one that still runs."""
    return tx.execute(_COUNTED, {"writer": writer}).scalar()


class DriverLock(Protocol):
    """The lock of the driver."""

    fence: int | None
    """The number of this driver; None before it drives, or if a driver cannot lose this lock."""

    def take(self, seconds: float) -> None:
        """Take the lock; wait this long for another process that may be about to end.

        Raises:
            Conflict: another process has it; the text names it.
            Busy: the database is away.
        """
        ...

    def claim(self) -> None:
        """Begin to drive: from now on no former driver can write."""
        ...

    def sharers(self) -> Mapping[str, str]:
        """The processes that hold it and share the work: their names, and the schema of their code.

        Raises:
            Busy: the database is away.
        """
        ...

    def is_held(self) -> bool:
        """Whether the lock is still ours."""
        ...

    def regain(self, seconds: float) -> bool:
        """Take the lost lock again. False: another process has driven meanwhile.

        Raises:
            Conflict, Busy: as `take` does.
        """
        ...

    def release(self) -> None:
        """Let others have it."""
        ...

    def cut(self) -> None:
        """Have whatever waits for the database find its connection lost."""
        ...


class FileLock:
    """A lock on a file beside a SQLite database. The kernel frees it when the process ends."""

    fence: int | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def take(self, seconds: float) -> None:
        """See `DriverLock.take`."""
        until = monotonic() + seconds
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._refused(error) from error
        while not self._locked(handle):
            if monotonic() >= until:
                holder = os.pread(handle, 20, 0).decode(errors="replace").strip()
                os.close(handle)
                raise Conflict(
                    "Process {holder} already uses the database {stem}; stop it, or set "
                    "GONOGO_DB to another database",
                    holder=holder or "unknown", stem=self._path.stem,
                )  # fmt: skip
            sleep(_GLANCE)
        self._handle = handle
        # The file names this process only for those who are refused; the disk may be full.
        with suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, b"%d\n" % os.getpid(), 0)

    def _locked(self, handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            # For example on a network file system without locks.
            os.close(handle)
            raise self._refused(error) from error
        return True

    def _refused(self, error: OSError) -> Busy:
        return Busy(
            reason=because(
                "{file} cannot be locked: {strerror}", file=self._path, strerror=error.strerror
            )
        )

    def claim(self) -> None:
        """See `DriverLock.claim`."""

    def sharers(self) -> Mapping[str, str]:
        """Nobody: only one process drives a file."""
        return {}

    def is_held(self) -> bool:
        """See `DriverLock.is_held`."""
        return self._handle is not None

    def regain(self, seconds: float) -> bool:
        """See `DriverLock.regain`."""
        self.take(seconds)
        return True

    def release(self) -> None:
        """See `DriverLock.release`."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def cut(self) -> None:
        """Nothing: a file has no connections."""


class AdvisoryLock:
    """A session-level advisory lock on PostgreSQL. All methods block."""

    def __init__(self, engine: Engine, cut: Callable[[], None]) -> None:
        """Take nothing yet.

        Args:
            engine: Makes a new connection each time, which commits each statement by itself.
            cut: See `DriverLock.cut`.
        """
        self.fence: int | None = None
        self.cut = cut
        self.is_shared = False
        """Several processes that own places may hold it; they keep out one that drives alone."""
        self._engine = engine
        self._conn: Connection | None = None
        self._pid, self._key = 0, dict[str, int]()
        who = f"gonogo {os.getpid()} on {socket.gethostname()[:20]}"
        self._name = f"{who} {secrets.token_hex(6)} {HEAD}"

    def take(self, seconds: float) -> None:
        """See `DriverLock.take`."""
        try:
            self._conn = self._conn or self._connected()
            self._take(self._conn, monotonic() + seconds)
        except DBAPIError as error:
            self.release()
            raise_told(error)
        except Conflict:
            self.release()
            raise

    def _take(self, conn: Connection, until: float) -> None:
        key = self._key = _key(conn)
        attempt, number = _TRY[self.is_shared], key["kind"] << 32 | key["schema"]
        while not conn.execute(attempt, {"key": number}).scalar():
            holder = conn.execute(_HOLDER, key).first()
            if holder is not None and holder.application_name == self._name:
                # Our own lost connection; the server does not know yet that it is lost.
                conn.execute(_END, {"pid": holder.pid})
            elif monotonic() >= until:
                raise Conflict(_refusal(holder))
            sleep(_GLANCE)

    def claim(self) -> None:
        """See `DriverLock.claim`."""
        assert self._conn is not None  # noqa: S101 - the lock was taken
        try:
            fence = _joined(self._conn) if self.is_shared else _taken_over(self._conn)
        except DBAPIError as error:
            self.release()
            raise_told(error)
        self.fence = fence

    def sharers(self) -> Mapping[str, str]:
        """See `DriverLock.sharers`."""
        try:
            with self._engine.connect() as conn:
                names = [row.application_name for row in conn.execute(_SHARERS, _key(conn))]
        except DBAPIError as error:
            raise_told(error)
        return {name.rpartition(" ")[0]: name.rpartition(" ")[2] for name in names}

    def is_held(self) -> bool:
        """See `DriverLock.is_held`."""
        if self._conn is None:
            return False
        try:
            found = self._conn.execute(_HELD, self._key).one()
        except DBAPIError:
            return False
        return found.held and found.pid == self._pid

    def regain(self, seconds: float) -> bool:
        """See `DriverLock.regain`."""
        self.release()
        self.take(seconds)
        assert self._conn is not None  # noqa: S101 - taken one line above
        try:
            return self._conn.execute(_FENCE).scalar() == self.fence
        except DBAPIError as error:
            raise_told(error)

    def release(self) -> None:
        """See `DriverLock.release`."""
        conn, self._conn = self._conn, None
        _end(conn)

    def _connected(self) -> Connection:
        conn = self._engine.connect()
        try:
            conn.execute(_NAME, {"name": self._name})
            self._pid = conn.execute(_PID).scalar_one()
            self._check_unshared(conn)
        except BaseException:
            conn.close()
            raise
        return conn

    def _check_unshared(self, conn: Connection) -> None:
        """Refuse a pooler that gives a client different processes of the server in turn."""
        with ExitStack() as others:
            for _ in range(_APART):
                other = others.enter_context(self._engine.connect())
                other.exec_driver_sql("BEGIN")
                lent = other.execute(_PID).scalar() == self._pid
                # If the other got ours, do not ask: it may be the only one that the pooler has.
                if lent or conn.execute(_PID).scalar() != self._pid:
                    raise Conflict(
                        "GONOGO_DB is the address of a pooler that shares connections between "
                        "clients, so gonogo could not keep a second process from the same work; "
                        "use the address of the server itself, or of a pool in session mode"
                    )


def _taken_over(conn: Connection) -> int:
    """Begin to drive alone, and return the fence."""
    fence = conn.execute(_TAKE_OVER).scalar_one()
    # Waits for transactions that run; those that begin later find that their row is gone.
    conn.execute(_END_ALL)
    return fence


def _joined(conn: Connection) -> int:
    """Begin to share the work, and return the common fence; the first one ends a lone driver."""
    conn.exec_driver_sql("BEGIN")
    conn.execute(_BEGIN)
    found = {row.id: row.fence for row in conn.execute(_HOLD_ALL)}
    fence = found[_THE_ONE]
    if found.get(_NODES) != fence:
        fence = conn.execute(_TAKE_OVER).scalar_one()
        conn.execute(_TOGETHER, {"of": fence})
        conn.execute(_FREE_ALL)
        conn.execute(_END_ALL)
    conn.exec_driver_sql("COMMIT")
    return fence


def _key(conn: Connection) -> dict[str, int]:
    schema = conn.execute(_SCHEMA).scalar()
    if schema is None:
        raise Conflict(
            "The search_path in GONOGO_DB names no existing schema; create the schema, or "
            "correct search_path"
        )
    return {"kind": _KIND, "schema": schema}


def _refusal(holder: Any) -> str:  # noqa: ANN401 - a database row
    who = because("another process")
    if holder is not None:
        # The rest is for programs: a random word, and the schema of the holder's code.
        name = " ".join(holder.application_name.split()[:4])
        who = because(
            "{name} (process {pid} of the server)",
            name=name or because("a process"), pid=holder.pid,
        )  # fmt: skip
    if holder is not None and holder.mode == "ShareLock":
        return because(
            "Several gonogo processes share the database, such as {who}; start "
            "`gonogo serve --no-work` here and try again, or set GONOGO_DB to another database",
            who=who,
        )
    return because(
        "The database is already used by {who}; stop that process, set GONOGO_DB to another "
        "database, or work through that process",
        who=who,
    )


class Driver:
    """Keeps this process the driver, and knows whether it still is."""

    def __init__(self, lock: DriverLock, goes_on: Callable[[], None]) -> None:
        """Drive under a lock that was taken and claimed.

        Args:
            goes_on: Called when this process drives again.
        """
        self.problem: str | None = None
        """Why this process does not drive at this moment; None if it drives."""
        self._lock, self._told = lock, goes_on
        self._threads = Pool(1, "gonogo-driver")

    def check(self) -> None:
        """Check that this process drives.

        Raises:
            Busy: it does not drive at this moment.
        """
        if self.problem is not None:
            raise Busy(
                "This process does not own the database now; try again in a moment",
                reason=self.problem,
            )

    async def stay(self) -> None:
        """Drive until another process does; take a lost lock again at once."""
        while True:
            await anyio.sleep(_BEAT)
            if await self._ask(self._lock.is_held, _SILENT):
                continue
            self._stops("the connection that holds the lock of the driver is lost")
            if not await self._regained():
                return
            self._goes_on()

    async def take_over(self) -> None:
        """Drive again as soon as nobody else does; what was known of the database is then old."""
        while True:
            try:
                await self._ask(partial(self._lock.take, 0), _TAKING)
                await self._ask(self._lock.claim, _TAKING)
            except Busy:
                await anyio.sleep(_BEAT)
            except Conflict as taken:
                self._stops(str(taken))
                await anyio.sleep(_BEAT)
            else:
                self._goes_on()
                return

    def close(self) -> None:
        """Let others drive."""
        self._threads.close()
        self._lock.release()

    async def _ask(self, what: Callable[[], T], patience: float) -> T:
        """Ask the server; if it says nothing for so long, every connection is lost."""
        silent = asyncio.get_running_loop().call_later(patience, self._lock.cut)
        try:
            return await self._threads.run(what)
        finally:
            silent.cancel()

    async def _regained(self) -> bool:
        while True:
            try:
                return await self._ask(partial(self._lock.regain, _BEAT), _TAKING)
            except Busy:
                await anyio.sleep(_BEAT / 4)
            except Conflict as taken:
                self._stops(str(taken))
                return False

    def _stops(self, problem: str) -> None:
        if problem != self.problem:
            _LOG.warning("nothing new begins: %s", problem)
        self.problem = problem

    def _goes_on(self) -> None:
        _LOG.warning("this process drives the database again")
        self.problem = None
        self._told()


# A node's lease: its beat, from a thread and on a connection of its own.
#
# The node beats every two seconds, by the clock of the database. After six seconds without a beat
# other nodes take its places. The node itself counts its places as lost four seconds after its last
# beat: at that time no other node can have them yet. A process that was suspended finds that out
# when it continues.

_EVERY, _FRESH, _SAFE = 2.0, 2.5, 4.0


class Lease:
    """The lease of one node, from its start to its end."""

    def __init__(
        self, engine: Engine, membership: Membership, hear: Callable[[datetime], None]
    ) -> None:
        """Join the nodes, and beat.

        Args:
            engine: Makes a new connection each time, which commits each statement by itself.
            hear: Called at each beat with the time of the database.

        Raises:
            Busy: the database is away.
        """
        self.node = new_id("node")
        self._engine, self._hear = engine, hear
        self._conn: Connection | None = None
        self._over = threading.Event()
        self._is_lost = False
        self._beaten = seconds_passed()
        try:
            self._execute(FORGET, {})
            hear(self._execute(JOIN, _row(self.node, membership)).scalar_one())
        except SQLAlchemyError as error:
            self._drop()
            raise_told(error)
        self._thread = threading.Thread(target=self._beat_on, name="gonogo-lease", daemon=True)
        self._thread.start()

    @property
    def is_safe(self) -> bool:
        """Whether no other node can have the places of this one."""
        return self.safe_for > 0

    @property
    def safe_for(self) -> float:
        """For how many seconds no other node can have its places, even if it beats no more."""
        return 0.0 if self._is_lost else max(0.0, self._beaten + _SAFE - seconds_passed())

    @property
    def is_fresh(self) -> bool:
        """Whether the last beat is so recent that the caller has a few safe seconds left."""
        return not self._is_lost and seconds_passed() - self._beaten < _FRESH

    def end(self) -> None:
        """Stop the beats, and let other nodes take the places of this one."""
        self._over.set()
        self._thread.join(_EVERY)
        if self._thread.is_alive():
            return
        # If the database is away, the others find this node dead a little later.
        with suppress(SQLAlchemyError):
            self._execute(LEAVE, {"node": self.node})
        self._drop()

    def _beat_on(self) -> None:
        while not self._over.wait(_EVERY) and self.is_safe:
            at = seconds_passed()
            try:
                told = self._execute(BEAT, {"node": self.node}).scalar()
                if told is None:
                    break
                self._hear(told)
            except SQLAlchemyError:
                self._drop()
            else:
                self._beaten = at
        self._is_lost = True

    def _execute(self, statement: Any, params: dict[str, Any]) -> Any:  # noqa: ANN401
        self._conn = self._conn or self._engine.connect()
        return self._conn.execute(statement, params)

    def _drop(self) -> None:
        conn, self._conn = self._conn, None
        _end(conn)


def _end(conn: Connection | None) -> None:
    """Close a connection, instead of giving it back to its pool."""
    if conn is not None:
        conn.invalidate()
        conn.close()


def _row(node: str, membership: Membership) -> dict[str, Any]:
    works = membership.kind == "worker"
    return {
        "node": node, "as_kind": membership.kind, "on_host": socket.gethostname(),
        "as_pid": os.getpid(), "of_pool": membership.pool if works else None,
        "up_to": membership.capacity, "in_version": __version__,
        "by_policy": membership.policy, "with_labels": dict(membership.labels),
    }  # fmt: skip
