"""What a person types: lines, single keys, a text in their editor, a form at the foot."""

import codecs
import os
import re
import select
import shlex
import sys
import termios
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

from gonogo.cli.support import Stop, own_locale, own_words
from gonogo.cli.terminal.output import beside, folded, laid_out
from gonogo.domain.text_safety import guarded, visible
from gonogo.i18n import LOCALES, say, term

# The keys of a terminal, read one by one.
#
# While it is held, the terminal shows nothing of what is typed, so that it does not run into what
# is drawn. What was typed before a question was shown does not answer it.

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


class TypedLine:
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

    def held(self) -> AbstractContextManager[None]:
        """Have the keys one by one; the terminal is as it was afterwards, however that ends."""
        return self._within(self._quiet, self._before)

    def lent(self) -> AbstractContextManager[None]:
        """Let another program have the terminal for the time of a block."""
        return self._within(self._before, self._quiet)

    @contextmanager
    def _within(self, meanwhile: list[Any], afterwards: list[Any]) -> Generator[None]:
        self._set(meanwhile)
        try:
            yield
        finally:
            self._set(afterwards)

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


# The person at the terminal: asked in words, answering in letters.
#
# Lines are read without a thread, so a question that nobody answers ends when the command does.

_EDITORS = ("VISUAL", "EDITOR")
_AT_EDITOR = threading.Event()


_PLACES = str.maketrans("йцукенгшщзфывапролдячсмить", "qwertyuiopasdfghjklzxcvbnm")
"""Which Latin letter is on the key of a Cyrillic one."""
_ALSO = {"approve": ("yes",), "reject": ("no",), "delete": ("yes",), "keep": ("no",)}
"""Words that are understood as others, where they are none of the answers themselves."""


def chosen(typed: str, options: Mapping[str, str]) -> str | None:
    """The answer that was meant by a key, a word or its beginning; None where none is, or several.

    A Cyrillic letter is the key that it is on, and the beginning of what is shown; where these are
    two answers it is neither, such as `н`, which is on the key of `yes` and begins `нет`.

    Args:
        options: What each answer is called on the screen.
    """
    said = typed.strip().lower()
    key = said.translate(_PLACES)
    found = {word for word in options if key and word.startswith(key)}
    if len(said) > 1:
        whole = {word for word in options if said in _words(word, options)}
        begun = {word for word in options if _begins(said, _words(word, options))}
        found = whole or found | begun
    elif said != key:
        begun = [word for word, label in options.items() if label.lower().startswith(said)]
        found |= set(begun if len(begun) == 1 else ())
    return found.pop() if len(found) == 1 else None


def _words(word: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """What somebody who means an answer may type, in whatever language."""
    words = [word, *(also for also in _ALSO.get(word, ()) if also not in options)]
    spelled = [term("answer", each, locale) for each in words for locale in LOCALES]
    return (*spelled, options[word].lower())


def _begins(said: str, words: Iterable[str]) -> bool:
    return any(each.startswith(said) for each in words)


class Withdrawn(Exception):
    """A question was taken back before the person had answered it."""


class TerminalPerson:
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
        sys.stderr.write(beside(text) + "\n")
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
        sys.stderr.write(beside(prompt) + " ")
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
            keys = ", ".join(word[0] for word in options)
            self.tell(own_words("Type one of these and press Enter: {keys}", keys=keys))

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
                raise Stop(
                    "{name}: {problem}; correct the variable", name=name, problem=error
                ) from None
            if words:
                return words
        return ["vi"]


def _keys_of(options: Mapping[str, str]) -> str:
    """What is said at a key that is none of the answers."""
    return own_words("Press one of these keys: {keys}", keys=", ".join(w[0] for w in options))


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
        raise Stop(
            "{program}: {problem}; set EDITOR to an editor",
            program=words[0],
            problem=error.strerror,
        ) from None
    finally:
        _AT_EDITOR.clear()
    if code != 0:
        raise Stop(
            "{program} ended with exit code {code}; set EDITOR to another editor",
            program=words[0],
            code=code,
        )
    try:
        return (await path.read_bytes()).decode("utf-8")
    except UnicodeDecodeError:
        raise Stop(say("cli_plan_not_utf8", own_locale(), file=path)) from None


# The last lines of a terminal, drawn anew in their place; what is settled scrolls away above them.
#
# The cursor rests at the end of the last line. How many rows the lines take is reckoned anew each
# time: a terminal that was made narrower has broken them.

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
                shown = laid_out(each, self._console.width) if isinstance(each, Text) else each
                self._console.print(shown, soft_wrap=isinstance(each, Text))
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


# The person at a terminal that is drawn on: asked below the live lines, answering with one key.

_NARROW = 10
"""Cells below which what is typed gets a line of its own."""


class AtKeys(TerminalPerson):
    """Whoever sits there. What they typed before a question was shown does not answer it."""

    has_keys = True

    def __init__(self, environment: Mapping[str, str], foot: Foot, keyboard: Keyboard) -> None:
        super().__init__(environment)
        self._foot, self._keyboard = foot, keyboard
        self._draft = TypedLine()

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
            self._draft = TypedLine()
            await self._keyboard.settle()
        draft = self._draft
        with self._asked(), self._shown(lambda width: line_prompt(prompt, draft.text, width)):
            while True:
                typed = await self._keyboard.typed()
                if typed is None or (typed == END and not draft.text):
                    return None
                if draft.take(typed):
                    self._draft = TypedLine()
                    self._foot.prompt = None
                    self.tell(f"{prompt} {visible(draft.text)}")
                    return draft.text.strip()
                self._foot.draw()

    async def choose(self, question: str, options: Mapping[str, str]) -> str | None:
        """Ask for one of several words by their first letters; None at the end of the input."""
        await self._keyboard.settle()
        listed = [f"[{word[0]}] {label}" for word, label in options.items()]
        said = ""

        def drawn(width: int) -> list[Text]:
            above = [Text(each) for each in folded(said, width)] if said else []
            return above + key_prompt(question, listed, width)

        with self._asked(), self._shown(drawn):
            while True:
                key = await self._keyboard.key()
                if key is None:
                    return None
                # What is pasted comes in one piece.
                if len(key) == 1 and (word := chosen(key, options)):
                    break
                said = _keys_of(options) if key.strip() else said
                self._foot.draw()
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
    *before, last = folded(guarded(prompt), width)
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
    wrapped = [part for each in [*lines, line] for part in folded(each, width)]
    return [Text(each, style="bold yellow") for each in wrapped]


def _end_of(text: str, cells: int) -> str:
    """As much of the end of a text as so many cells hold."""
    begin, taken = len(text), 0
    while begin and (taken := taken + cell_len(text[begin - 1])) <= cells:
        begin -= 1
    return text[begin:]
