"""The one way from a box to the network: a small HTTP proxy that checks where each connection goes.

It accepts CONNECT, and plain HTTP with one request per connection. Everything has limits: the size
of heads, connections at once, silence, bytes in all. It ends with the command that it serves.
"""

import errno
import re
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from ipaddress import ip_address
from pathlib import Path

import anyio
import anyio.abc
from msgspec import Struct, field

from gonogo.domain.errors import because
from gonogo.domain.network import Address, PrivateHosts, names_host, read_host, refusal_of

# From a host's name to a connection, within the limits of what a command may reach.
#
# The name is resolved here, each address is checked, and the connection goes to a checked address:
# a second, different answer of the resolver changes nothing.

MAX_NOTED = 100
"""How many reached hosts of one command are recorded, and how many refused ones."""
_CONNECT = 10.0
_TRIED = 8


class HostRefused(Exception):
    """A host may not be reached, or could not be; the text says why."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class Network(Struct, frozen=True, kw_only=True):
    """What commands may reach, and how much of it."""

    hosts: bool | tuple[str, ...]
    """As in the scope of a plan: any public host, or only those named."""
    private: PrivateHosts = field(default_factory=PrivateHosts)
    own_ports: frozenset[int] = frozenset()
    """Ports of this machine that are never reached, even if they are listed."""
    connections: int = 32
    """The most connections at once; more have to wait."""
    idle: float = 60.0
    """Seconds without a byte after which a connection ends."""
    transfer: int = 1 << 30
    """The most bytes of one command, in both directions together."""
    resolve: Callable[[str, int], Awaitable[list[str]]] = resolve


class Reached(Struct):
    """The hosts that a command reached, those it was refused, and the bytes that it moved."""

    reached: dict[str, None] = field(default_factory=dict[str, None])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    moved: int = 0

    def note(self, host: str) -> None:
        """Record that a host was reached."""
        if len(self.reached) < MAX_NOTED:
            self.reached.setdefault(host)

    def refuse(self, host: str, why: str) -> None:
        """Record that a host was refused, and why."""
        if len(self.refused) < MAX_NOTED:
            self.refused.setdefault(host, why)


async def connect(network: Network, raw: str, port: int) -> anyio.abc.SocketStream:
    """Connect to a host that a command named.

    Raises:
        HostRefused: the host may not be reached, or does not answer.
    """
    try:
        host = read_host(raw)
    except ValueError as error:
        raise HostRefused(error.args[0]) from None
    if not names_host(network.hosts, host, port):
        raise HostRefused(because("it is not among the hosts that were approved"))
    for address in (await _judged(network, host, port))[:_TRIED]:
        try:
            with anyio.fail_after(_CONNECT):
                return await anyio.connect_tcp(str(address), port)
        except (OSError, TimeoutError):
            continue
    raise HostRefused(because("it does not answer"))


async def _judged(network: Network, host: str, port: int) -> list[Address]:
    """The allowed addresses of a host, at least one."""
    try:
        with anyio.fail_after(_CONNECT):
            found = await network.resolve(host, port)
    except (OSError, TimeoutError, UnicodeError):
        raise HostRefused(because("its name is not known")) from None
    good: list[Address] = []
    why = because("it has no address")
    for text in found:
        address = ip_address(text)
        refusal = _refusal(network, host, port, address)
        if refusal is None:
            good.append(address)
        else:
            why = refusal
    if not good:
        raise HostRefused(why)
    return good


def _refusal(network: Network, host: str, port: int, address: Address) -> str | None:
    own = address.is_loopback or is_own(str(address))
    if own and port in network.own_ports:
        return because("{address} is this machine, and gonogo uses the port", address=address)
    return refusal_of(host, port, address, network.private, own=own)


def is_own(address: str) -> bool:
    """Whether an address belongs to this machine: only to those can a socket be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True


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
    """This is not a request that a proxy accepts."""


class _Request(Struct, frozen=True):
    host: str
    port: int
    forward: bytes | None
    """The request that is sent to the host; None for a tunnel."""

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


class Proxy(Struct, frozen=True):
    """The proxy of one command."""

    network: Network
    report: Reached

    async def serve(self, listener: anyio.abc.SocketListener) -> None:
        """Accept connections until cancelled, within the limit of connections at once."""
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
        except HostRefused as refusal:
            self.report.refuse(request.name, refusal.args[0])
            said = f"gonogo does not let this command reach {request.name}: {refusal}"
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
            raise HostRefused(self._too_much)
        return await connect(self.network, request.host, request.port)

    @property
    def _too_much(self) -> str:
        most = self.network.transfer
        return because("one command may transfer at most {most} bytes", most=most)

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
    """The next connection; try again if one was gone already, or if no descriptors were free."""
    while True:
        try:
            return await listener.accept()
        except OSError:
            await anyio.sleep(_PAUSE)


async def _quietly(pump: Callable[[], Awaitable[None]]) -> None:
    with suppress(*_GONE):
        await pump()


async def _head(client: anyio.abc.SocketStream) -> tuple[str, bytes]:
    """The head of a request, and the bytes that came after it."""
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
    """The headers to pass on; gonogo itself writes the host and the connection headers."""
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


# The door of a box to the network: how its socket gets out of the box, and who serves it.

_OPENING = 30.0
"""Seconds that a box may take to open its port."""


class CommandProxy:
    """The door of one command's box."""

    def __init__(self, network: Network) -> None:
        self.network, self.report = network, Reached()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors that the box inherits."""
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
        """Close the box's end here: so if the box ends, the channel closes."""
        self._theirs.close()

    def close(self) -> None:
        """Close both ends."""
        self._ours.close()
        self._theirs.close()

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None]:
        """Inside this context, serve the connections of the box."""
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
                # The box ended before its command began: there is nobody to serve.
                return
            await Proxy(self.network, self.report).serve(listener)

    async def _handed(self) -> socket.socket | None:
        """The listening socket of the box; None if the box ended before it sent one."""
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
def door_of(network: Network | None, *, boxed: bool) -> Generator[CommandProxy | None]:
    """The door of a box whose command may reach something; otherwise, or without a box, None."""
    if network is None or network.hosts is False or not boxed:
        yield None
        return
    door = CommandProxy(network)
    try:
        yield door
    finally:
        door.close()


@cache
def _text() -> str:
    return Path(__file__).with_name("doorway.py").read_text("utf-8")
