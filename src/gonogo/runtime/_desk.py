"""What the settings say of questions, and of plans that are sent back."""

from datetime import timedelta

from gonogo.approvals import Desk
from gonogo.domain.failures import Severity
from gonogo.domain.replanning import ReplanRules
from gonogo.domain.reviews import Doings
from gonogo.domain.states import ApprovalKind
from gonogo.policy import load_reviews
from gonogo.settings import Settings
from gonogo.store import Connection, go_on
from gonogo.store.sessions import session_of


def replan_rules(settings: Settings) -> ReplanRules:
    """What failures do to plans."""
    wanted = {
        Severity.CRITICAL: settings.replanning_trigger_critical,
        Severity.HIGH: settings.replanning_trigger_high,
        Severity.MEDIUM: settings.replanning_trigger_medium,
    }
    on = settings.auto_replanning
    return ReplanRules(
        severities=frozenset(severity for severity, set_ in wanted.items() if on and set_),
        max_attempts=settings.replanning_max_attempts,
        human_after=settings.replanning_human_after,
        min_interval=timedelta(seconds=settings.replanning_min_interval),
    )


def open_desk(settings: Settings, doings: Doings) -> Desk:
    """The desk, with the rules of review and the times that questions have."""
    seconds = {
        ApprovalKind.TOOL: settings.approval_expiry_tool,
        ApprovalKind.PLAN: settings.approval_expiry_plan,
        ApprovalKind.SUBTASK: settings.approval_expiry_subtask,
        ApprovalKind.INTERVENTION: settings.approval_expiry_intervention,
    }
    if settings.approval_expiry_action == "keep_waiting":
        seconds = {}
    return Desk(
        reviews=load_reviews(settings.admin_rules, settings.rules), doings=doings.of,
        expiry={k: timedelta(seconds=s) if s is not None else None for k, s in seconds.items()},
        warning=timedelta(seconds=settings.approval_warning),
        rejects_expired=settings.approval_expiry_action == "reject",
        max_pending=settings.max_pending_approvals, has_room=_ask_the_rest,
    )  # fmt: skip


def _ask_the_rest(conn: Connection, session_id: str) -> None:
    """A session takes questions again: its plan may have some that there was no room for."""
    session = session_of(conn, session_id)
    if session is not None and session.active_plan_id is not None:
        go_on(conn, "plan", session.active_plan_id)
