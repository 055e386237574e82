"""The scheduler: what a running plan should do next, as a pure function.

`schedule` is told the graph, where every subtask stands, and the limits; it answers with the
subtasks to start and to skip, and whether the plan is over. It never starts a subtask before all
its dependencies are met, which only `completed` does, or for a subtask that says so a dependency
that was skipped by its own condition. It never leaves a plan stuck, and gives the same answer for
the same arguments, so that any process may ask it again after a crash.

Which of the ready subtasks go first is a strategy's choice, and only that: whatever a strategy
says, it can start nothing early and leave nothing out.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from gonogo.domain.plan import Subtask
from gonogo.domain.states import SUBTASK, PlanStatus, SubtaskStatus

_S = SubtaskStatus
_BLOCKED = frozenset({_S.FAILED, _S.CANCELLED, _S.SKIPPED})
_NONE: frozenset[str] = frozenset()


class SubtaskStanding(NamedTuple):
    """Where a subtask stands."""

    status: SubtaskStatus
    not_before: datetime | None = None
    """A retry may not start earlier."""
    epoch: int = 0
    attempt: int = 0
    declined: bool = False
    """It was skipped because its own condition is false."""


class Outlook(Struct, frozen=True, kw_only=True):
    """What a strategy may look at besides the subtasks that are ready."""

    standings: Mapping[str, SubtaskStanding]
    """Subtask id → where it stands, for every subtask of the plan."""
    remaining: Mapping[str, float]
    """Subtask id → estimated minutes of the longest chain that begins with it."""


Strategy = Callable[[Sequence[Subtask], Outlook], Iterable[str]]
"""Is given the ready subtasks in plan order, and says the order in which they start, by their ids.

