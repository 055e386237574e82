"""The head of a request, which has to come whole in some time.

uvicorn waits for it without an end: who opens connections and says nothing, or a byte now and then,
could hold every one that the server may have, and needs no token for that.
"""

from asyncio import TimerHandle
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Heads(H11Protocol):
    """uvicorn's HTTP; a connection on which no whole head comes in time is closed."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(config, *args, **kwargs)
        self._seconds: float = config.app.state.door.limits.body
        self._late: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Wait for the first head."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; whatever ends a head, its body has a limit of its own."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._stop()

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self._seconds, self.transport.close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
