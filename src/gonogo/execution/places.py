"""Places: those that this process owns, and requests to the owners of other places."""

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gonogo.domain.errors import (
    Busy,
    Conflict,
    Forbidden,
    GonogoError,
    Internal,
    InvalidMessage,
    NotFound,
    PlaceLost,
    of_parts,
    parts_of,
)
from gonogo.domain.identity import Principal
from gonogo.domain.records import Job, Timer
from gonogo.execution.event_bus import Hub, LiveText
from gonogo.execution.jobs import SHARED_LOOK, Handler, LocalDispatcher, OnTimer
from gonogo.store import Hold, Lease, Outbox, Store, Tx, go_on, new_id, patiently
from gonogo.store.events import last_seqs
from gonogo.store.hints import Hint
from gonogo.store.jobs import (
    ASK,
    Ask,
    add_ask,
    answer_ask,
    begin_ask,
    drop_ask,
    find_ask,
    is_in_hand,
    unanswered,
)
from gonogo.store.places import (
    COMMON,
    Owned,
    Taken,
    appoint,
    drain,
    give_away,
    glance,
    owned_by,
    release,
    take_handoffs,
)
from gonogo.store.transaction import held, owning

# The places that this process owns: each is driven by a dispatcher of its own.
#
# All writes for a place carry its hold, so that they fail once another worker owns the place. The
# process reads from the database each second which places it owns; hints tell it of changes in
# between. A place with nothing left to do is kept for a while, so that a person's answer is carried
# out at once; then it is released. A server owns none.

_LOG = logging.getLogger(__name__)
_LOOK, _GLANCE, _COMPARE = 1.0, 0.25, 5.0
_LINGER, _DRAIN = 30.0, 30.0
"""Seconds that a place with nothing to do is kept; seconds that a drain waits for running jobs."""
_NOTHING_SEEN = -1
_NOTHING_TAKEN = Taken(_NOTHING_SEEN, leaves=False)


class _DrivenPlace(Struct, eq=False):
    """A place whose jobs this process runs."""

    hold: Hold
    dispatcher: LocalDispatcher
    scope: anyio.CancelScope
    leaves: bool = False
    """Give the place to another worker once its running jobs are over."""
    news: anyio.Event = field(default_factory=anyio.Event)
    """Set when something was handed to it."""


class Recovery(Struct, frozen=True):
    """Functions that restart unfinished work, in a transaction of the process that does it."""

    of_place: Callable[[Tx, Owned], None]
    """The work of a place."""
    of_lost: Callable[[Tx, Owned, str], None]
    """Also called if the place's owner was lost; gets the node that goes on."""
    of_common: Callable[[Tx], None]
    """What belongs to no workspace."""


