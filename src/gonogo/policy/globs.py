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
    return any(_compiled(glob)(path) for glob in globs)


_WILDCARD = re.compile(r"[*?\[]")


def is_literal(glob: str) -> bool:
    """Whether the glob names one path."""
    return _WILDCARD.search(glob) is None


@lru_cache(maxsize=1_024)
def _compiled(glob: str) -> Callable[[str], object]:
    plain = glob.removeprefix("./").rstrip("/")
    if plain in ("", "."):
        return _anything
    tokens = re.findall(r"\*\*/?|[\s\S]", plain)
    if sum(token.startswith("*") for token in tokens) > _BACKTRACKED:
        return _Steps(tokens).match
    below = "(?:/[\\s\\S]*)?" if is_literal(plain) else ""
    return re.compile("".join(map(_translated, tokens)) + below).fullmatch


_BACKTRACKED = 2
"""Wildcards of a glob that a regular expression may try out one after the other."""


def _anything(path: str) -> bool:
    del path
    return True


class _Steps:
    """A glob of many wildcards, matched in one pass: each bit is a token that may be next."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._takes: dict[str, int] = {}
        """The tokens that take a character, by it."""
        self._one = self._name = self._any = self._folders = 0
        bit = 1
        for token in tokens:
            match token:
                case "*":
                    self._name |= bit
                case "**":
                    self._any |= bit
                case "?":
                    self._one |= bit
                case "**/":
                    # No folder at all, or what ends with a slash: a place before it and one in it.
                    self._folders |= bit
                    bit <<= 1
                    self._takes["/"] = self._takes.get("/", 0) | bit
                case _:
                    self._takes[token] = self._takes.get(token, 0) | bit
            bit <<= 1
        self._end = bit

    def match(self, path: str) -> bool:
        """Whether the whole path is matched."""
        inside, live = self._folders << 1, self._reached(1)
        for character in path:
            if character == "/":
                stay, takes = self._any | inside, 0
            else:
                stay, takes = self._any | inside | self._name, self._one
            taken = live & (takes | self._takes.get(character, 0))
            live = self._reached((live & stay) | (taken << 1))
        return bool(live & self._end)

    def _reached(self, live: int) -> int:
        """Those places, and what can be reached from them without a character."""
        while True:
            over = (live & (self._name | self._any | self._folders)) << 1
            more = live | over | ((live & self._folders) << 2)
            if more == live:
                return live
            live = more


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
    if text.isascii() and text.isprintable():
        return None
    for character in text:
        if character in "\t\n" or (character.isascii() and character.isprintable()):
            continue
        if unicodedata.category(character) in categories or odd(character):
            return f"U+{ord(character):04X}"
    return None
