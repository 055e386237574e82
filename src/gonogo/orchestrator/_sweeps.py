"""Sweeps: once a day the snapshots of plans that ended long ago are given up."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import anyio.to_thread

from gonogo.domain.errors import ToolFailed
from gonogo.domain.records import Job
from gonogo.store import Connection, Store
from gonogo.store.sweeping import give_up_snapshots, kept_objects
from gonogo.store.timers import has_timer, set_timer
from gonogo.workspace import Snapshots

_LOG = logging.getLogger(__name__)
SWEEP = "sweep"
"""The job that gives snapshots up, and the timer that asks for it."""
_KEY = "snapshots"
_FIRST = timedelta(minutes=10)
_AGAIN = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeps:
    """Gives up snapshots that are kept for nobody."""

    store: Store
    snapshots: Snapshots
    clock: Callable[[], datetime]
    days: float
    """For how long after its end a plan can be rolled back; 0: for ever."""

    def arm(self, conn: Connection, now: datetime) -> None:
        """After a start: have the next sweep come."""
        if self.days and not has_timer(conn, SWEEP, _KEY):
            set_timer(conn, SWEEP, _KEY, now + _FIRST)

    async def job(self, job: Job) -> None:
        """Sweep, and have the next one come."""
        if not self.days:
            return
        now = self.clock()
        await self.store.write(set_timer, SWEEP, _KEY, now + _AGAIN)
        marked = await self.store.write(give_up_snapshots, now - timedelta(days=self.days), now)
        keep = await self.store.read(kept_objects)
        try:
            gone = await anyio.to_thread.run_sync(self.snapshots.sweep, keep)
        except ToolFailed as failure:
            _LOG.warning("snapshots were not swept: %s", failure)
            return
        _LOG.info("gave up %d checkpoints; %d objects of snapshots are gone", marked, gone)
