"""What clients are shown of things: the bodies of the REST endpoints.

A field without a value is absent on the wire (`model_dump(exclude_none=True)`).
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gonogo.domain.approval_state import ApprovalKind, ApprovalStatus
from gonogo.domain.plan import Subtask
from gonogo.domain.plan_state import PlanStatus
from gonogo.domain.subtask_state import SubtaskStatus


class View(BaseModel):
    """An immutable body."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class SessionView(View):
    """A session. `agent` answers the next message."""

    session_id: str
    title: str | None = None
    workspace: str
    locale: str | None = None
    tool_host: Literal["server", "client"] = "server"
    agent: str
    active_plan_id: str | None = None
    last_seq: int
    created_at: datetime
    updated_at: datetime


class SessionList(View):
    """A page of sessions; `total` counts all of them."""

    sessions: list[SessionView]
    total: int


class MessageView(View):
    """One message of a session's history. A tool message answers `call_id`."""

    role: Literal["user", "assistant", "tool"]
    content: str
    agent: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    call_id: str | None = None
    tool_name: str | None = None
    subtask_id: str | None = None
    created_at: datetime


class History(View):
    """A session's messages in order."""

    session_id: str
    messages: list[MessageView]


class ReviewView(View):
    """Who decides a question."""

    needed: int
    """How many have to approve."""
    role: str
    """The role that they need."""
    reviewers: list[str] | None = None
    """Nobody else approves; absent: whoever sees the question."""
    not_requester: bool = False
    """Who asked for the work does not approve it."""
    escalates_at: datetime | None = None
    escalates_to: list[str] | None = None
    """Who may decide from then on, too; `role:admin` is a whole role."""
    rules: list[str]
    problem: str | None = None
    """Why nobody can approve it as things stand."""


class VoteView(View):
    """One of the approvals that a question needs."""

    name: str
    decision: str
    created_at: datetime


class ApprovalView(View):
    """A question to a person."""

    approval_id: str
    request_id: str
    kind: ApprovalKind | str
    request_type: ApprovalKind | str
    session_id: str
    subject: str
    details: dict[str, Any]
    reason: str
    digest: str
    status: ApprovalStatus
    created_at: datetime
    expires_at: datetime | None = None
    plan_id: str | None = None
    revision: int | None = None
    subtask_id: str | None = None
    call_id: str | None = None
    tool_name: str | None = None
    arguments: dict[str, Any] | None = None
    requested_by: str | None = None
    """Who sent the message that led to it."""
    review: ReviewView | None = None
    votes: list[VoteView] | None = None
    escalated_at: datetime | None = None
    group: str | None = None
    """The same for questions that are identical."""
    decided_by: str | None = None
    decided_at: datetime | None = None
    approved_by: list[str] | None = None
    """All who approved, where several had to."""
    feedback: str | None = None
    open_comments: int | None = None
    """Comments on the plan without an answer, now; only of a plan's question that is open."""


class PendingApprovals(View):
    """What a session waits for."""

    session_id: str
    pending_approvals: list[ApprovalView]
    count: int


class ApprovalList(View):
    """Approvals, oldest first."""

    approvals: list[ApprovalView]
    count: int


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
    result: Any = None
    error: dict[str, Any] | None = None
    reason: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_seconds: float | None = None


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
    auto_approve_tools: bool = True
    subtasks: list[SubtaskView]
    critical_path: list[str]
    pause_reason: str | None = None
    """Why a paused plan is paused where nobody asked for it: `quota`, `budget`, `rollback`."""
    paused_until: datetime | None = None
    """When a plan that is paused for a quota goes on by itself."""
    created_at: datetime
    approved_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    feedback: str | None = None
    revising: bool | None = None
    """The planner looks for a revision that answers comments; it can be decided meanwhile."""


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


class UsageView(View):
    """What a plan took so far; a model request under way counts as what it was estimated to."""

    requests: int
    input_tokens: int
    output_tokens: int
    tokens: int
    cost: float
    """US dollars, as far as prices are known."""
    unpriced_requests: int
    """Replies whose price is not known; they count as nothing in `cost`."""
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
    """Why a paused plan is paused where nobody asked for it: `quota`, `budget`."""
    paused_until: datetime | None = None
    """When a plan that is paused for a quota goes on by itself."""
    usage: UsageView | None = None
    limits: dict[str, float] | None = None
    """The limits of its budget that are set, by `tokens`, `cost`, `seconds`, `requests`,
    `subtasks`, and `session_tokens`, `session_cost`, `session_requests`."""
    again: list[str] | None = None
    """Subtasks that a person asked to have tried again, as soon as nothing of it is under way."""
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


class GrantView(View):
    """What an approved plan may do without a question."""

    grant_id: str
    session_id: str
    plan_id: str
    revision: int
    subtask_id: str
    scope: dict[str, Any] | None = None
    status: Literal["active", "ended", "revoked"]
    created_at: datetime
    ended_at: datetime | None = None
    ended_because: str | None = None


class SessionRuleView(View):
    """A rule of one session, as it is written; `name` is what verdicts call it."""

    rule_id: str
    session_id: str
    name: str
    rule: dict[str, Any]
    made_by: str
    created_at: datetime


class CallView(View):
    """A tool call as it was judged. `arguments` are those that say what it touches."""

    call_id: str
    session_id: str
    agent: str
    tool_name: str
    tool_class: str
    arguments: dict[str, Any]
    plan_id: str | None = None
    revision: int | None = None
    subtask_id: str | None = None
    decision: Literal["allow", "ask", "deny"] | None = None
    rule: str | None = None
    reason: str | None = None
    answer: str | None = None
    """What became of the question, if a person was asked."""
    granted: bool = False
    """An approved plan's grant was there for its subtask."""
    scope: dict[str, Any] | None = None
    created_at: datetime


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


class AuditAnchor(View):
    """Where all audit chains stood. `text` is what to keep elsewhere."""

    text: str
    at: str
    seq: int
    hash: str
    chains: int
    heads: str


class TokenView(View):
    """A token, without its secret."""

    token_id: str
    name: str
    role: str
    created_at: datetime
    revoked_at: datetime | None = None


class AgentView(View):
    """An agent profile."""

    name: str
    description: str
    tools: list[str]
    may_write: list[str]
    source: str


class ToolView(View):
    """A tool that agents may use."""

    name: str
    description: str
    tool_class: str
    parameters: dict[str, Any]


class DecisionAnswer(View):
    """What came of one decision. `ok` false carries `code` and `detail`."""

    id: str
    ok: bool
    status: str | None = None
    outcome: Literal["decided", "voted", "asked_again"] | None = None
    """`voted`: more people have to approve; `asked_again`: an edit is now asked about."""
    votes: int | None = None
    needed: int | None = None
    code: str | None = None
    detail: str | None = None
