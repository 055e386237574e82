"""Edits of files: the place where one lands, and what is wrong with the file that it has left."""

import ast
import difflib
import json
import logging
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import gcd
from operator import eq
from pathlib import Path, PurePosixPath
from shlex import quote
from threading import Lock
from time import monotonic
from typing import Any

import anyio.to_thread
from msgspec.structs import replace

from gonogo.domain.commands import FILES
from gonogo.domain.errors import ToolFailed, because
from gonogo.domain.paths import is_secret
from gonogo.domain.text_safety import visible
from gonogo.tools import grammars
from gonogo.tools.base import Bench, JsonObject, with_ends
from gonogo.workspace import CommandOutput, Guarded, run_command

# Whether a file that was written still reads as what its name says: Python, JSON, YAML or TOML.
#
# With the grammars that the extra `grammars` installs, JavaScript, TypeScript and Go as well.
#
# An agent is told in the result of the call that wrote it, while it knows what it wanted. It is
# told and not refused: a change of several files may be whole only at its end.

_MOST = 1 << 18
"""Bytes of a file that is looked at; what parsers make of them takes hundreds of times as much."""
_TOO_MUCH = (RecursionError, MemoryError, SystemError)
"""What parsers say of nesting that they cannot hold; nothing is known of the file then."""
_quiet = Lock()


def broken(
    path: str, before: bytes | None, after: bytes, *, patience: float = 10.0
) -> dict[str, Any]:
    """What the result of a write says: where the file cannot be read, if it could be before.

    Args:
        before: What the file held; None where there was none, or where all of it is new.
        patience: Seconds after which a parser of ours that is a process is ended.
    """
    until = monotonic() + patience
    problem = _problem(path, after, until)
    if problem is None or (before is not None and _problem(path, before, until) is not None):
        return {}
    if before is not None and monotonic() >= until:
        # Nobody knows whether it could be read before.
        return {}
    kind = _kind(path)
    more = "" if before is None else " any more"
    return {"problem": f"{path!r} is not valid {kind}{more}: {problem}"}


def each_broken(
    changes: Iterable[tuple[str, bytes | None, bytes | None]], *, patience: float = 10.0
) -> Iterator[dict[str, Any]]:
    """What the result of a change of several files says of each; None is no file.

    Args:
        patience: Seconds after which nothing is said of what is left.
    """
    until = monotonic() + patience
    for path, before, after in changes:
        if after is None or monotonic() >= until:
            yield {}
        else:
            yield broken(path, before, after, patience=until - monotonic())


def _problem(path: str, data: bytes, until: float) -> str | None:
    kind = _kind(path)
    if kind is None or len(data) > _MOST:
        return None
    try:
        if kind in _PARSERS:
            return _PARSERS[kind](data)
        left = min(grammars.SECONDS, until - monotonic())
        return grammars.misread(kind, data, seconds=left) if left > 0 else None
    except _TOO_MUCH:
        return None
    except UnicodeDecodeError as error:
        return f"byte {error.start} is not UTF-8"


def _kind(path: str) -> str | None:
    return _NAMES.get(PurePosixPath(path).suffix)


def _python(data: bytes) -> str | None:
    # What it warns of is no defect. The filters are the whole process's.
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except SyntaxError as error:
            return f"line {error.lineno or 1}: {error.msg}"
        except ValueError as error:
            return str(error)
    return None


def _json(data: bytes) -> str | None:
    try:
        json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    return None


def _toml(data: bytes) -> str | None:
    try:
        tomllib.loads(data.decode())
    except tomllib.TOMLDecodeError as error:
        return str(error)
    return None


