"""A transaction, and the work that it starts as soon as it is committed, never earlier."""

import sqlite3
import threading
import time
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Executable, create_engine
from sqlalchemy.engine import CursorResult, Dialect
from sqlalchemy.exc import DBAPIError, MultipleResultsFound, NoResultFound
from sqlalchemy.sql import CompoundSelect, Delete, Insert, Select, Update
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine
from uuid6 import uuid7

from gonogo.domain.base import WrittenEvent
from gonogo.domain.records import Job, JobStop, Plan, Timer
from gonogo.domain.schedule import Shape, Standings
from gonogo.store.columns import Converted
from gonogo.store.schema import plans, subtasks

if TYPE_CHECKING:
    from gonogo.store.postgres import Pipelined

# A cache of plans for the writer of a SQLite file: a step of a plan then costs only what changed.
#
# The cache always equals what the writer's next read would give. In this process one thread writes,
# on one connection, which reports each statement that writes plans or subtasks: one that did not
# come `through` here clears the cache. `PRAGMA data_version` shows, when a transaction begins, what
# other connections have committed, of this process or of another one; from then on nobody else can
# write. A rollback, of a transaction or of a part of one, clears the cache too. On PostgreSQL many
# processes write at once, so there is no cache.

T = TypeVar("T")
_MOST = 20_000
"""The largest number of subtasks, of all known plans together."""


class KnownPlan(Struct):
    """A plan as in the database, or as the transaction that has taken it is about to write it."""

    plan: Plan
    shape: Shape
    stand: Standings
    moves: list[Any] = []
    """The changes that are not written yet."""
    seen: int = 0
    """The number of writes after which it was equal to the database."""


class KnownPlans:
    """The plans that were used last.

    A transaction takes a plan out, so that nobody else sees what it has not written yet, and gives
    it back at its end.
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
        """Forget everything, including the plans that were taken."""
        self._plans.clear()
        self._size = 0
        self._taken.clear()
        self._writes += 1

    def take(self, plan_id: str, read: Callable[[], KnownPlan]) -> KnownPlan:
        """Take a plan, for this transaction alone.

        Args:
            read: Reads the plan if it is not known.
        """
        known = self._drop(plan_id) or read()
        known.seen = self._writes
        self._taken.append(known)
        return known

    def give_back(self) -> None:
        """At the end of a transaction, keep those of its plans that equal the database."""
        for known in self._taken:
            if known.seen == self._writes and not known.moves:
                self._keep(known)
        self._taken.clear()

    def told_of_write(self) -> None:
        """A statement writes plans or subtasks."""
        if not self._comes_through:
            self.forget()

    def through(self, plan_id: str, write: Callable[[], T], moved: KnownPlan | None = None) -> T:
        """Write a part of one plan, which is then not known any more.

        Args:
            write: Returns something true if it wrote everything.
            moved: The plan that was taken, if only its moves are written; it stays valid.
        """
        self._drop(plan_id)
        is_whole = moved is not None and moved.seen == self._writes
        # Even if `write` fails, the plans taken before count as different from the database.
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
_A_WAIT = timedelta(seconds=1)
_LOOKS = 9
"""Of so many looks at the clock, the shortest one was surely not interrupted."""
_SECONDS: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_passed() -> float:
    """The seconds since the machine started; nobody can set them, and they count in sleep too."""
    return time.clock_gettime(_SECONDS)


def utc_now() -> datetime:
    """The time, by the machine's clock."""
    return datetime.now(UTC)


class SharedClock:
    """The time for one of several processes: the database's, if the machine's clock is wrong.

    It counts the seconds that pass, so nobody can set it. All processes of a machine whose clock is
    right have the same time, so later things have later times.
    """

    def __init__(self) -> None:
        """Begin with the machine's time."""
        self._zero = min(_look() for _ in range(_LOOKS))[1]
        """The time at which `seconds_passed` was 0."""

    def __call__(self) -> datetime:
        """The time now."""
        return self._zero + timedelta(seconds=seconds_passed())

    def set(self, told: datetime) -> None:
        """Use the time that the database just told; ignore a difference that is only its delay."""
        if abs(told - self()) > _A_WAIT:
            self._zero = told - timedelta(seconds=seconds_passed())


