"""Budgets that are spent: the question about one, and what its answers mean."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from gonogo.approvals import Desk, Question, Ruling
from gonogo.domain.errors import InvalidMessage
from gonogo.domain.records import Approval, Plan
from gonogo.domain.replanning import WORDS, Excess, Limits
from gonogo.domain.schedule import elapsed
from gonogo.domain.states import ApprovalKind, DecisionWord
from gonogo.domain.strict_json import digest
from gonogo.store import Connection
from gonogo.store.plans import plan_of
from gonogo.store.reports import runs_of_plan, used_by_plan, used_by_session
from gonogo.store.sessions import spoken_in
from gonogo.texts import DEFAULT, say

ABOUT = "budget"

_MOST = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetKind:
    """The answers about budgets: more of the same, other limits, or the end."""

    limits: Limits
    """Those of the settings: what an approval adds."""
    extend: Callable[[Connection, str, Limits, str, datetime], None]
    """Sets limits of a plan and goes on with it: the engine's."""
    give_up: Callable[[Connection, str, str, datetime], None]
    """Ends a plan that is paused for its budget: the engine's."""

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        """Go on with more, or end the plan."""
        plan_id = approval.plan_id or ""
        match ruling.word:
            case DecisionWord.REJECT:
                said = f"the budget is spent, and {ruling.by.name} gave no more"
                self.give_up(conn, plan_id, said, now)
            case DecisionWord.EDIT:
                limits = _limits(ruling.changes)
                _check_used(conn, plan_id, limits, now)
                self.extend(conn, plan_id, limits, ruling.by.id, now)
            case _:
                more = self._more(conn, approval, now)
                self.extend(conn, plan_id, more, ruling.by.id, now)

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        """Nobody answered in time."""
        said = "the budget is spent, and the question about it expired"
        self.give_up(conn, approval.plan_id or "", said, now)

    def _more(self, conn: Connection, approval: Approval, now: datetime) -> Limits:
        what, limit = approval.details["what"], approval.details["limit"]
        base = max(limit, approval.details["used"])
        plan = plan_of(conn, approval.plan_id or "")
        if what == "seconds" and plan is not None and plan.started_at is not None:
            # The time that the question itself took is not held against the plan.
            base = max(base, elapsed(plan.started_at, now))
        return {what: base + self.limits.get(what, limit)}


def ask_about_budget(
    desk: Desk, conn: Connection, plan: Plan, spent: Excess, now: datetime
) -> None:
    """Ask a person what is to become of a plan that reached a limit."""
    locale = spoken_in(conn, plan.session_id) or DEFAULT
    what = say(f"budget_{spent.what}", locale)
    shown = {"used": f"{spent.used:g}", "limit": f"{spent.limit:g}", "what": what}
    details = {
        "about": ABOUT, "what": spent.what, "used": round(spent.used, 6), "limit": spent.limit,
    }  # fmt: skip
    desk.open(
        conn,
        Question(
            session_id=plan.session_id, kind=ApprovalKind.INTERVENTION,
            subject=say("budget_subject", locale, **shown), details=details,
            reason=say("budget_question", locale, setting=spent.setting, **shown),
            digest=digest({"plan_id": plan.id, **details}), plan_id=plan.id,
            revision=plan.revision,
        ),
        now,
    )  # fmt: skip


def _check_used(conn: Connection, plan_id: str, limits: Limits, now: datetime) -> None:
    """Refuse limits that are reached already: the same question would come back at once."""
    plan = plan_of(conn, plan_id)
    if plan is None:
        return
    used = used_by_plan(conn, plan_id).by_word() | {"subtasks": runs_of_plan(conn, plan)}
    used |= used_by_session(conn, plan.session_id).by_word("session_")
    if plan.started_at is not None:
        used["seconds"] = elapsed(plan.started_at, now)
    low = [what for what, limit in limits.items() if limit <= used.get(what, 0)]
    if low:
        said = "; ".join(f"{what}: {used[what]:g} used, {limits[what]:g} given" for what in low)
        raise InvalidMessage(f"A limit must be above what was used already: {said}")


def _limits(changes: Any) -> Limits:  # noqa: ANN401 - as the person sent it
    given: Any = (
        cast("dict[str, Any]", changes).get("result") if isinstance(changes, dict) else None
    )
    if not isinstance(given, dict) or not given:
        raise InvalidMessage('A budget is edited with modified_arguments {"result": {…limits}}')
    found = cast("Mapping[str, Any]", given)
    for name, value in found.items():
        if name not in WORDS:
            raise InvalidMessage(f"There is no limit {name!r}; use {', '.join(sorted(WORDS))}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidMessage(f"{name} must be a number")
        if not 0 < value <= _MOST:
            raise InvalidMessage(f"{name} must be above zero and at most {_MOST:g}")
    return found
