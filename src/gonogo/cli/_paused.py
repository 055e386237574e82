"""Why a plan is paused, until when, and what a person can do about it."""

from gonogo.cli._escape import one_line
from gonogo.domain.plan_views import PlanView
from gonogo.domain.views import ApprovalView
from gonogo.texts import say

BY_ITSELF = frozenset({"quota", "model", "budget", "rollback"})
"""Why a plan is paused where nobody asked for it."""


def standing(plan: PlanView) -> str:
    """A plan's status in a word or two: a pause that nobody asked for with its reason."""
    return f"{plan.status} ({one_line(plan.pause_reason)})" if plan.pause_reason else plan.status


def pause_lines(plan: PlanView, pending: list[ApprovalView], locale: str) -> list[str]:
    """What holds a paused plan up, and the command that has it go on; nothing of another plan.

    Args:
        pending: What its session waits for.
    """
    if plan.status != "paused":
        return []
    until = f"{plan.paused_until:%Y-%m-%d %H:%M:%S} UTC" if plan.paused_until else ""
    key = f"cli_paused_{plan.pause_reason}" if plan.pause_reason in BY_ITSELF else "cli_paused"
    key += "_asked" if plan.pause_reason == "model" and not until else ""
    asked = [a for a in pending if a.plan_id == plan.plan_id and not a.subtask_id]
    told = [say(key, locale, plan_id=plan.plan_id, until=until)]
    return told + [say("cli_waiting", locale, approval_id=a.approval_id) for a in asked]
