"""What one process asks the owner of a place to do, and what came of it.

An ask is begun by one owner at most: whoever takes the place over from an owner that had begun it
says that nobody knows what came of it, and does not begin it a second time.
"""

from datetime import timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy import bindparam, delete, select, update

from gonogo.store.rows import columns_of, many, one, put, row_of, rows
from gonogo.store.schema import asks, sessions
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
