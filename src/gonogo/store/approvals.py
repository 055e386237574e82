"""What the desk keeps beside its questions: votes, comments on plans, links that decide."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, exists, func, select, update

from gonogo.domain.records import Approval, Comment, Vote
from gonogo.domain.reviews import DecisionLink
from gonogo.store.rows import by, change, columns_of, found_in, many, one, put, row_of
from gonogo.store.schema import approvals, comments, links, plans, sessions, tokens, votes
from gonogo.store.transaction import Tx

_VOTES = (
    select(*columns_of(votes, Vote))
    .where(votes.c.approval_id == bindparam("of"))
    .order_by(votes.c.created_at, votes.c.principal_id)
)
_WITHDRAW = delete(votes).where(
    votes.c.approval_id == bindparam("approval_id"),
    votes.c.principal_id == bindparam("principal_id"),
)
_ENDED = select(tokens.c.principal_id, tokens.c.role).where(tokens.c.id == bindparam("token_id"))
_OTHERS = exists().where(
    tokens.c.principal_id == bindparam("who"), tokens.c.role >= bindparam("role"),
    tokens.c.revoked_at.is_(None),
)  # fmt: skip
_FORGET = delete(votes).where(
    votes.c.principal_id == bindparam("who"),
    votes.c.approval_id.in_(select(approvals.c.id).where(approvals.c.status == "pending")),
    ~_OTHERS,
)
_ASKERS = select(plans.c.asked_by).where(plans.c.id == bindparam("of"))
_OWNER = select(sessions.c.principal_id, sessions.c.workspace, sessions.c.tool_host).where(
    sessions.c.id == bindparam("of")
)
_REVIEWED_OF_PLAN = select(*columns_of(approvals, Approval)).where(
    approvals.c.plan_id == bindparam("of"), approvals.c.review.is_not(None)
)


def keep_vote(tx: Tx, vote: Vote) -> None:
    """Keep a person's vote, in the place of an earlier one of theirs.

    The caller holds the approval's row, so that no two votes are counted at once.
    """
    key = {"approval_id": vote.approval_id, "principal_id": vote.principal_id}
    tx.execute(_WITHDRAW, key)
    put(tx, votes, row_of(vote))


def forget_votes(tx: Tx, token_id: str) -> int:
    """Withdraw the open votes of somebody who has no token of that one's role any more."""
    ended = tx.execute(_ENDED, {"token_id": token_id}).one()
    return tx.execute(_FORGET, {"who": ended.principal_id, "role": ended.role}).rowcount


def votes_of(tx: Tx, approval_id: str) -> list[Vote]:
    """Who has approved a question that needs several, first vote first."""
    return many(tx, _VOTES, {"of": approval_id}, Vote)


def askers_of_plan(tx: Tx, plan_id: str | None) -> Sequence[str]:
    """Who has asked for changes of a plan, besides whose message led to it."""
    return tx.execute(_ASKERS, {"of": plan_id}).scalar() or () if plan_id else ()


def owner_of(tx: Tx, session_id: str) -> str | None:
    """Whose session it is."""
    return tx.execute(_OWNER, {"of": session_id}).scalar()


def place_of_work(tx: Tx, session_id: str) -> tuple[str, str]:
    """The workspace of a session, and who carries out its tools."""
    row = tx.execute(_OWNER, {"of": session_id}).one()
    return row.workspace, row.tool_host


def escalate_approval(tx: Tx, approval: Approval, review: Mapping[str, Any]) -> bool:
    """Let others decide an open question, once. False when it is closed or was escalated."""
    where = {"id": approval.id, "status": "pending"}
    if approval.escalated_at is not None:
        return False
    return change(tx, approvals, where, {"review": dict(review), "escalated_at": tx.now})


def reviewed_of_plan(tx: Tx, plan_id: str) -> list[Approval]:
    """Every question about a plan, open or not, of which a rule of review spoke."""
    return many(tx, _REVIEWED_OF_PLAN, {"of": plan_id}, Approval)


# Comments on plans, their answers, and which plans their planner is answering.

_ALL = (
    select(*columns_of(comments, Comment))
    .where(comments.c.plan_id == bindparam("of"))
    .order_by(comments.c.created_at, comments.c.id)
)
_COUNT_OPEN = (
    select(func.count())
    .select_from(comments)
    .where(comments.c.plan_id == bindparam("of"), comments.c.answer.is_(None))
)
_ANSWER = (
    update(comments)
    .where(comments.c.id == bindparam("of"), comments.c.answer.is_(None))
    .values(
        answer=bindparam("said"), answered_revision=bindparam("number"), answered_at=bindparam("at")
    )
)
_REVISED = select(plans.c.id).where(
    plans.c.status == "awaiting_approval", plans.c.revising.is_not(None)
)


def add_comment(tx: Tx, comment: Comment) -> None:
    """Keep a comment."""
    put(tx, comments, row_of(comment))


def comments_of(tx: Tx, plan_id: str) -> list[Comment]:
    """Every comment on a plan, oldest first."""
    return many(tx, _ALL, {"of": plan_id}, Comment)


def count_open_comments(tx: Tx, plan_id: str) -> int:
    """How many comments on a plan have no answer."""
    return tx.execute(_COUNT_OPEN, {"of": plan_id}).scalar_one()


def answer_comment(tx: Tx, comment_id: str, answer: str, revision: int) -> bool:
    """Keep the planner's answer. False when there is one already."""
    params = {"of": comment_id, "said": answer, "number": revision, "at": tx.now}
    return tx.execute(_ANSWER, params).rowcount == 1


def plans_in_revision(tx: Tx, place: str | None = None) -> list[str]:
    """The ids of the plans that wait for a person while their planner answers comments.

    Args:
        place: Only those in its sessions.
    """
    return list(found_in(tx, place, _REVISED, plans.c.session_id).scalars())


# Links that decide: made, used once, ended.

_OPEN = (
    select(*columns_of(links, DecisionLink))
    .where(
        links.c.approval_id == bindparam("of"),
        links.c.used_at.is_(None),
        links.c.revoked_at.is_(None),
    )
    .order_by(links.c.id)
)
_GOOD = update(links).where(
    links.c.id == bindparam("of"), links.c.used_at.is_(None), links.c.revoked_at.is_(None)
)
_USE = _GOOD.values(used_at=bindparam("at"))
_REVOKE = _GOOD.values(revoked_at=bindparam("at"))


def add_link(tx: Tx, link: DecisionLink) -> None:
    """Insert a link."""
    put(tx, links, row_of(link))


def link_of(tx: Tx, link_id: str) -> DecisionLink | None:
    """The link of that id."""
    return one(tx, by(links, DecisionLink, "id"), {"id": link_id}, DecisionLink)


def open_links(tx: Tx, approval_id: str) -> list[DecisionLink]:
    """The links of a question that were neither used nor revoked."""
    return many(tx, _OPEN, {"of": approval_id}, DecisionLink)


def use_link(tx: Tx, link_id: str) -> bool:
    """Spend a link. False when that was done before, or it was revoked."""
    return tx.execute(_USE, {"of": link_id, "at": tx.now}).rowcount == 1


def revoke_link(tx: Tx, link_id: str) -> bool:
    """End a link. False when it was used or ended before."""
    return tx.execute(_REVOKE, {"of": link_id, "at": tx.now}).rowcount == 1
