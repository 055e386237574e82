"""The event log and the audit chain: append once, in the transaction that makes the fact true.

Events of a session are numbered 1, 2, 3 … without gaps. Audit entries are chained by hash: one
chain for each session and one for the system. Both are collected while a transaction runs, and
`flush` writes them at its end. So a transaction needs the same few statements for one as for many.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Text, bindparam, func, literal, null, select, type_coerce, union_all, update

from gonogo.domain.audit_chain import GENESIS, SYSTEM, entry_hash, new_salt, seal_of, sealed
from gonogo.domain.base import WrittenEvent, unbroken
from gonogo.domain.errors import NotFound, PlaceLost, parts_of
from gonogo.domain.events import Event
from gonogo.domain.plan_views import AuditEntry
from gonogo.store.columns import as_kept, clean, json_text, stamp
from gonogo.store.rows import many, packed_value, put, put_packed, whole_texts
from gonogo.store.schema import audit, chains, events, places, sessions
from gonogo.store.transaction import Extent, Hold, Tx

_EXTENT = union_all(
    select(sessions.c.audit_seq, sessions.c.audit_hash, sessions.c.last_seq).where(
        sessions.c.id == bindparam("of")
    ),
    # The chain of the system, and those of erased sessions.
    select(chains.c.audit_seq, chains.c.audit_hash, null()).where(
        chains.c.chain == bindparam("of")
    ),
)
_HASH = select(audit.c.hash).where(audit.c.chain == bindparam("of"), audit.c.seq == bindparam("at"))
_ADVANCE_SYSTEM = (
    update(chains)
    .where(chains.c.chain == bindparam("of"))
    .values(audit_seq=chains.c.audit_seq + bindparam("notes"))
    .returning(chains.c.audit_seq, chains.c.audit_hash)
)
_ADVANCE = (
    update(sessions)
    .where(sessions.c.id == bindparam("of"))
    .values(
        last_seq=sessions.c.last_seq + bindparam("told"),
        audit_seq=sessions.c.audit_seq + bindparam("notes"),
        updated_at=bindparam("at"),
    )
    .returning(sessions.c.last_seq, sessions.c.audit_seq, sessions.c.audit_hash)
)
_ADVANCE_OWNED = _ADVANCE.where(
    sessions.c.place_id == bindparam("held"), sessions.c.fence == bindparam("under")
)
_HELD = (
    select(places.c.wanted)
    .where(places.c.id == bindparam("held"), places.c.fence == bindparam("under"))
    .with_for_update(read=True)
)
HELD_OR_FAIL = select(literal(1).op("/")(func.count(_HELD.cte("holding").c.wanted)))
"""Like `check_hold`, but fails if the place has another owner; so nobody must wait for it."""
_SET_HASH = {
    True: update(chains)
    .where(chains.c.chain == bindparam("of"))
    .values(audit_hash=bindparam("hash")),
    False: update(sessions)
    .where(sessions.c.id == bindparam("of"))
    .values(audit_hash=bindparam("hash")),
}
_AFTER = (
    select(
        events.c.seq,
        type_coerce(events.c.ts, Text()).label("ts"),
        type_coerce(events.c.body, Text()).label("body"),
    )
    .where(events.c.session_id == bindparam("of"), events.c.seq > bindparam("after"))
    .order_by(events.c.seq)
    .limit(bindparam("limit"))
)
_LAST_SEQ = select(sessions.c.last_seq).where(sessions.c.id == bindparam("of"))
_LAST_SEQS = select(sessions.c.id, sessions.c.last_seq).where(
    sessions.c.id.in_(bindparam("ids", expanding=True)), sessions.c.deleted == 0
)
_HOLD_LAST_SEQ = _LAST_SEQ.with_for_update()
_ENTRIES = (
    select(audit)
    .where(audit.c.chain == bindparam("of"), audit.c.seq > bindparam("after"))
    .order_by(audit.c.seq)
    .limit(bindparam("limit"))
)

PAGE = 500
"""How many events are read at once by default."""


class _Note(Struct, frozen=True, kw_only=True):
    actor: str
    action: str
    subject: str
    details: dict[str, Any]


class Pending(Struct):
    """The events and audit entries of a running transaction for one chain, so far."""

    bodies: list[dict[str, Any]] = []
    notes: list[_Note] = []


def tell(tx: Tx, session_id: str, *facts: Event | dict[str, Any]) -> None:
    """Append events to a session's log, as events or as their bodies."""
    bodies = _pending(tx, session_id).bodies
    bodies.extend([fact if isinstance(fact, dict) else fact.body() for fact in facts])


