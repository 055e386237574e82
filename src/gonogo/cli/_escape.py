"""Text from models and tools, made safe to look at.

A terminal obeys control characters, and bidirectional or invisible ones make a command read as
another than it is. Each is shown as an escape; line breaks and tabs stay.
"""

import unicodedata

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters that are drawn as nothing."""


def visible(text: str, *, lines: bool = True) -> str:
    """The text with every character that could deceive shown as an escape.

    Args:
        lines: Keep line breaks and tabs; otherwise they are escaped too.
    """
    if text.isascii() and text.isprintable():
        return text
    if lines:
        text = text.replace("\r\n", "\n")
    kept = "\n\t" if lines else ""
    return "".join(c if c in kept else _shown(c) for c in text)


def one_line(text: str, limit: int = 100) -> str:
    """The text as one line of bounded length, safe to look at."""
    line = visible(" ".join(text.split()), lines=False)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _shown(character: str) -> str:
    if character not in _BLANK and unicodedata.category(character) not in _ESCAPED:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x1_0000 else f"\\U{code:08x}"
