"""The verb that gives room back to the disk."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from msgspec import Struct

from gonogo.domain.errors import Conflict, NotFound, ToolFailed
from gonogo.domain.events import NewOwnerFacts, OwnerChanged
from gonogo.domain.identity import Principal, Role
from gonogo.domain.records import Node, PlaceRow
from gonogo.domain.views import NodeView, PlaceOwnerView, PlaceShown, PlaceView, StateRoom, Vacuumed
from gonogo.execution.erasures import SWEEP
from gonogo.execution.event_bus import Hub
from gonogo.execution.jobs import Dispatcher, Handler, OnTimer
from gonogo.execution.recovery import recover
from gonogo.i18n import say
from gonogo.runtime.services import Parts
from gonogo.store import Outbox, Store, Tx, patiently
from gonogo.store import events as log
from gonogo.store.calls import count_open_questions
from gonogo.store.erasing import deleted_sessions
from gonogo.store.jobs import first_but, kept_objects
from gonogo.store.places import (
    STALE,
    Owned,
    all_nodes,
    all_places,
    ask_to_leave,
    find_place,
    policy_in_force,
)
from gonogo.store.sessions import working_in
from gonogo.telemetry import Metrics
from gonogo.workspace import Snapshots

_ALL = 100_000


class Maintenance(Struct, frozen=True):
    """What an operator does to keep an installation small."""

    _parts: Parts

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
        store, before = self._parts.store, await self._room()
        if dry_run:
            return Vacuumed(dry_run=True, before=before, after=await self._hoped(before))
        if not self._parts.dispatcher.serves:
            # Nobody else finishes what a process that was killed had begun.
            for workspace in {each.workspace for each in await store.read(deleted_sessions)}:
                await self._parts.erasures.erase(workspace)
        await self._of_snapshots(self._snapshots.sweep, await store.read(kept_objects))
        await store.vacuum()
        return Vacuumed(dry_run=False, before=before, after=await self._room())

    async def nodes(self, principal: Principal) -> list[NodeView]:
        """The processes that share the work on this database, and those that died today.

        Raises:
            Forbidden: the principal is no admin.
        """
        principal.require(Role.ADMIN)
        store = self._parts.store
        if not store.can_be_shared:
            return []
        found = await store.read(all_nodes)
        in_force = await store.read(policy_in_force)
        return [_node_view(node, in_force) for node in found]

    async def places(self, principal: Principal, limit: int = 500) -> list[PlaceView]:
        """The workspaces that several processes share, those with work first.

        Raises:
            Forbidden: the principal is no admin.
        """
        principal.require(Role.ADMIN)
        store = self._parts.store
        found = await store.read(all_places, limit) if store.can_be_shared else []
        return [_place_view(place) for place in found]

    async def place(self, principal: Principal, named: str) -> PlaceShown:
        """One workspace that several processes share: who has it, and who had it.

        Args:
            named: A session in it, or the workspace's id.

        Raises:
            Forbidden: the principal is no admin.
            NotFound: there is no such workspace.
        """
        principal.require(Role.ADMIN)
        store = self._parts.store
        known = await store.read(find_place, named) if store.can_be_shared else None
        if known is None:
            raise NotFound(
                "No workspace that workers share was found for the session or id {named}",
                see="gonogo place list",
                named=named,
            )
        found, owners, handed = known
        until = None if found.beat_at is None else found.beat_at + timedelta(seconds=STALE)
        return PlaceShown(
            **dict(_place_view(found)), handed=handed, until=until,
            since=owners[0].since if found.owner and owners else None,
            owners=[PlaceOwnerView.of(each, node_id=each.node) for each in owners],
        )  # fmt: skip

    async def release(self, principal: Principal, named: str) -> bool:
        """Have the worker of a workspace leave it to another one, once its running steps are over.

        Args:
            named: The workspace's id or path.

        Returns:
            False: no worker that is alive has it.

        Raises:
            Forbidden: the principal is no admin.
            NotFound: there is no such workspace.
        """
        principal.require(Role.ADMIN)
        if not self._parts.store.can_be_shared:
            raise NotFound(
                "No workspace found with id or path {named}", see="gonogo place list", named=named
            )

        def leave(tx: Tx) -> bool:
            asked = ask_to_leave(tx, named)
            log.note(tx, log.SYSTEM, actor=principal.id, action="place.released", subject=named)
            return asked

        return await self._parts.store.write(leave)

    async def measure(self) -> None:
        """Have the metrics say who shares the work now, where several processes do."""
        store = self._parts.store
        if store.shared_as is None:
            return
        nodes, in_force = await store.read(all_nodes), await store.read(policy_in_force)
        places = [_place_view(place) for place in await store.read(all_places, _ALL)]
        views = [_node_view(node, in_force) for node in nodes]
        self._parts.metrics.set_sharing(
            Counter((node.kind, node.status) for node in views),
            Counter(place.status for place in places), sum(place.fence for place in places),
        )  # fmt: skip

    async def next_due(self) -> datetime | None:
        """When work is due by itself, such as after a pause; what only tidies up is none."""
        return await self._parts.store.read(first_but, SWEEP)

    @property
    def _snapshots(self) -> Snapshots:
        return self._parts.rollbacks.snapshots

    async def _room(self) -> StateRoom:
        room = await self._parts.store.room()
        held = await self._of_snapshots(lambda: self._snapshots.size)
        return StateRoom(database=room.bytes, free=room.free, log=room.log, snapshots=held)

    async def _hoped(self, now: StateRoom) -> StateRoom:
        keep = await self._parts.store.read(kept_objects)
        useless = await self._of_snapshots(self._snapshots.useless, keep)
        return StateRoom(
            database=now.database - now.free, free=0, log=0,
            snapshots=max(0, now.snapshots - useless),
        )  # fmt: skip

    async def _of_snapshots(self, ask: Callable[..., int], *about: Any) -> int:  # noqa: ANN401
        try:
            return await anyio.to_thread.run_sync(ask, *about)
        except ToolFailed as failure:
            raise Conflict(
                "The snapshots cannot be read now: {failure}; try again", failure=failure
            ) from failure


def _node_view(node: Node, in_force: str | None) -> NodeView:
    working = "draining" if node.draining else "alive"
    if node.kind == "worker" and in_force not in (None, node.policy):
        working = "other_rules"
    return NodeView.of(
        node, node_id=node.id, status=working if node.lives else "dead", policy=node.policy or "",
        labels=node.labels or {},
    )  # fmt: skip


def _place_view(place: PlaceRow) -> PlaceView:
    status = "waiting" if place.placed else "idle"
    if place.owner is not None:
        status = "owned" if place.lives else "lost"
    return PlaceView.of(
        place, place_id=place.id, workspace=place.path, status=status, node_id=place.owner
    )


# Driving: what goes on by itself, for as long as this process is the one that drives the database.
#
# When another process has driven meanwhile, everything that is under way here is nobody's: it is
# ended, and all is read anew from the database, as at a start.


class Driving(Struct, frozen=True, kw_only=True):
    """Runs the jobs and timers of one store."""

    store: Store
    dispatcher: Dispatcher
    hub: Hub
    metrics: Metrics
    handlers: Mapping[str, Handler]
    on_timer: OnTimer
    take_up: Callable[[Tx], None]
    """Sets going what was left undone."""

    async def serve(self, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401
        """Drive until cancelled; started once what was left undone is under way."""
        driver = self.store.driver
        assert driver is not None  # noqa: S101 - this process opened the store to drive
        with patiently():
            await self._drive(task_status)
            while True:
                await driver.take_over()
                self.hub.refresh()
                await self._drive()

    async def _drive(self, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401
        """Drive until somebody else does."""
        assert self.store.driver is not None  # noqa: S101 - see `serve`
        await self.count_questions()
        async with anyio.create_task_group() as group:
            await group.start(self.dispatcher.serve, self.handlers, self.on_timer)
            await self.store.write(self.take_up)
            task_status.started()
            await self.store.driver.stay()
            group.cancel_scope.cancel()
            self.store.drop_waiting()

    def deliver(self, box: Outbox) -> None:
        """Tell of what a transaction has changed, and set going what it has left to do."""
        for body in box.events:
            self.hub.tell_event(body)
        changed: dict[str, set[str]] = {chain: set() for chain in (*box.extents, *box.touched)}
        for body in box.events:
            changed.setdefault(body["session_id"], set()).add(body["type"])
        if changed:
            self.hub.tell_news(changed)
        self.dispatcher.take(box)

    async def count_questions(self) -> None:
        """Count the open questions, before anything runs that could open or close one."""
        for kind, count in (await self.store.read(count_open_questions)).items():
            self.metrics.set_pending(kind, count)


# What was left undone, and is taken up by who carries the work out.


def take_up(parts: Parts, tx: Tx) -> None:
    """Set all of it going, or have the owners of places do that where there are several."""
    if parts.store.shared_as is not None:
        return
    recover(tx, parts.engine)
    parts.erasures.recover(tx)
    take_up_common(parts, tx)


def tell_of_lost(tx: Tx, place: Owned, node: str) -> None:
    """Tell those whose work was under way that another worker goes on."""
    facts = NewOwnerFacts(node_id=node, fence=place.fence)
    for session_id, locale in working_in(tx, place.id):
        log.tell(tx, session_id, OwnerChanged(content=say("owner_changed", locale), metadata=facts))


def take_up_place(parts: Parts, tx: Tx, place: Owned) -> None:
    """Set going what was left in one place."""
    # The folder may be new to this process.
    parts.gate.programs.know(Path(place.path))
    recover(tx, parts.engine, place.id)
    parts.asks.recover(tx, place.id)
    parts.erasures.recover(tx, place.path)


def take_up_common(parts: Parts, tx: Tx) -> None:
    """Set going what belongs to no workspace."""
    parts.sweeps.arm(tx)
    parts.sender.recover(tx)
