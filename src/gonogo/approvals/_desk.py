"""Questions and their answers, whatever they are about.

The desk knows how to ask, decide and expire. What an answer means for a plan or a tool call is
the business of a `Kind`, registered by the room that knows; a new kind needs one registration.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from gonogo.domain.approval_state import ApprovalKind, ApprovalStatus, DecisionWord
from gonogo.domain.errors import AlreadyDecided, Conflict, Expired, RateLimited, Refused
from gonogo.domain.events import ApprovalChanged, ApprovalFacts
from gonogo.domain.principal import Principal, Role
from gonogo.domain.records import Approval
from gonogo.policy import RuleText
from gonogo.store import Connection, log, new_id
from gonogo.store.calls import (
    add_approval,
    approval_of,
    close_approval,
    count_pending,
    lock_approval,
    pending_approvals,
)
from gonogo.store.timers import drop_timer, set_timer

EXPIRE, WARN = "approval_expiry", "approval_warning"
NOBODY = Principal(id="gonogo", name="gonogo", role=Role.OPERATOR)
"""Who decides when nobody did in time, where an operator wants that to be a rejection."""
_STATUS = {
    DecisionWord.APPROVE: ApprovalStatus.APPROVED,
    DecisionWord.HOLD: ApprovalStatus.APPROVED,
    DecisionWord.EDIT: ApprovalStatus.EDITED,
    DecisionWord.REJECT: ApprovalStatus.REJECTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a person answered."""

    word: DecisionWord
    by: Principal
    digest: str | None = None
    revision: int | None = None
    feedback: str | None = None
    changes: Any = None
    """The edited arguments or subtasks, as the person sent them."""
    prepared: Any = None
    """What the kind worked out of `changes` before the transaction."""
    rule: RuleText | None = None
    """What the answer allows for the rest of the session, besides this once."""
    start: bool = True
    auto_approve_tools: bool = True
    after: int | None = None
    """The place in the session's log that the answer follows, for a sender who repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked."""

    session_id: str
    kind: ApprovalKind | str
    subject: str
    details: dict[str, Any]
    reason: str
    digest: str
    turn_id: str | None = None
    plan_id: str | None = None
    revision: int | None = None
    subtask_id: str | None = None
    call_id: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decision that did not take effect although the transaction was committed."""

    error: Refused


class Kind(Protocol):
    """What answers about one kind of thing mean."""

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        """Carry out a ruling, in the transaction that records it.

        Raises:
            Refused: it cannot be; nothing changes.
        """
        ...

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        """Carry out that nobody answered in time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where questions lie until they are answered."""

    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    """What answers mean, by the kind's word; a new kind is registered here and nowhere else."""
    expiry: Mapping[str, timedelta | None] = field(default_factory=dict[str, timedelta | None])
    """How long a question of each kind stays open; None or absent is for ever."""
    warning: timedelta = timedelta(hours=1)
    """How long before its expiry a warning is told."""
    rejects_expired: bool = False
    """A question that expires counts as rejected, by nobody."""
    max_pending: int = 256
    """Open questions that one session may have."""

    def open(
        self,
        conn: Connection,
        question: Question,
        now: datetime,
        *,
        before: Callable[[Approval], None] = lambda opened: None,
    ) -> Approval:
        """Ask a person.

        Args:
            before: Tells what belongs in the log before the question itself.

        Raises:
            RateLimited: the session has too many open questions.
        """
        if count_pending(conn, question.session_id) >= self.max_pending:
            raise RateLimited(f"A session has at most {self.max_pending} open questions")
        approval = self._approval(question, now)
        add_approval(conn, approval)
        before(approval)
        self._set_timers(conn, approval, now)
        log.tell(
            conn,
            approval.session_id,
            now,
            _changed("approval_requested", approval, agent=question.agent),
        )
        log.note(
            conn, approval.session_id, now,
            actor="gonogo", action=f"{approval.kind}.asked", subject=approval.subject,
            approval_id=approval.id, digest=approval.digest, reason=approval.reason,
            plan_id=approval.plan_id, call_id=approval.call_id,
        )  # fmt: skip
        return approval

    def decide(
        self, conn: Connection, approval_id: str, ruling: Ruling, now: datetime
    ) -> Approval | Refusal:
        """Take a person's answer. The first valid one wins.

        Gives the approval as decided, or, when it had just expired, a refusal whose expiry is
        to be committed.

        Raises:
            Refused: it was decided before, is about something that changed, or is not valid.
        """
        approval = lock_approval(conn, approval_id)
        assert approval is not None  # noqa: S101 - the caller found it by this id
        if approval.status is not ApprovalStatus.PENDING:
            return _repeated(approval, ruling)
        if approval.expires_at is not None and approval.expires_at <= now:
            self.expire(conn, approval, now)
            return Refusal(Expired(f"{approval.subject}: the question expired before this answer"))
        if ruling.digest is not None and ruling.digest != approval.digest:
            raise Conflict(f"The question is about {approval.digest}, not {ruling.digest}")
        decided = self._close(conn, approval, _STATUS[ruling.word], now, ruling)
        self.kinds[approval.kind].settle(conn, approval, ruling, now)
        return decided

    def expire(self, conn: Connection, approval: Approval, now: datetime) -> None:
        """Close a question that nobody answered in time."""
        if self.rejects_expired:
            ruling = Ruling(word=DecisionWord.REJECT, by=NOBODY, feedback="nobody decided in time")
            self._close(conn, approval, ApprovalStatus.REJECTED, now, ruling)
            self.kinds[approval.kind].settle(conn, approval, ruling, now)
            return
        self._close(conn, approval, ApprovalStatus.EXPIRED, now, None)
        self.kinds[approval.kind].lapse(conn, approval, now)

    def withdraw(
        self,
        conn: Connection,
        approval: Approval,
        now: datetime,
        status: ApprovalStatus = ApprovalStatus.CANCELLED,
    ) -> None:
        """Close a question that is no longer of interest."""
        self._close(conn, approval, status, now, None)

    def on_timer(self, conn: Connection, kind: str, approval_id: str, now: datetime) -> None:
        """Warn of, or carry out, the expiry of a question that is still open."""
        approval = lock_approval(conn, approval_id)
        if approval is None or approval.status is not ApprovalStatus.PENDING:
            return
        if kind == WARN:
            log.tell(conn, approval.session_id, now, _changed("approval_warning", approval))
        elif approval.expires_at is not None and approval.expires_at <= now:
            self.expire(conn, approval, now)

    def _approval(self, question: Question, now: datetime) -> Approval:
        lifetime = self.expiry.get(question.kind)
        return Approval(
            id=new_id("appr"), session_id=question.session_id, kind=question.kind,
            subject=question.subject, details=question.details, reason=question.reason,
            digest=question.digest, status=ApprovalStatus.PENDING, turn_id=question.turn_id,
            plan_id=question.plan_id, revision=question.revision,
            subtask_id=question.subtask_id, call_id=question.call_id,
            created_at=now, expires_at=None if lifetime is None else now + lifetime,
            decided_by=None, decided_at=None, decision=None,
        )  # fmt: skip

    def _set_timers(self, conn: Connection, approval: Approval, now: datetime) -> None:
        if approval.expires_at is None:
            return
        set_timer(conn, EXPIRE, approval.id, approval.expires_at)
        warn_at = approval.expires_at - self.warning
        if warn_at > now:
            set_timer(conn, WARN, approval.id, warn_at)

    def _close(
        self,
        conn: Connection,
        approval: Approval,
        status: ApprovalStatus,
        now: datetime,
        ruling: Ruling | None,
    ) -> Approval:
        by = ruling.by if ruling else None
        decision = _decision(ruling) if ruling else None
        closed = close_approval(
            conn, approval, status,
            decided_by=by.id if by else None, decided_at=now, decision=decision,
        )  # fmt: skip
        if not closed:
            raise Conflict(f"{approval.subject} was decided by somebody else at this moment")
        if approval.expires_at is not None:
            drop_timer(conn, EXPIRE, approval.id)
            drop_timer(conn, WARN, approval.id)
        self._tell_closed(conn, approval, status, now, ruling)
        decided = approval_of(conn, approval.id)
        assert decided is not None  # noqa: S101 - updated one line above
        return decided

    def _tell_closed(
        self,
        conn: Connection,
        approval: Approval,
        status: ApprovalStatus,
        now: datetime,
        ruling: Ruling | None,
    ) -> None:
        name = ruling.by.name if ruling else None
        answered = ruling is not None and ruling.by != NOBODY
        waited = (now - approval.created_at).total_seconds() if answered else None
        event = _changed(
            "approval_resolved", approval, status=status, decided_by=name, waited=waited
        )
        log.tell(conn, approval.session_id, now, event)
        log.note(
            conn, approval.session_id, now,
            actor=ruling.by.id if ruling else "gonogo",
            action=f"{approval.kind}.{status}", subject=approval.subject,
            approval_id=approval.id, digest=approval.digest, plan_id=approval.plan_id,
            revision=approval.revision, call_id=approval.call_id,
            original=approval.details.get("original_task"),
            decision=_decision(ruling) if ruling else None,
            arguments=approval.details.get("arguments"),
        )  # fmt: skip


