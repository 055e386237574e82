"""A box's door to the network: what stands inside, how its socket comes out, and who serves it."""

import socket
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path

import anyio
import anyio.abc

from gonogo.workspace._proxy import Proxy
from gonogo.workspace._reach import Network, Reached

_OPENING = 30.0
"""Seconds that a box may take to open its port."""


class Door:
    """One command's; closed when its block ends."""

    def __init__(self, network: Network) -> None:
        self.network, self.report = network, Reached()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def fds(self) -> tuple[int, ...]:
        """What the box inherits."""
        return (self._theirs.fileno(),)

    def through(self, argv: Sequence[str]) -> list[str]:
        """The command line that opens the port in the box, then becomes `argv`."""
        own = [
            str(Path(sys.executable).resolve()),
            "-I",
            "-S",
            "-c",
            _text(),
            str(self._theirs.fileno()),
        ]
        return [*own, *argv]

    def spawned(self) -> None:
        """The box has its end: when it is gone, so is the last of it."""
        self._theirs.close()

    def close(self) -> None:
        """Let go of both ends."""
        self._ours.close()
        self._theirs.close()

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None]:
        """Serve the box's connections while the block runs."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._serve)
            yield
            group.cancel_scope.cancel()

    async def _serve(self) -> None:
        handed = await self._handed()
        if handed is None:
            return
        async with await anyio.abc.SocketListener.from_socket(handed) as listener:
            try:
                await anyio.wait_writable(self._ours)
                self._ours.send(b".")
            except OSError:
                # The box ended before it began: there is nobody to serve.
                return
            await Proxy(self.network, self.report).serve(listener)

    async def _handed(self) -> socket.socket | None:
        """The box's port; None when the box did not get so far."""
        with anyio.move_on_after(_OPENING):
            await anyio.wait_readable(self._ours)
            for fd in self._received():
                handed = socket.socket(fileno=fd)
                if handed.family == socket.AF_INET and _listens(handed):
                    handed.setblocking(False)
                    return handed
                handed.close()
        return None

    def _received(self) -> list[int]:
        try:
            return socket.recv_fds(self._ours, 1, 1)[1]
        except OSError:
            return []


def _listens(handed: socket.socket) -> bool:
    return bool(handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


@contextmanager
def door_of(network: Network | None, *, boxed: bool) -> Generator[Door | None]:
    """The door of a box whose command may reach something; without a box there is none."""
    if network is None or network.hosts is False or not boxed:
        yield None
        return
    door = Door(network)
    try:
        yield door
    finally:
        door.close()


@cache
def _text() -> str:
    return Path(__file__).with_name("_doorway.py").read_text("utf-8")
