"""The desk: opens questions, takes decisions, expires them, tells who is waiting for what.

Promises: the first valid decision wins, atomically, and the loser is told who won; a decision, its
event, its audit entry and what it starts are one transaction; expiry never approves; if several
people have to approve, that many different people with the right to do so have approved exactly
what then runs. An `ApprovalType` knows what an answer means for a plan or a tool call; the room
that knows the kind registers it, and a new kind needs nothing else.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.base import digest
from gonogo.domain.errors import AlreadyDecided, Conflict, Expired, RateLimited, because
from gonogo.domain.records import Approval, Vote
from gonogo.domain.reviews import NO_REVIEW, Doings, Review, strictest
from gonogo.domain.states import ApprovalKind, ApprovalStatus, DecisionWord
from gonogo.execution.approvals import types as notices
from gonogo.execution.approvals.types import (
    NOBODY,
    ApprovalType,
    Matter,
    Question,
    Refusal,
    Revisable,
    Ruling,
    check_right,
    is_reviewer,
    objection,
    objection_of,
    review_of,
    tell_voted,
)
from gonogo.i18n import told
from gonogo.policy import Reviews
from gonogo.store import Tx, go_on, new_id
from gonogo.store.calls import (
    add_approval,
    approval_of,
    askers_of_plan,
    close_approval,
    count_pending,
    escalate_approval,
    keep_vote,
    lock_approval,
    pending_approvals,
    place_of_work,
    votes_of,
)
from gonogo.store.jobs import drop_timer, set_timer
from gonogo.store.plans import requester_of
from gonogo.store.sessions import session_of, spoken_in

__all__ = [
    "DESK_TIMERS",
    "ESCALATE",
    "EXPIRE",
    "NOBODY",
    "WARN",
    "ApprovalService",
    "ApprovalType",
    "Matter",
    "Question",
    "Refusal",
    "Revisable",
    "Ruling",
    "is_reviewer",
    "objection",
    "review_of",
    "withdraw_all",
]


# Quorum: approvals are counted as votes until there are enough of them for one and the same thing.
#
# Only votes of different people count who may approve, and who approve what the question says now.
# If one of them wants a question for every tool, the others cannot change that; and the rest of a
# session is allowed only what all of them allow.


def counted(tx: Tx, approval: Approval, ruling: Ruling) -> Ruling | None:
    """Count an approval; return the decision, or None while others have to agree."""
    needed = review_of(approval).needed
    if needed == 1:
        return ruling
    vote, before = _vote(approval, ruling, tx.now), votes_of(tx, approval.id)
    others = [each for each in before if each.principal_id != vote.principal_id]
    same = [each for each in others if each.ruling["ballot"] == vote.ruling["ballot"]]
    if len(same) + 1 < needed and any(_stands(each, vote) for each in before):
        return None
    keep_vote(tx, vote)
    if len(same) + 1 >= needed:
        return _together(ruling, same)
    tell_voted(tx, approval, ruling, [*same, vote], needed)
    return None


def has_voted(tx: Tx, approval: Approval, ruling: Ruling) -> bool:
    """Whether this approval was one of those that decided."""
    return any(
        vote.principal_id == ruling.by.id and ruling.repeats(vote.ruling)
        for vote in votes_of(tx, approval.id)
    )


def _vote(approval: Approval, ruling: Ruling, now: datetime) -> Vote:
    said = {
        **ruling.as_json(), "ballot": ruling.ballot(approval), "start": ruling.start,
        "auto_approve_tools": ruling.auto_approve_tools,
    }  # fmt: skip
    return Vote(
        approval_id=approval.id, principal_id=ruling.by.id, name=ruling.by.name, ruling=said,
        created_at=now,
    )  # fmt: skip


def _stands(kept: Vote, vote: Vote) -> bool:
    """Whether a stored vote is the same answer of the same person."""
    told = ("ballot", "decision", "rule", "for_plan", "start", "auto_approve_tools")
    return kept.principal_id == vote.principal_id and all(
        kept.ruling.get(name) == vote.ruling.get(name) for name in told
    )


def _together(ruling: Ruling, others: list[Vote]) -> Ruling:
    free = all(vote.ruling["auto_approve_tools"] for vote in others)
    rule = ruling.as_json().get("rule")
    return replace(
        ruling,
        rule=ruling.rule if all(vote.ruling.get("rule") == rule for vote in others) else None,
        for_plan=ruling.for_plan or any(vote.ruling.get("for_plan") for vote in others),
        auto_approve_tools=ruling.auto_approve_tools and free,
        agreed=(*(vote.name for vote in others), ruling.by.name),
    )


EXPIRE, WARN, ESCALATE = "approval_expiry", "approval_warning", "approval_escalation"
DESK_TIMERS = frozenset({EXPIRE, WARN, ESCALATE})
_STATUS = {
    DecisionWord.APPROVE: ApprovalStatus.APPROVED,
    DecisionWord.HOLD: ApprovalStatus.APPROVED,
    DecisionWord.EDIT: ApprovalStatus.EDITED,
    DecisionWord.REJECT: ApprovalStatus.REJECTED,
}


class ApprovalService(Struct, frozen=True, kw_only=True):
    """Keeps questions until they are answered."""

    kinds: dict[str, ApprovalType] = field(default_factory=dict[str, ApprovalType])
    """What answers mean, by the kind's word; a new kind is registered here and nowhere else."""
    reviews: Reviews = field(default_factory=Reviews)
    """Who decides what; whoever sees a question that no rule covers may decide it."""
    doings: Doings = field(default_factory=Doings)
    """Finds what subtasks could do without another question, in the terms of reviews."""
    expiry: Mapping[str, timedelta | None] = field(default_factory=dict[str, timedelta | None])
    """How long a question of each kind stays open; None or absent is for ever."""
    warning: timedelta = timedelta(hours=1)
    """How long before its expiry a warning is told."""
    rejects_expired: bool = False
    """A question that expires counts as rejected, by nobody."""
    max_pending: int = 256
    """Open questions that one session may have; interventions are asked in any case."""

    def register(self, kinds: Mapping[str, ApprovalType]) -> None:
        """Add kinds of questions.

        Raises:
            BadRules: a rule of review is about a kind that does not exist even now.
        """
        self.kinds.update(kinds)
        self.reviews.check_kinds(self.kinds)

    def open(
        self,
        tx: Tx,
        question: Question,
        *,
        before: Callable[[Approval], None] = lambda opened: None,
    ) -> Approval:
        """Ask a person.

        Args:
            before: Tells events that must be in the log before the question itself.

        Raises:
            RateLimited: the session has too many open questions, and this one is no intervention.
        """
        if question.kind != ApprovalKind.INTERVENTION and not self.room(tx, question.session_id):
            raise RateLimited(
                "A session can have at most {max_pending} open questions; answer some of them "
                "first",
                max_pending=self.max_pending,
            )
        approval = self._approval(tx, question)
        add_approval(tx, approval)
        before(approval)
        self._set_timers(tx, approval)
        notices.tell_asked(tx, approval, question.agent)
        return approval

    def room(self, tx: Tx, session_id: str) -> int:
        """How many more questions a session takes."""
        return max(0, self.max_pending - count_pending(tx, session_id))

    def decide(self, tx: Tx, approval_id: str, ruling: Ruling) -> Approval | Refusal:
        """Take a person's answer; the first valid one wins.

        Returns the approval as decided, or still waiting for others to agree, or the one with which
        an edit replaced it; or, if it has just expired, a refusal: the caller commits the expiry.

        Raises:
            Refused: it was decided before, is about something that changed, is not valid, or is
                somebody else's to decide.
        """
        approval = lock_approval(tx, approval_id)
        assert approval is not None  # noqa: S101 - the caller found it by this id
        if approval.status is not ApprovalStatus.PENDING:
            return _repeated(tx, approval, ruling)
        if approval.expires_at is not None and approval.expires_at <= tx.now:
            self.expire(tx, approval)
            return Refusal(
                Expired(
                    "{subject}: the question expired before this answer; if it is still needed, "
                    "ask again",
                    subject=approval.subject,
                )
            )
        if ruling.digest is not None and ruling.digest != approval.digest:
            raise Conflict(
                "{subject} has changed since you saw it: its digest is {digest}, not {digest2}; "
                "look at the open questions again",
                subject=approval.subject, digest=approval.digest, digest2=ruling.digest,
            )  # fmt: skip
        kind = self.kinds[approval.kind]
        check_right(tx, approval, ruling, asks_again=isinstance(kind, Revisable))
        if ruling.word is DecisionWord.REJECT:
            return self._settle(tx, approval, ruling)
        if ruling.word is DecisionWord.EDIT and isinstance(kind, Revisable):
            return self._edit(tx, approval, kind, ruling)
        return self._approve(tx, approval, kind, ruling)

    def expire(self, tx: Tx, approval: Approval) -> None:
        """Close a question that nobody answered in time."""
        if self.rejects_expired:
            why = told(because("nobody decided in time"), spoken_in(tx, approval.session_id))
            ruling = Ruling(word=DecisionWord.REJECT, by=NOBODY, feedback=why)
            self._settle(tx, approval, ruling)
            return
        self._close(tx, approval, ApprovalStatus.EXPIRED, None)
        self.kinds[approval.kind].lapse(tx, approval)

    def withdraw(
        self, tx: Tx, approval: Approval, status: ApprovalStatus = ApprovalStatus.CANCELLED
    ) -> None:
        """Close a question that is no longer of interest."""
        self._close(tx, approval, status, None)

    def on_timer(self, tx: Tx, kind: str, approval_id: str) -> None:
        """Warn of, escalate or carry out the expiry of a question that is still open."""
        approval = lock_approval(tx, approval_id)
        if approval is None or approval.status is not ApprovalStatus.PENDING:
            return
        if kind == WARN:
            notices.tell_warning(tx, approval)
        elif kind == ESCALATE:
            review = review_of(approval).escalated()
            if escalate_approval(tx, approval, review.model_dump(mode="json")):
                notices.tell_escalated(tx, approval, review)
        elif approval.expires_at is not None and approval.expires_at <= tx.now:
            self.expire(tx, approval)

    # Answers ----------------------------------------------------------------------------------

    def _approve(self, tx: Tx, approval: Approval, kind: ApprovalType, ruling: Ruling) -> Approval:
        if review_of(approval).needed > 1 and isinstance(kind, Revisable):
            kind.check(tx, approval, ruling)
        decided = counted(tx, approval, ruling)
        return approval if decided is None else self._settle(tx, approval, decided)

    def _edit(self, tx: Tx, approval: Approval, kind: Revisable, ruling: Ruling) -> Approval:
        """Carry out an edit, or ask about it anew if its author may not decide it alone."""
        kind.check(tx, approval, ruling)
        matter = kind.matter(tx, approval, ruling)
        found = self._review(approval.kind, matter, approval)
        asked = _with_askers(tx, found, approval.plan_id, approval, ruling.by.id)
        review = asked or NO_REVIEW
        alone = review.needed == 1
        if alone and objection_of(review, ruling.by, approval.requested_by) is None:
            return self._settle(tx, approval, ruling)
        self._close(tx, approval, ApprovalStatus.SUPERSEDED, ruling)
        opened = kind.ask_again(tx, approval, ruling)
        if objection(ruling.by, opened) is None:
            counted(tx, opened, ruling.as_approval())
        return opened

    def _settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> Approval:
        decided = self._close(tx, approval, _STATUS[ruling.word], ruling)
        self.kinds[approval.kind].settle(tx, approval, ruling)
        return decided

    # Questions --------------------------------------------------------------------------------

    def _approval(self, tx: Tx, question: Question) -> Approval:
        before = question.instead_of
        found = self._review(question.kind, question.matter, before)
        review = _with_askers(tx, found, question.plan_id, before, _editor(tx, before))
        asked_by = (
            before.requested_by
            if before is not None
            else requester_of(tx, question.session_id, question.turn_id, question.plan_id)
        )
        lifetime = self._lifetime(question.kind, review)
        return Approval(
            id=new_id("appr"), session_id=question.session_id, kind=question.kind,
            subject=question.subject, details=question.details, reason=question.reason,
            digest=question.digest, status=ApprovalStatus.PENDING, turn_id=question.turn_id,
            plan_id=question.plan_id, revision=question.revision,
            subtask_id=question.subtask_id, call_id=question.call_id,
            created_at=tx.now, expires_at=None if lifetime is None else tx.now + lifetime,
            decided_by=None, decided_at=None, decision=None, requested_by=asked_by,
            review=None if review is None else review.model_dump(mode="json"),
            group_key=_group(tx, question),
            escalated_at=before.escalated_at if before and _has_let_in(review) else None,
        )  # fmt: skip

    def _review(self, kind: str, matter: Matter, before: Approval | None) -> Review | None:
        """Who decides: by all rules, and by what held for the question before an edit."""
        found = self._by_rules(kind, matter) if self.reviews.rules else None
        if before is None or before.review is None:
            return found
        was = review_of(before)
        together = strictest([was, *([found] if found else [])])
        # People whom a rule lets in later that holds only since the edit still wait for its time.
        due = together.escalate_after == was.escalate_after
        return together.escalated() if before.escalated_at is not None and due else together

    def _by_rules(self, kind: str, matter: Matter) -> Review | None:
        return self.reviews.of(kind, (*matter.deeds, *self.doings.of(matter.subtasks)))

    def _lifetime(self, kind: str, review: Review | None) -> timedelta | None:
        given = self.expiry.get(kind)
        if review is None or review.expires_after is None:
            return given
        own = timedelta(seconds=review.expires_after)
        return own if given is None else min(own, given)

    def _set_timers(self, tx: Tx, approval: Approval) -> None:
        later = review_of(approval).escalate_after
        if later is not None and approval.escalated_at is None:
            set_timer(tx, ESCALATE, approval.id, tx.now + timedelta(seconds=later))
        if approval.expires_at is None:
            return
        set_timer(tx, EXPIRE, approval.id, approval.expires_at)
        warn_at = approval.expires_at - self.warning
        if warn_at > tx.now:
            set_timer(tx, WARN, approval.id, warn_at)

    def _close(
        self, tx: Tx, approval: Approval, status: ApprovalStatus, ruling: Ruling | None
    ) -> Approval:
        to: dict[str, Any] = {
            "decided_by": ruling.by.id if ruling else None, "decided_at": tx.now,
            "decision": ruling.as_json() if ruling else None,
        }  # fmt: skip
        if not close_approval(tx, approval, status, **to):
            raise Conflict(
                "Somebody else has just decided this ({subject}); look at it again",
                subject=approval.subject,
            )
        if approval.expires_at is not None:
            drop_timer(tx, EXPIRE, approval.id)
            drop_timer(tx, WARN, approval.id)
        if review_of(approval).escalate_after is not None:
            drop_timer(tx, ESCALATE, approval.id)
        notices.tell_closed(tx, approval, status, ruling)
        if self.room(tx, approval.session_id) == 1:
            _ask_the_rest(tx, approval.session_id)
        return replace(approval, status=status, **to)


