"""PostgreSQL: a bounded pool of threads, each function in its own transaction.

After a serialization failure or a deadlock the function runs again: it has no other effects than
its statements. The same happens if a row exists that the function did not see: another transaction
was committed between the look and the insert, and the next look sees it.

Each connection has its own row in `writers`, and every transaction on it increases its number. If a
connection is cut in the middle of a COMMIT, this number shows the outcome. A process that takes the
database over deletes these rows, so transactions that earlier drivers have begun fail.
"""

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from select import POLLIN, POLLOUT, poll
from typing import Any, cast
from weakref import WeakSet

import psycopg
from msgspec import Struct
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    NullPool,
    create_engine,
    event,
    func,
    make_url,
    select,
)
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine import CursorResult
from sqlalchemy.exc import DBAPIError, DisconnectionError, SQLAlchemyError

from gonogo.domain.errors import Busy, Internal, because
from gonogo.store.driver import COUNT_OR_FAIL, AdvisoryLock, join_writers, last_transaction
from gonogo.store.events import flush, lost
from gonogo.store.outage import Pool, is_away, raise_told
from gonogo.store.schema import METADATA
from gonogo.store.transaction import (
    Clock,
    Footprint,
    Found,
    Given,
    Outbox,
    PreparedStatement,
    Recent,
    Tx,
    apart,
    prepared,
)

# Statements are passed directly to PostgreSQL's driver, without a wait for each of them.
#
# A statement that only writes is sent at once, and its answer is read together with that of the
# next query. So BEGIN is sent with the first statement, COMMIT with the last writes, and a
# transaction needs one round trip for each query. An error of a statement is raised by the commit
# at the latest; that commit has then not happened, as the server skips everything after an error.
#
# Results, values and errors are the same as from SQLAlchemy itself. It executes the statements that
# cannot be prepared.

_DIALECT = PGDialect_psycopg(paramstyle="numeric_dollar")
_OF_CONNECTION = "gonogo.line"
_DONE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_NUL, _NAMELESS = b"\x00", b""
_LONG = 4_096
"""A statement with a value of more bytes is sent at once, and not together with the next one."""
_AS_TEXT: Mapping[type, Callable[[Any], bytes]] = {
    str: str.encode,
    int: b"%d".__mod__,
    bool: lambda value: b"t" if value else b"f",
    bytes: lambda value: b"\\x" + value.hex().encode(),
    float: lambda value: repr(value).encode(),
}


class _SentStatement(Struct):
    """A statement that was sent, and its result as soon as it is read."""

    sql: str
    prepares: bool = False
    """It only prepares the statement under a name."""
    result: Any = None


@dataclass(slots=True, eq=False)
class _Failed(Exception):
    """The server refuses a statement."""

    sql: str
    error: psycopg.Error


