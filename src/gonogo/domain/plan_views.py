"""What clients are shown of plans: how far they are, what changed, what was or can be undone."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Literal, cast

from msgspec import Struct

from gonogo.domain.base import Filter, Page, View
from gonogo.domain.checks import DoneCheck
from gonogo.domain.plan import Revision, Subtask
from gonogo.domain.states import PlanStatus, SubtaskStatus


class ModelUsageView(View):
    """What requests to models took; one under way counts as what it was estimated to."""

    requests: int
    input_tokens: int
    cached_tokens: int = 0
    """How many of the input came from the provider's cache."""
    cache_write_tokens: int = 0
    """How many of the input went into it."""
    output_tokens: int
    reasoning_tokens: int = 0
    """How many of the output the models thought with."""
    tokens: int
    """Input and output together."""
    cost: float
    """US dollars, as far as prices are known."""
    unpriced_requests: int
    """Replies whose price is not known; they count as nothing in `cost`."""


class SubtaskView(View):
    """A subtask as planned, and where it stands."""

    id: str
    description: str
    agent: str | None = None
    tool: str | None = None
    type: str
    dependencies: list[str]
    estimated_time: str
    status: SubtaskStatus
    attempt: int
    scope: dict[str, Any] | None = None
    approval_required: bool = False
    inputs: dict[str, Any] | None = None
    condition: str | None = None
    after_skipped: str | None = None
    on_reject: str | None = None
    retry_policy: dict[str, Any] | None = None
    timeout: float | None = None
    done_when: list[DoneCheck] | None = None
    """The checks that have to hold before it counts as done."""
    must_change: bool | None = None
    result: Any = None
    error: dict[str, Any] | None = None
    reason: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_seconds: float | None = None
    rolled_back: bool | None = None
    """A rollback took back what it did, or what it is built on; absent where it did not, or where
    that rollback was undone. Its status stays as it was."""
    usage: ModelUsageView | None = None
    """What it took over all its attempts; only in the status of a plan, and once it asked."""


STANDING = frozenset(SubtaskView.model_fields) - frozenset(Subtask.model_fields)
"""What is shown of a subtask besides what was planned: where it stands."""


def as_planned(raw: Any) -> Any:  # noqa: ANN401 - as a stranger wrote it
    """Subtasks as somebody sends them back who was shown them: where they stand is no plan."""
    if not isinstance(raw, list):
        return raw
    items = cast("list[Any]", raw)
    return [_planned(cast("dict[str, Any]", i)) if isinstance(i, dict) else i for i in items]


def _planned(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name not in STANDING}


class InstructionFileView(View):
    """What a planner was told of an instruction file, or of the list of skills."""

    path: str
    source: Literal["user", "repository", "skills"]
    sha256: str | None = None
    """Of the whole file."""
    bytes: int
    """Of the whole file."""
    how: str
    """`whole`, `cut`, `named`, `same`, `offered`, `diff`, `changed`: see the protocol."""
    cut: bool
    """There is more in it than was told."""


class PlanView(View):
    """A plan in its current revision."""

    plan_id: str
    session_id: str
    goal: str
    original_task: str
    status: PlanStatus
    revision: int
    digest: str
    requires_approval: bool = True
    is_approved: bool
    """Whether this revision was."""
    approved_revision: int | None = None
    """The revision that was approved last, and that runs; another one waits to be decided."""
    auto_approve_tools: bool = True
    subtasks: list[SubtaskView]
    critical_path: list[str]
    pause_reason: str | None = None
    """Why a paused plan is paused where nobody asked for it: `quota`, `model`, `budget`,
    `rollback`."""
    paused_until: datetime | None = None
    """When a plan that is paused for a quota goes on by itself, or its model is asked again."""
    created_at: datetime
    approved_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    feedback: str | None = None
    revising: bool | None = None
    """The planner looks for a revision that answers comments; it can be decided meanwhile."""
    instructions: list[InstructionFileView] | None = None
    """The instruction files that its planner was told of; absent where there were none."""
    made_by: str | None = None
    """The person who wrote it; absent where an agent proposed it."""


class WantedPlans(Page):
    """Which plans a list shows."""

    session_id: Filter = None
    status: PlanStatus | None = None


class PlanList(View):
    """Plans, newest first."""

    plans: list[PlanView]
    total: int


