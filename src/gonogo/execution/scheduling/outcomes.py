"""What the engine gives to a runner and gets back, and the events about it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import anyio
from msgspec import Struct

from gonogo.domain.base import elapsed
from gonogo.domain.errors import ModelFailed, Unwritable
from gonogo.domain.events import (
    ErrorHappened,
    Event,
    FailureFacts,
    PlanChanged,
    PlanChangedFacts,
    plain,
    plain_json,
)
from gonogo.domain.failures import Category, Failure
from gonogo.domain.plan import KindRule, Revision, Subtask
from gonogo.domain.replanning import Excess
from gonogo.domain.states import SubtaskStatus
from gonogo.execution.scheduling.plan_state import PlanState
from gonogo.store import Stopwatch, Tx
from gonogo.store import events as log


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One subtask to carry out, with the epoch that proves that it is ours."""

    key: str
    revision: Revision
    subtask: Subtask
    epoch: int
    since: datetime | None = None
    """When this stretch of its work began, if that is known."""
    begun: Any = field(default=None, compare=False)
    """A call of it that has started, and must run first."""
    watch: Stopwatch = field(default_factory=Stopwatch, compare=False)
    """How long this stretch has taken, without the waits for a person and for the database.

    In the process that began to count, setting the clock changes nothing. Time in another process,
    or in a client's tool while no job ran, is known only by the machine's clock: if that is set
    meanwhile, the change counts as time that passed.
    """


class Start(NamedTuple):
    """One attempt of a subtask that is about to begin."""

    subtask_id: str
    agent: str | None
    attempt: int


class Completed(Struct, frozen=True):
    """The subtask did what it was for."""

    result: Any = None
    also: Callable[[Tx], None] | None = None
    """What else is written in the transaction that completes the subtask, before its events."""
    heard: int = 0
    """How many messages of people its agent knew when it said so."""
    refused: Sequence[Mapping[str, str]] | None = None
    """What it asked for and was refused; None: not read yet."""


class Failed(Struct, frozen=True):
    """The subtask did not do what it was for."""

    failure: Failure
    also: Callable[[Tx], None] | None = None
    """What else is written in the transaction that ends the attempt, before its events."""
    heard: int = 0
    """How many messages of people its agent knew when it said so."""


class Parked(Struct, frozen=True):
    """The subtask waits, and the transaction that made it wait is committed."""


class Deferred(Struct, frozen=True):
    """The subtask cannot go on now, without a fault of its own, and counts as ready again.

    Its plan pauses; the subtask keeps its attempt and its conversation, and goes on with the plan.
    """

    until: datetime | None = None
    """When the model has quota again, and the plan goes on by itself."""
    spent: Excess | None = None
    """The limit of a budget that was reached; a person is asked."""
    away: ModelFailed | Unwritable | None = None
    """The error of a model that does not answer, or of a disk that takes no writes, until later."""


class Retreat(Protocol):
    """Undoes what a failed attempt did, before its failure is written."""

    async def undo(self, work: Work) -> None:
        """Put the files back as they were."""
        ...

    def began(self, tx: Tx, work: Work) -> bool:
        """Whether the undo of this attempt had begun when the process ended: then it has failed."""
        ...


Outcome = Completed | Failed | Parked | Deferred


class SubtaskRunner(Protocol):
    """Carries one subtask out."""

    async def run(self, work: Work) -> Outcome:
        """Carry out the work; return its outcome."""
        ...


# Kinds as the engine gets them: a rule for plans, and a function that carries out a subtask.
#
# After a restart a kind runs again from its beginning. So it uses a tool for what it must not do
# twice, or checks with `Step.since` how long ago the work began.


class Step(Struct, frozen=True, kw_only=True):
    """What a kind may use to carry one subtask out."""

    work: Work
    attempt: int
    """The number of this attempt, from 1."""
    inputs: Mapping[str, Any]
    """The subtask's inputs, each reference replaced by what it names."""
    results: Mapping[str, Mapping[str, Any]]
    """`{status, output, metadata}` of each dependency, by its id."""
    now: Callable[[], datetime]
    failed: str | None = None
    """The error of the attempt before this one."""

    @property
    def subtask(self) -> Subtask:
        """The subtask as it was planned."""
        return self.work.subtask

    @property
    def since(self) -> datetime:
        """When this stretch of the work began; a restart does not change it."""
        return self.work.since or self.now()

    async def wait(self, seconds: float) -> None:
        """Wait; cancelling the subtask, its timeout and the end of the process end the wait."""
        await anyio.sleep(max(0.0, seconds))

    def done(self, output: Any = None, **metadata: Any) -> Completed:  # noqa: ANN401 - JSON
        """The subtask did what it was for."""
        return Completed({"status": "completed", "output": output, "metadata": metadata})


