"""The sign that a command began: what runs first in its box gives it, before the command does.

A box is built from what stands on the machine, and that may have changed by the time it is built.
Without the sign nothing of the command has run, so the box may be built anew. The way of the sign
is closed before the command starts, which could not take it back either.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress

GIVE = '[ -z "$4" ] || { printf . >&"$4" && eval "exec $4>&-"; } || exit 126'
"""What gives it, in bash: `$4` is its way, or empty."""


class Sign:
    """One command's; closed when its block ends."""

    def __init__(self) -> None:
        self._ours, self._theirs = os.pipe()
        self._open = True

    @property
    def fds(self) -> tuple[int, ...]:
        """What the box inherits."""
        return (self._theirs,)

    def spawned(self) -> None:
        """The box has its end: when it is gone, no sign will come."""
        if self._open:
            self._open = False
            os.close(self._theirs)

    def given(self) -> bool:
        """Whether the command began, for once nothing of it is left."""
        os.set_blocking(self._ours, False)
        with suppress(BlockingIOError):
            return os.read(self._ours, 1) == b"."
        return False

    def close(self) -> None:
        """Let go of both ends."""
        self.spawned()
        os.close(self._ours)


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