def _look() -> tuple[float, datetime]:
    """How long a look at the clock took, and the time at which `seconds_passed` was 0."""
    before = seconds_passed()
    now = utc_now()
    return seconds_passed() - before, now - timedelta(seconds=before)


class Footprint(NamedTuple):
    """The size of a database, in bytes."""

    bytes: int
    free: int = 0
    """The part of `bytes` that is known to be unused."""
    log: int = 0
    """The size of its write-ahead log, not part of `bytes`."""


class Extent(NamedTuple):
    """How far an audit chain reaches, and its session's event log."""

    entries: int
    """The number of audit entries that it ever had."""
    hash: str
    """The hash of the last entry."""
    events: int | None = None
    """The `seq` of the last event; None for the chains of the system and of erased sessions."""


class Hold(Struct, frozen=True, eq=False):
    """One worker's hold of a place; its writes are refused once another worker has the place."""

    place_id: str
    fence: int
    is_safe: Callable[[], bool]
    """Whether, by the clock of this process, no other worker can have the place yet."""
    lost: Callable[[], None]
    """Ends the work under this hold; called in the event loop."""


_held: ContextVar[Hold | None] = ContextVar("held", default=None)


@contextmanager
def owning(hold: Hold) -> Generator[None]:
    """Inside this context, writes are those of the owner of a place."""
    token = _held.set(hold)
    try:
        yield
    finally:
        _held.reset(token)


def held() -> Hold | None:
    """The hold under which the caller writes; None if it is not the owner of a place."""
    return _held.get()


class Outbox(Struct):
    """Filled by store functions inside a transaction, handed over after its commit."""

    hold: Hold | None = None
    """The hold of a place under which it was written, and under which its work is to be done."""
    wanted: set[str] = set()
    """The places for which it has work; their owners are told."""
    events: list[WrittenEvent] = []
    jobs: list[Job] = []
    stops: list[JobStop] = []
    timers: list[Timer] = []
    pending: dict[str, Any] = {}
    """By chain, the events and audit entries to write at the transaction's end."""
    touched: list[str] = []
    """Sessions with a change that no event and no audit entry tells."""
    texts: dict[str, str] = {}
    """By digest, the long texts that this transaction is the first to store."""
    extents: dict[str, Extent] = {}
    """The new extents of the chains that it added to."""

    def lists(self) -> list[list[Any]]:
        """All lists that only grow while the transaction runs."""
        told = [each for p in self.pending.values() for each in (p.bodies, p.notes)]
        return [self.events, self.jobs, self.stops, self.timers, self.touched, *told]


class Recent:
    """A cache of the long texts that were stored or read lately: most are soon read again."""

    def __init__(self, room: int = 4_000_000) -> None:
        """Begin empty.

        Args:
            room: How many characters are remembered, of all texts together.
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
    """A transaction, as store functions get it.

    Attributes:
        conn: Its connection.
        now: Its time: the same moment for everything in it.
        outbox: What it starts after its commit.
        hold: The hold of the place whose owner writes; None for all other writers.
        is_held: The place was checked, and stays locked until the transaction ends.
        recent: The cache of long texts.
        known: The cache of plans, if there is only one writer.
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
        """Execute a statement without waiting for it; only where several processes share work."""
        cast("Pipelined", self.conn).post(statement, given)


@contextmanager
def part(tx: Tx) -> Generator[None]:
    """A part of a transaction: if it raises, only its own changes are undone."""
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
    """After the commit, start a job: the continuation of this state change."""
    tx.outbox.jobs.append(Job(kind, key, epoch, since, found))


def hand_begun(tx: Tx, kind: str, key: str, begun: Any) -> None:  # noqa: ANN401 - its kind's own
    """Give a job that this transaction starts the work that was already begun for it."""
    jobs = tx.outbox.jobs
    for place, job in enumerate(jobs):
        if (job.kind, job.key) == (kind, key):
            jobs[place] = replace(job, begun=begun)


