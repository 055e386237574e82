"""Who may answer a question: what its review says of one person."""

from gonogo.domain.errors import Forbidden
from gonogo.domain.identity import Principal, Role
from gonogo.domain.records import Approval
from gonogo.domain.reviews import NO_REVIEW, Review, reviewer_name
from gonogo.domain.states import DecisionWord
from gonogo.execution.approvals.types import Ruling
from gonogo.store import Tx
from gonogo.store.approvals import owner_of


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
    """Why the principal may not approve what that review is about, if they may not."""
    if not review.admits(principal):
        named = ", ".join(reviewer_name(who) for who in (*(review.reviewers or ()), *review.also))
        problem = review.problem(requested_by)
        return f"Only {named} may approve this" if named else f"Nobody may approve this: {problem}"
    if not review.has_role(principal):
        word = Role(principal.role).word
        return f"This needs the role {review.role}; {principal.name} is {word}"
    if review.bars(principal, requested_by):
        return f"{principal.name} asked for this, and somebody else has to approve it"
    return None


def check_right(tx: Tx, approval: Approval, ruling: Ruling, *, asks_again: bool) -> None:
    """Check that whoever answers may answer so.

    Whose session it is, and who asked, may always say no; so may they edit what is then asked
    anew, since that approves nothing.

    Args:
        asks_again: An edit of such a question can be put before others.

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
