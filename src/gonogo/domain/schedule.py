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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from gonogo.domain.base import elapsed
from gonogo.domain.failures import MAX_DELAY, delay_after
from gonogo.domain.plan import Revision, Subtask
from gonogo.domain.states import SUBTASK, SUBTASK_LETTERS, PlanStatus, SubtaskStatus

_S = SubtaskStatus
_BLOCKED = frozenset({_S.FAILED, _S.CANCELLED, _S.SKIPPED})
_NONE: frozenset[str] = frozenset()
SLACK = timedelta(seconds=10)
"""By so much clocks differ that nobody has set."""
_LETTERS = {status: ord(letter) for status, letter in SUBTASK_LETTERS.items()}


class SubtaskStanding(NamedTuple):
    """Where a subtask stands."""

    status: SubtaskStatus
    not_before: datetime | None = None
    """A retry may not start earlier."""
    epoch: int = 0
    attempt: int = 0
    declined: bool = False
    """It was skipped because its own condition is false."""
    worked_ms: int = 0
    """What its attempt had worked before it last waited."""

    def moved(self, status: SubtaskStatus, to: Mapping[str, Any]) -> "SubtaskStanding":
        """Where it stands once its row has another status, and these columns other values."""
        known = {name: value for name, value in to.items() if name in self._fields}
        return self._replace(status=status, **known)


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


class Graph(Struct, frozen=True, kw_only=True):
    """The subtasks of one revision and what comes after what, worked out once."""

    subtasks: Mapping[str, Subtask]
    """By their ids, in plan order."""
    places: Mapping[str, int]
    """Subtask id → its place in the plan, from 1."""
    after: Mapping[str, Sequence[Subtask]]
    """Subtask id → those that depend on it."""
    needs: Mapping[str, int]
    """Subtask id → how many it depends on."""
    remaining: Mapping[str, float]
    """Subtask id → estimated minutes of the longest chain that begins with it."""

    @classmethod
    def of(cls, subtasks: Sequence[Subtask]) -> "Graph":
        """Work it out."""
        after: dict[str, list[Subtask]] = {subtask.id: [] for subtask in subtasks}
        for subtask in subtasks:
            for dependency in dict.fromkeys(subtask.dependencies):
                after[dependency].append(subtask)
        return cls(
            subtasks={subtask.id: subtask for subtask in subtasks},
            places={subtask.id: place for place, subtask in enumerate(subtasks, start=1)},
            after=after, needs={subtask.id: len({*subtask.dependencies}) for subtask in subtasks},
            remaining=remaining_minutes(subtasks),
        )  # fmt: skip


class Standings:
    """Where the subtasks of a revision stand, and what rounds ask of that.

    All of it is kept up to date as they move, so that a round costs what changed and not what the
    plan has.

    Attributes:
        graph: The subtasks.
        rows: Subtask id → where it stands, in plan order.
        counts: How many stand in each status.
        running: Those that run.
        ready: Those that are pending and whose dependencies are met.
        barred: Those that are pending and can never start.
    """

    __slots__ = (
        "_bars",
        "_letters",
        "_unmet",
        "barred",
        "counts",
        "graph",
        "ready",
        "rows",
        "running",
    )

    def __init__(self, graph: Graph, rows: Mapping[str, SubtaskStanding]) -> None:
        """Look at all of them once.

        Args:
            rows: One for each subtask, in any order.
        """
        self.graph = graph
        self.rows = {key: rows[key] for key in graph.subtasks}
        self.counts = Counter(dict.fromkeys(_S, 0))
        self.counts.update(row.status for row in rows.values())
        self._unmet, self._bars = dict(graph.needs), dict.fromkeys(rows, 0)
        for key, row in self.rows.items():
            if _counts_for_others(row):
                for subtask in graph.after[key]:
                    self._unmet[subtask.id] -= _lets_start(row, subtask)
                    self._bars[subtask.id] += _bars(row, subtask)
        self._letters = bytearray(_LETTERS[row.status] for row in self.rows.values())
        pending = [key for key, row in self.rows.items() if row.status is _S.PENDING]
        self.running = {key for key, row in self.rows.items() if row.status is _S.RUNNING}
        self.ready = {key for key in pending if not self._unmet[key]}
        self.barred = {key for key in pending if self._bars[key]}

    def put(self, key: str, row: SubtaskStanding) -> None:
        """Have a subtask stand elsewhere."""
        was, self.rows[key] = self.rows[key], row
        self.counts[was.status] -= 1
        self.counts[row.status] += 1
        self._letters[self.graph.places[key] - 1] = _LETTERS[row.status]
        if _counts_for_others(was) or _counts_for_others(row):
            for subtask in self.graph.after[key]:
                self._unmet[subtask.id] += _lets_start(was, subtask) - _lets_start(row, subtask)
                self._bars[subtask.id] += _bars(row, subtask) - _bars(was, subtask)
                self._sort_in(subtask.id)
        self._sort_in(key)

    def written(self) -> str:
        """Where each subtask stands, in plan order, a letter each."""
        return self._letters.decode()

    def count_ended(self) -> int:
        """How many are over."""
        return sum(map(self.counts.__getitem__, SUBTASK.terminal))

    def _sort_in(self, key: str) -> None:
        status = self.rows[key].status
        is_pending = status is _S.PENDING
        for found, has in (
            (self.running, status is _S.RUNNING),
            (self.ready, is_pending and not self._unmet[key]),
            (self.barred, is_pending and self._bars[key] > 0),
        ):
            if has:
                found.add(key)
            else:
                found.discard(key)


def _counts_for_others(row: SubtaskStanding) -> bool:
    """Whether a dependency that stands so can let a subtask start, or keep it from that."""
    return row.declined or row.status in SUBTASK.terminal


