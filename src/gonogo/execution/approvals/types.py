"""Questions and answers: their contents, who may answer, and their events and audit entries."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.base import digest, elapsed
from gonogo.domain.errors import Forbidden, Refused, because
from gonogo.domain.events import ApprovalChanged, ApprovalFacts
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import Subtask
from gonogo.domain.records import Approval, Vote
from gonogo.domain.reviews import NO_REVIEW, Deed, Review, reviewer_name
from gonogo.domain.states import ApprovalKind, ApprovalStatus, DecisionWord
from gonogo.i18n import say
from gonogo.policy import RuleText
from gonogo.store import Tx
from gonogo.store import events as log
from gonogo.store.calls import owner_of
from gonogo.store.sessions import spoken_in

NOBODY = Principal(id="gonogo", name="gonogo", role=Role.OPERATOR)
"""Who decides if nobody did in time, and the operator wants that to be a rejection."""


class Ruling(Struct, frozen=True, kw_only=True):
    """What a person answered."""

    word: DecisionWord
    by: Principal
    digest: str | None = None
    revision: int | None = None
    feedback: str | None = None
    changes: Any = None
    """The edited arguments or subtasks, as the person sent them."""
    prepared: Any = None
    """What the kind made of `changes` before the transaction, or a call that is ready to start."""
    rule: RuleText | None = None
    """What the answer allows for the rest of the session, besides this once."""
    for_plan: bool = False
    """The rule holds only in the plan that the question is about."""
    start: bool = True
    auto_approve_tools: bool = True
    after: int | None = None
    """The place in the session's log that the answer follows, for a sender who repeats it."""
    via: str | None = None
    """How the answer came, if not from a client that showed who asks."""
    agreed: tuple[str, ...] = ()
    """The names of all who approved, if several had to; the last of them decided."""

    @property
    def is_plain_approval(self) -> bool:
        """Whether it approves what was asked, and nothing else."""
        return self.word is DecisionWord.APPROVE and self.rule is None

    def as_json(self) -> dict[str, Any]:
        """The answer as it is stored and audited."""
        said = {
            "decision": str(self.word),
            "feedback": self.feedback,
            "changes": self.changes,
            "rule": self.rule and self.rule.model_dump(mode="json", exclude_defaults=True),
            "for_plan": self.for_plan or None,
            "decided_name": self.by.name,
            "after": self.after,
            "approved_by": list(self.agreed) or None,
            "via": self.via,
        }
        return {name: value for name, value in said.items() if value is not None}

    def ballot(self, approval: Approval) -> str:
        """A digest of exactly what is approved; only votes with the same one count together."""
        if self.word is not DecisionWord.EDIT:
            # If an agent asked, the feedback is the answer to it, and no mere remark.
            answer = self.feedback if "question" in approval.details else None
            return digest({"of": approval.digest, "answer": answer}) if answer else approval.digest
        return digest({"of": approval.digest, "changes": self.changes})

    def repeats(self, said: dict[str, Any]) -> bool:
        """Whether this repeats an earlier answer."""
        return said.get("decision") == self.word and said.get("changes") == self.changes

    def as_approval(self) -> "Ruling":
        """The same person's approval of the question that their edit made."""
        return replace(self, word=DecisionWord.APPROVE, changes=None)


class Matter(Struct, frozen=True, kw_only=True):
    """What a question is about, as rules of review look at it."""

    deeds: tuple[Deed, ...] = ()
    subtasks: tuple[Subtask, ...] = ()


class Question(Struct, frozen=True, kw_only=True):
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
    matter: Matter = Matter()
    same: Any = None
    """What questions have in common that one answer can settle together; None: nothing."""
    instead_of: Approval | None = None
    """The question that was edited into this one: its review still holds."""


class Refusal(Struct, frozen=True):
    """A decision that did not take effect although the transaction was committed."""

    error: Refused