class Places:
    """The dispatcher of one of several processes: it runs the jobs of the places that it owns."""

    serves = True

    recovery: Recovery
    """To be set before `serve`."""

    def __init__(
        self, store: Store, hub: Hub, live: LiveText, *, aside: Collection[str] = ()
    ) -> None:
        """Own nothing before `serve`.

        Args:
            aside: See `LocalDispatcher`.
        """
        assert store.shared_as is not None  # noqa: S101 - who opens it says so
        self._store, self._hub, self._live_text = store, hub, live
        self._as, self._aside = store.shared_as, aside
        self._handlers: Mapping[str, Handler] = {}
        self._on_timer: OnTimer | None = None
        self._runs: dict[str, _DrivenPlace] = {}
        self._lease: Lease | None = None
        self.joined = anyio.Event()
        """Set once this process is one of the nodes."""
        self._news = anyio.Event()
        self._is_draining = self._differs = False
        self._lost: set[str] = set()
        """Our places whose previous owner was lost."""

    @property
    def is_idle(self) -> bool:
        """See `Dispatcher.is_idle`."""
        return all(run.dispatcher.is_idle for run in self._runs.values())

    def is_fresh(self) -> bool:
        """Whether this node's last heartbeat is recent, so that nobody else owns its places."""
        return self._lease is not None and self._lease.is_fresh

    async def at_rest(self, keys: Collection[str]) -> None:
        """See `Dispatcher.at_rest`: a place is driven by one process."""
        for run in list(self._runs.values()):
            await run.dispatcher.at_rest(keys)

    def take(self, box: Outbox) -> None:
        """See `Dispatcher.take`; work for others is in the database, and hints tell them of it."""
        hold, hints = box.hold, self._store.hints
        run = self._runs.get(hold.place_id) if hold is not None else None
        if run is not None and run.hold is hold:
            run.dispatcher.take(box)
        until = self._store.clock() + SHARED_LOOK
        soon = [timer.run_at for timer in box.timers if timer.run_at < until]
        if hints is not None:
            told = {body["session_id"] for body in box.events}
            followed = set(filter(self._live_text.is_followed, told))
            hints.say(
                told - followed, timers=map(datetime.isoformat, soon),
                events=[body for body in box.events if body["session_id"] in followed],
            )  # fmt: skip
        self._look_at(box.wanted)
        self._keep_in_mind(soon)

    async def serve(
        self,
        handlers: Mapping[str, Handler],
        on_timer: OnTimer,
        *,
        task_status: Any = anyio.TASK_STATUS_IGNORED,  # noqa: ANN401
    ) -> None:
        """See `Dispatcher.serve`; a process that loses its lease begins again as a new node."""
        self._handlers, self._on_timer = handlers, on_timer
        assert self._store.hints is not None  # noqa: S101 - as the store is shared
        if self._as.capacity:
            self._store.hints.listen(self._heard)
        else:
            self._hub.on_follow = self._followed
            self._store.hints.listen(self._heard, self._hub.show)
        task_status.started()
        while True:
            try:
                lease = await anyio.to_thread.run_sync(self._store.join)
            except Busy:
                await anyio.sleep(_LOOK)
            else:
                await self._live(lease)

    async def drain(self) -> None:
        """Take no more places, and have others go on with ours.

        Running jobs end first, if that does not take too long.
        """
        self._is_draining = True
        if self._lease is not None:
            await self._store.write(drain, self._lease.node)
        self._look_at(self._runs)
        while self._runs:  # noqa: ASYNC110 - each run sees by itself that it is to end
            await anyio.sleep(_GLANCE)

    async def _live(self, lease: Lease) -> None:
        """Be a node until the lease is lost."""
        self._lease = lease
        self._lost.clear()
        self.joined.set()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._compare)
                if self._as.capacity:
                    group.start_soon(self._own, lease, group)
                    group.start_soon(self._live_text.serve)
                while lease.is_safe:  # noqa: ASYNC110 - a clock tells nobody
                    await anyio.sleep(min(lease.safe_for, _LOOK))
                _LOG.warning("node %s has lost its lease: what it drives is ended", lease.node)
                group.cancel_scope.cancel()
        finally:
            self._lease = None
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lease.end)

    def _heard(self, hint: Hint | None) -> None:
        if hint is None:
            self._hub.refresh()
            self._look_at(self._runs)
            self._news.set()
            return
        for session_id in hint.sessions:
            self._hub.told_elsewhere(session_id)
        self._look_at(hint.places)
        self._live_text.follow(hint)
        self._keep_in_mind(map(datetime.fromisoformat, hint.timers))

    def _keep_in_mind(self, moments: Iterable[datetime]) -> None:
        """Have timers that are due soon fire in time, if this worker fires the timers."""
        timers = [Timer(kind="", key="", run_at=moment) for moment in moments]
        if timers and COMMON in self._runs:
            self._runs[COMMON].dispatcher.take(Outbox(timers=timers))

    def _followed(self, session_id: str) -> None:
        assert self._store.hints is not None  # noqa: S101 - as the store is shared
        self._store.hints.say(joined=[session_id])

    def _look_at(self, places: Collection[str]) -> None:
        """Check what was handed to our places, and whether there are others to take."""
        for place in places:
            if place in self._runs:
                self._runs[place].news.set()
            else:
                self._news.set()

    async def _compare(self) -> None:
        """Compare followers with the database regularly, so that none misses anything."""
        while True:
            await anyio.sleep(_COMPARE)
            followed = self._hub.followed
            if not followed:
                continue
            if not self._as.capacity and self._store.hints is not None:
                self._store.hints.say(followed=followed)
            with patiently():
                found = await self._store.read(last_seqs, followed)
            for session_id in followed:
                if session_id in found:
                    self._hub.told_elsewhere(session_id, found[session_id])
                else:
                    self._hub.end(session_id)

    # Owning places ----------------------------------------------------------------------------

    async def _own(self, lease: Lease, group: TaskGroup) -> None:
        while True:
            try:
                with patiently():
                    await self._look(lease, group)
            except Exception as error:
                if not isinstance(error, Busy):
                    _LOG.exception("places could not be looked for")
                await anyio.sleep(_LOOK)
            with anyio.move_on_after(_LOOK):
                await self._news.wait()
            self._news = anyio.Event()

    async def _look(self, lease: Lease, group: TaskGroup) -> None:
        """Drive exactly the places that are ours according to the database."""
        room = max(0, self._as.capacity - len(self._runs.keys() - {COMMON}))
        found = await self._store.read(glance, lease.node, self._as.pool, room)
        self._compare_rules(found.in_force)
        ours = found.owned
        if found.has_free and not self._is_draining and not self._differs:
            lost, ours = await self._store.write(_appoint, lease.node, self._as.pool, room)
            self._lost |= lost
        owned = {place.id: place for place in ours}
        for place in owned.values():
            run = self._runs.get(place.id)
            if run is None:
                self._begin(place, lease, group)
            elif run.hold.fence != place.fence:
                run.scope.cancel()
            elif place.has_more:
                run.news.set()
        for place_id in self._runs.keys() - owned.keys():
            self._runs[place_id].scope.cancel()

    def _compare_rules(self, in_force: str | None) -> None:
        """Leave all places to others while this worker's rules differ from the servers' rules."""
        differs = in_force is not None and in_force != self._as.policy
        if differs and not self._differs:
            _LOG.warning(
                "this worker has other rules than the server that was started last: it takes no "
                "workspace until that server or this worker is started again with the same rules"
            )
            self._look_at(self._runs)
        self._differs = differs

    def _begin(self, place: Owned, lease: Lease, group: TaskGroup) -> None:
        scope, is_common = anyio.CancelScope(), place.id == COMMON
        self._runs[place.id] = run = _DrivenPlace(
            hold=Hold(place.id, place.fence, lambda: lease.is_safe, scope.cancel),
            dispatcher=LocalDispatcher(self._store, aside=self._aside, shares_timers=is_common),
            scope=scope,
        )
        group.start_soon(self._drive_common if is_common else self._drive, run, place)

    async def _drive(self, run: _DrivenPlace, place: Owned) -> None:
        """Drive a place until it is released, given away or lost."""
        try:
            with run.scope, patiently(), owning(run.hold):
                async with anyio.create_task_group() as group:
                    await group.start(run.dispatcher.serve, self._handlers, None)
                    await self._keep(run, await self._store.write(self._take_up, run, place))
                    group.cancel_scope.cancel()
        except* PlaceLost:
            _LOG.warning("place %s (%s) has another owner", place.id, place.path)
        except* Exception:
            _LOG.exception("place %s (%s) cannot be driven", place.id, place.path)
            await anyio.sleep(_LOOK)
        finally:
            self._lost.discard(place.id)
            del self._runs[place.id]
            self._news.set()

    def _take_up(self, tx: Tx, run: _DrivenPlace, place: Owned) -> Taken:
        taken = take_handoffs(tx, run.hold)
        if place.id in self._lost and self._lease is not None:
            self.recovery.of_lost(tx, place, self._lease.node)
        self.recovery.of_place(tx, place)
        return taken

    async def _drive_common(self, run: _DrivenPlace, place: Owned) -> None:
        """Drive what belongs to no workspace; the owners of places do the work that it starts.

        Its writes need no fence: only one process can take a timer or a delivery.
        """
        try:
            with run.scope, patiently():
                async with anyio.create_task_group() as group:
                    await group.start(run.dispatcher.serve, self._handlers, self._on_timer)
                    await self._store.write(self.recovery.of_common)
                    await self._keep(run)
                    group.cancel_scope.cancel()
        except* PlaceLost:
            _LOG.warning("another worker does what belongs to no workspace")
        except* Exception:
            _LOG.exception("place %s cannot be driven", place.id)
            await anyio.sleep(_LOOK)
        finally:
            del self._runs[place.id]
            self._news.set()

    async def _keep(self, run: _DrivenPlace, taken: Taken = _NOTHING_TAKEN) -> None:
        """Take what is handed to a place, until the place has had nothing to do for a while.

        Args:
            taken: What was taken so far.
        """
        since, until = anyio.current_time(), 0.0
        seen, run.leaves = taken
        while True:
            if run.news.is_set() or seen == _NOTHING_SEEN:
                run.news = anyio.Event()
                with owning(run.hold):
                    taken = await self._store.write(take_handoffs, run.hold)
                seen, run.leaves = taken.wanted, run.leaves or taken.leaves
            now = anyio.current_time()
            run.leaves = run.leaves or self._is_draining or self._differs
            if run.leaves:
                until = until or now + _DRAIN
                run.dispatcher.begin_no_more()
                if run.dispatcher.is_idle or now > until:
                    with owning(run.hold):
                        await self._store.write(give_away, run.hold)
                    return
            elif not run.dispatcher.is_idle or run.hold.place_id == COMMON:
                since = now
            elif now - since > _LINGER:
                with owning(run.hold):
                    if await self._store.write(release, run.hold, seen):
                        return
                seen = _NOTHING_SEEN
            pause = math.inf if run.hold.place_id == COMMON else _LOOK
            with anyio.move_on_after(_GLANCE if run.leaves else pause):
                await run.news.wait()


