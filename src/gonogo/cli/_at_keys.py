"""The person at a terminal that is drawn on: asked below the live lines, answering with one key."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from gonogo.cli._ask import Person, chosen
from gonogo.cli._foot import Foot
from gonogo.cli._keys import END, Draft, Keyboard
from gonogo.domain.text_safety import guarded, visible

_NARROW = 10
"""Cells below which what is typed gets a line of its own."""


class AtKeys(Person):
    """Whoever sits there. What they typed before a question was shown does not answer it."""

    has_keys = True

    def __init__(self, environment: Mapping[str, str], foot: Foot, keyboard: Keyboard) -> None:
        super().__init__(environment)
        self._foot, self._keyboard = foot, keyboard
        self._draft = Draft()

    def tell(self, text: str) -> None:
        """Write a line that stays."""
        self._foot.above(Text(guarded(text)))

    def show(self, *shown: RenderableType) -> None:
        """Write what stays, in colours."""
        self._foot.above(*shown)

    async def line(self, prompt: str, *, ahead: bool = False) -> str | None:
        """Ask for a line; None when the person ends the input (Ctrl-D).

        Args:
            ahead: What is typed already belongs to it, and is kept where it is withdrawn.
        """
        if not ahead:
            self._draft = Draft()
            await self._keyboard.settle()
        draft = self._draft
        with self._asked(), self._shown(lambda width: line_prompt(prompt, draft.text, width)):
            while True:
                typed = await self._keyboard.typed()
                if typed is None or (typed == END and not draft.text):
                    return None
                if draft.take(typed):
                    self._draft = Draft()
                    self._foot.prompt = None
                    self.tell(f"{prompt} {visible(draft.text)}")
                    return draft.text.strip()
                self._foot.draw()

    async def choose(self, question: str, options: Mapping[str, str]) -> str | None:
        """Ask for one of several words by their first letters; None at the end of the input."""
        await self._keyboard.settle()
        listed = [f"[{word[0]}] {label}" for word, label in options.items()]
        with self._asked(), self._shown(lambda width: key_prompt(question, listed, width)):
            while True:
                key = await self._keyboard.key()
                if key is None:
                    return None
                if word := chosen(key, options):
                    break
        self.tell(f"{question} {options[word]}")
        return word

    async def edit(self, text: str, suffix: str = ".json", *, keep: Path | None = None) -> str:
        """Let the person change a text in their editor, which has the terminal meanwhile."""
        with self._foot.away(), self._keyboard.lent():
            return await super().edit(text, suffix, keep=keep)

    @contextmanager
    def _shown(self, prompt: Callable[[int], Sequence[Text]]) -> Generator[None]:
        """Have a question below everything, for as long as it is asked."""
        self._foot.prompt = prompt
        self._foot.draw()
        try:
            yield
        finally:
            self._foot.prompt = None
            self._foot.draw()


def line_prompt(prompt: str, typed: str, width: int) -> list[Text]:
    """A question with what is typed to it: the end of that, if it is too long for a line."""
    *before, last = _wrapped(guarded(prompt), width)
    shown = visible(typed).replace("\n", "⏎")
    room = width - cell_len(last) - 1
    if room < _NARROW:
        before, last, room = [*before, last], "", width
    shown = _end_of(shown, room)
    return [Text(line, style="bold") for line in before] + [
        Text(last, style="bold").append(f" {shown}" if last else shown, style="not bold")
    ]


def key_prompt(question: str, options: Sequence[str], width: int) -> list[Text]:
    """A question with its keys, broken only where there is no other way."""
    lines, line = list[str](), guarded(question)
    for number, option in enumerate(options):
        text = option + ("," if number < len(options) - 1 else " >")
        if line and cell_len(line) + 1 + cell_len(text) > width:
            lines.append(line)
            line = ""
        line = f"{line} {text}".lstrip()
    wrapped = [part for each in [*lines, line] for part in _wrapped(each, width)]
    return [Text(each, style="bold yellow") for each in wrapped]


def _end_of(text: str, cells: int) -> str:
    """As much of the end of a text as so many cells hold."""
    begin, taken = len(text), 0
    while begin and (taken := taken + cell_len(text[begin - 1])) <= cells:
        begin -= 1
    return text[begin:]


def _wrapped(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        lines += _broken(line, width)
    return lines


def _broken(line: str, width: int) -> Iterator[str]:
    rest = line
    while cell_len(rest) > width:
        piece = next(rest[:end] for end in range(len(rest), 0, -1) if cell_len(rest[:end]) <= width)
        at = piece.rfind(" ")
        cut = at if at > 0 else len(piece)
        yield rest[:cut]
        rest = rest[cut:].lstrip()
    yield rest