def stop(tx: Tx, kind: str, key: str) -> None:
    """After the commit, end a running job: its work was taken from it."""
    tx.outbox.stops.append(JobStop(kind, key))


# Ids: a prefix that says what the id names, and a UUID of version 7, so that ids sort by age.


def new_id(prefix: str) -> str:
    """A new id, such as `plan_0197f3…`."""
    return f"{prefix}_{uuid7().hex}"


# Statements are compiled once and passed directly to SQLite's driver.
#
# For each execution SQLAlchemy takes four times as long as SQLite itself needs for the small
# statements of the store. A `Direct` connection keeps each statement's text, the places of its
# parameters, and how values are read and written. What it cannot prepare, it executes like any
# other connection. Results, values and errors are the same either way.

Converter = Callable[[Any], Any] | None
Given = Mapping[str, Any]
Statement = Insert | Update | Delete | Select[Any]
_STATEMENTS = (Insert, Update, Delete, Select)
_BY_NAME = dict, Mapping
"""Parameters by name are nearly always a `dict`, which `isinstance` recognizes fast."""
_DIALECT: Dialect = create_engine("sqlite://").dialect
"""A statement that is prepared for one file fits every other file."""


class Found(list[Any]):
    """The rows of a statement, all read; it has those methods of a result that the store uses."""

    rowcount: int = -1

    def all(self) -> "Found":
        """All rows."""
        return self

    def first(self) -> Any:  # noqa: ANN401
        """The first row; None where there is none."""
        return self[0] if self else None

    def one_or_none(self) -> Any:  # noqa: ANN401
        """The only row; None where there is none."""
        if len(self) > 1:
            raise MultipleResultsFound("Multiple rows were found when one or none was required")
        return self.first()

    def one(self) -> Any:  # noqa: ANN401
        """The only row."""
        if not self:
            raise NoResultFound("No row was found when one was required")
        return self.one_or_none()

    def scalar(self) -> Any:  # noqa: ANN401
        """The first value of the first row; None where there is none."""
        return self[0][0] if self else None

    def scalar_one(self) -> Any:  # noqa: ANN401
        """The first value of the only row."""
        return self.one()[0]

    def scalars(self) -> "Found":
        """The first value of each row."""
        return Found([row[0] for row in self])

    def mappings(self) -> "Found":
        """The rows as dictionaries."""
        return Found([row._asdict() for row in self])


class PreparedStatement(Struct, frozen=True):
    """A statement in the form that the driver takes."""

    sql: str
    places: tuple[tuple[str | None, Converter, Any], ...]
    """For each parameter: its name and the converter for writing, or its fixed value."""
    columns: tuple[Converter, ...]
    """The converter of each column for reading; empty for a statement that returns no rows."""
    row: type[Any]
    writes_plans: bool

    def bind(self, given: Given) -> list[Any]:
        """The values of the parameters, in order, converted for writing."""
        return [
            fixed
            if name is None
            else value
            if (value := given[name]) is None or convert is None
            else convert(value)
            for name, convert, fixed in self.places
        ]

    def read(self, rows: Iterable[Sequence[Any]]) -> list[Any]:
        """Make named rows of the driver's rows."""
        make, columns = self.row._make, self.columns
        return [
            make(
                [
                    value if read is None or value is None else read(value)
                    for read, value in zip(columns, row, strict=True)
                ]
            )
            for row in rows
        ]


