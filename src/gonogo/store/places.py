"""Places: which worker drives which workspace, and what others hand over to it.

A transaction that makes work for a place also hands it over, so the worker that has the place, now
or later, finds it. Each new owner gets a fence that no earlier owner had, and all its writes carry
the fence: see `Hold` and `events.flush`. The heartbeat of an owner's node shows whether the owner
lives, by the clock of the database.
"""

from collections import defaultdict
from collections.abc import Mapping
from enum import Enum
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Executable,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)

from gonogo.domain.audit_chain import SYSTEM
from gonogo.domain.errors import Conflict, NotFound
from gonogo.domain.records import Job, JobStop, Node, PlaceOwner, PlaceRow
from gonogo.store.columns import Utc
from gonogo.store.events import check_hold, note
from gonogo.store.rows import insert_for, many, one, put, rows, whole_rows
from gonogo.store.schema import (
    asks,
    audit,
    handoffs,
    nodes,
    places,
    plans,
    sessions,
    subtasks,
    tool_calls,
    turns,
)
from gonogo.store.transaction import Hold, Tx

COMMON, _OF_COMMON = "common", ""
"""The place of work without a workspace: timers, deliveries, sweeps. One worker owns it."""
STALE = 6
"""Seconds without a beat after which a node counts as dead."""


class Membership(Struct, frozen=True, kw_only=True):
    """The part of one process where several work on one database."""

    kind: str
    """`server` or `worker`."""
    pool: str
    """A worker takes places of this pool only. A server puts the places that it makes into it."""
    home: str
    """The state folder, with the snapshots; all processes share it."""
    capacity: int = 0
    """How many places it drives at once; 0 for a server."""
    policy: str = ""
    """The digest of its rules: a worker whose rules differ from the server's takes no place."""
    labels: Mapping[str, str] = {}
    """Labels that the operator gave it."""


_NODE = "node:"
"""Before a node's id, where the node is the actor of an audit entry."""
_LAST_OWNERS = 6
_STOP, _RELEASE_IT = "stop", "release"


# Nodes.


def clock(seconds: int = 0) -> ColumnElement[Any]:
    """The time of the database, so many seconds ago, as it is stored."""
    return literal_column(
        f"to_char((clock_timestamp() - interval '{seconds} seconds') AT TIME ZONE 'UTC',"
        ' \'YYYY-MM-DD"T"HH24:MI:SS.US"Z"\')',
        Utc,
    )


_ALIVE = nodes.c.beat_at > clock(STALE)
LIVES = exists().where(nodes.c.id == places.c.owner, _ALIVE)
_WITH_OWNERS = places.outerjoin(nodes, nodes.c.id == places.c.owner)
JOIN = insert(nodes).values(
    id=bindparam("node"), kind=bindparam("as_kind"), host=bindparam("on_host"),
    pid=bindparam("as_pid"), pool=bindparam("of_pool"), capacity=bindparam("up_to"),
    version=bindparam("in_version"), started_at=clock(), beat_at=clock(), draining=False,
    policy=bindparam("by_policy"), labels=bindparam("with_labels"),
).returning(nodes.c.beat_at)  # fmt: skip
BEAT = (
    update(nodes)
    .where(nodes.c.id == bindparam("node"))
    .values(beat_at=clock())
    .returning(nodes.c.beat_at)
)
LEAVE = delete(nodes).where(nodes.c.id == bindparam("node"))
FORGET = delete(nodes).where(nodes.c.beat_at < clock(86_400))
_DRAIN = update(nodes).where(nodes.c.id == bindparam("node")).values(draining=True)
_NODES = select(
    nodes,
    _ALIVE.label("lives"),
    select(func.count())
    .where(places.c.owner == nodes.c.id, places.c.id != COMMON)
    .scalar_subquery()
    .label("places"),
).order_by(nodes.c.kind, nodes.c.started_at)
_POLICY = (
    select(nodes.c.policy)
    .where(nodes.c.kind == "server", _ALIVE)
    .order_by(nodes.c.started_at.desc())
    .limit(1)
)


