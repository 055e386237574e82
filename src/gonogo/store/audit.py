"""The audit chains as a whole: they are verified, exported in stretches, anchored and shortened.

Each chain must be complete, and agree with the database. A chain is shortened only at its
beginning, and only if nothing in its session is at work. Removed entries leave a floor: the seq and
hash of the last one, which the rest must follow. A floor is valid only if the chain of the system,
which is never shortened, says who removed those entries.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    Select,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    type_coerce,
    union,
    union_all,
)

from gonogo.domain.audit_chain import (
    ANCHORED,
    PRUNED,
    SYSTEM,
    Anchor,
    AuditFilter,
    AuditPlace,
    ChainHead,
    ChainLink,
    Reconciliation,
    Record,
    Walk,
    heads_digest,
    other_hash,
    read_json,
)
from gonogo.domain.errors import Conflict, because, parts_by_text
from gonogo.domain.plan_views import AuditEntry, AuditHead, AuditRemoved, AuditReport
from gonogo.domain.states import ENDED, ApprovalStatus, TurnStatus
from gonogo.store import events as log
from gonogo.store.columns import Clean, Packed, Shared, Utc, stamp
from gonogo.store.reports import held_of, held_of_system, known_in
from gonogo.store.rows import change, many, put, rows, whole_rows
from gonogo.store.schema import (
    approvals,
    audit,
    audit_floors,
    chains,
    plans,
    principals,
    sessions,
    turns,
)
from gonogo.store.transaction import Tx

START, END = (
    datetime.fromisoformat("1970-01-01T00:00:00Z"),
    datetime.fromisoformat("9999-12-31T00:00:00Z"),
)
_PAGE = 500
_MOVED = 500
"""How many heads one entry of an anchor names."""
_BEFORE_ALL = -(2**31)
_ENDS = union_all(
    select(sessions.c.id.label("chain"), sessions.c.audit_seq, sessions.c.audit_hash),
    # The chains of erased sessions.
    select(chains.c.chain, chains.c.audit_seq, chains.c.audit_hash).where(chains.c.chain != SYSTEM),
).subquery("ends")
_CHAINS = union(
    select(audit.c.chain),
    select(audit_floors.c.chain),
    select(_ENDS.c.chain).where(_ENDS.c.audit_seq > 0),
    select(chains.c.chain).where(chains.c.audit_seq > 0),
)


class AsWritten(Shared):
    """Details exactly as stored: after a manipulation they may not even be JSON."""

    cache_ok = True

    @staticmethod
    def from_column(kept: str) -> Any:  # noqa: ANN401
        """From text."""
        try:
            found = read_json(kept)
        except ValueError:
            # The hash of the entry will show the change.
            return kept
        return Packed(found) if kept.startswith(" ") else found


_AS_WRITTEN = {"ts": Text(), "details": AsWritten()}
_LINK = select(
    *(type_coerce(each, _AS_WRITTEN.get(each.name, each.type)).label(each.name) for each in audit.c)
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
_FLOORS = select(audit_floors)
_HEADS = select(_ENDS).where(_ENDS.c.audit_seq > 0)
_SESSIONS = select(_ENDS.c.chain)
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
    exists().where(sessions.c.id == _ENDS.c.chain, sessions.c.deleted == 1),
    and_(
        ~exists().where(
            turns.c.session_id == _ENDS.c.chain,
            turns.c.status.in_([TurnStatus.QUEUED, TurnStatus.RUNNING, TurnStatus.PARKED]),
        ),
        ~exists().where(plans.c.session_id == _ENDS.c.chain, plans.c.status.not_in(sorted(ENDED))),
        ~exists().where(
            approvals.c.session_id == _ENDS.c.chain,
            approvals.c.status == ApprovalStatus.PENDING,
        ),
    ),
)
_YOUNGEST = (
    select(func.min(audit.c.seq))
    .where(audit.c.chain == _ENDS.c.chain, audit.c.ts >= bindparam("before", type_=audit.c.ts.type))
    .scalar_subquery()
)
_REMOVE_FROM = (func.coalesce(audit_floors.c.seq, 0) + 1).label("first")
_REMOVE_TO = func.coalesce(_YOUNGEST - 1, _ENDS.c.audit_seq).label("last")
_REMOVABLE = (
    select(_ENDS.c.chain, _REMOVE_FROM, _REMOVE_TO)
    .select_from(_ENDS.outerjoin(audit_floors, audit_floors.c.chain == _ENDS.c.chain))
    .where(
        _ENDS.c.chain > bindparam("after"),
        or_(bindparam("only", "") == "", _ENDS.c.chain == bindparam("only")),
        _IDLE,
        _REMOVE_TO >= _REMOVE_FROM,
    )
    .order_by(_ENDS.c.chain)
    .limit(_PAGE)
)
_REMOVE = delete(audit).where(audit.c.chain == bindparam("of"), audit.c.seq <= bindparam("last"))


class Stretch(Struct, frozen=True, kw_only=True):
    """Consecutive entries of one chain."""

    chain: str
    first: int
    last: int


def chain_names(tx: Tx) -> list[str]:
    """Every chain that has an entry, or that had one according to its head or floor."""
    return sorted(tx.execute(_CHAINS).scalars())


def has_chain(tx: Tx, chain: str) -> bool:
    """Whether a session exists or was erased; its chain may have no entries."""
    return chain in {*tx.execute(_SESSIONS).scalars()}


def links(
    tx: Tx, chain: str, after: int = _BEFORE_ALL, upto: int = 2**31 - 1, limit: int = 100
) -> list[ChainLink]:
    """Entries of one chain as their hashes see them, oldest first."""
    found = {"of": chain, "after": after, "upto": upto, "limit": limit}
    # The hash must be of what the database has, not of what this process remembers.
    return [ChainLink(**row) for row in whole_rows(tx, _LINKS, found, afresh=True)]


def verify(tx: Tx, anchors: Iterable[Anchor] = (), only: str | None = None) -> AuditReport:
    """Walk the chains, and compare them with the floors, the anchors and the database.

    Args:
        only: Check only the chain of this session, and that of the system.
    """
    gone = [floor for floor in removed(tx) if only in (None, floor.chain)]
    floors = {row.chain: ChainHead(chain=row.chain, seq=row.seq, hash=row.hash) for row in gone}
    system, record = _system(tx, anchors)
    # If all entries of a chain were deleted, only its session shows that there was a chain.
    found = {*chain_names(tx), *tx.execute(_SESSIONS).scalars()} - {SYSTEM}
    names = sorted(name for name in found if only in (None, name))
    walks = [system, *(_session(tx, name, floors, record) for name in names)]
    problems = [*system.problems, *record.problems]
    problems += [
        problem
        for about, problem in (*_unwitnessed(record, floors), *_lost(tx, record))
        if only in (None, about)
    ]
    problems += [problem for walked in walks[1:] for problem in walked.problems]
    problems += [
        other_hash(chain, seq)
        for (chain, seq), digest in sorted(record.moved.items())
        if only in (None, chain)
        and not _is_older(chain, seq, floors) and _hash_at(tx, chain, seq, floors) != digest
    ]  # fmt: skip
    older = [
        AuditHead(chain=head.chain, seq=head.seq, hash=head.hash)
        for head in sorted(record.anchored, key=lambda head: (head.chain, head.seq))
        if _is_older(head.chain, head.seq, floors)
    ]
    return AuditReport(
        ok=not problems, chains=sum(walked.walk.seq > 0 for walked in walks),
        entries=sum(walked.entries for walked in walks), problems=problems, removed=gone,
        older=older, parts=parts_by_text(problems),
    )  # fmt: skip


class WalkedChain(Struct, frozen=True, kw_only=True):
    """A chain that was walked from its beginning to its end."""

    walk: Walk
    entries: int
    problems: list[str]


def walk_chain(
    tx: Tx, chain: str, floor: ChainHead | None, *seen: Callable[[ChainLink], None]
) -> WalkedChain:
    """Walk one chain, and pass each entry on to the functions in `seen`.

    Args:
        floor: The last removed entry, if entries were removed.
    """
    walk, problems, count = Walk(chain, floor), list[str](), 0
    after = _BEFORE_ALL
    while page := links(tx, chain, after):
        for link in page:
            problems.extend(walk.step(link))
            for told in seen:
                told(link)
        count, after = count + len(page), page[-1].seq
    extent = log.extent_of(tx, chain)
    if extent is not None and extent[:2] != (walk.seq, walk.hash):
        said = because(
            "{chain}: the chain ends at entry {seq}, and should end at entry {entries}",
            chain=chain, seq=walk.seq, entries=extent.entries,
        )  # fmt: skip
        problems.append(said)
    return WalkedChain(walk=walk, entries=count, problems=problems)


def _system(tx: Tx, anchors: Iterable[Anchor]) -> tuple[WalkedChain, Record]:
    record, said = Record(anchors), Reconciliation()
    walked = walk_chain(tx, SYSTEM, None, record.take, said.take)
    record.end()
    walked.problems.extend(record.not_deleted(SYSTEM, walked.walk.erased))
    walked.problems.extend(said.problems(SYSTEM, held_of_system(tx), (), ""))
    return walked, record


def _session(tx: Tx, chain: str, floors: Mapping[str, ChainHead], record: Record) -> WalkedChain:
    said = Reconciliation()
    walked = walk_chain(tx, chain, floors.get(chain), said.take)
    walked.problems.extend(record.not_deleted(chain, walked.walk.erased))
    end = record.ends.get(chain)
    if end is not None and (end.seq, end.hash) != (walked.walk.seq, walked.walk.hash):
        why = because(
            "{chain}: it ended at entry {seq} when its session was deleted",
            chain=chain, seq=end.seq,
        )  # fmt: skip
        walked.problems.append(why)
    # The rows of a deleted session are removed bit by bit, so they are not compared.
    if chain not in record.deleted:
        since = record.since.get(chain, "")
        facts, known = held_of(tx, chain), known_in(tx, chain)
        walked.problems.extend(said.problems(chain, facts, known, since))
    return walked


def removed(tx: Tx) -> list[AuditRemoved]:
    """For each shortened chain, the last removed entry, and when it was removed."""
    found = [AuditRemoved(**row) for row in tx.execute(_FLOORS).mappings()]
    return sorted(found, key=lambda floor: floor.chain)


def windows(
    tx: Tx, after: str, only: str | None, since: datetime | None, until: datetime | None
) -> list[Stretch]:
    """The next chains with entries in a span of time, and the stretches of these entries.

    A stretch reaches from the first to the last entry in the span, whatever the times between: a
    clock may go back, and an export must have no gaps.
    """
    asked = {
        "after": after, "only": only or "", "since": since or START, "until": until or END,
    }  # fmt: skip
    found = rows(tx, _WINDOWS, asked)
    return [Stretch(chain=row.chain, first=row.first, last=row.last) for row in found]


def removable(tx: Tx, after: str, only: str | None, before: datetime) -> list[Stretch]:
    """The next chains whose beginning may be removed, as nothing in the session is at work."""
    found = rows(tx, _REMOVABLE, {"after": after, "only": only or "", "before": before})
    return [Stretch(chain=row.chain, first=row.first, last=row.last) for row in found]


def prune(tx: Tx, heads: Iterable[ChainHead], before: datetime, by: str) -> list[ChainHead]:
    """Remove the beginnings of chains, each up to an entry that the caller has seen.

    A chain whose beginning is not removable any more stays as it is.

    Raises:
        Conflict: an entry differs from the one that the caller saw.
    """
    gone = list[ChainHead]()
    for head in heads:
        stretch = next(iter(removable(tx, "", head.chain, before)), None)
        if stretch is None or not stretch.first <= head.seq <= stretch.last:
            continue
        if log.hash_at(tx, head.chain, head.seq) != head.hash:
            raise Conflict(
                "{chain} #{seq} is not the entry that was exported; check the log: gonogo audit "
                "verify",
                chain=head.chain,
                seq=head.seq,
            )
        tx.execute(_REMOVE, {"of": head.chain, "last": head.seq})
        set_floor(tx, head)
        log.note(
            tx, SYSTEM, actor=by, action=PRUNED, subject=head.chain,
            first=stretch.first, last=head.seq, hash=head.hash, before=stamp(before),
        )  # fmt: skip
        gone.append(head)
    return gone


def set_anchor(tx: Tx, by: str) -> None:
    """Write the heads of all chains into the system's chain, unless its last entry does that."""
    known, last = _anchored(tx)
    end = log.extent_of(tx, SYSTEM)
    heads = {
        row.chain: ChainHead(chain=row.chain, seq=row.audit_seq, hash=row.audit_hash)
        for row in tx.execute(_HEADS)
    }
    moved = [head for name, head in sorted(heads.items()) if known.get(name) != head]
    if not moved and last is not None and end is not None and last.seq == end.entries:
        return
    digest = heads_digest({**known, **heads}.values())
    for part in list(_parts(moved)) or [[]]:
        log.note(
            tx, SYSTEM, actor=by, action=ANCHORED, subject=SYSTEM, heads=digest,
            chains=len({**known, **heads}), moved=[[h.chain, h.seq, h.hash] for h in part],
        )  # fmt: skip


