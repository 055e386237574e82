"""What people and time do to an approved plan: start, pause, resume, retry, cancel."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from gonogo.domain.errors import Conflict, ModelFailed, NotFound, Unwritable, because
from gonogo.domain.failures import Absence, Category, Failure
from gonogo.domain.identity import Principal
from gonogo.domain.plan import BUILT_IN, Subtask, no_subtask, own_tool, worker_name
from gonogo.domain.records import Plan
from gonogo.domain.replanning import Limits
from gonogo.domain.reviews import reviewer_name
from gonogo.domain.schedule import SubtaskStanding, outcome
from gonogo.domain.states import ENDED, SUBTASK, PlanStatus, SubtaskStatus
from gonogo.domain.tool_calls import RUNTIME
from gonogo.execution.agent import steer
from gonogo.execution.plans.checkpoints import check_rolled_back
from gonogo.execution.plans.ending import ARCHITECT, revised_by, stand, tried_again, undone
from gonogo.execution.plans.rounds import Rounds
from gonogo.execution.scheduling import (
    BUDGET,
    DISK,
    GOING,
    MODEL,
    QUOTA,
    REPLAN,
    RESUME,
    ROLLING_BACK,
    Deferred,
    waits_for_answer,
)
from gonogo.execution.scheduling import outcomes as _tell
from gonogo.execution.scheduling.plan_state import (
    AWAY,
    BY_ITSELF,
    NO_PAUSE,
    PLAN_TIMEOUT,
    PlanState,
)
from gonogo.i18n import say
from gonogo.store import Tx, stop
from gonogo.store import events as log
from gonogo.store.jobs import set_timer
from gonogo.store.plans import end_grant, lock_plan, set_plan, thread_name
from gonogo.store.sessions import session_of, set_session, spoken_in

# Pauses that nobody asked for, and ends at time limits.

# A used-up quota pauses a plan until the model has quota again. A model that does not answer pauses
# it as long as gonogo waits for it: from time to time one of the subtasks that need it tests
# whether it is back, while the others wait. Then a person is asked. gonogo waits in the same way
# for a disk that takes no writes, but asks nobody.

_S = SubtaskStatus
_SAME = timedelta(seconds=1)
"""Reset times that differ by no more than this count as one."""


class Pauses(Struct, frozen=True):
    """What quotas, models and time limits do to a plan, each a part of its caller's transaction."""

    rounds: Rounds

    def on_timer(self, tx: Tx, kind: str, plan_id: str) -> None:
        """Carry out one of the timers of a plan."""
        verbs = {RESUME: self.wake, PLAN_TIMEOUT: self.time_out}
        verbs.get(kind, self.rounds.advance)(tx, plan_id)

    def hold_back(self, board: PlanState, deferred: Mapping[str, Deferred]) -> None:
        """Pause a plan, some of whose subtasks could not go on."""
        needed = [deferred[key] for key in self.rounds.may_go_on(board) if key in deferred]
        spent = [each.spent for each in needed if each.spent is not None]
        resets = [each.until for each in needed if each.until is not None]
        away = [each.away for each in needed if each.away is not None]
        if spent:
            self.rounds.pause_for_budget(board, spent[0])
        elif resets:
            self.pause_for_quota(board, max(resets))
        elif away:
            self.pause_for_absence(board, away[0])

    def extend(self, tx: Tx, plan_id: str, limits: Limits, by: str) -> None:
        """Go on with a plan that is paused for its budget, with a person's new limits.

        If the search for another revision reached the limit, the search goes on.

        Raises:
            Conflict: it is not paused for its budget.
        """
        board = self._asked_about(tx, plan_id, BUDGET)
        own = board.plan.budget or {}
        board.set_plan(budget={**own, "limits": {**own.get("limits", {}), **limits}})
        self.rounds.end_pause(board, by, BUDGET)

    def wait_on(self, tx: Tx, plan_id: str, by: str) -> None:
        """Wait as long again for a model that does not answer, as a person decided.

        Raises:
            Conflict: the plan is not paused for its model.
        """
        self.rounds.end_pause(self._asked_about(tx, plan_id, MODEL), by, MODEL)

    def ask_other(self, tx: Tx, plan_id: str, model: str, by: str) -> None:
        """Use another model, as a person decided: at once, and from now on in the whole session.

        Raises:
            Conflict: the plan is not paused for its model, or the other one cannot be asked now.
        """
        board = self._asked_about(tx, plan_id, MODEL)
        if model not in self.rounds.questions.models_for(tx, board.plan):
            raise Conflict(
                "{model} is no longer available: the configuration has changed since the "
                "question was asked. Choose another model, approve to keep waiting, or reject "
                "to end the plan",
                model=model,
            )
        session_id = board.plan.session_id
        set_session(tx, session_id, model=model)
        said = say("plan_resumed_model", spoken_in(tx, session_id), model=model)
        self.rounds.end_pause(board, by, MODEL, said)

    def give_up(self, tx: Tx, plan_id: str, reason: str, about: str = BUDGET) -> None:
        """End a plan that is paused for a person's answer, and will not get what it waits for.

        Args:
            about: What it is paused for.

        Raises:
            Conflict: it is not paused for that.
        """
        board = PlanState.open(tx, plan_id)
        # It may also end during a rollback, just as it may be cancelled then.
        held = board.plan.rollback if board.plan.pause_reason == ROLLING_BACK else None
        if held is None or held["pause"] != about:
            board = self._asked_about(tx, plan_id, about)
        self.cut_short(board, reason)

    def _asked_about(self, tx: Tx, plan_id: str, about: str) -> PlanState:
        board = PlanState.open(tx, plan_id)
        if board.plan.pause_reason != about or board.plan.paused_until is not None:
            raise Conflict(
                "Plan {plan_id} does not wait for this answer ({about}): it is {plan_status}; "
                "look at it again",
                plan_id=plan_id, plan_status=board.plan.status, about=about,
            )  # fmt: skip
        return board

    def pause_for_quota(self, board: PlanState, until: datetime) -> None:
        """Start nothing new until a model has quota again; then go on.

        Subtasks that reach the same quota later share the pause. Another kind of pause stays.
        """
        plan, reset = board.plan, board.plan.paused_until
        later = reset is not None and (plan.pause_reason in AWAY or until > reset + _SAME)
        if not (later or board.may_rest()):
            return
        board.rest(**{**NO_PAUSE, "pause_reason": QUOTA, "paused_until": until})
        set_timer(board.tx, RESUME, plan.id, until)
        shown = until.strftime("%Y-%m-%d %H:%M:%S UTC")
        content = say("plan_paused_quota", spoken_in(board.tx, plan.session_id), until=shown)
        _tell.changed(board, "plan_paused", RUNTIME, QUOTA, until=until, content=content)

    def pause_for_absence(self, board: PlanState, error: ModelFailed | Unwritable) -> None:
        """Start nothing new until a model answers again, or a disk can be written again.

        Subtasks that fail meanwhile share the pause. Another kind of pause stays. When a model
        takes too long, a person is asked. Only a person can make room on a disk, so the wait for
        that has no end.
        """
        plan, waits = board.plan, self.rounds.is_due(board)
        if not (waits or board.may_rest()):
            return
        what = MODEL if isinstance(error, ModelFailed) else DISK
        waits = waits and plan.pause_reason == what
        absence = Absence.after(plan.away if waits else None, error, board.now)
        patience = self.rounds.rules.patience if what == MODEL else None
        until = absence.next_try(board.now, patience)
        board.rest(pause_reason=what, paused_until=until, away=absence.as_json())
        if not waits:
            self._tell_waiting(board, what, absence, patience)
        if until is not None:
            set_timer(board.tx, RESUME, plan.id, until)
        elif not self.rounds.questions.ask_about_model(board.tx, board.plan, absence):
            board.write()
            self.cut_short(board, because("the model did not answer: {error}", error=absence.error))

    def _tell_waiting(
        self, board: PlanState, what: str, absence: Absence, patience: float | None
    ) -> None:
        said = {"error": board.told(absence.error)}
        if patience is not None:
            said["until"] = absence.ends_at(patience).strftime("%Y-%m-%d %H:%M:%S UTC")
        locale = spoken_in(board.tx, board.plan.session_id)
        content = say(f"plan_paused_{what}", locale, **said)
        until = board.plan.paused_until
        _tell.changed(board, "plan_paused", RUNTIME, what, until=until, content=content)

    def end_absence(self, tx: Tx, plan_id: str) -> None:
        """Go on, as what the plan waited for is back: a model answered, or a disk took a file."""
        board = PlanState.open(tx, plan_id)
        if board.plan.pause_reason in AWAY and board.plan.paused_until is not None:
            self.rounds.end_pause(board, RUNTIME, board.plan.pause_reason)

    def wake(self, tx: Tx, plan_id: str) -> None:
        """Go on with a plan at the end time of its pause, or ask its model again.

        A person may have paused the plan meanwhile; then nothing happens.
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
        """End a plan whose time is over: running subtasks fail, waiting ones are skipped."""
        board = PlanState.open(tx, plan_id)
        limit, since = self.rounds.rules.plan_timeout, board.plan.started_at
        if limit is None or since is None or board.plan.status in ENDED:
            return
        due = since + timedelta(seconds=limit)
        if since <= tx.now < due:
            set_timer(tx, PLAN_TIMEOUT, plan_id, due)
            return
        said = _said(board, because("The plan's time limit of {limit:g} s is over", limit=limit))
        self.cut_short(board, said, Failure(message=said, category=Category.TIMEOUT))

    def stop_for_time(self, tx: Tx, plan_id: str, said: str) -> None:
        """End a plan whose session's time is over, as with its own time limit, if it has begun."""
        plan = lock_plan(tx, plan_id)
        if plan is None or plan.started_at is None or plan.status in ENDED:
            return
        failure = Failure(message=said, category=Category.TIMEOUT)
        self.cut_short(PlanState.open(tx, plan_id), said, failure)

    def cut_short(self, board: PlanState, reason: str, failure: Failure | None = None) -> None:
        """End a plan now: running subtasks fail, or are cancelled, and the rest is skipped.

        If another revision waits for approval, the plan ends in the revision approved last.

        Args:
            failure: The failure of running subtasks; None: they are cancelled.
        """
        board = board.at_approved()
        reason = _said(board, reason)
        ids = list(board.shape.graph.subtasks)
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
        _tell.progress(board, ends=True)
        # Subtasks that were cut off count as not done, whatever their conditions would have said.
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