class Direct(Connection):
    """A connection to SQLite that prepares each statement once, for all its executions."""

    writes_plans: Callable[[], None] | None = None
    """Called before each statement that writes plans or subtasks, or may write them."""

    @cached_property
    def raw(self) -> sqlite3.Connection:
        """The driver's own connection, which this one keeps as long as it lives."""
        return cast("sqlite3.Connection", self.connection.driver_connection)

    def execute(  # type: ignore[override]
        self,
        statement: Executable,
        parameters: Given | Sequence[Given] | None = None,
        *,
        execution_options: Mapping[str, Any] | None = None,
    ) -> CursorResult[Any]:
        """Execute a statement."""
        several, first = apart(parameters)
        ready = prepared(statement, tuple(first), _DIALECT)
        if self.writes_plans and (
            _writes_plans(statement) if ready is None else ready.writes_plans
        ):
            self.writes_plans()
        # If somebody listens to statements, SQLAlchemy must execute them: only it sends events.
        if ready is None or execution_options or self._has_events:
            return super().execute(statement, parameters, execution_options=execution_options)
        raw = self.raw
        bound = [ready.bind(given) for given in several] if several else ready.bind(first)
        try:
            cursor = raw.executemany(ready.sql, bound) if several else raw.execute(ready.sql, bound)
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                ready.sql, bound, error, sqlite3.Error, dialect=self.dialect
            ) from error
        found: Any = Found(ready.read(cursor) if ready.columns else ())
        found.rowcount = cursor.rowcount
        return found


def apart(parameters: Given | Sequence[Given] | None) -> tuple[Sequence[Given] | None, Given]:
    """The parameters of each execution, if there are several, and those of the first."""
    if parameters is None or isinstance(parameters, _BY_NAME):
        return None, parameters or {}
    return parameters, parameters[0] if parameters else {}


@lru_cache(maxsize=1024)
def prepared(
    statement: Executable, names: tuple[str, ...], dialect: Dialect
) -> PreparedStatement | None:
    """The statement for parameters of these names; None if its text is not the same each time."""
    if not isinstance(statement, _STATEMENTS):
        return None
    found = cast("Statement", statement)
    compiled = _compiled(found, names, dialect)
    if compiled.post_compile_params or compiled.prefetch:
        return None
    if compiled.literal_execute_params:
        # SQLAlchemy renders such parameters into the text only if every parameter has a value.
        if not isinstance(found, Select):
            return None
        found = found.params(dict.fromkeys(names))
        compiled = _compiled(found, names, dialect, render_postcompile=True)
    columns = list(found.exported_columns)
    return PreparedStatement(
        str(compiled),
        tuple(_places(compiled, set(names), dialect)),
        tuple(_reader(column.type, dialect) for column in columns),
        _row([str(column.key) for column in columns]),
        _writes_plans(found),
    )


def _row(names: Sequence[str]) -> type[Any]:
    """A class of rows whose values are found by position and by name."""
    return namedtuple("Row", names, rename=True)  # type: ignore[misc]


def _writes_plans(statement: Executable) -> bool:
    if isinstance(statement, Insert | Update | Delete):
        return statement.table in (plans, subtasks)
    return not isinstance(statement, Select | CompoundSelect)


def _compiled(
    statement: Statement, names: Sequence[str], dialect: Dialect, **how: bool
) -> SQLCompiler:
    keys = None if isinstance(statement, Select) else list(names)
    return statement.compile(dialect=dialect, column_keys=keys, compile_kwargs=how)


def _places(
    compiled: SQLCompiler, given: Collection[str], dialect: Dialect
) -> Iterator[tuple[str | None, Converter, Any]]:
    parameters = {name: parameter for parameter, name in compiled.bind_names.items()}
    for name in compiled.positiontup or ():
        convert = _writer(parameters[name].type, dialect)
        if name in given:
            yield name, convert, None
        else:
            value = parameters[name].effective_value
            yield None, None, value if value is None or convert is None else convert(value)


def _writer(kind: TypeEngine[Any], dialect: Dialect) -> Converter:
    """The converter for writing a value that is not None."""
    if isinstance(kind, Converted):
        return kind.to_column
    return kind.dialect_impl(dialect).bind_processor(dialect)


def _reader(kind: TypeEngine[Any], dialect: Dialect) -> Converter:
    """The converter for reading a value that is not None."""
    if isinstance(kind, Converted):
        return kind.from_column
    return kind.dialect_impl(dialect).result_processor(dialect, None)
