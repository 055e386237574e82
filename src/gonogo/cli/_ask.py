"""The person at the terminal: asked in words, answering in letters.

Lines are read without a thread, so a question that nobody answers ends when the command does.
"""

import os
import shlex
import sys
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from gonogo.cli._exits import Stop
from gonogo.domain.text_safety import guarded
from gonogo.texts import say

if TYPE_CHECKING:
    from rich.console import RenderableType

_EDITORS = ("VISUAL", "EDITOR")
_AT_EDITOR = threading.Event()


def chosen(typed: str, words: Iterable[str]) -> str | None:
    """The word that was meant by a key, or by its beginning; None where it is none of them."""
    said = typed.strip().lower()
    found = [word for word in words if said and word.startswith(said)]
    return found[0] if len(found) == 1 else None


class Withdrawn(Exception):
    """A question was taken back before the person had answered it."""


class Person:
    """Whoever sits at the terminal of this command, if anybody does."""

    has_keys = False
    """Whether single keys answer, and the terminal is drawn on."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._typed = b""
        self._scope: anyio.CancelScope | None = None

    @property
    def is_there(self) -> bool:
        """Whether there is a terminal to ask at: input from one, and questions seen on one."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def tell(self, text: str) -> None:
        """Write a line beside the questions."""
        sys.stderr.write(guarded(text) + "\n")
        sys.stderr.flush()

    def show(self, *shown: "RenderableType") -> None:
        """Write what stays, where there are colours; else it is told."""

    def withdraw(self) -> None:
        """Take back what the person is asked now; whoever asked is told by `Withdrawn`."""
        if self._scope is not None:
            self._scope.cancel()

    async def line(self, prompt: str, *, ahead: bool = False) -> str | None:
        """Ask for a line; None when the person ends the input (Ctrl-D).

        Args:
            ahead: What is typed already belongs to it. Whole lines do here in any case.

        Raises:
            Withdrawn: somebody has taken the question back.
        """
        del ahead
        sys.stderr.write(guarded(prompt) + " ")
        sys.stderr.flush()
        with self._asked():
            while b"\n" not in self._typed:
                await anyio.wait_readable(sys.stdin.fileno())
                read = os.read(sys.stdin.fileno(), 4096)
                if not read:
                    self.tell("")
                    return None
                self._typed += read
            line, _, self._typed = self._typed.partition(b"\n")
            return line.decode(errors="replace").strip()
        raise Withdrawn

    @contextmanager
    def _asked(self) -> Generator[None]:
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                yield
            finally:
                self._scope = None
        if scope.cancelled_caught:
            raise Withdrawn

    async def choose(self, question: str, options: Mapping[str, str]) -> str | None:
        """Ask for one of several words; None when the person ends the input.

        Args:
            options: What each word means to the person; its first letter is enough to choose it.
        """
        listed = ", ".join(f"[{word[0]}] {label}" for word, label in options.items())
        while True:
            said = await self.line(f"{question} {listed} >")
            if said is None:
                return None
            if word := chosen(said, options):
                return word

    async def edit(self, text: str, suffix: str = ".json", *, keep: Path | None = None) -> str:
        """Let the person change a text in their editor.

        Args:
            keep: Where the text lies, and stays; by default in a folder that goes away.

        Raises:
            Stop: there is no editor, it failed, or what it saved is no text.
        """
        words = self._editor()
        if keep is not None:
            return await _edited(words, anyio.Path(keep), text)
        async with anyio.TemporaryDirectory(prefix="gonogo-") as folder:
            return await _edited(words, anyio.Path(folder, "edit" + suffix), text)

    def _editor(self) -> list[str]:
        for name in _EDITORS:
            try:
                words = shlex.split(self._environment.get(name, ""))
            except ValueError as error:
                raise Stop(f"{name}: {error}; correct the variable") from None
            if words:
                return words
        return ["vi"]


def at_editor() -> bool:
    """Whether the terminal is an editor's now, and Ctrl-C with it."""
    return _AT_EDITOR.is_set()


async def _edited(words: list[str], path: anyio.Path, text: str) -> str:
    await path.write_text(text, encoding="utf-8")
    _AT_EDITOR.set()
    try:
        async with await anyio.open_process(
            [*words, str(path)], stdin=None, stdout=None, stderr=None
        ) as process:
            code = await process.wait()
    except OSError as error:
        raise Stop(f"{words[0]}: {error.strerror}; set EDITOR to an editor") from None
    finally:
        _AT_EDITOR.clear()
    if code != 0:
        raise Stop(f"{words[0]} ended with code {code}; set EDITOR to another editor")
    try:
        return (await path.read_bytes()).decode("utf-8")
    except UnicodeDecodeError:
        raise Stop(say("cli_plan_not_utf8", None, file=path)) from None