_REPLANNED = frozenset(
    {PlanStatus.RUNNING, PlanStatus.PAUSED, PlanStatus.FAILED, PlanStatus.PARTIAL}
)


class PlanControls(Struct, frozen=True):
    """The verbs of people, each a part of its caller's transaction.

    All of them raise NotFound for what does not exist, and Conflict, naming the state, if the plan
    or the subtask does not allow it now.
    """

    rounds: Rounds
    pauses: Pauses

    def start(self, tx: Tx, plan_id: str, by: str) -> None:
        """Start a plan that was approved and held."""
        board = PlanState.open(tx, plan_id)
        status = board.plan.status
        if status is not PlanStatus.APPROVED:
            raise Conflict(
                "Plan {plan_id} is {plan_status}; only an approved plan can be started",
                plan_id=plan_id, plan_status=status,
            )  # fmt: skip
        _tell.changed(board, "plan_resumed", by, reason="started")
        self.rounds.begin(tx, board.plan)

    def pause(self, tx: Tx, plan_id: str, by: str) -> None:
        """Start nothing new; running subtasks come to their end."""
        board = PlanState.open(tx, plan_id)
        plan, status = board.plan, board.plan.status
        by_itself = plan.pause_reason in BY_ITSELF and plan.paused_until is not None
        if status is PlanStatus.PAUSED and by_itself:
            # From now on it is a person's pause, which no timer ends.
            self.rounds.drop_resume(board)
            board.set_plan(**NO_PAUSE)
        elif status is not PlanStatus.RUNNING:
            raise Conflict(
                "Plan {plan_id} is {plan_status} and cannot be paused; only a running plan can",
                plan_id=plan_id, plan_status=status,
            )  # fmt: skip
        else:
            board.move_plan(PlanStatus.PAUSED)
        _tell.changed(board, "plan_paused", by)
        self.rounds.carry_on(board)

    def resume_plan(self, tx: Tx, plan_id: str, by: str) -> None:
        """Go on with a paused plan."""
        board = PlanState.open(tx, plan_id)
        _check_asked(board)
        if board.plan.status is not PlanStatus.PAUSED:
            raise Conflict(
                "Plan {plan_id} is {plan_status} and cannot be resumed; only a paused plan can",
                plan_id=plan_id, plan_status=board.plan.status,
            )  # fmt: skip
        check_rolled_back(board.plan)
        self.rounds.end_pause(board, by)

    def replan(self, tx: Tx, plan_id: str, reason: str, by: str) -> None:
        """Have a running, paused or failed plan changed, however often it was changed before.

        Running subtasks come to their end first.
        """
        board = PlanState.open(tx, plan_id)
        if board.plan.status not in _REPLANNED:
            raise Conflict(
                "Plan {plan_id} is {plan_status} and cannot be replanned; only a running, "
                "paused or failed plan can",
                plan_id=plan_id, plan_status=board.plan.status,
            )  # fmt: skip
        check_rolled_back(board.plan)
        _check_asked(board)
        if board.plan.status is not PlanStatus.RUNNING:
            self.rounds.drop_resume(board)
            to: dict[str, Any] = {"finished_at": None, **NO_PAUSE}
            if board.plan.status is not PlanStatus.PAUSED:
                # When it ended, the progress that was told included failed subtasks.
                told = 1000 * board.count_over() // len(board.rows)
                to |= {"started_at": tx.now, "floor": max(board.plan.floor, told)}
                self.rounds.limit_time(tx, plan_id)
            board.move_plan(PlanStatus.RUNNING, **to)
        self.rounds.send_back(board, cause="person", reason=reason, by=by)
        self.rounds.carry_on(board)

    def go_without(self, tx: Tx, plan_id: str, reason: str) -> None:
        """Go on with the plan as it is, as far as possible, since no new revision was found."""
        board = PlanState.open(tx, plan_id)
        if board.plan.status is not PlanStatus.REPLANNING:
            return
        board.move_plan(PlanStatus.RUNNING)
        _tell.changed(board, "plan_resumed", RUNTIME, reason=reason)
        self.rounds.carry_on(board)

    def go_on_revised(self, tx: Tx, plan_id: str, reason: str) -> None:
        """Go on with a new revision that needs no approval."""
        board = PlanState.open(tx, plan_id)
        _tell.changed(board, "plan_resumed", RUNTIME, reason=reason)
        self.rounds.carry_on(board)

    def end_unfinished(self, tx: Tx, plan_id: str, reason: str) -> None:
        """End a plan with what it has reached; skip the rest."""
        self.pauses.cut_short(PlanState.open(tx, plan_id), reason)

    def cancel(self, tx: Tx, plan_id: str, by: str, reason: str | None = None) -> None:
        """End a plan and everything that it runs."""
        board = PlanState.open(tx, plan_id).at_approved()
        if board.plan.status in ENDED:
            raise Conflict(
                "Plan {plan_id} is {plan_status} and cannot be cancelled; it is over",
                plan_id=plan_id, plan_status=board.plan.status,
            )  # fmt: skip
        self.rounds.drop_timers(board)
        said = _said(
            board, because("the plan was cancelled by {name}", name=reviewer_name(by)), reason
        )
        board.move_plan(PlanStatus.CANCELLED, finished_at=tx.now, again=None, **NO_PAUSE)
        for subtask_id in board.shape.graph.subtasks:
            if board.rows[subtask_id].status not in SUBTASK.terminal:
                self.rounds.cancel(board, subtask_id, said)
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
        board = PlanState.open(tx, plan_id)
        said = _said(board, because("cancelled by {name}", name=reviewer_name(by)), reason)
        board.open_row(subtask_id)
        self.rounds.cancel(board, subtask_id, said)
        end_grant(tx, plan_id, subtask_id, said)
        self.rounds.carry_on(board)

    def skip_subtask(self, tx: Tx, plan_id: str, subtask_id: str, by: str) -> None:
        """Leave one subtask out; its dependants are skipped too."""
        board = PlanState.open(tx, plan_id)
        if board.open_row(subtask_id).status is SubtaskStatus.RUNNING:
            raise Conflict(
                "Subtask {subtask_id} is running; cancel it instead", subtask_id=subtask_id
            )
        reason = _said(board, because("skipped by {name}", name=reviewer_name(by)))
        self.rounds.ending.drop_work(tx, board.whole_row(subtask_id), reason)
        self.rounds.skip(board, subtask_id, reason)
        end_grant(tx, plan_id, subtask_id, reason)
        self.rounds.carry_on(board)

    def steer_subtask(
        self, tx: Tx, plan_id: str, subtask_id: str, content: str, by: Principal
    ) -> None:
        """Say something to the agent of a subtask that is under way; nothing else changes.

        Raises:
            NotFound: there is no such plan or subtask.
            Conflict: no agent is at work in it that could hear it.
            Refused: it cannot be said; the text says why.
        """
        board = PlanState.open(tx, plan_id)
        subtask = board.shape.graph.subtasks.get(subtask_id)
        if subtask is None:
            raise no_subtask(plan_id, subtask_id)
        row = board.rows[subtask_id]
        if deaf := _deaf(board.plan, subtask, row):
            raise Conflict(deaf)
        known = board.plan.steered or []
        if subtask_id not in known:
            board.set_plan(steered=[*known, subtask_id])
        steer(
            tx, board.plan.session_id, thread_name(board.key(subtask_id), row.attempt), content, by,
            plan_id=plan_id, subtask_id=subtask_id, agent=worker_name(subtask),
        )  # fmt: skip

    def fail_subtask(self, tx: Tx, plan_id: str, subtask_id: str, failure: Failure) -> None:
        """Fail a subtask that waits for a person to let it start."""
        board = PlanState.open(tx, plan_id)
        status = board.open_row(subtask_id).status
        if status is not SubtaskStatus.WAITING_APPROVAL:
            raise Conflict(
                "Subtask {subtask_id} is {subtask_status} and does not wait for an approval; "
                "look at the plan again",
                subtask_id=subtask_id, subtask_status=status,
            )  # fmt: skip
        self.rounds.ending.drop_work(tx, board.whole_row(subtask_id), failure.message)
        _tell.error(board, subtask_id, failure)
        self.rounds.write_failed(board, subtask_id, failure)
        self.rounds.carry_on(board)


