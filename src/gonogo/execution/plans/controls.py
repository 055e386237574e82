"""What people do to a plan that was approved: start, pause, resume, cancel; one subtask or all."""

from typing import Any

from msgspec import Struct

from gonogo.domain.errors import Conflict
from gonogo.domain.failures import Failure
from gonogo.domain.states import SUBTASK, PlanStatus, SubtaskStatus
from gonogo.execution.plans.pauses import Pauses
from gonogo.execution.plans.rounds import Rounds
from gonogo.execution.scheduling import BUDGET, MODEL, REPLAN
from gonogo.execution.scheduling import events as _tell
from gonogo.execution.scheduling.plan_state import (
    BY_ITSELF,
    NO_PAUSE,
    RUNTIME,
    PlanState,
)
from gonogo.store import Tx, stop
from gonogo.store.plans import end_grant

_REPLANNED = frozenset(
    {PlanStatus.RUNNING, PlanStatus.PAUSED, PlanStatus.FAILED, PlanStatus.PARTIAL}
)


class PlanControls(Struct, frozen=True):
    """The verbs of people, each a part of its caller's transaction.

    All of them raise NotFound for what does not exist, and Conflict, naming the state, where the
    plan or the subtask does not allow it.
    """

    rounds: Rounds
    pauses: Pauses

    def start(self, tx: Tx, plan_id: str, by: str) -> None:
        """Start a plan that was approved and held."""
        board = PlanState.open(tx, plan_id)
        status = board.plan.status
        if status is not PlanStatus.APPROVED:
            raise Conflict(f"Plan {plan_id} is {status}; only an approved plan can be started")
        _tell.changed(board, "plan_resumed", by, reason="started")
        self.rounds.begin(tx, board.plan)

    def pause(self, tx: Tx, plan_id: str, by: str) -> None:
        """Start nothing new; what runs comes to its end."""
        board = PlanState.open(tx, plan_id)
        plan, status = board.plan, board.plan.status
        by_itself = plan.pause_reason in BY_ITSELF and plan.paused_until is not None
        if status is PlanStatus.PAUSED and by_itself:
            # From now on it is the person's pause, which no timer ends.
            self.rounds.drop_resume(board)
            board.set_plan(**NO_PAUSE)
        elif status is not PlanStatus.RUNNING:
            raise Conflict(f"Plan {plan_id} is {status} and cannot be paused")
        else:
            board.move_plan(PlanStatus.PAUSED)
        _tell.changed(board, "plan_paused", by)
        self.rounds.carry_on(board)

    def resume_plan(self, tx: Tx, plan_id: str, by: str) -> None:
        """Go on with a paused plan."""
        board = PlanState.open(tx, plan_id)
        _check_asked(board)
        if board.plan.status is not PlanStatus.PAUSED:
            raise Conflict(f"Plan {plan_id} is {board.plan.status} and cannot be resumed")
        _check_rollback(board)
        self.rounds.end_pause(board, by)

    def replan(self, tx: Tx, plan_id: str, reason: str, by: str) -> None:
        """Have a running, paused or failed plan changed, however often it was before.

        What runs comes to its end first.
        """
        board = PlanState.open(tx, plan_id)
        if board.plan.status not in _REPLANNED:
            raise Conflict(f"Plan {plan_id} is {board.plan.status} and cannot be replanned")
        _check_rollback(board)
        _check_asked(board)
        if board.plan.status is not PlanStatus.RUNNING:
            self.rounds.drop_resume(board)
            to: dict[str, Any] = {"finished_at": None, **NO_PAUSE}
            if board.plan.status is not PlanStatus.PAUSED:
                to["started_at"] = tx.now
                self.rounds.limit_time(tx, plan_id)
            board.move_plan(PlanStatus.RUNNING, **to)
        self.rounds.send_back(board, cause="person", reason=reason, by=by)
        self.rounds.carry_on(board)

    def go_without(self, tx: Tx, plan_id: str, reason: str) -> None:
        """No new revision comes: carry on with what the plan has, as far as that goes."""
        board = PlanState.open(tx, plan_id)
        if board.plan.status is not PlanStatus.REPLANNING:
            return
        board.move_plan(PlanStatus.RUNNING)
        _tell.changed(board, "plan_resumed", RUNTIME, reason=reason)
        self.rounds.carry_on(board)

    def go_on_revised(self, tx: Tx, plan_id: str, reason: str) -> None:
        """Go on with a new revision that asks for nothing."""
        board = PlanState.open(tx, plan_id)
        _tell.changed(board, "plan_resumed", RUNTIME, reason=reason)
        self.rounds.carry_on(board)

    def end_unfinished(self, tx: Tx, plan_id: str, reason: str) -> None:
        """End a plan with what it has reached; whatever is left is skipped."""
        self.pauses.cut_short(PlanState.open(tx, plan_id), reason)

    def cancel(self, tx: Tx, plan_id: str, by: str, reason: str | None = None) -> None:
        """End a plan and everything that it runs."""
        board = PlanState.open(tx, plan_id).at_approved()
        self.rounds.drop_timers(board)
        board.move_plan(PlanStatus.CANCELLED, finished_at=tx.now, again=None, **NO_PAUSE)
        for subtask_id in board.shape.subtasks:
            if board.rows[subtask_id].status not in SUBTASK.terminal:
                self.rounds.cancel(
                    board, subtask_id, _because(f"the plan was cancelled by {by}", reason)
                )
        board.write()
        self.rounds.room(board)
        stop(tx, REPLAN, plan_id)
        self.rounds.ending.end(tx, board.plan, PlanStatus.CANCELLED)
        _tell.changed(board, "plan_cancelled", by, reason)
        _tell.final(board)

    def cancel_subtask(
        self, tx: Tx, plan_id: str, subtask_id: str, by: str, reason: str | None = None
    ) -> None:
        """End one subtask; its siblings go on, its dependants are skipped."""
        board, said = PlanState.open(tx, plan_id), _because(f"cancelled by {by}", reason)
        board.open_row(subtask_id)
        self.rounds.cancel(board, subtask_id, said)
        end_grant(tx, plan_id, subtask_id, said)
        self.rounds.carry_on(board)

    def skip_subtask(self, tx: Tx, plan_id: str, subtask_id: str, by: str) -> None:
        """Leave one subtask out; its dependants are skipped too."""
        board = PlanState.open(tx, plan_id)
        if board.open_row(subtask_id).status is SubtaskStatus.RUNNING:
            raise Conflict(f"Subtask {subtask_id} runs; cancel it instead")
        reason = f"skipped by {by}"
        self.rounds.ending.drop_work(tx, board.whole_row(subtask_id), reason)
        self.rounds.skip(board, subtask_id, reason)
        end_grant(tx, plan_id, subtask_id, reason)
        self.rounds.carry_on(board)

    def fail_subtask(self, tx: Tx, plan_id: str, subtask_id: str, failure: Failure) -> None:
        """Fail a subtask that waits for a person to let it start."""
        board = PlanState.open(tx, plan_id)
        status = board.open_row(subtask_id).status
        if status is not SubtaskStatus.WAITING_APPROVAL:
            raise Conflict(f"Subtask {subtask_id} is {status}; nobody waits to let it start")
        self.rounds.ending.drop_work(tx, board.whole_row(subtask_id), failure.message)
        _tell.error(board, subtask_id, failure)
        self.rounds.write_failed(board, subtask_id, failure)
        self.rounds.carry_on(board)


def _because(what: str, reason: str | None) -> str:
    return f"{what}: {reason}" if reason else what


def _check_rollback(board: PlanState) -> None:
    if board.plan.rollback is not None:
        raise Conflict(
            f"A rollback of plan {board.plan.id} is not finished; was it cut off, roll back again"
        )


def _check_asked(board: PlanState) -> None:
    reason = board.plan.pause_reason
    if reason in (BUDGET, MODEL) and board.plan.paused_until is None:
        raise Conflict(f"Plan {board.plan.id} waits for the answer about its {reason}")