class ApprovalType(Protocol):
    """What answers about one kind of thing mean."""

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Carry out a ruling, in the transaction that records it.

        Raises:
            Refused: it cannot be carried out; nothing changes.
        """
        ...

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Carry out what follows if nobody answered in time."""
        ...


@runtime_checkable
class Revisable(ApprovalType, Protocol):
    """A kind that asks anew about an edit, if its author may not decide it alone.

    For other kinds everybody sends the same edit, and it holds once enough people have sent it.
    """

    def check(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Check an answer that decides nothing yet.

        Raises:
            Refused: it could not be carried out.
        """
        ...

    def matter(self, tx: Tx, approval: Approval, ruling: Ruling) -> Matter:
        """What the question would be about after an edit.

        Raises:
            Refused: the edit is not valid.
        """
        ...

    def ask_again(self, tx: Tx, approval: Approval, ruling: Ruling) -> Approval:
        """Adopt an edit, and ask about it instead of the question that was edited."""
        ...


# Who may answer a question: what its review says of one person.


def review_of(approval: Approval) -> Review:
    """Who decides a question."""
    return Review.model_validate(approval.review) if approval.review else NO_REVIEW


def is_reviewer(principal: Principal, approval: Approval) -> bool:
    """Whether a review lets the principal see a question of somebody else's session."""
    return approval.review is not None and review_of(approval).names(principal)


def objection(principal: Principal, approval: Approval) -> str | None:
    """Why the principal may not approve, if they may not."""
    return objection_of(review_of(approval), principal, approval.requested_by)


def objection_of(review: Review, principal: Principal, requested_by: str | None) -> str | None:
    """Why the principal may not approve something under a review, if they may not."""
    if not review.admits(principal):
        named = ", ".join(reviewer_name(who) for who in (*(review.reviewers or ()), *review.also))
        problem = review.problem(requested_by)
        if named:
            return because(
                "Only these people can approve this: {names}; ask one of them", names=named
            )
        return because(
            "Nobody can approve this: {problem}; ask an admin to correct the rules of review",
            problem=problem,
        )
    if not review.has_role(principal):
        return because(
            "This needs the role {role}, and {name} has the role {own_role}; ask an admin",
            role=review.role, name=principal.name, own_role=Role(principal.role).word,
        )  # fmt: skip
    if review.bars(principal, requested_by):
        return because(
            "{name} asked for this, so somebody else must approve it", name=principal.name
        )
    return None


def check_right(tx: Tx, approval: Approval, ruling: Ruling, *, asks_again: bool) -> None:
    """Check that a person may give this answer.

    The session's owner and the people who asked may always reject. They may also edit if the edit
    is then asked about anew, since that approves nothing.

    Args:
        asks_again: An edit of such a question is asked about anew.

    Raises:
        Forbidden: they may not; the text says why.
    """
    problem = objection(ruling.by, approval)
    if problem is None:
        return
    harmless = ruling.word is DecisionWord.REJECT or (
        ruling.word is DecisionWord.EDIT and asks_again
    )
    askers = (approval.requested_by, *review_of(approval).asked_too)
    own = (*askers, owner_of(tx, approval.session_id))
    if not (harmless and ruling.by.id in own):
        raise Forbidden(problem)


# What the log and the audit are told of questions.


def tell_asked(tx: Tx, approval: Approval, agent: str | None) -> None:
    """Tell that a person is asked."""
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
    """Tell that somebody approved, and more people have to."""
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
    """Tell that others may decide from now on, too."""
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
    """Tell that the question is about to expire."""
    left = elapsed(tx.now, approval.expires_at) if approval.expires_at else 0
    content = say(
        "approval_warning", spoken_in(tx, approval.session_id), minutes=max(1, round(left / 60)),
        subject=approval.subject,
    )  # fmt: skip
    event = _changed("approval_warning", approval, content=content)
    log.tell(tx, approval.session_id, event)


def tell_closed(tx: Tx, approval: Approval, status: ApprovalStatus, ruling: Ruling | None) -> None:
    """Tell that the question has its answer, or is no longer of interest."""
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