def _said(board: PlanState, what: str, reason: str | None = None) -> str:
    """What was done, in the language of the session, with the person's reason."""
    done = board.told(what)
    return f"{done}: {reason}" if reason else done


def _deaf(plan: Plan, subtask: Subtask, row: SubtaskStanding) -> str | None:
    """Why nobody hears what is said to a subtask, and what to do; None: its agent hears it."""
    if row.status in SUBTASK.terminal or plan.status in ENDED:
        return because(
            "Subtask {subtask_id} is {subtask_status}, so no agent can read your message; retry "
            "the subtask, or replan the plan",
            subtask_id=subtask.id, subtask_status=row.status,
        )  # fmt: skip
    if row.attempt == 0:
        return because(
            "Subtask {subtask_id} has not started; send your message when it is running",
            subtask_id=subtask.id,
        )
    if own_tool(subtask) is not None or subtask.type not in BUILT_IN:
        return because(
            "{worker} carries out subtask {subtask_id} and reads no messages; to change the "
            "subtask, replan the plan",
            subtask_id=subtask.id, worker=worker_name(subtask),
        )  # fmt: skip
    return None


def _check_asked(board: PlanState) -> None:
    plan = board.plan
    if waits_for_answer(plan):
        raise Conflict(
            "Plan {plan_id} waits for an answer about its {pause_reason}; answer that question "
            "first",
            plan_id=plan.id, pause_reason=plan.pause_reason,
        )  # fmt: skip


