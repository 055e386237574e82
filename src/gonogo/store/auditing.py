"""The audit chains as a whole: verified, read by the stretch, anchored, and shortened.

A chain is shortened from its beginning only, and only where nothing of its session is under way.
What was removed leaves a floor: the place and hash that the rest must follow. A floor counts only
if the system's chain, which is never shortened, says who removed those entries.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    or_,
    select,
    type_coerce,
    union,
)

from gonogo.domain.approval_state import ApprovalStatus
from gonogo.domain.audit_views import AuditHead, AuditRemoved, AuditReport
from gonogo.domain.chain import (
    ANCHORED,
    PRUNED,
    SYSTEM,
    Anchor,
    Head,
    Link,
    Record,
    Walk,
    heads_digest,
    read_json,
)
from gonogo.domain.errors import Conflict
from gonogo.domain.plan_state import ENDED
from gonogo.domain.turn_state import TurnStatus
from gonogo.store import log
from gonogo.store._rows import change, put, rows
from gonogo.store._schema import approvals, audit, audit_floors, chains, plans, sessions, turns
from gonogo.store._types import stamp

START, END = (
    datetime.fromisoformat("1970-01-01T00:00:00Z"),
    datetime.fromisoformat("9999-12-31T00:00:00Z"),
)
_PAGE = 500
_MOVED = 500
"""Heads that one entry of an anchor names."""
_BEFORE_ALL = -(2**31)
_CHAINS = union(
    select(audit.c.chain),
    select(audit_floors.c.chain),
    select(chains.c.chain).where(chains.c.audit_seq > 0),
    select(sessions.c.id).where(sessions.c.audit_seq > 0),
)
# Times and details as text: what somebody put there need not be either.
_LINK = select(
    *(
        type_coerce(column, Text).label(column.name) if column.name in {"ts", "details"} else column
        for column in audit.c
    )
)
_LINKS = (
    _LINK.where(
        audit.c.chain == bindparam("of"),
        audit.c.seq > bindparam("after"),
        audit.c.seq <= bindparam("upto"),
    )
    .order_by(audit.c.seq)
    .limit(bindparam("limit"))
)
_HASH = select(audit.c.hash).where(audit.c.chain == bindparam("of"), audit.c.seq == bindparam("at"))
_FLOORS = select(audit_floors)
_HEADS = select(sessions.c.id, sessions.c.audit_seq, sessions.c.audit_hash).where(
    sessions.c.audit_seq > 0
)
_SESSIONS = select(sessions.c.id)
_ANCHORS = _LINK.where(audit.c.chain == SYSTEM, audit.c.action == ANCHORED).order_by(audit.c.seq)
_SINCE = bindparam("since", type_=audit.c.ts.type)
_UNTIL = bindparam("until", type_=audit.c.ts.type)
_FIRST = func.min(case((audit.c.ts >= _SINCE, audit.c.seq))).label("first")
_LAST = func.max(case((audit.c.ts < _UNTIL, audit.c.seq))).label("last")
_WINDOWS = (
    select(audit.c.chain, _FIRST, _LAST)
    .where(
        audit.c.chain > bindparam("after"),
        or_(bindparam("only", "") == "", audit.c.chain == bindparam("only")),
    )
    .group_by(audit.c.chain)
    .having(_FIRST <= _LAST)
    .order_by(audit.c.chain)
    .limit(_PAGE)
)
_IDLE = or_(
    sessions.c.deleted == 1,
    and_(
        ~exists().where(
            turns.c.session_id == sessions.c.id,
            turns.c.status.in_([TurnStatus.QUEUED, TurnStatus.RUNNING, TurnStatus.PARKED]),
        ),
        ~exists().where(plans.c.session_id == sessions.c.id, plans.c.status.not_in(sorted(ENDED))),
        ~exists().where(
            approvals.c.session_id == sessions.c.id,
            approvals.c.status == ApprovalStatus.PENDING,
        ),
    ),
)
_YOUNGEST = (
    select(func.min(audit.c.seq))
    .where(audit.c.chain == sessions.c.id, audit.c.ts >= bindparam("before", type_=audit.c.ts.type))
    .scalar_subquery()
)
_REMOVE_FROM = (func.coalesce(audit_floors.c.seq, 0) + 1).label("first")
_REMOVE_TO = func.coalesce(_YOUNGEST - 1, sessions.c.audit_seq).label("last")
_REMOVABLE = (
    select(sessions.c.id.label("chain"), _REMOVE_FROM, _REMOVE_TO)
    .select_from(sessions.outerjoin(audit_floors, audit_floors.c.chain == sessions.c.id))
    .where(
        sessions.c.id > bindparam("after"),
        or_(bindparam("only", "") == "", sessions.c.id == bindparam("only")),
        _IDLE,
        _REMOVE_TO >= _REMOVE_FROM,
    )
    .order_by(sessions.c.id)
    .limit(_PAGE)
)
_REMOVE = delete(audit).where(audit.c.chain == bindparam("of"), audit.c.seq <= bindparam("last"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Entries of one chain that follow each other."""

    chain: str
    first: int
    last: int


