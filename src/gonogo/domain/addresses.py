"""Addresses that an operator writes: which are this machine, and which are refused."""

from ipaddress import ip_address
from urllib.parse import urlsplit

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
        return "this is no address"
    if parts.scheme not in {"http", "https"} or not host or not url.isascii() or " " in url:
        return "an address begins with https:// and names a host"
    if parts.username is not None or parts.fragment:
        return f"an address has no user, no password and no fragment{hint}"
    if parts.scheme == "http" and not insecure and not is_loopback(host):
        return f"http:// would show {shown} to the network; use https://, or say insecure = true"
    return None
