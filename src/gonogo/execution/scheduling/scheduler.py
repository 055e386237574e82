"""Rounds: what a plan does next, and what came of a subtask, written in the caller's transaction.

Whatever changes a plan ends by `_go_on`, which asks the scheduler for the next round and writes it
in the same transaction; so the plan's rows always agree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from gonogo.domain.failures import REPLANNED, Diagnosis, Failure, classify, retry_delay
from gonogo.domain.plan import MAX_SUBTASKS, Revision, Subtask
from gonogo.domain.records import Plan, SubtaskRow
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
from gonogo.domain.schedule import Round, elapsed
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.domain.undo import write_standings
from gonogo.execution.scheduling import events as _tell
from gonogo.execution.scheduling.conditions import ConditionFailed, holds
from gonogo.execution.scheduling.outcomes import Completed, Deferred, Failed, Start, Work
from gonogo.execution.scheduling.plan_state import Pace, PlanState, goes_on
from gonogo.i18n import say
from gonogo.store import Tx, go_on, stop
from gonogo.store.calls import is_let_start
from gonogo.store.jobs import drop_timer, set_timer
from gonogo.store.plans import count_elsewhere, plans_that_wait
from gonogo.store.reports import runs_of_plan
from gonogo.store.sessions import spoken_in

# Budgets of plans: what is checked before a subtask starts, and the question when one is spent.

RESUME = "plan_resume"
"""The timer that ends a pause for a quota."""
BUDGET = "budget"
RUNTIME = "gonogo"
"""Who did what nobody asked for."""


def _nobody(tx: Tx, plan: Plan, spent: Excess) -> None: ...


@dataclass(slots=True, kw_only=True)
class Spending:
    """Keeps plans within their budgets, each step a part of its caller's transaction."""

    budget: Limits = field(default_factory=dict[str, float])
    over_budget: Callable[[Tx, Plan, Excess], None] = _nobody
    """Called in the transaction that pauses a plan for a limit that it reached: ask a person."""

    def affordable(
        self, board: PlanState, start: Sequence[str]
    ) -> tuple[tuple[str, ...], Excess | None]:
        """Those of the subtasks that may start, and the limit that keeps the others."""
        limits = in_force(self.budget, board.plan.budget)
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
        """Start nothing new until a person answers; one question, however many are refused."""
        if board.plan.paused_until is not None:
            drop_timer(board.tx, RESUME, board.plan.id)
        elif not board.may_rest():
            return
        board.rest(pause_reason=BUDGET, paused_until=None)
        self._ask_for_more(board, spent)

    def pause_search(self, tx: Tx, plan_id: str, spent: Excess) -> None:
        """The search for another revision reached a limit: it waits until a person answers."""
        board = PlanState.open(tx, plan_id)
        if board.plan.status is not PlanStatus.REPLANNING or board.plan.pause_reason == BUDGET:
            return
        self.pause_for_budget(board, spent)
        _tell.final(board)

    def _ask_for_more(self, board: PlanState, spent: Excess) -> None:
        plan = board.plan
        content = say("plan_paused_budget", spoken_in(board.tx, plan.session_id))
        _tell.changed(board, "plan_paused", RUNTIME, BUDGET, content=content)
        self.over_budget(board.tx, board.plan, spent)


def _seconds(board: PlanState) -> float:
    since = board.plan.started_at
    return elapsed(since, board.now) if since else 0.0


_S = SubtaskStatus
ADVANCE = "plan_advance"
"""The timer that asks for a round although nothing has changed: a retry is due."""
PLAN_TIMEOUT = "plan_timeout"
"""The timer after which a plan ends, whatever is left."""
REPLAN = "replan"
"""The job that looks for the next revision of a plan of which nothing runs any more."""
NO_PAUSE: dict[str, Any] = {"pause_reason": None, "paused_until": None, "away": None}
"""What a plan says of a pause that is over."""
GOING = frozenset({PlanStatus.RUNNING, PlanStatus.PAUSED})
"""A plan in which something can be tried again although it has not ended."""
Ended = Callable[[Tx, Plan, PlanStatus], None]
Ask = Callable[[Tx, Plan, Revision, Subtask], None]
Dropped = Callable[[Tx, SubtaskRow, str], None]
Starting = Callable[[Tx, Plan, str, Sequence[Start]], None]
TryAgain = Callable[[Tx, Plan], None]


def _nothing(tx: Tx, plan: Plan) -> None: ...


