"""Work for later, or for another process: timers, deliveries to other programs, sweeps, asks."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    Case,
    Executable,
    FromClause,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)

from gonogo.domain.records import Timer
from gonogo.domain.reviews import Delivery, DeliveryStatus
from gonogo.domain.schedule import SLACK
from gonogo.domain.states import ENDED, CallStatus
from gonogo.store.people import IS_LOGIN_AHEAD, bounds_of_logins, set_back_logins
from gonogo.store.places import LIVES, clock
from gonogo.store.rows import by, change, columns_of, insert_for, many, one, put, row_of, rows, same
from gonogo.store.schema import (
    approvals,
    asks,
    checkpoints,
    deliveries,
    file_changes,
    links,
    places,
    plans,
    sessions,
    timers,
    tool_calls,
    tool_hosts,
)
from gonogo.store.transaction import Tx, go_on

# Timers.

AGAIN = "again_"
"""Before a job's kind: the kind of the timer that runs a job again after it broke off."""

_DUE_TIMERS = (
    select(*columns_of(timers, Timer))
    .where(timers.c.run_at <= bindparam("now"))
    .order_by(timers.c.run_at)
    .limit(200)
)
_FIRST = select(func.min(timers.c.run_at, type_=timers.c.run_at.type))
_FIRST_BUT = _FIRST.where(timers.c.kind != bindparam("kind"))
_DROP = delete(timers).where(*same(timers, "kind", "key"))
_HAS = select(timers.c.run_at).where(*same(timers, "kind", "key"))
_TAKE = _DROP.where(*same(timers, "run_at"))


def set_timer(tx: Tx, kind: str, key: str, run_at: datetime) -> None:
    """Set a timer; it replaces an earlier one of the same kind and key."""
    drop_timer(tx, kind, key)
    put(tx, timers, {"kind": kind, "key": key, "run_at": run_at, "set_at": tx.now})
    tx.outbox.timers.append(Timer(kind=kind, key=key, run_at=run_at))


def has_timer(tx: Tx, kind: str, key: str) -> bool:
    """Whether there is a timer of that kind and key."""
    return tx.execute(_HAS, {"kind": kind, "key": key}).scalar() is not None


def drop_timer(tx: Tx, kind: str, key: str) -> None:
    """Drop a timer if there is one."""
    tx.execute(_DROP, {"kind": kind, "key": key})


def take_timer(tx: Tx, timer: Timer) -> bool:
    """Drop a timer to carry it out. False: it was dropped, set again or taken meanwhile."""
    params = {"kind": timer.kind, "key": timer.key, "run_at": timer.run_at}
    return tx.execute(_TAKE, params).rowcount > 0


def due_timers(tx: Tx) -> list[Timer]:
    """The timers whose time has come, earliest first."""
    return many(tx, _DUE_TIMERS, {"now": tx.now}, Timer)


def first_timer(tx: Tx) -> datetime | None:
    """When the earliest timer is due."""
    return tx.execute(_FIRST).scalar()


def first_but(tx: Tx, kind: str) -> datetime | None:
    """When the earliest timer of any other kind than this is due."""
    return tx.execute(_FIRST_BUT, {"kind": kind}).scalar()


# A clock that was set back: timers would wait until their moment comes a second time.

_AHEAD = select(timers).where(timers.c.set_at > bindparam("later"))
_LINKS_AHEAD = select(links.c.id, links.c.created_at, links.c.expires_at).where(
    links.c.created_at > bindparam("later")
)
_IS_AHEAD = select(
    exists().where(timers.c.set_at > bindparam("later"))
    | exists().where(links.c.created_at > bindparam("later"))
    | IS_LOGIN_AHEAD
)
_WAIT = ((plans, "paused_until"), (approvals, "expires_at"), (deliveries, "not_before"))
"""Columns that repeat the moment of a timer."""


def has_ahead(tx: Tx) -> bool:
    """Whether anything was set by a clock that was ahead of the clock now: see `set_back`."""
    return bool(tx.execute(_IS_AHEAD, bounds_of_logins(tx.now + SLACK)).scalar())