class Kind(KindRule, frozen=True, kw_only=True):
    """What subtasks of one kind return, and how."""

    run: Callable[[Step], Awaitable[Outcome]]
    """Raises `GonogoError`, or gives `Failed`, for a subtask that did not do what it was for."""
    description: str = ""
    """For those who write plans: when to use it, and its inputs."""


# The events of plans, in one place, so that every path tells them alike.

PRESENTER = "architect"
"""The agent that presents a plan and its results."""
_CODES = {
    Category.NETWORK: "model_error",
    Category.QUOTA: "model_error",
    Category.NO_WORK: "model_error",
    Category.ENVIRONMENT: "model_error",
    Category.POLICY: "policy_denied",
}
"""The error codes on the wire for failures of subtasks; other categories are `internal`."""


def started(board: PlanState, subtask_id: str, attempt: int) -> None:
    """Tell that a subtask starts, and that its agent takes over, if it has one."""
    subtask = board.shape.graph.subtasks[subtask_id]
    agent = subtask.agent
    place = {"plan_id": board.plan.id, "subtask_id": subtask_id, "agent": agent}
    if agent is not None:
        switch = {
            "from_agent": PRESENTER, "to_agent": agent, "reason": f"subtask {subtask_id}",
            "cause": "subtask",
        }  # fmt: skip
        _tell(board, plain(type="agent_switched", **place, metadata=switch))
    facts = plain(
        subtask_id=subtask_id, subtask_status="in_progress", subtask_type=subtask.type,
        agent=agent, tool=subtask.tool, attempt=attempt,
    )  # fmt: skip
    where = f"{board.shape.graph.places[subtask_id]}/{len(board.shape.graph.places)}"
    content = f"Subtask {where}: {subtask.description}"
    _tell(board, plain(type="subtask_started", **place, content=content, metadata=facts))


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
    """Tell that a subtask is over; without a status: one attempt is over, and another will come.

    Args:
        since: When the work on it began that has ended now.
    """
    subtask = board.shape.graph.subtasks[subtask_id]
    facts = plain(
        subtask_id=subtask_id,
        subtask_status=(status or SubtaskStatus.PENDING).value,
        subtask_type=subtask.type,
        result=None if result is None else plain_json(result),
        error=FailureFacts(**failure.model_dump(mode="json")).model_dump() if failure else None,
        reason=reason,
        duration_seconds=round(elapsed(since, board.now), 6) if since else None,
        attempt=attempt,
    )
    event = plain(
        type=f"subtask_{status}" if status else "subtask_retrying", plan_id=board.plan.id,
        subtask_id=subtask_id, agent=subtask.agent, metadata=facts,
    )  # fmt: skip
    _tell(board, event)


def error(board: PlanState, subtask_id: str, failure: Failure) -> None:
    """Tell that something went wrong in a subtask; the plan goes on as far as it can."""
    code = _CODES.get(failure.category, "internal")
    event = ErrorHappened(
        error=failure.message, content=failure.message, code=code,
        plan_id=board.plan.id, subtask_id=subtask_id, agent=board.shape.agent(subtask_id),
    )  # fmt: skip
    _tell(board, event)


def progress(board: PlanState, *, ends: bool = False) -> None:
    """Tell how many of the plan's subtasks are over, if one ended since that was last told.

    Args:
        ends: The plan ends: failed subtasks are not tried again, so they count, too.
    """
    settled = board.count_over() if ends else board.count_settled()
    if board.has_news() and 1000 * settled >= board.plan.floor * len(board.rows):
        _standing(board, settled)


def _standing(board: PlanState, settled: int) -> None:
    done, total = board.count_over(), len(board.rows)
    percentage = max(round(100 * settled / total, 1), board.plan.floor / 10)
    facts = {"done": done, "total": total, "percentage": percentage}
    _tell(board, {"type": "plan_progress", "plan_id": board.plan.id, "metadata": facts})


def changed(
    board: PlanState,
    kind: Any,  # noqa: ANN401 - one of the event's own words
    by: str,
    reason: str | None = None,
    *,
    until: datetime | None = None,
    content: str | None = None,
) -> None:
    """Tell that a person, or a quota, changed the plan's course."""
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
    """Tell followers that everything left of the plan waits for a person.

    If subtasks came to rest without an event, the plan's progress is told first to carry this.
    """
    session_id = board.plan.session_id
    if board.freed and not log.told_in(board.tx, session_id):
        _standing(board, board.count_settled())
    log.tell_final(board.tx, session_id)


def sent_back(board: PlanState, about: Mapping[str, Any]) -> None:
    """Tell that a plan will change: running subtasks finish, then a new revision is made."""
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


def _tell(board: PlanState, event: Event | dict[str, Any]) -> None:
    log.tell(board.tx, board.plan.session_id, event)
