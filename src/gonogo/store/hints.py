"""Hints between processes: that there is something to read in the database, and where.

A hint is sent after the commit, and may be lost: whoever waits for one looks by itself too, a
little later. The first hint goes out at once; what a process has to tell in the milliseconds after
it goes out together, as one message.

Text that a model is writing goes the same way, on a channel of its own. Nothing keeps it.
"""

import asyncio
import json
import select
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, cast

from msgspec import DecodeError, Struct, field
from msgspec.json import Decoder, encode
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from gonogo.domain.errors import Busy
from gonogo.store.outage import Pool
from gonogo.store.transaction import new_id

GATHER = 0.005
_PAUSE = 1.0
_AT_ONCE, _MOST = 15, 7_900
"""Names of each kind in one message, and its bytes: PostgreSQL takes up to 8,000."""
_SCHEMA = text("SELECT current_schema()")
_SEND = text("SELECT pg_notify(:channel, said) FROM unnest(CAST(:said AS text[])) AS said")
_HINTS, _TEXT = "gonogo", "gonogo-text"


class Hint(Struct, frozen=True):
    """What there is to read."""

    sessions: list[str] = field(default_factory=list[str])
    """Something was told in them."""
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


_PIECES = Decoder(TextPart)


class _Line:
    """A connection on which messages go out, by a thread of its own; opened again if it breaks."""

    def __init__(self, engine: Engine, topic: str) -> None:
        self._engine, self._topic = engine, topic
        self._conn: Connection | None = None
        self._channel = ""
        self._pool = Pool(1, "gonogo-sender")

    async def send(self, said: list[str]) -> bool:
        """Send messages. False: the database is away."""
        try:
            return await self._pool.run(partial(self._send, said))
        except Busy:
            return False

    def close(self) -> None:
        self._pool.close()
        _end(self._conn)

    def _send(self, said: list[str]) -> bool:
        try:
            if self._conn is None:
                self._conn = self._engine.connect()
                # A message is no promise: nobody waits for the disk.
                self._conn.exec_driver_sql("SET synchronous_commit = off")
                self._channel = _channel(self._conn, self._topic)
            self._conn.execute(_SEND, {"channel": self._channel, "said": said})
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
        self._is_due, self._not_before = False, 0.0
        self._over = threading.Event()
        self._end: socket.socket | None = None
        """Closed at the end, which wakes who hears."""
        self._line, self._text = _Line(engine, _HINTS), _Line(engine, _TEXT)
        self._sending: set[asyncio.Task[bool]] = set()

    def listen(
        self,
        heard: Callable[[Hint | None], None],
        shown: Callable[[TextPart], None] | None = None,
    ) -> None:
        """Hear others, from a thread; called in the event loop.

        Args:
            heard: Is told of each hint; of None when some may have been missed.
            shown: Is given the texts that are being written for those who follow them.
        """
        loop = asyncio.get_running_loop()

        def tell(channel: str, said: str | None) -> None:
            # The loop may be closed.
            with suppress(RuntimeError):
                if said is None:
                    loop.call_soon_threadsafe(heard, None)
                elif channel.startswith(_TEXT) and shown is not None:
                    loop.call_soon_threadsafe(shown, _PIECES.decode(said))
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
        places: Iterable[str] = (),
        followed: Iterable[str] = (),
        joined: Iterable[str] = (),
        timers: Iterable[str] = (),
    ) -> None:
        """Tell others what a `Hint` says; called in the event loop."""
        said = (sessions, places, followed, joined, timers)
        for due, names in zip(self._due, said, strict=True):
            due.update(dict.fromkeys(names))
        if any(self._due) and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_at(self._not_before, self._send_all)

    async def show(self, pieces: Iterable[TextPart]) -> bool:
        """Show others parts of texts; one that is too long for a message is left out.

        Returns:
            False: it may have reached nobody.
        """
        said = [encode(piece) for piece in pieces]
        return await self._text.send([each.decode() for each in said if len(each) <= _MOST])

    def close(self) -> None:
        """Say and hear no more."""
        self._over.set()
        if self._end is not None:
            self._end.close()
        self._line.close()
        self._text.close()

    def _send_all(self) -> None:
        lists = [list(due) for due in self._due]
        for due in self._due:
            due.clear()
        self._is_due, self._not_before = False, asyncio.get_running_loop().time() + GATHER
        said = [
            json.dumps([self._name, *(names[first : first + _AT_ONCE] for names in lists)])
            for first in range(0, max(map(len, lists)), _AT_ONCE)
        ]
        task = asyncio.get_running_loop().create_task(self._line.send(said))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

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
                    for topic in topics:
                        conn.exec_driver_sql(f'LISTEN "{_channel(conn, topic)}"')
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


def _channel(conn: Connection, topic: str) -> str:
    return f"{topic} {conn.execute(_SCHEMA).scalar_one()}"[:63]


def _end(conn: Connection | None) -> None:
    if conn is not None:
        with suppress(SQLAlchemyError):
            conn.invalidate()
        conn.close()
