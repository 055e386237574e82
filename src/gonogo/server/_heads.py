"""The head of a request, which has to come whole in some time.

uvicorn waits for it without an end: who opens connections and says nothing, or a byte now and then,
could hold every one that the server may have, and needs no token for that.
"""

from asyncio import TimerHandle
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from gonogo.server.connections import Connections, Room


class Heads(H11Protocol):
    """uvicorn's HTTP; a connection on which no whole head comes in time is closed."""

    def __init__(self, config: Any, *args: Any, room: Room, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(config, *args, **kwargs)
        self._seconds: float = config.app.state.door.limits.body
        self._held: Connections = config.app.state.door.connections
        self._room = room
        self._late: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Wait for the first head."""
        super().connection_made(transport)
        self._held.admit(transport, self._room)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop()
        self._held.left(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; whatever ends a head, its body has a limit of its own."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._stop()
        self._look()

    def on_response_complete(self) -> None:
        """Go on with the next request, if it is there."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """The other side does not take what it asked for."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._look()

    def _look(self) -> None:
        """Say whether something is done for this connection; a WebSocket says so itself."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete and not self.flow.write_paused:
            self._held.works(self.transport)
        elif self.transport.get_protocol() is self:
            self._held.waits(self.transport)

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self._seconds, self.transport.close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