def policy_in_force(tx: Tx) -> str | None:
    """The digest of the rules of the live server that started last; None if no server lives."""
    return tx.execute(_POLICY).scalar()


def drain(tx: Tx, node: str) -> None:
    """From now on a node takes no more places."""
    tx.execute(_DRAIN, {"node": node})


def all_nodes(tx: Tx) -> list[Node]:
    """All nodes, including those that died within the last day."""
    return many(tx, _NODES, {}, Node)


# Places and their owners.

_ELSEWHERE = select(places.c.home).where(places.c.home != bindparam("home")).limit(1)
_HOMELESS = (
    select(sessions.c.workspace)
    .where(sessions.c.place_id.is_(None), sessions.c.deleted == 0)
    .distinct()
)
_GIVE_PLACE = (
    update(sessions)
    .where(sessions.c.place_id.is_(None), sessions.c.workspace == bindparam("path"))
    .values(
        place_id=bindparam("place"),
        fence=select(places.c.fence).where(places.c.id == bindparam("place")).scalar_subquery(),
    )
)
_HOLD_PLACE = select(places.c.id).where(places.c.id == bindparam("place")).with_for_update()
_FREE = select(places.c.id, places.c.owner).where(
    places.c.placed == 1,
    or_(places.c.pool == bindparam("pool"), places.c.id == COMMON),
    or_(places.c.owner.is_(None), ~LIVES),
)
_HOLD_FREE = _FREE.order_by(places.c.id).limit(bindparam("room")).with_for_update(skip_locked=True)
_APPOINT = (
    update(places)
    .where(places.c.id.in_(bindparam("ids", expanding=True)))
    .values(fence=places.c.fence + 1, owner=bindparam("node"))
    .returning(places.c.id, places.c.fence)
)
_FENCE = (
    update(sessions)
    .where(sessions.c.place_id == bindparam("place"))
    .values(fence=bindparam("to_fence"))
)
_CLEAR = delete(handoffs).where(handoffs.c.place_id == bindparam("place"))
_RELEASE = (
    update(places)
    .where(
        places.c.id == bindparam("place"),
        places.c.fence == bindparam("of_fence"),
        places.c.wanted == bindparam("seen"),
    )
    .values(owner=None, placed=False)
)
_GIVE_AWAY = (
    update(places)
    .where(places.c.id == bindparam("place"), places.c.fence == bindparam("of_fence"))
    .values(owner=None, placed=True)
)


def place_id_of(path: str) -> str:
    """The id of a workspace's place; every process computes the same one."""
    return f"place_{sha256(path.encode(errors='surrogateescape')).hexdigest()[:16]}"


def settle_in(tx: Tx, shared_as: Membership) -> None:
    """Give a place to every session that has none; a process does this when it joins.

    Raises:
        Conflict: places have their snapshots in another state folder.
    """
    home = shared_as.home
    if (other := tx.execute(_ELSEWHERE, {"home": home}).scalar()) is not None:
        raise Conflict(
            "The snapshots of this database's workspaces are in another state folder ({other}); "
            "start every server and worker with the same GONOGO_HOME",
            other=other,
        )
    _make(tx, COMMON, "", home, _OF_COMMON, placed=True)
    for row in rows(tx, _HOMELESS, {}):
        _make(tx, place_id_of(row.workspace), row.workspace, home, shared_as.pool, placed=True)
        give_place(tx, row.workspace)


def add_place(tx: Tx, path: str, shared_as: Membership) -> None:
    """Make a workspace a place, and put its sessions into it."""
    _make(tx, place_id_of(path), path, shared_as.home, shared_as.pool, placed=False)
    give_place(tx, path)


def give_place(tx: Tx, path: str) -> None:
    """Put the sessions of a workspace that have no place into the place of the workspace."""
    place = place_id_of(path)
    # Locked, so that no owner is appointed meanwhile, whose fence these sessions would not get.
    tx.execute(_HOLD_PLACE, {"place": place})
    tx.execute(_GIVE_PLACE, {"path": path, "place": place})


