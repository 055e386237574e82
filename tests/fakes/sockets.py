"""What the kernel knows of this machine's connections, and a port that nobody else gets."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NET = Path("/proc/net/tcp")
_ESTABLISHED = "01"


@contextmanager
def held_port() -> Iterator[int]:
    """A port where only a server of the test ever listens: nobody else is given it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def connected(mine: int, theirs: int) -> bool:
    """Whether the side of a connection that has the port `mine` still holds it."""
    fields = (line.split() for line in _NET.read_text().splitlines()[1:])
    ends = f":{mine:04X}", f":{theirs:04X}"
    return any(
        (local[-5:], remote[-5:], state) == (*ends, _ESTABLISHED)
        for _, local, remote, state, *_ in fields
    )
