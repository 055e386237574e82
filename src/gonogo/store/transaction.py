"""A transaction, and what it sets going once it is committed, and not a moment earlier."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Executable
from uuid6 import uuid7

from gonogo.domain.records import Job, JobStop, Plan, Timer
from gonogo.domain.schedule import Shape, Standings
from gonogo.domain.written_events import WrittenEvent

if TYPE_CHECKING:
    from gonogo.store.pipelined import Pipelined


# Plans that the writer of a SQLite file knows, so that a step of one costs what changed.
#
# What is known is what the writer's next read would give, by construction. In this process one
# thread writes, on one connection, which tells of each statement that writes plans or subtasks: one
# that did not come `through` here has everything forgotten. What other connections commit, of this
# process or of another one, is seen by `PRAGMA data_version` when a transaction begins; from then
# on nobody else can write. And whatever is taken back, a transaction or a part of one, has
# everything forgotten. On PostgreSQL many write at once, and nothing is known.

T = TypeVar("T")
_MOST = 20_000
"""Subtasks of all plans that are known."""


class KnownPlan(Struct):
    """A plan as the database has it, or as a transaction that has taken it is about to write it."""

    plan: Plan
    shape: Shape
    stand: Standings
    moves: list[Any] = []
    """What of that is not written yet."""
    seen: int = 0
    """After how many writes it was as the database has it."""


class KnownPlans:
    """The plans that were looked at last.

    A transaction takes a plan out, so that nobody else looks at what it has not written yet, and
    gives it back at its end.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self._plans: OrderedDict[str, KnownPlan] = OrderedDict()
        self._taken: list[KnownPlan] = []
        self._size = self._writes = 0
        self._version: int | None = None
        self._comes_through = False

    def begin(self, version: int) -> None:
        """A transaction begins.

        Args:
            version: The file's, which changes with what other connections commit.
        """
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Know nothing any more, of what was taken either."""
        self._plans.clear()
        self._size = 0
        self._taken.clear()
        self._writes += 1

    def take(self, plan_id: str, read: Callable[[], KnownPlan]) -> KnownPlan:
        """A plan, for this transaction alone.

        Args:
            read: Reads it, where it is not known.
        """
        known = self._drop(plan_id) or read()
        known.seen = self._writes
        self._taken.append(known)
        return known

    def give_back(self) -> None:
        """The functions of a transaction are done: know what they took, as far as it is so."""
        for known in self._taken:
            if known.seen == self._writes and not known.moves:
                self._keep(known)
        self._taken.clear()

    def told_of_write(self) -> None:
        """A statement writes plans or subtasks."""
        if not self._comes_through:
            self.forget()

    def through(self, plan_id: str, write: Callable[[], T], moved: KnownPlan | None = None) -> T:
        """Write something of one plan, which is not known then.

        Args:
            write: Gives something true when all of it was written.
            moved: The plan as it was taken, if nothing but its moves is written.
        """
        self._drop(plan_id)
        is_whole = moved is not None and moved.seen == self._writes
        # Whatever may go wrong, what was taken before is not as the database has it.
        self._writes += 1
        self._comes_through = True
        try:
            done = write()
        finally:
            self._comes_through = False
        if moved is not None and is_whole and done:
            moved.seen = self._writes
        return done

    def _keep(self, known: KnownPlan) -> None:
        self._drop(known.plan.id)
        self._plans[known.plan.id] = known
        self._size += len(known.stand.rows)
        while self._size > _MOST:
            self._drop(next(iter(self._plans)))

    def _drop(self, plan_id: str) -> KnownPlan | None:
        known = self._plans.pop(plan_id, None)
        self._size -= len(known.stand.rows) if known else 0
        return known


Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time, by the machine's clock."""
    return datetime.now(UTC)


class Footprint(NamedTuple):
    """What a database takes, in bytes."""

    bytes: int
    free: int = 0
    """Of it, what is known to be needed by nothing."""
    log: int = 0
    """Besides, what it writes first of all."""


class Extent(NamedTuple):
    """How far a chain reaches."""

    entries: int
    """The audit entries that it ever had."""
    hash: str
    """Of the last of them."""
    events: int | None = None
    """The place of the last event; None for what has none."""


class Hold(Struct, frozen=True, eq=False):
    """One worker's hold of a place: what it writes under it is refused once another has it."""

    place_id: str
    fence: int
    is_safe: Callable[[], bool]
    """Whether nobody else can have the place yet, by the clock of this process."""
    lost: Callable[[], None]
    """Ends what is done under it; called in the event loop."""


_held: ContextVar[Hold | None] = ContextVar("held", default=None)


@contextmanager
def owning(hold: Hold) -> Generator[None]:
    """What is written inside is written by the owner of a place."""
    token = _held.set(hold)
    try:
        yield
    finally:
        _held.reset(token)


