"""What is to be done later: timers, deliveries to other programs, and sweeps."""

from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, exists, func, select, update

from gonogo.domain.records import Timer
from gonogo.domain.reviews import Delivery, DeliveryStatus
from gonogo.domain.states import ENDED, CallStatus
from gonogo.store.rows import by, change, columns_of, many, one, put, row_of
from gonogo.store.schema import (
    checkpoints,
    deliveries,
    file_changes,
    plans,
    sessions,
    timers,
    tool_calls,
)
from gonogo.store.transaction import Tx

AGAIN = "again_"
"""With a job's kind behind it: the timer that has a job run again which broke off."""

_DUE_TIMERS = (
    select(*columns_of(timers, Timer))
    .where(timers.c.run_at <= bindparam("now"))
    .order_by(timers.c.run_at)
    .limit(200)
)
_FIRST = select(func.min(timers.c.run_at, type_=timers.c.run_at.type))
_FIRST_BUT = _FIRST.where(timers.c.kind != bindparam("kind"))
_DROP = delete(timers).where(timers.c.kind == bindparam("kind"), timers.c.key == bindparam("key"))
_HAS = select(timers.c.run_at).where(
    timers.c.kind == bindparam("kind"), timers.c.key == bindparam("key")
)
_TAKE = _DROP.where(timers.c.run_at == bindparam("run_at"))


def set_timer(tx: Tx, kind: str, key: str, run_at: datetime) -> None:
    """Set a timer, in the place of an earlier one of the same kind and key."""
    drop_timer(tx, kind, key)
    put(tx, timers, {"kind": kind, "key": key, "run_at": run_at})
    tx.outbox.timers.append(Timer(kind=kind, key=key, run_at=run_at))


def has_timer(tx: Tx, kind: str, key: str) -> bool:
    """Whether there is a timer of that kind and key."""
    return tx.execute(_HAS, {"kind": kind, "key": key}).scalar() is not None


def drop_timer(tx: Tx, kind: str, key: str) -> None:
    """Drop a timer if there is one."""
    tx.execute(_DROP, {"kind": kind, "key": key})


def take_timer(tx: Tx, timer: Timer) -> bool:
    """Drop a timer to carry it out. False when it was dropped, set anew or taken meanwhile."""
    params = {"kind": timer.kind, "key": timer.key, "run_at": timer.run_at}
    return tx.execute(_TAKE, params).rowcount > 0


def due_timers(tx: Tx) -> list[Timer]:
    """The timers whose time has come, earliest first."""
    return many(tx, _DUE_TIMERS, {"now": tx.now}, Timer)


def first_timer(tx: Tx) -> datetime | None:
    """When the earliest timer is due."""
    return tx.execute(_FIRST).scalar()


def first_but(tx: Tx, kind: str) -> datetime | None:
    """When the earliest timer is due that is not of a kind."""
    return tx.execute(_FIRST_BUT, {"kind": kind}).scalar()


# Deliveries: what other programs are to be told, until they were or it is given up.
#
# An attempt takes its delivery with an epoch and a time by which it has to be over; what it writes
# afterwards counts only if nobody took the delivery meanwhile.

_EARLIER = deliveries.alias("earlier")
_DUE = (
    select(*columns_of(deliveries, Delivery))
    .where(
        deliveries.c.hook == bindparam("hook"),
        deliveries.c.status == "pending",
        deliveries.c.not_before <= bindparam("now"),
        # The messages about one question arrive in their order.
        ~exists().where(
            _EARLIER.c.approval_id == deliveries.c.approval_id,
            _EARLIER.c.hook == deliveries.c.hook,
            _EARLIER.c.status == "pending",
            _EARLIER.c.id < deliveries.c.id,
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
    """Insert a delivery. Of one question, ids sort as they were made."""
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
    """Begin an attempt, which has to be over at a time. False when somebody else has begun one."""
    where = {"id": delivery.id, "status": "pending", "epoch": delivery.epoch}
    to = {"epoch": delivery.epoch + 1, "attempt": delivery.attempt + 1, "not_before": until}
    return change(tx, deliveries, where, to)


def set_delivery(
    tx: Tx,
    delivery: Delivery,
    status: DeliveryStatus,
    **to: Any,  # noqa: ANN401 - columns
) -> bool:
    """Record what came of an attempt. False when the delivery was taken over meanwhile."""
    where = {"id": delivery.id, "status": "pending", "epoch": delivery.epoch}
    return change(tx, deliveries, where, {"status": status, **to})


# What of the snapshots is given up, and what somebody may still ask for.

_YOUNG = exists().where(
    checkpoints.c.plan_id == plans.c.id, checkpoints.c.created_at >= bindparam("before")
)
_OLD = select(plans.c.id).where(
    plans.c.status.in_(sorted(ENDED)), plans.c.finished_at < bindparam("before"), ~_YOUNG,
    # One that was cut off is still to be finished.
    plans.c.rollback.is_(None),
)  # fmt: skip
# A rollback that begins just now is waited for, and seen; one that comes later sees our marks.
_HOLD = _OLD.order_by(plans.c.id).with_for_update()
_MARK = (
    update(checkpoints)
    .where(checkpoints.c.plan_id.in_(_OLD), checkpoints.c.swept_at.is_(None))
    .values(swept_at=bindparam("now", type_=checkpoints.c.swept_at.type))
)
_LAST = select(func.max(checkpoints.c.swept_at, type_=checkpoints.c.swept_at.type)).where(
    checkpoints.c.plan_id == bindparam("plan_id")
)
# Nobody asks for what a deleted session had.
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
    """Until when what a plan changed was given up, if anything was."""
    return tx.execute(_LAST, {"plan_id": plan_id}).scalar()


def kept_objects(tx: Tx) -> set[str]:
    """The ids of all snapshots and contents that somebody may still ask for."""
    kept = {*tx.execute(_TREES).scalars(), *tx.execute(_STARTED).scalars()}
    states: Any
    for states in tx.execute(_CHANGES):
        kept.update(state["blob"] for state in states if state and "blob" in state)
    return kept
