"""What one process asks the owner of a place to do, and what came of it.

An ask is begun by one owner at most: whoever takes the place over from an owner that had begun it
says that nobody knows what came of it, and does not begin it a second time.

Also which connection of which server runs a session's tools, where it is not the worker.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from msgspec import Struct
from sqlalchemy import Executable, bindparam, delete, or_, select, update

from gonogo.store.places import LIVES, clock
from gonogo.store.rows import columns_of, insert_for, many, one, put, row_of, rows
from gonogo.store.schema import asks, places, sessions, tool_hosts
from gonogo.store.transaction import Tx, go_on

ASK = "ask"
"""The kind of job that carries one out."""
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
_ONE = select(*columns_of(asks, Ask)).where(asks.c.id == bindparam("of"))
_IN_PLACE = select(*columns_of(asks, Ask)).where(
    asks.c.place_id == bindparam("place"), asks.c.status != "answered"
)
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
_DROP = delete(asks).where(asks.c.id == bindparam("of"), asks.c.status == bindparam("seen"))
_DROP_OLD = delete(asks).where(asks.c.created_at < bindparam("before"))


def add_ask(tx: Tx, ask: Ask) -> None:
    """Have the owner of a place do something, whoever that is or will be."""
    tx.execute(_DROP_OLD, {"before": tx.now - _KEPT})
    put(tx, asks, {**row_of(ask), "created_at": tx.now})
    go_on(tx, ASK, ask.id)


def find_ask(tx: Tx, ask_id: str) -> Ask | None:
    """It, as it stands."""
    return one(tx, _ONE, {"of": ask_id}, Ask)


def begin_ask(tx: Tx, ask_id: str) -> Ask | None:
    """Take it on. None: it was taken back, or somebody has begun it."""
    if tx.execute(_MOVE, {"of": ask_id, "seen": "open", "to": "begun"}).rowcount != 1:
        return None
    return find_ask(tx, ask_id)


def answer_ask(tx: Tx, ask_id: str, answer: dict[str, Any]) -> None:
    """Say what came of it, if that was not said."""
    tx.execute(_ANSWER, {"of": ask_id, "said": answer})


def drop_ask(tx: Tx, ask_id: str, seen: str) -> bool:
    """Forget it. False: it does not stand there any more."""
    return tx.execute(_DROP, {"of": ask_id, "seen": seen}).rowcount == 1


def unanswered(tx: Tx, place: str) -> list[Ask]:
    """What was asked of a place and has no answer."""
    return many(tx, _IN_PLACE, {"place": place}, Ask)


def place_of_session(tx: Tx, session_id: str) -> str:
    """The place of a session."""
    return next(row.place_id for row in rows(tx, _PLACE, {"of": session_id}))


def is_in_hand(tx: Tx, place: str) -> bool:
    """Whether a worker that lives has a place."""
    return tx.execute(_IN_HAND, {"place": place}).first() is not None


# Tool hosts: each says again and again that it is there, until its connection ends.

_HOST_LASTS = 6
"""Seconds after which a connection that was not named again counts as gone."""
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
    """Have a connection run a session's tools for the next seconds. False: another one does."""
    return tx.execute(_claim(), {"of": session_id, "by": connection}).first() is not None


def renew_tool_hosts(tx: Tx, ours: Mapping[str, str]) -> None:
    """Say that connections still run the tools of sessions; forget those that ended long ago."""
    tx.execute(_DROP_HOSTS)
    # In one order for all, so that no two transactions wait for each other.
    for session_id, connection in sorted(ours.items()):
        claim_tool_host(tx, session_id, connection)


def tool_host_of(tx: Tx, session_id: str) -> str | None:
    """The connection that runs a session's tools now."""
    return tx.execute(_HOST, {"of": session_id}).scalar()


def drop_tool_host(tx: Tx, connection: str) -> None:
    """A connection is gone: another one may run the tools."""
    tx.execute(_DROP_HOST, {"by": connection})
