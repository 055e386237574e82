"""Text from models and tools as the terminal is given it: see `gonogo.domain.visible`."""

from gonogo.domain.visible import visible, visible_json


def spoken(text: str) -> str:
    """Text of several lines, safe to look at; either way to end a line is one."""
    return visible(text.replace("\r\n", "\n"))


def one_line(text: str, limit: int = 100) -> str:
    """The text as one line of bounded length, safe to look at."""
    return _cut(visible(" ".join(text.split()), lines=False), limit)


def json_line(value: object, limit: int = 100) -> str:
    """A value as one line of JSON of bounded length, safe to look at; a text without its quotes."""
    return one_line(value, limit) if isinstance(value, str) else _cut(visible_json(value), limit)


def _cut(line: str, limit: int) -> str:
    return line if len(line) <= limit else line[: limit - 1] + "…"
