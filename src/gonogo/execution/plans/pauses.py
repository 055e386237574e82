"""Pauses that nobody asked for, and ends that time brings."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from gonogo.domain.errors import Conflict, ModelFailed
from gonogo.domain.failures import Absence, Category, Failure
from gonogo.domain.replanning import Limits
from gonogo.domain.schedule import outcome
from gonogo.domain.states import ENDED, SUBTASK, PlanStatus, SubtaskStatus
from gonogo.execution.plans.rounds import Rounds
from gonogo.execution.scheduling import BUDGET, MODEL, QUOTA, REPLAN, RESUME, ROLLING_BACK, Deferred
from gonogo.execution.scheduling import events as _tell
from gonogo.execution.scheduling.plan_state import (
    BY_ITSELF,
    NO_PAUSE,
    PLAN_TIMEOUT,
    RUNTIME,
    PlanState,
)
from gonogo.i18n import say
from gonogo.store import Tx, stop
from gonogo.store.jobs import set_timer
from gonogo.store.sessions import spoken_in

# A quota that is used up pauses a plan until it is there again. A model that does not answer pauses
# it for as long as it is waited for: from time to time one of the subtasks that need it finds out
# whether it is back, and the others wait for what that one finds. Then a person is asked.

_S = SubtaskStatus
_SAME = timedelta(seconds=1)
"""Resets that lie no further apart are one."""


class Pauses(Struct, frozen=True):
    """What quotas, models and time limits do to a plan, each a part of its caller's transaction."""

    rounds: Rounds

    def on_timer(self, tx: Tx, kind: str, plan_id: str) -> None:
        """Carry out one of the timers of a plan."""
        verbs = {RESUME: self.wake, PLAN_TIMEOUT: self.time_out}
        verbs.get(kind, self.rounds.advance)(tx, plan_id)

    def hold_back(self, board: PlanState, deferred: Mapping[str, Deferred]) -> None:
        """Pause a plan whose subtasks could not go on, by their ids."""
        needed = [deferred[key] for key in self.rounds.may_go_on(board) if key in deferred]
        spent = [each.spent for each in needed if each.spent is not None]
        resets = [each.until for each in needed if each.until is not None]
        away = [each.away for each in needed if each.away is not None]
        if spent:
            self.rounds.pause_for_budget(board, spent[0])
        elif resets:
            self.pause_for_quota(board, max(resets))
        elif away:
            self.pause_for_model(board, away[0])

    def extend(self, tx: Tx, plan_id: str, limits: Limits, by: str) -> None:
        """A person gave a plan that is paused for its budget other limits: go on.

        If it was the search for another revision that reached the limit, the search goes on.

        Raises:
            Conflict: it is not paused for its budget.
        """
        board = self._asked_about(tx, plan_id, BUDGET)
        own = board.plan.budget or {}
        board.set_plan(budget={**own, "limits": {**own.get("limits", {}), **limits}})
        self.rounds.end_pause(board, by, BUDGET)

    def wait_on(self, tx: Tx, plan_id: str, by: str) -> None:
        """A person has a model that does not answer waited for as long again.

        Raises:
            Conflict: the plan is not paused for its model.
        """
        self.rounds.end_pause(self._asked_about(tx, plan_id, MODEL), by, MODEL)

    def give_up(self, tx: Tx, plan_id: str, reason: str, about: str = BUDGET) -> None:
        """End a plan that is paused until a person answers, and does not get what it waits for.

        Args:
            about: What it is paused for.

        Raises:
            Conflict: it is not paused for that.
        """
        board = PlanState.open(tx, plan_id)
        # It ends in the middle of a rollback too, as it may be cancelled there.
        held = board.plan.rollback if board.plan.pause_reason == ROLLING_BACK else None
        if held is None or held["pause"] != about:
            board = self._asked_about(tx, plan_id, about)
        self.cut_short(board, reason)

    def _asked_about(self, tx: Tx, plan_id: str, about: str) -> PlanState:
        board = PlanState.open(tx, plan_id)
        if board.plan.pause_reason != about or board.plan.paused_until is not None:
            raise Conflict(f"Plan {plan_id} is {board.plan.status}, and not for its {about}")
        return board

    def pause_for_quota(self, board: PlanState, until: datetime) -> None:
        """Start nothing new until a model's quota is there again; then go on.

        What hits the same quota later shares the pause. A pause of another kind stays as it is.
        """
        plan, reset = board.plan, board.plan.paused_until
        later = reset is not None and (plan.pause_reason == MODEL or until > reset + _SAME)
        if not (later or board.may_rest()):
            return
        board.rest(**{**NO_PAUSE, "pause_reason": QUOTA, "paused_until": until})
        set_timer(board.tx, RESUME, plan.id, until)
        shown = until.strftime("%Y-%m-%d %H:%M:%S UTC")
        content = say("plan_paused_quota", spoken_in(board.tx, plan.session_id), until=shown)
        _tell.changed(board, "plan_paused", RUNTIME, QUOTA, until=until, content=content)

    def pause_for_model(self, board: PlanState, error: ModelFailed) -> None:
        """Start nothing new until a model answers again; ask a person when it takes too long.

        What fails meanwhile shares the pause. A pause of another kind stays as it is.
        """
        plan, waits = board.plan, self.rounds.is_due(board)
        if not (waits or board.may_rest()):
            return
        absence = Absence.after(plan.away, error, board.now)
        until = absence.next_try(board.now, self.rounds.rules.patience)
        to = {"pause_reason": MODEL, "paused_until": until, "away": absence.as_json()}
        board.rest(**to)
        if not waits:
            self._tell_waiting(board, absence)
        if until is not None:
            set_timer(board.tx, RESUME, plan.id, until)
        elif not self.rounds.questions.ask_about_model(board.tx, board.plan, absence):
            board.write()
            self.cut_short(board, f"the model did not answer: {absence.error}")

    def _tell_waiting(self, board: PlanState, absence: Absence) -> None:
        shown = absence.ends_at(self.rounds.rules.patience).strftime("%Y-%m-%d %H:%M:%S UTC")
        content = say(
            "plan_paused_model", spoken_in(board.tx, board.plan.session_id), until=shown,
            error=absence.error,
        )  # fmt: skip
        until = board.plan.paused_until
        _tell.changed(board, "plan_paused", RUNTIME, MODEL, until=until, content=content)

    def model_answered(self, tx: Tx, plan_id: str) -> None:
        """A model answered somebody who had asked it while the plan waited for it: go on."""
        board = PlanState.open(tx, plan_id)
        if board.plan.pause_reason == MODEL and board.plan.paused_until is not None:
            self.rounds.end_pause(board, RUNTIME, MODEL)

    def wake(self, tx: Tx, plan_id: str) -> None:
        """The time has come for which a plan was paused: go on, or ask its model again.

        A person may have paused the plan meanwhile.
        """
        board = PlanState.open(tx, plan_id)
        until, reason = board.plan.paused_until, board.plan.pause_reason
        if reason not in BY_ITSELF or until is None:
            return
        if until > tx.now:
            set_timer(tx, RESUME, plan_id, until)
        elif reason == QUOTA:
            self.rounds.end_pause(board, RUNTIME, QUOTA)
        else:
            self.rounds.carry_on(board)

    def time_out(self, tx: Tx, plan_id: str) -> None:
        """A plan's time is over: what runs fails, what waits is skipped, the plan ends."""
        board = PlanState.open(tx, plan_id)
        limit, since = self.rounds.rules.plan_timeout, board.plan.started_at
        if limit is None or since is None or board.plan.status in ENDED:
            return
        due = since + timedelta(seconds=limit)
        if tx.now < due:
            set_timer(tx, PLAN_TIMEOUT, plan_id, due)
            return
        said = f"The plan's time limit of {limit:g} s is over"
        self.cut_short(board, said, Failure(message=said, category=Category.TIMEOUT))

    def cut_short(self, board: PlanState, reason: str, failure: Failure | None = None) -> None:
        """End a plan now: what runs fails, or is cancelled, and the rest is skipped.

        Where another revision waits to be approved, the plan ends in the one before it.
        """
        board = board.at_approved()
        ids = list(board.shape.subtasks)
        left = [key for key in ids if board.rows[key].status not in SUBTASK.terminal]
        for subtask_id in left:
            if board.rows[subtask_id].status is not _S.RUNNING:
                self.rounds.ending.drop_work(board.tx, board.whole_row(subtask_id), reason)
                self.rounds.skip(board, subtask_id, reason)
            elif failure is None:
                self.rounds.cancel(board, subtask_id, reason)
            else:
                self._fail_running(board, subtask_id, failure)
        if board.plan.status is PlanStatus.REPLANNING:
            stop(board.tx, REPLAN, board.plan.id)
        self.rounds.room(board)
        board.write()
        _tell.progress(board)
        # What was cut off was still to be done, whatever conditions would have said of it.
        declined = frozenset(key for key, row in board.rows.items() if row.declined and not left)
        statuses = {key: row.status for key, row in board.rows.items()}
        ended = outcome(board.shape.revision.subtasks, statuses, declined)
        assert ended is not None  # noqa: S101 - every subtask is over
        self.rounds.end(board, ended)

    def _fail_running(self, board: PlanState, subtask_id: str, failure: Failure) -> None:
        row = board.whole_row(subtask_id)
        _tell.error(board, subtask_id, failure)
        self.rounds.ending.drop_work(board.tx, row, failure.message)
        stop(board.tx, "subtask", row.key)
        self.rounds.write_failed(
            board, subtask_id, failure, attempt=row.attempt, since=row.active_since
        )
