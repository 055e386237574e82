"""Durable state: schema and its steps, queries, the event log and the audit chain. The only SQL.

Promises: a write is one transaction, committed (fsync) before it returns; what a transaction sets
going (events to followers, jobs, stops, timers) is handed over only after the commit; the same
statements serve SQLite and PostgreSQL; a database that is away is waited for, and a transaction
whose COMMIT was cut off is not repeated before it is known what came of it; of several processes on
one database one drives, and what a former driver writes is refused.

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
"""How many times as long a process waits for one that started with it, and makes the schema."""


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
            deliver: Called in the event loop with what each committed transaction sets going.
            patience: Seconds that a transaction waits for another one's lock. Who does not wait
                `patiently` waits twice as long for the database.
            drives: Be the process that carries work out.
            shared_as: With `drives`: as what to be one of several processes that do.
            accept_restored: Go on with a database that is older than what is known of it.
            clock: Says what moment a transaction is done at; by default the machine's, and where
                several processes share the work the database's.

        Raises:
            Conflict: the database was made by a newer gonogo, or is older than what is known of it;
                or another process drives it, and this one was to drive as well, or to change the
                schema.
            Busy: the database is away.
        """
        self.deliver, self._told = deliver, SharedClock()
        shares = shared_as is not None and clock is utc_now
        self.clock: Clock = self._told if shares else clock
        self.before_commit: Callable[[Tx], None] = _nothing_more
        """Called in each transaction after its function, for what follows from what it told."""
        self._outage = Outage("the database", 2 * patience)
        self._beside = Outage("the state folder", 2 * patience)
        self._backend = _backend(url, self._hand_over, patience, self._now, shared_as)
        self.shared_as = shared_as
        """As what this process takes part, where several own places."""
        self.routes: Mapping[str, Whose] = {}
        """What the key of a job names, by the job's kind: so others find its place."""
        self.hints = None if shared_as is None else Hints(self._postgres.beside)
        """What one of several processes says to the others, and hears."""
        self.driver: Driver | None = None
        """This process as the one that drives, if it does."""
        self.missing: list[str] = []
        """What was in the database once and is not there, as was accepted."""
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
            PlaceLost: it is written for a place that another worker has, or may have.
        """
        if self.shared_as is not None:
            return await self._write_shared(lambda tx: fn(tx, *args, **kwargs))

        def work(tx: Tx) -> T:
            outcome = fn(tx, *args, **kwargs)
            self.before_commit(tx)
            return outcome

        return await self._write(work)

    async def _write_shared(self, fn: Callable[[Tx], T]) -> T:
        """Write as one of several processes: under the hold of a place, or for its owner."""
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
            # What was written holds; but what comes after it, such as an effect, must not begin.
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
        """Make an attempt at what is kept beside the database, as if it was in it.

        Raises:
            Busy: the attempt raised it for longer than the caller waits.
        """
        return await self._beside.ride(attempt)

    async def probe(self) -> None:
        """Write something, to see whether that can be done.

        Raises:
            Busy: not now.
        """
        await self.write(_probe)

    async def room(self) -> Footprint:
        """What the database takes."""
        return await self._backend.room()

    async def vacuum(self) -> None:
        """Give back what the database does not need any more.

        Raises:
            Conflict: there is not enough room on the disk to do it.
            Busy: somebody else held the database for too long.
        """
        await self._backend.vacuum()

    async def settle(self) -> bool:
        """Have what was erased lie in no log of the database either. False: not just now."""
        return await self._backend.settle()

    def drop_waiting(self) -> None:
        """Refuse what waits for the database: somebody else drives, and it is nobody's any more."""
        self._outage.drop()
        self._beside.drop()

    def stop_waiting(self) -> None:
        """Have nobody wait for the database from now on: the process is about to end."""
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
        """Be a node, which beats from now on. Blocks.

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
            # Under whoever drives, the schema stays as it is.
            lock.take(patience)
        self.missing = self._backend.missing(accept=accept_restored)
        if changes:
            migrate(engine)
        if self.shared_as is not None:
            lock.release()
            self._postgres.lock.is_shared = True
            lock.take(patience)
            # Now, as the schema may have gone up before the others could see this process.
            check_known(engine)
        if drives:
            lock.claim()
            self.driver = Driver(lock, self._outage.wake)
        else:
            lock.release()

    def _waits_to_change(self, patience: float) -> bool:
        """Take the driver's lock to change the schema; of several that start together one does.

        Returns:
            False: another one has changed it, and the lock is not taken.
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
    """Most transactions are whole with their function."""


def _probe(tx: Tx) -> None:
    if count_transaction(tx, _PROBE) is None:
        join_writers(tx, _PROBE, None)


_FILE = "sqlite:///"


def look_at(
    url: str, patience: float = 4.0, *, reads_all: bool = True
) -> tuple[str | None, str, str | None]:
    """The schema that a database has, the one of this version, and what of it is damaged, if any.

    None stands for an empty database, or one that does not exist. SQLite says what is damaged;
    PostgreSQL does so only as it reads. Nothing is changed.

    Args:
        reads_all: Look for damage, which takes as long as the file is large.

    Raises:
        Conflict: every start refuses it: a newer gonogo made it, or one that is too old; or it is
            older than what is known of it.
        Busy: it is away.
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
    # Its driver is loaded for who uses it.
    from gonogo.store.postgres import PostgresBackend

    return PostgresBackend(address, deliver, patience, clock, is_shared=shared_as is not None)


def file_of(url: str) -> Path | None:
    """The file of a SQLite database, by its address; None: the address is another one.

    Raises:
        InvalidMessage: it is no address of a database.
    """
    if url.startswith(_FILE):
        return Path(url.removeprefix(_FILE))
    _postgres_url(url)
    return None


def _postgres_url(url: str) -> str:
    """The address of a PostgreSQL database for the library; what is wrong with one may be secret.

    Raises:
        InvalidMessage: it is none.
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
