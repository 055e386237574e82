"""Python code of the workspace that a plan declares, and what it may be told.

Who approves `python -m notes` or `python tools/check.py` approves code that agents of the plan may
write anyway, so more words behind it do no more harm. Only paths still count: none may lead out of
the workspace, to a secret, or to what others run. Python itself takes no option behind the module
or the file: it stops to read there (https://docs.python.org/3/using/cmdline.html).
"""

import glob
import posixpath
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from gonogo.domain.errors import because
from gonogo.domain.launchers import MODULES
from gonogo.policy.kinds import CommandPlace, guarded, inside_of, path
from gonogo.policy.programs import matched_guard
from gonogo.policy.shell import Word

_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
_PLAIN = re.compile(r"(?!!)[^\s;|&$`<>()'\"\\]*")
_PIECES = re.compile(r"[^\w./~*?-]+")
_ENDS = (".py", ".pyc", ".*so", "/__init__.*", "/__main__.*")
_SHORT = re.compile(r"-[^-]")


def names_script(words: Sequence[Word], place: CommandPlace, outside: Callable[[str], bool]) -> int:
    """How many words of a command name a Python module or file of the workspace; 0 if none do.

    Args:
        outside: `Conditions.outside`.
    """
    argv = [word.text for word in words]
    if len(argv) < 2 or not _PYTHON.fullmatch(argv[0]):
        return 0
    if argv[1] == "-m":
        found, count = _module("".join(argv[2:3]), place), 3
    else:
        found, count = _file(argv[1], place), 2
    lies_here = bool(found) and not any(guarded(each) or outside(each) for each in found)
    return count if lies_here else 0


def judge_told(words: Iterable[Word], place: CommandPlace) -> str | None:
    """What is wrong with the words that Python code of the workspace is told, if anything is."""
    return next(filter(None, (_judge(word, place) for word in words)), None)


def paths_in(text: str) -> Iterator[str]:
    """All that a word may name: itself, behind an option's letters, behind `=` and the like."""
    yield text
    yield from filter(None, _PIECES.split(text))
    head = _PIECES.split(text, maxsplit=1)[0]
    if head.startswith("-"):
        # Of `-vo/etc` any part may be the value; behind two dashes letters are one name.
        short = _SHORT.match(head) is not None
        yield from (head[n:] for n in range(2, len(head)) if short or head[n] in "/~.")


def _judge(word: Word, place: CommandPlace) -> str | None:
    if not _PLAIN.fullmatch(word.text):
        return because("{word!r} may not be harmless", word=word.text)
    for each in paths_in(word.text) if word.text else ():
        problem = path(each, word.is_glob, place) or guarded(inside_of(each, place))
        if problem:
            return problem
    return matched_guard(word, place)


def _file(word: str, place: CommandPlace) -> list[str]:
    if word.startswith("-") or path(word, False, place):
        return []
    return list(place.matching(glob.escape(inside_of(word, place))))


def _module(name: str, place: CommandPlace) -> list[str]:
    """The files that Python would take a module from; none where it may take it from elsewhere.

    Its own modules may be loaded already, and a folder without `__init__.py` comes after all that
    is installed.
    """
    names = name.split(".")
    own = names[0] in sys.stdlib_module_names or names[0] in MODULES
    if own or not all(map(str.isidentifier, names)):
        return []
    base = "" if place.cwd == "." else place.cwd
    tops = [f"{names[0]}/__init__.py"] if names[1:] else [f"{names[0]}/__init__.py", f"{name}.py"]
    if not any(_at(place, posixpath.join(base, each)) for each in tops):
        return []
    found: list[str] = []
    for count in range(1, len(names) + 1):
        stem = posixpath.join(base, *names[:count])
        last = [each for end in _ENDS for each in _at(place, stem, end)]
        if not last:
            return []
        found += last
    return found


def _at(place: CommandPlace, stem: str, end: str = "") -> list[str]:
    return list(place.matching(glob.escape(stem) + end))