class CommentView(View):
    """What a person said of a plan. `answer` has the words of its planner."""

    comment_id: str
    plan_id: str
    revision: int
    subtask_id: str | None = None
    author: str
    content: str
    created_at: datetime
    answer: str | None = None
    answered_revision: int | None = None
    answered_at: datetime | None = None


class CommentList(View):
    """The comments on a plan, oldest first."""

    plan_id: str
    comments: list[CommentView]
    open: int
    """How many have no answer."""


class UsageView(ModelUsageView):
    """What a plan took so far; a model request under way counts as what it was estimated to."""

    seconds: float
    """Wall time since the plan's start."""
    subtasks: int
    """Runs of subtasks that were begun, retries included."""


class PlanStatusView(View):
    """How far a plan is."""

    plan_id: str
    status: PlanStatus
    revision: int
    current_step: int
    total_steps: int
    progress: float
    """Per cent of the subtasks that are over."""
    pause_reason: str | None = None
    """Why a paused plan is paused where nobody asked for it: `quota`, `model`, `budget`,
    `rollback`."""
    paused_until: datetime | None = None
    """When a plan that is paused for a quota goes on by itself, or its model is asked again."""
    usage: UsageView | None = None
    limits: dict[str, float] | None = None
    """The limits of its budget that are set, by `tokens`, `cost`, `seconds`, `requests`,
    `subtasks`, and `session_tokens`, `session_cost`, `session_requests`."""
    again: list[str] | None = None
    """Subtasks that a person asked to have tried again, as soon as nothing of it is under way."""
    refused: int | None = None
    """How many of its calls were denied, rejected, or left unanswered until they expired."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    subtasks: list[SubtaskView]


class RevisionView(View):
    """One immutable revision."""

    plan_id: str
    revision: int
    digest: str
    goal: str
    subtasks: list[Subtask]
    created_at: datetime
    created_by: str
    reason: str


class PlanDiff(View):
    """What changed between two revisions."""

    plan_id: str
    from_revision: int
    to_revision: int
    added: list[Subtask]
    removed: list[Subtask]
    changed: list[dict[str, Any]]
    """`{id, fields: {name: {from, to}}}` each."""


class FindingView(View):
    """One thing to know of a plan, in words; an error refuses it."""

    severity: Literal["error", "warning", "info"]
    code: str
    subtask_id: str | None = None
    message: str


class PlanCheck(View):
    """What would be said of subtasks that a person writes; nothing has changed by it."""

    ok: bool
    """They would be taken."""
    problem: str | None = None
    """Why they cannot be read; there are no findings then."""
    subtask_id: str | None = None
    """The subtask that has the problem, if one does."""
    findings: list[FindingView] = []
    critical_path: list[str] = []


class Wait(View):
    """A time in which a subtask waited for a person; up to `as_of` if it still does."""

    since: datetime
    until: datetime


class GraphNode(SubtaskView):
    """A subtask with its times. `duration_seconds` has in it what it waited."""

    waits: list[Wait] = []
    waited_seconds: float | None = None
    """For people."""


class PlanGraph(View):
    """A plan as a graph to draw, or as a timeline, as it stood at `as_of`."""

    plan_id: str
    session_id: str
    revision: int
    status: PlanStatus
    as_of: datetime
    last_seq: int
    """The place in the session's log that it stands for; what follows changes it."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    nodes: list[GraphNode]
    edges: list[dict[str, str]]
    """`{from, to}` each: `to` waits for `from`."""
    critical_path: list[str]
    """The longest chain by what was estimated."""
    actual_path: list[str]
    """The chain that its end waited for, by what came of it so far."""


# What changed between two revisions of a plan.


class PlanChanges(Struct, frozen=True, kw_only=True):
    """Subtasks that came, went, or are other than they were."""

    added: tuple[Subtask, ...]
    removed: tuple[Subtask, ...]
    changed: tuple[tuple[str, dict[str, Any]], ...]
    """Subtask id, and by field `{"from", "to"}`."""


def plan_changes(before: Revision, after: Revision) -> PlanChanges:
    """What the second revision has otherwise than the first."""
    old, new = before.by_id, after.by_id
    fields = {key: _changed(old[key], new[key]) for key in new if key in old}
    return PlanChanges(
        added=tuple(subtask for key, subtask in new.items() if key not in old),
        removed=tuple(subtask for key, subtask in old.items() if key not in new),
        changed=tuple((key, each) for key, each in fields.items() if each),
    )