def _has_let_in(review: Review | None) -> bool:
    return review is not None and (bool(review.also) or review.also_role is not None)


def _with_askers(
    tx: Tx,
    review: Review | None,
    plan_id: str | None,
    before: Approval | None,
    editor: str | None,
) -> Review | None:
    """The review with everybody who asked for this, besides the sender of the message."""
    if review is None:
        return None
    earlier = review_of(before).asked_too if before is not None else ()
    found = (*earlier, *askers_of_plan(tx, plan_id), *([editor] if editor else []))
    return review.model_copy(update={"asked_too": tuple(dict.fromkeys(found))})


def _editor(tx: Tx, before: Approval | None) -> str | None:
    """Whose edit replaced a question."""
    closed = approval_of(tx, before.id) if before is not None else None
    return closed.decided_by if closed is not None else None


def _group(tx: Tx, question: Question) -> str | None:
    """The key of identical questions: they ask the same about the same workspace and host."""
    if question.same is None:
        return None
    workspace, host = place_of_work(tx, question.session_id)
    return digest(
        {"kind": question.kind, "same": question.same, "workspace": workspace, "host": host}
    )


def _repeated(tx: Tx, approval: Approval, ruling: Ruling) -> Approval | Refusal:
    """The answer to a decision about a question that is closed."""
    if approval.status is ApprovalStatus.EXPIRED:
        return Refusal(
            Expired(
                "{subject}: the question has expired; if it is still needed, ask again",
                subject=approval.subject,
            )
        )
    said = approval.decision or {}
    if approval.decided_by == ruling.by.id and ruling.repeats(said):
        return approval
    if approval.status in {ApprovalStatus.CANCELLED, ApprovalStatus.SUPERSEDED}:
        closed = Conflict(
            "{subject}: the question is closed ({approval_status}); there is nothing left to "
            "decide",
            subject=approval.subject, approval_status=approval.status,
        )  # fmt: skip
        return Refusal(closed)
    if approval.status is not ApprovalStatus.REJECTED and has_voted(tx, approval, ruling):
        return approval
    who, when = said.get("decided_name", approval.decided_by), approval.decided_at
    return Refusal(
        AlreadyDecided(
            approval.subject, approval.status, str(who), when.isoformat() if when else "?"
        )
    )


def withdraw_all(tx: Tx, desk: ApprovalService, session_id: str) -> None:
    """Close every open question of a session that goes away."""
    for approval in pending_approvals(tx, session_id):
        desk.withdraw(tx, approval)


def _ask_the_rest(tx: Tx, session_id: str) -> None:
    """Have a session's plan ask what there was no room for, as there is room again."""
    session = session_of(tx, session_id)
    if session is not None and session.active_plan_id is not None:
        go_on(tx, "plan", session.active_plan_id)