def set_back(tx: Tx) -> int:
    """After the clock was set back, let nothing wait or last longer than it was meant to.

    What was set at a moment in the future counts as set now. A second call finds nothing.

    Returns:
        How many timers were changed.
    """
    if tx.conn.dialect.name == "postgresql" and abs(clock_of(tx) - tx.now) > SLACK:
        # The database has another time, so the clock of this machine is wrong.
        return 0
    found = list(rows(tx, _AHEAD, {"later": tx.now + SLACK}))
    for row in found:
        due = tx.now + (row.run_at - row.set_at)
        where = {"kind": row.kind, "key": row.key}
        change(tx, timers, where, {"run_at": due, "set_at": tx.now})
        for table, column in _WAIT:
            change(tx, table, {"id": row.key, column: row.run_at}, {column: due})
    for link in list(rows(tx, _LINKS_AHEAD, {"later": tx.now + SLACK})):
        until = tx.now + (link.expires_at - link.created_at)
        change(tx, links, {"id": link.id}, {"created_at": tx.now, "expires_at": until})
    set_back_logins(tx)
    return len(found)


def clock_of(tx: Tx) -> datetime:
    """The time of the database."""
    return tx.execute(select(clock())).scalar_one()


# Deliveries: messages for other programs, until they are delivered or given up.
#
# An attempt takes its delivery with an epoch, and with a time by which it must be over. What it
# writes afterwards counts only if no other attempt took the delivery meanwhile.

_EARLIER = deliveries.alias("earlier")


def _nth(told: FromClause) -> Case[int]:
    # The order of messages about one question. Their ids sort by time, but clocks may differ.
    return case((told.c.event == "requested", 0), (told.c.event == "resolved", 2), else_=1)


_DUE = (
    select(*columns_of(deliveries, Delivery))
    .where(
        deliveries.c.hook == bindparam("hook"),
        deliveries.c.status == "pending",
        # A first attempt never waits: the clock may have been ahead when the delivery was made.
        or_(deliveries.c.attempt == 0, deliveries.c.not_before <= bindparam("now")),
        # The messages about one question arrive in their order.
        ~exists().where(
            _EARLIER.c.approval_id == deliveries.c.approval_id,
            _EARLIER.c.hook == deliveries.c.hook,
            _EARLIER.c.status == "pending",
            or_(
                _nth(_EARLIER) < _nth(deliveries),
                and_(_nth(_EARLIER) == _nth(deliveries), _EARLIER.c.id < deliveries.c.id),
            ),
        ),
    )
    .order_by(deliveries.c.not_before, deliveries.c.id)
    .limit(1)
)
_PENDING = (
    select(*columns_of(deliveries, Delivery))
    .where(deliveries.c.status == "pending")
    .order_by(deliveries.c.id)
)


def add_delivery(tx: Tx, delivery: Delivery) -> None:
    """Insert a delivery, which may be tried at once."""
    put(tx, deliveries, row_of(delivery))


def delivery_of(tx: Tx, delivery_id: str) -> Delivery | None:
    """The delivery of that id."""
    return one(tx, by(deliveries, Delivery, "id"), {"id": delivery_id}, Delivery)


def pending_deliveries(tx: Tx) -> list[Delivery]:
    """Every delivery that is still to be made."""
    return many(tx, _PENDING, {}, Delivery)


def due_delivery(tx: Tx, hook: str) -> Delivery | None:
    """The next delivery of a hook that may be tried, if there is one."""
    found = many(tx, _DUE, {"hook": hook, "now": tx.now}, Delivery)
    return found[0] if found else None


def take_delivery(tx: Tx, delivery: Delivery, until: datetime) -> bool:
    """Begin an attempt that must end by a time. False: somebody else has begun one."""
    where = {"id": delivery.id, "status": "pending", "epoch": delivery.epoch}
    to = {"epoch": delivery.epoch + 1, "attempt": delivery.attempt + 1, "not_before": until}
    return change(tx, deliveries, where, to)


def set_delivery(
    tx: Tx,
    delivery: Delivery,
    status: DeliveryStatus,
    **to: Any,  # noqa: ANN401 - columns
) -> bool:
    """Record the outcome of an attempt. False: the delivery was taken over meanwhile."""
    where = {"id": delivery.id, "status": "pending", "epoch": delivery.epoch}
    return change(tx, deliveries, where, {"status": status, **to})