def held() -> Hold | None:
    """The place whose owner is writing, if it is one that does."""
    return _held.get()


class Outbox(Struct):
    """Filled by store functions inside a transaction, handed over after its commit."""

    hold: Hold | None = None
    """Under which hold of a place it was written, and so what it sets going is to be done."""
    wanted: set[str] = set()
    """The places that it has work for, which their owners are told of."""
    events: list[WrittenEvent] = []
    jobs: list[Job] = []
    stops: list[JobStop] = []
    timers: list[Timer] = []
    pending: dict[str, Any] = {}
    """By chain, what the event log and the audit will be told at the transaction's end."""
    touched: list[str] = []
    """Sessions of which something changed that no event and no audit entry tells."""
    texts: dict[str, str] = {}
    """By digest, the long texts that are first kept by this transaction."""
    extents: dict[str, Extent] = {}
    """Where the chains stand that it added to."""

    def lists(self) -> list[list[Any]]:
        """All that only grows while the transaction runs."""
        told = [each for p in self.pending.values() for each in (p.bodies, p.notes)]
        return [self.events, self.jobs, self.stops, self.timers, self.touched, *told]


class Recent:
    """The long texts that were kept or read lately: most of them are wanted again at once."""

    def __init__(self, room: int = 4_000_000) -> None:
        """Be empty.

        Args:
            room: Characters of all texts that are remembered.
        """
        self._room, self._taken = room, 0
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, digest: str) -> str | None:
        """A text by its digest, if it is remembered."""
        with self._guard:
            if digest in self._texts:
                self._texts.move_to_end(digest)
            return self._texts.get(digest)

    def add(self, texts: Mapping[str, str]) -> None:
        """Remember texts that are committed."""
        with self._guard:
            for digest, text in texts.items():
                if digest not in self._texts:
                    self._texts[digest] = text
                    self._taken += len(text)
            while self._taken > self._room:
                self._taken -= len(self._texts.popitem(last=False)[1])


class Tx:
    """A transaction as store functions have it.

    Attributes:
        conn: What it is done on.
        now: When it is done: one moment for all of it.
        outbox: What it sets going.
        hold: The place that it is written for, by its owner; None for all others.
        is_held: That place was looked at, and is held until the transaction ends.
        recent: What is remembered of long texts.
        known: What is known of plans, where only one writes.
    """

    __slots__ = ("conn", "execute", "hold", "is_held", "known", "now", "outbox", "recent")

    def __init__(
        self, conn: Connection, now: datetime, recent: Recent, known: KnownPlans | None = None
    ) -> None:
        self.conn, self.now, self.recent, self.known = conn, now, recent, known
        self.outbox = Outbox()
        self.hold: Hold | None = None
        self.is_held = False
        self.execute = conn.execute

    def post(self, statement: Executable, given: Mapping[str, Any]) -> None:
        """Execute a statement that only one of several processes has, and do not wait for it."""
        cast("Pipelined", self.conn).post(statement, given)


@contextmanager
def part(tx: Tx) -> Generator[None]:
    """Part of a transaction: when it raises, it is as if it had not been, and the rest goes on."""
    box = tx.outbox
    before = {id(each): len(each) for each in box.lists()}
    texts = dict(box.texts)
    tx.conn.exec_driver_sql("SAVEPOINT part")
    try:
        yield
        tx.conn.exec_driver_sql("RELEASE SAVEPOINT part")
    except BaseException:
        tx.conn.exec_driver_sql("ROLLBACK TO SAVEPOINT part")
        tx.conn.exec_driver_sql("RELEASE SAVEPOINT part")
        if tx.known:
            tx.known.forget()
        for each in box.lists():
            del each[before.get(id(each), 0) :]
        box.texts = texts
        raise


def go_on(
    tx: Tx,
    kind: str,
    key: str,
    epoch: int = 0,
    since: datetime | None = None,
    found: Any = None,  # noqa: ANN401 - its kind's own
) -> None:
    """Once committed, have a job driven: the continuation of this state change."""
    tx.outbox.jobs.append(Job(kind, key, epoch, since, found))


def hand_begun(tx: Tx, kind: str, key: str, begun: Any) -> None:  # noqa: ANN401 - its kind's own
    """Have a job that this transaction sets going carry out what it has started for it."""
    jobs = tx.outbox.jobs
    for place, job in enumerate(jobs):
        if (job.kind, job.key) == (kind, key):
            jobs[place] = replace(job, begun=begun)


def stop(tx: Tx, kind: str, key: str) -> None:
    """Once committed, end a job that runs: its work was taken from it."""
    tx.outbox.stops.append(JobStop(kind, key))


# Ids: a prefix that says what it names, and a UUID of version 7, so that they sort by age.


def new_id(prefix: str) -> str:
    """A new id, such as `plan_0197f3…`."""
    return f"{prefix}_{uuid7().hex}"
