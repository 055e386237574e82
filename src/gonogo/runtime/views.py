"""Rows as clients see them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from gonogo.domain.base import Frozen, elapsed
from gonogo.domain.messages import PLAN_REQUEST
from gonogo.domain.plan import Revision, Subtask, critical_path
from gonogo.domain.plan_views import (
    CommentView,
    InstructionFileView,
    ModelUsageView,
    PlanStatusView,
    PlanView,
    SubtaskView,
    UsageView,
)
from gonogo.domain.records import Approval, Comment, GrantRow, Plan, Session, SubtaskRow, Vote
from gonogo.domain.replanning import Limits, Used
from gonogo.domain.reviews import Review, reviewer_name
from gonogo.domain.schedule import count_settled
from gonogo.domain.states import SUBTASK, ApprovalKind, ApprovalStatus, PlanStatus, SubtaskStatus
from gonogo.domain.tool_calls import TOKENS
from gonogo.domain.views import (
    ApprovalView,
    GrantView,
    ReviewView,
    SessionSummary,
    SessionView,
    VoteView,
)
from gonogo.execution.approvals import review_of
from gonogo.store import Tx
from gonogo.store.calls import count_open_comments, owner_of, votes_of
from gonogo.store.sessions import SessionStanding


def session_view(session: Session) -> SessionView:
    """A session."""
    return SessionView.of(session, session_id=session.id)


def listed_session(session: Session, standing: SessionStanding) -> SessionView:
    """A session in a list of them."""
    summary = SessionSummary.of(standing, cost=standing.cost_micros / 1_000_000)
    return session_view(session).model_copy(update={"summary": summary})


def approval_view(
    approval: Approval,
    votes: Sequence[Vote] = (),
    open_comments: int | None = None,
    owner: str | None = None,
) -> ApprovalView:
    """A question, and its answer if it has one.

    Args:
        owner: The owner of its session.
        votes: The approvals that it has so far, if it needs several.
        open_comments: How many comments on its plan have no answer.
    """
    details = approval.details
    said = approval.decision or {}
    return ApprovalView.of(
        approval,
        approval_id=approval.id,
        request_id=_request_id(approval),
        request_type=approval.kind,
        tool_name=details.get("tool", approval.subject) if approval.call_id else None,
        arguments=details.get("arguments"),
        requested_by=reviewer_name(approval.requested_by) if approval.requested_by else None,
        review=_review_view(approval, owner),
        votes=[_vote_view(vote) for vote in votes] if approval.review else None,
        group=approval.group_key,
        decided_by=said.get("decided_name"),
        approved_by=said.get("approved_by"),
        feedback=said.get("feedback"),
        open_comments=open_comments,
    )


def _seen_by(review: Review, owner: str | None) -> list[str]:
    """Who sees a question without reviewers: the session's owner, and people let in later."""
    people = [reviewer_name(who) for who in dict.fromkeys((owner, *review.also)) if who is not None]
    if review.also_role == "operator":
        return [*people, "role:operator"]
    return [*people, "role:admin"]


def _review_view(approval: Approval, owner: str | None) -> ReviewView | None:
    if approval.review is None:
        return None
    review = review_of(approval)
    able = None if review.reviewers is None else (*review.reviewers, *review.also)
    later = review.escalate_after if approval.escalated_at is None else None
    to = [reviewer_name(who) for who in review.escalate_to]
    if review.escalate_role is not None:
        to.append(f"role:{review.escalate_role}")
    return ReviewView.of(
        review,
        reviewers=None if able is None else [reviewer_name(who) for who in dict.fromkeys(able)],
        seen_by=_seen_by(review, owner) if able is None else None,
        asked_too=[reviewer_name(who) for who in review.asked_too] or None,
        escalates_at=None if later is None else approval.created_at + timedelta(seconds=later),
        escalates_to=to or None,
        problem=review.problem(approval.requested_by),
    )


def _vote_view(vote: Vote) -> VoteView:
    return VoteView.of(vote, decision=vote.ruling["decision"])


def subtask_view(
    subtask: Subtask, row: SubtaskRow, rolled_back: Collection[str] = ()
) -> SubtaskView:
    """A subtask as planned, and its state.

    Args:
        rolled_back: The subtasks of its plan whose work was rolled back.
    """
    since, until = row.started_at, row.finished_at
    return SubtaskView.of(
        subtask,
        row,
        scope=_as_json(subtask.scope),
        retry_policy=_as_json(subtask.retry_policy),
        done_when=subtask.done_when or None,
        duration_seconds=elapsed(since, until) if since and until else None,
        rolled_back=subtask.id in rolled_back or None,
    )