# Sweeps: which snapshots are given up, and which ones somebody may still need.

_YOUNG = exists().where(
    checkpoints.c.plan_id == plans.c.id, checkpoints.c.created_at >= bindparam("before")
)
_OLD = select(plans.c.id).where(
    plans.c.status.in_(sorted(ENDED)), plans.c.finished_at < bindparam("before"), ~_YOUNG,
    # A rollback that was cut off must still be finished.
    plans.c.rollback.is_(None),
)  # fmt: skip
# The lock waits for a rollback that begins just now; a later one sees our marks.
_HOLD = _OLD.order_by(plans.c.id).with_for_update()
_MARK = (
    update(checkpoints)
    .where(checkpoints.c.plan_id.in_(_OLD), checkpoints.c.swept_at.is_(None))
    .values(swept_at=bindparam("now", type_=checkpoints.c.swept_at.type))
)
_LAST = select(func.max(checkpoints.c.swept_at, type_=checkpoints.c.swept_at.type)).where(
    checkpoints.c.plan_id == bindparam("plan_id")
)
# Nobody needs the snapshots of a deleted session.
_LIVE = select(sessions.c.id).where(sessions.c.deleted == 0)
_TREES = select(checkpoints.c.tree).where(
    checkpoints.c.tree.is_not(None), checkpoints.c.swept_at.is_(None),
    checkpoints.c.session_id.in_(_LIVE),
)  # fmt: skip
_STARTED = select(tool_calls.c.tree).where(
    tool_calls.c.tree.is_not(None), tool_calls.c.status == CallStatus.STARTED,
    tool_calls.c.session_id.in_(_LIVE),
)  # fmt: skip
_GIVEN_UP = exists().where(
    checkpoints.c.plan_id == file_changes.c.plan_id,
    checkpoints.c.swept_at >= file_changes.c.created_at,
)
_CHANGES = select(file_changes.c.before, file_changes.c.after).where(
    ~_GIVEN_UP, file_changes.c.session_id.in_(_LIVE)
)


def give_up_snapshots(tx: Tx, before: datetime) -> int:
    """Mark the checkpoints of plans that ended, and were last rolled back, before a time."""
    tx.execute(_HOLD, {"before": before})
    return tx.execute(_MARK, {"before": before, "now": tx.now}).rowcount


def given_up(tx: Tx, plan_id: str) -> datetime | None:
    """The time before which the plan's changes were given up; None if none were."""
    return tx.execute(_LAST, {"plan_id": plan_id}).scalar()


def kept_objects(tx: Tx) -> set[str]:
    """The ids of all snapshots and file contents that somebody may still need."""
    kept = {*tx.execute(_TREES).scalars(), *tx.execute(_STARTED).scalars()}
    states: Any
    for states in tx.execute(_CHANGES):
        kept.update(state["blob"] for state in states if state and "blob" in state)
    return kept


# Asks: what one process asks the owner of a place to do, and the answers.
#
# Only one owner begins an ask. If another worker takes the place over after that, it answers that
# the outcome is unknown, and does not begin the ask again.

ASK = "ask"
"""The kind of job that carries an ask out."""
_KEPT = timedelta(days=1)


class Ask(Struct, frozen=True, kw_only=True):
    """Something that the owner of a place is to do."""

    id: str
    place_id: str
    verb: str
    body: dict[str, Any]
    status: str
    """`open`, `begun` or `answered`."""
    answer: dict[str, Any] | None = None
    """`{result}` or `{error}`."""


_PLACE = select(sessions.c.place_id).where(sessions.c.id == bindparam("of"))
_IN_PLACE = by(asks, Ask, "place_id").where(asks.c.status != "answered")
_MOVE = (
    update(asks)
    .where(asks.c.id == bindparam("of"), asks.c.status == bindparam("seen"))
    .values(status=bindparam("to"))
)
_ANSWER = (
    update(asks)
    .where(asks.c.id == bindparam("of"), asks.c.status == "begun")
    .values(status="answered", answer=bindparam("said"))
)
_IN_HAND = select(places.c.id).where(places.c.id == bindparam("place"), LIVES)
_DROP_ASK = delete(asks).where(asks.c.id == bindparam("of"), asks.c.status == bindparam("seen"))
_DROP_OLD = delete(asks).where(asks.c.created_at < bindparam("before"))


