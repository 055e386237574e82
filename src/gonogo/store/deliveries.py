"""Deliveries: what other programs are to be told, until they were or it is given up.

An attempt takes its delivery with an epoch and a time by which it has to be over; what it
writes afterwards counts only if nobody took the delivery meanwhile.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, exists, select

from gonogo.domain.reviews import Delivery, DeliveryStatus
from gonogo.store._desk_schema import deliveries
from gonogo.store._rows import by, change, columns_of, many, one, put, row_of

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


def add_delivery(conn: Connection, delivery: Delivery) -> None:
    """Insert a delivery. Of one question, ids sort as they were made."""
    put(conn, deliveries, row_of(delivery))


def delivery_of(conn: Connection, delivery_id: str) -> Delivery | None:
    """The delivery of that id."""
    return one(conn, by(deliveries, Delivery, "id"), {"id": delivery_id}, Delivery)


def pending_deliveries(conn: Connection) -> list[Delivery]:
    """Every delivery that is still to be made."""
    return many(conn, _PENDING, {}, Delivery)


def due_delivery(conn: Connection, hook: str, now: datetime) -> Delivery | None:
    """The next delivery of a hook that may be tried, if there is one."""
    found = many(conn, _DUE, {"hook": hook, "now": now}, Delivery)
    return found[0] if found else None


def take_delivery(conn: Connection, delivery: Delivery, until: datetime) -> bool:
    """Begin an attempt, which has to be over at a time. False when somebody else has begun one."""
    where = {"id": delivery.id, "status": "pending", "epoch": delivery.epoch}
    to = {"epoch": delivery.epoch + 1, "attempt": delivery.attempt + 1, "not_before": until}
    return change(conn, deliveries, where, to)


def set_delivery(
    conn: Connection,
    delivery: Delivery,
    status: DeliveryStatus,
    **to: Any,  # noqa: ANN401 - columns
) -> bool:
    """Record what came of an attempt. False when the delivery was taken over meanwhile."""
    where = {"id": delivery.id, "status": "pending", "epoch": delivery.epoch}
    return change(conn, deliveries, where, {"status": status, **to})