def told(tx: Tx) -> list[dict[str, Any]]:
    """The events of this transaction so far; they have no seq yet."""
    return [body for pending in tx.outbox.pending.values() for body in pending.bodies]


def told_in(tx: Tx, session_id: str) -> Sequence[Any]:
    """The events of this transaction so far in one session."""
    pending = tx.outbox.pending.get(session_id)
    return pending.bodies if pending is not None else ()


def tell_final(tx: Tx, session_id: str) -> None:
    """Mark the last event of this transaction as final: it ends the answer to a request."""
    pending = tx.outbox.pending.get(session_id)
    if pending is not None and pending.bodies:
        pending.bodies[-1]["is_final"] = True


def note(
    tx: Tx,
    chain: str,
    *,
    actor: str,
    action: str,
    subject: str,
    **details: Any,  # noqa: ANN401 - JSON values
) -> None:
    """Append an entry to an audit chain: who did what to what, and why.

    If a `reason` was made with parameters, its parts are also stored, as `reason_parts`.
    """
    parts = parts_of(details.get("reason", ""))
    if parts.get("params"):
        details["reason_parts"] = parts
    kept = as_kept({name: value for name, value in details.items() if value is not None})
    _pending(tx, chain).notes.append(
        _Note(actor=actor, action=action, subject=subject, details=kept)
    )


def flush(tx: Tx) -> None:
    """Write the transaction's events and entries. The backends call it once, before the commit.

    Raises:
        NotFound: the session of an event or entry is gone.
        PlaceLost: it was written for a place that now has another owner. If the transaction has
            nothing of a session, the commit fails instead, see `HELD_OR_FAIL`.
    """
    # Always in the same order, so that no two transactions wait for each other's chain.
    for chain, pending in sorted(tx.outbox.pending.items()):
        if pending.bodies or pending.notes:
            _flush_chain(tx, chain, pending)
    if tx.hold is not None and not (tx.is_held or tx.outbox.extents.keys() - {SYSTEM}):
        # No row of a session was updated, which checks the fence. So check the place itself.
        tx.post(HELD_OR_FAIL, {"held": tx.hold.place_id, "under": tx.hold.fence})


def check_hold(tx: Tx, hold: Hold) -> int:
    """Check that a place still has its owner, and lock that until the transaction ends.

    Returns:
        How often others have wanted something of the place so far.

    Raises:
        PlaceLost: it has another owner.
    """
    held = tx.execute(_HELD, {"held": hold.place_id, "under": hold.fence}).first()
    if held is None:
        raise lost(hold)
    tx.is_held = True
    return held.wanted


def lost(hold: Hold) -> PlaceLost:
    """The error for a write for a place that has another owner."""
    return PlaceLost(
        "Another process now does the work of place {place_id}; it continues there",
        place_id=hold.place_id,
    )


def last_seq(tx: Tx, session_id: str) -> int:
    """The seq of the last event in a session's log; 0 for an empty log."""
    return tx.execute(_LAST_SEQ, {"of": session_id}).scalar() or 0


def last_seqs(tx: Tx, session_ids: Sequence[str]) -> dict[str, int]:
    """By session, the seq of the last event in its log; without deleted sessions."""
    found = tx.execute(_LAST_SEQS, {"ids": list(session_ids)})
    return {row.id: row.last_seq for row in found}


def told_seq(tx: Tx, session_id: str) -> int:
    """The seq that the last event of this transaction so far will have in a session's log."""
    return begin_seq(tx, session_id) + len(told_in(tx, session_id))


def begin_seq(tx: Tx, session_id: str) -> int:
    """The last seq of a session's log before the events of this transaction.

    It is locked from here on: events of others come before it, or after all of this transaction.
    """
    return tx.execute(_HOLD_LAST_SEQ, {"of": session_id}).scalar() or 0


def events_after(tx: Tx, session_id: str, after: int, limit: int = PAGE) -> list[WrittenEvent]:
    """The events that follow a place in a session's log, oldest first, as they were written."""
    found = tx.execute(_AFTER, {"of": session_id, "after": after, "limit": limit}).all()
    return [
        WrittenEvent(written=_line(_compact(text), row.seq, session_id, row.ts))
        for row, text in zip(found, whole_texts(tx, [row.body for row in found]), strict=True)
    ]


def entries(tx: Tx, chain: str, after: int = 0, limit: int = 1000) -> list[AuditEntry]:
    """Entries of one audit chain, oldest first."""
    return many(tx, _ENTRIES, {"of": chain, "after": after, "limit": limit}, AuditEntry)


