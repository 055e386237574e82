"""Database rows as values, one field for each column.

A record is read in one transaction and may be stale in the next. Whoever changes a row compares
its status (and epoch) with those of the record, in the same statement.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Self

from msgspec import Struct

from gonogo.domain.errors import InvalidCursor
from gonogo.domain.states import (
    ApprovalKind,
    ApprovalStatus,
    CallStatus,
    PlanStatus,
    SubtaskStatus,
    TurnStatus,
)
from gonogo.domain.tool_calls import ToolClass

_NOT_A_PLACE = "after: use the `next` of a page of sessions"
MAIN = "main"
"""The thread of a session's own conversation; a subtask's thread is its key."""


class Session(Struct, frozen=True, kw_only=True):
    """A user's conversation with the runtime, bound to one workspace."""

    id: str
    principal_id: str
    title: str | None
    workspace: str
    locale: str | None
    spoken: str
    """The language of texts for people, detected in the user's last message."""
    tool_host: str
    agent: str
    active_plan_id: str | None
    last_seq: int
    deleted: bool
    created_at: datetime
    updated_at: datetime
    model: str | None = None
    """The model of its agents; None: the one that the process is configured with."""
    unattended: bool = False
    """Nobody can answer, so calls that would need a question are denied."""
    instructions: list[dict[str, Any]] | None = None
    """The instruction files that its planners got last: paths and digests."""
    limits: dict[str, float] | None = None
    """Its limits by `cost`, `tokens`, `requests` and `seconds`, set when it was opened."""


class SessionPlace(Struct, frozen=True):
    """A position in the list of sessions that stays valid when sessions come or go."""

    created_at: datetime
    id: str

    def text(self) -> str:
        """The position as the cursor that clients keep."""
        return f"{self.created_at.isoformat()}~{self.id}"

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse a cursor.

        Raises:
            InvalidCursor: it is none.
        """
        at, _, of = text.partition("~")
        try:
            moment = datetime.fromisoformat(at)
            place = cls(moment.astimezone(UTC), of)
        except (ValueError, OverflowError):
            raise InvalidCursor(_NOT_A_PLACE) from None
        if moment.tzinfo is None or not of:
            raise InvalidCursor(_NOT_A_PLACE)
        return place


class Turn(Struct, frozen=True, kw_only=True):
    """The work from one user message."""

    id: str
    session_id: str
    position: int
    content: str
    agent: str
    """The agent that answers; empty until the turn begins if the message names none."""
    status: TurnStatus
    epoch: int
    created_at: datetime
    finished_at: datetime | None
    principal_id: str | None = None
    """The author of the message."""
    away: dict[str, Any] | None = None
    """If it waits for a model that does not answer: the model's absence."""
    steered: bool = False
    """A person has sent its agent a message while it was under way."""


class Plan(Struct, frozen=True, kw_only=True):
    """A plan, without the contents of its revisions."""

    id: str
    session_id: str
    turn_id: str | None
    """The turn whose agent proposed it; None: a person wrote it."""
    goal: str
    original_task: str
    status: PlanStatus
    revision: int
    digest: str
    auto_approve_tools: bool
    max_parallel: int
    created_at: datetime
    approved_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    feedback: str | None
    pause_reason: str | None = None
    """Why a plan was paused, if no person paused it: `quota`, `model`, `budget`, `disk`."""
    paused_until: datetime | None = None
    """When a plan that waits for a quota continues, or when its model is asked again."""
    replans: int = 0
    """Number of revisions that were requested because a subtask failed."""
    replan: dict[str, Any] | None = None
    """The replanning that is under way: its reason and its state."""
    floor: int = 0
    """The highest progress reported for earlier revisions, in thousandths: it never falls."""
    budget: dict[str, Any] | None = None
    """`{limits, runs}`: limits that people set instead of those of the settings, and the number of
    runs of subtasks so far."""
    again: list[dict[str, str]] | None = None
    """`{subtask_id, by}` each: retries that people asked for, which wait until nothing runs."""
    rollback: dict[str, Any] | None = None
    """`{checkpoint_id, subtask_id, whole, pause}` while a rollback is under way: what it undoes,
    and why the plan was paused before."""
    revising: dict[str, Any] | None = None
    """`{id, by, comments, began}` while the planner looks for a revision that answers comments."""
    asked_by: list[str] | None = None
    """Who caused changes: edited it, requested a replan, or sent it back to its planner."""
    away: dict[str, Any] | None = None
    """If the plan is paused because its model does not answer: the model's absence."""
    approved_revision: int | None = None
    """The revision that was approved last; only this one ever runs."""
    instructions: list[dict[str, Any]] | None = None
    """The instruction files that the planner of the current revision got."""
    steered: list[str] | None = None
    """The subtasks that a person has sent a message to while they were under way."""


