"""PostgreSQL: a bounded pool of threads, each function in its own transaction.

Serialization failures and deadlocks run the function again: it has no effect but its statements.
So does a row that is there although the function did not see it: another transaction was committed
between the look and the insert, and the next look sees it.

Each connection has a row of its own in `writers`, which every transaction on it counts up. Where a
connection is cut in the middle of a COMMIT, this tells what came of it; and whoever takes the
database over ends what earlier drivers have begun by deleting the rows.
"""

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakSet

from msgspec import Struct
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, func, make_url, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gonogo.domain.errors import Busy, Internal, because
from gonogo.store.driver import COUNT_OR_FAIL, AdvisoryLock, join_writers, last_transaction
from gonogo.store.events import flush, lost
from gonogo.store.outage import Pool, is_away, raise_told
from gonogo.store.pipelined import Pipelined, free
from gonogo.store.schema import METADATA
from gonogo.store.transaction import Clock, Footprint, Outbox, Recent, Tx

Work = Callable[[Tx], Any]
_POOL, _READERS = 10, 4
_TRIES = 5
_NOTHING, _HOLDING = "22012", "WITH holding"
"""How a statement fails that divides by what it finds; how the one begins that asks for a place."""
_AGAIN = frozenset({"40001", "40P01", "23505"})
_OVERTAKEN = because("Another process has taken the database over")
_WRITER = "gonogo.writer"
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ"
_PAUSE = 0.5
_IDLE = 4_000
"""Milliseconds that a transaction of one of several processes may stand still."""
_MANNERS = 2.0
"""Seconds that a server may take to answer when this process is about to end."""
_LINE: dict[str, str] = {
    "connect_timeout": "4", "keepalives_idle": "4", "keepalives_interval": "2",
    "keepalives_count": "2", "tcp_user_timeout": "8000",
}  # fmt: skip
"""When a server that does not answer counts as away: seconds, the last in milliseconds."""


class _Asked(Struct):
    """A function that is to be run, for as long as somebody waits for it."""

    work: Work
    loop: asyncio.AbstractEventLoop
    is_left: bool = False
    """Whoever asked was told that it could not be done in time: so it is not."""


@dataclass(slots=True, eq=False)
class _Doubt(Exception):
    """A COMMIT whose answer never came."""

    writer: str
    number: int
    box: Outbox
    outcome: Any
    answer: "asyncio.Task[Any]" = field(init=False)
    """Gives the outcome, or raises `Busy` when nothing was written."""


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
        self._lines: WeakSet[Any] = WeakSet()
        opened = partial(_engine, url, partial(self._prepare, patience))
        self.engine = opened(
            pool_size=_POOL, max_overflow=0, pool_timeout=patience,
            # The one that was used last has its statements ready.
            pool_use_lifo=True,
            # What uses one leaves it as it should be.
            pool_reset_on_return=None,
        )  # fmt: skip
        event.listen(self.engine, "checkout", free)
        self._recent = Recent()
        self.beside = opened(poolclass=NullPool, isolation_level="AUTOCOMMIT")
        """Makes connections that commit each statement by itself."""
        self.lock = AdvisoryLock(self.beside)
        self._writers = Pool(_POOL - _READERS, "gonogo-writer")
        self._readers = Pool(_READERS, "gonogo-reader")
        self._doubts: set[asyncio.Task[Any]] = set()

    async def write(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function in a transaction that is committed before this returns.

        A caller who is cancelled before the COMMIT has changed nothing. What the transaction sets
        going is handed over by the thread that committed, so that one who is cancelled in the
        middle of it loses nothing.

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
        """Have the room of what was deleted be used again; what is free at the end is given back.

        Raises:
            Busy: the database is away, or somebody else held a table for too long.
        """
        await self._writers.run(self._vacuum)

    async def room(self) -> Footprint:
        """What our tables take."""
        return await self.read(_room)

    async def settle(self) -> bool:
        """PostgreSQL gives back what was deleted by itself, by its autovacuum."""
        return True

    def missing(self, *, accept: bool = False) -> list[str]:
        """Nothing: the server keeps what it has said that it has."""
        return []

    def give_up(self) -> None:
        """Find out no longer what came of a COMMIT."""
        for doubt in self._doubts:
            doubt.cancel()

    @contextmanager
    def ending(self) -> Generator[None]:
        """What is closed inside does not wait for a server that never answers."""
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
        with raw.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {round(patience * 1000)}")
            if self._is_shared:
                # A process that is stopped inside a transaction keeps nobody from its places.
                cursor.execute(f"SET idle_in_transaction_session_timeout = {_IDLE}")
        raw.commit()
        self._lines.add(raw)

    def _cut(self) -> None:
        """Have every thread that waits for the server find its connection lost."""
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
                # Whoever asked may be gone, its event loop closed: what is committed stays so.
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
        """What one of the statements says that fail where they find nothing."""
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
        # Nobody may be left to ask for what it raised.
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
            raise Internal("It is not known whether this was saved; check before you do it again")
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
    # What the operator says of the line in the URL holds.
    line = {name: value for name, value in _LINE.items() if name not in named.query}
    engine = create_engine(named, connect_args=line, **more)
    event.listen(engine, "connect", prepare)
    return engine
