"""Globs of paths, relative to the workspace: `*` within a name, `**` across folders."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache

from gonogo.domain.errors import because
from gonogo.domain.text_safety import mixed_letters, undrawn


def covers(globs: Iterable[str], path: str) -> bool:
    """Whether one of the globs matches the whole path.

    A glob without a wildcard also covers what lies below it: `src` is `src` and `src/**`.
    """
    return any(_compiled(glob).fullmatch(path) for glob in globs)


def is_literal(glob: str) -> bool:
    """Whether the glob names one path."""
    return not re.search(r"[*?\[]", glob)


@lru_cache(maxsize=1_024)
def _compiled(glob: str) -> re.Pattern[str]:
    plain = glob.removeprefix("./").rstrip("/")
    if plain in ("", "."):
        return re.compile(r"[\s\S]*")
    pattern = "".join(_translated(token) for token in re.findall(r"\*\*/?|[\s\S]", plain))
    below = "(?:/[\\s\\S]*)?" if is_literal(plain) else ""
    return re.compile(pattern + below)


def _translated(token: str) -> str:
    match token:
        case "**/":
            return r"(?:[\s\S]*/)?"
        case "**":
            return r"[\s\S]*"
        case "*":
            return r"[^/]*"
        case "?":
            return r"[^/]"
        case _:
            return re.escape(token)


# Characters that show a person something other than what a program gets.

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SPOOFING = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_DOUBTFUL = frozenset({"Cn", "Zs"})


def spoofing(text: str) -> str | None:
    """What hides or reorders text: controls, bidi marks, zero-width and other invisible signs.

    Returns:
        The first such character as `U+202E`, or None.
    """
    return _first(text, _SPOOFING, _INVISIBLE.__contains__)


def doubtful(text: str) -> str | None:
    """Blanks that no shell splits at, what is not drawn, code points without a meaning yet."""
    return _first(text, _DOUBTFUL, undrawn)


def misread(field: str, written: str) -> str | None:
    """What in a field of a rule is read as something else than it says, if anything is."""
    said = spoofing(written) or (None if field == "reason" else doubtful(written))
    if said:
        return because("{field}: it contains {said}, which is invisible", field=field, said=said)
    # Files and sentences may mix letters; what runs is never meant to.
    if field in ("tool", "agent", "command") and (mixed := mixed_letters(written)):
        return because("{field}: it reads as another word: {mixed}", field=field, mixed=mixed)
    return None


def _first(text: str, categories: frozenset[str], odd: Callable[[str], bool]) -> str | None:
    for character in text:
        if character in " \t\n" or (character.isascii() and character.isprintable()):
            continue
        if unicodedata.category(character) in categories or odd(character):
            return f"U+{ord(character):04X}"
    return None
