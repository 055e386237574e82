"""Hints between processes: that there is something to read in the database, and where.

That there is work for a place is told by the commit that made it; any other hint is sent after the
commit. Each may be lost: whoever waits for one looks by itself too, a little later. The first hint
goes out at once; what a process has to tell while one is on its way goes out together, after it.

On a channel of its own go the events of sessions that somebody follows in another process, which
need not be read there then, and text that a model is writing. Nothing keeps that text.
"""

import asyncio
import json
import select
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec import DecodeError, Struct, field
from msgspec.json import Decoder, encode
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from gonogo.domain.base import WrittenEvent
from gonogo.domain.errors import Busy
from gonogo.store.outage import Pool
from gonogo.store.transaction import Tx, new_id

if TYPE_CHECKING:
    from gonogo.store.postgres import Pipelined

_PAUSE = 1.0
_AT_ONCE, _MOST = 15, 7_900
"""Names of each kind in one message, and its bytes: PostgreSQL takes up to 8,000."""
_SCHEMA = text("SELECT current_schema()")
_SEND = text(
    "SELECT pg_notify(channel, said)"
    " FROM unnest(CAST(:channels AS text[]), CAST(:said AS text[])) AS each(channel, said)"
)
_HINTS, _TEXT = "gonogo", "gonogo-text"
_TELL = "SELECT pg_notify(left('{topic} ' || current_schema(), 63), '{said}')"
Message = tuple[str, str]
"""A topic, and what is said."""


class Hint(Struct, frozen=True):
    """What there is to read."""

    sessions: list[str] = field(default_factory=list[str])
    """Something was told in them that is to be read."""
    places: list[str] = field(default_factory=list[str])
    """Something was handed to them, or they want an owner."""
    followed: list[str] = field(default_factory=list[str])
    """Sessions that somebody follows there: their texts are to be shown."""
    joined: list[str] = field(default_factory=list[str])
    """Of these, what somebody has begun to follow: their texts are to be shown from the start."""
    timers: list[str] = field(default_factory=list[str])
    """When timers are due that were set there, where that is soon."""


class TextPart(Struct, frozen=True, array_like=True):
    """A part of a text that a model is writing."""

    session_id: str
    answer: str
    """Names the whole text."""
    fence: int
    """Of the worker's hold of the place."""
    after: int
    """Where the session's log ended before the text was begun."""
    at: int
    """How many characters of the text are before this part."""
    text: str
    place: dict[str, str]
    """The turn or subtask, as events name it."""
    reached: int = 0
    """How many characters went out before the text began anew, for somebody who has come."""


_PART = Decoder(TextPart)


def _shown(said: str) -> TextPart | WrittenEvent:
    """What there is for those who follow; an event goes on to them as it came."""
    return WrittenEvent.read(said) if said.startswith("{") else _PART.decode(said)