def appoint(tx: Tx, node: str, pool: str, room: int) -> set[str]:
    """Make a node the owner of places that have work and no live owner.

    Handoffs to these places are dropped, as a new owner reads everything that is left to do there.
    The audit log keeps who owned a place, under which fence.

    Args:
        pool: Only places of this pool, and the common place.
        room: At most so many, besides the common place.

    Returns:
        The ids of those places that were taken from a dead owner.
    """
    # The common place takes no room, so that timers fire even if all workers are full.
    free = rows(tx, _HOLD_FREE, {"pool": pool if room else _OF_COMMON, "room": room + 1})
    found = [row for row in free if row.id == COMMON]
    found += [row for row in free if row.id != COMMON][:room]
    ids = [row.id for row in found]
    for place in rows(tx, _APPOINT, {"ids": ids, "node": node}) if ids else ():
        tx.execute(_FENCE, {"place": place.id, "to_fence": place.fence})
        tx.execute(_CLEAR, {"place": place.id})
        note(
            tx, SYSTEM, actor=f"{_NODE}{node}", action=_OWNED_BY, subject=place.id,
            fence=place.fence,
        )  # fmt: skip
    return {row.id for row in found if row.owner is not None}


def release(tx: Tx, hold: Hold, seen: int) -> bool:
    """Give up a place, if its `wanted` is still what its owner has seen."""
    params = {"place": hold.place_id, "of_fence": hold.fence, "seen": seen}
    return tx.execute(_RELEASE, params).rowcount == 1


def give_away(tx: Tx, hold: Hold) -> None:
    """Give a place to another worker, which is told after the commit."""
    tx.outbox.wanted.add(hold.place_id)
    tx.execute(_GIVE_AWAY, {"place": hold.place_id, "of_fence": hold.fence})


# Handing over: a transaction starts jobs that belong to the owner of another place.


def _by_session(table: Table, key: ColumnElement[Any]) -> Select[Any]:
    joined = sessions.join(table, table.c.session_id == sessions.c.id)
    return select(sessions.c.place_id).select_from(joined).where(key == bindparam("key"))


class Whose(Enum):
    """What the key of a kind of jobs names; from that follows the place of the job."""

    TURN = "turn"
    PLAN = "plan"
    SUBTASK = "subtask"
    CALL = "call"
    WORKSPACE = "workspace"
    ASK = "ask"
    NONE = "none"


_OF_PLAN = _by_session(plans, plans.c.id)
_ROUTES: Mapping[Whose, Select[Any]] = {
    Whose.TURN: _by_session(turns, turns.c.id),
    Whose.PLAN: _OF_PLAN,
    Whose.SUBTASK: select(sessions.c.place_id)
    .select_from(
        sessions.join(plans, plans.c.session_id == sessions.c.id).join(
            subtasks, subtasks.c.plan_id == plans.c.id
        )
    )
    .where(subtasks.c.key == bindparam("key")),
    Whose.CALL: _by_session(tool_calls, tool_calls.c.id),
    Whose.WORKSPACE: select(places.c.id).where(places.c.path == bindparam("key")),
    Whose.ASK: select(asks.c.place_id).where(asks.c.id == bindparam("key")),
}
_WANT = (
    update(places)
    .where(places.c.id == bindparam("place"))
    .values(wanted=places.c.wanted + 1, placed=True)
)
_TAKE = (
    delete(handoffs)
    .where(handoffs.c.place_id == bindparam("place"))
    .returning(
        handoffs.c.id, handoffs.c.op, handoffs.c.kind, handoffs.c.key, handoffs.c.epoch,
        handoffs.c.since,
    )
)  # fmt: skip
_HAS_MORE = exists().where(handoffs.c.place_id == places.c.id).label("has_more")
_OWNED = select(places.c.id, places.c.path, places.c.fence, _HAS_MORE).where(
    places.c.owner == bindparam("node")
)
_OURS = _OWNED.subquery()
_GLANCE = select(
    _POLICY.scalar_subquery().label("in_force"), _FREE.exists().label("has_free"), _OURS
).select_from(select(literal(1)).subquery().outerjoin(_OURS, true()))


