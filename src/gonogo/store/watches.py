"""Watches: what stood guarded before a command, kept until somebody has looked after it.

A row is written with the call's start and goes with what was seen afterwards, so that no end of the
process between the two lets a name pass unseen.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

from gonogo.domain.records import Watch
from gonogo.store._outbox import go_on
from gonogo.store._rows import by, columns_of, many, one, put, row_of
from gonogo.store._undo_schema import watches

WATCH = "watch"
"""The job that looks after a call, or takes away what it left."""

_OF = watches.c.call_id == bindparam("of")
_DROP = delete(watches).where(_OF)
_DUE = select(watches.c.call_id).where(watches.c.found.is_(None) | watches.c.taken_by.is_not(None))
_OF_SESSION = select(*columns_of(watches, Watch)).where(
    watches.c.session_id == bindparam("session_id")
)
_FOUND = (
    update(watches)
    .where(_OF, watches.c.found.is_(None))
    .values(found=bindparam("names", type_=watches.c.found.type), ended=bindparam("how"))
)
_GIVE_AWAY = update(watches).where(_OF).values(taken_by=bindparam("by_whom"))


def add_watch(conn: Connection, watch: Watch) -> None:
    """Begin to watch, in the place of an earlier try of the same call."""
    drop_watch(conn, watch.call_id)
    put(conn, watches, row_of(watch))


def watch_of(conn: Connection, call_id: str) -> Watch | None:
    """The watch of a call."""
    return one(conn, by(watches, Watch, "call_id"), {"call_id": call_id}, Watch)


def watches_of_session(conn: Connection, session_id: str) -> list[Watch]:
    """All watches of a session."""
    return many(conn, _OF_SESSION, {"session_id": session_id}, Watch)


def set_found(conn: Connection, call_id: str, found: Sequence[str], ended: str | None) -> bool:
    """Write down what came. False when somebody else has, or the watch is over."""
    params: dict[str, Any] = {"of": call_id, "names": list(found), "how": ended}
    return conn.execute(_FOUND, params).rowcount > 0


def give_away(conn: Connection, call_id: str, by_whom: str | None) -> None:
    """Have what was found taken away; None: not any more."""
    conn.execute(_GIVE_AWAY, {"of": call_id, "by_whom": by_whom})
    if by_whom is not None:
        go_on(conn, WATCH, call_id)


def drop_watch(conn: Connection, call_id: str) -> bool:
    """End a watch. False when it is over already."""
    return conn.execute(_DROP, {"of": call_id}).rowcount > 0


def look_later(conn: Connection, call_id: str) -> None:
    """Have somebody look after a call whose owner goes away."""
    if watch_of(conn, call_id) is not None:
        go_on(conn, WATCH, call_id)


def resume_watches(conn: Connection) -> None:
    """After a start: whatever was to be looked at, or taken away, is."""
    for call_id in conn.execute(_DUE).scalars().all():
        go_on(conn, WATCH, call_id)