@dataclass(slots=True, kw_only=True)
class Rounds(Spending):
    """What the scheduler decides, carried out."""

    ended: Ended
    """Called in the transaction that ends a plan, after its events."""
    dropped: Dropped
    """Called in the transaction that takes a subtask's work away: end its calls and questions."""
    ask: Ask
    """Called when a subtask is ready that a person must let start."""
    room_to_ask: Callable[[Tx, Plan], int] = lambda tx, plan: MAX_SUBTASKS
    """How many more of these questions a plan's session takes now."""
    starting: Starting | None = None
    """Called once a round before attempts begin, with where all subtasks stand. Those that go on
    after a question are not among them."""
    try_again: TryAgain = _nothing
    """Called when people asked to have something tried again, and nothing of the plan is under
    way: make the next revision, and go on with it."""
    plan_timeout: float | None = None
    """Seconds from a plan's start after which it ends, whatever is left."""
    replanning: ReplanRules | None = None
    """Which failures change the plan; without rules none does."""
    pace: Pace = field(init=False)
    """Which of the ready subtasks go first, and how many run at once."""

    def begin(self, tx: Tx, plan: Plan) -> None:
        """Start an approved plan.

        Raises:
            Conflict: the plan is not as the caller saw it.
        """
        board = PlanState.open(tx, plan.id)
        # A plan that goes on with another revision began long ago.
        replanned = board.plan.status is PlanStatus.APPROVED and board.plan.started_at is not None
        started = board.plan.started_at if replanned else tx.now
        board.move_plan(PlanStatus.RUNNING, started_at=started)
        if not replanned:
            self._limit_time(tx, plan.id)
        self.advance(tx, plan.id)

    def _limit_time(self, tx: Tx, plan_id: str) -> None:
        if self.plan_timeout is not None:
            set_timer(tx, PLAN_TIMEOUT, plan_id, tx.now + timedelta(seconds=self.plan_timeout))

    def advance(self, tx: Tx, plan_id: str) -> None:
        """Write the next round of a plan, if it runs."""
        self._go_on(PlanState.open(tx, plan_id))

    def _go_on(self, board: PlanState) -> None:
        room = self._room(board)
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
        """In a plan that is sent back: let what a person settled come to its end."""
        left = board.unsettled()
        if not left or board.plan.pause_reason is not None:
            return
        spent = self._start_all(board, board.next_round(self.pace, room, only=left).start)
        if spent is not None:
            self.pause_for_budget(board, spent)

    def _go_further(self, board: PlanState, room: int | None) -> None:
        found, asking = self._next_round(board, room)
        _tell.progress(board)
        for subtask_id in asking:
            subtask = board.shape.subtasks[subtask_id]
            self.ask(board.tx, board.plan, board.shape.revision, subtask)
        board.write()
        if board.plan.status is not PlanStatus.RUNNING:
            self._rest(board, room)
            return
        spent = self._start_all(board, found.start)
        if found.wake_at is not None:
            set_timer(board.tx, ADVANCE, board.plan.id, found.wake_at)
        if found.outcome is not None:
            self._end(board, found.outcome)
        elif found.waiting:
            _tell.final(board)
        elif spent is not None:
            self.pause_for_budget(board, spent)
            self._rest(board, room)

    def _is_revised(self, board: PlanState) -> bool:
        """Whether the plan went on in another revision, to try again what people asked for."""
        plan = board.plan
        if not plan.again or plan.status not in GOING or not board.is_quiet():
            return False
        board.write()
        _tell.progress(board)
        self.try_again(board.tx, plan)
        return True

    def _room(self, board: PlanState) -> int | None:
        """How many of the plan's subtasks may run in its workspace; None where that is no limit.

        Where a full workspace got room and other plans wait for it, they come first: the plan
        asks anew behind them, so that one plan never keeps a workspace to itself.
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
        """A plan starts nothing now; once nothing of it runs, that is told or made use of.

        Args:
            room: How many of its subtasks may run in its workspace.
        """
        if board.count_running():
            return
        if board.plan.status is PlanStatus.PAUSED and board.plan.paused_until is None:
            _tell.final(board)
        elif board.plan.status is PlanStatus.REPLANNING:
            self._search(board)

    def _search(self, board: PlanState) -> None:
        """Have the next revision looked for, unless something has to be settled first."""
        left, plan = board.unsettled(), board.plan
        asked = any(board.rows[key].status is _S.WAITING_APPROVAL for key in left)
        rests = asked or plan.pause_reason is not None
        # What was settled and has no room in its workspace starts when it gets some.
        if plan.paused_until is not None or (left and not rests):
            return
        if rests:
            _tell.final(board)
        else:
            go_on(board.tx, REPLAN, board.plan.id)

    def _next_round(self, board: PlanState, room: int | None) -> tuple[Round, list[str]]:
        """The next round, once everything is skipped that will not run; and what is to be asked."""
        asking: list[str] = []
        while True:
            found = board.next_round(self.pace, room)
            for subtask_id, blocker in found.skip.items():
                self._skip(board, subtask_id, f"{blocker} did not complete")
            left = [key for key in found.start if not self._declined(board, key)]
            waiting = [key for key in left if self._asks_first(board, key)]
            working = board.count_running() + len(left) - len(waiting)
            asking += self._hold(board, waiting, len(asking) + working)
            board.write()
            settled = not waiting and len(left) == len(found.start)
            if settled or board.plan.status is not PlanStatus.RUNNING:
                return found, asking

    def _declined(self, board: PlanState, subtask_id: str) -> bool:
        """Whether a subtask's condition keeps it from running; it is then over."""
        condition = board.shape.subtasks[subtask_id].condition
        if condition is None or board.rows[subtask_id].attempt:
            return False
        try:
            if holds(condition, board.results()):
                return False
        except ConditionFailed as error:
            self._fail_unstarted(board, subtask_id, classify(error))
            return True
        self._skip(board, subtask_id, f"its condition is false: {condition}", declined=True)
        return True

    def _asks_first(self, board: PlanState, subtask_id: str) -> bool:
        """Whether a person has to let a subtask start."""
        subtask, plan = board.shape.subtasks[subtask_id], board.plan
        if not subtask.approval_required or board.rows[subtask_id].attempt:
            return False
        return not is_let_start(board.tx, plan.id, plan.revision, subtask_id)

    def _hold(self, board: PlanState, waiting: Sequence[str], taken: int) -> Sequence[str]:
        """Mark those that wait for a person, as far as there is room for their questions.

        The rest is asked about later. Gives those to ask about.

        Args:
            taken: Room that others of this plan need: each that runs may have to ask as well.
        """
        if not waiting:
            return ()
        fits = waiting[: max(0, self.room_to_ask(board.tx, board.plan) - taken)]
        for subtask_id in fits:
            board.move(subtask_id, _S.WAITING_APPROVAL)
        board.later.update(waiting[len(fits) :])
        return fits

    def _fail_unstarted(self, board: PlanState, subtask_id: str, failure: Failure) -> None:
        _tell.error(board, subtask_id, failure)
        board.move(subtask_id, _S.RUNNING, attempt=1, started_at=board.now)
        board.write()
        self._write_failed(board, subtask_id, failure, attempt=1)
        self._replan_if(board, subtask_id, failure)

    def _tell_starting(self, board: PlanState, ids: Sequence[str]) -> None:
        fresh = [key for key in ids if not goes_on(board.rows[key])]
        if self.starting is None or not fresh:
            return
        standings = write_standings(board.rows[key].status for key in board.shape.subtasks)
        starts = [Start(key, board.shape.agent(key), board.rows[key].attempt + 1) for key in fresh]
        self.starting(board.tx, board.plan, standings, starts)

    def _start_all(self, board: PlanState, ready: Sequence[str]) -> Excess | None:
        """Start what the budget allows. Gives the limit that keeps the rest, if one does."""
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
        # What it worked before it waited counts, so it is as if it had begun so much earlier.
        worked = board.whole_row(subtask_id).worked_ms if resumed else 0
        since = board.now - timedelta(milliseconds=worked)
        board.move(
            subtask_id, _S.RUNNING, epoch=row.epoch + 1, attempt=attempt, not_before=None,
            active_since=since, **first,
        )  # fmt: skip
        if not resumed:
            _tell.started(board, subtask_id, attempt)
        go_on(board.tx, "subtask", board.key(subtask_id), row.epoch + 1, since=since)

    def _skip(self, board: PlanState, subtask_id: str, reason: str, **to: Any) -> None:  # noqa: ANN401
        board.move(subtask_id, _S.SKIPPED, finished_at=board.now, reason=reason, **to)
        _tell.ended(board, subtask_id, _S.SKIPPED, reason=reason)

    def _end(self, board: PlanState, status: PlanStatus) -> None:
        self._drop_timers(board)
        board.move_plan(status, finished_at=board.now, again=None, **NO_PAUSE)
        self.ended(board.tx, board.plan, status)

    def _drop_timers(self, board: PlanState) -> None:
        drop_timer(board.tx, ADVANCE, board.plan.id)
        if self.plan_timeout is not None:
            drop_timer(board.tx, PLAN_TIMEOUT, board.plan.id)

    # Outcomes ---------------------------------------------------------------------------------

    def _settle(self, board: PlanState, work: Work, outcome: Completed | Failed | Deferred) -> None:
        if isinstance(outcome, Deferred):
            worked = board.worked_ms(work.subtask.id, work.counts_from)
            board.move(work.subtask.id, _S.PENDING, worked_ms=worked)
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
        subtask_id, now = work.subtask.id, board.now
        attempt = board.rows[subtask_id].attempt
        _tell.error(board, subtask_id, failure)
        self.dropped(board.tx, board.whole_row(subtask_id), "the attempt failed")
        delay = retry_delay(work.subtask.retry_policy, failure, attempt)
        if delay is None:
            self._write_failed(board, subtask_id, failure, attempt=attempt, since=work.since)
            self._replan_if(board, subtask_id, failure)
            return
        due = now + timedelta(seconds=delay)
        board.move(subtask_id, _S.PENDING, not_before=due, error=failure.facts)
        _tell.ended(board, subtask_id, None, attempt=attempt, since=work.since, failure=failure)

    def _write_failed(
        self,
        board: PlanState,
        subtask_id: str,
        failure: Failure,
        *,
        attempt: int | None = None,
        since: datetime | None = None,
    ) -> None:
        """A subtask has failed and is not tried again."""
        board.move(subtask_id, _S.FAILED, error=failure.facts, finished_at=board.now)
        _tell.ended(board, subtask_id, _S.FAILED, attempt=attempt, since=since, failure=failure)

    def _replan_if(self, board: PlanState, subtask_id: str, failure: Failure) -> None:
        """Send the plan back when a failure is one that changes it."""
        plan, rules = board.plan, self.replanning
        if rules is None or plan.status is not PlanStatus.RUNNING or _is_no_reason(failure):
            return
        last = datetime.fromisoformat(plan.replan["at"]) if plan.replan else None
        verdict = replan_verdict(rules, failure, plan.replans, last, board.now)
        if verdict is ReplanVerdict.NO:
            return
        self._send_back(
            board, subtask_id=subtask_id, failure=failure.model_dump(mode="json"),
            cause=failure.category, reason=failure.message, asks=verdict is ReplanVerdict.ASK,
        )  # fmt: skip

    def _send_back(
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
        about = {
            "at": board.now.isoformat(), "cause": cause, "reason": reason, "asks": asks, "by": by,
            "subtask_id": subtask_id, "failure": failure,
        }  # fmt: skip
        number = board.plan.replans + 1
        board.move_plan(PlanStatus.REPLANNING, replan=about, replans=number)
        _tell.sent_back(board, about)

    def _cancel(self, board: PlanState, subtask_id: str, reason: str) -> None:
        row = board.whole_row(subtask_id)
        self.dropped(board.tx, row, reason)
        board.move(subtask_id, _S.CANCELLED, finished_at=board.now, reason=reason)
        stop(board.tx, "subtask", row.key)
        since = row.active_since if row.status is _S.RUNNING else None
        _tell.ended(
            board, subtask_id, _S.CANCELLED,
            attempt=row.attempt or None, since=since, reason=reason,
        )  # fmt: skip


def _is_no_reason(failure: Failure) -> bool:
    """Whether the rule that knows a bad failure says that another plan would not help."""
    if not isinstance(failure, Diagnosis) or failure.severity not in REPLANNED:
        return False
    return not failure.requires_replanning


PLAN_TIMERS = frozenset({ADVANCE, RESUME, PLAN_TIMEOUT})


QUOTA = "quota"


MODEL = "model"


BY_ITSELF = frozenset({QUOTA, MODEL})
"""Why a plan is paused that goes on by itself, as long as it says when."""


ROLLING_BACK = "rollback"
"""Why a paused plan cannot go on: its files are being put back. Where it was paused until a time
before, it keeps that time, and gets its timer again once they are back."""
