"""What the desk keeps beside its questions: who asked for the work, and who has approved so far."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, func, select

from gonogo.domain.records import Approval, Vote
from gonogo.store._desk_schema import votes
from gonogo.store._rows import change, columns_of, many, put, row_of
from gonogo.store._schema import approvals, plans, sessions, tokens, turns
from gonogo.store._types import Clean

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
_PLAN_TURN = select(plans.c.turn_id).where(plans.c.id == bindparam("plan_id")).scalar_subquery()
_REQUESTER = (
    select(func.coalesce(turns.c.principal_id, sessions.c.principal_id))
    .select_from(sessions)
    .outerjoin(turns, turns.c.id == func.coalesce(bindparam("turn_id", type_=Clean), _PLAN_TURN))
    .where(sessions.c.id == bindparam("session_id"))
)
_ASKERS = select(plans.c.asked_by).where(plans.c.id == bindparam("of"))
_OWNER = select(sessions.c.principal_id, sessions.c.workspace, sessions.c.tool_host).where(
    sessions.c.id == bindparam("of")
)
_REVIEWED_OF_PLAN = select(*columns_of(approvals, Approval)).where(
    approvals.c.plan_id == bindparam("of"), approvals.c.review.is_not(None)
)


def keep_vote(conn: Connection, vote: Vote) -> None:
    """Keep a person's vote, in the place of an earlier one of theirs.

    The caller holds the approval's row, so that no two votes are counted at once.
    """
    key = {"approval_id": vote.approval_id, "principal_id": vote.principal_id}
    conn.execute(_WITHDRAW, key)
    put(conn, votes, row_of(vote))


def forget_votes(conn: Connection, token_id: str) -> int:
    """Withdraw the open votes of somebody who has no token of that one's role any more."""
    ended = conn.execute(_ENDED, {"token_id": token_id}).one()
    return conn.execute(_FORGET, {"who": ended.principal_id, "role": ended.role}).rowcount


def votes_of(conn: Connection, approval_id: str) -> list[Vote]:
    """Who has approved a question that needs several, first vote first."""
    return many(conn, _VOTES, {"of": approval_id}, Vote)


def requester_of(
    conn: Connection, session_id: str, turn_id: str | None, plan_id: str | None
) -> str | None:
    """Whose message led to a turn or a plan; the session's owner where that is not known."""
    params = {"session_id": session_id, "turn_id": turn_id, "plan_id": plan_id}
    return conn.execute(_REQUESTER, params).scalar()


def askers_of_plan(conn: Connection, plan_id: str | None) -> Sequence[str]:
    """Who has asked for changes of a plan, besides whose message led to it."""
    return conn.execute(_ASKERS, {"of": plan_id}).scalar() or () if plan_id else ()


def owner_of(conn: Connection, session_id: str) -> str | None:
    """Whose session it is."""
    return conn.execute(_OWNER, {"of": session_id}).scalar()


def place_of_work(conn: Connection, session_id: str) -> tuple[str, str]:
    """The workspace of a session, and who carries out its tools."""
    row = conn.execute(_OWNER, {"of": session_id}).one()
    return row.workspace, row.tool_host


def escalate_approval(
    conn: Connection, approval: Approval, review: Mapping[str, Any], now: datetime
) -> bool:
    """Let others decide an open question, once. False when it is closed or was escalated."""
    where = {"id": approval.id, "status": "pending"}
    if approval.escalated_at is not None:
        return False
    return change(conn, approvals, where, {"review": dict(review), "escalated_at": now})


def reviewed_of_plan(conn: Connection, plan_id: str) -> list[Approval]:
    """Every question about a plan, open or not, of which a rule of review spoke."""
    return many(conn, _REVIEWED_OF_PLAN, {"of": plan_id}, Approval)