class _Line:
    """A connection on which messages go out, by a thread of its own; opened again if it breaks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._conn: Connection | None = None
        self._schema = ""
        self._pool = Pool(1, "gonogo-sender")

    async def send(self, said: Callable[[], list[Message]]) -> bool:
        """Send messages, which are asked for when their turn comes.

        Returns:
            False: the database is away.
        """
        try:
            return await self._pool.run(lambda: self._send(said()))
        except Busy:
            return False

    def close(self) -> None:
        self._pool.close()
        _end(self._conn)

    def _send(self, said: list[Message]) -> bool:
        try:
            if self._conn is None:
                self._conn = self._engine.connect()
                # A message is no promise: nobody waits for the disk.
                self._conn.exec_driver_sql("SET synchronous_commit = off")
                self._schema = _schema(self._conn)
            channels = [_channel(topic, self._schema) for topic, _ in said]
            self._conn.execute(_SEND, {"channels": channels, "said": [each for _, each in said]})
        except SQLAlchemyError:
            _end(self._conn)
            self._conn = None
            return False
        return True


class Hints:
    """Sends what this process has to say, and hears what others say."""

    def __init__(self, engine: Engine) -> None:
        """Say and hear nothing yet.

        Args:
            engine: Makes a new connection each time, which commits each statement by itself.
        """
        self._engine = engine
        self._name = new_id("hints")
        self._due: list[dict[str, None]] = [{} for _ in Hint.__struct_fields__]
        """What is to be said, in the order of the fields of `Hint`."""
        self._events: list[WrittenEvent] = []
        self._guard, self._is_due = threading.Lock(), False
        self._over = threading.Event()
        self._end: socket.socket | None = None
        """Closed at the end, which wakes who hears."""
        self._line, self._text = _Line(engine), _Line(engine)
        self._sending: set[asyncio.Task[bool]] = set()

    def listen(
        self,
        heard: Callable[[Hint | None], None],
        shown: Callable[[TextPart | WrittenEvent], None] | None = None,
    ) -> None:
        """Hear others, from a thread; called in the event loop.

        Args:
            heard: Is told of each hint; of None when some may have been missed.
            shown: Is given what there is for those who follow: events, and parts of texts.
        """
        loop = asyncio.get_running_loop()

        def tell(channel: str, said: str | None) -> None:
            # The loop may be closed.
            with suppress(RuntimeError):
                if said is None:
                    loop.call_soon_threadsafe(heard, None)
                elif channel.startswith(_TEXT) and shown is not None:
                    loop.call_soon_threadsafe(shown, _shown(said))
                elif (hint := self._read(said)) is not None:
                    loop.call_soon_threadsafe(heard, hint)

        topics = (_HINTS,) if shown is None else (_HINTS, _TEXT)
        ends, self._end = socket.socketpair()
        threading.Thread(
            target=self._hear, args=(topics, tell, ends), name="gonogo-listener", daemon=True
        ).start()

    def say(
        self,
        sessions: Iterable[str] = (),
        followed: Iterable[str] = (),
        joined: Iterable[str] = (),
        timers: Iterable[str] = (),
        events: Iterable[WrittenEvent] = (),
    ) -> None:
        """Tell others what a `Hint` says; called in the event loop.

        Args:
            events: What was told in sessions that others follow. Where they are too long for a
                message, it is the session that is named.
        """
        said = (sessions, (), followed, joined, timers)
        with self._guard:
            for due, names in zip(self._due, said, strict=True):
                due.update(dict.fromkeys(names))
            self._events += events
            if self._is_due or not (self._events or any(self._due)):
                return
            self._is_due = True
        task = asyncio.get_running_loop().create_task(self._line.send(self._take))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def tell(self, tx: Tx) -> None:
        """Have the owners of places told, by a transaction's commit, that it has work for them.

        So they begin while whoever asked for it still waits for its answer.
        """
        for said in self._hints({"places": sorted(tx.outbox.wanted)}):
            cast("Pipelined", tx.conn).send(
                _TELL.format(topic=_HINTS, said=said.replace("'", "''"))
            )

    async def show(self, pieces: Iterable[TextPart]) -> bool:
        """Show others parts of texts; one that is too long for a message is left out.

        Returns:
            False: it may have reached nobody.
        """
        said = [encode(piece) for piece in pieces]
        found = [(_TEXT, each.decode()) for each in said if len(each) <= _MOST]
        return await self._text.send(lambda: found)

    def close(self) -> None:
        """Say and hear no more."""
        self._over.set()
        if self._end is not None:
            self._end.close()
        self._line.close()
        self._text.close()

    def _take(self) -> list[Message]:
        """What is to be said; called by the thread that says it."""
        with self._guard:
            lists, events = [list(due) for due in self._due], self._events
            for due in self._due:
                due.clear()
            self._events, self._is_due = [], False
        shown, to_read = _messages(events)
        lists[0] += (each for each in to_read if each not in lists[0])
        due = dict(zip(Hint.__struct_fields__, lists, strict=True))
        return [*shown, *((_HINTS, each) for each in self._hints(due))]

    def _hints(self, due: Mapping[str, Sequence[str]]) -> Iterator[str]:
        lists = [due.get(name, ()) for name in Hint.__struct_fields__]
        for first in range(0, max(map(len, lists)), _AT_ONCE):
            yield json.dumps([self._name, *(names[first : first + _AT_ONCE] for names in lists)])

    def _read(self, said: str) -> Hint | None:
        who, *lists = json.loads(said)
        return None if who == self._name else Hint(*lists[: len(self._due)])

    def _hear(
        self,
        topics: Iterable[str],
        tell: Callable[[str, str | None], None],
        ends: socket.socket,
    ) -> None:
        with ends:
            while not self._over.is_set():
                conn = None
                try:
                    conn = self._engine.connect()
                    schema = _schema(conn)
                    for topic in topics:
                        conn.exec_driver_sql(f'LISTEN "{_channel(topic, schema)}"')
                    tell("", None)
                    self._hear_on(cast("Any", conn.connection.driver_connection), tell, ends)
                except Exception:
                    self._over.wait(_PAUSE)
                finally:
                    _end(conn)

    def _hear_on(
        self,
        raw: Any,  # noqa: ANN401 - a connection of the driver
        tell: Callable[[str, str | None], None],
        ends: socket.socket,
    ) -> None:
        waits = select.poll()
        for each in (raw, ends):
            waits.register(each, select.POLLIN)
        # The driver's own way to wait looks ten times a second whether it is interrupted.
        while not self._over.is_set():
            raw.pgconn.consume_input()
            while note := raw.pgconn.notifies():
                with suppress(DecodeError):
                    tell(note.relname.decode(), note.extra.decode())
            waits.poll()


def _messages(events: Iterable[WrittenEvent]) -> tuple[list[Message], list[str]]:
    """Events as messages, and the sessions of which there is one that no message can take."""
    of = defaultdict[str, list[str]](list)
    for body in events:
        of[body["session_id"]].append(body.written)
    to_read = [each for each, said in of.items() if any(len(x.encode()) > _MOST for x in said)]
    shown = [(_TEXT, x) for each, said in of.items() if each not in to_read for x in said]
    return shown, to_read


def _schema(conn: Connection) -> str:
    return conn.execute(_SCHEMA).scalar_one()


def _channel(topic: str, schema: str) -> str:
    return f"{topic} {schema}"[:63]


def _end(conn: Connection | None) -> None:
    if conn is not None:
        with suppress(SQLAlchemyError):
            conn.invalidate()
        conn.close()