def hand_over(tx: Tx, routes: Mapping[str, Whose]) -> None:
    """Hand the jobs and stops of a transaction over to the owners of their places, in the same one.

    Args:
        routes: By the job's kind, what its key names.
    """
    box, found = tx.outbox, defaultdict[str, list[Job | JobStop]](list)
    own: list[Job | JobStop] = []
    for each in (*box.stops, *box.jobs):
        route = routes[each.kind]
        if _is_own(tx.hold, route):
            own.append(each)
        elif (place := _place_of(tx, route, each.key)) is not None:
            found[place].append(each)
    box.stops = [each for each in own if isinstance(each, JobStop)]
    box.jobs = [each for each in own if isinstance(each, Job)]
    # Always in the same order, so that no two transactions wait for each other's place.
    for place in sorted(found):
        tx.execute(_WANT, {"place": place})
        put(tx, handoffs, [_handed(place, each) for each in found[place]])
    box.wanted.update(found)


class Taken(NamedTuple):
    """The handoffs to a place that its owner has taken."""

    wanted: int
    """How often others have wanted something of the place so far."""
    leaves: bool
    """Its owner was asked to leave it to another worker."""


def take_handoffs(tx: Tx, hold: Hold) -> Taken:
    """Start what was handed to a place, in a transaction of its owner."""
    # First, as this locks the place: nobody can want more while the handoffs are taken.
    seen = check_hold(tx, hold)
    leaves = False
    for row in sorted(rows(tx, _TAKE, {"place": hold.place_id}), key=lambda row: row.id):
        if row.op == _RELEASE_IT:
            leaves = True
        elif row.op == _STOP:
            tx.outbox.stops.append(JobStop(row.kind, row.key))
        else:
            tx.outbox.jobs.append(Job(row.kind, row.key, row.epoch, row.since))
    return Taken(seen, leaves)


class Owned(NamedTuple):
    """A place that a node owns."""

    id: str
    path: str
    fence: int
    has_more: bool
    """There are handoffs to it."""


def owned_by(tx: Tx, node: str) -> list[Owned]:
    """The places of a node."""
    return [Owned(*row) for row in rows(tx, _OWNED, {"node": node})]


class Glance(NamedTuple):
    """What a worker must know each second."""

    in_force: str | None
    """See `policy_in_force`."""
    has_free: bool
    """There is a place that `appoint` can give it."""
    owned: list[Owned]


def glance(tx: Tx, node: str, pool: str, room: int) -> Glance:
    """Read what a worker must know each second, in one statement."""
    params = {"node": node, "pool": pool if room else _OF_COMMON}
    found = rows(tx, _GLANCE, params)
    # If the node owns nothing, there is one row without a place.
    owned = [
        Owned(each.id, each.path, each.fence, each.has_more)
        for each in found
        if each.id is not None
    ]
    return Glance(found[0].in_force, found[0].has_free, owned)


