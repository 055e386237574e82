"""Tool hosts: which connection of a client runs a session's tools, if the server does not.

One process remembers that by itself. Of several servers each keeps what its own clients do in the
database, where all of them see it, and says every two seconds that it still holds; so a server
that dies keeps no session.
"""

from contextlib import suppress
from typing import Any

import anyio
from msgspec import Struct, field

from gonogo.domain.errors import Busy, Conflict
from gonogo.store import Store
from gonogo.store.asks import claim_tool_host, drop_tool_host, renew_tool_hosts, tool_host_of

_EVERY = 2.0


class ToolHosts(Struct, frozen=True):
    """The connections that run tools."""

    store: Store
    ours: dict[str, str] = field(default_factory=dict[str, str])
    """Session → the connection to this process that runs its tools."""

    async def claim(self, session_id: str, connection: str) -> None:
        """Have a connection run a session's tools.

        Raises:
            Conflict: another connection does.
        """
        holder = self.ours.get(session_id, connection)
        if holder != connection or not await self._claim(session_id, connection):
            raise Conflict("Another connection runs this session's tools; close it first")
        self.ours[session_id] = connection

    async def release(self, connection: str) -> None:
        """A connection is gone."""
        held = [session for session, holder in self.ours.items() if holder == connection]
        for session_id in held:
            del self.ours[session_id]
        if held and self.store.shared_as is not None:
            # Else nobody says any more that it holds: it is over by itself in a few seconds.
            with suppress(Busy):
                await self.store.write(drop_tool_host, connection)

    async def holder(self, session_id: str) -> str | None:
        """The connection that runs a session's tools, on whichever server it is."""
        if self.store.shared_as is None:
            return self.ours.get(session_id)
        return await self.store.read(tool_host_of, session_id)

    async def serve(self, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401
        """Say that what is ours still holds, where others have to know."""
        task_status.started()
        while self.store.shared_as is not None:
            await anyio.sleep(_EVERY)
            if self.ours:
                with suppress(Busy):
                    await self.store.write(renew_tool_hosts, dict(self.ours))

    async def _claim(self, session_id: str, connection: str) -> bool:
        if self.store.shared_as is None:
            return True
        return await self.store.write(claim_tool_host, session_id, connection)
