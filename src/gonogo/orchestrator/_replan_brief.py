"""What whoever plans anew is told: what failed, why, what to do about it, and what is done."""

from collections.abc import Mapping
from typing import Any

from gonogo.domain.failures import hint_of
from gonogo.domain.plan import Subtask
from gonogo.domain.records import Plan, SubtaskRow
from gonogo.orchestrator._brief import cut
from gonogo.store import Connection
from gonogo.store.plans import current_revision, subtask_rows
from gonogo.texts import cause_and_fix
from gonogo.texts import say as text

_SHOWN = 2_000
"""Characters of one subtask's result or error."""


def brief(conn: Connection, plan: Plan, locale: str) -> str:
    """The head of the conversation in which a plan's next revision is looked for."""
    revision = current_revision(conn, plan)
    rows = {row.subtask_id: row for row in subtask_rows(conn, plan.id, plan.revision)}
    return "\n\n".join(
        [
            text("model_replan", locale),
            text("model_replan_goal", locale, goal=revision.goal),
            _what_happened(plan.replan or {}, locale),
            text("model_replan_standing", locale),
            "\n".join(_standing(s, rows[s.id], locale) for s in revision.subtasks),
        ]
    )


def reflection(about: Mapping[str, Any], locale: str) -> tuple[str | None, str | None]:
    """The root cause of the failure that a replan is about, and the suggestion to mend it.

    What a registered rule says goes before what is known of the failure's kind.
    """
    failure: Mapping[str, Any] | None = about.get("failure")
    if failure is None:
        return None, None
    cause, fix = cause_and_fix(failure.get("hint") or hint_of(failure["category"]), locale)
    return f"{failure['message']} ({cause})", failure.get("suggestion") or fix


def _what_happened(about: Mapping[str, Any], locale: str) -> str:
    failure: Mapping[str, Any] | None = about.get("failure")
    if failure is None:
        return text("model_replan_asked", locale, reason=about.get("reason"))
    root_cause, suggestion = reflection(about, locale)
    return text(
        "model_replan_failure", locale, reason=about.get("reason"),
        subtask=about.get("subtask_id"), category=failure["category"],
        severity=failure["severity"], root_cause=root_cause, suggestion=suggestion,
    )  # fmt: skip


def _standing(subtask: Subtask, row: SubtaskRow, locale: str) -> str:
    return text(
        "model_replan_subtask", locale, subtask=subtask.id, status=row.status,
        description=subtask.description, detail=_detail(row, locale),
    )  # fmt: skip


def _detail(row: SubtaskRow, locale: str) -> str:
    found = row.error or row.result or row.reason
    return "" if found is None else f"\n  {cut(found, _SHOWN, locale)}"
