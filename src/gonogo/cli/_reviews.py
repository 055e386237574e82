"""Who decides a question, and which questions are the same, as a person reads it."""

from collections import Counter
from collections.abc import Iterator, Sequence

from gonogo.domain.states import ApprovalStatus
from gonogo.domain.views import ApprovalView, ReviewView
from gonogo.texts import say


def review_lines(approval: ApprovalView, locale: str) -> Iterator[str]:
    """Who may approve, and who has; nothing where anybody may alone."""
    review = approval.review
    if review is None:
        return
    if review.problem:
        yield say("cli_question_problem", locale, problem=review.problem)
    yield from _who_lines(review, locale)
    if review.role != "operator":
        yield say("cli_question_role", locale, role=review.role)
    if review.not_requester:
        askers = dict.fromkeys([approval.requested_by or "?", *(review.asked_too or ())])
        yield say("cli_question_requester", locale, name=", ".join(askers))
    if review.needed > 1:
        yield from _vote_lines(approval, review.needed, locale)
    if review.escalates_at and review.escalates_to:
        when, names = f"{review.escalates_at:%Y-%m-%d %H:%M}", ", ".join(review.escalates_to)
        yield say("cli_question_later", locale, when=when, names=names)


def _who_lines(review: ReviewView, locale: str) -> Iterator[str]:
    if review.reviewers:
        yield say("cli_question_who", locale, names=", ".join(review.reviewers))
    if review.seen_by:
        yield say("cli_question_seen_by", locale, names=", ".join(review.seen_by))


def _vote_lines(approval: ApprovalView, needed: int, locale: str) -> Iterator[str]:
    votes = approval.approved_by or [vote.name for vote in approval.votes or ()]
    yield say("cli_question_needed", locale, votes=len(votes), needed=needed)
    if votes:
        yield say("cli_question_by", locale, names=", ".join(votes))


def standing(approval: ApprovalView, locale: str) -> str:
    """The state of a question, with how many have approved where several have to."""
    review = approval.review
    if approval.status is not ApprovalStatus.PENDING or review is None or review.needed == 1:
        return str(approval.status)
    told = say("cli_question_needed", locale, votes=len(approval.votes or ()), needed=review.needed)
    return f"{approval.status}, {told}"


def once_each(approvals: Sequence[ApprovalView], locale: str) -> Iterator[tuple[ApprovalView, str]]:
    """The questions with what they are about; of identical open ones the first, with how many."""
    same = Counter(_group(approval) for approval in approvals)
    shown: set[str] = set()
    for approval in approvals:
        group = _group(approval)
        if group in shown:
            continue
        shown.add(group)
        more = say("cli_identical", locale, count=same[group])
        yield approval, approval.subject if same[group] == 1 else f"{approval.subject} ({more})"


def _group(approval: ApprovalView) -> str:
    is_open = approval.status is ApprovalStatus.PENDING
    return approval.group if approval.group and is_open else approval.approval_id