def last_anchor(tx: Tx) -> Anchor:
    """The last anchor that was set; raises `Conflict` if there is none."""
    _, link = _anchored(tx)
    if link is None:
        raise Conflict("There is no anchor yet; make one: gonogo audit anchor")
    return Anchor(
        at=link.ts, seq=link.seq, hash=link.hash, chains=link.details["chains"],
        heads=link.details["heads"],
    )  # fmt: skip


def _anchored(tx: Tx) -> tuple[dict[str, ChainHead], ChainLink | None]:
    record, last = Record(), None
    for last in many(tx, _ANCHORS, {}, ChainLink):
        record.take(last)
    return record.heads, last


def _parts(heads: list[ChainHead]) -> Iterator[list[ChainHead]]:
    for start in range(0, len(heads), _MOVED):
        yield heads[start : start + _MOVED]


def _unwitnessed(record: Record, floors: dict[str, ChainHead]) -> Iterator[tuple[str, str]]:
    for chain in sorted({*floors, *record.removed}):
        floor, said = floors.get(chain), record.removed.get(chain)
        if floor != said:
            upto = floor.seq if floor else 0
            told = said.seq if said else 0
            why = because(
                "{chain}: according to the database, entries up to {upto} were removed; according "
                "to the log, up to {told}",
                chain=chain, upto=upto, told=told,
            )  # fmt: skip
            yield chain, why


