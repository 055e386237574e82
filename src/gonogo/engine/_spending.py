"""Budgets of plans: what is checked before a subtask starts, and the question when one is spent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gonogo.domain.records import Plan
from gonogo.domain.replanning import OF_STARTS, Excess, Limits, excess, in_force
from gonogo.domain.schedule import elapsed
from gonogo.domain.states import PlanStatus
from gonogo.engine import _tell
from gonogo.engine._board import Board, goes_on
from gonogo.store import Connection
from gonogo.store.jobs import drop_timer
from gonogo.store.reports import runs_of_plan
from gonogo.store.sessions import spoken_in
from gonogo.texts import say

RESUME = "plan_resume"
"""The timer that ends a pause for a quota."""
BUDGET = "budget"
RUNTIME = "gonogo"
"""Who did what nobody asked for."""


def _nobody(conn: Connection, plan: Plan, spent: Excess, now: datetime) -> None: ...


@dataclass(slots=True, kw_only=True)
class Spending:
    """Keeps plans within their budgets, each step a part of its caller's transaction."""

    budget: Limits = field(default_factory=dict[str, float])
    over_budget: Callable[[Connection, Plan, Excess, datetime], None] = _nobody
    """Called in the transaction that pauses a plan for a limit that it reached: ask a person."""

    def affordable(
        self, board: Board, start: Sequence[str]
    ) -> tuple[tuple[str, ...], Excess | None]:
        """Those of the subtasks that may start, and the limit that keeps the others."""
        limits = in_force(self.budget, board.plan.budget)
        if not start or OF_STARTS.isdisjoint(limits):
            return tuple(start), None
        used = {"seconds": _seconds(board), "subtasks": runs_of_plan(board.conn, board.plan)}
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

    def pause_for_budget(self, board: Board, spent: Excess) -> None:
        """Start nothing new until a person answers; one question, however many are refused."""
        if board.plan.paused_until is not None:
            drop_timer(board.conn, RESUME, board.plan.id)
        elif not board.may_rest():
            return
        board.rest(pause_reason=BUDGET, paused_until=None)
        self._ask_for_more(board, spent)

    def pause_search(self, conn: Connection, plan_id: str, spent: Excess, now: datetime) -> None:
        """The search for another revision reached a limit: it waits until a person answers."""
        board = Board.open(conn, plan_id, now)
        if board.plan.status is not PlanStatus.REPLANNING or board.plan.pause_reason == BUDGET:
            return
        self.pause_for_budget(board, spent)
        _tell.final(board)

    def _ask_for_more(self, board: Board, spent: Excess) -> None:
        plan = board.plan
        content = say("plan_paused_budget", spoken_in(board.conn, plan.session_id))
        _tell.changed(board, "plan_paused", RUNTIME, BUDGET, content=content)
        self.over_budget(board.conn, board.plan, spent, board.now)


def _seconds(board: Board) -> float:
    since = board.plan.started_at
    return elapsed(since, board.now) if since else 0.0
