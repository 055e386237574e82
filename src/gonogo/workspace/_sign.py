"""The sign that a command began: what runs first in its box asks us, before the command does.

A box is built from what stands on the machine, and that may have changed by the time it is built.
Without the sign nothing of the command has run, so the box may be built anew. And a command begins
only in a box that ends when we do: if we are killed while its box is built, nobody answers, and
nothing of it runs. The way of the sign is closed before the command starts.
"""

import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress

import anyio

GIVE = r"""
guards() {
  guards=
  while read -r name value; do
    case $name in Seccomp*) guards+=" $value" ;; esac
  done <"/proc/$1/status"
}
if [ -n "$4" ]; then
  guards $$
  own=$guards
  until guards 1; [ "$guards" = "$own" ]; do :; done
  { printf . >&"$4" && read -r -N 1 -u "$4" && eval "exec $4>&-"; } || exit 126
fi
"""
"""What asks, in bash: `$4` is its way, or empty.

It waits until the box's first process has the filter of system calls that the command has: just
before it takes that, bubblewrap has it end with its parent, which asked for the same long before.
"""


class Sign:
    """One command's; closed when its block ends."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._given = False

    @property
    def fds(self) -> tuple[int, ...]:
        """What the box inherits."""
        return (self._theirs.fileno(),)

    @property
    def given(self) -> bool:
        """Whether the command began."""
        return self._given

    def spawned(self) -> None:
        """The box has its end: when it is gone, no sign will come."""
        self._theirs.close()

    async def answer(self) -> None:
        """Let the command begin, once it asks; if its box goes first, nothing is to be let."""
        await anyio.wait_readable(self._ours)
        with suppress(OSError):
            if self._ours.recv(1) == b".":
                self._ours.send(b"!")
                self._given = True

    def close(self) -> None:
        """Let go of both ends."""
        self._theirs.close()
        self._ours.close()


@contextmanager
def sign_of(*, boxed: bool) -> Generator[Sign | None]:
    """The sign of a boxed command; without a box there is nothing that could have changed."""
    if not boxed:
        yield None
        return
    sign = Sign()
    try:
        yield sign
    finally:
        sign.close()
