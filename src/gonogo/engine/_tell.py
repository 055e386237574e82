"""What a plan's log is told, in one place, so that every path tells it alike."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gonogo.domain.events import (
    AgentSwitched,
    ErrorHappened,
    FailureFacts,
    PlanChanged,
    PlanChangedFacts,
    PlanProgress,
    ProgressFacts,
    SubtaskEnded,
    SubtaskEndedFacts,
    SubtaskStarted,
    SubtaskStartedFacts,
    SwitchFacts,
)
from gonogo.domain.failure import Failure
from gonogo.domain.plan import Revision
from gonogo.domain.plan_state import PlanStatus
from gonogo.domain.records import Plan, SubtaskRow
from gonogo.domain.subtask_state import SUBTASK, SubtaskStatus
from gonogo.store import Connection, log
from gonogo.store.plans import revision_of, standings

PRESENTER = "architect"
"""The agent that presents a plan and its results."""


def started(
    conn: Connection, plan: Plan, revision: Revision, subtask_id: str, attempt: int, now: datetime
) -> None:
    """A subtask starts, carried out by its own agent."""
    order = [subtask.id for subtask in revision.subtasks]
    subtask = revision.subtask(subtask_id)
    agent = subtask.agent or "universal"
    place = {"plan_id": plan.id, "subtask_id": subtask_id, "agent": agent}
    switch = SwitchFacts(from_agent=PRESENTER, to_agent=agent, reason=f"subtask {subtask_id}")
    facts = SubtaskStartedFacts(subtask_id=subtask_id, agent=agent, attempt=attempt)
    content = f"Subtask {order.index(subtask_id) + 1}/{len(order)}: {subtask.description}"
    log.tell(
        conn,
        plan.session_id,
        now,
        AgentSwitched(metadata=switch, **place),
        SubtaskStarted(content=content, metadata=facts, **place),
    )


def ended(
    conn: Connection,
    plan: Plan,
    subtask_id: str,
    status: SubtaskStatus | None,
    now: datetime,
    *,
    row: SubtaskRow | None = None,
    result: Any = None,  # noqa: ANN401 - JSON
    failure: Failure | None = None,
    reason: str | None = None,
) -> None:
    """A subtask is over; without a status, one attempt of it is, and another will come."""
    since = row.active_since if row else None
    facts = SubtaskEndedFacts(
        subtask_id=subtask_id,
        subtask_status=status or SubtaskStatus.PENDING,
        result=result,
        error=FailureFacts(**failure.model_dump(mode="json")) if failure else None,
        reason=reason,
        duration_seconds=round((now - since).total_seconds(), 6) if since else None,
        attempt=row.attempt if row else None,
    )
    kind: Any = f"subtask_{status}" if status else "subtask_retrying"
    event = SubtaskEnded(
        type=kind, plan_id=plan.id, subtask_id=subtask_id, agent=_agent(conn, plan, subtask_id),
        metadata=facts,
    )  # fmt: skip
    log.tell(conn, plan.session_id, now, event)


def error(conn: Connection, plan: Plan, subtask_id: str, failure: Failure, now: datetime) -> None:
    """Something went wrong in a subtask; the plan goes on as far as it can."""
    event = ErrorHappened(
        error=failure.message, content=failure.message, code="subtask_failed", plan_id=plan.id,
        subtask_id=subtask_id, agent=_agent(conn, plan, subtask_id),
    )  # fmt: skip
    log.tell(conn, plan.session_id, now, event)


def progress(conn: Connection, plan: Plan, now: datetime) -> None:
    """How many of the plan's subtasks are over."""
    rows = standings(conn, plan.id, plan.revision)
    done = sum(row.status in SUBTASK.terminal for row in rows)
    facts = ProgressFacts(done=done, total=len(rows), percentage=round(100 * done / len(rows), 1))
    log.tell(conn, plan.session_id, now, PlanProgress(plan_id=plan.id, metadata=facts))


def changed(
    conn: Connection,
    plan: Plan,
    kind: Any,  # noqa: ANN401 - one of the event's own words
    by: str,
    now: datetime,
    reason: str | None = None,
) -> None:
    """A person changed the plan's course."""
    facts = PlanChangedFacts(plan_id=plan.id, by=by, reason=reason)
    log.tell(conn, plan.session_id, now, PlanChanged(type=kind, plan_id=plan.id, metadata=facts))
    log.note(
        conn, plan.session_id, now, actor=by, action=kind.replace("_", "."), subject=plan.id,
        reason=reason,
    )  # fmt: skip


def final(conn: Connection, plan: Plan) -> None:
    """Everything left of the plan waits for a person."""
    log.tell_final(conn, plan.session_id)


def rest_if_still(conn: Connection, plan: Plan, rows: Sequence[Any]) -> None:
    """A paused plan of which nothing runs any more waits for a person."""
    still = not any(row.status is SubtaskStatus.RUNNING for row in rows)
    if plan.status is PlanStatus.PAUSED and still:
        log.tell_final(conn, plan.session_id)


def _agent(conn: Connection, plan: Plan, subtask_id: str) -> str | None:
    revision = revision_of(conn, plan.id, plan.revision)
    return revision.subtask(subtask_id).agent if revision else None
