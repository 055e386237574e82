"""Hints between processes: there is something to read in the database, and where.

A hint about work for a place is sent by the commit that made the work; any other hint is sent after
the commit. Each may be lost: a process that waits for hints also looks by itself, a little later.
The first hint is sent at once; hints that come while it is being sent are sent together, after it.

A second channel carries text that a model is writing, which is not stored, and the events of
sessions that somebody follows in another process, so that this process need not read them.
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
"""The limits of a message: names of each kind, and bytes; PostgreSQL allows less than 8,000."""
_SCHEMA = text("SELECT current_schema()")
_SEND = text(
    "SELECT pg_notify(channel, said)"
    " FROM unnest(CAST(:channels AS text[]), CAST(:said AS text[])) AS each(channel, said)"
)
_HINTS, _TEXT = "gonogo", "gonogo-text"
_TELL = "SELECT pg_notify(left('{topic} ' || current_schema(), 63), '{said}')"
Message = tuple[str, str]
"""A topic, and the content."""


class Hint(Struct, frozen=True):
    """What there is to read."""

    sessions: list[str] = field(default_factory=list[str])
    """Sessions with new events to read."""
    places: list[str] = field(default_factory=list[str])
    """Places that have handoffs, or need an owner."""
    followed: list[str] = field(default_factory=list[str])
    """Sessions that somebody follows at the sender: show their live texts."""
    joined: list[str] = field(default_factory=list[str])
    """Those sessions that somebody has just begun to follow: show their texts from the start."""
    timers: list[str] = field(default_factory=list[str])
    """The due times of timers that the sender has set, if they are soon."""


class TextPart(Struct, frozen=True, array_like=True):
    """A part of a text that a model is writing."""

    session_id: str
    answer: str
    """The id of the whole text."""
    fence: int
    """The fence of the worker's hold of the place."""
    after: int
    """The last seq of the session's log when the text began."""
    at: int
    """How many characters of the text come before this part."""
    text: str
    place: dict[str, str]
    """The turn or subtask, as events name it."""
    reached: int = 0
    """How many characters were sent before the text was sent from the start for a new follower."""


_PART = Decoder(TextPart)


def _shown(said: str) -> TextPart | WrittenEvent:
    """Decode a message for followers: an event, kept as it was written, or a part of a text."""
    return WrittenEvent.read(said) if said.startswith("{") else _PART.decode(said)


class _Line:
    """A connection that sends messages, in its own thread; it is opened again if it breaks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._conn: Connection | None = None
        self._schema = ""
        self._pool = Pool(1, "gonogo-sender")

    async def send(self, said: Callable[[], list[Message]]) -> bool:
        """Send messages.

        Args:
            said: Returns the messages; it is called just before they are sent.

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
                # A message may be lost, so do not wait for the disk.
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
    """Sends the hints of this process, and receives those of others."""

    def __init__(self, engine: Engine) -> None:
        """Send and receive nothing yet.

        Args:
            engine: Makes a new connection each time, which commits each statement by itself.
        """
        self._engine = engine
        self._name = new_id("hints")
        self._due: list[dict[str, None]] = [{} for _ in Hint.__struct_fields__]
        """The names to send, in the order of the fields of `Hint`."""
        self._events: list[WrittenEvent] = []
        self._guard, self._is_due = threading.Lock(), False
        self._over = threading.Event()
        self._end: socket.socket | None = None
        """Closing it wakes the thread that listens, at the end."""
        self._line, self._text = _Line(engine), _Line(engine)
        self._sending: set[asyncio.Task[bool]] = set()

    def listen(
        self,
        heard: Callable[[Hint | None], None],
        shown: Callable[[TextPart | WrittenEvent], None] | None = None,
    ) -> None:
        """Start a thread that receives from others; call this in the event loop.

        Args:
            heard: Called in the event loop with each hint; with None if some may have been lost.
            shown: Called there with the messages for followers: events, and parts of texts.
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
        """Send a `Hint` to the others; call this in the event loop.

        Args:
            events: Events of sessions that others follow. If one is too long for a message, the
                hint names the session instead.
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
        """Let a transaction's commit tell the owners of places that it has work for them.

        So they begin even before the caller has the answer to its request.
        """
        for said in self._hints({"places": sorted(tx.outbox.wanted)}):
            cast("Pipelined", tx.conn).send(
                _TELL.format(topic=_HINTS, said=said.replace("'", "''"))
            )

    async def show(self, pieces: Iterable[TextPart]) -> bool:
        """Send parts of texts to the others; a part that is too long for a message is left out.

        Returns:
            False: perhaps nobody has received them.
        """
        said = [encode(piece) for piece in pieces]
        found = [(_TEXT, each.decode()) for each in said if len(each) <= _MOST]
        return await self._text.send(lambda: found)

    def close(self) -> None:
        """Stop sending and receiving."""
        self._over.set()
        if self._end is not None:
            self._end.close()
        self._line.close()
        self._text.close()

    def _take(self) -> list[Message]:
        """Take all messages to send; called in the thread that sends them."""
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
        # The driver's own way to wait would wake up ten times a second.
        while not self._over.is_set():
            raw.pgconn.consume_input()
            while note := raw.pgconn.notifies():
                with suppress(DecodeError):
                    tell(note.relname.decode(), note.extra.decode())
            waits.poll()


def _messages(events: Iterable[WrittenEvent]) -> tuple[list[Message], list[str]]:
    """Events as messages, and the sessions with an event that is too long for a message."""
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
