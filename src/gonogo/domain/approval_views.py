"""What clients are shown of questions to people, and of what came of answers."""

from datetime import datetime
from typing import Any, Literal

from gonogo.domain.approval_state import ApprovalKind, ApprovalStatus
from gonogo.domain.base import View


class ReviewView(View):
    """Who decides a question."""

    needed: int
    """How many have to approve."""
    role: str
    """The role that they need."""
    reviewers: list[str] | None = None
    """Nobody else approves; absent: whoever sees the question."""
    seen_by: list[str] | None = None
    """Who sees it where no reviewers are named; `role:admin` is a whole role."""
    not_requester: bool = False
    """Who asked for the work, or had it changed, does not approve it."""
    asked_too: list[str] | None = None
    """Who had it changed: edited it, ordered a replan, or sent it back to its planner."""
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
    """A page of the approvals: the newest that fit, oldest first."""

    approvals: list[ApprovalView]
    count: int
    """How many are on this page."""
    before: str | None = None
    """Ask for what is before this; None where nothing is."""


class ApprovalFilter(View):
    """Which approvals a list shows."""

    status: ApprovalStatus | None = None
    session_id: str | None = None
    kind: str | None = None
    group: str | None = None
    mine: bool = False
    """Only those that wait for the one who asks."""


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


class LinkView(View):
    """A link that decides one question once, in the name of one person. Who has it may use it."""

    link_id: str
    approval_id: str
    name: str
    url: str
    expires_at: datetime
