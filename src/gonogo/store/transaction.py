"""A transaction, and what it sets going once it is committed, and not a moment earlier."""

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
_A_WAIT = timedelta(seconds=1)
_LOOKS = 9
"""The shortest of so many was not interrupted."""
_SECONDS: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_passed() -> float:
    """The seconds since the machine was started; nobody sets them, and they go on as it sleeps."""
    return time.clock_gettime(_SECONDS)


def utc_now() -> datetime:
    """The time, by the machine's clock."""
    return datetime.now(UTC)


class SharedClock:
    """The time for one of several processes: by the database, where a machine's clock is wrong.

    It goes on with the seconds that pass, so that nobody sets it. All processes of a machine whose
    clock is right have the same time, so that what comes after something else has a later one.
    """

    def __init__(self) -> None:
        """Begin with the machine's."""
        self._zero = min(_look() for _ in range(_LOOKS))[1]
        """The time at which no second had passed."""

    def __call__(self) -> datetime:
        """Say what time it is."""
        return self._zero + timedelta(seconds=seconds_passed())

    def set(self, told: datetime) -> None:
        """Go by what the database has just told, unless that differs by no more than a wait."""
        if abs(told - self()) > _A_WAIT:
            self._zero = told - timedelta(seconds=seconds_passed())


def _look() -> tuple[float, datetime]:
    """How long a look at the machine's clock took, and at what time no second had passed."""
    before = seconds_passed()
    now = utc_now()
    return seconds_passed() - before, now - timedelta(seconds=before)


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


# Statements compiled once, and handed to SQLite's driver as they are.
#
# SQLAlchemy looks up, sets up and wraps each execution anew, at four times what SQLite needs
# for the small statements that the store is made of. A `Direct` connection keeps each statement's
# text, where its parameters go, and how values are read and written; what it cannot prepare, it
# executes as any other connection. Results, values and errors are the same either way.

Converter = Callable[[Any], Any] | None
Given = Mapping[str, Any]
Statement = Insert | Update | Delete | Select[Any]
_STATEMENTS = (Insert, Update, Delete, Select)
_BY_NAME = dict, Mapping
"""Nearly always the first, which is seen at once."""
_DIALECT: Dialect = create_engine("sqlite://").dialect
"""What is prepared for one file counts for every other."""


class Found(list[Any]):
    """What a statement gave: as much of a result as the store asks for, read at once."""

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
    """A statement as the driver takes it."""

    sql: str
    places: tuple[tuple[str | None, Converter, Any], ...]
    """Of each parameter: by which name it is given and how it is written; or its fixed value."""
    columns: tuple[Converter, ...]
    """How each column of a row is read; empty for a statement that gives none."""
    row: type[Any]
    writes_plans: bool

    def bind(self, given: Given) -> list[Any]:
        """The values of the parameters, in their order, as they are written."""
        return [
            fixed
            if name is None
            else value
            if (value := given[name]) is None or convert is None
            else convert(value)
            for name, convert, fixed in self.places
        ]

    def read(self, rows: Iterable[Sequence[Any]]) -> list[Any]:
        """Rows with names, of what the driver gives."""
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
    """A connection to SQLite that prepares the statements that it is given again and again."""

    writes_plans: Callable[[], None] | None = None
    """Told before each statement that writes plans or subtasks, or may."""

    @cached_property
    def raw(self) -> sqlite3.Connection:
        """The driver's own connection, which this one keeps as long as it is of use."""
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
        # Whoever listens to statements is told of them, by the longer way.
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
    """The statement for parameters of these names; None for one that is not the same each time."""
    if not isinstance(statement, _STATEMENTS):
        return None
    found = cast("Statement", statement)
    compiled = _compiled(found, names, dialect)
    if compiled.post_compile_params or compiled.prefetch:
        return None
    if compiled.literal_execute_params:
        # What is written into the text is only written once every parameter has some value.
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
    """A row whose values are found by place and by name."""
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
    """How a value is written that is there."""
    if isinstance(kind, Converted):
        return kind.to_column
    return kind.dialect_impl(dialect).bind_processor(dialect)


def _reader(kind: TypeEngine[Any], dialect: Dialect) -> Converter:
    """How a value is read that is there."""
    if isinstance(kind, Converted):
        return kind.from_column
    return kind.dialect_impl(dialect).result_processor(dialect, None)