def extent_of(tx: Tx, chain: str) -> Extent | None:
    """The extent of a chain by its head; works for an erased session too."""
    row = tx.execute(_EXTENT, {"of": chain}).one_or_none()
    return None if row is None else Extent(*row)


def hash_at(tx: Tx, chain: str, seq: int) -> str | None:
    """The hash of an entry, if it is there."""
    return tx.execute(_HASH, {"of": chain, "at": seq}).scalar()


def _pending(tx: Tx, chain: str) -> Pending:
    pending = tx.outbox.pending.get(chain)
    if pending is None:
        pending = tx.outbox.pending[chain] = Pending()
    return pending


def _flush_chain(tx: Tx, chain: str, pending: Pending) -> None:
    if chain == SYSTEM:
        head = tx.execute(_ADVANCE_SYSTEM, {"of": chain, "notes": len(pending.notes)}).one()
        digest = _write_notes(tx, chain, pending.notes, head)
        tx.outbox.extents[chain] = Extent(head.audit_seq, digest)
        return
    counts = {"told": len(pending.bodies), "notes": len(pending.notes)}
    params = {"of": chain, "at": tx.now, **counts}
    if tx.hold is None:
        head = tx.execute(_ADVANCE, params).one_or_none()
    else:
        mine = {"held": tx.hold.place_id, "under": tx.hold.fence}
        head = tx.execute(_ADVANCE_OWNED, {**params, **mine}).one_or_none()
    if head is None:
        if tx.hold is not None:
            check_hold(tx, tx.hold)
        raise NotFound("No session found with id={chain}", see="gonogo sessions list", chain=chain)
    digest = _write_notes(tx, chain, pending.notes, head)
    tx.outbox.extents[chain] = Extent(head.audit_seq, digest, head.last_seq)
    if pending.bodies:
        _write_events(tx, chain, pending.bodies, head.last_seq - counts["told"])


def _write_events(tx: Tx, session_id: str, bodies: Sequence[dict[str, Any]], seq: int) -> None:
    """Add events to a log, after a seq; only this function encodes them."""
    rows: list[dict[str, Any]] = []
    ts = stamp(tx.now)
    for body in bodies:
        seq, text = seq + 1, json_text(body)
        row = {"session_id": session_id, "seq": seq, "ts": tx.now}
        kept = packed_value(tx, session_id, body, text)
        rows.append({**row, "type": body["type"], "body": kept})
        fields = {**body, "seq": seq, "session_id": session_id, "ts": ts}
        tx.outbox.events.append(WrittenEvent(fields, _line(text, seq, session_id, ts)))
    put_packed(tx, events, rows)


def _write_notes(
    tx: Tx,
    chain: str,
    notes: Sequence[_Note],
    head: Any,  # noqa: ANN401 - a database row
) -> str:
    """Add entries to a chain, and return the hash of its last entry."""
    if not notes:
        return head.audit_hash
    rows = list(_chained(tx.now, chain, head.audit_seq - len(notes), head.audit_hash, notes))
    put(tx, audit, rows)
    digest = rows[-1]["hash"]
    tx.execute(_SET_HASH[chain == SYSTEM], {"of": chain, "hash": digest})
    return digest


def _chained(
    now: datetime, chain: str, seq: int, prev: str, notes: Iterable[_Note]
) -> Iterable[dict[str, Any]]:
    for item in notes:
        seq += 1
        actor, subject, salt = clean(item.actor), clean(item.subject), new_salt()
        seal = seal_of(salt, chain, subject, item.details)
        covered = sealed(chain, seq, stamp(now), actor, item.action, subject, seal)
        digest = entry_hash(prev, covered)
        yield {
            **covered, "ts": now, "subject": subject, "details": item.details,
            "prev_hash": prev, "hash": digest, "salt": salt,
        }  # fmt: skip
        prev = digest


def _line(text: str, seq: int, session_id: str, ts: str) -> str:
    """An event as its followers get it: its stored JSON, with its seq, session and time."""
    # The added values are our own, and contain nothing that JSON must escape.
    return f'{unbroken(text)[:-1]},"seq":{seq},"session_id":"{session_id}","ts":"{ts}"}}'


def _compact(text: str) -> str:
    """JSON of an event without spaces; earlier versions wrote it with them."""
    return text if text.startswith('{"type":"') else json_text(json.loads(text))


def start_system_chain(tx: Tx) -> None:
    """Make the system chain's head if there is none yet."""
    if extent_of(tx, SYSTEM) is None:
        put(tx, chains, {"chain": SYSTEM, "audit_seq": 0, "audit_hash": GENESIS})
