"""The person at the terminal: asked in words, answering in letters.

Lines are read without a thread, so a question that nobody answers ends when the command does.
"""

import os
import shlex
import sys
from collections.abc import Mapping

import anyio

from gonogo.cli._exits import Stop
from gonogo.domain.visible import guarded

_EDITORS = ("VISUAL", "EDITOR")


class Person:
    """Whoever sits at the terminal of this command, if anybody does."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._typed = b""

    @property
    def is_there(self) -> bool:
        """Whether there is a terminal to ask at: input from one, and questions seen on one."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def tell(self, text: str) -> None:
        """Write a line beside the questions."""
        sys.stderr.write(guarded(text) + "\n")
        sys.stderr.flush()

    async def line(self, prompt: str) -> str | None:
        """Ask for a line; None when the person ends the input (Ctrl-D)."""
        sys.stderr.write(guarded(prompt) + " ")
        sys.stderr.flush()
        while b"\n" not in self._typed:
            await anyio.wait_readable(sys.stdin.fileno())
            read = os.read(sys.stdin.fileno(), 4096)
            if not read:
                self.tell("")
                return None
            self._typed += read
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace").strip()

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
            chosen = [word for word in options if said and word.startswith(said.lower())]
            if len(chosen) == 1:
                return chosen[0]

    async def edit(self, text: str, suffix: str = ".json") -> str:
        """Let the person change a text in their editor.

        Raises:
            Stop: there is no editor, or it failed.
        """
        words = self._editor()
        async with anyio.TemporaryDirectory(prefix="gonogo-") as folder:
            path = anyio.Path(folder, "edit" + suffix)
            await path.write_text(text, encoding="utf-8")
            try:
                async with await anyio.open_process(
                    [*words, str(path)], stdin=None, stdout=None, stderr=None
                ) as process:
                    code = await process.wait()
            except OSError as error:
                raise Stop(f"{words[0]}: {error.strerror}; set EDITOR to an editor") from None
            if code != 0:
                raise Stop(f"{words[0]} ended with code {code}; set EDITOR to another editor")
            return await path.read_text(encoding="utf-8")

    def _editor(self) -> list[str]:
        named = (self._environment.get(name) for name in _EDITORS)
        return shlex.split(next((name for name in named if name), "vi"))
