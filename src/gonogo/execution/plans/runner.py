"""The engine: the jobs of plans and subtasks, and what keeps a subtask's holder honest."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import anyio

from gonogo.domain.errors import Busy, GonogoError, ModelFailed
from gonogo.domain.failures import Category, Failure, Patterns, is_away, quota_pause
from gonogo.domain.records import Job
from gonogo.domain.replanning import BudgetSpent
from gonogo.domain.schedule import STRATEGIES, Strategy, elapsed
from gonogo.domain.states import SubtaskStatus
from gonogo.execution.plans.controls import PlanControls
from gonogo.execution.scheduling import (
    Completed,
    Deferred,
    Failed,
    Outcome,
    Parked,
    Retreat,
    Runner,
    Superseded,
    Work,
)
from gonogo.execution.scheduling.plan_state import (
    Pace,
    PlanState,
    chosen,
    read_shape,
    started_shape,
)
from gonogo.store import Store, Tx, go_on
from gonogo.store.plans import split_key, subtask_row, take_subtask

# Batches: values that arrive together are written together.
#
# Promises: `put` returns when its value is written, and raises when that value could not be; what
# is wrong with one value touches no other. While one batch of a key is written, the next one
# gathers, so many at once share a transaction and one alone waits for nobody.

T = TypeVar("T")


@dataclass(slots=True)
class _Batch(Generic[T]):
    items: list[T]
    written: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None


class Batches(Generic[T]):
    """Gathers values by key and hands them to a function that writes several at once."""

    def __init__(self, write: Callable[[Sequence[T]], Awaitable[None]]) -> None:
        self._write = write
        self._open: dict[str, _Batch[T]] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def put(self, key: str, item: T) -> None:
        """Have a value written, with those that arrive at the same time."""
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _Batch([item])
            await self._lead(key, batch)
        else:
            batch.items.append(item)
            await batch.written.wait()
        if batch.error is None:
            return
        if len(batch.items) == 1:
            raise batch.error
        await self._write([item])

    async def _lead(self, key: str, batch: _Batch[T]) -> None:
        lock = self._locks.setdefault(key, anyio.Lock())
        # The others of the batch must not suffer from a stop of the one that came first.
        with anyio.CancelScope(shield=True):
            async with lock:
                del self._open[key]
                # What fails as one batch is written one by one, so that each is told its own.
                try:
                    await self._write(batch.items)
                except Exception as error:
                    batch.error = error
                finally:
                    batch.written.set()
        if key not in self._open:
            self._locks.pop(key, None)


_LOG = logging.getLogger(__name__)
_S = SubtaskStatus
Done = tuple[Work, Completed | Failed | Deferred]


@dataclass(slots=True, kw_only=True)
class Engine(PlanControls):
    """Runs plans over one store."""

    store: Store
    run: Runner
    timeout: float | None = None
    """Seconds of work for a subtask that names no timeout of its own."""
    strategies: Mapping[str, Strategy] = field(default_factory=lambda: STRATEGIES)
    strategy: str = "critical_path"
    """Which of the strategies says which of the ready subtasks start first."""
    max_per_agent: int | None = None
    """Subtasks of one plan that one agent carries out at once."""
    max_per_workspace: int | None = None
    """Subtasks of all plans that run at once in one workspace."""
    retreat: Retreat | None = None
    """Where the files of a failed attempt go back."""
    patterns: Patterns = field(default_factory=Patterns)
    """How failures are classified that nobody typed."""
    _done: Batches[Done] = field(init=False)

    def __post_init__(self) -> None:
        """Write what comes of subtasks together where it comes together.

        Raises:
            InvalidMessage: there is no strategy of that name; the text lists those there are.
        """
        self.pace = Pace(
            strategy=chosen(self.strategy, self.strategies), per_agent=self.max_per_agent,
            per_workspace=self.max_per_workspace,
        )  # fmt: skip
        self._done = Batches(self._write_done)

    # Jobs -------------------------------------------------------------------------------------

    async def plan_job(self, job: Job) -> None:
        """Give a running plan its next round."""
        await self.store.write(self.advance, job.key)

    async def subtask_job(self, job: Job) -> None:
        """Carry out one subtask as far as it goes, and write what came of it."""
        work = await self._work(job)
        if work is None:
            return
        outcome = await self._interrupted(work) or await self._carried_out(work)
        if isinstance(outcome, Failed) and self.retreat is not None:
            await self.retreat.undo(work)
        if not isinstance(outcome, Parked):
            await self._done.put(work.revision.plan_id, (work, outcome))

    async def _work(self, job: Job) -> Work | None:
        plan_id, number, subtask_id = split_key(job.key)
        shape = started_shape(plan_id, number)
        shape = shape or await self.store.read(read_shape, plan_id, number)
        if shape is None:
            return None
        return Work(
            key=job.key, revision=shape.revision, subtask=shape.subtasks[subtask_id],
            epoch=job.epoch, since=job.since or await self.store.read(_active_since, job.key),
        )  # fmt: skip

    async def _interrupted(self, work: Work) -> Failed | None:
        if self.retreat is None or not await self.store.read(self.retreat.began, work):
            return None
        # Its files may be back already, so its agent cannot go on from where it was.
        told = "the attempt had failed; its changes were being undone when gonogo stopped"
        return Failed(Failure(message=told))

    async def _carried_out(self, work: Work) -> Outcome:
        with anyio.move_on_after(self._seconds_left(work)) as scope, work.watch.holding(scope):
            try:
                return await self.run(work)
            except Superseded:
                return Parked()
            except Busy:
                # Not the subtask's failure: it goes on once the database is back.
                raise
            except GonogoError as error:
                return self._deferred(error) or Failed(self.patterns.diagnose(error))
            except Exception:
                _LOG.exception("subtask %s failed", work.key)
                return Failed(Failure(message="an internal error; the log has the details"))
        assert scope.cancelled_caught  # noqa: S101 - the only way here
        spent = f"Timed out after {work.subtask.timeout or self.timeout:g} s"
        return Failed(Failure(message=spent, category=Category.TIMEOUT))

    def _deferred(self, error: GonogoError) -> Deferred | None:
        """A quota, a budget, or a model that is away for a while, is no failure of the work."""
        if isinstance(error, BudgetSpent):
            return Deferred(spent=error.excess)
        if isinstance(error, ModelFailed) and is_away(error) and self.patience:
            return Deferred(away=error)
        seconds = quota_pause(error)
        return (
            None if seconds is None else Deferred(self.store.clock() + timedelta(seconds=seconds))
        )

    def _seconds_left(self, work: Work) -> float | None:
        limit = work.subtask.timeout or self.timeout
        if limit is None or work.since is None:
            return limit
        return max(0.0, limit - elapsed(work.since, self.store.clock()))

    async def _write_done(self, done: Sequence[Done]) -> None:
        await self.store.write(self.finish, done)

    # Holders ----------------------------------------------------------------------------------

    def finish(self, tx: Tx, done: Sequence[Done]) -> None:
        """Write what came of subtasks of one plan, and the round that follows.

        What a superseded holder brings is dropped: somebody else has the subtask.
        """
        board = PlanState.open(tx, done[0][0].revision.plan_id)
        ours = [(work, outcome) for work, outcome in done if _is_ours(board, work)]
        for work, outcome in ours:
            self._settle(board, work, outcome)
        self.hold_back(board, {w.subtask.id: o for w, o in ours if isinstance(o, Deferred)})
        if ours:
            self._go_on(board)

    def park(self, tx: Tx, work: Work) -> None:
        """A subtask waits for a person; others may take its place.

        Raises:
            Superseded: somebody else holds the subtask.
        """
        board = PlanState.open(tx, work.revision.plan_id)
        if not _is_ours(board, work):
            raise Superseded(f"Subtask {work.subtask.id} is no longer ours")
        worked = board.worked_ms(work.subtask.id, work.counts_from)
        board.move(work.subtask.id, _S.WAITING_APPROVAL, worked_ms=worked)
        self._go_on(board)

    def resume(self, tx: Tx, key: str) -> None:
        """A subtask that waited has its answer: it takes its place among the ready ones."""
        plan_id, number, subtask_id = split_key(key)
        board = PlanState.open(tx, plan_id)
        row = board.rows.get(subtask_id)
        if number != board.plan.revision or row is None:
            return
        if row.status is _S.WAITING_APPROVAL:
            board.move(subtask_id, _S.PENDING)
        self._go_on(board)

    def is_at_rest(self, tx: Tx, plan_id: str) -> bool:
        """Whether nothing of a plan runs, nor has to be settled by a person first."""
        board = PlanState.open(tx, plan_id)
        return not (board.count_running() or board.unsettled())

    def check(self, tx: Tx, work: Work) -> None:
        """Check that a subtask is still ours, before writing anything for it.

        Raises:
            Superseded: somebody else holds it.
        """
        row = subtask_row(tx, work.key)
        if row is None or row.epoch != work.epoch or row.status is not _S.RUNNING:
            raise Superseded(f"Subtask {work.subtask.id} is no longer ours")

    def take_over(self, tx: Tx, key: str) -> None:
        """After a crash: hold a subtask anew, so that whoever held it before is fenced."""
        row = subtask_row(tx, key)
        if row is None or row.status is not _S.RUNNING:
            return
        if take_subtask(tx, row):
            go_on(tx, "subtask", key, row.epoch + 1, since=row.active_since)


def _active_since(tx: Tx, key: str) -> datetime | None:
    row = subtask_row(tx, key)
    return row.active_since if row else None


def _is_ours(board: PlanState, work: Work) -> bool:
    same = work.revision.number == board.plan.revision
    return same and board.is_held(work.subtask.id, work.epoch)
