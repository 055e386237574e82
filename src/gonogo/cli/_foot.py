"""The last lines of a terminal, drawn anew in their place; what is settled scrolls away above them.

The cursor rests at the end of the last line. How many rows the lines take is reckoned anew each
time: a terminal that was made narrower has broken them.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

Body = Callable[[int, int], Sequence[Text]]
"""Given a width and a height, the lines that stand there now."""
_LEAST = 3
"""Rows for the body, however long the question below it is."""


def rows_taken(cells: Sequence[int], width: int) -> int:
    """Rows that lines of these lengths take, the last one being where the cursor is."""
    return sum(max(1, -(-length // max(width, 1))) for length in cells)


class Foot:
    """Where a terminal's live lines are."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawn: list[int] = []
        self._shown: tuple[int, list[Text]] = (0, [])
        self.is_away = False
        self.body: Body = lambda _width, _height: ()
        self.prompt: Callable[[int], Sequence[Text]] | None = None
        """What the person is asked, below everything; given the width."""

    @contextmanager
    def used(self) -> Generator[None]:
        """Draw here for the time of a block; nothing of it is left behind."""
        try:
            yield
        finally:
            self.body, self.prompt = lambda _width, _height: (), None
            self.clear()

    def above(self, *settled: RenderableType) -> None:
        """Write what stays."""
        with self._console.capture() as capture:
            for each in settled:
                self._console.print(each, soft_wrap=isinstance(each, Text))
        self._write(self._erased() + capture.get() + self._lines(self._wanted()))

    @contextmanager
    def away(self) -> Generator[None]:
        """Leave the terminal to another program for the time of a block."""
        self.clear()
        self.is_away = True
        try:
            yield
        finally:
            self.is_away = False

    def draw(self) -> None:
        """Draw what stands there now, if that is something else."""
        if self.is_away:
            return
        wanted = self._wanted()
        if wanted != self._shown:
            self._write(self._erased() + self._lines(wanted))

    def clear(self) -> None:
        """Take everything away, as before something else writes to the terminal."""
        erased = self._erased()
        self._shown = (0, [])
        self._write(erased)

    def forget(self) -> None:
        """Somebody else has written to the terminal: what was drawn is above now."""
        self._drawn, self._shown = [], (0, [])

    def _wanted(self) -> tuple[int, list[Text]]:
        width, height = max(self._console.width - 1, 8), max(self._console.height - 1, _LEAST)
        below = list(self.prompt(width)) if self.prompt else []
        body = list(self.body(width, max(height - len(below), _LEAST)))
        return self._console.width, [*body, *below][-height:]

    def _lines(self, wanted: tuple[int, list[Text]]) -> str:
        self._shown, lines = wanted, wanted[1]
        self._drawn = [cell_len(line.plain) for line in lines]
        with self._console.capture() as capture:
            for number, line in enumerate(lines):
                last = number == len(lines) - 1
                self._console.print(line, end="" if last else "\n", soft_wrap=True)
        return capture.get()

    def _erased(self) -> str:
        if not self._drawn:
            return ""
        up = rows_taken(self._drawn, self._console.width) - 1
        self._drawn = []
        # Row by row: a whole screen that is erased at once counts as history for some terminals.
        return "\r\x1b[K" + "\x1b[A\x1b[K" * up

    def _write(self, text: str) -> None:
        if text:
            self._console.file.write(text)
            self._console.file.flush()