def chain_names(conn: Connection) -> list[str]:
    """Every chain that has an entry, or whose head or floor says that it had one."""
    return sorted(conn.execute(_CHAINS).scalars())


def links(
    conn: Connection, chain: str, after: int = _BEFORE_ALL, upto: int = 2**31 - 1, limit: int = 100
) -> list[Link]:
    """Entries of one chain as their hashes see them, oldest first."""
    found = conn.execute(_LINKS, {"of": chain, "after": after, "upto": upto, "limit": limit})
    return [_link(dict(row)) for row in found.mappings()]


def verify_chain(
    conn: Connection,
    chain: str,
    floor: Head | None = None,
    seen: Callable[[Link], None] = lambda link: None,
) -> tuple[int, list[str]]:
    """Walk one audit chain. Gives the number of entries and what is wrong with them.

    Args:
        floor: Up to where entries were removed.
        seen: Told of each entry.
    """
    walk, problems, count = Walk(chain, floor), list[str](), 0
    after = _BEFORE_ALL
    while page := links(conn, chain, after):
        for link in page:
            problems.extend(walk.step(link))
            seen(link)
        count, after = count + len(page), page[-1].seq
    head = log.audit_head(conn, chain)
    if head is not None and head != (walk.seq, walk.hash):
        problems.append(f"{chain}: the chain ends at {walk.seq}, its head says {head[0]}")
    return count, problems


def verify(conn: Connection, anchors: Iterable[Anchor] = ()) -> AuditReport:
    """Walk every chain, hold the floors and the anchors against them, and tell what is wrong."""
    record, gone = Record(anchors), removed(conn)
    floors = {row.chain: Head(chain=row.chain, seq=row.seq, hash=row.hash) for row in gone}
    names = chain_names(conn)
    entries, problems = verify_chain(conn, SYSTEM, seen=record.take)
    record.end()
    problems += [*record.problems, *_unwitnessed(record, floors), *_lost(conn, record)]
    for chain in names:
        if chain != SYSTEM:
            count, found = verify_chain(conn, chain, floors.get(chain))
            entries, problems = entries + count, [*problems, *found]
    problems += [
        f"{chain} #{seq}: an anchor says another hash"
        for (chain, seq), digest in sorted(record.moved.items())
        if not _is_older(chain, seq, floors) and _hash_at(conn, chain, seq, floors) != digest
    ]
    older = [
        AuditHead(chain=head.chain, seq=head.seq, hash=head.hash)
        for head in sorted(record.anchored, key=lambda head: (head.chain, head.seq))
        if _is_older(head.chain, head.seq, floors)
    ]
    return AuditReport(
        ok=not problems, chains=len(names), entries=entries, problems=problems,
        removed=gone, older=older,
    )  # fmt: skip


def removed(conn: Connection) -> list[AuditRemoved]:
    """Up to where entries were removed, and when."""
    found = [AuditRemoved(**row) for row in conn.execute(_FLOORS).mappings()]
    return sorted(found, key=lambda floor: floor.chain)


def windows(
    conn: Connection, after: str, only: str | None, since: datetime | None, until: datetime | None
) -> list[Stretch]:
    """The next chains with entries in a span of time, and which those are.

    Entries between the first and the last that are in the span belong to it, whatever their own
    time: a clock may go back, and what is exported has no holes.
    """
    asked = {
        "after": after, "only": only or "", "since": since or START, "until": until or END,
    }  # fmt: skip
    found = rows(conn, _WINDOWS, asked)
    return [Stretch(chain=row.chain, first=row.first, last=row.last) for row in found]


def removable(conn: Connection, after: str, only: str | None, before: datetime) -> list[Stretch]:
    """The next chains whose beginning may be removed: nothing of the session is under way."""
    found = rows(conn, _REMOVABLE, {"after": after, "only": only or "", "before": before})
    return [Stretch(chain=row.chain, first=row.first, last=row.last) for row in found]