def _lost(tx: Tx, record: Record) -> Iterator[tuple[str, str]]:
    there = set(tx.execute(_SESSIONS).scalars())
    for session in sorted(record.sessions - there):
        yield (
            session,
            because(
                "{chain}: the session is on record, and its whole chain is gone", chain=session
            ),
        )


def _is_older(chain: str, seq: int, floors: dict[str, ChainHead]) -> bool:
    return chain in floors and seq < floors[chain].seq


def _hash_at(tx: Tx, chain: str, seq: int, floors: dict[str, ChainHead]) -> str | None:
    floor = floors.get(chain)
    if floor is not None and floor.seq == seq:
        return floor.hash
    return log.hash_at(tx, chain, seq)


def set_floor(tx: Tx, head: ChainHead) -> None:
    """Store the last removed entry of a chain; the caller writes the reason to the audit log."""
    to = {"seq": head.seq, "hash": head.hash, "removed_at": tx.now}
    if not change(tx, audit_floors, {"chain": head.chain}, to):
        put(tx, audit_floors, {"chain": head.chain, **to})


# The audit log as people read it: one chain in its order, or all chains by time.
#
# A page over all chains reads a bounded number of entries, even if few of them match, and says
# where the next page begins. So no request reads the whole log.

LOOKED_AT = 10_000
"""How many entries one page reads at most."""
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


