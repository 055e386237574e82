"""The account of a plan: what its subtasks came to."""

from collections.abc import Sequence
from typing import Any

from gonogo.domain.events import PlanEndedFacts
from gonogo.domain.records import Plan, SubtaskRow
from gonogo.domain.subtask_state import SubtaskStatus
from gonogo.store import Connection
from gonogo.store.calls import RefusedCall, refused_calls
from gonogo.store.plans import subtask_rows

_S = SubtaskStatus
_TOLD = 300
"""Characters of what a call that was refused was about, and of why."""
_MOST_REFUSED = 50


def told_refusals(calls: Sequence[RefusedCall]) -> list[dict[str, str]]:
    """Calls that were denied, rejected or left unanswered, as a result names them."""
    return [
        {
            "call_id": call.call_id,
            "tool_name": call.tool,
            "about": str(call.arguments.get("command") or call.arguments.get("path") or "")[:_TOLD],
            "error": call.error[:_TOLD],
        }
        for call in calls[:_MOST_REFUSED]
    ]


def execution_result(conn: Connection, plan: Plan) -> dict[str, Any]:
    """What `execute_plan` answers when the plan is over."""
    facts = account_of(conn, plan)
    rows = subtask_rows(conn, plan.id, plan.revision)
    return {
        **facts.model_dump(mode="json", exclude_none=True),
        "success_rate": round(facts.completed / facts.total, 4),
        "errors": [
            {"subtask_id": row.subtask_id, "message": row.error["message"]}
            for row in rows
            if row.status is _S.FAILED and row.error
        ],
        "subtasks": {row.subtask_id: _subtask_result(row) for row in rows},
    }


def _subtask_result(row: SubtaskRow) -> dict[str, Any]:
    found = {"status": row.status, "result": row.result, "error": row.error, "reason": row.reason}
    return {name: value for name, value in found.items() if value is not None}


def account_of(conn: Connection, plan: Plan) -> PlanEndedFacts:
    """How many of the plan's subtasks ended how; the numbers add up to the total."""
    rows = subtask_rows(conn, plan.id, plan.revision)
    refused = refused_calls(conn, plan.session_id, plan.id)
    began, ended = plan.started_at, plan.finished_at
    return PlanEndedFacts(
        plan_id=plan.id,
        status=plan.status,
        total=len(rows),
        completed=_count(rows, _S.COMPLETED),
        failed=_count(rows, _S.FAILED),
        skipped=_count(rows, _S.SKIPPED),
        cancelled=_count(rows, _S.CANCELLED),
        refused=len(refused) or None,
        duration_seconds=round((ended - began).total_seconds(), 6) if began and ended else 0.0,
        revision=plan.revision,
    )


def _count(rows: list[SubtaskRow], status: SubtaskStatus) -> int:
    return sum(row.status is status for row in rows)
