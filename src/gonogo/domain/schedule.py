"""The scheduler: what a running plan should do next, as a pure function.

`schedule` is told the graph, where every subtask stands, and the limits; it answers with the
subtasks to start and to skip, and whether the plan is over. It never starts a subtask before all
its dependencies are `completed`, never leaves a plan stuck, and gives the same answer for the same
arguments, so that any process may ask it again after a crash.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from gonogo.domain.plan import Subtask
from gonogo.domain.plan_state import PlanStatus
from gonogo.domain.subtask_state import SUBTASK, SubtaskStatus

_S = SubtaskStatus
_BLOCKED = frozenset({_S.FAILED, _S.CANCELLED, _S.SKIPPED})


class Standing(NamedTuple):
    """Where a subtask stands."""

    status: SubtaskStatus
    not_before: datetime | None = None
    """A retry may not start earlier."""
    epoch: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What to do now. At most one of `start`, `skip` and `outcome` says that nothing is left."""

    start: tuple[str, ...] = ()
    skip: Mapping[str, str]
    """Subtask id → id of the dependency that did not complete."""
    outcome: PlanStatus | None = None
    """The status that the plan ends with, when every subtask is over."""
    wake_at: datetime | None = None
    """When to ask again although nothing will have changed: the earliest retry."""
    waiting: bool = False
    """Nothing runs and nothing can start: everything left waits for a person."""


def schedule(
    subtasks: Sequence[Subtask],
    standings: Mapping[str, Standing],
    *,
    max_parallel: int,
    now: datetime,
) -> Round:
    """Decide the next round of a running plan.

    Args:
        standings: One for each subtask.
        max_parallel: How many subtasks may run at once; one that waits for a person does not run.
    """
    statuses = {key: standing.status for key, standing in standings.items()}
    skip = _skips(subtasks, statuses)
    statuses.update(dict.fromkeys(skip, _S.SKIPPED))
    counts = Counter(statuses.values())
    running = counts[_S.RUNNING]
    ready = _ready(subtasks, statuses)
    due = [key for key in ready if _is_due(standings[key], now)]
    start = tuple(due[: max(0, max_parallel - running)])
    return Round(
        start=start,
        skip=skip,
        outcome=outcome(list(statuses.values())),
        wake_at=_earliest(standings, ready, now),
        waiting=not running and not ready and counts[_S.WAITING_APPROVAL] > 0,
    )


def count_ended(statuses: Iterable[SubtaskStatus]) -> int:
    """How many of the subtasks are over."""
    counts = Counter(statuses)
    return sum(counts[status] for status in SUBTASK.terminal)


def outcome(statuses: Sequence[SubtaskStatus]) -> PlanStatus | None:
    """The status that a plan ends with, or None while a subtask is not over.

    `completed` when all completed; `partial` when some did; `failed` when none did.
    """
    if count_ended(statuses) < len(statuses):
        return None
    completed = statuses.count(_S.COMPLETED)
    if completed == len(statuses):
        return PlanStatus.COMPLETED
    return PlanStatus.PARTIAL if completed else PlanStatus.FAILED


def _skips(subtasks: Sequence[Subtask], statuses: Mapping[str, SubtaskStatus]) -> dict[str, str]:
    """Pending subtasks that can never start, with the dependency that stands in the way."""
    skip: dict[str, str] = {}
    if _BLOCKED.isdisjoint(statuses.values()):
        return skip
    pending = [s for s in subtasks if statuses[s.id] is _S.PENDING]
    grew = True
    while grew:
        grew = False
        for subtask in pending:
            if subtask.id in skip:
                continue
            blocker = next(
                (d for d in subtask.dependencies if d in skip or statuses[d] in _BLOCKED), None
            )
            if blocker is not None:
                skip[subtask.id] = blocker
                grew = True
    return skip


def _ready(subtasks: Sequence[Subtask], statuses: Mapping[str, SubtaskStatus]) -> list[str]:
    met = {key for key, status in statuses.items() if status is _S.COMPLETED}
    return [
        subtask.id
        for subtask in subtasks
        if statuses[subtask.id] is _S.PENDING and met.issuperset(subtask.dependencies)
    ]


def _is_due(standing: Standing, now: datetime) -> bool:
    return standing.not_before is None or standing.not_before <= now


def _earliest(
    standings: Mapping[str, Standing], ready: Sequence[str], now: datetime
) -> datetime | None:
    later = [t for key in ready if (t := standings[key].not_before) is not None and t > now]
    return min(later, default=None)