def _as_json(part: Frozen | None) -> dict[str, Any] | None:
    return None if part is None else part.model_dump(mode="json", exclude_none=True)


def plan_view(
    plan: Plan,
    revision: Revision,
    rows: Sequence[SubtaskRow],
    rolled_back: Collection[str] = (),
    made_by: str | None = None,
) -> PlanView:
    """A plan in its current revision.

    Args:
        rolled_back: Its subtasks whose work was rolled back.
        made_by: The name of the person who wrote it, if no agent proposed it.
    """
    return PlanView.of(
        plan,
        plan_id=plan.id,
        is_approved=plan.approved_revision == plan.revision,
        subtasks=_subtasks(revision, rows, rolled_back),
        critical_path=critical_path(revision.subtasks),
        revising=True if plan.revising and plan.status is PlanStatus.AWAITING_APPROVAL else None,
        instructions=[InstructionFileView(**file) for file in plan.instructions or ()] or None,
        made_by=made_by,
    )


def comment_view(comment: Comment) -> CommentView:
    """A person's comment on a plan, and its answer."""
    return CommentView.of(comment, comment_id=comment.id)


def usage_view(plan: Plan, runs: int, used: Used, now: datetime) -> UsageView:
    """What a plan has used so far.

    Args:
        runs: The runs of its subtasks, over all its revisions.
    """
    since, until = plan.started_at, plan.finished_at or now
    return UsageView(
        **_model_usage(used),
        seconds=round(elapsed(since, until), 3) if since else 0.0,
        subtasks=runs,
    )


def model_usage_view(used: Used) -> ModelUsageView:
    """What requests to models have used."""
    return ModelUsageView(**_model_usage(used))


def _model_usage(used: Used) -> dict[str, Any]:
    return {
        "requests": used.requests, **{name: getattr(used, name) for name in TOKENS},
        "tokens": used.input_tokens + used.output_tokens, "cost": used.cost_micros / 1_000_000,
        "unpriced_requests": used.unpriced,
    }  # fmt: skip


def status_view(
    plan: Plan,
    revision: Revision,
    rows: Sequence[SubtaskRow],
    rolled_back: Collection[str] = (),
    *,
    usage: UsageView,
    each: Mapping[str | None, Used],
    limits: Limits | None = None,
    refused: int = 0,
) -> PlanStatusView:
    """How far a plan is.

    Args:
        rolled_back: Its subtasks whose work was rolled back.
        each: The part of `usage` of each subtask.
        refused: How many of its calls were not allowed.
    """
    took = {key: model_usage_view(used) for key, used in each.items()}
    done = sum(row.status in SUBTASK.terminal for row in rows)
    settled = count_settled((row.status for row in rows), ended=plan.finished_at is not None)
    running = any(row.status is SubtaskStatus.RUNNING for row in rows)
    return PlanStatusView.of(
        plan,
        plan_id=plan.id,
        current_step=min(len(rows), done + running),
        total_steps=len(rows),
        progress=round(100 * settled / len(rows), 1),
        usage=usage,
        limits=dict(limits) if limits else None,
        again=[each["subtask_id"] for each in plan.again] if plan.again else None,
        refused=refused or None,
        subtasks=[
            view.model_copy(update={"usage": took.get(view.id)})
            for view in _subtasks(revision, rows, rolled_back)
        ],
    )


def grant_view(grant: GrantRow) -> GrantView:
    """What an approved plan may do without a question."""
    return GrantView.of(grant, grant_id=grant.id)


def _request_id(approval: Approval) -> str:
    """The id of a question for older clients; a kind that they do not know has its own id."""
    if approval.kind == ApprovalKind.PLAN:
        return f"{PLAN_REQUEST}{approval.plan_id}"
    return approval.call_id or approval.id


def _subtasks(
    revision: Revision, rows: Sequence[SubtaskRow], rolled_back: Collection[str]
) -> list[SubtaskView]:
    by_id = {row.subtask_id: row for row in rows}
    return [subtask_view(each, by_id[each.id], rolled_back) for each in revision.subtasks]


# A question as people see it, with the answers so far.


def view_of(tx: Tx, approval: Approval, votes: Sequence[Vote] | None = None) -> ApprovalView:
    """A question in its present state.

    Args:
        votes: The approvals that it has so far, if the caller knows them.
    """
    if votes is None:
        votes = votes_of(tx, approval.id) if approval.review else ()
    owner = owner_of(tx, approval.session_id) if approval.review else None
    is_open = approval.status is ApprovalStatus.PENDING
    if not is_open or approval.kind != ApprovalKind.PLAN or approval.plan_id is None:
        return approval_view(approval, votes, owner=owner)
    comments = count_open_comments(tx, approval.plan_id)
    return approval_view(approval, votes, comments, owner)
