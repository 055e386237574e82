"""Erasures: removes everything that was said and done in a deleted session.

A session is deleted in one transaction, and from then on nobody sees it. Erasing it is a job: it
waits until whatever ran in the session has ended, removes its snapshots and contents, then its
rows, and at last the session itself: only the audit log still names it. Sessions that are over and
that nobody touched for the retention time are deleted in the same way.
"""

import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from msgspec import Struct, field

from gonogo.domain.audit_chain import DELETED, SYSTEM
from gonogo.domain.errors import ToolFailed, because
from gonogo.domain.records import Job, Session
from gonogo.execution.event_bus import Hub
from gonogo.execution.jobs import Dispatcher
from gonogo.store import Store, Tx, go_on, seconds_passed
from gonogo.store import events as log
from gonogo.store.erasing import (
    deleted_sessions,
    end_session,
    erase_rows,
    expired_sessions,
    keys_of,
)
from gonogo.store.jobs import give_up_snapshots, has_timer, kept_objects, set_timer
from gonogo.store.people import forget_answers
from gonogo.store.sessions import end_rules, set_session
from gonogo.workspace import Snapshots, Traffic, Workspace

_LOG = logging.getLogger(__name__)
ERASE = "erase"
"""The job that erases the deleted sessions of one workspace."""
_SETTLINGS, _PAUSE = 20, 0.25
"""How often to try to empty the database's log, and the seconds between two tries."""
_LOOK = 0.25
_PATIENCE = 5.0
"""Seconds that the deletion of a session waits at most for its erasure."""


class Erasures(Struct, frozen=True, kw_only=True):
    """Erases sessions that were deleted."""

    store: Store
    snapshots: Snapshots
    traffic: Traffic
    drafts: Path
    """The folder of people's edits of plans that are not sent yet."""
    taken: Path
    """Where the files are that people had taken away after a call: a folder for each call."""
    dispatcher: Dispatcher
    hub: Hub
    _alone: anyio.Lock = field(default_factory=anyio.Lock)
    _waited_for: dict[str, anyio.Event] = field(default_factory=dict[str, anyio.Event])

    def begin(self, tx: Tx, session: Session, by: str, **why: Any) -> None:  # noqa: ANN401
        """Delete a session in which nothing is under way any more."""
        set_session(tx, session.id, deleted=True, updated_at=tx.now)
        log.note(tx, SYSTEM, actor=by, action=DELETED, subject=session.id, **why)
        go_on(tx, ERASE, session.workspace)

    def recover(self, tx: Tx, workspace: str | None = None) -> None:
        """After a start, go on erasing deleted sessions, of one workspace or of all."""
        for found in {deleted.workspace for deleted in deleted_sessions(tx, workspace)}:
            go_on(tx, ERASE, found)

    async def done(self, session_id: str) -> None:
        """Wait until a deleted session is erased, if that does not take too long."""
        self.hub.end(session_id)
        event = self._waited_for.setdefault(session_id, anyio.Event())
        with anyio.move_on_after(_PATIENCE):
            while session_id in {each.id for each in await self.store.read(deleted_sessions)}:
                # If another process erases it, nothing sets the event.
                with anyio.move_on_after(_LOOK):
                    await event.wait()
        self._waited_for.pop(session_id, None)

    async def expire(self, days: float) -> None:
        """Delete the sessions that are over and in which nothing happened for so many days."""
        while found := await self.store.write(self._expire, days):
            for session in found:
                self.hub.end(session.id)

    def _expire(self, tx: Tx, days: float) -> list[Session]:
        found = expired_sessions(tx, tx.now - timedelta(days=days))
        for session in found:
            end_rules(tx, session.id)
            why = because("nothing happened in it for {days:g} days", days=days)
            self.begin(tx, session, "gonogo", reason=why)
        return found

    async def job(self, job: Job) -> None:
        """Erase what was deleted in one workspace."""
        await self.erase(job.key)

    async def erase(self, workspace: str) -> None:
        """Erase the sessions of a workspace that were deleted."""
        found = await self.store.read(deleted_sessions, workspace)
        keys = await self.store.read(keys_of, [deleted.id for deleted in found])
        await self.dispatcher.at_rest(keys)
        await self._forget_files(Path(workspace), keys)
        for deleted in found:
            while not await self.store.write(erase_rows, deleted.id):
                pass
            await self.store.write(end_session, deleted.id)
        await self._settle()
        for deleted in found:
            if deleted.id in self._waited_for:
                self._waited_for[deleted.id].set()

    async def _settle(self) -> None:
        for _ in range(_SETTLINGS):
            if await self.store.settle():
                return
            await anyio.sleep(_PAUSE)

    async def _forget_files(self, root: Path, keys: Collection[str]) -> None:
        """Remove what is stored outside the database, while nobody works in the workspace."""
        await anyio.to_thread.run_sync(_remove_drafts, self.drafts, keys)
        await anyio.to_thread.run_sync(_remove_taken, self.taken, keys)
        async with self.traffic.alone(root), self._alone:
            keep = await self.store.read(kept_objects)
            await anyio.to_thread.run_sync(self._forget, root, keep)

    def _forget(self, root: Path, keep: set[str]) -> None:
        try:
            if root.is_dir():
                self.snapshots.recover(Workspace(root))
        except (ToolFailed, OSError) as failure:
            _LOG.warning("what a rollback left in %s is still there: %s", root, failure)
        try:
            self.snapshots.forget(root, keep)
        except ToolFailed as failure:
            # The next sweep removes the rest: nothing refers to it any more.
            _LOG.warning("snapshots of %s are still there: %s", root, failure)


