"""Text from models and tools as the terminal is given it: see `gonogo.domain.text_safety`."""

from gonogo.domain.text_safety import mark_blanks, on_one_line, visible, visible_json


def spoken(text: str) -> str:
    """Text of several lines, safe to look at; either way to end a line is one."""
    return visible(text.replace("\r\n", "\n"))


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