def _decision(ruling: Ruling) -> dict[str, Any]:
    said = {
        "decision": str(ruling.word),
        "feedback": ruling.feedback,
        "changes": ruling.changes,
        "rule": ruling.rule and ruling.rule.model_dump(mode="json", exclude_defaults=True),
        "decided_name": ruling.by.name,
        "after": ruling.after,
    }
    return {name: value for name, value in said.items() if value is not None}


def _repeated(approval: Approval, ruling: Ruling) -> Approval | Refusal:
    """The answer to a decision about a question that is closed."""
    if approval.status is ApprovalStatus.EXPIRED:
        return Refusal(Expired(f"{approval.subject}: the question has expired"))
    if approval.status in {ApprovalStatus.CANCELLED, ApprovalStatus.SUPERSEDED}:
        return Refusal(Conflict(f"{approval.subject}: the question was {approval.status}"))
    said = approval.decision or {}
    same_person = approval.decided_by == ruling.by.id
    if (
        same_person
        and said.get("decision") == ruling.word
        and said.get("changes") == ruling.changes
    ):
        return approval
    who, when = said.get("decided_name", approval.decided_by), approval.decided_at
    return Refusal(
        AlreadyDecided(
            approval.subject, approval.status, str(who), when.isoformat() if when else "?"
        )
    )


def _changed(
    kind: Any,  # noqa: ANN401 - one of the event's own words
    approval: Approval,
    *,
    status: ApprovalStatus | None = None,
    decided_by: str | None = None,
    agent: str | None = None,
    waited: float | None = None,
) -> ApprovalChanged:
    return ApprovalChanged(
        type=kind,
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
            decided_by=decided_by,
            expires_at=approval.expires_at,
            waited_seconds=waited,
        ),
    )


def withdraw_all(conn: Connection, desk: Desk, session_id: str, now: datetime) -> None:
    """Close every open question of a session that goes away."""
    for approval in pending_approvals(conn, session_id):
        desk.withdraw(conn, approval, now)
