"""What people do to a plan that was approved: start, pause, resume, cancel; one subtask or all."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gonogo.domain.errors import Conflict
from gonogo.domain.failures import Failure
from gonogo.domain.states import SUBTASK, PlanStatus, SubtaskStatus
from gonogo.engine import _tell
from gonogo.engine._board import Board
from gonogo.engine._pauses import BY_ITSELF, MODEL, Pauses
from gonogo.engine._rounds import NO_PAUSE, REPLAN
from gonogo.engine._spending import BUDGET, RUNTIME
from gonogo.store import Connection, stop
from gonogo.store.plans import end_grant

_REPLANNED = frozenset(
    {PlanStatus.RUNNING, PlanStatus.PAUSED, PlanStatus.FAILED, PlanStatus.PARTIAL}
)


@dataclass(slots=True, kw_only=True)
class People(Pauses):
    """The verbs of people, each a part of its caller's transaction.

    All of them raise NotFound for what does not exist, and Conflict, naming the state, where the
    plan or the subtask does not allow it.
    """

    def start(self, conn: Connection, plan_id: str, by: str, now: datetime) -> None:
        """Start a plan that was approved and held."""
        board = Board.open(conn, plan_id, now)
        status = board.plan.status
        if status is not PlanStatus.APPROVED:
            raise Conflict(f"Plan {plan_id} is {status}; only an approved plan can be started")
        _tell.changed(board, "plan_resumed", by, reason="started")
        self.begin(conn, board.plan, now)

    def pause(self, conn: Connection, plan_id: str, by: str, now: datetime) -> None:
        """Start nothing new; what runs comes to its end."""
        board = Board.open(conn, plan_id, now)
        plan, status = board.plan, board.plan.status
        by_itself = plan.pause_reason in BY_ITSELF and plan.paused_until is not None
        if status is PlanStatus.PAUSED and by_itself:
            # From now on it is the person's pause, which no timer ends.
            self._drop_resume(board)
            board.set_plan(**NO_PAUSE)
        elif status is not PlanStatus.RUNNING:
            raise Conflict(f"Plan {plan_id} is {status} and cannot be paused")
        else:
            board.move_plan(PlanStatus.PAUSED)
        _tell.changed(board, "plan_paused", by)
        self._go_on(board)

    def resume_plan(self, conn: Connection, plan_id: str, by: str, now: datetime) -> None:
        """Go on with a paused plan."""
        board = Board.open(conn, plan_id, now)
        _check_asked(board)
        if board.plan.status is not PlanStatus.PAUSED:
            raise Conflict(f"Plan {plan_id} is {board.plan.status} and cannot be resumed")
        _check_rollback(board)
        self.end_pause(board, by)

    def replan(self, conn: Connection, plan_id: str, reason: str, by: str, now: datetime) -> None:
        """Have a running, paused or failed plan changed, however often it was before.

        What runs comes to its end first.
        """
        board = Board.open(conn, plan_id, now)
        if board.plan.status not in _REPLANNED:
            raise Conflict(f"Plan {plan_id} is {board.plan.status} and cannot be replanned")
        _check_rollback(board)
        _check_asked(board)
        if board.plan.status is not PlanStatus.RUNNING:
            self._drop_resume(board)
            to: dict[str, Any] = {"finished_at": None, **NO_PAUSE}
            if board.plan.status is not PlanStatus.PAUSED:
                to["started_at"] = now
                self._limit_time(conn, plan_id, now)
            board.move_plan(PlanStatus.RUNNING, **to)
        self._send_back(board, cause="person", reason=reason, by=by)
        self._go_on(board)

    def go_without(self, conn: Connection, plan_id: str, reason: str, now: datetime) -> None:
        """No new revision comes: carry on with what the plan has, as far as that goes."""
        board = Board.open(conn, plan_id, now)
        if board.plan.status is not PlanStatus.REPLANNING:
            return
        board.move_plan(PlanStatus.RUNNING)
        _tell.changed(board, "plan_resumed", RUNTIME, reason=reason)
        self._go_on(board)

    def go_on_revised(self, conn: Connection, plan_id: str, reason: str, now: datetime) -> None:
        """Go on with a new revision that asks for nothing."""
        board = Board.open(conn, plan_id, now)
        _tell.changed(board, "plan_resumed", RUNTIME, reason=reason)
        self._go_on(board)

    def end_unfinished(self, conn: Connection, plan_id: str, reason: str, now: datetime) -> None:
        """End a plan with what it has reached; whatever is left is skipped."""
        self.cut_short(Board.open(conn, plan_id, now), reason)

    def cancel(
        self, conn: Connection, plan_id: str, by: str, now: datetime, reason: str | None = None
    ) -> None:
        """End a plan and everything that it runs."""
        board = Board.open(conn, plan_id, now).at_approved()
        self._drop_timers(board)
        board.move_plan(PlanStatus.CANCELLED, finished_at=now, again=None, **NO_PAUSE)
        for subtask_id in board.shape.subtasks:
            if board.rows[subtask_id].status not in SUBTASK.terminal:
                self._cancel(board, subtask_id, _because(f"the plan was cancelled by {by}", reason))
        board.write()
        self._room(board)
        stop(conn, REPLAN, plan_id)
        self.ended(conn, board.plan, PlanStatus.CANCELLED, now)
        _tell.changed(board, "plan_cancelled", by, reason)
        _tell.final(board)

    def cancel_subtask(
        self,
        conn: Connection,
        plan_id: str,
        subtask_id: str,
        by: str,
        now: datetime,
        reason: str | None = None,
    ) -> None:
        """End one subtask; its siblings go on, its dependants are skipped."""
        board, said = Board.open(conn, plan_id, now), _because(f"cancelled by {by}", reason)
        board.open_row(subtask_id)
        self._cancel(board, subtask_id, said)
        end_grant(conn, plan_id, subtask_id, now, said)
        self._go_on(board)

    def skip_subtask(
        self, conn: Connection, plan_id: str, subtask_id: str, by: str, now: datetime
    ) -> None:
        """Leave one subtask out; its dependants are skipped too."""
        board = Board.open(conn, plan_id, now)
        if board.open_row(subtask_id).status is SubtaskStatus.RUNNING:
            raise Conflict(f"Subtask {subtask_id} runs; cancel it instead")
        reason = f"skipped by {by}"
        self.dropped(conn, board.whole_row(subtask_id), reason, now)
        self._skip(board, subtask_id, reason)
        end_grant(conn, plan_id, subtask_id, now, reason)
        self._go_on(board)

    def fail_subtask(
        self, conn: Connection, plan_id: str, subtask_id: str, failure: Failure, now: datetime
    ) -> None:
        """Fail a subtask that waits for a person to let it start."""
        board = Board.open(conn, plan_id, now)
        status = board.open_row(subtask_id).status
        if status is not SubtaskStatus.WAITING_APPROVAL:
            raise Conflict(f"Subtask {subtask_id} is {status}; nobody waits to let it start")
        self.dropped(conn, board.whole_row(subtask_id), failure.message, now)
        _tell.error(board, subtask_id, failure)
        self._write_failed(board, subtask_id, failure)
        self._go_on(board)


def _because(what: str, reason: str | None) -> str:
    return f"{what}: {reason}" if reason else what


def _check_rollback(board: Board) -> None:
    if board.plan.rollback is not None:
        raise Conflict(
            f"A rollback of plan {board.plan.id} is not finished; was it cut off, roll back again"
        )


def _check_asked(board: Board) -> None:
    reason = board.plan.pause_reason
    if reason in (BUDGET, MODEL) and board.plan.paused_until is None:
        raise Conflict(f"Plan {board.plan.id} waits for the answer about its {reason}")