# Retry: a person has a failed subtask run again, after its plan has ended or while it goes on.

_ENDED = frozenset({PlanStatus.FAILED, PlanStatus.PARTIAL})


class Retry(Struct, frozen=True):
    """Makes the next revision of a plan: the same subtasks, some of which run again."""

    rounds: Rounds

    def subtask(self, tx: Tx, plan_id: str, subtask_id: str, by: str) -> None:
        """Run one subtask again, and those that were skipped because of it.

        Rows never leave a terminal state, so the plan gets a new revision; what completed is
        kept, unless its files were rolled back. The person who asks for the retry approves it by
        that. In a plan that goes on, subtasks under way come to rest first, undisturbed.

        Raises:
            NotFound: there is no such plan or subtask.
            Conflict: the plan neither goes on nor has failed, or the subtask did not fail.
        """
        plan = lock_plan(tx, plan_id)
        if plan is None:
            raise NotFound(
                "No plan found with id={plan_id}", see="gonogo plans list", plan_id=plan_id
            )
        if plan.status not in GOING | _ENDED:
            raise Conflict(
                "Plan {plan_id} is {plan_status}; its subtasks can be retried only while it "
                "runs, or after it has failed",
                plan_id=plan_id, plan_status=plan.status,
            )  # fmt: skip
        check_rolled_back(plan)
        current, rows = stand(tx, plan)
        again = tried_again(current, rows, subtask_id) | undone(tx, plan, rows.values())
        if plan.status in GOING:
            self._keep(tx, plan, subtask_id, by)
            return
        session = session_of(tx, plan.session_id)
        if session is None or session.active_plan_id is not None:
            raise Conflict("The session has another plan; finish or cancel that one first")
        revised = revised_by(tx, plan, rows, again, by)
        set_session(tx, session.id, active_plan_id=plan.id, agent=ARCHITECT)
        self.rounds.begin(tx, revised)

    def _keep(self, tx: Tx, plan: Plan, subtask_id: str, by: str) -> None:
        asked = plan.again or []
        if any(each["subtask_id"] == subtask_id for each in asked):
            raise Conflict(
                "Subtask {subtask_id} will already be retried; wait for it", subtask_id=subtask_id
            )
        set_plan(tx, plan, again=[*asked, {"subtask_id": subtask_id, "by": by}])
        log.note(
            tx, plan.session_id, actor=by, action="plan.retry_asked", subject=plan.id,
            subtask_id=subtask_id, revision=plan.revision,
        )  # fmt: skip
        self.rounds.advance(tx, plan.id)
