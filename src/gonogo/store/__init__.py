"""Durable state: schema and its steps, queries, the event log and the audit chain. The only SQL.

Promises:
- A write is one transaction, committed (fsync) before it returns.
- What a transaction starts (events to followers, jobs, stops, timers) begins only after the commit.
- The same statements serve SQLite and PostgreSQL.
- Transactions wait for a database that is away. A transaction whose COMMIT was cut off is repeated
  only after its outcome is known.
- Of several processes on one database one drives; the writes of a former driver are refused.

Store functions are synchronous, take a `Tx` first and never commit; callers say
`await store.write(fn, …)` or `await store.read(fn, …)`.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from gonogo.domain.errors import Busy, Conflict, InvalidMessage, PlaceLost, because
from gonogo.store.driver import Driver, Lease, count_transaction, join_writers
from gonogo.store.hints import Hints
from gonogo.store.migrate import HEAD, check_known, is_current, migrate, migrate_beside
from gonogo.store.outage import Outage, Stopwatch, patiently, standing_still
from gonogo.store.places import Membership, Whose, hand_over
from gonogo.store.sqlite import KnownHeads, SqliteBackend
from gonogo.store.transaction import (
    Clock,
    Footprint,
    Hold,
    Outbox,
    SharedClock,
    Tx,
    go_on,
    hand_begun,
    held,
    new_id,
    part,
    seconds_passed,
    stop,
    utc_now,
)

if TYPE_CHECKING:
    from gonogo.store.postgres import PostgresBackend

__all__ = [
    "Clock",
    "Footprint",
    "Hold",
    "Lease",
    "Membership",
    "Outbox",
    "Stopwatch",
    "Store",
    "Tx",
    "Whose",
    "file_of",
    "go_on",
    "hand_begun",
    "look_at",
    "new_id",
    "part",
    "patiently",
    "seconds_passed",
    "stop",
    "utc_now",
]  # fmt: skip

P = ParamSpec("P")
T = TypeVar("T")
_PROBE = "probe"
_TOGETHER = 8
"""How much longer a process waits for another one that started with it and makes the schema."""


class Store:
    """One database, SQLite or PostgreSQL."""

    def __init__(
        self,
        url: str,
        deliver: Callable[[Outbox], None] = lambda box: None,
        *,
        patience: float = 4.0,
        drives: bool = False,
        shared_as: Membership | None = None,
        accept_restored: bool = False,
        clock: Clock = utc_now,
    ) -> None:
        """Open the database and bring it to the current schema.

        Args:
            url: `sqlite:///path` or `postgresql://…`.
            deliver: Called in the event loop with what each committed transaction starts.
            patience: Seconds that a transaction waits for the lock of another one. A caller that
                does not wait `patiently` waits twice as long for the database.
            drives: Be the process that carries work out.
            shared_as: With `drives`: the part of this process where several carry work out.
            accept_restored: Continue with a database that is older than the last known state of it.
            clock: Gives the time of a transaction. Default: the clock of the machine, or of the
                database if several processes share the work.

        Raises:
            Conflict: a newer gonogo made the database, or it is older than its last known state;
                or another process drives it, and this one must drive too or change the schema.
            Busy: the database is away.
        """
        self.deliver, self._told = deliver, SharedClock()
        shares = shared_as is not None and clock is utc_now
        self.clock: Clock = self._told if shares else clock
        self.before_commit: Callable[[Tx], None] = _nothing_more
        """Called in each transaction after its function, to write what follows from its events."""
        self._outage = Outage("the database", 2 * patience)
        self._beside = Outage("the state folder", 2 * patience)
        self._backend = _backend(url, self._hand_over, patience, self._now, shared_as)
        self.shared_as = shared_as
        """The part of this process where several own places."""
        self.routes: Mapping[str, Whose] = {}
        """By the kind of a job, what its key names: from that, other processes find its place."""
        self.hints = None if shared_as is None else Hints(self._postgres.beside)
        """The hints that this process sends to the others and receives, if several share work."""
        self.driver: Driver | None = None
        """Set if this process drives."""
        self.missing: list[str] = []
        """What the database once had and lost; the caller has accepted that."""
        try:
            self._open(patience, drives=drives, accept_restored=accept_restored)
        except BaseException as error:
            if isinstance(self._backend, SqliteBackend):
                self._backend.explain(error)
            self._backend.close()
            self._backend.lock.release()
            raise

    async def write(
        self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a store function in its own transaction, committed before this returns.

        Raises:
            Busy: the database is away for longer than the caller waits; nothing is half done.
            PlaceLost: the write is for a place that another worker has, or may have.
        """
        if self.shared_as is not None:
            return await self._write_shared(lambda tx: fn(tx, *args, **kwargs))

        def work(tx: Tx) -> T:
            outcome = fn(tx, *args, **kwargs)
            self.before_commit(tx)
            return outcome

        return await self._write(work)

    async def _write_shared(self, fn: Callable[[Tx], T]) -> T:
        """Write as one of several processes: as the owner of a place, or for the owner."""
        hold, hints = held(), self.hints
        assert hints is not None  # noqa: S101 - as the store is shared

        def work(tx: Tx) -> T:
            tx.hold = tx.outbox.hold = hold
            outcome = fn(tx)
            self.before_commit(tx)
            hand_over(tx, self.routes)
            hints.tell(tx)
            return outcome

        if hold is None:
            return await self._write(work)
        try:
            _check_safe(hold)
            outcome = await self._write(work)
            # The write is valid. But what comes after it, such as an effect, must not begin.
            _check_safe(hold)
        except PlaceLost:
            hold.lost()
            raise
        return outcome

    async def _write(self, work: Callable[[Tx], T]) -> T:

        async def attempt() -> T:
            if self.driver is not None:
                self.driver.check()
            with standing_still():
                return await self._backend.write(work)

        return await self._outage.ride(attempt, writes=True)

    async def read(
        self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a store function that changes nothing, on one consistent snapshot.

        Raises:
            Busy: the database is away for longer than the caller waits.
        """

        async def attempt() -> T:
            with standing_still():
                return await self._backend.read(lambda tx: fn(tx, *args, **kwargs))

        return await self._outage.ride(attempt)

    async def ride(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Attempt something in the state folder, and wait as if it were in the database.

        Raises:
            Busy: the attempt raised it for longer than the caller waits.
        """
        return await self._beside.ride(attempt)

    async def probe(self) -> None:
        """Write something, to see whether the database accepts writes.

        Raises:
            Busy: it does not accept them now.
        """
        await self.write(_probe)

    async def room(self) -> Footprint:
        """The size of the database."""
        return await self._backend.room()

    async def vacuum(self) -> None:
        """Give back what the database does not need any more.

        Raises:
            Conflict: there is not enough room on the disk to do it.
            Busy: somebody else held the database for too long.
        """
        await self._backend.vacuum()

    async def settle(self) -> bool:
        """Remove what was erased from the database's log too. False: not possible just now."""
        return await self._backend.settle()

    def drop_waiting(self) -> None:
        """Refuse what waits for the database: another process drives now, so nobody needs it."""
        self._outage.drop()
        self._beside.drop()

    def stop_waiting(self) -> None:
        """From now on nobody waits for the database: the process is about to end."""
        self._outage.end()
        self._beside.end()
        self._backend.give_up()

    def close(self) -> None:
        """Finish the writes that wait and close the database."""
        with self._backend.ending():
            if self.hints is not None:
                self.hints.close()
            self._backend.close()
            if self.driver is not None:
                self.driver.close()

    def join(self) -> Lease:
        """Join the nodes, and send heartbeats from now on. Blocks.

        Raises:
            Busy: the database is away.
        """
        assert self.shared_as is not None  # noqa: S101 - it was opened as one of several
        return Lease(self._postgres.beside, self.shared_as, self._told.set)

    @property
    def can_be_shared(self) -> bool:
        """Whether several processes can work on it."""
        return not isinstance(self._backend, SqliteBackend)

    @property
    def _postgres(self) -> "PostgresBackend":
        assert not isinstance(self._backend, SqliteBackend)  # noqa: S101 - checked when it was opened
        return self._backend

    def _open(self, patience: float, *, drives: bool, accept_restored: bool) -> None:
        engine, lock = self._backend.engine, self._backend.lock
        alone = drives and self.shared_as is None
        if not alone and not is_current(engine) and lock.sharers():
            migrate_beside(engine, lock.sharers, _TOGETHER * patience)
        changes = alone or not is_current(engine)
        if changes and self.shared_as is not None:
            changes = self._waits_to_change(patience)
        elif changes:
            # While another process drives, the schema must not change.
            lock.take(patience)
        self.missing = self._backend.missing(accept=accept_restored)
        if changes:
            migrate(engine)
        if self.shared_as is not None:
            lock.release()
            self._postgres.lock.is_shared = True
            lock.take(patience)
            # Only now: the schema may have changed before the others could see this process.
            check_known(engine)
        if drives:
            lock.claim()
            self.driver = Driver(lock, self._outage.wake)
        else:
            lock.release()

    def _waits_to_change(self, patience: float) -> bool:
        """Take the driver's lock to change the schema; of several that start together one gets it.

        Returns:
            False: another process has changed the schema, and this one does not hold the lock.
        """
        until = monotonic() + _TOGETHER * patience
        while not is_current(self._backend.engine):
            try:
                self._backend.lock.take(patience / 8)
            except Conflict:
                if monotonic() > until:
                    raise
            else:
                return True
        return False

    def _hand_over(self, box: Outbox) -> None:
        self.deliver(box)

    def _now(self) -> datetime:
        return self.clock()


def _check_safe(hold: Hold) -> None:
    if not hold.is_safe():
        raise PlaceLost(
            "This worker could not reach the database for too long; another worker continues "
            "its work"
        )


def _nothing_more(tx: Tx) -> None:
    """Do nothing: most transactions have no more to write."""


def _probe(tx: Tx) -> None:
    if count_transaction(tx, _PROBE) is None:
        join_writers(tx, _PROBE, None)


_FILE = "sqlite:///"


def look_at(
    url: str, patience: float = 4.0, *, reads_all: bool = True
) -> tuple[str | None, str, str | None]:
    """The schema of a database, the schema of this version, and any damage; changes nothing.

    The first is None for an empty database, or for one that does not exist. Only SQLite tells of
    damage: PostgreSQL finds it only when it reads.

    Args:
        reads_all: Also look for damage, which reads the whole file.

    Raises:
        Conflict: no start accepts the database: a newer gonogo made it, or one that is too old, or
            it is older than its last known state.
        Busy: the database is away.
    """
    file = file_of(url)
    if file is not None and not file.exists():
        KnownHeads(file.resolve()).missing(None, accept=False)
        return None, HEAD, None
    backend = _backend(url, lambda box: None, patience, utc_now, None)
    try:
        found = check_known(backend.engine)
        is_file = isinstance(backend, SqliteBackend)
        damage = backend.damage() if is_file and reads_all else None
        if damage is None:
            backend.missing()
    finally:
        backend.close()
    return found, HEAD, damage


def _backend(
    url: str,
    deliver: Callable[[Outbox], None],
    patience: float,
    clock: Clock,
    shared_as: Membership | None,
) -> "SqliteBackend | PostgresBackend":
    path = file_of(url)
    if path is not None:
        if shared_as is not None:
            raise Conflict(
                "Several processes can share the work only on PostgreSQL; set GONOGO_DB to a "
                "postgresql:// address, or use gonogo serve alone"
            )
        try:
            return SqliteBackend(path, deliver, patience, clock)
        except OSError as error:
            said = because(
                "{file} cannot be opened: {strerror}", file=path, strerror=error.strerror
            )
            raise Busy(reason=said) from error
    address = _postgres_url(url)
    # Imported here, so that only who uses PostgreSQL loads its library.
    from gonogo.store.postgres import PostgresBackend

    return PostgresBackend(address, deliver, patience, clock, is_shared=shared_as is not None)


def file_of(url: str) -> Path | None:
    """The file of a SQLite database, from its address; None for an address of PostgreSQL.

    Raises:
        InvalidMessage: this is not the address of a database.
    """
    if url.startswith(_FILE):
        return Path(url.removeprefix(_FILE))
    _postgres_url(url)
    return None


def _postgres_url(url: str) -> str:
    """The address of a PostgreSQL database, as the library wants it.

    Raises:
        InvalidMessage: this is no such address; the text does not quote it, as it may have secrets.
    """
    try:
        if make_url(url).drivername in ("postgresql", "postgresql+psycopg"):
            return url.replace("postgresql://", "postgresql+psycopg://", 1)
    except (ArgumentError, ValueError):
        pass
    raise InvalidMessage(
        "GONOGO_DB must be sqlite:///PATH or postgresql://USER@HOST/DATABASE; correct it and try "
        "again"
    )