class Comment(Struct, frozen=True, kw_only=True):
    """A person's comment on a plan, or on one of its subtasks, before the decision."""

    id: str
    session_id: str
    plan_id: str
    revision: int
    """The revision that the comment is about."""
    subtask_id: str | None
    author_id: str
    author: str
    content: str
    created_at: datetime
    answer: str | None = None
    """The planner's answer."""
    answered_revision: int | None = None
    """The revision that the planner proposed with the answer."""
    answered_at: datetime | None = None


class SubtaskRow(Struct, frozen=True, kw_only=True):
    """The state of one subtask in one revision. `key` identifies its thread and its job."""

    key: str
    plan_id: str
    revision: int
    subtask_id: str
    position: int
    status: SubtaskStatus
    attempt: int
    epoch: int
    not_before: datetime | None
    started_at: datetime | None
    active_since: datetime | None
    finished_at: datetime | None
    result: Any
    error: dict[str, Any] | None
    reason: str | None
    declined: bool = False
    """It was skipped because its own condition is false."""
    worked_ms: int = 0
    """Milliseconds that the attempt had worked when it last gave up its place, without waits."""


class CallRow(Struct, frozen=True, kw_only=True):
    """One tool call, from its proposal to its one result."""

    id: str
    session_id: str
    thread: str
    turn_id: str | None
    plan_id: str | None
    revision: int | None
    subtask_id: str | None
    position: int
    agent: str
    tool: str
    tool_class: ToolClass
    arguments: dict[str, Any]
    proposed_arguments: dict[str, Any] | None
    base_hashes: dict[str, str | None]
    effects: list[dict[str, Any]]
    digest: str
    status: CallStatus
    verdict: dict[str, Any]
    approval_id: str | None
    retry_of: str | None
    """The call with an unknown outcome that this call repeats, as a person decided."""
    result: Any
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    tree: str | None = None
    """The snapshot of the workspace that was taken before a command started."""
    judgings: int = 0
    """How many times the judging of the call began and did not end."""

    @property
    def is_held(self) -> bool:
        """Whether its result is held back until a person has decided about what it left behind."""
        came = self.result is not None or self.error is not None
        return self.status is CallStatus.STARTED and came

    @property
    def is_at_work(self) -> bool:
        """Whether it is being carried out."""
        started = self.status is CallStatus.STARTED and not self.is_held
        return started and self.tool_class is not ToolClass.CONTROL

    def waits_for_person(self, retried: Collection[str | None]) -> bool:
        """Whether it needs a person's answer.

        Args:
            retried: The ids of calls that were repeated as other calls.
        """
        if self.status is CallStatus.UNKNOWN:
            return self.id not in retried
        if self.status is CallStatus.STARTED:
            return self.tool_class is ToolClass.CONTROL
        return self.status is CallStatus.AWAITING_APPROVAL


class Watch(Struct, frozen=True, kw_only=True):
    """The guarded paths of a workspace before a command, kept until the check after it."""

    call_id: str
    session_id: str
    workspace: str
    marks: dict[str, str]
    """The guarded paths, each with a mark of its content."""
    expects: list[str]
    """Globs of paths that the command was allowed to make."""
    found: list[str] | None = None
    """Unexpected paths; None: the check after the command has not run yet."""
    ended: str | None = None
    """How the call ended, while it waits for a person's decision about the unexpected paths."""
    taken_by: str | None = None
    """The name of the person who had them removed."""
    created_at: datetime


class Approval(Struct, frozen=True, kw_only=True):
    """A durable question to a person, and its answer."""

    id: str
    session_id: str
    kind: ApprovalKind | str
    subject: str
    details: dict[str, Any]
    reason: str
    digest: str
    status: ApprovalStatus
    turn_id: str | None
    plan_id: str | None
    revision: int | None
    subtask_id: str | None
    call_id: str | None
    created_at: datetime
    expires_at: datetime | None
    decided_by: str | None
    decided_at: datetime | None
    decision: dict[str, Any] | None
    requested_by: str | None = None
    """The principal who sent the message that led to it."""
    review: dict[str, Any] | None = None
    """Who decides it, as a `Review`, if a review rule applies to it."""
    group_key: str | None = None
    """A key that identical questions share."""
    escalated_at: datetime | None = None


class Vote(Struct, frozen=True, kw_only=True):
    """One person's approval of a question that needs several; a later vote replaces it."""

    approval_id: str
    principal_id: str
    name: str
    ruling: dict[str, Any]
    """What was approved, as `{decision, ballot, changes?, …}`; votes with equal ballots agree."""
    created_at: datetime


