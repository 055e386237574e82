"""PostgreSQL: a bounded pool of threads, each function in its own transaction.

Serialization failures and deadlocks run the function again: it has no effect but its statements.
So does a row that is there although the function did not see it: another transaction was committed
between the look and the insert, and the next look sees it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import DBAPIError

from gonogo.domain.errors import Busy
from gonogo.store._outbox import Outbox, open_outbox
from gonogo.store.log import flush

Work = Callable[[Connection], Any]
_POOL = 10
_TRIES = 5
_AGAIN = frozenset({"40001", "40P01"})
_TAKEN = "23505"
_NOT_AVAILABLE = "55P03"


class PostgresBackend:
    """Runs functions on one PostgreSQL database."""

    def __init__(self, url: str, deliver: Callable[[Outbox], None], patience: float) -> None:
        self._deliver = deliver
        self.engine = create_engine(url, pool_size=_POOL, max_overflow=0, pool_pre_ping=True)
        event.listen(self.engine, "connect", partial(_prepare, patience))
        self._writers = anyio.CapacityLimiter(_POOL - 4)
        self._readers = anyio.CapacityLimiter(4)

    async def write(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function in a transaction that is committed before this returns.

        What the transaction sets going is handed over by the thread that committed, so that a
        caller who is cancelled meanwhile loses nothing.
        """
        loop = asyncio.get_running_loop()
        return await anyio.to_thread.run_sync(
            partial(self._write, work, loop), limiter=self._writers, abandon_on_cancel=False
        )

    async def read(self, work: Work) -> Any:  # noqa: ANN401 - what the function gives
        """Run a function on one consistent snapshot."""
        return await anyio.to_thread.run_sync(partial(self._read, work), limiter=self._readers)

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    def _write(self, work: Work, loop: asyncio.AbstractEventLoop) -> Any:  # noqa: ANN401
        for tries_left in reversed(range(_TRIES)):
            try:
                with self.engine.begin() as conn:
                    box = open_outbox(conn)
                    outcome = work(conn)
                    flush(conn)
            except DBAPIError as error:
                _check_again(error, tries_left)
            else:
                # Whoever asked may be gone, its event loop closed: what is committed stays so.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._deliver, box)
                return outcome
        raise Busy("The database was too busy; try again in a moment")

    def _read(self, work: Work) -> Any:  # noqa: ANN401
        with self.engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
            return work(conn)


def _check_again(error: DBAPIError, tries_left: int) -> None:
    state = getattr(error.orig, "sqlstate", None)
    if state == _NOT_AVAILABLE:
        raise Busy("The database stayed locked; try again in a moment") from error
    if state not in _AGAIN and (state != _TAKEN or not tries_left):
        raise error


def _prepare(patience: float, raw: Any, _record: object) -> None:  # noqa: ANN401
    with raw.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = {round(patience * 1000)}")
    raw.commit()
