"""The audit log as people read it: one chain in its order, or all chains by time.

A page over all chains looks at a bounded number of entries, however few of them are wanted, and
says where the next one begins; so no request walks the whole log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select, tuple_

from gonogo.domain.audit_chain import AuditFilter, AuditPlace
from gonogo.domain.report_views import AuditEntry
from gonogo.store._rows import many, rows
from gonogo.store._schema import audit, principals, sessions
from gonogo.store._types import Clean, Utc
from gonogo.store.auditing import END, START

LOOKED_AT = 10_000
"""Entries that one page looks at, at most."""
_ORDER = (audit.c.ts.desc(), audit.c.chain.desc(), audit.c.seq.desc())
_PLACE = tuple_(audit.c.ts, audit.c.chain, audit.c.seq)
_END = tuple_(bindparam("at", type_=Utc), bindparam("of"), bindparam("nth"))
_BEGIN = tuple_(bindparam("since", type_=Utc), bindparam("from_of"), bindparam("from_nth"))
_SPAN = (_PLACE < _END, _PLACE >= _BEGIN)
_EDGE = (
    select(audit.c.ts, audit.c.chain, audit.c.seq)
    .where(*_SPAN)
    .order_by(*_ORDER)
    .offset(bindparam("looked_at"))
    .limit(1)
)
_MINE = (
    select(sessions.c.id)
    .where(
        sessions.c.id == audit.c.chain,
        sessions.c.principal_id == bindparam("owner"),
        sessions.c.deleted == 0,
    )
    .correlate(audit)
    .exists()
)
_CALLED = select(principals.c.id).where(principals.c.name == bindparam("name"))
_FIRST_OF = select(func.min(sessions.c.created_at)).where(
    sessions.c.principal_id == bindparam("owner")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve:
    """What of the log is wanted, in ids."""

    actors: Sequence[str] = ()
    """Any of these; none is everybody."""
    action: str = ""
    since: datetime = START
    until: datetime = END


def sieve(conn: Connection, wanted: AuditFilter) -> Sieve:
    """What is wanted, with a person's name as the ids that people of that name have."""
    named = rows(conn, _CALLED, {"name": wanted.actor}) if wanted.actor else []
    return Sieve(
        actors=[wanted.actor, *(row.id for row in named)] if wanted.actor else (),
        action=wanted.action or "",
        since=max(wanted.since or START, START),
        until=min(wanted.until or END, END),
    )


def chain_entries(
    conn: Connection, chain: str, after: int, limit: int, wanted: Sieve
) -> list[AuditEntry]:
    """Those entries of one chain that are wanted, oldest first."""
    asked = {"of": chain, "after": after, "limit": limit, "until": wanted.until, **_given(wanted)}
    return many(conn, _of_chain(bool(wanted.actors), bool(wanted.action)), asked, AuditEntry)


def newest_entries(
    conn: Connection, owner: str | None, before: AuditPlace | None, limit: int, wanted: Sieve
) -> tuple[list[AuditEntry], AuditPlace | None]:
    """The last wanted entries of all chains that stand before a place, oldest first.

    Gives with them the place before which to look next, or None where nothing more is. There can be
    more although there are fewer than `limit` of them.

    Args:
        owner: Only of this principal's sessions; None is every chain.
    """
    since = wanted.since if owner is None else _begin_of(conn, owner, wanted.since)
    last = _last(before, wanted.until)
    span = {
        "at": last.ts, "of": last.chain, "nth": last.seq,
        "since": since, "from_of": "", "from_nth": 0,
    }  # fmt: skip
    edge = _edge(conn, span)
    if edge is not None:
        span |= {"since": edge.ts, "from_of": edge.chain, "from_nth": edge.seq}
    asked = {**_given(wanted), **span, "owner": owner, "limit": limit + 1}
    statement = _newest(bool(wanted.actors), bool(wanted.action), owner is not None)
    found = many(conn, statement, asked, AuditEntry)
    page = found[:limit]
    if len(found) > limit:
        return page[::-1], _place(page[-1])
    return page[::-1], edge


def _edge(conn: Connection, span: dict[str, Any]) -> AuditPlace | None:
    """The last entry of a span that one page may look at, if there are more."""
    found = rows(conn, _EDGE, {**span, "looked_at": LOOKED_AT - 1})
    return AuditPlace(ts=found[0].ts, chain=found[0].chain, seq=found[0].seq) if found else None


def _begin_of(conn: Connection, owner: str, since: datetime) -> datetime:
    began = conn.execute(_FIRST_OF, {"owner": owner}).scalar()
    return END if began is None else max(began, since)


def _last(before: AuditPlace | None, until: datetime) -> AuditPlace:
    """The earlier of two ends; a bare moment stands before every entry of that moment."""
    end = AuditPlace(ts=until, chain="", seq=0)
    return end if before is None or before.ts >= until else before


def _place(entry: AuditEntry) -> AuditPlace:
    return AuditPlace(ts=entry.ts, chain=entry.chain, seq=entry.seq)


def _given(wanted: Sieve) -> dict[str, Any]:
    given: dict[str, Any] = {"since": wanted.since}
    if wanted.actors:
        given["actors"] = list(wanted.actors)
    if wanted.action:
        given |= {"action": wanted.action, "length": len(wanted.action)}
    return given


@cache
def _of_chain(actors: bool, action: bool) -> Select[Any]:
    within = select(audit).where(
        audit.c.chain == bindparam("of"),
        audit.c.seq > bindparam("after"),
        audit.c.ts >= bindparam("since", type_=Utc),
        audit.c.ts < bindparam("until", type_=Utc),
    )
    return _wanted(within, actors, action).order_by(audit.c.seq).limit(bindparam("limit"))


@cache
def _newest(actors: bool, action: bool, mine: bool) -> Select[Any]:
    within = select(audit).where(*_SPAN)
    if mine:
        within = within.where(_MINE)
    return _wanted(within, actors, action).order_by(*_ORDER).limit(bindparam("limit"))


def _wanted(statement: Select[Any], actors: bool, action: bool) -> Select[Any]:
    if actors:
        statement = statement.where(audit.c.actor.in_(bindparam("actors", expanding=True)))
    if action:
        begins = func.substr(audit.c.action, 1, bindparam("length"))
        statement = statement.where(begins == bindparam("action", type_=Clean))
    return statement
