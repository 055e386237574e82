"""What is printed: lines, tables, facts, JSON; none of it has power over a terminal."""

import os
import re
import shutil
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import typer
from pydantic import BaseModel

from gonogo.cli.support import Exit, own_locale
from gonogo.domain.text_safety import guarded, mark_blanks, on_one_line, visible, visible_json
from gonogo.i18n import say, term

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


_SIGN = re.compile(r"\S")
_GAP = 2
"""Blanks between columns."""


def paper() -> "Console":
    """Standard output as rich writes to it; no word is markup.

    A reader that has gone is an error like any other; rich would end the process for it.
    """
    from rich.console import Console

    class Paper(Console):
        def on_broken_pipe(self) -> None:
            # It is called where that error is handled.
            raise

    made = Paper(highlight=False, markup=False, emoji=False)
    if made.is_dumb_terminal:
        # Which rich takes to have 80 columns, whatever it has.
        made.width, made.height = shutil.get_terminal_size()
    return made


def line(text: str) -> None:
    """Write a line whose parts are visible already; what they left out is escaped here.

    At a terminal it is broken between words.
    """
    shown = guarded(text)
    if is_terminal():
        shown = "\n".join(folded(shown, paper().width))
    typer.echo(shown)


def lines(texts: Iterable[str]) -> Exit:
    """Write lines, as `line` does."""
    for text in texts:
        line(text)
    return Exit.DONE


def beside(text: str) -> str:
    """A text for standard error, safe to look at, broken between words where somebody does."""
    shown = guarded(text)
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return shown
    return "\n".join(folded(shown, width)) if width else shown


def laid_out(text: "Text", width: int) -> "Text":
    """A text of one style as lines that fit a width."""
    from rich.cells import cell_len
    from rich.text import Text

    if text.spans or all(cell_len(each) <= width for each in text.plain.split("\n")):
        return text
    return Text("\n".join(folded(text.plain, width)), style=text.style)


def folded(text: str, width: int) -> list[str]:
    """A text as lines of at most so many cells, broken between words where that can be.

    What is broken off stands as far to the right as the line that it belongs to.
    """
    return [part for line in text.split("\n") for part in _broken(line, width)]


def _broken(line: str, width: int) -> Iterator[str]:
    from rich.cells import cell_len

    blanks = len(line) - len(line.lstrip())
    indent = line[: min(blanks, width // 2)]
    start, words, lead = 0, blanks, ""
    while (room := _room(line, start, width - cell_len(lead))) < len(line):
        # The blank at which a line is broken may be the one that has no room any more.
        at = line.rfind(" ", words, room + 1)
        cut = at if at > 0 else room
        yield (lead + line[start:cut]).rstrip()
        rest = _SIGN.search(line, cut)
        if rest is None:
            return
        start, lead = rest.start(), indent
        words = start
    yield lead + line[start:]


def _room(line: str, start: int, width: int) -> int:
    """Where in a line what begins at a place has filled so many cells; one sign always fits."""
    from rich.cells import cell_len

    signs = width + 1
    while start + signs < len(line) and cell_len(line[start : start + signs]) <= width:
        signs *= 2
    part = line[start : start + signs]
    ends = range(len(part) + 1)
    return start + max(1, bisect_right(ends, width, key=lambda end: cell_len(part[:end])) - 1)


def facts(value: Any) -> Exit:  # noqa: ANN401 - any JSON value, or bodies within one
    """Write a value as JSON."""
    typer.echo(visible_json(plain(value), indent=2))
    return Exit.DONE


def outcome(body: Any, *said: str, json: bool) -> Exit:  # noqa: ANN401 - as `facts` takes it
    """Tell what a command has done: a program in one JSON object, a person in lines."""
    return facts(body) if json else lines(said)


def plain(value: Any) -> Any:  # noqa: ANN401
    """A value with every body and moment in it as plain JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: plain(item) for key, item in fields.items()}
    if isinstance(value, list):
        return [plain(item) for item in cast("list[Any]", value)]
    return value


class Cell(str):
    """A text of a table that scripts read, with what people are shown in its place."""

    __slots__ = ("shown",)

    shown: str


def word(kind: str, text: str) -> Cell:
    """A word of the wire for a cell of a table.

    Args:
        kind: Its context in the catalogue.
    """
    return shown_as(text, term(kind, text, own_locale()))


def shown_as(text: str, shown: str) -> Cell:
    """A text for a cell of a table, with what is shown where somebody looks at it."""
    made = Cell(text)
    made.shown = shown
    return made


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Exit:
    """Write rows in columns; tabs between them, and English words, where nobody looks.

    Where columns would break words, such as an id that somebody copies, each row is a paragraph.
    """
    seen = is_terminal()
    cells = [[_cell(value, seen=seen) for value in row] for row in rows]
    if not seen:
        for row in [list(head), *cells]:
            typer.echo("\t".join(row))
        return Exit.DONE

    console, locale = paper(), own_locale()
    head = [say(f"head_{title.replace(' ', '_')}", locale) for title in head]
    widths = [_longest_word(column) for column in zip(head, *cells, strict=True)]
    if sum(widths) + _GAP * (len(widths) - 1) <= console.width:
        _columns(console, head, cells, widths)
    else:
        _paragraphs(head, cells)
    return Exit.DONE


def _columns(
    console: "Console", head: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int]
) -> None:
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for title, width in zip(head, widths, strict=True):
        drawn.add_column(title, overflow="fold", min_width=width)
    for row in cells:
        drawn.add_row(*(Text(cell) for cell in row))
    console.print(drawn)


def _paragraphs(head: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    for name, *rest in cells:
        typer.echo(f"{head[0]} {name}")
        for title, cell in zip(head[1:], rest, strict=True):
            if cell:
                typer.echo(f"  {title}: {cell}")


def _longest_word(column: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(cell_len(word) for cell in column for word in cell.split(" "))


def _cell(value: object, *, seen: bool) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    if seen and isinstance(value, Cell):
        return value.shown
    return visible(str(value), lines=False)


def is_terminal() -> bool:
    """Whether somebody looks at what is written."""
    return sys.stdout.isatty()


# Text from models and tools as the terminal is given it: see `gonogo.domain.text_safety`.


_EMOJI = re.compile("(?<=[\u2190-\u2bff\U0001f000-\U0001faff])[\ufe0f\u200d]")
"""What follows a sign to have it drawn in colours, or as one with the next sign."""


def spoken(text: str) -> str:
    """Text of several lines, safe to look at; either way to end a line is one.

    Signs such as emoji are shown one by one and plain: terminals differ in what they make of more.
    """
    return visible(_EMOJI.sub("", text.replace("\r\n", "\n")))


def indented(text: str, indent: str) -> str:
    """Text of several lines, safe to look at, those after the first moved to the right."""
    return mark_blanks(spoken(text)).replace("\n", f"\n{indent}")


def one_line(text: str, limit: int | None = 100) -> str:
    """The text as one line of bounded length, safe to look at."""
    return _cut(on_one_line(text), limit)


def json_line(value: object, limit: int | None = 100) -> str:
    """A value as one line of JSON of bounded length, safe to look at; a text without its quotes."""
    return one_line(value, limit) if isinstance(value, str) else _cut(visible_json(value), limit)


def _cut(line: str, limit: int | None) -> str:
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"
