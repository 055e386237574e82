"""A keeper between us and a program, and the pipe that it holds on to: see `_keeper`.

Whatever the program starts stays below its keeper, so all of it ends when the pipe is closed: by
us, or with us.
"""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path


class Lifeline:
    """One program's; cut when its block ends."""

    def __init__(self) -> None:
        self._theirs, self._ours = os.pipe()
        self._open = [self._theirs, self._ours]

    @property
    def fds(self) -> tuple[int, ...]:
        """What the keeper inherits."""
        return (self._theirs,)

    def kept(self, argv: Sequence[str]) -> list[str]:
        """The command line of a keeper that runs the program."""
        return [*_interpreter(), "-c", _text(), str(self._theirs), *argv]

    def spawned(self) -> None:
        """The keeper has its end."""
        self._close(self._theirs)

    def cut(self) -> None:
        """Have the keeper end the program, and all that came of it."""
        self._close(self._theirs)
        self._close(self._ours)

    def _close(self, end: int) -> None:
        if end in self._open:
            self._open.remove(end)
            os.close(end)


@contextmanager
def lifeline() -> Generator[Lifeline]:
    """A lifeline that is cut when the block is over."""
    line = Lifeline()
    try:
        yield line
    finally:
        line.cut()


@cache
def _interpreter() -> list[str]:
    return [str(Path(sys.executable).resolve()), "-I", "-S"]


@cache
def _text() -> str:
    return Path(__file__).with_name("_keeper.py").read_text("utf-8")
