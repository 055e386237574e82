"""The verb that gives room back to the disk."""

from collections.abc import Callable
from typing import Any

import anyio.to_thread

from gonogo.domain.errors import Conflict, ToolFailed
from gonogo.domain.identity import Principal, Role
from gonogo.domain.views import StateRoom, Vacuumed
from gonogo.runtime._parts import Parts
from gonogo.store.erasing import deleted_sessions
from gonogo.store.jobs import kept_objects
from gonogo.workspace import Snapshots


class Maintenance:
    """What an operator does to keep an installation small."""

    parts: Parts

    async def vacuum(self, principal: Principal, *, dry_run: bool = False) -> Vacuumed:
        """Give back what the database and the snapshots do not need; writes wait meanwhile.

        Args:
            dry_run: Only say what would come of it. Of the database that is what is known to be
                free; it may be more.

        Raises:
            Forbidden: the principal is no admin.
            Conflict: there is not enough room on the disk to do it.
            Busy: somebody else held the database for too long.
        """
        principal.require(Role.ADMIN)
        store, before = self.parts.store, await self._room()
        if dry_run:
            return Vacuumed(dry_run=True, before=before, after=await self._hoped(before))
        if not self.parts.dispatcher.serves:
            # Nobody else finishes what a process that was killed had begun.
            for workspace in {each.workspace for each in await store.read(deleted_sessions)}:
                await self.parts.erasures.erase(workspace)
        await self._of_snapshots(self._snapshots.sweep, await store.read(kept_objects))
        await store.vacuum()
        return Vacuumed(dry_run=False, before=before, after=await self._room())

    @property
    def _snapshots(self) -> Snapshots:
        return self.parts.rollbacks.snapshots

    async def _room(self) -> StateRoom:
        room = await self.parts.store.room()
        held = await self._of_snapshots(lambda: self._snapshots.size)
        return StateRoom(database=room.bytes, free=room.free, log=room.log, snapshots=held)

    async def _hoped(self, now: StateRoom) -> StateRoom:
        keep = await self.parts.store.read(kept_objects)
        useless = await self._of_snapshots(self._snapshots.useless, keep)
        return StateRoom(
            database=now.database - now.free, free=0, log=0,
            snapshots=max(0, now.snapshots - useless),
        )  # fmt: skip

    async def _of_snapshots(self, ask: Callable[..., int], *about: Any) -> int:  # noqa: ANN401
        try:
            return await anyio.to_thread.run_sync(ask, *about)
        except ToolFailed as failure:
            raise Conflict(f"The snapshots cannot be looked at now: {failure}") from failure
