"""The dispatcher of one process: jobs as tasks of one group, timers as one sleeping task."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from contextvars import Context, copy_context
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import anyio
from msgspec import Struct

from gonogo.domain.errors import Busy, PlaceLost
from gonogo.domain.records import Job, JobStop, Timer
from gonogo.domain.schedule import SLACK
from gonogo.store import Outbox, Store, Tx, patiently
from gonogo.store.jobs import (
    AGAIN,
    due_timers,
    first_timer,
    has_ahead,
    set_back,
    set_timer,
    take_timer,
)

_LOG = logging.getLogger(__name__)
Handler = Callable[[Job], Awaitable[None]]
OnTimer = Callable[[Tx, Timer], Any]
_NEVER = datetime.max.replace(tzinfo=UTC)
_PAUSE = _GLANCE = 1.0
SHARED_LOOK = timedelta(seconds=5)
"""How often to look for timers of other processes, which announce those that are due sooner."""
_SOON, _LATER = timedelta(seconds=5), timedelta(minutes=1)


class _Slot(Struct):
    """A job that runs, or is about to."""

    task: "asyncio.Task[None] | None" = None
    scope: anyio.CancelScope | None = None
    stopped: bool = False

    def stop(self) -> None:
        self.stopped = True
        if self.scope is not None:
            self.scope.cancel()


class Dispatcher(Protocol):
    """Has jobs done: in this process, or by the owners of their places."""

    @property
    def is_idle(self) -> bool:
        """Whether no job runs here or is about to."""
        ...

    @property
    def serves(self) -> bool:
        """Whether jobs are run, here or elsewhere."""
        ...

    async def serve(
        self,
        handlers: Mapping[str, Handler],
        on_timer: OnTimer,
        *,
        task_status: Any = anyio.TASK_STATUS_IGNORED,  # noqa: ANN401
    ) -> None:
        """Run jobs and timers until cancelled; then end what runs, and forget what waits.

        Args:
            handlers: The function that carries out a job, by kind.
            on_timer: Carries out a timer, in the transaction that takes it.
        """
        ...

    async def at_rest(self, keys: Collection[str]) -> None:
        """Wait until no job with one of these keys runs here, of whatever kind."""
        ...

    def take(self, box: Outbox) -> None:
        """Start what a committed transaction left to do. May be called outside any task."""
        ...

    async def drain(self) -> None:
        """Start nothing new; let running jobs finish, or hand them to others."""
        ...


class LocalDispatcher:
    """Runs the jobs of the store that this process owns, or those of one place that it owns."""

    def __init__(
        self,
        store: Store,
        *,
        capacity: int = 64,
        aside: Collection[str] = (),
        shares_timers: bool = False,
    ) -> None:
        """Take what the jobs need; nothing runs before `serve`.

        Args:
            capacity: Jobs that run at once.
            aside: Kinds of jobs that limit themselves and wait for programs outside: they do not
                count towards the capacity.
            shares_timers: Other processes set timers too, so this one looks for new ones often.
        """
        self._store = store
        self._handlers: Mapping[str, Handler] = {}
        self._on_timer: OnTimer = _drop
        self._room = anyio.Semaphore(capacity, fast_acquire=True)
        self._aside = frozenset(aside)
        self._shares_timers = shares_timers
        self._begins = True
        self._running: dict[tuple[str, str], _Slot] = {}
        self._again: dict[tuple[str, str], Job] = {}
        self._earlier = anyio.Event()
        self._first: datetime | None = None
        """When the earliest known timer fires; None while nobody waits for one."""
        self._latest: datetime | None = None
        """The latest time that the clock has shown; None: it may have been set back before."""
        self._boxes: list[Outbox] = []
        """What was left to do before `serve` began."""
        self._context: Context | None = None
        """The context in which jobs run; None outside `serve`."""

    async def serve(
        self,
        handlers: Mapping[str, Handler],
        on_timer: OnTimer | None,
        *,
        task_status: Any = anyio.TASK_STATUS_IGNORED,  # noqa: ANN401
    ) -> None:
        """See `Dispatcher.serve`; without `on_timer`, another process runs the timers."""
        self._handlers, self._on_timer = handlers, on_timer or _drop
        try:
            with patiently():
                self._context = copy_context()
            early, self._boxes = self._boxes, []
            for box in early:
                self._open(box)
            task_status.started()
            await (anyio.sleep_forever() if on_timer is None else self._keep_time())
        finally:
            self._context = None
            await self._end_all()
            for left in (self._boxes, self._again):
                left.clear()

    async def _end_all(self) -> None:
        slots = list(self._running.values())
        for slot in slots:
            slot.stop()
        with anyio.CancelScope(shield=True):
            await _ended(slots)

    @property
    def is_idle(self) -> bool:
        """Whether no job runs or is about to."""
        return not self._running and not self._boxes

    @property
    def serves(self) -> bool:
        """Whether jobs are run here."""
        return self._context is not None

    async def at_rest(self, keys: Collection[str]) -> None:
        """Wait until no job with one of these keys runs, of whatever kind."""
        await _ended([slot for (_, key), slot in self._running.items() if key in keys])

    def take(self, box: Outbox) -> None:
        """Start what a committed transaction left to do. May be called outside any task."""
        if self._context is None:
            self._boxes.append(box)
        else:
            self._open(box)

    def _open(self, box: Outbox) -> None:
        for stop in box.stops:
            self._stop(stop)
        for job in box.jobs:
            self.submit(job)
        if any(self._is_earlier(timer.run_at) for timer in box.timers):
            self._earlier.set()

    def submit(self, job: Job) -> None:
        """Run a job now, after a running one of its kind and key, or once `serve` begins."""
        key = (job.kind, job.key)
        if not self._begins:
            return
        if self._context is None:
            self.take(Outbox(jobs=[job]))
            return
        if key in self._running:
            self._again[key] = job
            return
        slot = self._running[key] = _Slot()
        # A plain task, since this may be called outside any task; its cancel scope ends it.
        loop, context = asyncio.get_running_loop(), self._context.copy()
        slot.task = loop.create_task(self._run(job, slot), context=context)

    def begin_no_more(self) -> None:
        """Let running jobs finish, and start no new ones."""
        self._begins = False
        self._again.clear()

    async def drain(self) -> None:
        """See `Dispatcher.drain`."""
        self.begin_no_more()
        while not self.is_idle:  # noqa: ASYNC110 - the last job tells nobody
            await anyio.sleep(_GLANCE)

    def _stop(self, stop: JobStop) -> None:
        key = (stop.kind, stop.key)
        self._again.pop(key, None)
        slot = self._running.get(key)
        if slot is not None:
            slot.stop()

    async def _run(self, job: Job, slot: _Slot) -> None:
        key = (job.kind, job.key)
        try:
            with anyio.CancelScope() as slot.scope:
                if not slot.stopped:
                    async with self._place(job):
                        await self._handle(job)
        finally:
            del self._running[key]
        again = self._again.pop(key, None)
        if again is not None:
            self.submit(again)

    def _place(self, job: Job) -> nullcontext[None] | anyio.Semaphore:
        return nullcontext() if job.kind in self._aside else self._room

    async def _handle(self, job: Job) -> None:
        try:
            await self._handlers[job.kind](job)
        except PlaceLost:
            # The new owner of the place takes the job up.
            return
        except Exception as error:
            # No job may end the group; a timer starts this job again a little later.
            _log(error, "job %s %s failed", job.kind, job.key)
            await self._put_off(f"{AGAIN}{job.kind}", job.key, _SOON)

    def _is_earlier(self, moment: datetime) -> bool:
        return self._first is None or moment < self._first

    async def _keep_time(self) -> None:
        while True:
            try:
                with patiently():
                    await self._fire_next()
            except Exception as error:
                # A failure of the timers must not end running jobs.
                _log(error, "timers could not be read")
                await anyio.sleep(_PAUSE)

    async def _fire_next(self) -> None:
        """Wait until a timer is due and carry it out; return when an earlier one is set."""
        self._earlier, self._first = anyio.Event(), None
        self._first = await self._store.read(first_timer) or _NEVER
        if self._is_set_back() and await self._begin_again():
            self._first = await self._store.read(first_timer) or _NEVER
        looked = anyio.current_time()
        # Read the clock again and again: it may be set, and a sleeping machine counts no seconds.
        while (wait := (self._first - self._store.clock()).total_seconds()) > 0:
            with anyio.move_on_after(min(wait, _GLANCE)):
                await self._earlier.wait()
                return
            if self._is_set_back():
                return
            if self._shares_timers and anyio.current_time() - looked > SHARED_LOOK.total_seconds():
                return
        await self._fire_due()

    def _is_set_back(self) -> bool:
        """Whether the clock may have gone back, so that timers may have to be set again."""
        now = self._store.clock()
        if self._latest is None or now < self._latest - SLACK:
            return True
        self._latest = max(self._latest, now)
        return False

    async def _begin_again(self) -> int:
        """Have timers from the future begin their wait now; return how many there were."""
        # Noted before the write: the clock may be set back once more meanwhile.
        self._latest = self._store.clock()
        moved = await self._store.write(set_back) if await self._store.read(has_ahead) else 0
        if moved:
            _LOG.warning("the clock was set back; %d timers begin again", moved)
        return moved

    async def _fire_due(self) -> None:
        for timer in await self._store.read(due_timers):
            try:
                await self._store.write(self._fire, timer)
            except Exception as error:
                _log(error, "timer %s %s failed", timer.kind, timer.key)
                await self._put_off(timer.kind, timer.key, _LATER)

    async def _put_off(self, kind: str, key: str, delay: timedelta) -> None:
        try:
            await self._store.write(set_timer, kind, key, self._store.clock() + delay)
        except Exception as error:
            _log(error, "timer %s %s is lost until the next start", kind, key)

    def _fire(self, tx: Tx, timer: Timer) -> None:
        # The clock may have been set back since it was found to be due.
        if timer.run_at <= tx.now and take_timer(tx, timer):
            self._on_timer(tx, timer)


async def _ended(slots: Sequence[_Slot]) -> None:
    if tasks := [slot.task for slot in slots if slot.task is not None]:
        await asyncio.wait(tasks)


def _drop(tx: Tx, timer: Timer) -> None:
    """Do nothing with a timer: this dispatcher runs none, or not yet."""


def _log(error: Exception, said: str, *about: str) -> None:
    # The store has logged already that the database is away, and no job waits for it at the end.
    if not isinstance(error, Busy):
        _LOG.error(said, *about, exc_info=error)
