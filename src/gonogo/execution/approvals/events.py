"""What the log and the audit are told of questions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gonogo.domain.events import ApprovalChanged, ApprovalFacts
from gonogo.domain.records import Approval, Vote
from gonogo.domain.reviews import Review, reviewer_name
from gonogo.domain.schedule import elapsed
from gonogo.domain.states import ApprovalStatus
from gonogo.execution.approvals.reviewers import review_of
from gonogo.execution.approvals.types import NOBODY, Ruling
from gonogo.i18n import say
from gonogo.store import Tx
from gonogo.store import events as log
from gonogo.store.sessions import spoken_in


def tell_asked(tx: Tx, approval: Approval, agent: str | None) -> None:
    """A person is asked."""
    needed = review_of(approval).needed
    more: dict[str, Any] = {"needed": needed, "votes": 0} if needed > 1 else {}
    event = _changed("approval_requested", approval, agent=agent, **more)
    log.tell(tx, approval.session_id, event)
    _note(
        tx, approval, "asked", actor="gonogo", reason=approval.reason,
        requested_by=approval.requested_by, review=approval.review,
    )  # fmt: skip


def tell_voted(
    tx: Tx, approval: Approval, ruling: Ruling, votes: Sequence[Vote], needed: int
) -> None:
    """Somebody approved, and more have to."""
    names = [vote.name for vote in votes]
    content = say(
        "approval_voted", spoken_in(tx, approval.session_id), votes=len(votes), needed=needed,
        names=", ".join(names), subject=approval.subject,
    )  # fmt: skip
    event = _changed(
        "approval_voted", approval, content=content, needed=needed, votes=len(votes),
        voted_by=names,
    )  # fmt: skip
    log.tell(tx, approval.session_id, event)
    _note(
        tx, approval, "voted", actor=ruling.by.id, decision=ruling.as_json(),
        votes=len(votes), needed=needed, waited_seconds=_waited(approval, tx.now),
    )  # fmt: skip


def tell_escalated(tx: Tx, approval: Approval, review: Review) -> None:
    """Others may decide from now on, too."""
    to = [reviewer_name(who) for who in review.also]
    if review.also_role is not None:
        to.append(f"role:{review.also_role}")
    content = say(
        "approval_escalated", spoken_in(tx, approval.session_id), names=", ".join(to),
        subject=approval.subject,
    )  # fmt: skip
    event = _changed("approval_escalated", approval, content=content, escalated_to=to)
    log.tell(tx, approval.session_id, event)
    _note(tx, approval, "escalated", actor="gonogo", escalated_to=to)


def tell_warning(tx: Tx, approval: Approval) -> None:
    """The question is about to expire."""
    left = elapsed(tx.now, approval.expires_at) if approval.expires_at else 0
    content = say(
        "approval_warning", spoken_in(tx, approval.session_id), minutes=max(1, round(left / 60)),
        subject=approval.subject,
    )  # fmt: skip
    event = _changed("approval_warning", approval, content=content)
    log.tell(tx, approval.session_id, event)


def tell_closed(tx: Tx, approval: Approval, status: ApprovalStatus, ruling: Ruling | None) -> None:
    """The question has its answer, or is no longer of interest."""
    answered = ruling is not None and ruling.by != NOBODY
    event = _changed(
        "approval_resolved", approval, status=status,
        decided_by=ruling.by.name if ruling else None,
        waited_seconds=elapsed(approval.created_at, tx.now) if answered else None,
        voted_by=list(ruling.agreed) or None if ruling else None,
    )  # fmt: skip
    log.tell(tx, approval.session_id, event)
    _note(
        tx, approval, status, actor=ruling.by.id if ruling else "gonogo",
        revision=approval.revision, original=approval.details.get("original_task"),
        decision=ruling.as_json() if ruling else None,
        arguments=approval.details.get("arguments"),
        waited_seconds=_waited(approval, tx.now) if answered else None,
    )  # fmt: skip


def _waited(approval: Approval, now: datetime) -> float:
    return round(elapsed(approval.created_at, now), 3)


def _note(
    tx: Tx,
    approval: Approval,
    what: str,
    *,
    actor: str,
    **more: Any,  # noqa: ANN401 - details of the entry
) -> None:
    log.note(
        tx, approval.session_id, actor=actor, action=f"{approval.kind}.{what}",
        subject=approval.subject, approval_id=approval.id, digest=approval.digest,
        plan_id=approval.plan_id, call_id=approval.call_id, **more,
    )  # fmt: skip


def _changed(
    kind: Any,  # noqa: ANN401 - one of the event's own words
    approval: Approval,
    *,
    agent: str | None = None,
    content: str | None = None,
    status: ApprovalStatus | None = None,
    **facts: Any,  # noqa: ANN401 - fields of the facts
) -> ApprovalChanged:
    return ApprovalChanged(
        type=kind,
        content=content,
        turn_id=approval.turn_id,
        plan_id=approval.plan_id,
        subtask_id=approval.subtask_id,
        call_id=approval.call_id,
        agent=agent,
        metadata=ApprovalFacts(
            approval_id=approval.id,
            kind=approval.kind,
            subject=approval.subject,
            status=status or approval.status,
            expires_at=approval.expires_at,
            **facts,
        ),
    )