class _SqlLine:
    """A connection of the driver, and the sent statements whose results are not read yet."""

    def __init__(self, raw: Any) -> None:  # noqa: ANN401 - a connection of the driver
        self.conn = raw.pgconn
        self._encoding: str = raw.info.encoding
        self._rows = Transformer(raw)
        self._poll = poll()
        self._names = dict[str, bytes]()
        """The name of each statement that was sent; empty before it comes for the second time."""
        self._made = 0
        self._due: list[_SentStatement] = []
        self._is_left = False
        self.is_begun = False

    def leave(self) -> None:
        """Send everything; the next user of the connection reads the answers."""
        self.conn.pipeline_sync()
        self.conn.flush()
        self._is_left = True

    def free(self) -> None:
        """Read the answers that the last user left; then anybody can use the connection.

        Raises:
            Error: the connection is lost.
        """
        if self._is_left:
            self.receive()

    def send(self, sql: str) -> _SentStatement:
        """Send a statement without parameters, as it is.

        Its answer comes after the answers to all earlier statements.
        """
        self._open()
        self.conn.send_query_params(sql.encode(), ())
        return self._sent(sql)

    def send_bound(self, sql: str, values: Sequence[bytes | None]) -> _SentStatement:
        """Send a statement with its parameters; it is prepared if it comes again."""
        self._open()
        if name := self._name(sql):
            self.conn.send_query_prepared(name, values)
        else:
            self.conn.send_query_params(sql.encode(), values)
        if any(value and len(value) > _LONG for value in values):
            # The server can begin already.
            self.conn.flush()
        return self._sent(sql)

    def _open(self) -> None:
        if not self._due:
            self.conn.enter_pipeline_mode()

    def _sent(self, sql: str, *, prepares: bool = False) -> _SentStatement:
        self._due.append(answer := _SentStatement(sql, prepares))
        return answer

    def _name(self, sql: str) -> bytes:
        """The name of the prepared statement; it gets one when it comes for the second time."""
        name = self._names.get(sql)
        if name == _NAMELESS:
            self._made += 1
            name = b"gonogo_%d" % self._made
            self.conn.send_prepare(name, sql.encode())
            self._sent(sql, prepares=True)
        self._names[sql] = name or _NAMELESS
        return name or _NAMELESS

    def receive(self) -> None:
        """Read the answers to everything that was sent.

        Raises:
            _Failed: the server refuses a statement; this is the first one.
            Error: the connection is lost.
        """
        due, self._due = self._due, []
        if not due:
            return
        found: list[Any] = []
        try:
            if not self._is_left:
                self.conn.pipeline_sync()
            self._is_left = False
            found.extend(self._results())
            self.conn.exit_pipeline_mode()
        finally:
            # An error that the server sent before it went away tells more than the lost connection.
            self._check(due, found)
        for answer, result in zip(due, found, strict=True):
            answer.result = result

    def rows(self, result: Any) -> list[Any]:  # noqa: ANN401 - of the driver
        """The rows of a result."""
        self._rows.set_pgresult(result)
        return self._rows.load_rows(0, result.ntuples, tuple)

    def _check(self, due: Sequence[_SentStatement], found: Sequence[Any]) -> None:
        for number, (answer, result) in enumerate(zip(due, found, strict=False)):
            if result.status not in _DONE:
                # The server skipped the rest, so statements prepared there have no name.
                self._names.update({each.sql: _NAMELESS for each in due[number:] if each.prepares})
                raise _Failed(answer.sql, error_from_result(result, self._encoding))

    def _results(self) -> Iterator[Any]:
        conn = self.conn
        while conn.flush():
            self._wait(POLLIN | POLLOUT)
        while True:
            while conn.is_busy():
                self._wait(POLLIN)
            result = conn.get_result()
            if result is None:
                if conn.status == ConnStatus.BAD:
                    raise psycopg.OperationalError("the connection is lost")
            elif result.status == ExecStatus.PIPELINE_SYNC:
                return
            else:
                yield result

    def _wait(self, until: int) -> None:
        self._poll.register(self.conn.socket, until)
        self._poll.poll()
        self.conn.consume_input()


class _Later(Struct, frozen=True):
    """The result of a statement without a wait for it."""

    settle: Callable[[], None]
    answers: list[_SentStatement]

    @property
    def rowcount(self) -> int:
        """How many rows it has written; this waits for the answers."""
        self.settle()
        return sum(answer.result.command_tuples or 0 for answer in self.answers)


def free(raw: object, record: Any, _proxy: object) -> None:  # noqa: ANN401 - of the pool
    """Read what is left on a connection, before the pool gives it to somebody."""
    if line := record.info.get(_OF_CONNECTION):
        try:
            line.free()
        except (psycopg.Error, _Failed) as error:
            # The pool then gives another connection.
            raise DisconnectionError(str(error)) from error