_EACH = (
    select(
        places.c.id, places.c.path, places.c.pool, places.c.fence, places.c.owner,
        places.c.placed, nodes.c.host, nodes.c.pid, nodes.c.beat_at,
        _ALIVE.label("lives"),
    )
    .select_from(_WITH_OWNERS)
    .where(places.c.id != COMMON)
)  # fmt: skip
_PLACES = _EACH.order_by(places.c.placed.desc(), places.c.path).limit(bindparam("limit"))
_OF_SESSION = select(sessions.c.place_id).where(sessions.c.id == bindparam("named"))
_ONE = _EACH.where(
    or_(places.c.id == bindparam("named"), places.c.id == _OF_SESSION.scalar_subquery())
)
_HANDED = select(func.count()).where(handoffs.c.place_id == bindparam("place"))
_OWNED_BY = "place.owned"
_OWNERS = (
    select(audit.c.actor, audit.c.details, audit.c.ts, nodes.c.host, nodes.c.pid)
    .select_from(audit.outerjoin(nodes, audit.c.actor == literal(_NODE) + nodes.c.id))
    .where(
        audit.c.chain == SYSTEM, audit.c.action == _OWNED_BY,
        audit.c.subject == bindparam("place"),
    )
    .order_by(audit.c.seq.desc())
    .limit(_LAST_OWNERS)
)  # fmt: skip
_FOUND = (
    select(places.c.id, _ALIVE.label("lives"))
    .select_from(_WITH_OWNERS)
    .where(
        or_(places.c.id == bindparam("named"), places.c.path == bindparam("named")),
        places.c.id != COMMON,
    )
)


def all_places(tx: Tx, limit: int) -> list[PlaceRow]:
    """The places of all workspaces, those with work first."""
    return many(tx, _PLACES, {"limit": limit}, PlaceRow)


def find_place(tx: Tx, named: str) -> tuple[PlaceRow, list[PlaceOwner], int] | None:
    """A workspace's place, its last owners by the audit log, and the number of waiting handoffs.

    Args:
        named: The id of a session in it, or of the place.
    """
    found = one(tx, _ONE, {"named": named}, PlaceRow)
    if found is None:
        return None
    owners = [
        PlaceOwner(
            node=row["actor"].removeprefix(_NODE), fence=row["details"]["fence"], since=row["ts"],
            host=row["host"], pid=row["pid"],
        )
        for row in whole_rows(tx, _OWNERS, {"place": found.id})
    ]  # fmt: skip
    return found, owners, tx.execute(_HANDED, {"place": found.id}).scalar_one()


def ask_to_leave(tx: Tx, named: str) -> bool:
    """Ask the owner of a place to leave it to another worker when its running subtasks are over.

    Args:
        named: The place's id or path.

    Returns:
        False: nobody owns it, or its owner is dead and others may take it already.

    Raises:
        NotFound: there is no such place.
    """
    found = tx.execute(_FOUND, {"named": named}).first()
    if found is None:
        raise NotFound(
            "No workspace found with id or path {named}", see="gonogo place list", named=named
        )
    if not found.lives:
        return False
    tx.execute(_WANT, {"place": found.id})
    row = {"op": _RELEASE_IT, "kind": "", "key": "", "epoch": 0, "since": None}
    put(tx, handoffs, {"place_id": found.id, **row})
    tx.outbox.wanted.add(found.id)
    return True


def _is_own(hold: Hold | None, route: Whose) -> bool:
    """Whether the owner itself does a job that it starts: it does those of its own place only."""
    return hold is not None and (hold.place_id == COMMON) is (route is Whose.NONE)


def _place_of(tx: Tx, route: Whose, key: str) -> str | None:
    """The place of a job; None if what the key names was erased meanwhile."""
    if route is Whose.NONE:
        return COMMON
    return tx.execute(_ROUTES[route], {"key": key}).scalar()


def _handed(place: str, each: Job | JobStop) -> dict[str, Any]:
    if isinstance(each, JobStop):
        return {
            "place_id": place, "op": _STOP, "kind": each.kind, "key": each.key, "epoch": 0,
            "since": None,
        }  # fmt: skip
    return {
        "place_id": place, "op": "job", "kind": each.kind, "key": each.key, "epoch": each.epoch,
        "since": each.since,
    }  # fmt: skip


@cache
def _make_once() -> Executable:
    return insert_for("postgresql")(places).on_conflict_do_nothing()


def _make(tx: Tx, place: str, path: str, home: str, pool: str, *, placed: bool) -> None:
    tx.execute(
        _make_once(),
        {
            "id": place, "path": path, "pool": pool, "home": home, "owner": None, "fence": 0,
            "placed": placed, "wanted": 0,
        },
    )  # fmt: skip
