"""The connections that a server holds: never more than there are descriptors for.

A connection costs a descriptor, and whoever opens one has shown nothing yet. Where there is no room
for another, the one that has asked for nothing for longest makes it; where all are at work, the new
one is told to come again. So who opens connections and says nothing, or takes nothing, gets in
nobody's way, and there are always descriptors left for what requests need.
"""

import asyncio
import errno
import logging
import os
import resource
import socket
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import anyio
from msgspec import Struct, field

MOST, LEAST = 10_000, 4
_SPARE = 256
"""Descriptors for everything else, where there are as many."""
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_BREATH = 0.1
_SAID_EVERY = 600.0
"""Seconds in which the log is told once that there is no room."""
_READ = 65_536
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)
_LOG = logging.getLogger("gonogo.server")


def room_for_connections() -> int:
    """How many connections there are descriptors for, beside what else needs some."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MOST
    free = limit - len(os.listdir("/dev/fd"))
    return max(LEAST, min(MOST, free - min(free // 2, _SPARE)))


class Room(Struct):
    """The connections that came in by one listener."""

    most: int
    held: int = 0
    waiting: "OrderedDict[asyncio.BaseTransport, None]" = field(
        default_factory=OrderedDict[asyncio.BaseTransport, None]
    )
    """Those that nothing is done for, the one that has waited for longest first."""


class Connections:
    """All of a server."""

    def __init__(self) -> None:
        """Begin with none."""
        self._rooms: dict[asyncio.BaseTransport, Room] = {}
        self._said = -_SAID_EVERY

    def admit(self, transport: asyncio.BaseTransport, room: Room) -> None:
        """Hold one more; it has asked for nothing yet."""
        self._rooms[transport] = room
        room.held += 1
        room.waiting[transport] = None

    def waits(self, transport: asyncio.BaseTransport) -> None:
        """Nothing is done for a connection, or it does not take what was done."""
        if transport in self._rooms:
            self._rooms[transport].waiting[transport] = None

    def works(self, transport: asyncio.BaseTransport) -> None:
        """Something is done for a connection."""
        if transport in self._rooms:
            self._rooms[transport].waiting.pop(transport, None)

    def left(self, transport: asyncio.BaseTransport) -> None:
        """A connection is over."""
        room = self._rooms.pop(transport, None)
        if room is not None:
            room.held -= 1
            room.waiting.pop(transport, None)

    async def accept(
        self, listener: socket.socket, room: Room, made: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        """Take connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._make_room(room)
                    self._tell(error.strerror or str(error))
                await anyio.sleep(_BREATH)
                continue
            if room.held >= room.most and not self._make_room(room):
                self._tell(f"{room.held} connections are at work")
                _turn_away(taken)
                continue
            try:
                await loop.connect_accepted_socket(made, taken)
            except OSError:
                taken.close()

    def _make_room(self, room: Room) -> bool:
        """Close the connection that has waited for longest; False: none waits."""
        if not room.waiting:
            return False
        transport = next(iter(room.waiting))
        self.left(transport)
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()
        return True

    def _tell(self, why: str) -> None:
        if monotonic() - self._said >= _SAID_EVERY:
            self._said = monotonic()
            _LOG.warning("No room for more connections: %s; some are turned away", why)


def _turn_away(taken: socket.socket) -> None:
    """Say that there is no room, and why; what was asked is read, or a reset would come first."""
    with taken, suppress(OSError):
        with suppress(BlockingIOError):
            taken.recv(_READ)
        taken.send(_BUSY)