def plan_diff(before: Revision, after: Revision) -> PlanDiff:
    """The same as clients are told."""
    changes = plan_changes(before, after)
    return PlanDiff(
        plan_id=after.plan_id, from_revision=before.number, to_revision=after.number,
        added=list(changes.added), removed=list(changes.removed),
        changed=[{"id": key, "fields": fields} for key, fields in changes.changed],
    )  # fmt: skip


def _changed(before: Subtask, after: Subtask) -> dict[str, Any]:
    old, new = (s.model_dump(mode="json", exclude_none=True) for s in (before, after))
    names = (name for name in type(after).model_fields if old.get(name) != new.get(name))
    return {name: {"from": old.get(name), "to": new.get(name)} for name in names}


# What clients are shown of checkpoints and rollbacks.


class CheckpointView(View):
    """A place that a rollback can go back to.

    `subtask_id` is the subtask that it was taken before; absent for one before a rollback, and for
    one that a person asked for. `tree`
    is the snapshot of the workspace; absent while the subtask has had no effect.
    """

    checkpoint_id: str
    session_id: str
    plan_id: str
    revision: int
    subtask_id: str | None = None
    attempt: int
    reason: str
    event_seq: int
    tree: str | None = None
    hash: str
    created_at: datetime
    swept_at: datetime | None = None
    """When its snapshot was given up: it is listed, and cannot be gone back to."""


class CheckpointList(View):
    """A page of a plan's checkpoints, oldest first; `total` counts all of them."""

    checkpoints: list[CheckpointView]
    total: int


class CheckpointSubtask(View):
    """Where a subtask stood when a checkpoint was taken, and what had come of it."""

    id: str
    status: SubtaskStatus
    result: Any = None
    error: dict[str, Any] | None = None


class CheckpointState(CheckpointView):
    """A checkpoint with the state that it stores.

    `verified`: it says what it said when it was written, and its snapshot is whole.
    """

    verified: bool
    subtasks: list[CheckpointSubtask]


class FileDiff(View):
    """How one file differs; what could deceive stands as visible escapes."""

    path: str
    status: Literal["added", "deleted", "modified"]
    diff: str
    """A unified diff; empty where the content is not shown."""


class CheckpointDiff(View):
    """What differs between a checkpoint's snapshot and another one, or the workspace now."""

    checkpoint_id: str
    to: str | None = None
    files: list[FileDiff]
    truncated: bool = False


class ChangedFile(View):
    """What became of one file, over all that was done to it.

    `unknown`: nobody could tell what was changed there. `.` is the whole workspace.
    """

    path: str
    status: Literal["added", "deleted", "modified", "unknown"]
    lines_added: int | None = None
    lines_removed: int | None = None
    subtasks: list[str]
    """Those that changed it, in their order; agents outside of plans have no name here."""
    diff: str = ""
    """The hunks of a unified diff; what could deceive stands as visible escapes."""
    withheld: Literal["secret", "no_text", "more"] | None = None
    """Why the diff is not there, or not all of it: a file of secrets; no text, a very long one, or
    one that is kept no more; more than one answer holds."""


class ChangesBy(View):
    """What one subtask, or what agents did outside of plans, came to."""

    plan_id: str | None = None
    subtask_id: str | None = None
    files: int
    lines_added: int
    lines_removed: int


class Changes(View):
    """What a plan, a subtask or a session did to files: one difference from first to last."""

    session_id: str
    plan_id: str | None = None
    subtask_id: str | None = None
    files: list[ChangedFile]
    """A page of them, by path."""
    total: int
    lines_added: int
    """Of all files whose lines can be counted, not of this page alone."""
    lines_removed: int
    by: list[ChangesBy]


class RollbackFile(View):
    """What a rollback does about one file.

    `shared`: it changed while a command ran, so it may be a person's edit. `reason` says why a
    conflict stays as it is.
    """

    path: str
    action: Literal["restore", "delete", "conflict", "shared"]
    reason: str | None = None


class RollbackView(View):
    """What a rollback did; for a dry run, what it would do."""

    plan_id: str
    dry_run: bool
    checkpoint_id: str | None = None
    """The checkpoint that was taken before the rollback: going back to it undoes it."""
    subtasks: list[str]
    """The subtasks that are undone."""
    files: list[RollbackFile]
    restored: int
    conflicts: int
    shared: int
    again: list[str] = []
    """The subtasks that will run again when the plan goes on."""


# What clients are shown of the audit chains, and in reports.


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
