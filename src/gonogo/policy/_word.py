"""Words of a command, read from their source and written again so that bash reads the same.

A word is known completely or not at all: quotes without expansion, escapes and globs are read,
anything that the shell would compute is refused.
"""

import glob
import re
from dataclasses import dataclass

from gonogo.domain.errors import because

_BARE = re.compile(r"[A-Za-z0-9_@%+:,./-]+")
_RESERVED = frozenset(
    """if then else elif fi case esac for select while until do done in function time coproc
    declare typeset export readonly local let unset eval exec source""".split()
)
_TOKEN = re.compile(
    r"""
      '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\$`]|\\[\s\S]|\$(?=["\s|)]))*)"
    | \\(?P<escaped>[\s\S])
    | (?P<glob>[*?]|\[[!^]?[A-Za-z0-9_.-]+\])
    | (?P<plain>[^\s'"\\$`;&|<>()*?\[]+)
    """,
    re.VERBOSE,
)
_IN_DOUBLE = re.compile(r"\\([$`\"\\\n])")
_OPTION_VALUE = re.compile(r"--[a-z][a-z-]*=")
_TILDE = re.compile(r"(?:^|[=:])~")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of characters: literal, or a pattern that the shell matches against names."""

    text: str
    pattern: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One word of argv; with a pattern, whatever it matches."""

    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The word's characters, patterns as written."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def is_glob(self) -> bool:
        """Whether the shell may put several words here."""
        return any(piece.pattern for piece in self.pieces)

    @property
    def pattern(self) -> str:
        """The word as Python's glob reads it."""
        return "".join(
            piece.text.replace("[^", "[!") if piece.pattern else glob.escape(piece.text)
            for piece in self.pieces
        )

    def render(self) -> str:
        """The word as bash source that means exactly this word."""
        if not self.pieces:
            return "''"
        return "".join(p.text if p.pattern else quote(p.text) for p in self.pieces)


def literal(text: str) -> Word:
    """A word without patterns."""
    return Word((Piece(text),) if text else ())


def quote(text: str) -> str:
    """Bash source of `text`, quoted unless every shell reads it the same bare."""
    if _BARE.fullmatch(text) and text not in _RESERVED:
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def read_word(source: str) -> Word | str:
    """Read one word from the source that it spans; a reason if the shell would compute it."""
    pieces: list[Piece] = []
    unquoted = ""
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            return because("{text!r} is computed by the shell", text=source[at : at + 12])
        piece, bare = _piece(found)
        pieces.append(piece)
        unquoted += bare
        at = found.end()
    if _braces(unquoted) or _TILDE.search(unquoted):
        return because("{text!r} is expanded by the shell", text=source[:40])
    return _word(pieces)


def _braces(text: str) -> bool:
    """Whether something stands in braces that the shell would make several words of."""
    inner = text.partition("{")[2].rpartition("}")[0]
    return "," in inner or ".." in inner


def _piece(found: re.Match[str]) -> tuple[Piece, str]:
    """The piece, and what of it stands unquoted (a blank for what is quoted)."""
    match found.lastgroup:
        case "single":
            return Piece(found["single"]), " "
        case "double":
            return Piece(_IN_DOUBLE.sub(_unescaped, found["double"])), " "
        case "escaped":
            return Piece("" if found["escaped"] == "\n" else found["escaped"]), " "
        case "glob":
            return Piece(found["glob"], pattern=True), "*"
        case _:
            return Piece(found["plain"]), found["plain"]


def _unescaped(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def _word(pieces: list[Piece]) -> Word | str:
    text = "".join(piece.text for piece in pieces)
    if not any(piece.pattern for piece in pieces):
        return literal(text)
    if _OPTION_VALUE.match(text) and not pieces[0].pattern:
        # `--include=*.py` names no file: taken literally, as bash does without a match.
        return literal(text)
    if text.startswith("-"):
        return because("{text!r} could match a name that starts with '-'", text=text)
    if pieces[0].pattern:
        return because("{text!r} could match a name that starts with '-'", text=text)
    if ".." in text.split("/"):
        return because("{text!r} mixes a pattern and '..'", text=text)
    return Word(_merged(pieces))


def _merged(pieces: list[Piece]) -> tuple[Piece, ...]:
    merged: list[Piece] = []
    for piece in pieces:
        if merged and not piece.pattern and not merged[-1].pattern:
            merged[-1] = Piece(merged[-1].text + piece.text)
        else:
            merged.append(piece)
    return tuple(merged)
