"""Text of files: decoding, and the differences that a person is shown."""

import difflib
from collections.abc import Iterable

from gonogo.domain.errors import ToolFailed
from gonogo.domain.paths import is_secret

DIFF_LINES = 20_000
"""Longer files are summed up instead of compared."""


def decoded(path: str, data: bytes) -> str:
    """The text of a file that will be changed.

    Raises:
        ToolFailed: `not_text` for what is binary or not UTF-8.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolFailed("not_text", f"{path!r} is not UTF-8 text") from error
    if "\0" in text:
        raise ToolFailed("not_text", f"{path!r} is binary")
    return text


def difference(path: str, before: bytes | None, after: bytes | None) -> str:
    """A unified diff of one file; None is no file.

    What a file of secrets held is not shown: a diff is stored, and sent to whoever is asked.
    """
    if before is not None and is_secret(path):
        return _sizes(path, before, after, "what it holds may be secret")
    try:
        old = _lines(before)
        new = _lines(after)
    except ToolFailed:
        return _sizes(path, before, after)
    if len(old) + len(new) > DIFF_LINES:
        return _sizes(path, before, after)
    names = ("/dev/null" if before is None else f"a/{path}",
             "/dev/null" if after is None else f"b/{path}")  # fmt: skip
    return "".join(_marked(difflib.unified_diff(old, new, *names)))


def _lines(data: bytes | None) -> list[str]:
    # Not splitlines(): only a line feed ends a line of a diff.
    text = decoded("", data or b"")
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + [lines[-1]] * bool(lines[-1])


def _marked(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _sizes(
    path: str,
    before: bytes | None,
    after: bytes | None,
    why: str = "binary or too long to compare",
) -> str:
    old, new = ("no file" if data is None else f"{len(data)} bytes" for data in (before, after))
    return f"{path}: {old} -> {new} ({why})\n"
