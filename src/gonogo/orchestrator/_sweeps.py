"""Sweeps: once a day what is kept for nobody goes.

That are sessions that nobody touched for long, answers to requests that nobody repeats any more,
the snapshots of plans that ended long ago, and what of the snapshots nobody asks for.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import anyio.to_thread

from gonogo.domain.errors import ToolFailed
from gonogo.domain.records import Job
from gonogo.orchestrator.erasures import Erasures
from gonogo.store import Connection, Store
from gonogo.store.jobs import give_up_snapshots, has_timer, kept_objects, set_timer
from gonogo.store.people import forget_answers
from gonogo.workspace import Snapshots

_LOG = logging.getLogger(__name__)
SWEEP = "sweep"
"""The job that sweeps, and the timer that asks for it."""
_KEY = "snapshots"
_FIRST = timedelta(minutes=10)
_AGAIN = timedelta(days=1)
_ANSWERS = timedelta(days=7)
"""For how long a request can be repeated under its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeps:
    """Takes away what is kept for nobody."""

    store: Store
    snapshots: Snapshots
    clock: Callable[[], datetime]
    erasures: Erasures
    days: float
    """For how long after its end a plan can be rolled back; 0: for ever."""
    retention: float
    """Days for which a session is kept in which nothing happens; 0: for ever."""

    def arm(self, conn: Connection, now: datetime) -> None:
        """After a start: have the next sweep come."""
        if not has_timer(conn, SWEEP, _KEY):
            set_timer(conn, SWEEP, _KEY, now + _FIRST)

    async def job(self, job: Job) -> None:
        """Sweep, and have the next one come."""
        now, marked = self.clock(), 0
        await self.store.write(set_timer, SWEEP, _KEY, now + _AGAIN)
        if self.retention:
            await self.erasures.expire(self.retention)
        await self.store.write(forget_answers, now - _ANSWERS)
        if self.days:
            marked = await self.store.write(give_up_snapshots, now - timedelta(days=self.days), now)
        keep = await self.store.read(kept_objects)
        try:
            gone = await anyio.to_thread.run_sync(self.snapshots.sweep, keep)
        except ToolFailed as failure:
            _LOG.warning("snapshots were not swept: %s", failure)
            return
        _LOG.info("gave up %d checkpoints; %d objects of snapshots are gone", marked, gone)
