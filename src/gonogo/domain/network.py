"""What of the network a command may reach: patterns of hosts, and addresses that no plan gives.

`false` is nothing, `true` any public host, a list what it names. Patterns speak of names; wherever
a name leads, an address that is not public is refused unless the operator has listed it.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

from msgspec import Struct
from pydantic import BeforeValidator

from gonogo.domain.errors import because

WEB_PORTS = frozenset({80, 443})
"""What a pattern without a port means."""
MAX_HOSTS = 64
"""Patterns in one list."""

_PATTERN = re.compile(r"(?P<host>\[[^\]]+\]|[^:\[\]]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)", re.ASCII)
_AZURE = IPv4Address("168.63.129.16")
_NAT64 = IPv6Network("64:ff9b::/96")
_SHARED = IPv4Network("100.64.0.0/10")
Address = IPv4Address | IPv6Address
Range = IPv4Network | IPv6Network


class HostPattern(Struct, frozen=True):
    """One entry of a list: a name, `*.` and a domain, or an address; with or without a port."""

    host: str
    port: int | None = None

    @property
    def text(self) -> str:
        """How it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    def covers(self, host: str, port: int | None) -> bool:
        """Whether it names a host, or all that another pattern names."""
        meant = (None, *WEB_PORTS) if self.port is None else (self.port,)
        if port not in meant:
            return False
        if self.host.startswith("*."):
            return host.removeprefix("*").endswith(self.host[1:])
        return host == self.host


def read_pattern(text: str) -> HostPattern:
    """Read one entry of a list.

    Raises:
        ValueError: it is no host, or it names too much.
    """
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise ValueError(
            because(
                "{text!r} is not a host: write `example.org`, `*.example.org` or either with "
                "`:443`, without a scheme or a path",
                text=text,
            )
        )
    port = int(found["port"]) if found["port"] else None
    if port is not None and not 0 < port < 65_536:
        raise ValueError(because("{text!r}: a port is a number from 1 to 65535", text=text))
    return HostPattern(_pattern_host(found["host"], text), port)


def _pattern_host(raw: str, text: str) -> str:
    if raw == "*":
        raise ValueError(
            because("{text!r} is every host: write `true` for any public host", text=text)
        )
    if not raw.startswith("*."):
        return read_host(raw)
    domain = read_host(raw[2:])
    if "." not in domain or _is_address(domain):
        raise ValueError(
            because("{text!r} is too broad: a domain of at least two names follows `*.`", text=text)
        )
    return f"*.{domain}"