class GrantRow(Struct, frozen=True, kw_only=True):
    """The permissions that an approved revision gives to one of its subtasks."""

    id: str
    session_id: str
    plan_id: str
    revision: int
    subtask_id: str
    scope: dict[str, Any] | None
    status: str
    created_at: datetime
    ended_at: datetime | None
    ended_because: str | None


class SessionRule(Struct, frozen=True, kw_only=True):
    """A rule that a person made for one session. `position` is the number in its name."""

    id: str
    session_id: str
    position: int
    rule: dict[str, Any]
    made_by: str
    created_at: datetime
    ended_at: datetime | None
    plan_id: str | None
    """The plan that it applies to; None: the whole session."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A state that a rollback can return to."""

    id: str
    session_id: str
    plan_id: str
    revision: int
    subtask_id: str | None
    """The subtask that was about to start, or whose failed attempt was about to be undone; None:
    another rollback was about to start."""
    attempt: int
    reason: str
    standings: str
    """The status of each subtask in plan order, as `SUBTASK_LETTERS`."""
    event_seq: int
    last_change: int
    """The id of the last row of `file_changes` that it covers."""
    tree: str | None
    """The id of the snapshot; None until the subtask is about to change something."""
    hash: str
    created_at: datetime
    swept_at: datetime | None = None
    """When its snapshot and its file changes were deleted; not part of the hash."""


class FileChange(Struct, frozen=True, kw_only=True):
    """One call's change of one file. States are those of snapshots, as JSON; None: no file."""

    id: int
    session_id: str
    plan_id: str | None
    revision: int | None
    subtask_id: str | None
    call_id: str | None
    workspace: str
    path: str
    origin: str
    """`tool`, `command`, or `rollback`."""
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    created_at: datetime


class ModelRequestRow(Struct, frozen=True, kw_only=True):
    """One request to a model: `reserved` before it is sent, then `done` or `failed`."""

    id: str
    session_id: str
    plan_id: str | None
    subtask_id: str | None
    thread: str
    agent: str
    model: str
    status: str
    input_tokens: int
    output_tokens: int
    cost_micros: int
    """Millionths of a US dollar."""
    duration_ms: int | None
    created_at: datetime
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class Timer(Struct, frozen=True, kw_only=True):
    """Something to do at a given time, by whichever process runs then."""

    kind: str
    key: str
    run_at: datetime


# Several processes on one database: see `store.places`.


class Node(Struct, frozen=True, kw_only=True):
    """A process that shares the database: a server or a worker."""

    id: str
    kind: str
    """`server` or `worker`."""
    host: str
    pid: int
    pool: str | None
    """The pool whose workspaces a worker takes; None for a server."""
    capacity: int
    """How many workspaces a worker works in at a time; 0 for a server."""
    version: str
    started_at: datetime
    beat_at: datetime
    """The time of its last heartbeat, by the clock of the database."""
    draining: bool
    """It takes no more workspaces and hands over those it has."""
    lives: bool
    """Its last heartbeat is recent."""
    places: int
    """How many workspaces it owns."""
    policy: str | None = None
    """A digest of its rules."""
    labels: Mapping[str, str] | None = None


class PlaceRow(Struct, frozen=True, kw_only=True):
    """A workspace, and the worker that owns it."""

    id: str
    path: str
    pool: str
    fence: int
    """A number that increases with each new owner."""
    owner: str | None
    """The id of the owner's node."""
    placed: bool
    """It has work, or had some recently."""
    host: str | None
    pid: int | None
    lives: bool | None
    """The last heartbeat of its owner is recent; None without an owner."""
    beat_at: datetime | None
    """The time of its owner's last heartbeat."""


class PlaceOwner(Struct, frozen=True, kw_only=True):
    """The worker that owns a workspace."""

    node: str
    fence: int
    since: datetime
    host: str | None
    """None if the worker is no longer known."""
    pid: int | None


class Job(Struct, frozen=True):
    """Work to do now: drive one turn, plan or subtask as far as possible.

    `epoch` is the row's epoch when the job was made, if its kind has one; it proves who may write.
    """

    kind: str
    key: str
    epoch: int = 0
    since: datetime | None = None
    """When the work began that this job continues, if it was known when the job was made."""
    found: Any = None
    """What was read when the work was taken for this job; known only in the same process."""
    begun: Any = None
    """What was already marked as started for this job to carry out; only in the same process."""


class JobStop(Struct, frozen=True):
    """A running job has lost its work: end what it spawned."""

    kind: str
    key: str
