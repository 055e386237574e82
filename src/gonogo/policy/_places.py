"""Where in the workspace the words of a command may lead: for asking more people, never to allow.

A word that is computed, or that leads out of the workspace, may lead anywhere in it: nobody here
knows what is in a variable, or where on the machine the workspace lies.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator

from gonogo.domain.findings import EVERYTHING
from gonogo.policy._loose import UNKNOWN

_SYSTEM = re.compile(r"/(?:bin|dev|etc|lib|lib32|lib64|proc|sbin|sys|usr)(?:/|$)")
"""Folders of the machine in which no workspace lies."""
_CLASS = re.compile(r"\[[^]/]*\]")
_OPTION = re.compile(r"-[A-Za-z]")


def places(words: Iterable[str], cwd: str) -> Iterator[str]:
    """Globs of what words may name, relative to the workspace; `**` for anything in it."""
    for word in words:
        for piece in _pieces(word):
            yield from _place(piece, cwd)


def _pieces(word: str) -> Iterator[str]:
    """The word, and what an option or an operand of several parts may hold behind its name."""
    yield word
    if _OPTION.match(word):
        yield word[2:]
    yield from (piece for piece in re.split("[=:]", word)[1:] if not piece.startswith("//"))


def _place(piece: str, cwd: str) -> Iterator[str]:
    if not piece:
        return
    path = posixpath.normpath(posixpath.join(cwd, _as_glob(piece)))
    if _SYSTEM.match(path) and UNKNOWN not in path:
        return
    if UNKNOWN in path or path.startswith(("/", "~")) or path.split("/")[0] == "..":
        yield EVERYTHING
        return
    yield path
    if "*" in path or "?" in path:
        # A folder that it matches stands for what lies below.
        yield f"{path}/{EVERYTHING}"


def _as_glob(piece: str) -> str:
    """What a shell would expand, as a glob of ours: a class of letters is any, braces anything."""
    head, brace, _ = piece.partition("{")
    if brace:
        return EVERYTHING if ".." in piece else f"{posixpath.dirname(head) or '.'}/{EVERYTHING}"
    return _CLASS.sub("?", piece)
