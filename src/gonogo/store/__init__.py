"""Durable state: schema, queries, migrations, the event log and the audit chain. The only SQL.

Promises: a write is one transaction, committed (fsync) before it returns; what a transaction sets
going (events to followers, jobs, stops, timers) is handed over only after the commit; the same
statements serve SQLite and PostgreSQL.

Store functions are synchronous, take a `Connection` first and never commit; callers say
`await store.write(fn, …)` or `await store.read(fn, …)`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from gonogo.store._migrate import migrate
from gonogo.store._outbox import Outbox, go_on, outbox, part, stop
from gonogo.store._postgres import PostgresBackend
from gonogo.store._sqlite import SqliteBackend
from gonogo.store.ids import new_id

__all__ = ["Connection", "Outbox", "Store", "go_on", "new_id", "outbox", "part", "stop"]

P = ParamSpec("P")
T = TypeVar("T")


class Store:
    """One database, SQLite or PostgreSQL."""

    def __init__(
        self,
        url: str,
        deliver: Callable[[Outbox], None] = lambda box: None,
        *,
        patience: float = 5.0,
    ) -> None:
        """Open the database and bring it to the current schema.

        Args:
            url: `sqlite:///path` or `postgresql://…`.
            deliver: Called in the event loop with what each committed transaction sets going.
            patience: Seconds that a transaction waits for another one's lock before `Busy`.

        Raises:
            Conflict: the database was made by a newer gonogo.
        """
        self.deliver = deliver
        self.before_commit: Callable[[Connection], None] = _nothing_more
        """Called in each transaction after its function, for what follows from what it told."""
        self._backend = _backend(url, self._hand_over, patience)
        try:
            migrate(self._backend.engine)
        except BaseException:
            self._backend.close()
            raise

    async def write(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a store function in its own transaction, committed before this returns.

        Raises:
            Busy: another process held the database, or the rows, for too long; nothing changed.
        """

        def work(conn: Connection) -> T:
            outcome = fn(conn, *args, **kwargs)
            self.before_commit(conn)
            return outcome

        return await self._backend.write(work)

    async def read(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a store function that changes nothing, on one consistent snapshot."""
        return await self._backend.read(lambda conn: fn(conn, *args, **kwargs))

    def close(self) -> None:
        """Finish the writes that wait and close the database."""
        self._backend.close()

    def _hand_over(self, box: Outbox) -> None:
        self.deliver(box)


def _nothing_more(conn: Connection) -> None:
    """Most transactions are whole with their function."""


def _backend(
    url: str, deliver: Callable[[Outbox], None], patience: float
) -> SqliteBackend | PostgresBackend:
    if url.startswith("sqlite:///"):
        return SqliteBackend(Path(url.removeprefix("sqlite:///")), deliver, patience)
    psycopg = url.replace("postgresql://", "postgresql+psycopg://", 1)
    return PostgresBackend(psycopg, deliver, patience)
