"""What the database holds that the audit log has to tell of: what people decided, and what ran."""

from collections.abc import Iterator

from sqlalchemy import Text, bindparam, literal, select, type_coerce, union_all

from gonogo.domain.audit_chain import DELETED, OPENED, SYSTEM
from gonogo.domain.reconciliation import ALLOWED, Claim, Holding, claim_of_question
from gonogo.domain.states import ApprovalStatus, CallStatus
from gonogo.store.columns import Clean
from gonogo.store.schema import (
    approvals,
    chains,
    comments,
    grants,
    links,
    plans,
    session_rules,
    sessions,
    tokens,
    tool_calls,
)
from gonogo.store.transaction import Tx

_OF = bindparam("of", type_=Clean())
_QUESTIONS = select(
    approvals.c.id, approvals.c.kind, approvals.c.status, approvals.c.digest,
    approvals.c.decided_by, type_coerce(approvals.c.created_at, Text).label("asked_at"),
    type_coerce(approvals.c.decided_at, Text).label("decided_at"),
).where(approvals.c.session_id == _OF)  # fmt: skip
_RAN = select(
    tool_calls.c.id, tool_calls.c.digest, type_coerce(tool_calls.c.started_at, Text).label("at")
).where(tool_calls.c.session_id == _OF, tool_calls.c.started_at.is_not(None))
_OTHERS = union_all(
    select(
        literal("tool.denied").label("action"), tool_calls.c.id,
        type_coerce(tool_calls.c.finished_at, Text).label("at"),
    ).where(tool_calls.c.session_id == _OF, tool_calls.c.status == CallStatus.DENIED),
    select(
        literal("rule.made"), session_rules.c.id, type_coerce(session_rules.c.created_at, Text)
    ).where(session_rules.c.session_id == _OF),
    select(literal("link.made"), links.c.id, type_coerce(links.c.created_at, Text))
    .join(approvals, approvals.c.id == links.c.approval_id)
    .where(approvals.c.session_id == _OF),
    select(
        literal("plan.commented"), comments.c.id, type_coerce(comments.c.created_at, Text)
    ).where(comments.c.session_id == _OF),
    select(
        literal("grant.revoked"), grants.c.id, type_coerce(grants.c.ended_at, Text)
    ).where(grants.c.session_id == _OF, grants.c.status == "revoked"),
)  # fmt: skip
_IDS = union_all(
    select(approvals.c.id).where(approvals.c.session_id == _OF),
    select(tool_calls.c.id).where(tool_calls.c.session_id == _OF),
    select(plans.c.id).where(plans.c.session_id == _OF),
)
_ERASED = select(chains.c.chain).where(chains.c.chain != SYSTEM)
_OF_SYSTEM = union_all(
    select(literal(OPENED).label("action"), sessions.c.id),
    select(literal(DELETED), sessions.c.id).where(sessions.c.deleted == 1),
    *(_ERASED.with_only_columns(literal(action), chains.c.chain) for action in (OPENED, DELETED)),
    select(literal("token.created"), tokens.c.id),
    select(literal("token.revoked"), tokens.c.id).where(tokens.c.revoked_at.is_not(None)),
)


def held_of(tx: Tx, session_id: str) -> Iterator[Holding]:
    """What of a session each has its entry in the session's chain."""
    for row in tx.execute(_QUESTIONS, {"of": session_id}):
        asked = claim_of_question(f"{row.kind}.asked", row.id, "", row.digest)
        yield Holding(asked, row.asked_at)
        if row.status != ApprovalStatus.PENDING:
            by = row.decided_by or "gonogo"
            closed = claim_of_question(f"{row.kind}.{row.status}", row.id, by, row.digest)
            yield Holding(closed, row.decided_at)
    for row in tx.execute(_RAN, {"of": session_id}):
        yield Holding(Claim(ALLOWED, row.id, digest=row.digest), row.at)
    for row in tx.execute(_OTHERS, {"of": session_id}):
        yield Holding(Claim(row.action, row.id), row.at)


def known_in(tx: Tx, session_id: str) -> set[str]:
    """The ids of all that entries of a session's chain may be about."""
    return set(tx.execute(_IDS, {"of": session_id}).scalars())


def held_of_system(tx: Tx) -> Iterator[Holding]:
    """What has its entry in the system's chain."""
    for row in tx.execute(_OF_SYSTEM):
        yield Holding(Claim(row.action, row.id), "")
