"""What came of the work over some time: rates, durations, causes, and how people answered.

Rates and percentiles are absent where there is nothing to take them of. Durations are wall time, in
seconds, with the time in them that was spent waiting for people.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from math import ceil

from gonogo.domain.base import View

WINDOW = timedelta(days=30)
"""What is looked at when nobody says since when."""
SAMPLE = 20_000
"""Durations that percentiles are taken of, the newest ones; counts are always of everything."""


class Percentiles(View):
    """How long it took: half of `count` took no longer than `p50`."""

    count: int
    p50: float
    p90: float
    p99: float


class PlanOutcomes(View):
    """Plans that had begun and ended in the time."""

    ended: int = 0
    completed: int = 0
    partial: int = 0
    failed: int = 0
    cancelled: int = 0
    success_rate: float | None = None
    """Those that completed, of those that ended."""
    replans: int = 0
    """How often these plans were sent back for another revision."""
    rollbacks: int = 0
    duration_seconds: Percentiles | None = None


class SubtaskOutcomes(View):
    """Subtasks that ended in the time: all, those of one worker, or those of one type.

    A subtask that was done again in a later revision of its plan ended more than once.
    """

    name: str
    """An agent, `tool:` and a tool (a validation's own one too), `model`, `kind:` and a kind that
    was installed; or a type; or `all`."""
    ended: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    retries: int = 0
    """Further attempts."""
    success_rate: float | None = None
    """Those that completed, of those that completed or failed."""
    duration_seconds: Percentiles | None = None
    """From their first start to their end."""


class FailureCause(View):
    """Why subtasks failed, most frequent first."""

    category: str
    worker: str
    type: str
    count: int


class ApprovalOutcomes(View):
    """Questions of one kind that were asked in the time."""

    kind: str
    asked: int
    pending: int = 0
    answers: dict[str, int] = {}
    """approved, edited, rejected, expired, cancelled, superseded: how many each."""
    latency_seconds: Percentiles | None = None
    """From the question to a person's answer."""


class CallOutcomes(View):
    """Uses of tools that were asked for in the time; those that only speak to gonogo left out."""

    asked: int = 0
    started: dict[str, int] = {}
    """By what let them run: rule, grant, person."""
    ended: dict[str, int] = {}
    """By how they ended: completed, failed, denied, rejected, expired, cancelled, unknown."""


class ModelUse(View):
    """What one model was asked for in the time."""

    model: str
    requests: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost_dollars: float


class Analytics(View):
    """What came of the work from `since` until `until`."""

    since: datetime
    until: datetime
    session_id: str | None = None
    plans: PlanOutcomes
    subtasks: SubtaskOutcomes
    by_worker: list[SubtaskOutcomes]
    by_type: list[SubtaskOutcomes]
    failures: list[FailureCause]
    approvals: list[ApprovalOutcomes]
    tool_calls: CallOutcomes
    models: list[ModelUse]


def percentile(ordered: list[float], part: float) -> float:
    """The smallest of the values that at least `part` of them do not exceed.

    Args:
        ordered: At least one value, ascending.
    """
    return ordered[max(0, ceil(part * len(ordered)) - 1)]


def percentiles(values: Iterable[float]) -> Percentiles | None:
    """The usual percentiles, rounded to milliseconds; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    p50, p90, p99 = (round(percentile(ordered, part), 3) for part in (0.5, 0.9, 0.99))
    return Percentiles(count=len(ordered), p50=p50, p90=p90, p99=p99)


def rate(good: int, of: int) -> float | None:
    """A part of a whole, to four digits; None of nothing."""
    return round(good / of, 4) if of else None
