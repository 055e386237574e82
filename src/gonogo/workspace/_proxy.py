"""The one way from a box to the network: a small HTTP proxy that checks where each connection goes.

It speaks CONNECT, and plain HTTP one request a connection. Everything about it is bounded: heads,
connections at once, silence, bytes in all. It ends with the command that it serves.
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.abc

from gonogo.workspace._reach import Network, Reached, Refused, connect

_HEAD = 32 * 1024
_CHUNK = 64 * 1024
_PAUSE = 0.1
_AUTHORITY = re.compile(r"(\[[0-9a-f:.%]{2,64}\]|[^\s:/?#@\[\]]{1,255})(?::([0-9]{1,5}))?", re.I)
_REQUEST = re.compile(r"([A-Za-z]{1,32}) (\S+) HTTP/1\.[01]", re.ASCII)
_NOT_PASSED = frozenset({"host", "connection", "keep-alive", "upgrade"})
_GONE = (
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    TimeoutError,
    OSError,
)


class _Malformed(Exception):
    """Not a request that a proxy takes."""


@dataclass(frozen=True, slots=True)
class _Request:
    host: str
    port: int
    forward: bytes | None
    """What the host is sent; None for a tunnel."""

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Proxy:
    """Serves one command."""

    network: Network
    report: Reached

    async def serve(self, listener: anyio.abc.SocketListener) -> None:
        """Take connections until cancelled; no more at once than may be."""
        slots = anyio.Semaphore(self.network.connections)
        async with anyio.create_task_group() as group:
            while True:
                await slots.acquire()
                group.start_soon(self._take, await _accepted(listener), slots)

    async def _take(self, client: anyio.abc.SocketStream, slots: anyio.Semaphore) -> None:
        try:
            async with client:
                with suppress(*_GONE):
                    await self._answer(client)
        finally:
            slots.release()

    async def _answer(self, client: anyio.abc.SocketStream) -> None:
        with anyio.fail_after(self.network.idle):
            head, rest = await _head(client)
        try:
            request = _read(head)
        except _Malformed as error:
            await client.send(_said(400, "Bad Request", str(error)))
            return
        try:
            target = await self._connected(request)
        except Refused as refusal:
            self.report.refuse(request.name, str(refusal))
            said = f"gonogo lets this command not reach {request.name}: {refusal}"
            await client.send(_said(403, "Forbidden", said))
            return
        self.report.note(request.name)
        async with target:
            if request.forward is None:
                await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await target.send((request.forward or b"") + rest)
            await self._relay(client, target, request.name)

    async def _connected(self, request: _Request) -> anyio.abc.SocketStream:
        if self.report.moved >= self.network.transfer:
            raise Refused(self._too_much)
        return await connect(self.network, request.host, request.port)

    @property
    def _too_much(self) -> str:
        return f"one command moves at most {self.network.transfer} bytes"

    async def _relay(
        self, client: anyio.abc.SocketStream, target: anyio.abc.SocketStream, name: str
    ) -> None:
        async with anyio.create_task_group() as group:
            scope = group.cancel_scope
            scope.deadline = anyio.current_time() + self.network.idle

            async def pump(source: anyio.abc.SocketStream, sink: anyio.abc.SocketStream) -> None:
                with suppress(anyio.EndOfStream):
                    while self._count(chunk := await source.receive(_CHUNK), name):
                        scope.deadline = anyio.current_time() + self.network.idle
                        await sink.send(chunk)
                    scope.cancel()
                await sink.send_eof()

            group.start_soon(_quietly, partial(pump, client, target))
            group.start_soon(_quietly, partial(pump, target, client))

    def _count(self, chunk: bytes, name: str) -> bool:
        self.report.moved += len(chunk)
        if self.report.moved <= self.network.transfer:
            return True
        self.report.refuse(name, self._too_much)
        return False


async def _accepted(listener: anyio.abc.SocketListener) -> anyio.abc.SocketStream:
    """The next connection, also where one was gone before it was taken, or descriptors ran out."""
    while True:
        try:
            return await listener.accept()
        except OSError:
            await anyio.sleep(_PAUSE)


async def _quietly(pump: Callable[[], Awaitable[None]]) -> None:
    with suppress(*_GONE):
        await pump()


async def _head(client: anyio.abc.SocketStream) -> tuple[str, bytes]:
    """The request's head, and what came after it."""
    read = b""
    while b"\r\n\r\n" not in read:
        if len(read) > _HEAD:
            return "", b""
        read += await client.receive(_CHUNK)
    head, _, rest = read.partition(b"\r\n\r\n")
    return head.decode("latin-1"), rest


def _read(head: str) -> _Request:
    first, *headers = head.split("\r\n")
    found = _REQUEST.fullmatch(first)
    if found is None:
        raise _Malformed("This proxy takes HTTP/1.1 requests and CONNECT")
    method, target = found[1].upper(), found[2]
    if method == "CONNECT":
        host, port = _authority(target, None)
        return _Request(host, port, None)
    if not target.lower().startswith("http://"):
        raise _Malformed("This is a proxy: it takes CONNECT and requests for http://")
    authority = re.split("[/?#]", target[7:], maxsplit=1)[0]
    host, port = _authority(authority, 80)
    path = target[7 + len(authority) :].partition("#")[0]
    path = path if path.startswith("/") else f"/{path}"
    lines = [f"{method} {path} HTTP/1.1", f"Host: {authority}", "Connection: close"]
    return _Request(host, port, "\r\n".join([*lines, *_passed(headers), "", ""]).encode("latin-1"))


def _authority(text: str, default: int | None) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    port = int(found[2]) if found and found[2] else default
    if found is None or port is None or not 0 < port < 65_536:
        raise _Malformed("The request names no host and port")
    return found[1], port


def _passed(headers: list[str]) -> list[str]:
    """The headers that are the host's; its name and the connection's end are said by us."""
    passed: list[str] = []
    for line in headers:
        name = line.partition(":")[0].lower()
        if not re.fullmatch(r"[!-9;-~]+", name) or "\n" in line or "\r" in line:
            raise _Malformed("A header cannot be read")
        if name not in _NOT_PASSED and not name.startswith("proxy-"):
            passed.append(line)
    return passed


def _said(status: int, phrase: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
