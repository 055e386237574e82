"""WebSocket frames before any of them is a message: nobody keeps the server busy with crumbs.

Pings are answered, and pieces of a message gathered, below the application, where nothing counts
them. Here a connection that sends more small frames in a second than any client has reason to is
ended, and who sends pings and does not read the answers gets none. The word that ends a connection
is said also to who reads nothing: it is read once reading goes on. A handshake that cannot be read
is answered as well.
"""

from functools import partial
from time import monotonic
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from gonogo.server.connections import Connections

KNOWN = "known"
"""Where the application finds what to call once it knows who is there."""
SMALL = 256
"""Bytes below which a frame counts."""
MOST = 500
"""So many of them may come in a second."""
_SLICE = 4_096
_REFUSED = 1008
_LAST = 1.0
"""Seconds from the last word to the end."""
_NO_HANDSHAKE = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Frames(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with an end to small frames."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        self._since, self._count = monotonic(), 0
        self._refused = False
        app: Any = self.config.app
        self._held: Connections = app.state.door.connections

    def connection_lost(self, exc: Exception | None) -> None:
        """Hold it no more."""
        self._held.left(self.transport)
        super().connection_lost(exc)

    def handle_connect(self, event: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Begin, with a way to say that whoever is there may be."""
        super().handle_connect(event)
        if not self.close_sent:
            known = {KNOWN: partial(self._held.works, self.transport)}
            self.scope["state"] = {**self.scope.get("state", {}), **known}

    def pause_writing(self) -> None:
        """The other side does not take what it asked for."""
        super().pause_writing()
        self._held.waits(self.transport)

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._held.works(self.transport)

    def data_received(self, data: bytes) -> None:
        """Take what came a slice at a time, so that a flood is seen before all of it is read."""
        for start in range(0, len(data), _SLICE):
            if self._refused:
                return
            super().data_received(data[start : start + _SLICE])
            if self.conn.handshake_exc is not None and not self.handshake_initiated:
                self._turn_away()

    def handle_events(self) -> None:
        """Take the frames that are whole, unless they are too many."""
        small = sum(isinstance(each, Frame) and len(each.data) < SMALL for each in self.conn.events)
        if small and self._too_many(small):
            self.conn.events_received()
            self._refuse()
            return
        super().handle_events()

    async def send(self, message: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Send as uvicorn does; only the end does not wait until there is room for it."""
        if message["type"] == "websocket.close":
            self.writable.set()
        await super().send(message)

    def handle_ping(self) -> None:
        """Answer, if the answers before are read."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def _turn_away(self) -> None:
        """End a handshake with a head that is too long or has a body; below us it just hangs."""
        self._refused = True
        self.transport.write(b"".join(self.conn.data_to_send()) or _NO_HANDSHAKE)
        self.transport.close()

    def _too_many(self, small: int) -> bool:
        now = monotonic()
        if now - self._since > 1:
            self._since, self._count = now, 0
        self._count += small
        return self._count > MOST

    def _refuse(self) -> None:
        """Say why, and read on for a moment: a reset would overtake what was said."""
        self._refused = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _REFUSED})
        if not self.close_sent:
            self.conn.fail(_REFUSED, "Too many small frames")
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        if self.close_timer is None:
            self.close_timer = self.loop.call_later(_LAST, self.transport.abort)
        self.transport.resume_reading()
