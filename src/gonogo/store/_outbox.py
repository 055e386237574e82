"""What a transaction sets going once it is committed, and not a moment earlier."""

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


def open_outbox(conn: Connection) -> Outbox:
    """Begin a fresh outbox for the transaction on this connection."""
    box = Outbox()
    conn.info[_KEY] = box
    return box


def outbox(conn: Connection) -> Outbox:
    """The outbox of the transaction that runs on this connection."""
    return conn.info[_KEY]


def go_on(
    conn: Connection, kind: str, key: str, epoch: int = 0, since: datetime | None = None
) -> None:
    """Once committed, have a job driven: the continuation of this state change."""
    outbox(conn).jobs.append(Job(kind, key, epoch, since))


def stop(conn: Connection, kind: str, key: str) -> None:
    """Once committed, end a job that runs: its work was taken from it."""
    outbox(conn).stops.append(Stop(kind, key))
