"""What a transaction sets going once it is committed, and not a moment earlier."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from gonogo.domain.records import Job, Stop, Timer

_KEY = "gonogo.outbox"


@dataclass(slots=True)
class Outbox:
    """Filled by store functions inside a transaction, handed over after its commit."""

    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    jobs: list[Job] = field(default_factory=list[Job])
    stops: list[Stop] = field(default_factory=list[Stop])
    timers: list[Timer] = field(default_factory=list[Timer])
    pending: dict[str, Any] = field(default_factory=dict[str, Any])
    """By chain, what the event log and the audit will be told at the transaction's end."""

    def lists(self) -> list[list[Any]]:
        """All that only grows while the transaction runs."""
        told = [each for p in self.pending.values() for each in (p.bodies, p.notes)]
        return [self.events, self.jobs, self.stops, self.timers, *told]


def open_outbox(conn: Connection) -> Outbox:
    """Begin a fresh outbox for the transaction on this connection."""
    box = Outbox()
    conn.info[_KEY] = box
    return box


def outbox(conn: Connection) -> Outbox:
    """The outbox of the transaction that runs on this connection."""
    return conn.info[_KEY]


@contextmanager
def part(conn: Connection) -> Generator[None]:
    """Part of a transaction: when it raises, it is as if it had not been, and the rest goes on."""
    box = outbox(conn)
    before = {id(each): len(each) for each in box.lists()}
    conn.exec_driver_sql("SAVEPOINT part")
    try:
        yield
    except BaseException:
        conn.exec_driver_sql("ROLLBACK TO SAVEPOINT part")
        for each in box.lists():
            del each[before.get(id(each), 0) :]
        raise
    finally:
        conn.exec_driver_sql("RELEASE SAVEPOINT part")


def go_on(
    conn: Connection, kind: str, key: str, epoch: int = 0, since: datetime | None = None
) -> None:
    """Once committed, have a job driven: the continuation of this state change."""
    outbox(conn).jobs.append(Job(kind, key, epoch, since))


def stop(conn: Connection, kind: str, key: str) -> None:
    """Once committed, end a job that runs: its work was taken from it."""
    outbox(conn).stops.append(Stop(kind, key))