def _remove_drafts(folder: Path, keys: Iterable[str]) -> None:
    named = {*keys}
    for draft in folder.glob("*-*"):
        if draft.name.rpartition("-")[0] in named:
            draft.unlink(missing_ok=True)


def _remove_taken(folder: Path, keys: Collection[str]) -> None:
    for call in folder.glob("*"):
        if call.name in keys:
            _open_folders(call)
            shutil.rmtree(call)


def _open_folders(top: Path) -> None:
    """Make folders accessible: a command may have closed those that it made to everybody."""
    for root, folders, _ in os.walk(top):
        for inner in (Path(root, name) for name in folders):
            if not inner.is_symlink():
                inner.chmod(0o700)


# Sweeps: once a day, remove what nobody needs any more.
#
# These are sessions that nobody touched for long, kept answers to requests that nobody repeats any
# more, the snapshots of plans that ended long ago, and objects that no snapshot contains.

SWEEP = "sweep"
"""The job that sweeps, and the timer that asks for it."""
_KEY = "snapshots"
_FIRST = timedelta(minutes=10)
_AGAIN = timedelta(days=1)
_ANSWERS = timedelta(days=7)
"""For how long a request can be repeated under its key."""
_SET_AHEAD = timedelta(hours=1)


class Jumps:
    """Measures by how much the clock is set while this process runs."""

    def __init__(
        self, clock: Callable[[], datetime], seconds: Callable[[], float] = seconds_passed
    ) -> None:
        """Begin to look at a clock."""
        self._clock, self._seconds = clock, seconds
        self._last = clock(), seconds()

    def since_last(self) -> timedelta:
        """By how much the clock was set ahead since the last look; negative: it was set back."""
        (clock, seconds), self._last = self._last, (self._clock(), self._seconds())
        return self._last[0] - clock - timedelta(seconds=self._last[1] - seconds)


class Sweeps(Struct, frozen=True, kw_only=True):
    """Removes what nobody needs any more."""

    store: Store
    snapshots: Snapshots
    erasures: Erasures
    days: float
    """Days after its end for which a plan can be rolled back; 0: for ever."""
    retention: float
    """Days for which a session is kept in which nothing happens; 0: for ever."""
    jumps: Jumps

    def arm(self, tx: Tx) -> None:
        """After a start, set the timer of the next sweep if there is none."""
        if not has_timer(tx, SWEEP, _KEY):
            set_timer(tx, SWEEP, _KEY, tx.now + _FIRST)

    async def job(self, job: Job) -> None:
        """Sweep, and set the timer of the next sweep.

        If the clock was set ahead, everything looks old, so nothing is swept this time.
        """
        now, marked, jump = self.store.clock(), 0, self.jumps.since_last()
        await self.store.write(set_timer, SWEEP, _KEY, now + _AGAIN)
        if jump > _SET_AHEAD:
            _LOG.warning("the clock was set ahead by %s: nothing is swept today", jump)
            return
        if self.retention:
            await self.erasures.expire(self.retention)
        await self.store.write(forget_answers, now - _ANSWERS)
        if self.days:
            marked = await self.store.write(give_up_snapshots, now - timedelta(days=self.days))
        keep = await self.store.read(kept_objects)
        try:
            gone = await anyio.to_thread.run_sync(self.snapshots.sweep, keep)
        except ToolFailed as failure:
            _LOG.warning("snapshots were not swept: %s", failure)
            return
        _LOG.info("gave up %d checkpoints; %d objects of snapshots are gone", marked, gone)
