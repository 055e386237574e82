"""Getting from a host's name to a connection, without leaving what a command may reach.

The name is resolved here, each address is judged, and the connection goes to an address that was
judged: a second answer of the resolver changes nothing.
"""

import errno
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address

import anyio
import anyio.abc

from gonogo.domain.network import Address, PrivateHosts, names_host, read_host, refusal_of

MAX_NOTED = 100
"""Hosts that are told of one command, of each kind."""
_CONNECT = 10.0
_TRIED = 8


class Refused(Exception):
    """A host may not be reached, or could not be; the text says why."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What commands may reach, and how much of it."""

    hosts: bool | tuple[str, ...]
    """As a plan's scope has it: any public host, or those named."""
    private: PrivateHosts = field(default_factory=PrivateHosts)
    own_ports: frozenset[int] = frozenset()
    """Ports of this machine that are never reached, whatever is listed."""
    connections: int = 32
    """Connections at once; more wait."""
    idle: float = 60.0
    """Seconds without a byte after which a connection ends."""
    transfer: int = 1 << 30
    """Bytes, to and fro, of one command."""
    resolve: Callable[[str, int], Awaitable[list[str]]] = resolve


@dataclass(slots=True)
class Reached:
    """What a command reached, what it was refused, and what it moved."""

    reached: dict[str, None] = field(default_factory=dict[str, None])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    moved: int = 0

    def note(self, host: str) -> None:
        """A host was reached."""
        if len(self.reached) < MAX_NOTED:
            self.reached.setdefault(host)

    def refuse(self, host: str, why: str) -> None:
        """A host was not, and why."""
        if len(self.refused) < MAX_NOTED:
            self.refused.setdefault(host, why)


async def connect(network: Network, raw: str, port: int) -> anyio.abc.SocketStream:
    """Connect to a host that a command named.

    Raises:
        Refused: it may not be reached, or does not answer.
    """
    try:
        host = read_host(raw)
    except ValueError as error:
        raise Refused(str(error)) from None
    if not names_host(network.hosts, host, port):
        raise Refused("it is not among the hosts that were approved")
    for address in (await _judged(network, host, port))[:_TRIED]:
        try:
            with anyio.fail_after(_CONNECT):
                return await anyio.connect_tcp(str(address), port)
        except (OSError, TimeoutError):
            continue
    raise Refused("it does not answer")


async def _judged(network: Network, host: str, port: int) -> list[Address]:
    """The addresses of a host that may be reached; at least one."""
    try:
        with anyio.fail_after(_CONNECT):
            found = await network.resolve(host, port)
    except (OSError, TimeoutError, UnicodeError):
        raise Refused("its name is not known") from None
    good: list[Address] = []
    why = "it has no address"
    for text in found:
        address = ip_address(text)
        refusal = _refusal(network, host, port, address)
        if refusal is None:
            good.append(address)
        else:
            why = refusal
    if not good:
        raise Refused(why)
    return good


def _refusal(network: Network, host: str, port: int, address: Address) -> str | None:
    own = address.is_loopback or is_own(str(address))
    if own and port in network.own_ports:
        return f"{address} is this machine, and the port its own"
    return refusal_of(host, port, address, network.private, own=own)


def is_own(address: str) -> bool:
    """Whether an address is one of this machine: just those can be bound to."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True