Ids that are not ready, or that come again, are ignored; what it leaves out comes last.
"""


def by_plan_order(ready: Sequence[Subtask], outlook: Outlook) -> Iterable[str]:
    """As they stand in the plan."""
    return [subtask.id for subtask in ready]


def by_critical_path(ready: Sequence[Subtask], outlook: Outlook) -> Iterable[str]:
    """The longest remaining chain of work first; ties as they stand in the plan."""
    longest = sorted(ready, key=lambda subtask: -outlook.remaining[subtask.id])
    return [subtask.id for subtask in longest]


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {"critical_path": by_critical_path, "plan_order": by_plan_order}
)
"""The strategies that are built in."""


def remaining_minutes(subtasks: Sequence[Subtask]) -> Mapping[str, float]:
    """For each subtask the estimated minutes of the longest chain that begins with it."""
    by_id = {subtask.id: subtask for subtask in subtasks}
    after = dict.fromkeys(by_id, 0.0)
    graph = {subtask.id: subtask.dependencies for subtask in subtasks}
    for key in reversed(tuple(TopologicalSorter(graph).static_order())):
        after[key] += by_id[key].minutes
        for dependency in by_id[key].dependencies:
            after[dependency] = max(after[dependency], after[key])
    return after


class Round(Struct, frozen=True, kw_only=True):
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
    standings: Mapping[str, SubtaskStanding],
    *,
    max_parallel: int,
    now: datetime,
    max_per_agent: int | None = None,
    strategy: Strategy = by_plan_order,
    remaining: Mapping[str, float] = MappingProxyType({}),
) -> Round:
    """Decide the next round of a running plan.

    Args:
        standings: One for each subtask.
        max_parallel: How many subtasks may run at once; one that waits for a person does not run.
        max_per_agent: How many of them may be one agent's.
        remaining: What `remaining_minutes` gives, for strategies that look at it.
    """
    statuses = {key: standing.status for key, standing in standings.items()}
    declined = {key for key, standing in standings.items() if standing.declined}
    skip = _skips(subtasks, statuses, declined)
    statuses.update(dict.fromkeys(skip, _S.SKIPPED))
    counts = Counter(statuses.values())
    running = counts[_S.RUNNING]
    ready = _ready(subtasks, statuses, declined)
    due = [subtask for subtask in ready if _is_due(standings[subtask.id], now)]
    if len(due) > 1:
        due = _in_order(due, strategy(due, Outlook(standings=standings, remaining=remaining)))
    if max_per_agent is not None:
        due = _within(due, subtasks, statuses, max_per_agent)
    return Round(
        start=tuple(subtask.id for subtask in due[: max(0, max_parallel - running)]),
        skip=skip,
        outcome=outcome(subtasks, statuses, declined),
        wake_at=_earliest(standings, ready, now),
        waiting=not running and not ready and counts[_S.WAITING_APPROVAL] > 0,
    )


def count_ended(statuses: Iterable[SubtaskStatus]) -> int:
    """How many of the subtasks are over."""
    counts = Counter(statuses)
    return sum(counts[status] for status in SUBTASK.terminal)


def outcome(
    subtasks: Sequence[Subtask], statuses: Mapping[str, SubtaskStatus], declined: Set[str] = _NONE
) -> PlanStatus | None:
    """The status that a plan ends with, or None while a subtask is not over.

    `completed` when all completed that were to be done; `partial` when some did; `failed` when none
    did. A branch that a false condition left out was not to be done.

    Args:
        declined: The subtasks that were skipped because their own condition is false.
    """
    if count_ended(statuses.values()) < len(statuses):
        return None
    counts = Counter(statuses.values())
    left_out = _left_out(subtasks, statuses, declined) if counts[_S.SKIPPED] else _NONE
    if counts[_S.COMPLETED] + len(left_out) == len(statuses):
        return PlanStatus.COMPLETED
    return PlanStatus.PARTIAL if counts[_S.COMPLETED] else PlanStatus.FAILED


def _left_out(
    subtasks: Sequence[Subtask], statuses: Mapping[str, SubtaskStatus], declined: Set[str]
) -> Set[str]:
    """What false conditions left out: those that have one, and what could not come after them."""
    skipped = {key for key, status in statuses.items() if status is _S.SKIPPED}
    found = skipped & declined
    after = [s for s in subtasks if s.id in skipped - found]
    return found | _barred(after, found, declined).keys()


def _skips(
    subtasks: Sequence[Subtask], statuses: Mapping[str, SubtaskStatus], declined: Set[str]
) -> dict[str, str]:
    """Pending subtasks that can never start, with the dependency that stands in the way."""
    if _BLOCKED.isdisjoint(statuses.values()):
        return {}
    pending = [s for s in subtasks if statuses[s.id] is _S.PENDING]
    blocked = {key for key, status in statuses.items() if status in _BLOCKED}
    return _barred(pending, blocked, declined)


def _barred(subtasks: Sequence[Subtask], blocked: Set[str], declined: Set[str]) -> dict[str, str]:
    """Those that cannot come after what is blocked, with the dependency that stands in the way."""
    found: dict[str, str] = {}
    hard = blocked - declined
    grew = True
    while grew:
        grew = False
        for subtask in subtasks:
            if subtask.id in found:
                continue
            barring = hard if subtask.after_skipped == "run" else blocked
            blocker = next((d for d in subtask.dependencies if d in found or d in barring), None)
            if blocker is not None:
                found[subtask.id] = blocker
                grew = True
    return found


def _ready(
    subtasks: Sequence[Subtask], statuses: Mapping[str, SubtaskStatus], declined: Set[str]
) -> list[Subtask]:
    completed = {key for key, status in statuses.items() if status is _S.COMPLETED}
    either = completed | declined
    return [
        subtask
        for subtask in subtasks
        if statuses[subtask.id] is _S.PENDING
        and (either if subtask.after_skipped == "run" else completed).issuperset(
            subtask.dependencies
        )
    ]


def _in_order(ready: Sequence[Subtask], wanted: Iterable[str]) -> list[Subtask]:
    left = {subtask.id: subtask for subtask in ready}
    first = [left.pop(key) for key in wanted if key in left]
    return first + list(left.values())


def _within(
    ready: Sequence[Subtask],
    subtasks: Sequence[Subtask],
    statuses: Mapping[str, SubtaskStatus],
    max_per_agent: int,
) -> list[Subtask]:
    """The ready ones whose agents have room for them."""
    busy = Counter(s.agent for s in subtasks if statuses[s.id] is _S.RUNNING)
    found: list[Subtask] = []
    for subtask in ready:
        if subtask.agent is None or busy[subtask.agent] < max_per_agent:
            busy[subtask.agent] += 1
            found.append(subtask)
    return found


def _is_due(standing: SubtaskStanding, now: datetime) -> bool:
    return standing.not_before is None or standing.not_before <= now


def _earliest(
    standings: Mapping[str, SubtaskStanding], ready: Sequence[Subtask], now: datetime
) -> datetime | None:
    later = [t for s in ready if (t := standings[s.id].not_before) is not None and t > now]
    return min(later, default=None)


# When the parts of a plan ran and waited, and which of them its end waited for.


def elapsed(since: datetime, until: datetime) -> float:
    """The seconds from one moment to a later one; none where the clock was set back between."""
    return max(0.0, (until - since).total_seconds())


class Span(NamedTuple):
    """From one moment to another."""

    since: datetime
    until: datetime

    @property
    def seconds(self) -> float:
        """How long."""
        return elapsed(self.since, self.until)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same time as spans that do not overlap, in order."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.since <= found[-1].until:
            found[-1] = Span(found[-1].since, max(found[-1].until, span.until))
        elif span.until >= span.since:
            found.append(span)
    return found


def actual_path(subtasks: Sequence[Subtask], ran: Mapping[str, Span]) -> tuple[str, ...]:
    """What the end waited for: from the subtask that ended last, back over what each waited for.

    Args:
        ran: Subtask id → when it ran; those that did not run are not in it.
    """
    by_id = {subtask.id: subtask for subtask in subtasks}
    path: list[str] = []
    left = [subtask.id for subtask in subtasks if subtask.id in ran]
    while left:
        last = max(left, key=lambda key: ran[key].until)
        path.append(last)
        left = [key for key in by_id[last].dependencies if key in ran and key not in path]
    return tuple(reversed(path))