class Pipelined(Connection):
    """A connection to PostgreSQL, for one transaction."""

    def __init__(self, engine: Engine, begin: str = "BEGIN") -> None:
        """Take a connection; the first statement begins the transaction.

        Args:
            begin: The statement that begins a transaction.
        """
        super().__init__(engine)
        self._begin = begin
        if _OF_CONNECTION not in self.info:
            self.info[_OF_CONNECTION] = _SqlLine(self.connection.driver_connection)
        self._line: _SqlLine = self.info[_OF_CONNECTION]

    def execute(  # type: ignore[override]
        self,
        statement: Executable,
        parameters: Given | Sequence[Given] | None = None,
        *,
        execution_options: Mapping[str, Any] | None = None,
    ) -> CursorResult[Any]:
        """Execute a statement. If it returns no rows, do not wait for it."""
        several, first = apart(parameters)
        ready = prepared(statement, tuple(first), _DIALECT)
        # If somebody listens to statements, SQLAlchemy must execute them: only it sends events.
        is_heard = self._has_events or cast("Any", self.engine)._has_events
        if ready is None or execution_options or is_heard:
            self._open()
            self.settle()
            return super().execute(statement, parameters, execution_options=execution_options)
        answers = [self._send(ready, given) for given in several or (first,)]
        if not ready.columns:
            return cast("CursorResult[Any]", _Later(self.settle, answers))
        self.settle()
        [result] = [answer.result for answer in answers]
        found = Found(ready.read(self._line.rows(result)))
        found.rowcount = result.command_tuples or 0
        return cast("CursorResult[Any]", found)

    def exec_driver_sql(self, statement: str, *_: Any, **__: Any) -> CursorResult[Any]:  # noqa: ANN401
        """Execute a statement as it is, and wait for it. Its rows have no names."""
        answer = self.send(statement)
        self.settle()
        return cast("CursorResult[Any]", Found(self._line.rows(answer.result)))

    def send(self, statement: str) -> _SentStatement:
        """Send a statement as it is, and do not wait for it."""
        self._open()
        return self._sent(statement)

    def settle(self) -> None:
        """Wait for all that was sent.

        Raises:
            DBAPIError: one of the statements failed.
        """
        with self._telling():
            self._line.receive()

    def post(self, statement: Executable, given: Given) -> None:
        """Execute a statement whose only possible news is an error, and do not wait for it."""
        ready = prepared(statement, tuple(given), _DIALECT)
        assert ready is not None  # noqa: S101 - one of our own
        self._send(ready, given)

    def commit(self) -> None:
        """Commit, if anything was begun.

        Raises:
            DBAPIError: nothing was committed; or, if the COMMIT itself was cut off, the outcome is
                unknown.
        """
        if self._line.is_begun:
            self._sent("COMMIT")
            self.settle()
            self._line.is_begun = False

    def close(self) -> None:
        """Roll back what was not committed."""
        if not self.invalidated and self._line.is_begun:
            with suppress(DBAPIError):
                self.settle()
            with suppress(DBAPIError):
                self._take_back()
            if self._line.is_begun:
                # Nobody may continue in the transaction that was begun here.
                self.invalidate()
        super().close()

    def leave(self) -> None:
        """End a transaction that only read. The next user of the connection reads the answer."""
        if self._line.is_begun and not self.in_transaction():
            # The read values are known, even if the connection fails now.
            with suppress(DBAPIError), self._telling():
                self._line.send("ROLLBACK")
                self._line.leave()
            self._line.is_begun = False

    def _take_back(self) -> None:
        if not self.invalidated:
            self._sent("ROLLBACK")
            self.settle()
            self._line.is_begun = False

    def _open(self) -> None:
        if not self._line.is_begun:
            self._sent(self._begin)
            self._line.is_begun = True

    def _send(self, ready: PreparedStatement, given: Given) -> _SentStatement:
        self._open()
        with self._telling(ready.sql):
            bound = [None if each is None else _as_text(each) for each in ready.bind(given)]
            return self._line.send_bound(ready.sql, bound)

    def _sent(self, sql: str) -> _SentStatement:
        with self._telling(sql):
            return self._line.send(sql)

    @contextmanager
    def _telling(self, sql: str = "") -> Generator[None]:
        """Convert errors of the driver to those of SQLAlchemy."""
        try:
            yield
        except _Failed as failed:
            raise self._told(failed.sql, failed.error) from failed.error
        except psycopg.Error as error:
            raise self._told(sql, error) from error

    def _told(self, sql: str, error: psycopg.Error) -> Exception:
        # After a failover, new connections may reach a server that can be written.
        is_lost = self._line.conn.status == ConnStatus.BAD or error.sqlstate == _READ_ONLY
        if is_lost and not self.invalidated:
            # If the server went away, the earlier connections of the pool are lost too.
            cast("Any", self.engine.pool)._invalidate(self.connection, error)
            self.invalidate(error)
        return DBAPIError.instance(
            sql, None, error, psycopg.Error, dialect=self.dialect, connection_invalidated=is_lost
        )