def _appoint(tx: Tx, node: str, pool: str, room: int) -> tuple[set[str], list[Owned]]:
    """Have a node own free places; return those of lost owners, and all that the node owns."""
    return appoint(tx, node, pool, room), owned_by(tx, node)


# Verbs that only the owner of a place can carry out: a server asks it, and waits for the answer.
#
# The question and the answer are rows, so that neither is lost with a process. A verb that was
# begun is not begun again: if the worker ends in the middle, the asker learns that nobody knows
# the outcome.

_FIRST, _LONGEST = 0.01, 0.2
_KINDS = {kind.__name__: kind for kind in (Busy, Conflict, Forbidden, InvalidMessage, NotFound)}
Verb = Callable[[Principal, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class Asks(Struct, frozen=True, kw_only=True):
    """Asks owners of places, and answers for the places that this process owns."""

    store: Store
    verbs: dict[str, Verb] = field(default_factory=dict[str, Verb])
    """What an owner can be asked to do, by name; each verb returns JSON."""
    patience: float = 20.0
    """Seconds that an ask waits for a worker to begin it."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the caller has to ask, as it does not write as the owner of a place."""
        return self.store.shared_as is not None and held() is None

    async def ask(
        self,
        place: Callable[[Tx], str],
        verb: str,
        principal: Principal,
        body: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Have the owner of a place carry out a verb, and wait until that is done.

        Args:
            place: Finds the place, in the transaction that asks.

        Raises:
            Busy: no worker began it in time; the ask was taken back.
            Conflict: the worker that began it has ended, and no other took the place in that time.
            GonogoError: whatever the verb raised there.
        """
        ask_id = new_id(ASK)

        def put_up(tx: Tx) -> None:
            by = principal.model_dump(mode="json")
            said = {"by": by, **body}
            add_ask(tx, Ask(id=ask_id, place_id=place(tx), verb=verb, body=said, status="open"))

        await self.store.write(put_up)
        return _told(await self._answer(ask_id))

    async def job(self, job: Job) -> None:
        """Carry out what was asked of a place that is ours."""
        ask = await self.store.write(begin_ask, job.key)
        if ask is not None:
            answer = await self._carry_out(ask)
            await self.store.write(answer_ask, ask.id, answer)

    def recover(self, tx: Tx, place: str) -> None:
        """Go on with what was asked of a place before it was ours."""
        for ask in unanswered(tx, place):
            if ask.status == "open":
                go_on(tx, ASK, ask.id)
            else:
                answer_ask(tx, ask.id, _error(_UNKNOWN))

    async def _answer(self, ask_id: str) -> dict[str, Any]:
        until, delay = anyio.current_time() + self.patience, _FIRST
        in_hand = anyio.current_time()
        while True:
            await anyio.sleep(delay)
            delay = min(2 * delay, _LONGEST)
            ask = await self.store.read(find_ask, ask_id)
            if ask is None:
                return _error(_UNKNOWN)
            if ask.answer is not None:
                await self.store.write(drop_ask, ask_id, ask.status)
                return ask.answer
            now = anyio.current_time()
            if now > until and await self.store.write(drop_ask, ask_id, "open"):
                raise Busy(
                    "No worker started this in time; see which workers are running with "
                    "gonogo nodes, then try again"
                )
            # The worker that has begun it answers, or the one that goes on after it.
            if ask.status == "open" or await self.store.read(is_in_hand, ask.place_id):
                in_hand = now
            elif now - in_hand > self.patience:
                return _error(_UNKNOWN)

    async def _carry_out(self, ask: Ask) -> dict[str, Any]:
        principal = Principal.model_validate(ask.body["by"])
        body = {name: value for name, value in ask.body.items() if name != "by"}
        try:
            return {"result": await self.verbs[ask.verb](principal, body)}
        except PlaceLost:
            raise
        except GonogoError as error:
            return _error(error)
        except Exception:
            _LOG.exception("%s could not be carried out", ask.verb)
            return _error(Internal())


_UNKNOWN = Conflict(
    "The worker that did this has ended, and nobody knows how far it got; look at the files and "
    "the plan, then try again"
)


def _error(error: GonogoError) -> dict[str, Any]:
    said = error.said
    more = {"see": error.see} if isinstance(error, NotFound) and error.see else {}
    return {"error": {"kind": type(error).__name__, "detail": str(said), **parts_of(said), **more}}


def _told(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The result of an ask.

    Raises:
        GonogoError: as it was raised by whoever carried it out.
    """
    if "error" not in answer:
        return answer["result"]
    error = answer["error"]
    kind = _KINDS.get(error["kind"])
    made = kind(of_parts(error["detail"], error)) if kind else Internal()
    if isinstance(made, NotFound):
        made.see = error.get("see")
    raise made