def read_host(raw: str) -> str:
    """A host's one spelling: a name in lower case without its last dot, or a plain address.

    Raises:
        ValueError: it is neither; an address in decimal, octal or hexadecimal form is none.
    """
    if raw.startswith("["):
        try:
            return str(IPv6Address(raw.strip("[]")))
        except ValueError:
            raise ValueError(because("{raw!r} is not an IPv6 address", raw=raw)) from None
    if _is_address(raw):
        return str(ip_address(raw))
    name = raw.lower().removesuffix(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        hint = "" if raw.isascii() else because("; write its `xn--` form")
        raise ValueError(because("{raw!r} is not the name of a host{hint}", raw=raw, hint=hint))
    # Resolvers read such names as addresses in forms of their own: 127.1, 0x7f000001, 017700000001.
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise ValueError(
            because("{raw!r} is neither a name nor an address with four plain numbers", raw=raw)
        )
    return name


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def read_network(value: Any) -> bool | tuple[str, ...]:  # noqa: ANN401 - as a stranger wrote it
    """Read what a subtask or a call declares, each host in its one spelling.

    Raises:
        ValueError: saying which entry is wrong, and how.
    """
    if isinstance(value, bool):
        return value
    if not isinstance(value, (list, tuple)):
        raise ValueError(because("the network is `false`, `true` or a list of hosts"))  # noqa: TRY004
    items = cast("Sequence[Any]", value)
    if len(items) > MAX_HOSTS:
        raise ValueError(
            because(
                "a list can have at most {most} hosts, not {count}",
                most=MAX_HOSTS,
                count=len(items),
            )
        )
    for item in items:
        if not isinstance(item, str):
            raise ValueError(because("{item!r} is not the name of a host", item=item))  # noqa: TRY004
    return tuple(dict.fromkeys(read_pattern(item).text for item in items)) or False


Network = Annotated[bool | tuple[str, ...], BeforeValidator(read_network)]
"""`false`, `true` for any public host, or the hosts that may be reached."""


def network_covers(allowed: bool | tuple[str, ...], wanted: bool | tuple[str, ...]) -> bool:
    """Whether all that is wanted was allowed."""
    if allowed is True or wanted is False:
        return True
    if wanted is True or allowed is False:
        return False
    patterns = [read_pattern(each) for each in allowed]
    new = [read_pattern(each) for each in wanted]
    return all(any(old.covers(each.host, each.port) for old in patterns) for each in new)


def names_host(allowed: bool | tuple[str, ...], host: str, port: int) -> bool:
    """Whether a host in its one spelling is among those that may be reached, by its name alone."""
    if isinstance(allowed, bool):
        return allowed
    return any(read_pattern(each).covers(host, port) for each in allowed)


class PrivateHosts(Struct, frozen=True):
    """What an operator lets commands reach although it is not public."""

    ranges: tuple[Range, ...] = ()
    patterns: tuple[HostPattern, ...] = ()

    @staticmethod
    def read(entries: Iterable[str]) -> "PrivateHosts":
        """Read ranges of addresses (`10.1.0.0/16`), and hosts as in a plan.

        Raises:
            ValueError: naming the entry.
        """
        ranges: list[Range] = []
        patterns: list[HostPattern] = []
        for entry in entries:
            if "/" in entry:
                ranges.append(ip_network(entry))
            else:
                patterns.append(read_pattern(entry))
        return PrivateHosts(tuple(ranges), tuple(patterns))

    def lists(self, host: str, port: int, address: Address) -> bool:
        """Whether a private address may be reached under a name."""
        return any(address in each for each in self.ranges) or any(
            each.covers(host, port) for each in self.patterns
        )

    def lists_exactly(self, host: str, port: int) -> bool:
        """Whether an entry names just this host with this port, as one of this machine must be."""
        return HostPattern(host, port) in self.patterns


def refusal_of(
    host: str, port: int, address: Address, private: PrivateHosts, *, own: bool = False
) -> str | None:
    """Why an address may not be reached; None if it may.

    Args:
        host: The name that led to it, in its one spelling.
        own: It is an address of this machine.
    """
    plain = _embedded(address)
    if plain is None or plain.is_multicast or plain.is_unspecified:
        return because("{address} is not the address of one host", address=address)
    if plain.is_link_local or plain == _AZURE:
        return because(
            "{address} is link-local, or the cloud provider of this machine answers there",
            address=address,
        )
    if plain.is_loopback or own:
        if private.lists_exactly(host, port):
            return None
        return because("{address} is this machine", address=address)
    if _is_public(plain) or private.lists(host, port, plain):
        return None
    return because("{address} is not public", address=address)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    shared = isinstance(address, IPv4Address) and address in _SHARED
    return address.is_global and not (address.is_reserved or address.is_private or shared)


def _embedded(address: Address) -> Address | None:
    """The address that is meant; None for tunnels, whose end nobody here can judge."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    compatible = int(address) >> 32 == 0 and int(address) > 1
    if address.sixtofour or address.teredo or compatible or address.scope_id:
        return None
    return address


# Addresses that an operator writes: which are this machine, and which are refused.

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""The names of this machine by which a server may listen for it alone."""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or its address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def address_problem(url: str, *, insecure: bool, shown: str, hint: str = "") -> str | None:
    """Why an operator's program is not reached at an address; None if it is.

    Args:
        insecure: `http://` may lead into the network.
        shown: What the network would see then.
        hint: Where secrets go instead.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return because("this is not an address")
    if parts.scheme not in {"http", "https"} or not host or not url.isascii() or " " in url:
        return because("an address must begin with https:// and name a host")
    if parts.username is not None or parts.fragment:
        return because("an address must not have a user, a password or a fragment{hint}", hint=hint)
    if parts.scheme == "http" and not insecure and not is_loopback(host):
        return because(
            "http:// would show {shown} to the network; use https://, or set insecure = true",
            shown=shown,
        )
    return None
