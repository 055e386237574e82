"""Pauses that nobody asked for, and ends that time brings: quotas, and the time limit of a plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gonogo.domain.budget import Limits
from gonogo.domain.errors import Conflict
from gonogo.domain.failure import Category, Failure
from gonogo.domain.plan_state import ENDED, PlanStatus
from gonogo.domain.schedule import outcome
from gonogo.domain.subtask_state import SUBTASK, SubtaskStatus
from gonogo.engine import _tell
from gonogo.engine._board import Board
from gonogo.engine._outcomes import Deferred
from gonogo.engine._rounds import ADVANCE, PLAN_TIMEOUT, REPLAN, Rounds
from gonogo.engine._spending import BUDGET, RESUME, RUNTIME
from gonogo.store import Connection, stop
from gonogo.store.sessions import spoken_in
from gonogo.store.timers import drop_timer, set_timer
from gonogo.texts import say

_S = SubtaskStatus
PLAN_TIMERS = frozenset({ADVANCE, RESUME, PLAN_TIMEOUT})
QUOTA = "quota"
ROLLING_BACK = "rollback"
"""Why a paused plan cannot go on: its files are being put back. Where it was paused until a time
before, it keeps that time, and gets its timer again once they are back."""
_SAME = timedelta(seconds=1)
"""Resets that lie no further apart are one."""


@dataclass(slots=True, kw_only=True)
class Pauses(Rounds):
    """What quotas and time limits do to a plan, each a part of its caller's transaction."""

    def on_timer(self, conn: Connection, kind: str, plan_id: str, now: datetime) -> None:
        """Carry out one of the timers of a plan."""
        verbs = {RESUME: self.wake, PLAN_TIMEOUT: self.time_out}
        verbs.get(kind, self.advance)(conn, plan_id, now)

    def hold_back(self, board: Board, deferred: Sequence[Deferred]) -> None:
        """Pause a plan whose subtasks could not go on."""
        spent = [each.spent for each in deferred if each.spent is not None]
        resets = [each.until for each in deferred if each.until is not None]
        if spent:
            self.pause_for_budget(board, spent[0])
        elif resets:
            self.pause_for_quota(board, max(resets))

    def extend(
        self, conn: Connection, plan_id: str, limits: Limits, by: str, now: datetime
    ) -> None:
        """A person gave a plan that is paused for its budget other limits: go on.

        If it was the search for another revision that reached the limit, the search goes on.

        Raises:
            Conflict: it is not paused for its budget.
        """
        board = self._paused_for_budget(conn, plan_id, now)
        own = board.plan.budget or {}
        board.set_plan(budget={**own, "limits": {**own.get("limits", {}), **limits}})
        if board.plan.status is not PlanStatus.REPLANNING:
            self.end_pause(board, by, BUDGET)
            return
        board.set_plan(pause_reason=None)
        _tell.changed(board, "plan_resumed", by, BUDGET)
        self._go_on(board)

    def give_up(self, conn: Connection, plan_id: str, reason: str, now: datetime) -> None:
        """End a plan that is paused for its budget, and gets no more.

        Raises:
            Conflict: it is not paused for its budget.
        """
        board = Board.open(conn, plan_id, now)
        # It ends in the middle of a rollback too, as it may be cancelled there.
        held = board.plan.rollback if board.plan.pause_reason == ROLLING_BACK else None
        if held is None or held["pause"] != BUDGET:
            board = self._paused_for_budget(conn, plan_id, now)
        self.cut_short(board, reason)

    def _paused_for_budget(self, conn: Connection, plan_id: str, now: datetime) -> Board:
        board = Board.open(conn, plan_id, now)
        if board.plan.pause_reason != BUDGET:
            raise Conflict(f"Plan {plan_id} is {board.plan.status}, and not for its budget")
        return board

    def pause_for_quota(self, board: Board, until: datetime) -> None:
        """Start nothing new until a model's quota is there again; then go on.

        What hits the same quota later shares the pause. A pause of another kind stays as it is.
        """
        plan, reset = board.plan, board.plan.paused_until
        if plan.status is PlanStatus.RUNNING:
            board.move_plan(PlanStatus.PAUSED, pause_reason=QUOTA, paused_until=until)
        elif reset is not None and until > reset + _SAME:
            board.set_plan(paused_until=until)
        else:
            return
        set_timer(board.conn, RESUME, plan.id, until)
        shown = until.strftime("%Y-%m-%d %H:%M:%S UTC")
        content = say("plan_paused_quota", spoken_in(board.conn, plan.session_id), until=shown)
        _tell.changed(board, "plan_paused", RUNTIME, QUOTA, until=until, content=content)

    def wake(self, conn: Connection, plan_id: str, now: datetime) -> None:
        """A quota is there again: go on, unless a person has paused the plan meanwhile."""
        board = Board.open(conn, plan_id, now)
        until = board.plan.paused_until
        if board.plan.pause_reason != QUOTA or until is None:
            return
        if until > now:
            set_timer(conn, RESUME, plan_id, until)
            return
        self.end_pause(board, RUNTIME, QUOTA)

    def end_pause(self, board: Board, by: str, reason: str | None = None) -> None:
        """Go on with a paused plan."""
        self._drop_resume(board)
        board.move_plan(PlanStatus.RUNNING, pause_reason=None, paused_until=None)
        _tell.changed(board, "plan_resumed", by, reason)
        self._go_on(board)

    def time_out(self, conn: Connection, plan_id: str, now: datetime) -> None:
        """A plan's time is over: what runs fails, what waits is skipped, the plan ends."""
        board = Board.open(conn, plan_id, now)
        limit, since = self.plan_timeout, board.plan.started_at
        if limit is None or since is None or board.plan.status in ENDED:
            return
        due = since + timedelta(seconds=limit)
        if now < due:
            set_timer(conn, PLAN_TIMEOUT, plan_id, due)
            return
        said = f"The plan's time limit of {limit:g} s is over"
        self.cut_short(board, said, Failure(message=said, category=Category.TIMEOUT))

    def cut_short(self, board: Board, reason: str, failure: Failure | None = None) -> None:
        """End a plan now: what runs fails, or is cancelled, and the rest is skipped."""
        ids = list(board.shape.subtasks)
        left = [key for key in ids if board.rows[key].status not in SUBTASK.terminal]
        for subtask_id in left:
            if board.rows[subtask_id].status is not _S.RUNNING:
                self.dropped(board.conn, board.whole_row(subtask_id), reason, board.now)
                self._skip(board, subtask_id, reason)
            elif failure is None:
                self._cancel(board, subtask_id, reason)
            else:
                self._fail_running(board, subtask_id, failure)
        if board.plan.status is PlanStatus.REPLANNING:
            stop(board.conn, REPLAN, board.plan.id)
        self._room(board)
        board.write()
        _tell.progress(board)
        # What was cut off was still to be done, whatever conditions would have said of it.
        declined = frozenset(key for key, row in board.rows.items() if row.declined and not left)
        statuses = {key: row.status for key, row in board.rows.items()}
        ended = outcome(board.shape.revision.subtasks, statuses, declined)
        assert ended is not None  # noqa: S101 - every subtask is over
        self._end(board, ended)

    def _fail_running(self, board: Board, subtask_id: str, failure: Failure) -> None:
        row = board.whole_row(subtask_id)
        _tell.error(board, subtask_id, failure)
        self.dropped(board.conn, row, failure.message, board.now)
        stop(board.conn, "subtask", row.key)
        self._write_failed(board, subtask_id, failure, attempt=row.attempt, since=row.active_since)

    def _drop_timers(self, board: Board) -> None:
        Rounds._drop_timers(self, board)
        self._drop_resume(board)

    def _drop_resume(self, board: Board) -> None:
        if board.plan.paused_until is not None:
            drop_timer(board.conn, RESUME, board.plan.id)
