"""Hints between processes: that there is something to read in the database, and where.

A hint is sent after the commit, and may be lost: whoever waits for one looks by itself too, a
little later. What one process has to tell within a few milliseconds goes out as one message.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, cast

from msgspec import Struct, field
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from gonogo.domain.errors import Busy
from gonogo.store.outage import Pool
from gonogo.store.transaction import new_id

_GATHER = 0.005
_LOOK, _PAUSE = 0.5, 1.0
_AT_ONCE = 40
"""Names in one message: PostgreSQL takes up to 8,000 bytes."""
_SCHEMA = text("SELECT current_schema()")
_SEND = text("SELECT pg_notify(:channel, :said)")


class Hint(Struct, frozen=True):
    """What there is to read."""

    sessions: list[str] = field(default_factory=list[str])
    """Something was told in them."""
    places: list[str] = field(default_factory=list[str])
    """Something was handed to them, or they want an owner."""


class Hints:
    """Sends what this process has to say, and hears what others say."""

    def __init__(self, engine: Engine) -> None:
        """Say and hear nothing yet.

        Args:
            engine: Makes a new connection each time, which commits each statement by itself.
        """
        self._engine = engine
        self._name = new_id("hints")
        self._sessions: dict[str, None] = {}
        self._places: dict[str, None] = {}
        self._is_due = False
        self._out: Connection | None = None
        self._channel = ""
        self._over = threading.Event()
        self._sender = Pool(1, "gonogo-hints")
        self._sending: set[asyncio.Task[None]] = set()

    def listen(self, heard: Callable[[Hint | None], None]) -> None:
        """Hear others, from a thread; called in the event loop.

        Args:
            heard: Is told of each hint; of None when some may have been missed.
        """
        loop = asyncio.get_running_loop()

        def tell(hint: Hint | None) -> None:
            # The loop may be closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(heard, hint)

        threading.Thread(
            target=self._hear, args=(tell,), name="gonogo-listener", daemon=True
        ).start()

    def say(self, sessions: Iterable[str], places: Iterable[str]) -> None:
        """Tell others that there is something to read; called in the event loop."""
        self._sessions.update(dict.fromkeys(sessions))
        self._places.update(dict.fromkeys(places))
        if (self._sessions or self._places) and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(_GATHER, self._send_all)

    def close(self) -> None:
        """Say and hear no more."""
        self._over.set()
        self._sender.close()
        _end(self._out)

    def _send_all(self) -> None:
        told, asked = list(self._sessions), list(self._places)
        self._sessions.clear()
        self._places.clear()
        self._is_due = False
        task = asyncio.get_running_loop().create_task(self._sent(told, asked))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _sent(self, told: list[str], asked: list[str]) -> None:
        with suppress(Busy):
            await self._sender.run(partial(self._send, told, asked))

    def _send(self, told: list[str], asked: list[str]) -> None:
        try:
            self._out = self._out or self._engine.connect()
            self._channel = self._channel or _channel(self._out)
            for first in range(0, max(len(told), len(asked)), _AT_ONCE):
                last = first + _AT_ONCE
                said = json.dumps([self._name, told[first:last], asked[first:last]])
                self._out.execute(_SEND, {"channel": self._channel, "said": said})
        except SQLAlchemyError:
            _end(self._out)
            self._out = None

    def _hear(self, tell: Callable[[Hint | None], None]) -> None:
        while not self._over.is_set():
            conn = None
            try:
                conn = self._engine.connect()
                conn.exec_driver_sql(f'LISTEN "{_channel(conn)}"')
                tell(None)
                self._hear_on(cast("Any", conn.connection.driver_connection), tell)
            except Exception:
                self._over.wait(_PAUSE)
            finally:
                _end(conn)

    def _hear_on(self, raw: Any, tell: Callable[[Hint | None], None]) -> None:  # noqa: ANN401
        while not self._over.is_set():
            for note in raw.notifies(timeout=_LOOK):
                who, told, asked = json.loads(note.payload)
                if who != self._name:
                    tell(Hint(told, asked))


def _channel(conn: Connection) -> str:
    return f"gonogo {conn.execute(_SCHEMA).scalar_one()}"[:63]


def _end(conn: Connection | None) -> None:
    if conn is not None:
        with suppress(SQLAlchemyError):
            conn.invalidate()
        conn.close()