def _lets_start(row: SubtaskStanding, subtask: Subtask) -> bool:
    """Whether a dependency that stands so lets a subtask start."""
    return row.status is _S.COMPLETED or (row.declined and subtask.after_skipped == "run")


def _bars(row: SubtaskStanding, subtask: Subtask) -> bool:
    """Whether a dependency that stands so keeps a subtask from ever starting."""
    passed_over = row.declined and subtask.after_skipped == "run"
    return row.status in _BLOCKED and not passed_over


class Shape(Struct, frozen=True, kw_only=True):
    """One revision, and where everything in it is."""

    revision: Revision
    graph: Graph

    @classmethod
    def of(cls, revision: Revision) -> "Shape":
        """Look at a revision."""
        return cls(revision=revision, graph=Graph.of(revision.subtasks))

    def agent(self, subtask_id: str) -> str | None:
        """The agent that carries a subtask out."""
        return self.graph.subtasks[subtask_id].agent


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
    stand: Standings,
    *,
    max_parallel: int,
    now: datetime,
    max_per_agent: int | None = None,
    strategy: Strategy = by_plan_order,
    held: Collection[str] = (),
) -> Round:
    """Decide the next round of a running plan.

    Args:
        max_parallel: How many subtasks may run at once; one that waits for a person does not run.
        max_per_agent: How many of them may be one agent's.
        held: Pending subtasks that count as if they waited for a person.
    """
    rows, graph = stand.rows, stand.graph
    skip = _skips(stand, held) if stand.barred.difference(held) else {}
    ready = [
        graph.subtasks[key]
        for key in sorted(stand.ready.difference(held, skip), key=graph.places.__getitem__)
    ]
    due = [subtask for subtask in ready if not _waits(subtask, rows[subtask.id], now)]
    if len(due) > 1:
        seen = {**rows, **_as_waiting(rows, held)} if held else MappingProxyType(rows)
        due = _in_order(due, strategy(due, Outlook(standings=seen, remaining=graph.remaining)))
    if max_per_agent is not None:
        due = _within(due, [graph.subtasks[key] for key in stand.running], max_per_agent)
    running = len(stand.running)
    return Round(
        start=tuple(subtask.id for subtask in due[: max(0, max_parallel - running)]),
        skip=skip,
        outcome=_ends_with(stand, skip),
        wake_at=_earliest(rows, ready, now),
        waiting=not running and not ready and bool(held or stand.counts[_S.WAITING_APPROVAL]),
    )


def _as_waiting(
    rows: Mapping[str, SubtaskStanding], held: Iterable[str]
) -> dict[str, SubtaskStanding]:
    return {key: rows[key]._replace(status=_S.WAITING_APPROVAL) for key in held}


def _ends_with(stand: Standings, skip: Mapping[str, str]) -> PlanStatus | None:
    if stand.count_ended() + len(skip) < len(stand.rows):
        return None
    statuses = {key: row.status for key, row in stand.rows.items()}
    declined = {key for key, row in stand.rows.items() if row.declined}
    skipped = dict.fromkeys(skip, _S.SKIPPED)
    return outcome(list(stand.graph.subtasks.values()), {**statuses, **skipped}, declined)


def count_ended(statuses: Iterable[SubtaskStatus]) -> int:
    """How many of the subtasks are over."""
    counts = Counter(statuses)
    return sum(counts[status] for status in SUBTASK.terminal)


def count_settled(statuses: Iterable[SubtaskStatus], *, ended: bool) -> int:
    """How many of the subtasks are over for good.

    Args:
        ended: The plan has ended. While it goes on, another revision tries again what failed.
    """
    counts = Counter(statuses)
    return count_ended(counts.elements()) - (0 if ended else counts[_S.FAILED])


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


def _skips(stand: Standings, held: Collection[str]) -> dict[str, str]:
    """Pending subtasks that can never start, with the dependency that stands in the way."""
    rows = stand.rows
    pending = [
        subtask
        for key, subtask in stand.graph.subtasks.items()
        if rows[key].status is _S.PENDING and key not in held
    ]
    blocked = {key for key, row in rows.items() if row.status in _BLOCKED}
    return _barred(pending, blocked, {key for key, row in rows.items() if row.declined})


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


def _in_order(ready: Sequence[Subtask], wanted: Iterable[str]) -> list[Subtask]:
    left = {subtask.id: subtask for subtask in ready}
    first = [left.pop(key) for key in wanted if key in left]
    return first + list(left.values())


def _within(
    ready: Sequence[Subtask], running: Sequence[Subtask], max_per_agent: int
) -> list[Subtask]:
    """The ready ones whose agents have room for them."""
    busy = Counter(subtask.agent for subtask in running)
    found: list[Subtask] = []
    for subtask in ready:
        if subtask.agent is None or busy[subtask.agent] < max_per_agent:
            busy[subtask.agent] += 1
            found.append(subtask)
    return found


def _waits(subtask: Subtask, standing: SubtaskStanding, now: datetime) -> bool:
    """Whether a retry is still to wait: not for longer than any does, as the clock may be set."""
    until, policy = standing.not_before, subtask.retry_policy
    if until is None or until <= now:
        return False
    longest = MAX_DELAY if policy is None else delay_after(policy, standing.attempt)
    return until <= now + timedelta(seconds=longest) + SLACK


def _earliest(
    standings: Mapping[str, SubtaskStanding], ready: Sequence[Subtask], now: datetime
) -> datetime | None:
    later = (standings[s.id].not_before for s in ready if _waits(s, standings[s.id], now))
    return min(filter(None, later), default=None)


# When the parts of a plan ran and waited, and which of them its end waited for.


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
