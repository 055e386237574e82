"""What the kernel knows of this machine's connections."""

from pathlib import Path

_NET = Path("/proc/net/tcp")
_ESTABLISHED = "01"


def connected(mine: int, theirs: int) -> bool:
    """Whether the side of a connection that has the port `mine` still holds it."""
    fields = (line.split() for line in _NET.read_text().splitlines()[1:])
    ends = f":{mine:04X}", f":{theirs:04X}"
    return any(
        (local[-5:], remote[-5:], state) == (*ends, _ESTABLISHED)
        for _, local, remote, state, *_ in fields
    )
