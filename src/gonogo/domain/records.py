"""Rows as values: what the store keeps of each thing, field for column.

Records are read in one transaction and may be stale in the next; whoever changes a thing compares
the status (and epoch) that the record shows with the row's, in the same statement.
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
    """The language of texts for people, as the last message of the user settled it."""
    tool_host: str
    agent: str
    active_plan_id: str | None
    last_seq: int
    deleted: bool
    created_at: datetime
    updated_at: datetime
    model: str | None = None
    """The model that its agents ask; None: the one that the process is configured with."""
    unattended: bool = False
    """Nobody can answer: what would ask is denied."""
    instructions: list[dict[str, Any]] | None = None
    """The instruction files that its planners were told of last: paths and digests."""
    limits: dict[str, float] | None = None
    """What it may take in all, by `cost`, `tokens`, `requests`, `seconds`, as it was opened."""


class SessionPlace(Struct, frozen=True):
    """A place in the list, which is the same however many sessions came or went meanwhile."""

    created_at: datetime
    id: str

    def text(self) -> str:
        """The place as clients keep it."""
        return f"{self.created_at.isoformat()}~{self.id}"

    @classmethod
    def read(cls, text: str) -> Self:
        """The place that a text names.

        Raises:
            InvalidCursor: it names none.
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
    """Who answers; empty until the turn begins, when nobody was named."""
    status: TurnStatus
    epoch: int
    created_at: datetime
    finished_at: datetime | None
    principal_id: str | None = None
    """Whose message it is."""
    away: dict[str, Any] | None = None
    """The absence of the model that it waits for, if it does."""
    steered: bool = False
    """A person has said something to it while it was under way."""


class Plan(Struct, frozen=True, kw_only=True):
    """A plan: its life, whatever its current revision says."""

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
    """Why a paused plan is paused, where nobody asked for it: `quota`, `model`, `budget`."""
    paused_until: datetime | None = None
    """When a plan that was paused for a quota goes on by itself, or its model is asked again."""
    replans: int = 0
    """Revisions that were asked for because a subtask failed."""
    replan: dict[str, Any] | None = None
    """What the replanning under way is about."""
    floor: int = 0
    """Progress in thousandths that was told of earlier revisions: it never falls."""
    budget: dict[str, Any] | None = None
    """`{limits, runs}`: what people set in the place of the settings' limits, and how many runs
    of subtasks were counted."""
    again: list[dict[str, str]] | None = None
    """`{subtask_id, by}` each: what people asked to have tried again once nothing of it runs."""
    rollback: dict[str, Any] | None = None
    """`{checkpoint_id, subtask_id, whole, pause}` from a rollback's checkpoint until it is written:
    what is undone, and why the plan was paused before."""
    revising: dict[str, Any] | None = None
    """`{id, by, comments, began}` while the planner looks for a revision that answers comments."""
    asked_by: list[str] | None = None
    """Who has had it changed: edited it, ordered a replan, or sent it back to its planner."""
    away: dict[str, Any] | None = None
    """The absence of the model that a plan waits for which is paused for that."""
    approved_revision: int | None = None
    """The revision that was approved last: nothing else of the plan ever runs."""
    instructions: list[dict[str, Any]] | None = None
    """The instruction files that the planner of its current revision was told of."""
    steered: list[str] | None = None
    """The subtasks to which a person has said something while they were under way."""


class Comment(Struct, frozen=True, kw_only=True):
    """What a person said of a plan, or of one of its subtasks, before it was decided."""

    id: str
    session_id: str
    plan_id: str
    revision: int
    """The revision that they saw."""
    subtask_id: str | None
    author_id: str
    author: str
    content: str
    created_at: datetime
    answer: str | None = None
    """The planner's words."""
    answered_revision: int | None = None
    """The revision that came with the answer."""
    answered_at: datetime | None = None


class SubtaskRow(Struct, frozen=True, kw_only=True):
    """Where one subtask of one revision stands. `key` names its thread and its job."""

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
    """What the attempt had worked when it last gave up its place, waiting not counted."""


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
    """The call of unknown outcome that a person had run again as this one."""
    result: Any
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    tree: str | None = None
    """The snapshot of the workspace that was taken before a command started."""
    judgings: int = 0
    """How often somebody who took the call up began to judge it, and came to no end."""

    @property
    def is_held(self) -> bool:
        """Whether what came of it is kept back until a person has decided about what it left."""
        came = self.result is not None or self.error is not None
        return self.status is CallStatus.STARTED and came

    @property
    def is_at_work(self) -> bool:
        """Whether somebody carries it out."""
        started = self.status is CallStatus.STARTED and not self.is_held
        return started and self.tool_class is not ToolClass.CONTROL

    def waits_for_person(self, retried: Collection[str | None]) -> bool:
        """Whether a person has to do something about it.

        Args:
            retried: The calls that were run again as others.
        """
        if self.status is CallStatus.UNKNOWN:
            return self.id not in retried
        if self.status is CallStatus.STARTED:
            return self.tool_class is ToolClass.CONTROL
        return self.status is CallStatus.AWAITING_APPROVAL