def add_ask(tx: Tx, ask: Ask) -> None:
    """Ask the owner of a place, now or in future, to do something."""
    tx.execute(_DROP_OLD, {"before": tx.now - _KEPT})
    put(tx, asks, {**row_of(ask), "created_at": tx.now})
    go_on(tx, ASK, ask.id)


def find_ask(tx: Tx, ask_id: str) -> Ask | None:
    """The ask of that id."""
    return one(tx, by(asks, Ask, "id"), {"id": ask_id}, Ask)


def begin_ask(tx: Tx, ask_id: str) -> Ask | None:
    """Begin an ask. None: it was dropped, or somebody has begun it already."""
    if tx.execute(_MOVE, {"of": ask_id, "seen": "open", "to": "begun"}).rowcount != 1:
        return None
    return find_ask(tx, ask_id)


def answer_ask(tx: Tx, ask_id: str, answer: dict[str, Any]) -> None:
    """Answer an ask that was begun and has no answer yet."""
    tx.execute(_ANSWER, {"of": ask_id, "said": answer})


def drop_ask(tx: Tx, ask_id: str, seen: str) -> bool:
    """Delete an ask. False: it no longer has the status that the caller saw."""
    return tx.execute(_DROP_ASK, {"of": ask_id, "seen": seen}).rowcount == 1


def unanswered(tx: Tx, place: str) -> list[Ask]:
    """The asks to a place that have no answer."""
    return many(tx, _IN_PLACE, {"place_id": place}, Ask)


def place_of_session(tx: Tx, session_id: str) -> str:
    """The place of a session."""
    return next(row.place_id for row in rows(tx, _PLACE, {"of": session_id}))


def is_in_hand(tx: Tx, place: str) -> bool:
    """Whether a live worker owns a place."""
    return tx.execute(_IN_HAND, {"place": place}).first() is not None


# Tool hosts: which client connection of a server runs a session's tools, if not the worker.
#
# The server renews each entry regularly, until its connection ends.

_HOST_LASTS = 6
"""Seconds without a renewal after which a connection counts as gone."""
_HOST = select(tool_hosts.c.connection).where(
    tool_hosts.c.session_id == bindparam("of"), tool_hosts.c.until >= clock()
)
_DROP_HOST = delete(tool_hosts).where(tool_hosts.c.connection == bindparam("by"))
_DROP_HOSTS = delete(tool_hosts).where(tool_hosts.c.until < clock(60))


@cache
def _claim() -> Executable:
    new = insert_for("postgresql")(tool_hosts).values(
        session_id=bindparam("of"), connection=bindparam("by"), until=clock(-_HOST_LASTS)
    )
    theirs = or_(tool_hosts.c.until < clock(), tool_hosts.c.connection == new.excluded.connection)
    return new.on_conflict_do_update(
        index_elements=["session_id"], where=theirs,
        set_={"connection": new.excluded.connection, "until": new.excluded.until},
    ).returning(tool_hosts.c.session_id)  # fmt: skip


def claim_tool_host(tx: Tx, session_id: str, connection: str) -> bool:
    """Let a connection run a session's tools for the next seconds. False: another one does."""
    return tx.execute(_claim(), {"of": session_id, "by": connection}).first() is not None


def renew_tool_hosts(tx: Tx, ours: Mapping[str, str]) -> None:
    """Renew the tool hosts of sessions, and delete those that ended long ago."""
    tx.execute(_DROP_HOSTS)
    # Always in the same order, so that no two transactions wait for each other.
    for session_id, connection in sorted(ours.items()):
        claim_tool_host(tx, session_id, connection)


def tool_host_of(tx: Tx, session_id: str) -> str | None:
    """The connection that runs a session's tools now."""
    return tx.execute(_HOST, {"of": session_id}).scalar()


def drop_tool_host(tx: Tx, connection: str) -> None:
    """Delete the entries of a connection that is gone, so that another one may run the tools."""
    tx.execute(_DROP_HOST, {"by": connection})
