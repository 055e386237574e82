"""Rounds: what a plan does next, and the outcomes of subtasks, in the caller's transaction.

Everything that changes a plan calls `carry_on` at the end, which writes the next round in the same
transaction. So the plan's rows always agree.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from gonogo.domain.base import digest, elapsed
from gonogo.domain.errors import because
from gonogo.domain.failures import REPLANNED, Absence, Diagnosis, Failure, classify, retry_delay
from gonogo.domain.plan import Revision, Subtask
from gonogo.domain.records import Plan
from gonogo.domain.replanning import (
    OF_STARTS,
    Excess,
    Limits,
    ReplanRules,
    ReplanVerdict,
    excess,
    in_force,
    replan_verdict,
)
from gonogo.domain.schedule import STRATEGIES, Round, Strategy, SubtaskStanding
from gonogo.domain.states import ApprovalKind, PlanStatus, SubtaskStatus
from gonogo.domain.tool_calls import RUNTIME
from gonogo.execution.agent import name_of_limit
from gonogo.execution.approvals import ApprovalService, Matter, Question
from gonogo.execution.plans.checkpoints import checkpoint_starts
from gonogo.execution.plans.ending import PlanEnding, revise_again
from gonogo.execution.scheduling import outcomes as _tell
from gonogo.execution.scheduling.conditions import ConditionFailed, holds
from gonogo.execution.scheduling.outcomes import Completed, Deferred, Failed, Start, Work
from gonogo.execution.scheduling.plan_state import (
    ADVANCE,
    AWAY,
    BUDGET,
    GOING,
    MODEL,
    NO_PAUSE,
    PLAN_TIMEOUT,
    REPLAN,
    RESUME,
    Pace,
    PlanState,
    chosen,
    goes_on,
)
from gonogo.i18n import DEFAULT, say, told
from gonogo.llm import ModelRole
from gonogo.store import Tx, go_on, stop
from gonogo.store.calls import is_let_start
from gonogo.store.jobs import drop_timer, set_timer
from gonogo.store.plans import count_elsewhere, plans_that_wait
from gonogo.store.reports import runs_of_plan
from gonogo.store.sessions import session_of, spoken_in

# The questions that plans ask people while they are carried out.


class PlanQuestions(Struct, frozen=True, kw_only=True):
    """Asks people the questions of plans, each in the transaction in which it arises."""

    desk: ApprovalService
    attended: bool = True
    """Somebody can be asked, unless a session says otherwise."""
    other_models: Callable[[str | None, ModelRole], Sequence[str]] = lambda _name, _role: ()
    """Which models can replace the one of a session, or those of a role."""

    def room(self, tx: Tx, plan: Plan) -> int:
        """How many more questions a plan's session takes now."""
        return self.desk.room(tx, plan.session_id)

    def ask_to_start(self, tx: Tx, plan: Plan, revision: Revision, subtask: Subtask) -> None:
        """Ask a person whether a subtask may start."""
        locale = spoken_in(tx, plan.session_id) or DEFAULT
        self.desk.open(
            tx,
            Question(
                session_id=plan.session_id, kind=ApprovalKind.SUBTASK, subject=subtask.description,
                details={"subtask": subtask.model_dump(mode="json", exclude_none=True)},
                reason=say("subtask_question", locale, description=subtask.description),
                digest=revision.digest, plan_id=plan.id, revision=revision.number,
                subtask_id=subtask.id, agent=subtask.agent, matter=Matter(subtasks=(subtask,)),
            ),
        )  # fmt: skip

    def ask_about_budget(self, tx: Tx, plan: Plan, spent: Excess) -> None:
        """Ask a person what to do with a plan that reached a limit."""
        locale = spoken_in(tx, plan.session_id) or DEFAULT
        what = say(f"budget_{spent.what}", locale)
        shown = {"used": f"{spent.used:g}", "limit": f"{spent.limit:g}", "what": what}
        details = {
            "about": BUDGET, "what": spent.what, "used": round(spent.used, 6), "limit": spent.limit,
        }  # fmt: skip
        reason = say("budget_question", locale, setting=name_of_limit(spent, locale), **shown)
        self._intervene(tx, plan, details, say("budget_subject", locale, **shown), reason)

    def ask_about_model(self, tx: Tx, plan: Plan, absence: Absence) -> bool:
        """Ask a person what to do with a plan whose model has not answered for too long.

        False if nobody can be asked.
        """
        session = session_of(tx, plan.session_id)
        if session is None or session.unattended or not self.attended:
            return False
        locale = session.spoken
        minutes = f"{elapsed(absence.since, tx.now) / 60:.0f}"
        details: dict[str, Any] = {
            "about": MODEL, "since": absence.since.isoformat(), "tries": absence.tries,
            "error": absence.error,
        }  # fmt: skip
        error = told(absence.error, locale)
        subject = say("model_away_subject", locale, error=error)
        reason = say("model_away_question", locale, minutes=minutes, error=error)
        if others := self.models_for(tx, plan):
            details["models"] = others
            reason += " " + say("model_away_others", locale, models=", ".join(others))
        self._intervene(tx, plan, details, subject, reason)
        return True

    def models_for(self, tx: Tx, plan: Plan) -> list[str]:
        """The models that can replace the one that a plan waits for."""
        session = session_of(tx, plan.session_id)
        role: ModelRole = "plan" if plan.status is PlanStatus.REPLANNING else "work"
        return [] if session is None else list(self.other_models(session.model, role))

    def _intervene(
        self, tx: Tx, plan: Plan, details: dict[str, Any], subject: str, reason: str
    ) -> None:
        self.desk.open(
            tx,
            Question(
                session_id=plan.session_id, kind=ApprovalKind.INTERVENTION, subject=subject,
                details=details, reason=reason, digest=digest({"plan_id": plan.id, **details}),
                plan_id=plan.id, revision=plan.revision,
            ),
        )  # fmt: skip


