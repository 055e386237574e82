"""What a transaction sets going once it is committed, and not a moment earlier."""

import threading
from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, event
from sqlalchemy.pool import ConnectionPoolEntry
from uuid6 import uuid7

from gonogo.domain.records import Job, JobStop, Timer

_KEY, _RECENT = "gonogo.outbox", "gonogo.i18n"


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


@dataclass(slots=True)
class Outbox:
    """Filled by store functions inside a transaction, handed over after its commit."""

    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    jobs: list[Job] = field(default_factory=list[Job])
    stops: list[JobStop] = field(default_factory=list[JobStop])
    timers: list[Timer] = field(default_factory=list[Timer])
    pending: dict[str, Any] = field(default_factory=dict[str, Any])
    """By chain, what the event log and the audit will be told at the transaction's end."""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """By digest, the long texts that are first kept by this transaction."""
    extents: dict[str, Extent] = field(default_factory=dict[str, Extent])
    """Where the chains stand that it added to."""

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


def texts_of(conn: Connection) -> Mapping[str, str]:
    """By digest, the long texts that are first kept by the transaction on this connection."""
    box: Outbox | None = conn.info.get(_KEY)
    return {} if box is None else box.texts


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


def remember_texts(engine: Engine) -> Recent:
    """Have all connections to a database share what they remember."""
    recent = Recent()

    def share(_raw: object, record: ConnectionPoolEntry) -> None:
        record.info[_RECENT] = recent

    event.listen(engine, "connect", share)
    return recent


def recent_texts(conn: Connection) -> Recent:
    """What connections to this database remember."""
    return conn.info[_RECENT]


@contextmanager
def part(conn: Connection) -> Generator[None]:
    """Part of a transaction: when it raises, it is as if it had not been, and the rest goes on."""
    box = outbox(conn)
    before = {id(each): len(each) for each in box.lists()}
    texts = dict(box.texts)
    conn.exec_driver_sql("SAVEPOINT part")
    try:
        yield
    except BaseException:
        conn.exec_driver_sql("ROLLBACK TO SAVEPOINT part")
        for each in box.lists():
            del each[before.get(id(each), 0) :]
        box.texts = texts
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
    outbox(conn).stops.append(JobStop(kind, key))


# Ids: a prefix that says what it names, and a UUID of version 7, so that they sort by age.


def new_id(prefix: str) -> str:
    """A new id, such as `plan_0197f3…`."""
    return f"{prefix}_{uuid7().hex}"
