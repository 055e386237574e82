"""What is wrong with a file that was just written: as a parser reads it, and as a linter does."""

import ast
import json
import logging
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from shlex import quote
from threading import Lock
from time import monotonic
from typing import Any

import anyio.to_thread
from msgspec.structs import replace

from gonogo.domain.commands import FILES
from gonogo.domain.errors import ToolFailed
from gonogo.domain.paths import is_secret
from gonogo.domain.text_safety import visible
from gonogo.tools import grammars
from gonogo.tools.base import Bench, JsonObject
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
