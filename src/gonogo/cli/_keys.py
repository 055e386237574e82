"""The keys of a terminal, read one by one.

While it is held, the terminal shows nothing of what is typed, so that it does not run into what is
drawn. What was typed before a question was shown does not answer it.
"""

import codecs
import os
import re
import select
import termios
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio

_CALM = 0.4
"""Seconds without a key after which somebody who was typing has seen that they are asked."""
_WHOLE = 0.05
"""Seconds in which the rest of what one key sends has come."""
_LOCAL, _CONTROL = 3, 6
"""Places in what termios tells."""
_SHOWN = termios.ICANON | termios.ECHO
"""Modes in which lines come whole, and what is typed is shown."""
END = "\x04"
_ESCAPE = "\x1b"


class Draft:
    """A line while it is typed."""

    def __init__(self) -> None:
        self.text = ""
        self._rest = ""

    def take(self, typed: str) -> bool:
        """Take in what was typed; whether the line is done.

        What comes in one piece, such as a text that is pasted, keeps its line ends.
        """
        typed = self._rest + typed
        self._rest = ""
        if cut := _BEGUN.search(typed):
            typed, self._rest = typed[: cut.start()], cut[0]
        typed = _KEYS.sub("", typed).replace("\r\n", "\n").replace("\r", "\n")
        done = typed.endswith("\n")
        for character in typed.removesuffix("\n"):
            self._type(character)
        return done

    def _type(self, character: str) -> None:
        match character:
            case "\x7f" | "\b":
                self.text = self.text[:-1]
            case "\x15":
                self.text = ""
            case "\x17":
                self.text = self.text.rstrip().rpartition(" ")[0]
                self.text += " " if self.text else ""
            case "\t":
                self.text += " "
            case _ if character.isprintable() or character == "\n":
                self.text += character
            case _:
                pass


_KEYS = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)
"""What keys send that are no letters: arrows, and all that is held with Alt."""
_BEGUN = re.compile(r"\x1b(\[[0-?]*[ -/]*|O)?\Z")


def is_ours(descriptor: int) -> bool:
    """Whether what is typed at a terminal is for this process."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False


class Keyboard:
    """The keyboard of the terminal on a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._from = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._before = termios.tcgetattr(descriptor)
        self._quiet = self._quieted()

    @contextmanager
    def held(self) -> Generator[None]:
        """Have the keys one by one; the terminal is as it was afterwards, however that ends."""
        self._set(self._quiet)
        try:
            yield
        finally:
            self._set(self._before)

    @contextmanager
    def lent(self) -> Generator[None]:
        """Let another program have the terminal for the time of a block."""
        self._set(self._before)
        try:
            yield
        finally:
            self._set(self._quiet)

    def keep(self) -> bool:
        """Have them one by one again after a shell has changed that; whether it had."""
        if not is_ours(self._from) or not termios.tcgetattr(self._from)[_LOCAL] & _SHOWN:
            return False
        self._set(self._quiet)
        return True

    async def typed(self) -> str | None:
        """What was typed, in one piece as it came. None: the terminal is gone."""
        while True:
            await anyio.wait_readable(self._from)
            try:
                read = os.read(self._from, 4096)
            except OSError:
                return None
            if not read:
                return None
            if text := self._decoder.decode(read):
                return text

    async def key(self) -> str | None:
        """One key as the letter that it sends; "" for those that send none. None: it is over."""
        typed = await self.typed()
        if typed is None or END in typed:
            return None
        if _ESCAPE not in typed:
            return typed
        # The last letter of what an arrow sends must not come for itself.
        while await self._comes(_WHOLE):
            if await self.typed() is None:
                return None
        return ""

    async def settle(self) -> None:
        """Let pass what was typed so far; somebody who goes on typing is waited for."""
        if not self._waits():
            return
        while await self._comes(_CALM):
            if await self.typed() is None:
                return

    def _waits(self) -> bool:
        return bool(select.select([self._from], [], [], 0)[0])

    async def _comes(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await anyio.wait_readable(self._from)
            return True
        return False

    def _set(self, modes: list[Any]) -> None:
        # Another process has the terminal: it is not ours to change, and trying would stop us.
        if is_ours(self._from):
            termios.tcsetattr(self._from, termios.TCSADRAIN, modes)

    def _quieted(self) -> list[Any]:
        modes = termios.tcgetattr(self._from)
        modes[_LOCAL] &= ~_SHOWN
        control = list(modes[_CONTROL])
        control[termios.VMIN], control[termios.VTIME] = 1, 0
        modes[_CONTROL] = control
        return modes
