"""A node's lease: its beat, from a thread and on a connection of its own.

It is beaten every two seconds, by the clock of the database; six seconds without a beat, and others
take what the node has. A node whose last beat is four seconds old takes its own places for lost:
by then nobody else can have them. A process that was stopped finds that out when it goes on.
"""

import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from gonogo import __version__
from gonogo.store import places
from gonogo.store.outage import raise_told
from gonogo.store.places import Membership
from gonogo.store.transaction import new_id

_EVERY, _FRESH, _SAFE = 2.0, 2.5, 4.0
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A machine that sleeps counts these seconds too."""


def _now() -> float:
    return time.clock_gettime(_CLOCK)


class Lease:
    """One life of a node."""

    def __init__(self, engine: Engine, membership: Membership) -> None:
        """Join the nodes, and beat.

        Args:
            engine: Makes a new connection each time, which commits each statement by itself.

        Raises:
            Busy: the database is away.
        """
        self.node = new_id("node")
        self._engine = engine
        self._conn: Connection | None = None
        self._over = threading.Event()
        self._is_lost = False
        self._beaten = _now()
        try:
            self._execute(places.FORGET, {})
            self._execute(places.JOIN, _row(self.node, membership))
        except SQLAlchemyError as error:
            self._drop()
            raise_told(error)
        self._thread = threading.Thread(target=self._beat_on, name="gonogo-lease", daemon=True)
        self._thread.start()

    @property
    def is_safe(self) -> bool:
        """Whether nobody else can have what this node has."""
        return self.safe_for > 0

    @property
    def safe_for(self) -> float:
        """Seconds for which nobody else can have what this node has, if it beats no more."""
        return 0.0 if self._is_lost else max(0.0, self._beaten + _SAFE - _now())

    @property
    def is_fresh(self) -> bool:
        """Whether it was beaten so lately that whoever hears so has a few seconds left."""
        return not self._is_lost and _now() - self._beaten < _FRESH

    def end(self) -> None:
        """Beat no more, and have others take what this node has."""
        self._over.set()
        self._thread.join(_EVERY)
        if self._thread.is_alive():
            return
        # If the database is away, it is found dead a little later.
        with suppress(SQLAlchemyError):
            self._execute(places.LEAVE, {"node": self.node})
        self._drop()

    def _beat_on(self) -> None:
        while not self._over.wait(_EVERY) and self.is_safe:
            at = _now()
            try:
                if self._execute(places.BEAT, {"node": self.node}).first() is None:
                    break
            except SQLAlchemyError:
                self._drop()
            else:
                self._beaten = at
        self._is_lost = True

    def _execute(self, statement: Any, params: dict[str, Any]) -> Any:  # noqa: ANN401
        self._conn = self._conn or self._engine.connect()
        return self._conn.execute(statement, params)

    def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.invalidate()
            conn.close()


def _row(node: str, membership: Membership) -> dict[str, Any]:
    works = membership.kind == "worker"
    return {
        "node": node, "as_kind": membership.kind, "on_host": socket.gethostname(),
        "as_pid": os.getpid(), "of_pool": membership.pool if works else None,
        "up_to": membership.capacity, "in_version": __version__,
        "by_policy": membership.policy, "with_labels": dict(membership.labels),
    }  # fmt: skip
