"""The rules of sessions: added, ended, never changed."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, func, select, update

from gonogo.domain.records import SessionRule
from gonogo.store._desk_schema import session_rules
from gonogo.store._rows import columns_of, many, put, row_of
from gonogo.store._schema import sessions

_ACTIVE = (
    select(*columns_of(session_rules, SessionRule))
    .where(session_rules.c.session_id == bindparam("of"), session_rules.c.ended_at.is_(None))
    .order_by(session_rules.c.position)
)
_HOLD = select(sessions.c.id).where(sessions.c.id == bindparam("of")).with_for_update()
_NEXT = select(func.coalesce(func.max(session_rules.c.position), 0) + 1).where(
    session_rules.c.session_id == bindparam("of")
)
_END = (
    update(session_rules)
    .where(session_rules.c.id == bindparam("of"), session_rules.c.ended_at.is_(None))
    .values(ended_at=bindparam("at"))
)
_END_ALL = (
    update(session_rules)
    .where(session_rules.c.session_id == bindparam("of"), session_rules.c.ended_at.is_(None))
    .values(ended_at=bindparam("at"))
)


def active_rules(conn: Connection, session_id: str) -> list[SessionRule]:
    """The rules of a session that have not ended, in the order in which they were made."""
    return many(conn, _ACTIVE, {"of": session_id}, SessionRule)


def next_rule(conn: Connection, session_id: str) -> int:
    """The number of a session's next rule, held until the transaction ends."""
    conn.execute(_HOLD, {"of": session_id})
    return conn.execute(_NEXT, {"of": session_id}).scalar_one()


def add_rule(conn: Connection, rule: SessionRule) -> None:
    """Insert a rule."""
    put(conn, session_rules, row_of(rule))


def end_rule(conn: Connection, rule_id: str, now: datetime) -> bool:
    """End a rule. False when it has ended already."""
    return conn.execute(_END, {"of": rule_id, "at": now}).rowcount == 1


def end_rules(conn: Connection, session_id: str, now: datetime) -> None:
    """End every rule of a session."""
    conn.execute(_END_ALL, {"of": session_id, "at": now})