class Watch(Struct, frozen=True, kw_only=True):
    """What stood guarded in a workspace before a command, until somebody has looked after it."""

    call_id: str
    session_id: str
    workspace: str
    marks: dict[str, str]
    """The guarded names, as paths are kept, with what stood there."""
    expects: list[str]
    """Globs of those that whoever allowed the command knows that it makes."""
    found: list[str] | None = None
    """The names that nobody expected; None: nobody has looked yet."""
    ended: str | None = None
    """How the call ended that waits for what a person says of them."""
    taken_by: str | None = None
    """The name of who had them taken away."""
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
    """Who decides it: a `Review`, where a rule of review spoke of it."""
    group_key: str | None = None
    """What identical questions have in common."""
    escalated_at: datetime | None = None


class Vote(Struct, frozen=True, kw_only=True):
    """One person's approval of a question that needs several; a later one takes its place."""

    approval_id: str
    principal_id: str
    name: str
    ruling: dict[str, Any]
    """What was approved, as `{decision, ballot, changes?, …}`; votes of one ballot agree."""
    created_at: datetime


class GrantRow(Struct, frozen=True, kw_only=True):
    """What an approved revision allows one of its subtasks."""

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
    """The plan that it holds in; None: it holds in the whole session."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A place that a rollback can go back to."""

    id: str
    session_id: str
    plan_id: str
    revision: int
    subtask_id: str | None
    """The subtask that it was taken before, or whose failed attempt it was taken before undoing;
    None for one before any other rollback."""
    attempt: int
    reason: str
    standings: str
    """Where each subtask stood, in plan order, a letter each: see `domain.checkpoint`."""
    event_seq: int
    last_change: int
    """The id of the last row of `file_changes` that it covers."""
    tree: str | None
    """The snapshot; None until the subtask is about to have its first effect."""
    hash: str
    created_at: datetime
    swept_at: datetime | None = None
    """When its snapshot, and what was changed until then, was given up; the hash leaves it out."""


class FileChange(Struct, frozen=True, kw_only=True):
    """What one call did to one file. States are those of snapshots, as JSON; None is no file."""

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
    """Something to do at a time, whoever lives then."""

    kind: str
    key: str
    run_at: datetime


# Several processes on one database: see `store.places`.


class Node(Struct, frozen=True, kw_only=True):
    """A process that takes part: a server in front, or a worker behind."""

    id: str
    kind: str
    """`server` or `worker`."""
    host: str
    pid: int
    pool: str | None
    """The places that a worker takes; None for a server."""
    capacity: int
    """How many places a worker drives at once; 0 for a server."""
    version: str
    started_at: datetime
    beat_at: datetime
    """When it last said that it lives, by the clock of the database."""
    draining: bool
    """It takes no place any more, and gives those away that it has."""
    lives: bool
    """It has beaten lately."""
    places: int
    """How many places it owns."""
    policy: str | None = None
    """A digest of its rules."""
    labels: Mapping[str, str] | None = None


class PlaceRow(Struct, frozen=True, kw_only=True):
    """A workspace, and which worker has it."""

    id: str
    path: str
    pool: str
    fence: int
    """Counted up with each owner."""
    owner: str | None
    """A node's id."""
    placed: bool
    """There is work, or was lately."""
    host: str | None
    pid: int | None
    lives: bool | None
    """Its owner has beaten lately; None without one."""
    beat_at: datetime | None
    """When its owner did so last."""


class PlaceOwner(Struct, frozen=True, kw_only=True):
    """A worker that got a workspace."""

    node: str
    fence: int
    since: datetime
    host: str | None
    """None for one that is not known any more."""
    pid: int | None


class Job(Struct, frozen=True):
    """Something to go on with now: drive one turn, plan or subtask as far as it goes.

    `epoch` is that of the row when the job was made, where its kind has one: the holder's proof.
    """

    kind: str
    key: str
    epoch: int = 0
    since: datetime | None = None
    """When the work that this job goes on with began, if whoever made the job knew."""
    found: Any = None
    """What whoever took the work for the job read then; never known in another process."""
    begun: Any = None
    """What was started with the job, for it to carry out; never known in another process."""


class JobStop(Struct, frozen=True):
    """A running job whose work has been taken from it: end what it spawned."""

    kind: str
    key: str