def _as_text(value: Any) -> bytes:  # noqa: ANN401 - as the driver takes it
    kind = cast("type[object]", type(value))
    text = _maker(kind)(value)
    if _NUL in text:
        raise psycopg.DataError("PostgreSQL keeps no text that has a NUL (0x00)")
    return text


@cache
def _maker(kind: type[object]) -> Callable[[Any], bytes]:
    return next(_AS_TEXT[each] for each in kind.__mro__ if each in _AS_TEXT)


Work = Callable[[Tx], Any]
_POOL, _READERS, _TRIES = 10, 4, 5
_NOTHING, _HOLDING, _READ_ONLY = "22012", "WITH holding", "25006"
"""SQLSTATE of a division by zero, the check of a place, SQLSTATE of a read-only server."""
_AGAIN = frozenset({"40001", "40P01", "23505"})
_OVERTAKEN = because("Another process has taken the database over")
_WRITER = "gonogo.writer"
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ"
_PAUSE = 0.5
_IDLE = 4_000
"""Milliseconds that a transaction may be idle, where several processes share the work."""
_MANNERS = 2.0
"""How many seconds a server has to answer when this process is about to end."""
_LINE: dict[str, str] = {
    "connect_timeout": "4", "keepalives_idle": "4", "keepalives_interval": "2",
    "keepalives_count": "2", "tcp_user_timeout": "8000", "target_session_attrs": "read-write",
}  # fmt: skip
"""Limits for a server that does not answer, in s and ms; a read-only one counts as away, too."""


class _Asked(Struct):
    """A function to run, as long as somebody waits for it."""

    work: Work
    loop: asyncio.AbstractEventLoop
    is_left: bool = False
    """The caller was cancelled, so the function must not be committed any more."""


@dataclass(slots=True, eq=False)
class _Doubt(Exception):
    """A COMMIT whose outcome is unknown, as its answer never came."""

    writer: str
    number: int
    box: Outbox
    outcome: Any
    answer: "asyncio.Task[Any]" = field(init=False)
    """Returns the outcome, or raises `Busy` if nothing was written."""