def _yaml(data: bytes) -> str | None:
    import yaml

    untyped: Any = yaml
    loader = getattr(untyped, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in untyped.parse(data.decode(), Loader=loader):
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return f"line {mark.line + 1 if mark else 1}: {error.problem or error.context}"
    except yaml.YAMLError as error:
        return str(error).split("\n", 1)[0]
    return None


_PARSERS: Mapping[str, Callable[[bytes], str | None]] = {
    "Python": _python, "JSON": _json, "TOML": _toml, "YAML": _yaml,
}  # fmt: skip
_NAMES = {
    ".py": "Python", ".pyi": "Python", ".json": "JSON", ".ipynb": "JSON", ".toml": "TOML",
    ".yaml": "YAML", ".yml": "YAML", **grammars.NAMES,
}  # fmt: skip


# What the operator's own command, such as a linter, says of files that an agent has just written.
#
# It looks and changes nothing: it runs in the box of commands that only read, without a network,
# and where there is no box it does not run. What it prints is the repository's as much as the
# program's, so it is data: bounded, and with nothing in it that could deceive.

_MOST_LINES = 40
_LONGEST = 300
"""Characters of a line that are told."""
_KEPT = 1 << 18
"""Bytes of the command's output that are looked through."""
_CANNOT_RUN = (126, 127)
_PLAIN = re.compile(r"[A-Za-z0-9_.][^=]*\Z")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_BEFORE, _AFTER = r"(?<![\w./-])(?:\./)?", r"(?![\w/-]|\.\w)"
_LOG = logging.getLogger(__name__)


class Diagnostics:
    """The operator's command, for as long as this process lives."""

    def __init__(self, command: str, seconds: float) -> None:
        self._command, self._seconds = command, seconds
        self._said: set[str] = set()

    async def told(
        self, open_bench: Callable[[], Bench], paths: Sequence[str], look: Callable[[Path], Guarded]
    ) -> JsonObject:
        """What the result of a write says besides: the lines about its files, if there are any.

        That nobody could look is told as well, and is no error: the write is done.

        Args:
            open_bench: Gives where commands run that nobody looked at.
            paths: The files, relative to the workspace. Of secrets nothing is told.
            look: Finds what a box has to guard in a workspace.
        """
        files = [path for path in paths if not is_secret(path)]
        script = self._script(files)
        if script is None:
            return {}
        try:
            bench = open_bench()
            if bench.sandbox is None:
                return self._boxless()
            guards = await anyio.to_thread.run_sync(look, bench.workspace.root)
            done = await self._run(replace(bench, guards=guards), script)
        except ToolFailed as failure:
            return self._failed(failure.kind, f"it could not run: {failure}")
        except OSError as failure:
            return self._failed("io_error", f"it could not run: {failure.strerror or failure}")
        # Of thousands of names and lines it takes seconds, which are not everybody's.
        output = bench.told(done.output).replace(f"{bench.workspace.root}/", "")
        found = await anyio.to_thread.run_sync(_about, files, output)
        return self._of(done, found)

    def _script(self, files: Sequence[str]) -> str | None:
        """The command for these files; None where it is not for any of them."""
        named = [_such(files, found[1]) for found in FILES.finditer(self._command)]
        if not files or not all(named):
            return None
        return FILES.sub(lambda found: " ".join(map(_word, _such(files, found[1]))), self._command)

    async def _run(self, bench: Bench, script: str) -> CommandOutput:
        return await run_command(
            bench.workspace, script, cwd=None, timeout=self._seconds, output_cap=_KEPT,
            sandbox=bench.sandbox, read_only=True, hidden=bench.hidden, shown=bench.shown,
            guards=bench.guards, ceilings=bench.ceilings, search_path=bench.search_path(),
            is_ours=bench.is_ours,
        )  # fmt: skip

    def _of(self, done: CommandOutput, found: Sequence[str]) -> JsonObject:
        if done.exit_code in _CANNOT_RUN and not found:
            said = f"it could not run: {_shown(done.output.strip())}"
            return self._failed(f"exit {done.exit_code}", said)
        told: JsonObject = {"lines": found[:_MOST_LINES]} if found else {}
        if len(found) > _MOST_LINES:
            told["left_out"] = len(found) - _MOST_LINES
        if done.timed_out:
            told["note"] = f"it was ended after {self._seconds:g} seconds"
        elif done.over is not None:
            told["note"] = f"it was ended: it took more {done.over} than a command may"
        return {"diagnostics": told} if told else {}

    def _boxless(self) -> JsonObject:
        """Without a box each write would be told the same: it is told once."""
        kind, why = "no sandbox", "there is no sandbox. gonogo doctor says why."
        if kind in self._said:
            return {}
        return self._failed(kind, f"GONOGO_DIAGNOSTICS does not run here: {why}")

    def _failed(self, kind: str, why: str) -> JsonObject:
        """Tell who wrote that nobody looked; the operator is told once of each kind."""
        if kind not in self._said:
            self._said.add(kind)
            _LOG.warning("GONOGO_DIAGNOSTICS: %s", why)
        return {"diagnostics": {"note": why}}


def _such(files: Iterable[str], globs: str | None) -> list[str]:
    """The files whose names match one of some globs."""
    if globs is None:
        return list(files)
    wanted = [glob.strip() for glob in globs.split(",")]
    return [
        path for path in files
        if any(fnmatchcase(PurePosixPath(path).name, glob) for glob in wanted)
    ]  # fmt: skip


def _word(path: str) -> str:
    """A path as a word of bash that no program takes for anything but a path, such as an option."""
    return quote(path if _PLAIN.match(path) else f"./{path}")


def _about(files: Iterable[str], output: str) -> list[str]:
    """The lines that name one of the files, each once."""
    names = "|".join(re.escape(path) for path in files)
    named = re.compile(f"{_BEFORE}(?:{names}){_AFTER}")
    lines = (_COLOURS.sub("", line).rstrip() for line in output.split("\n"))
    return list(dict.fromkeys(map(partial(_shown, mark="…"), filter(named.search, lines))))


def _shown(line: str, mark: str = "") -> str:
    # Escapes are longer than what they stand for.
    said = visible(line[:_LONGEST], lines=False)
    return said[:_LONGEST] + mark if max(len(line), len(said)) > _LONGEST else said


# Edits that land: the place of a text that is in a file but for its white space.
#
# Models copy lines with other blanks, tabs or line ends than the file has. Such lines are found
# where they stand at one place only, and what replaces them gets the file's own indentation:
# lines that the edit keeps stay as they are in the file, and those that it brings are indented as
# the lines around them were translated. Where that would be a guess, nothing is changed, and the
# nearest places are named.

NEAREST = 3
"""Places that are named where a text is not found."""
_COMPARED = 20_000
"""Lines of a file that are compared letter by letter, for the nearest places."""
_READ = 20
"""Of those lines the ones that may be alike, whose letters' order is compared, too."""
_STEPS = 250_000
"""Pairs of lines that an edit is compared with itself by, line by line."""
_JOINED = 2
"""Lines of an edit that may hold several of a file's."""
_TELLING = 8
"""Letters of a line that is looked for within another one."""
_LETTERS = 200
"""Of each line."""
_ALIKE = 0.6
"""How much of two lines is the same, at least, for the one to be near the other; 0 to 1."""


def landed(
    lines: Sequence[str], old: Sequence[str], new: Sequence[str], start: int = 0
) -> tuple[int, list[str]] | None:
    """Where the old lines stand but for white space, and the new ones as they belong there.

    None where that is nowhere, at several places, or a guess.

    Args:
        start: The index of the first line of the file that is looked at.
    """
    match _loose_places(lines, old, start):
        case [place]:
            there = _reindented(lines[place : place + len(old)], old, new)
            return None if there is None else (place, there)
        case _:
            return None


def _loose_places(lines: Sequence[str], old: Sequence[str], start: int) -> list[int]:
    """Where the old lines stand in a file but for white space, as indices; at most two of them."""
    wanted = [_key(line) for line in old]
    if not any(wanted):
        return []
    # One search through one text, which is as quick however alike the lines are.
    text = "".join(f"\n{_key(line)}" for line in lines[start:]) + "\n"
    sought, found, at = "".join(f"\n{key}" for key in wanted) + "\n", list[int](), -1
    while len(found) < 2 and (at := text.find(sought, at + 1)) >= 0:
        found.append(start + text.count("\n", 0, at))
    return found


def _reindented(there: Sequence[str], old: Sequence[str], new: Sequence[str]) -> list[str] | None:
    """The new lines as they belong in the file; None where their indentation would be a guess.

    Args:
        there: The lines of the file that the old ones were found at, one for each.
        old: The lines as the edit has them.
        new: What replaces them.
    """
    olds, news = ([line.rstrip("\r\n") for line in lines] for lines in (old, new))
    shift = _Shift.between(olds, there, news)
    if shift is None:
        return None
    end = "\r\n" if there[0].endswith("\r\n") else "\n"
    result = list[str]()
    for kind, first, last, begin, stop in _steps(olds, news):
        if kind == "equal":
            result += there[first:last]
            continue
        pairs = zip(olds[first:last], there[first:last], strict=True)
        if any(old.strip() != line.strip() for old, line in pairs):
            # Blanks within a line may be those of a string, which the new line would change.
            return None
        for line in news[begin:stop]:
            # An empty line is less indented than any, and has no indentation to be found.
            if not line.strip():
                result.append(end)
                continue
            indent = shift.of(_indent(line))
            if indent is None:
                return None
            result.append(f"{indent}{line[len(_indent(line)) :]}{end}")
    return _ended(result, end, whole=there[-1].endswith("\n"))


def _steps(olds: Sequence[str], news: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """What is kept and what is replaced, as difflib says it; where that is too much, in one."""
    same = list(map(eq, olds, news))
    head = same.index(False) if False in same else len(same)
    most = min(len(olds), len(news)) - head
    same = list(map(eq, reversed(olds), reversed(news)))[:most]
    tail = same.index(False) if False in same else len(same)
    first, begin = len(olds) - tail, len(news) - tail
    yield "equal", 0, head, 0, head
    middle = olds[head:first], news[head:begin]
    if len(middle[0]) * len(middle[1]) > _STEPS:
        yield "replace", head, first, head, begin
    else:
        matcher = difflib.SequenceMatcher(None, *middle, autojunk=False)
        for kind, i1, i2, j1, j2 in matcher.get_opcodes():
            yield kind, head + i1, head + i2, head + j1, head + j2
    yield "equal", first, len(olds), begin, len(news)


def edited(text: str, old: str, new: str) -> tuple[str, tuple[int, int]] | None:
    """The text with `old` replaced at the one place where it stands but for white space.

    Gives the first and last line that were replaced, counted from 1, as well; None where there is
    no such place, several, or no sure indentation.
    """
    if old.endswith("\n") and new and not new.endswith("\n"):
        return None
    if not old.endswith("\n"):
        old, new = f"{old}\n", f"{new}\n"
    lines, olds = with_ends(text), with_ends(old)
    found = landed(lines, olds, with_ends(new))
    if found is None:
        return None
    first, there = found
    last = first + len(olds)
    return "".join([*lines[:first], *there, *lines[last:]]), (first + 1, last)


def is_stray(text: str, at: int, old: str) -> bool:
    """Whether a text stands at a place in the middle of a word, and elsewhere as lines by itself.

    Those lines have other white space, or it would stand there, too.
    """
    edges = (at, at + len(old))
    cuts = any(re.fullmatch(r"\w\w", text[max(edge - 1, 0) : edge + 1]) for edge in edges)
    return cuts and bool(_loose_places(with_ends(text), with_ends(f"{old}\n"), 0))


def ended_as(text: str, new: str) -> str:
    """A text with the line ends of a file, where that has only those of Windows."""
    is_theirs = "\r\n" in text and text.count("\n") == text.count("\r\n")
    return new.replace("\n", "\r\n") if is_theirs and "\r" not in new else new


def nearest(lines: Sequence[str], old: Sequence[str]) -> list[tuple[int, int]]:
    """First and last line, counted from 1, of the places that are most like the old lines."""
    wanted, keys = [_key(line) for line in old], [_key(line) for line in lines]
    if not any(wanted):
        return []
    votes = _votes(keys, wanted) or _lines_in(keys, wanted) or _likeness(keys, wanted)
    chosen = list[int]()
    for at, _ in sorted(votes.items(), key=lambda each: (-each[1], each[0])):
        if all(abs(at - other) >= len(wanted) for other in chosen):
            chosen.append(at)
        if len(chosen) == NEAREST:
            break
    return [(max(at, 0) + 1, min(at + len(wanted), len(lines))) for at in chosen]


def differing(places: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """What an agent is told of the places, first and last line, that its lines fitted loosely."""
    said = _named(places)
    note = f"{said} had other white space than your text; the file's was kept"
    return {"note": note} if said else {}


def told(path: str, lines: Sequence[str], old: Sequence[str]) -> str:
    """The nearest places as the end of an error; nothing where none is, or the file is secret."""
    spots = "" if is_secret(path) else _spots(nearest(lines, old))
    return because("; similar lines: {spots}; read the file again", spots=spots) if spots else ""


def _named(places: Iterable[tuple[int, int]]) -> str:
    """`line 4`, `lines 4-5, 9`, or nothing."""
    said = _spots(places)
    return said and f"{'line' if said.isdecimal() else 'lines'} {said}"


def _spots(places: Iterable[tuple[int, int]]) -> str:
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in places)


def _key(line: str) -> str:
    return " ".join(line.split())


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _ended(lines: list[str], end: str, *, whole: bool) -> list[str]:
    """The lines, each with an end; the last one only where the file's was `whole`."""
    ended = [line if line.endswith("\n") else f"{line}{end}" for line in lines]
    if ended and not whole:
        ended[-1] = ended[-1].removesuffix(end)
    return ended


def _votes(keys: Sequence[str], wanted: Sequence[str]) -> Mapping[int, float]:
    """Where a place would begin → how many of its lines are the same."""
    spots = dict[str, list[int]]()
    for number, key in enumerate(wanted):
        if key:
            spots.setdefault(key, []).append(number)
    votes = Counter[int]()
    for at, key in enumerate(keys):
        votes.update(at - number for number in spots.get(key, ())[:NEAREST])
    return votes


def _lines_in(keys: Sequence[str], wanted: Sequence[str]) -> Mapping[int, float]:
    """Where a place would begin → how dense its lines are that texts without line ends hold."""
    if len(wanted) > _JOINED:
        return {}
    text = _key("\n".join(wanted).replace("\\n", "\n"))
    spots = [at for at, key in enumerate(keys[:_COMPARED]) if len(key) >= _TELLING and key in text]
    ends = dict(zip(spots, spots[2:], strict=False))
    return {at: 1 / (end - at) for at, end in ends.items()}


def _likeness(keys: Sequence[str], wanted: Sequence[str]) -> Mapping[int, float]:
    """Where a place would begin → how much its longest line is like that of the wanted ones."""
    longest = max(range(len(wanted)), key=lambda number: len(wanted[number]))
    matcher = difflib.SequenceMatcher(None, "", wanted[longest][:_LETTERS], autojunk=False)
    quick = list[tuple[float, int]]()
    for at, key in enumerate(keys[:_COMPARED]):
        matcher.set_seq1(key[:_LETTERS])
        if matcher.real_quick_ratio() > _ALIKE and (ratio := matcher.quick_ratio()) > _ALIKE:
            quick.append((-ratio, at))
    found = dict[int, float]()
    for _, at in sorted(quick)[:_READ]:
        matcher.set_seq1(keys[at][:_LETTERS])
        if (ratio := matcher.ratio()) > _ALIKE:
            found[at - longest] = ratio
    return found


class _Shift:
    """How indentation as an edit has it becomes that of the file: `factor` times it, and `more`.

    Lengths count blanks or tabs; an indentation has only one of the two.
    """

    def __init__(self, signs: tuple[str, str], factor: Fraction, more: Fraction) -> None:
        self._signs, self._factor, self._more = signs, factor, more

    @classmethod
    def between(
        cls, olds: Sequence[str], there: Sequence[str], news: Sequence[str]
    ) -> "_Shift | None":
        """The one shift under which every old line has the indentation that it has in the file."""
        pairs = sorted(
            {
                (_indent(old), _indent(line))
                for old, line in zip(olds, there, strict=True)
                if old.strip()
            },
            key=lambda pair: len(pair[0]),
        )
        texts = [_indent(line) for line in (*olds, *news) if line.strip()]
        ours, theirs = _sign(texts), _sign(line for _, line in pairs)
        if ours is None or theirs is None:
            return None
        factor = _factor(pairs, ours or theirs, theirs or ours, texts)
        if factor is None:
            return None
        least, more = pairs[0][0], len(pairs[0][1]) - factor * len(pairs[0][0])
        if len(pairs) == 1 and more and any(len(text) < len(least) for text in texts):
            # One level says where the others are only to those who go on from it.
            return None
        shift = cls((ours, theirs or ours), factor, more)
        return shift if all(shift.of(old) == line for old, line in pairs) else None

    def of(self, indent: str) -> str | None:
        """The file's indentation for one of the edit's; None where there is no whole one."""
        length = self._factor * len(indent) + self._more
        if length < 0 or length.denominator != 1:
            return None
        return self._signs[1] * int(length)


def _sign(indents: Iterable[str]) -> str | None:
    """What they are made of: blanks, tabs, nothing; None where it is both."""
    signs = set("".join(indents))
    return None if len(signs) > 1 else "".join(signs)


def _factor(
    pairs: Sequence[tuple[str, str]], ours: str, theirs: str, texts: Sequence[str]
) -> Fraction | None:
    """How many of the file's signs one of the edit's stands for."""
    steps = {
        Fraction(len(after[1]) - len(before[1]), len(after[0]) - len(before[0]))
        for before, after in pairwise(pairs)
        if len(after[0]) != len(before[0])
    }
    if steps:
        [step, *others] = steps
        return step if step > 0 and not others else None
    if ours == theirs:
        return Fraction(1)
    old, line = pairs[0]
    if theirs == "\t":
        unit = gcd(*(len(text) for text in texts))
        return Fraction(1, unit) if unit > 1 else None
    return Fraction(len(line), len(old)) if old and line else None
