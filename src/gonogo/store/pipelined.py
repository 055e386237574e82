"""Statements handed to PostgreSQL's driver as they are, and without a wait for each.

What a transaction only writes goes out at once, and its answer is read with that of the next
statement that is asked for something. So BEGIN goes with the first statement, COMMIT with all
that was written last, and a transaction takes as many round trips as it has questions. An error of
a statement is raised at the latest by the commit, which then has not been done: the server leaves
out whatever comes after an error.

Results, values and errors are those that SQLAlchemy itself gives; what cannot be prepared, it
executes.
"""

import select
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import psycopg
from msgspec import Struct
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from sqlalchemy import Connection, Engine, Executable
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine import CursorResult
from sqlalchemy.exc import DBAPIError, DisconnectionError

from gonogo.store.transaction import Found, Given, PreparedStatement, apart, prepared

_DIALECT = PGDialect_psycopg(paramstyle="numeric_dollar")
_LINE = "gonogo.line"
_DONE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_NUL, _NAMELESS = b"\x00", b""
_LONG = 4_096
"""Bytes of a value that is sent at once, and not with what comes next."""
_AS_TEXT: Mapping[type, Callable[[Any], bytes]] = {
    str: str.encode,
    int: b"%d".__mod__,
    bool: lambda value: b"t" if value else b"f",
    bytes: lambda value: b"\\x" + value.hex().encode(),
    float: lambda value: repr(value).encode(),
}


class _SentStatement(Struct):
    """What a statement gives, once it is read."""

    sql: str
    prepares: bool = False
    """It only gives the statement a name."""
    result: Any = None


@dataclass(slots=True, eq=False)
class _Failed(Exception):
    """A statement that the server refuses."""

    sql: str
    error: psycopg.Error


class _SqlLine:
    """A connection of the driver, and the statements that are on their way."""

    def __init__(self, raw: Any) -> None:  # noqa: ANN401 - a connection of the driver
        self.conn = raw.pgconn
        self._encoding: str = raw.info.encoding
        self._rows = Transformer(raw)
        self._poll = select.poll()
        self._names = dict[str, bytes]()
        """Of each statement that was sent."""
        self._made = 0
        self._due: list[_SentStatement] = []
        self._is_left = False
        self.is_begun = False

    def leave(self) -> None:
        """Send what is due, and have its answer be read by who uses the connection next."""
        self.conn.pipeline_sync()
        self.conn.flush()
        self._is_left = True

    def free(self) -> None:
        """Read what was left; then anybody can use the connection.

        Raises:
            Error: the connection is lost.
        """
        if self._is_left:
            self.receive()

    def send(self, sql: str) -> _SentStatement:
        """Send a statement without parameters, as it is.

        Its answer comes after those to all that was sent before.
        """
        self._open()
        self.conn.send_query_params(sql.encode(), ())
        return self._sent(sql)

    def send_bound(self, sql: str, values: Sequence[bytes | None]) -> _SentStatement:
        """Send a statement that will come again, with its parameters."""
        self._open()
        if name := self._name(sql):
            self.conn.send_query_prepared(name, values)
        else:
            self.conn.send_query_params(sql.encode(), values)
        if any(value and len(value) > _LONG for value in values):
            # The server has something to do meanwhile.
            self.conn.flush()
        return self._sent(sql)

    def _open(self) -> None:
        if not self._due:
            self.conn.enter_pipeline_mode()

    def _sent(self, sql: str, *, prepares: bool = False) -> _SentStatement:
        self._due.append(answer := _SentStatement(sql, prepares))
        return answer

    def _name(self, sql: str) -> bytes:
        """The statement's name, which it gets when it comes for the second time."""
        name = self._names.get(sql)
        if name == _NAMELESS:
            self._made += 1
            name = b"gonogo_%d" % self._made
            self.conn.send_prepare(name, sql.encode())
            self._sent(sql, prepares=True)
        self._names[sql] = name or _NAMELESS
        return name or _NAMELESS

    def receive(self) -> None:
        """Read the answer to all that was sent.

        Raises:
            _Failed: the first that the server refuses.
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
            # What the server has said before it went tells more than that it went.
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
                # What was to get a name from here on has none.
                self._names.update({each.sql: _NAMELESS for each in due[number:] if each.prepares})
                raise _Failed(answer.sql, error_from_result(result, self._encoding))

    def _results(self) -> Iterator[Any]:
        conn = self.conn
        while conn.flush():
            self._wait(select.POLLIN | select.POLLOUT)
        while True:
            while conn.is_busy():
                self._wait(select.POLLIN)
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
    """What a statement has done that is not waited for."""

    settle: Callable[[], None]
    answers: list[_SentStatement]

    @property
    def rowcount(self) -> int:
        """How many rows it has written; waits for it."""
        self.settle()
        return sum(answer.result.command_tuples or 0 for answer in self.answers)


def free(raw: object, record: Any, _proxy: object) -> None:  # noqa: ANN401 - of the pool
    """Have a connection of the pool be as others expect it, before it is given to somebody."""
    if line := record.info.get(_LINE):
        try:
            line.free()
        except (psycopg.Error, _Failed) as error:
            # The pool gives another one.
            raise DisconnectionError(str(error)) from error


class Pipelined(Connection):
    """A connection to PostgreSQL, for one transaction."""

    def __init__(self, engine: Engine, begin: str = "BEGIN") -> None:
        """Begin nothing before the first statement.

        Args:
            begin: The statement that begins a transaction.
        """
        super().__init__(engine)
        self._begin = begin
        if _LINE not in self.info:
            self.info[_LINE] = _SqlLine(self.connection.driver_connection)
        self._line: _SqlLine = self.info[_LINE]

    def execute(  # type: ignore[override]
        self,
        statement: Executable,
        parameters: Given | Sequence[Given] | None = None,
        *,
        execution_options: Mapping[str, Any] | None = None,
    ) -> CursorResult[Any]:
        """Execute a statement. One that gives no rows is not waited for."""
        several, first = apart(parameters)
        ready = prepared(statement, tuple(first), _DIALECT)
        # Whoever listens to statements is told of them, by the longer way.
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
        """Execute a statement that fails or has nothing to say, and do not wait for it."""
        ready = prepared(statement, tuple(given), _DIALECT)
        assert ready is not None  # noqa: S101 - one of our own
        self._send(ready, given)

    def commit(self) -> None:
        """Commit, if anything was begun.

        Raises:
            DBAPIError: nothing was committed; or, if that is what the COMMIT itself met, it is not
                known.
        """
        if self._line.is_begun:
            self._sent("COMMIT")
            self.settle()
            self._line.is_begun = False

    def close(self) -> None:
        """Take back what was not committed."""
        if not self.invalidated and self._line.is_begun:
            with suppress(DBAPIError):
                self.settle()
            with suppress(DBAPIError):
                self._take_back()
            if self._line.is_begun:
                # Nobody is to go on in what was begun here.
                self.invalidate()
        super().close()

    def leave(self) -> None:
        """End what has only read. The answer to that is read by who uses the connection next."""
        if self._line.is_begun and not self.in_transaction():
            # What was read is known, whatever becomes of the connection.
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
        """Raise what the driver raises as SQLAlchemy does."""
        try:
            yield
        except _Failed as failed:
            raise self._told(failed.sql, failed.error) from failed.error
        except psycopg.Error as error:
            raise self._told(sql, error) from error

    def _told(self, sql: str, error: psycopg.Error) -> Exception:
        is_lost = self._line.conn.status == ConnStatus.BAD
        if is_lost and not self.invalidated:
            # The others that were opened before this one are lost as well, if the server went.
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
