"""Timers: what to do at a time, whoever lives then."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, func, select

from gonogo.domain.records import Timer
from gonogo.store._outbox import outbox
from gonogo.store._rows import columns_of, many, put
from gonogo.store._schema import timers

_DUE = (
    select(*columns_of(timers, Timer))
    .where(timers.c.run_at <= bindparam("now"))
    .order_by(timers.c.run_at)
    .limit(200)
)
_FIRST = select(func.min(timers.c.run_at, type_=timers.c.run_at.type))
_DROP = delete(timers).where(timers.c.kind == bindparam("kind"), timers.c.key == bindparam("key"))
_HAS = select(timers.c.run_at).where(
    timers.c.kind == bindparam("kind"), timers.c.key == bindparam("key")
)
_TAKE = _DROP.where(timers.c.run_at == bindparam("run_at"))


def set_timer(conn: Connection, kind: str, key: str, run_at: datetime) -> None:
    """Set a timer, in the place of an earlier one of the same kind and key."""
    drop_timer(conn, kind, key)
    put(conn, timers, {"kind": kind, "key": key, "run_at": run_at})
    outbox(conn).timers.append(Timer(kind=kind, key=key, run_at=run_at))


def has_timer(conn: Connection, kind: str, key: str) -> bool:
    """Whether there is a timer of that kind and key."""
    return conn.execute(_HAS, {"kind": kind, "key": key}).scalar() is not None


def drop_timer(conn: Connection, kind: str, key: str) -> None:
    """Drop a timer if there is one."""
    conn.execute(_DROP, {"kind": kind, "key": key})


def take_timer(conn: Connection, timer: Timer) -> bool:
    """Drop a timer to carry it out. False when it was dropped, set anew or taken meanwhile."""
    params = {"kind": timer.kind, "key": timer.key, "run_at": timer.run_at}
    return conn.execute(_TAKE, params).rowcount > 0


def due_timers(conn: Connection, now: datetime) -> list[Timer]:
    """The timers whose time has come, earliest first."""
    return many(conn, _DUE, {"now": now}, Timer)


def first_timer(conn: Connection) -> datetime | None:
    """When the earliest timer is due."""
    return conn.execute(_FIRST).scalar()
