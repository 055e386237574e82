"""Plans in motion: rounds, outcomes, and what people do to a running plan.

Functions that take a connection are parts of their caller's transaction. Each ends by `advance`,
which asks the scheduler for the next round and writes it, so the plan's rows always agree.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import anyio

from gonogo.domain.errors import Conflict, GonogoError, NotFound
from gonogo.domain.failure import Category, Failure, classify, retry_delay
from gonogo.domain.plan import Revision
from gonogo.domain.plan_state import PlanStatus
from gonogo.domain.records import Job, Plan, SubtaskRow
from gonogo.domain.schedule import Round, Standing, schedule
from gonogo.domain.subtask_state import SUBTASK, SubtaskStatus
from gonogo.engine import _tell
from gonogo.engine._outcomes import Completed, Failed, Outcome, Parked, Runner, Superseded, Work
from gonogo.store import Connection, Store, go_on, stop
from gonogo.store.plans import (
    lock_plan,
    move_plan,
    move_subtask,
    plan_of,
    revision_of,
    standings,
    subtask_key,
    subtask_row,
    subtask_rows,
    take_subtask,
)
from gonogo.store.timers import set_timer

_LOG = logging.getLogger(__name__)
_S = SubtaskStatus
ADVANCE = "plan_advance"
"""The timer that asks for a round although nothing has changed: a retry is due."""
Ended = Callable[[Connection, Plan, PlanStatus, datetime], None]
Dropped = Callable[[Connection, SubtaskRow, str, datetime], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Runs plans over one store."""

    store: Store
    clock: Callable[[], datetime]
    run: Runner
    ended: Ended
    """Called in the transaction that ends a plan, after its events."""
    dropped: Dropped
    """Called in the transaction that takes a subtask's work away: end its calls and questions."""
    timeout: float | None = None
    """Seconds of work for a subtask that names no timeout of its own."""

    # Jobs -------------------------------------------------------------------------------------

    async def plan_job(self, job: Job) -> None:
        """Give a running plan its next round."""
        await self.store.write(self.advance, job.key, self.clock())

    async def subtask_job(self, job: Job) -> None:
        """Carry out one subtask as far as it goes, and write what came of it."""
        work = await self._work(job)
        if work is None:
            return
        outcome = await self._carried_out(work)
        if not isinstance(outcome, Parked):
            await self.store.write(self.finish, work, outcome, self.clock())

    async def _work(self, job: Job) -> Work | None:
        plan_id, number, subtask_id = job.key.rsplit("/", 2)
        revision = await self.store.read(revision_of, plan_id, int(number))
        if revision is None:
            return None
        subtask = revision.subtask(subtask_id)
        return Work(key=job.key, revision=revision, subtask=subtask, epoch=job.epoch)

    async def _carried_out(self, work: Work) -> Outcome:
        limit = await self._seconds_left(work)
        with anyio.move_on_after(limit) as scope:
            try:
                return await self.run(work)
            except Superseded:
                return Parked()
            except GonogoError as error:
                return Failed(classify(error))
            except Exception:
                _LOG.exception("subtask %s failed", work.key)
                return Failed(Failure(message="an internal error; the log has the details"))
        assert scope.cancelled_caught  # noqa: S101 - the only way here
        spent = f"Timed out after {work.subtask.timeout or self.timeout:g} s"
        return Failed(Failure(message=spent, category=Category.TIMEOUT))

    async def _seconds_left(self, work: Work) -> float | None:
        limit = work.subtask.timeout or self.timeout
        if limit is None:
            return None
        row = await self.store.read(subtask_row, work.key)
        if row is None or row.active_since is None:
            return limit
        return max(0.0, limit - (self.clock() - row.active_since).total_seconds())

    # Rounds -----------------------------------------------------------------------------------

    def begin(self, conn: Connection, plan: Plan, now: datetime) -> None:
        """Start an approved plan."""
        if not move_plan(conn, plan, PlanStatus.RUNNING, started_at=now):
            raise Conflict(f"Plan {plan.id} changed at this moment")
        self.advance(conn, plan.id, now)

    def advance(self, conn: Connection, plan_id: str, now: datetime) -> None:
        """Write the next round of a plan, if it runs."""
        plan = lock_plan(conn, plan_id)
        if plan is None:
            return
        revision = _revision(conn, plan)
        rows = standings(conn, plan_id, plan.revision)
        if plan.status is not PlanStatus.RUNNING:
            _tell.rest_if_still(conn, plan, rows)
            return
        found = schedule(
            revision.subtasks,
            {
                row.subtask_id: Standing(status=row.status, not_before=row.not_before)
                for row in rows
            },
            max_parallel=plan.max_parallel,
            now=now,
        )
        self._write(conn, plan, revision, found, {row.subtask_id: row for row in rows}, now)

    def _write(
        self,
        conn: Connection,
        plan: Plan,
        revision: Revision,
        found: Round,
        rows: Mapping[str, Any],
        now: datetime,
    ) -> None:
        for subtask_id, blocker in found.skip.items():
            self._skip(conn, plan, rows[subtask_id], f"{blocker} did not complete", now)
        for subtask_id in found.start:
            self._start(conn, plan, revision, rows[subtask_id], now)
        if found.skip:
            _tell.progress(conn, plan, now)
        if found.outcome is not None:
            self._end(conn, plan, found.outcome, now)
            return
        if found.wake_at is not None:
            set_timer(conn, ADVANCE, plan.id, found.wake_at)
        if found.waiting:
            _tell.final(conn, plan)

    def _start(
        self,
        conn: Connection,
        plan: Plan,
        revision: Revision,
        row: Any,
        now: datetime,  # noqa: ANN401
    ) -> None:
        epoch = row.epoch + 1
        resumed = row.attempt > 0 and row.not_before is None
        attempt = row.attempt if resumed else row.attempt + 1
        to: dict[str, Any] = {"active_since": now, "attempt": attempt, "not_before": None}
        to["epoch"] = epoch
        if row.attempt == 0:
            to["started_at"] = now
        if not move_subtask(conn, row.key, _S.PENDING, _S.RUNNING, held=row.epoch, **to):
            raise Conflict(f"Subtask {row.subtask_id} changed at this moment")
        if not resumed:
            _tell.started(conn, plan, revision, row.subtask_id, attempt, now)
        go_on(conn, "subtask", row.key, epoch)

    def _skip(
        self,
        conn: Connection,
        plan: Plan,
        row: Any,
        reason: str,
        now: datetime,  # noqa: ANN401
    ) -> None:
        move_subtask(
            conn, row.key, row.status, _S.SKIPPED, held=row.epoch, finished_at=now, reason=reason
        )
        _tell.ended(conn, plan, row.subtask_id, _S.SKIPPED, now, reason=reason)

    def _end(self, conn: Connection, plan: Plan, status: PlanStatus, now: datetime) -> None:
        if not move_plan(conn, plan, status, finished_at=now):
            raise Conflict(f"Plan {plan.id} changed at this moment")
        self.ended(conn, plan, status, now)

    # Outcomes ---------------------------------------------------------------------------------

    def finish(
        self, conn: Connection, work: Work, outcome: Completed | Failed, now: datetime
    ) -> None:
        """Write what came of a subtask, and the round that follows.

        What a superseded holder brings is dropped: somebody else has the subtask.
        """
        plan = plan_of(conn, work.revision.plan_id)
        row = subtask_row(conn, work.key)
        if plan is None or row is None or row.epoch != work.epoch or row.status is not _S.RUNNING:
            return
        if isinstance(outcome, Completed):
            if outcome.also is not None:
                outcome.also(conn, now)
            self._complete(conn, plan, row, outcome.result, now)
        else:
            self._fail(conn, plan, row, work, outcome.failure, now)
        self.advance(conn, plan.id, now)

    def _complete(
        self,
        conn: Connection,
        plan: Plan,
        row: SubtaskRow,
        result: Any,
        now: datetime,  # noqa: ANN401
    ) -> None:
        move_subtask(
            conn, row.key, row.status, _S.COMPLETED,
            held=row.epoch, result=result, finished_at=now,
        )  # fmt: skip
        _tell.ended(conn, plan, row.subtask_id, _S.COMPLETED, now, row=row, result=result)
        _tell.progress(conn, plan, now)

    def _fail(
        self,
        conn: Connection,
        plan: Plan,
        row: SubtaskRow,
        work: Work,
        failure: Failure,
        now: datetime,
    ) -> None:
        error = failure.model_dump(mode="json")
        _tell.error(conn, plan, row.subtask_id, failure, now)
        self.dropped(conn, row, "the attempt failed", now)
        delay = retry_delay(work.subtask.retry_policy, failure, row.attempt)
        if delay is not None:
            due = now + timedelta(seconds=delay)
            move_subtask(
                conn, row.key, row.status, _S.PENDING, held=row.epoch, not_before=due, error=error
            )
            _tell.ended(conn, plan, row.subtask_id, None, now, row=row, failure=failure)
            return
        move_subtask(
            conn, row.key, row.status, _S.FAILED, held=row.epoch, error=error, finished_at=now
        )
        _tell.ended(conn, plan, row.subtask_id, _S.FAILED, now, row=row, failure=failure)
        _tell.progress(conn, plan, now)

    def park(self, conn: Connection, work: Work, now: datetime) -> None:
        """A subtask waits for a person; others may take its place.

        Raises:
            Superseded: somebody else holds the subtask.
        """
        if not move_subtask(conn, work.key, _S.RUNNING, _S.WAITING_APPROVAL, held=work.epoch):
            raise Superseded(f"Subtask {work.subtask.id} is no longer ours")
        self.advance(conn, work.revision.plan_id, now)

    def resume(self, conn: Connection, key: str, now: datetime) -> None:
        """A subtask that waited has its answer: it takes its place among the ready ones."""
        row = subtask_row(conn, key)
        if row is None:
            return
        if row.status is _S.WAITING_APPROVAL:
            move_subtask(conn, key, row.status, _S.PENDING, held=row.epoch)
        self.advance(conn, row.plan_id, now)

    def check(self, conn: Connection, work: Work) -> None:
        """Check that a subtask is still ours, before writing anything for it.

        Raises:
            Superseded: somebody else holds it.
        """
        row = subtask_row(conn, work.key)
        if row is None or row.epoch != work.epoch or row.status is not _S.RUNNING:
            raise Superseded(f"Subtask {work.subtask.id} is no longer ours")

    # What people do ---------------------------------------------------------------------------

    def start(self, conn: Connection, plan_id: str, by: str, now: datetime) -> None:
        """Start a plan that was approved and held."""
        plan = _locked(conn, plan_id)
        if plan.status is not PlanStatus.APPROVED:
            raise Conflict(f"Plan {plan_id} is {plan.status}; only an approved plan can be started")
        _tell.changed(conn, plan, "plan_resumed", by, now, reason="started")
        self.begin(conn, plan, now)

    def pause(self, conn: Connection, plan_id: str, by: str, now: datetime) -> None:
        """Start nothing new; what runs comes to its end."""
        plan = _locked(conn, plan_id)
        if plan.status is not PlanStatus.RUNNING:
            raise Conflict(f"Plan {plan_id} is {plan.status} and cannot be paused")
        move_plan(conn, plan, PlanStatus.PAUSED)
        _tell.changed(conn, plan, "plan_paused", by, now)
        self.advance(conn, plan_id, now)

    def resume_plan(self, conn: Connection, plan_id: str, by: str, now: datetime) -> None:
        """Go on with a paused plan."""
        plan = _locked(conn, plan_id)
        if plan.status is not PlanStatus.PAUSED:
            raise Conflict(f"Plan {plan_id} is {plan.status} and cannot be resumed")
        move_plan(conn, plan, PlanStatus.RUNNING)
        _tell.changed(conn, plan, "plan_resumed", by, now)
        self.advance(conn, plan_id, now)

    def cancel(self, conn: Connection, plan_id: str, by: str, now: datetime) -> None:
        """End a plan and everything that it runs."""
        plan = _locked(conn, plan_id)
        if not move_plan(conn, plan, PlanStatus.CANCELLED, finished_at=now):
            raise Conflict(f"Plan {plan_id} changed at this moment")
        for row in subtask_rows(conn, plan_id, plan.revision):
            if row.status not in SUBTASK.terminal:
                self._cancel_row(conn, plan, row, f"the plan was cancelled by {by}", now)
        self.ended(conn, plan, PlanStatus.CANCELLED, now)
        _tell.changed(conn, plan, "plan_cancelled", by, now)
        _tell.final(conn, plan)

    def cancel_subtask(
        self, conn: Connection, plan_id: str, subtask_id: str, by: str, now: datetime
    ) -> None:
        """End one subtask; its siblings go on, its dependants are skipped."""
        plan, row = self._open_subtask(conn, plan_id, subtask_id)
        self._cancel_row(conn, plan, row, f"cancelled by {by}", now)
        _tell.progress(conn, plan, now)
        self.advance(conn, plan_id, now)

    def skip_subtask(
        self, conn: Connection, plan_id: str, subtask_id: str, by: str, now: datetime
    ) -> None:
        """Leave one subtask out; its dependants are skipped too."""
        plan, row = self._open_subtask(conn, plan_id, subtask_id)
        if row.status is _S.RUNNING:
            raise Conflict(f"Subtask {subtask_id} runs; cancel it instead")
        self.dropped(conn, row, f"skipped by {by}", now)
        self._skip(conn, plan, row, f"skipped by {by}", now)
        _tell.progress(conn, plan, now)
        self.advance(conn, plan_id, now)

    def _open_subtask(
        self, conn: Connection, plan_id: str, subtask_id: str
    ) -> tuple[Plan, SubtaskRow]:
        plan = _locked(conn, plan_id)
        row = subtask_row(conn, subtask_key(plan_id, plan.revision, subtask_id))
        if row is None:
            raise NotFound(f"Plan {plan_id} has no subtask {subtask_id}")
        if row.status in SUBTASK.terminal:
            raise Conflict(f"Subtask {subtask_id} is {row.status} already")
        return plan, row

    def _cancel_row(
        self, conn: Connection, plan: Plan, row: SubtaskRow, reason: str, now: datetime
    ) -> None:
        self.dropped(conn, row, reason, now)
        move_subtask(
            conn, row.key, row.status, _S.CANCELLED,
            held=row.epoch, finished_at=now, reason=reason,
        )  # fmt: skip
        stop(conn, "subtask", row.key)
        _tell.ended(conn, plan, row.subtask_id, _S.CANCELLED, now, row=row, reason=reason)

    # Recovery ---------------------------------------------------------------------------------

    def take_over(self, conn: Connection, key: str) -> None:
        """After a crash: hold a subtask anew, so that whoever held it before is fenced."""
        row = subtask_row(conn, key)
        if row is None or row.status is not _S.RUNNING:
            return
        if take_subtask(conn, row):
            go_on(conn, "subtask", key, row.epoch + 1)


def _locked(conn: Connection, plan_id: str) -> Plan:
    plan = lock_plan(conn, plan_id)
    if plan is None:
        raise NotFound(f"No plan found with id={plan_id}")
    return plan


def _revision(conn: Connection, plan: Plan) -> Revision:
    revision = revision_of(conn, plan.id, plan.revision)
    assert revision is not None  # noqa: S101 - a plan's current revision is a foreign key away
    return revision