class Sieve(Struct, frozen=True, kw_only=True):
    """Which entries of the log are wanted, with people as ids."""

    actors: Sequence[str] = ()
    """Entries of any of these; empty: of everybody."""
    action: str = ""
    since: datetime = START
    until: datetime = END


def sieve(tx: Tx, wanted: AuditFilter) -> Sieve:
    """A filter as a sieve: the name of a person becomes the ids of all people of that name."""
    named = rows(tx, _CALLED, {"name": wanted.actor}) if wanted.actor else []
    return Sieve(
        actors=[wanted.actor, *(row.id for row in named)] if wanted.actor else (),
        action=wanted.action or "",
        since=max(wanted.since or START, START),
        until=min(wanted.until or END, END),
    )


def chain_entries(tx: Tx, chain: str, after: int, limit: int, wanted: Sieve) -> list[AuditEntry]:
    """The wanted entries of one chain, oldest first."""
    asked = {"of": chain, "after": after, "limit": limit, "until": wanted.until, **_given(wanted)}
    return many(tx, _of_chain(bool(wanted.actors), bool(wanted.action)), asked, AuditEntry)


def newest_entries(
    tx: Tx, owner: str | None, before: AuditPlace | None, limit: int, wanted: Sieve
) -> tuple[list[AuditEntry], AuditPlace | None]:
    """The last wanted entries of all chains before a place in the log, oldest first.

    Also returns the place for the next page, or None if there is no more. There can be more even
    if this page has fewer than `limit` entries.

    Args:
        owner: Only chains of this principal's sessions; None: every chain.
    """
    since = wanted.since if owner is None else _begin_of(tx, owner, wanted.since)
    last = _last(before, wanted.until)
    span = {
        "at": last.ts, "of": last.chain, "nth": last.seq,
        "since": since, "from_of": "", "from_nth": 0,
    }  # fmt: skip
    edge = _edge(tx, span)
    if edge is not None:
        span |= {"since": edge.ts, "from_of": edge.chain, "from_nth": edge.seq}
    asked = {**_given(wanted), **span, "owner": owner, "limit": limit + 1}
    statement = _newest(bool(wanted.actors), bool(wanted.action), owner is not None)
    found = many(tx, statement, asked, AuditEntry)
    page = found[:limit]
    if len(found) > limit:
        return page[::-1], _place(page[-1])
    return page[::-1], edge


def _edge(tx: Tx, span: dict[str, Any]) -> AuditPlace | None:
    """The last entry of a span that one page may read; None if the page can read all of it."""
    found = rows(tx, _EDGE, {**span, "looked_at": LOOKED_AT - 1})
    return AuditPlace(ts=found[0].ts, chain=found[0].chain, seq=found[0].seq) if found else None


def _begin_of(tx: Tx, owner: str, since: datetime) -> datetime:
    began = tx.execute(_FIRST_OF, {"owner": owner}).scalar()
    return END if began is None else max(began, since)


def _last(before: AuditPlace | None, until: datetime) -> AuditPlace:
    """The earlier of two ends; the moment `until` comes before every entry of that moment."""
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