_S = SubtaskStatus
_SOON = timedelta(seconds=5)


class PlanRules(Struct, frozen=True, kw_only=True):
    """What an operator sets for all plans."""

    budget: Limits = field(default_factory=dict[str, float])
    patience: float = 0.0
    """Seconds to wait for a model that does not answer; 0: do not wait."""
    plan_timeout: float | None = None
    """Seconds from a plan's start after which it ends, whatever is left."""
    replanning: ReplanRules | None = None
    """Which failures change the plan; None: no failure does."""
    strategies: Mapping[str, Strategy] = field(default_factory=lambda: STRATEGIES)
    strategy: str = "critical_path"
    """The name of the strategy that says which of the ready subtasks start first."""
    max_per_agent: int | None = None
    """Subtasks of one plan that one agent carries out at once."""
    max_per_workspace: int | None = None
    """Subtasks of all plans that run at once in one workspace."""


@dataclasses.dataclass(slots=True)
class Rounds:
    """Decides and writes what a plan does next."""

    rules: PlanRules
    questions: PlanQuestions
    ending: PlanEnding
    pace: Pace = dataclasses.field(init=False)
    """Which of the ready subtasks go first, and how many run at once."""

    def __post_init__(self) -> None:
        """Look up the strategy.

        Raises:
            InvalidMessage: there is no strategy of that name; the text lists the known ones.
        """
        rules = self.rules
        self.pace = Pace(
            strategy=chosen(rules.strategy, rules.strategies), per_agent=rules.max_per_agent,
            per_workspace=rules.max_per_workspace,
        )  # fmt: skip

    def begin(self, tx: Tx, plan: Plan) -> None:
        """Start an approved plan.

        Raises:
            Conflict: the plan has changed since the caller read it.
        """
        board = PlanState.open(tx, plan.id)
        # A plan that goes on with another revision has begun already.
        replanned = board.plan.status is PlanStatus.APPROVED and board.plan.started_at is not None
        started = board.plan.started_at if replanned else tx.now
        board.move_plan(PlanStatus.RUNNING, started_at=started)
        if not replanned:
            self.limit_time(tx, plan.id)
        self.advance(tx, plan.id)

    def limit_time(self, tx: Tx, plan_id: str) -> None:
        """Set the timer that ends a plan when its time is over."""
        if self.rules.plan_timeout is not None:
            set_timer(
                tx, PLAN_TIMEOUT, plan_id, tx.now + timedelta(seconds=self.rules.plan_timeout)
            )

    def advance(self, tx: Tx, plan_id: str) -> None:
        """Write the next round of a plan, if it runs."""
        self.carry_on(PlanState.open(tx, plan_id))

    def carry_on(self, board: PlanState) -> None:
        """Write what follows from a change: the next round, or what else the plan does."""
        room = self.room(board)
        if self._is_revised(board):
            return
        if board.plan.status is PlanStatus.RUNNING:
            self._go_further(board, room)
            return
        board.write()
        _tell.progress(board)
        if board.plan.status is PlanStatus.REPLANNING:
            self._finish_settled(board, room)
        self._rest(board, room)

    def _finish_settled(self, board: PlanState, room: int | None) -> None:
        """In a plan that is sent back, let unsettled subtasks come to their end first."""
        left = board.unsettled()
        if not left or board.plan.pause_reason is not None:
            return
        spent = self.start_all(board, board.next_round(self.pace, room, only=left).start)
        if spent is not None:
            self.pause_for_budget(board, spent)

    def _go_further(self, board: PlanState, room: int | None) -> None:
        found, asking = self._next_round(board, room)
        _tell.progress(board, ends=found.outcome is not None)
        for subtask_id in asking:
            subtask = board.shape.graph.subtasks[subtask_id]
            self.questions.ask_to_start(board.tx, board.plan, board.shape.revision, subtask)
        if board.plan.status is not PlanStatus.RUNNING:
            board.write()
            self._rest(board, room)
            return
        spent = self.start_all(board, found.start)
        if found.wake_at is not None:
            set_timer(board.tx, ADVANCE, board.plan.id, found.wake_at)
        if found.outcome is not None:
            self.end(board, found.outcome)
        elif found.waiting:
            _tell.final(board)
        elif spent is not None:
            self.pause_for_budget(board, spent)
            self._rest(board, room)

    def is_at_rest(self, tx: Tx, plan_id: str) -> bool:
        """Whether nothing of a plan runs, and no subtask has to be settled first."""
        board = PlanState.open(tx, plan_id)
        return not (board.count_running() or board.unsettled())

    def _is_revised(self, board: PlanState) -> bool:
        """Whether the plan went on in another revision, to try again what people asked for."""
        plan = board.plan
        if not plan.again or plan.status not in GOING or not board.is_quiet():
            return False
        board.write()
        _tell.progress(board)
        revise_again(board.tx, plan, plan.again)
        self.advance(board.tx, plan.id)
        return True

    def room(self, board: PlanState) -> int | None:
        """How many of the plan's subtasks may run in its workspace; None: there is no limit.

        If a full workspace got room and other plans wait for it, they come first: this plan gets
        another round after theirs, so that one plan never keeps a workspace to itself.
        """
        limit = self.pace.per_workspace
        if limit is None:
            return None
        plan = board.plan
        elsewhere = count_elsewhere(board.tx, plan.session_id, plan.id)
        room = limit - elsewhere
        if board.freed and board.count_running() + board.freed >= room:
            waiters = plans_that_wait(board.tx, plan.session_id, plan.id)
            for plan_id in [*waiters, plan.id] if waiters else []:
                go_on(board.tx, "plan", plan_id)
            return board.count_running() if waiters else room
        return room

    def _rest(self, board: PlanState, room: int | None) -> None:
        """Handle a plan that starts nothing now: once nothing runs, tell it or begin the search.

        Args:
            room: How many of its subtasks may run in its workspace.
        """
        if self.is_due(board):
            self._find_out(board, room)
        if board.count_running():
            return
        if board.plan.status is PlanStatus.PAUSED and board.plan.paused_until is None:
            _tell.final(board)
        elif board.plan.status is PlanStatus.REPLANNING:
            self._search(board)

    def _search(self, board: PlanState) -> None:
        """Start the search for the next revision, unless something has to be settled first."""
        left, plan = board.unsettled(), board.plan
        asked = any(board.rows[key].status is _S.WAITING_APPROVAL for key in left)
        rests = asked or plan.pause_reason is not None
        # A subtask that a person settled starts when there is room in its workspace.
        if plan.paused_until is not None or (left and not rests):
            return
        if rests:
            _tell.final(board)
        else:
            go_on(board.tx, REPLAN, board.plan.id)

    def _next_round(self, board: PlanState, room: int | None) -> tuple[Round, list[str]]:
        """The next round, after skipping all that will not run; and the subtasks to ask about."""
        asking: list[str] = []
        while True:
            found = board.next_round(self.pace, room)
            for subtask_id, blocker in found.skip.items():
                locale = spoken_in(board.tx, board.plan.session_id)
                self.skip(board, subtask_id, say("subtask_skipped", locale, dependency=blocker))
            left = [key for key in found.start if not self._declined(board, key)]
            waiting = [key for key in left if self._asks_first(board, key)]
            working = board.count_running() + len(left) - len(waiting)
            asking += self._hold(board, waiting, len(asking) + working)
            settled = not waiting and len(left) == len(found.start)
            if settled or board.plan.status is not PlanStatus.RUNNING:
                return found, asking

    def _declined(self, board: PlanState, subtask_id: str) -> bool:
        """Whether a subtask's condition keeps it from running; then it is over."""
        condition = board.shape.graph.subtasks[subtask_id].condition
        if condition is None or board.rows[subtask_id].attempt:
            return False
        try:
            if holds(condition, board.results()):
                return False
        except ConditionFailed as error:
            self._fail_unstarted(board, subtask_id, _told(board, classify(error)))
            return True
        reason = because("its condition is false: {condition}", condition=condition)
        self.skip(board, subtask_id, reason, declined=True)
        return True

    def _asks_first(self, board: PlanState, subtask_id: str) -> bool:
        """Whether a person has to let a subtask start."""
        subtask, plan = board.shape.graph.subtasks[subtask_id], board.plan
        if not subtask.approval_required or board.rows[subtask_id].attempt:
            return False
        return not is_let_start(board.tx, plan.id, plan.revision, subtask_id)

    def _hold(self, board: PlanState, waiting: Sequence[str], taken: int) -> Sequence[str]:
        """Mark the subtasks that wait for a person, as far as there is room for their questions.

        gonogo asks about the rest later. Returns those to ask about now.

        Args:
            taken: Room that others of this plan need: each running subtask may have to ask, too.
        """
        if not waiting:
            return ()
        fits = waiting[: max(0, self.questions.room(board.tx, board.plan) - taken)]
        for subtask_id in fits:
            board.move(subtask_id, _S.WAITING_APPROVAL)
        board.later.update(waiting[len(fits) :])
        return fits

    def _fail_unstarted(self, board: PlanState, subtask_id: str, failure: Failure) -> None:
        _tell.error(board, subtask_id, failure)
        board.move(subtask_id, _S.RUNNING, attempt=1, started_at=board.now)
        board.write()
        self.write_failed(board, subtask_id, failure, attempt=1)
        self._replan_if(board, subtask_id, failure)

    def _tell_starting(self, board: PlanState, ids: Sequence[str]) -> None:
        fresh = [key for key in ids if not goes_on(board.rows[key])]
        if not fresh:
            return
        starts = [Start(key, board.shape.agent(key), board.rows[key].attempt + 1) for key in fresh]
        checkpoint_starts(board.tx, board.plan, board.stand.written(), starts)

    def start_all(self, board: PlanState, ready: Sequence[str]) -> Excess | None:
        """Start what the budget allows; return the limit that stops the rest, if one does."""
        start, spent = self.affordable(board, ready)
        self._tell_starting(board, start)
        for subtask_id in start:
            self._start(board, subtask_id)
        board.write()
        return spent

    def _start(self, board: PlanState, subtask_id: str) -> None:
        row = board.rows[subtask_id]
        resumed = goes_on(row)
        attempt = row.attempt if resumed else row.attempt + 1
        first: dict[str, Any] = {} if row.attempt else {"started_at": board.now}
        # The time that it worked before it waited counts: it is as if it had begun earlier.
        worked = row.worked_ms if resumed else 0
        since = board.now - timedelta(milliseconds=worked)
        board.move(
            subtask_id, _S.RUNNING, epoch=row.epoch + 1, attempt=attempt, not_before=None,
            active_since=since, **first,
        )  # fmt: skip
        if not resumed:
            _tell.started(board, subtask_id, attempt)
        key, shape = board.key(subtask_id), board.shape
        go_on(board.tx, "subtask", key, row.epoch + 1, since=since, found=shape)

    def skip(self, board: PlanState, subtask_id: str, reason: str, **to: Any) -> None:  # noqa: ANN401
        """Leave a subtask out."""
        reason = board.told(reason)
        board.move(subtask_id, _S.SKIPPED, finished_at=board.now, reason=reason, **to)
        _tell.ended(board, subtask_id, _S.SKIPPED, reason=reason)

    def end(self, board: PlanState, status: PlanStatus) -> None:
        """End the plan."""
        self.drop_timers(board)
        board.move_plan(status, finished_at=board.now, again=None, **NO_PAUSE)
        self.ending.end(board.tx, board.plan, status)

    def drop_timers(self, board: PlanState) -> None:
        """Drop all timers of a plan."""
        drop_timer(board.tx, ADVANCE, board.plan.id)
        if self.rules.plan_timeout is not None:
            drop_timer(board.tx, PLAN_TIMEOUT, board.plan.id)
        self.drop_resume(board)

    # Budgets ----------------------------------------------------------------------------------

    def affordable(
        self, board: PlanState, start: Sequence[str]
    ) -> tuple[tuple[str, ...], Excess | None]:
        """The subtasks that may start, and the limit that stops the others."""
        limits = in_force(self.rules.budget, board.plan.budget)
        if not start or OF_STARTS.isdisjoint(limits):
            return tuple(start), None
        used = {"seconds": _seconds(board), "subtasks": runs_of_plan(board.tx, board.plan)}
        if found := excess(limits, used, {"seconds": 0}):
            return (), found
        kept: list[str] = []
        for subtask_id in start:
            fresh = 0 if goes_on(board.rows[subtask_id]) else 1
            if found := excess(limits, used, {"subtasks": fresh}):
                break
            used["subtasks"] += fresh
            kept.append(subtask_id)
        board.set_plan(budget={**(board.plan.budget or {}), "runs": int(used["subtasks"])})
        return tuple(kept), found

    def pause_for_budget(self, board: PlanState, spent: Excess) -> None:
        """Start nothing new until a person answers; one question for all refused subtasks."""
        if board.plan.paused_until is not None:
            drop_timer(board.tx, RESUME, board.plan.id)
        elif not board.may_rest():
            return
        board.rest(pause_reason=BUDGET, paused_until=None)
        self._ask_for_more(board, spent)

    def pause_search(self, tx: Tx, plan_id: str, spent: Excess) -> None:
        """Have a search for another revision that reached a limit wait for a person's answer."""
        board = PlanState.open(tx, plan_id)
        if board.plan.status is not PlanStatus.REPLANNING or board.plan.pause_reason == BUDGET:
            return
        self.pause_for_budget(board, spent)
        _tell.final(board)

    def _ask_for_more(self, board: PlanState, spent: Excess) -> None:
        plan = board.plan
        content = say("plan_paused_budget", spoken_in(board.tx, plan.session_id))
        _tell.changed(board, "plan_paused", RUNTIME, BUDGET, content=content)
        self.questions.ask_about_budget(board.tx, board.plan, spent)

    # Pauses -----------------------------------------------------------------------------------

    def end_pause(
        self, board: PlanState, by: str, reason: str | None = None, content: str | None = None
    ) -> None:
        """Go on with a paused plan, or with a paused search and what has to end before it."""
        self.drop_resume(board)
        if board.plan.status is PlanStatus.REPLANNING:
            board.set_plan(**NO_PAUSE)
        else:
            board.move_plan(PlanStatus.RUNNING, **NO_PAUSE)
        _tell.changed(board, "plan_resumed", by, reason, content=content)
        self.carry_on(board)

    def may_go_on(self, board: PlanState) -> list[str]:
        """The subtasks that may go on; in a plan that is sent back, only the unsettled ones."""
        ids = list(board.shape.graph.subtasks)
        if board.plan.status is not PlanStatus.REPLANNING:
            return ids
        left = board.unsettled()
        return [key for key in ids if key in left]

    def is_due(self, board: PlanState) -> bool:
        """Whether a plan waits for its model or its disk, and the time has come to try again."""
        until = board.plan.paused_until
        return board.plan.pause_reason in AWAY and until is not None and until <= board.now

    def _find_out(self, board: PlanState, room: int | None) -> None:
        """Let one waiting subtask go on as a test; if none waits, end the pause."""
        absence = Absence.of(board.plan.away or {})
        probe = board.rows.get(absence.probe or "")
        if probe is not None and probe.status is _S.RUNNING:
            return
        waiting = [key for key in self.may_go_on(board) if _is_put_off(board.rows[key])]
        if not waiting:
            self.end_pause(board, RUNTIME, board.plan.pause_reason)
        elif room is not None and board.count_running() >= room:
            self._look_again(board)
        else:
            board.set_plan(away=absence.found_out_by(waiting[0]).as_json())
            spent = self.start_all(board, waiting[:1])
            if spent is not None:
                self.pause_for_budget(board, spent)

    def _look_again(self, board: PlanState) -> None:
        until = board.now + _SOON
        board.set_plan(paused_until=until)
        set_timer(board.tx, RESUME, board.plan.id, until)

    def drop_resume(self, board: PlanState) -> None:
        """Drop the timer that ends the plan's pause."""
        if board.plan.paused_until is not None:
            drop_timer(board.tx, RESUME, board.plan.id)

    # Outcomes ---------------------------------------------------------------------------------

    def settle(self, board: PlanState, work: Work, outcome: Completed | Failed | Deferred) -> None:
        """Write the outcome of a subtask."""
        if isinstance(outcome, Deferred):
            board.move(work.subtask.id, _S.PENDING, worked_ms=work.watch.worked_ms())
            return
        if outcome.also is not None:
            outcome.also(board.tx)
        if isinstance(outcome, Failed):
            self._fail(board, work, outcome.failure)
            return
        subtask_id, result = work.subtask.id, outcome.result
        attempt = board.rows[subtask_id].attempt
        board.move(subtask_id, _S.COMPLETED, result=result, finished_at=board.now)
        _tell.ended(
            board, subtask_id, _S.COMPLETED, attempt=attempt, since=work.since, result=result
        )

    def _fail(self, board: PlanState, work: Work, failure: Failure) -> None:
        failure = _told(board, failure)
        subtask_id, now = work.subtask.id, board.now
        attempt = board.rows[subtask_id].attempt
        _tell.error(board, subtask_id, failure)
        over = board.told(because("the attempt failed"))
        self.ending.drop_work(board.tx, board.whole_row(subtask_id), over)
        delay = retry_delay(work.subtask.retry_policy, failure, attempt)
        if delay is None:
            self.write_failed(board, subtask_id, failure, attempt=attempt, since=work.since)
            self._replan_if(board, subtask_id, failure)
            return
        due = now + timedelta(seconds=delay)
        board.move(subtask_id, _S.PENDING, not_before=due, error=failure.facts)
        _tell.ended(board, subtask_id, None, attempt=attempt, since=work.since, failure=failure)

    def write_failed(
        self,
        board: PlanState,
        subtask_id: str,
        failure: Failure,
        *,
        attempt: int | None = None,
        since: datetime | None = None,
    ) -> None:
        """Write that a subtask has failed and is not tried again."""
        board.move(subtask_id, _S.FAILED, error=failure.facts, finished_at=board.now)
        _tell.ended(board, subtask_id, _S.FAILED, attempt=attempt, since=since, failure=failure)

    def _replan_if(self, board: PlanState, subtask_id: str, failure: Failure) -> None:
        """Send the plan back if the rules say that this failure changes it."""
        plan, rules = board.plan, self.rules.replanning
        if rules is None or plan.status is not PlanStatus.RUNNING or _is_no_reason(failure):
            return
        last = datetime.fromisoformat(plan.replan["at"]) if plan.replan else None
        verdict = replan_verdict(rules, failure, plan.replans, last, board.now)
        if verdict is ReplanVerdict.NO:
            return
        self.send_back(
            board, subtask_id=subtask_id, failure=failure.model_dump(mode="json"),
            cause=failure.category, reason=failure.message, asks=verdict is ReplanVerdict.ASK,
        )  # fmt: skip

    def send_back(
        self,
        board: PlanState,
        *,
        cause: str,
        reason: str,
        asks: bool = False,
        by: str | None = None,
        subtask_id: str | None = None,
        failure: dict[str, Any] | None = None,
    ) -> None:
        """Have the next revision searched for once nothing runs."""
        about = {
            "at": board.now.isoformat(), "cause": cause, "reason": reason, "asks": asks, "by": by,
            "subtask_id": subtask_id, "failure": failure,
        }  # fmt: skip
        number = board.plan.replans + 1
        board.move_plan(PlanStatus.REPLANNING, replan=about, replans=number)
        _tell.sent_back(board, about)

    def cancel(self, board: PlanState, subtask_id: str, reason: str) -> None:
        """End a subtask, and what it runs."""
        row, reason = board.whole_row(subtask_id), board.told(reason)
        self.ending.drop_work(board.tx, row, reason)
        board.move(subtask_id, _S.CANCELLED, finished_at=board.now, reason=reason)
        stop(board.tx, "subtask", row.key)
        since = row.active_since if row.status is _S.RUNNING else None
        _tell.ended(
            board, subtask_id, _S.CANCELLED,
            attempt=row.attempt or None, since=since, reason=reason,
        )  # fmt: skip


def _told(board: PlanState, failure: Failure) -> Failure:
    """A failure in the language of its session."""
    return failure.model_copy(update={"message": board.told(failure.message)})


def _is_no_reason(failure: Failure) -> bool:
    """Whether the rule for a serious failure says that another plan would not help."""
    if not isinstance(failure, Diagnosis) or failure.severity not in REPLANNED:
        return False
    return not failure.requires_replanning


def _is_put_off(row: SubtaskStanding) -> bool:
    """Whether a subtask was begun and waits to go on, but not for a person."""
    return row.status is _S.PENDING and goes_on(row)


def _seconds(board: PlanState) -> float:
    since = board.plan.started_at
    return elapsed(since, board.now) if since else 0.0
