"""The event log and the audit chain: append once, in the transaction that makes the fact true.

Events of a session are numbered 1, 2, 3 … without gaps. Audit entries are chained by hash, one
chain a session and one for the system. Both are gathered while a transaction runs and written by
`flush` at its end, so that a transaction costs the same few statements however much it tells.
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
    # The system's, and those of sessions that were erased.
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
"""As `check_hold`; fails where the place has another owner, and so need not be waited for."""
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
"""Events that are read at once, where nobody asks for another number."""


class _Note(Struct, frozen=True, kw_only=True):
    actor: str
    action: str
    subject: str
    details: dict[str, Any]


class Pending(Struct):
    """What a running transaction has told about one chain so far."""

    bodies: list[dict[str, Any]] = []
    notes: list[_Note] = []


def tell(tx: Tx, session_id: str, *facts: Event | dict[str, Any]) -> None:
    """Append events to a session's log, or what `plain` made of them."""
    bodies = _pending(tx, session_id).bodies
    bodies.extend([fact if isinstance(fact, dict) else fact.body() for fact in facts])


def told(tx: Tx) -> list[dict[str, Any]]:
    """The events that this transaction has told so far; none has its seq yet."""
    return [body for pending in tx.outbox.pending.values() for body in pending.bodies]


def told_in(tx: Tx, session_id: str) -> Sequence[Any]:
    """What this transaction has told so far in one session."""
    pending = tx.outbox.pending.get(session_id)
    return pending.bodies if pending is not None else ()


def tell_final(tx: Tx, session_id: str) -> None:
    """Mark the last event of this transaction: it ends the answer to what set it going."""
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

    Of a `reason` that names something the parts are kept, too, as `reason_parts`.
    """
    parts = parts_of(details.get("reason", ""))
    if parts.get("params"):
        details["reason_parts"] = parts
    kept = as_kept({name: value for name, value in details.items() if value is not None})
    _pending(tx, chain).notes.append(
        _Note(actor=actor, action=action, subject=subject, details=kept)
    )


def flush(tx: Tx) -> None:
    """Write what the transaction told. The backends call it once, before the commit.

    Raises:
        NotFound: a session that was told of is gone.
        PlaceLost: it was written for a place that has another owner now; if it tells of no session,
            it is the commit that fails, see `HELD_OR_FAIL`.
    """
    # In one order for all, so that no two transactions wait for each other's chain.
    for chain, pending in sorted(tx.outbox.pending.items()):
        if pending.bodies or pending.notes:
            _flush_chain(tx, chain, pending)
    if tx.hold is not None and not (tx.is_held or tx.outbox.extents.keys() - {SYSTEM}):
        # What tells of no session moved no head that has the fence: the place itself is asked.
        tx.post(HELD_OR_FAIL, {"held": tx.hold.place_id, "under": tx.hold.fence})


def check_hold(tx: Tx, hold: Hold) -> int:
    """Check that a place has its owner still, and keep it so until the transaction ends.

    Returns:
        How much was wanted of the place so far.

    Raises:
        PlaceLost: it has another one.
    """
    held = tx.execute(_HELD, {"held": hold.place_id, "under": hold.fence}).first()
    if held is None:
        raise lost(hold)
    tx.is_held = True
    return held.wanted


def lost(hold: Hold) -> PlaceLost:
    """What is said to who writes for a place that has another owner."""
    return PlaceLost(
        "Another process now does the work of place {place_id}; it continues there",
        place_id=hold.place_id,
    )


def last_seq(tx: Tx, session_id: str) -> int:
    """The place of the last event in a session's log; 0 for an empty one."""
    return tx.execute(_LAST_SEQ, {"of": session_id}).scalar() or 0


def last_seqs(tx: Tx, session_ids: Sequence[str]) -> dict[str, int]:
    """The place of the last event in several logs, of the sessions that are not deleted."""
    found = tx.execute(_LAST_SEQS, {"ids": list(session_ids)})
    return {row.id: row.last_seq for row in found}


def told_seq(tx: Tx, session_id: str) -> int:
    """The place that the last event of this transaction so far will have in a session's log."""
    return begin_seq(tx, session_id) + len(told_in(tx, session_id))


def begin_seq(tx: Tx, session_id: str) -> int:
    """Where a session's log stands before what this transaction tells in it.

    Held from here on: what others tell is before it, or after all that this transaction tells.
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
    """Where a chain stands by what its head says, also of a session that was erased."""
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
    """Add events to a log, after a place in it; each is encoded here and nowhere else."""
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
    """Add entries to a chain. Gives the hash that it ends with."""
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
    """An event as its followers get it: its JSON as it is kept, and where and when it was told."""
    # What is added is our own, and has nothing that JSON would escape.
    return f'{unbroken(text)[:-1]},"seq":{seq},"session_id":"{session_id}","ts":"{ts}"}}'


def _compact(text: str) -> str:
    """JSON of an event without blanks, with which earlier versions wrote it."""
    return text if text.startswith('{"type":"') else json_text(json.loads(text))


def start_system_chain(tx: Tx) -> None:
    """Make the system chain's head if there is none yet."""
    if extent_of(tx, SYSTEM) is None:
        put(tx, chains, {"chain": SYSTEM, "audit_seq": 0, "audit_hash": GENESIS})
