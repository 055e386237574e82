"""A program that is told things over HTTP: real connections, and every way to behave badly."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

from gonogo.domain.base import loads

LIMIT = 60
"""Seconds that a message may take to come."""


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        return loads(self.body)


Behaviour = Callable[[SocketStream], Awaitable[None]]


def answers(status: int, *more: str, body: bytes = b"") -> Behaviour:
    """Answers with a status."""

    async def behave(stream: SocketStream) -> None:
        head = [f"HTTP/1.1 {status} Whatever", f"content-length: {len(body)}", *more]
        await stream.send("\r\n".join([*head, "", ""]).encode() + body)

    return behave


async def hangs(stream: SocketStream) -> None:
    """Never answers."""
    await anyio.sleep_forever()


async def drips(stream: SocketStream) -> None:
    """Answers a letter at a time, and never ends its head."""
    await stream.send(b"HTTP/1.1 200 OK\r\nx-slow: ")
    while True:
        await stream.send(b"a")
        await anyio.sleep(0.02)


async def floods(stream: SocketStream) -> None:
    """Answers with a body that has no end."""
    await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n")
    while True:
        await stream.send(b"x" * 65_536)


async def swells(stream: SocketStream) -> None:
    """Answers with a head that has no end."""
    await stream.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await stream.send(b"x-more: " + b"y" * 8_192 + b"\r\n")


async def resets(stream: SocketStream) -> None:
    """Cuts the connection."""
    import socket
    import struct

    raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - not that `extra`
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def babbles(stream: SocketStream) -> None:
    """Answers with what is no HTTP."""
    await stream.send(b"\x00\xff hello\r\n\r\n")


@dataclass
class Receiver:
    """What came, and how the next requests are answered."""

    url: str
    behaviour: Behaviour = field(default_factory=lambda: answers(204))
    once: list[Behaviour] = field(default_factory=list)
    """Behaviours of the next requests, before `behaviour`."""
    received: list[Received] = field(default_factory=list)
    _came: anyio.Event = field(default_factory=anyio.Event)

    async def got(self, number: int) -> list[Received]:
        """Wait until so many requests have come."""
        with anyio.fail_after(LIMIT):
            while len(self.received) < number:
                await self._came.wait()
        return self.received

    async def serve(self, stream: SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
            async with stream:
                self.received.append(await _read(stream))
                came, self._came = self._came, anyio.Event()
                came.set()
                await (self.once.pop(0) if self.once else self.behaviour)(stream)


async def _read(stream: SocketStream) -> Received:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive()
    return Received(path=first.split(" ")[1], headers=headers, body=body)


@asynccontextmanager
async def receiver(port: int = 0) -> AsyncIterator[Receiver]:
    """A receiver on a port of loopback."""
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port) as listener,
        anyio.create_task_group() as group,
    ):
        where = listener.extra(SocketAttribute.local_address)  # noqa: S610 - not that `extra`
        found = Receiver(url=f"http://127.0.0.1:{where[1]}/told")
        group.start_soon(listener.serve, found.serve)
        yield found
        group.cancel_scope.cancel()