class PostgresBackend:
    """Runs functions on one PostgreSQL database."""

    def __init__(
        self,
        url: str,
        deliver: Callable[[Outbox], None],
        patience: float,
        clock: Clock,
        *,
        is_shared: bool = False,
    ) -> None:
        self._deliver, self._clock = deliver, clock
        self._is_shared = is_shared
        self._closed = False
        self._lines, self._guard = WeakSet[Any](), threading.Lock()
        opened = partial(_engine, url, partial(self._prepare, patience))
        self.engine = opened(
            pool_size=_POOL, max_overflow=0, pool_timeout=patience,
            # The connection that was used last has the most prepared statements and is clean.
            pool_use_lifo=True, pool_reset_on_return=None,
        )  # fmt: skip
        event.listen(self.engine, "checkout", free)
        self._recent = Recent()
        self.beside = opened(poolclass=NullPool, isolation_level="AUTOCOMMIT")
        """Makes connections that commit each statement by itself."""
        self.lock = AdvisoryLock(self.beside, self._cut)
        self._writers = Pool(_POOL - _READERS, "gonogo-writer")
        self._readers = Pool(_READERS, "gonogo-reader")
        self._doubts: set[asyncio.Task[Any]] = set()

    async def write(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function in a transaction that is committed before this returns.

        If the caller is cancelled before the COMMIT, nothing has changed. The thread that commits
        also hands over what the transaction starts, so a cancellation during the COMMIT loses
        nothing.

        Raises:
            Busy: the database is away; nothing was written.
        """
        if self._closed:
            raise Internal("The database is closed; start gonogo again")
        asked = _Asked(work, asyncio.get_running_loop())
        try:
            return await self._writers.run(partial(self._write, asked))
        except asyncio.CancelledError:
            asked.is_left = True
            raise
        except _Doubt as doubt:
            return await asyncio.shield(doubt.answer)

    async def read(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function on one consistent snapshot.

        Raises:
            Busy: the database is away.
        """
        return await self._readers.run(partial(self._read, work))

    async def vacuum(self) -> None:
        """Free the space of deleted rows for new ones, and shorten the files where possible.

        Raises:
            Busy: the database is away, or somebody else held a table for too long.
        """
        await self._writers.run(self._vacuum)

    async def room(self) -> Footprint:
        """The size of our tables."""
        return await self.read(_room)

    async def settle(self) -> bool:
        """Do nothing: PostgreSQL's autovacuum removes deleted rows by itself."""
        return True

    def missing(self, *, accept: bool = False) -> list[str]:
        """Nothing: a server does not lose what it has committed."""
        return []

    def give_up(self) -> None:
        """Stop trying to find out the outcomes of COMMITs."""
        for doubt in self._doubts:
            doubt.cancel()

    @contextmanager
    def ending(self) -> Generator[None]:
        """Inside this context, closing does not wait for a server that never answers."""
        cut = threading.Timer(_MANNERS, self._cut)
        cut.start()
        try:
            yield
        finally:
            cut.cancel()

    def close(self) -> None:
        """Finish what was begun, and close every connection."""
        self._closed = True
        self._writers.close()
        self._readers.close()
        self.engine.dispose()

    def _prepare(self, patience: float, raw: Any, _record: object) -> None:  # noqa: ANN401
        with self._guard:
            # It may be to another server, which lacks what was committed last.
            self._recent = Recent()
            self._lines.add(raw)
        with raw.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {round(patience * 1000)}")
            if self._is_shared:
                # So a process that is suspended inside a transaction does not block its places.
                cursor.execute(f"SET idle_in_transaction_session_timeout = {_IDLE}")
        raw.commit()

    def _cut(self) -> None:
        """Cut all connections, so that no thread waits for the server any more."""
        with self._guard:
            for line in list(self._lines):
                with suppress(Exception), socket.socket(fileno=os.dup(line.fileno())) as held:
                    held.shutdown(socket.SHUT_RDWR)

    def _write(self, asked: _Asked) -> Any:  # noqa: ANN401
        for tries_left in reversed(range(_TRIES)):
            try:
                with closing(Pipelined(self.engine)) as conn:
                    box, outcome = self._transact(conn, asked)
            except SQLAlchemyError as error:
                if not tries_left or _state(error) not in _AGAIN:
                    raise_told(error)
            else:
                self._recent.add(box.texts)
                # The caller's event loop may be closed; what is committed stays committed.
                with suppress(RuntimeError):
                    asked.loop.call_soon_threadsafe(self._deliver, box)
                return outcome
        raise AssertionError("the last try raises")

    def _transact(self, conn: Pipelined, asked: _Asked) -> tuple[Outbox, Any]:
        writer, number = self._writer_of(conn)
        tx = self._tx(conn)
        outcome = asked.work(tx)
        flush(tx)
        if asked.is_left:
            raise Busy(reason=because("nobody waits for it any more"))
        try:
            conn.post(COUNT_OR_FAIL, {"writer": writer})
            conn.commit()
        except DBAPIError as error:
            if _state(error) == _NOTHING:
                raise self._refused(conn, tx, error) from error
            if not is_away(error) or _state(error) in _AGAIN:
                raise
            doubt = _Doubt(writer, number, tx.outbox, outcome)
            with suppress(RuntimeError):
                asked.loop.call_soon_threadsafe(self._pursue, doubt)
            raise doubt from error
        conn.info[_WRITER] = writer, number
        return tx.outbox, outcome

    def _refused(self, conn: Pipelined, tx: Tx, error: DBAPIError) -> Exception:
        """The error for a failed check: the place was lost, or the database was taken over."""
        if tx.hold is not None and _HOLDING in (error.statement or ""):
            return lost(tx.hold)
        del conn.info[_WRITER]
        return Busy(reason=_OVERTAKEN)

    def _writer_of(self, conn: Pipelined) -> tuple[str, int]:
        """The name under which a connection counts its transactions, and the next number."""
        if _WRITER not in conn.info:
            name = secrets.token_hex(8)
            if not join_writers(self._tx(conn), name, self.lock.fence):
                raise Busy(reason=_OVERTAKEN)
            conn.commit()
            conn.info[_WRITER] = name, 0
        name, last = conn.info[_WRITER]
        return name, last + 1

    def _tx(self, conn: Connection) -> Tx:
        return Tx(conn, self._clock(), self._recent)

    def _pursue(self, doubt: _Doubt) -> None:
        doubt.answer = asyncio.ensure_future(self._find_out(doubt))
        self._doubts.add(doubt.answer)
        doubt.answer.add_done_callback(self._found_out)

    def _found_out(self, answer: "asyncio.Task[Any]") -> None:
        self._doubts.discard(answer)
        # Fetch the error, as perhaps nobody else will: asyncio would complain.
        if not answer.cancelled():
            answer.exception()

    async def _find_out(self, doubt: _Doubt) -> Any:  # noqa: ANN401 - what the function gave
        while True:
            try:
                last = await self._writers.run(partial(self._last_of, doubt.writer))
                break
            except Busy:
                await asyncio.sleep(_PAUSE)
        if last is None and self.lock.fence is None:
            raise Internal("It is unknown whether this was saved; check before you do it again")
        if last != doubt.number:
            raise Busy(reason=because("the transaction was cut off before it was committed"))
        self._deliver(doubt.box)
        return doubt.outcome

    def _last_of(self, writer: str) -> int | None:
        try:
            with Pipelined(self.engine) as conn:
                return last_transaction(self._tx(conn), writer)
        except SQLAlchemyError as error:
            raise_told(error)

    def _vacuum(self) -> None:
        try:
            with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
                for table in METADATA.sorted_tables:
                    conn.exec_driver_sql(f'VACUUM (ANALYZE) "{table.name}"')
        except SQLAlchemyError as error:
            raise_told(error)

    def _read(self, work: Work) -> Any:  # noqa: ANN401
        try:
            with closing(Pipelined(self.engine, _SNAPSHOT)) as conn:
                outcome = work(self._tx(conn))
                conn.leave()
                return outcome
        except SQLAlchemyError as error:
            raise_told(error)


def _room(tx: Tx) -> Footprint:
    return Footprint(
        sum(
            tx.execute(select(func.pg_total_relation_size(table.name))).scalar_one()
            for table in METADATA.sorted_tables
        )
    )


def _state(error: SQLAlchemyError) -> str | None:
    return getattr(getattr(error, "orig", None), "sqlstate", None)


def _engine(url: str, prepare: Callable[..., None], **more: Any) -> Engine:  # noqa: ANN401
    named = make_url(url)
    # Settings that the operator gives in the URL override ours.
    line = {name: value for name, value in _LINE.items() if name not in named.query}
    engine = create_engine(named, connect_args=line, **more)
    event.listen(engine, "connect", prepare)
    return engine
