"""What a plan's log is told, in one place, so that every path tells it alike."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gonogo.domain.events import (
    AgentSwitched,
    ErrorHappened,
    Event,
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
from gonogo.domain.failures import Category, Failure
from gonogo.domain.schedule import elapsed
from gonogo.domain.states import SubtaskStatus
from gonogo.execution.scheduling.plan_state import PlanState
from gonogo.store import events as log

PRESENTER = "architect"
"""The agent that presents a plan and its results."""
_CODES = {
    Category.NETWORK: "model_error",
    Category.QUOTA: "model_error",
    Category.NO_WORK: "model_error",
    Category.ENVIRONMENT: "model_error",
    Category.POLICY: "policy_denied",
}
"""The wire's words for what fails a subtask; what is not here is `internal`."""


def started(board: PlanState, subtask_id: str, attempt: int) -> None:
    """A subtask starts, carried out by its own agent, if it has one."""
    subtask = board.shape.subtasks[subtask_id]
    agent = subtask.agent
    place: dict[str, Any] = {"plan_id": board.plan.id, "subtask_id": subtask_id, "agent": agent}
    if agent is not None:
        switch = SwitchFacts(from_agent=PRESENTER, to_agent=agent, reason=f"subtask {subtask_id}")
        _tell(board, AgentSwitched(metadata=switch, **place))
    facts = SubtaskStartedFacts(
        subtask_id=subtask_id, subtask_type=subtask.type, agent=agent, tool=subtask.tool,
        attempt=attempt,
    )  # fmt: skip
    where = f"{board.shape.places[subtask_id]}/{len(board.shape.places)}"
    content = f"Subtask {where}: {subtask.description}"
    _tell(board, SubtaskStarted(content=content, metadata=facts, **place))


def ended(
    board: PlanState,
    subtask_id: str,
    status: SubtaskStatus | None,
    *,
    attempt: int | None = None,
    since: datetime | None = None,
    result: Any = None,  # noqa: ANN401 - JSON
    failure: Failure | None = None,
    reason: str | None = None,
) -> None:
    """A subtask is over; without a status, one attempt of it is, and another will come.

    Args:
        since: When the work on it began that has ended now.
    """
    facts = SubtaskEndedFacts(
        subtask_id=subtask_id,
        subtask_status=status or SubtaskStatus.PENDING,
        subtask_type=board.shape.subtasks[subtask_id].type,
        result=result,
        error=FailureFacts(**failure.model_dump(mode="json")) if failure else None,
        reason=reason,
        duration_seconds=round(elapsed(since, board.now), 6) if since else None,
        attempt=attempt,
    )
    kind: Any = f"subtask_{status}" if status else "subtask_retrying"
    event = SubtaskEnded(
        type=kind, plan_id=board.plan.id, subtask_id=subtask_id,
        agent=board.shape.agent(subtask_id), metadata=facts,
    )  # fmt: skip
    _tell(board, event)


def error(board: PlanState, subtask_id: str, failure: Failure) -> None:
    """Something went wrong in a subtask; the plan goes on as far as it can."""
    code = _CODES.get(failure.category, "internal")
    event = ErrorHappened(
        error=failure.message, content=failure.message, code=code,
        plan_id=board.plan.id, subtask_id=subtask_id, agent=board.shape.agent(subtask_id),
    )  # fmt: skip
    _tell(board, event)


def progress(board: PlanState) -> None:
    """How many of the plan's subtasks are over, if one ended since it was last told."""
    if board.has_news() and 1000 * board.count_over() >= board.plan.floor * len(board.rows):
        _standing(board)


def _standing(board: PlanState) -> None:
    done, total = board.count_over(), len(board.rows)
    percentage = max(round(100 * done / total, 1), board.plan.floor / 10)
    facts = ProgressFacts(done=done, total=total, percentage=percentage)
    _tell(board, PlanProgress(plan_id=board.plan.id, metadata=facts))


def changed(
    board: PlanState,
    kind: Any,  # noqa: ANN401 - one of the event's own words
    by: str,
    reason: str | None = None,
    *,
    until: datetime | None = None,
    content: str | None = None,
) -> None:
    """A person changed the plan's course, or a quota did."""
    plan, is_over = board.plan, kind == "plan_cancelled"
    ran = plan.started_at if is_over else None
    took = round(elapsed(ran, board.now), 6) if ran else None
    facts = PlanChangedFacts(
        plan_id=plan.id, by=by, reason=reason, until=until, duration_seconds=took,
        revision=plan.revision if is_over else None,
    )  # fmt: skip
    _tell(board, PlanChanged(type=kind, content=content, plan_id=plan.id, metadata=facts))
    log.note(
        board.tx, plan.session_id, actor=by, action=kind.replace("_", "."),
        subject=plan.id, reason=reason,
    )  # fmt: skip


def final(board: PlanState) -> None:
    """Everything left of the plan waits for a person, and whoever follows it is told so.

    What came to rest without a word, because it could not go on, leaves no event to say it by.
    """
    session_id = board.plan.session_id
    if board.freed and not log.told_in(board.tx, session_id):
        _standing(board)
    log.tell_final(board.tx, session_id)


def sent_back(board: PlanState, about: Mapping[str, Any]) -> None:
    """A plan is to be changed: what runs finishes, then the next revision is looked for."""
    plan = board.plan
    facts = PlanChangedFacts(
        plan_id=plan.id, by=about["by"], reason=about["reason"], cause=about["cause"],
        subtask_id=about["subtask_id"], replans=plan.replans,
    )  # fmt: skip
    _tell(board, PlanChanged(type="plan_replanning", plan_id=plan.id, metadata=facts))
    log.note(
        board.tx, plan.session_id, actor=about["by"] or "gonogo",
        action="plan.replanning", subject=plan.id, reason=about["reason"], cause=about["cause"],
        subtask_id=about["subtask_id"], replans=plan.replans, revision=plan.revision,
    )  # fmt: skip


def _tell(board: PlanState, *events: Event) -> None:
    log.tell(board.tx, board.plan.session_id, *events)
