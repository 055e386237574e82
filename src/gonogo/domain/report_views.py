"""What clients are shown of the audit chains, and in reports."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from gonogo.domain.base import View


class AuditEntry(View):
    """One link of an audit chain."""

    chain: str
    """A session's id, or `system`."""
    seq: int
    ts: datetime
    actor: str
    actor_name: str | None = None
    """The actor's name as it is now, where it is a person who is known."""
    action: str
    subject: str
    details: dict[str, Any]
    prev_hash: str
    hash: str
    seal: str | None = None
    """What the hash covers in the place of the details: SHA-256 of the salt and of them. An entry
    of an earlier version has none."""
    salt: str | None = None
    """An entry with a seal and no salt says nothing any more: its session was deleted."""
    about: str | None = None
    """The subject, and of a call the command or the file."""
    why: str | None = None
    """By which rule, grant or person, with which words: in the language that was asked for."""


class AuditHead(View):
    """A place in an audit chain, and the hash of the entry there."""

    chain: str
    seq: int
    hash: str


class AuditRemoved(AuditHead):
    """The last of the entries that were removed from a chain's beginning."""

    removed_at: datetime


class AuditReport(View):
    """What `audit verify` found."""

    ok: bool
    chains: int
    entries: int
    problems: list[str]
    removed: list[AuditRemoved] = []
    """What is not there any more, and is on record as exported and removed."""
    older: list[AuditHead] = []
    """Heads of an anchor that were removed since: the export has them."""
    parts: dict[str, dict[str, Any]] = {}
    """Of `problems`, by the text: `template` and `params`, as problem documents have them."""


class AuditAnchor(View):
    """Where all audit chains stood. `text` is what to keep elsewhere."""

    text: str
    at: str
    seq: int
    hash: str
    chains: int
    heads: str


# What came of the work over some time: rates, durations, causes, and how people answered.
#
# Rates and percentiles are absent where there is nothing to take them of. Durations are wall time,
# in seconds, with the time in them that was spent waiting for people.

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
    cached_tokens: int = 0
    """How many of the input came from the provider's cache."""
    cache_write_tokens: int = 0
    """How many of the input went into it."""
    output_tokens: int
    reasoning_tokens: int = 0
    """How many of the output the model thought with."""
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