def prune(
    conn: Connection, heads: Iterable[Head], before: datetime, by: str, now: datetime
) -> list[Head]:
    """Remove the beginnings of chains, each up to an entry that the caller has seen.

    What is not removable any more is left as it is.

    Raises:
        Conflict: an entry is another one than the caller saw.
    """
    gone = list[Head]()
    for head in heads:
        stretch = next(iter(removable(conn, "", head.chain, before)), None)
        if stretch is None or not stretch.first <= head.seq <= stretch.last:
            continue
        if conn.execute(_HASH, {"of": head.chain, "at": head.seq}).scalar() != head.hash:
            raise Conflict(f"{head.chain} #{head.seq} is not the entry that was exported")
        conn.execute(_REMOVE, {"of": head.chain, "last": head.seq})
        _set_floor(conn, head, now)
        log.note(
            conn, SYSTEM, now, actor=by, action=PRUNED, subject=head.chain,
            first=stretch.first, last=head.seq, hash=head.hash, before=stamp(before),
        )  # fmt: skip
        gone.append(head)
    return gone


def set_anchor(conn: Connection, by: str, now: datetime) -> None:
    """Have the system's chain say where all others stand, unless it just said so."""
    known, last = _anchored(conn)
    end = log.audit_head(conn, SYSTEM)
    heads = {
        row.id: Head(chain=row.id, seq=row.audit_seq, hash=row.audit_hash)
        for row in conn.execute(_HEADS)
    }
    moved = [head for name, head in sorted(heads.items()) if known.get(name) != head]
    if not moved and last is not None and end is not None and last.seq == end[0]:
        return
    digest = heads_digest({**known, **heads}.values())
    for part in list(_parts(moved)) or [[]]:
        log.note(
            conn, SYSTEM, now, actor=by, action=ANCHORED, subject=SYSTEM, heads=digest,
            chains=len({**known, **heads}), moved=[[h.chain, h.seq, h.hash] for h in part],
        )  # fmt: skip


def last_anchor(conn: Connection) -> Anchor:
    """The last anchor that was set."""
    _, link = _anchored(conn)
    if link is None:
        raise Conflict("No anchor was set yet")
    return Anchor(
        at=link.ts, seq=link.seq, hash=link.hash, chains=link.details["chains"],
        heads=link.details["heads"],
    )  # fmt: skip


def _anchored(conn: Connection) -> tuple[dict[str, Head], Link | None]:
    record, last = Record(), None
    for row in conn.execute(_ANCHORS).mappings():
        last = _link(dict(row))
        record.take(last)
    return record.heads, last


def _parts(heads: list[Head]) -> Iterator[list[Head]]:
    for start in range(0, len(heads), _MOVED):
        yield heads[start : start + _MOVED]


def _unwitnessed(record: Record, floors: dict[str, Head]) -> Iterator[str]:
    for chain in sorted({*floors, *record.removed}):
        floor, said = floors.get(chain), record.removed.get(chain)
        if floor != said:
            upto = floor.seq if floor else 0
            told = said.seq if said else 0
            yield f"{chain}: entries up to {upto} are gone, {told} of them by a removal on record"


def _lost(conn: Connection, record: Record) -> Iterator[str]:
    there = set(conn.execute(_SESSIONS).scalars())
    for session in sorted(record.sessions - there):
        yield f"{session}: the session is on record, and its whole chain is gone"


def _is_older(chain: str, seq: int, floors: dict[str, Head]) -> bool:
    return chain in floors and seq < floors[chain].seq


def _hash_at(conn: Connection, chain: str, seq: int, floors: dict[str, Head]) -> str | None:
    floor = floors.get(chain)
    if floor is not None and floor.seq == seq:
        return floor.hash
    return conn.execute(_HASH, {"of": chain, "at": seq}).scalar()


def _set_floor(conn: Connection, head: Head, now: datetime) -> None:
    to = {"seq": head.seq, "hash": head.hash, "removed_at": now}
    if not change(conn, audit_floors, {"chain": head.chain}, to):
        put(conn, audit_floors, {"chain": head.chain, **to})


def _link(row: dict[str, Any]) -> Link:
    try:
        details = read_json(row["details"])
    except ValueError:
        # As it stands: its hash will say that it was changed.
        details = row["details"]
    return Link(**{**row, "details": details})
