"""What the operator's own command, such as a linter, says of files that an agent has just written.

It looks and changes nothing: it runs in the box of commands that only read, without a network, and
where there is no box it does not run. What it prints is the repository's as much as the program's,
so it is data: bounded, and with nothing in it that could deceive.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from shlex import quote

import anyio.to_thread
from msgspec.structs import replace

from gonogo.domain.errors import ToolFailed
from gonogo.domain.paths import is_secret
from gonogo.domain.text_safety import visible
from gonogo.tools.base import Bench, JsonObject
from gonogo.workspace import CommandOutput, Guarded, run_command

_FILES = re.compile(r"\{files(?::([^{}]*))?\}")
"""What stands in the command for the paths of the files, or of those whose names are such."""
_MOST_LINES = 40
_LONGEST = 300
"""Characters of a line that are told."""
_KEPT = 1 << 18
"""Bytes of the command's output that are looked through."""
_CANNOT_RUN = (126, 127)
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_BEFORE, _AFTER = r"(?<![\w./-])(?:\./)?", r"(?![\w/-]|\.\w)"
_LOG = logging.getLogger(__name__)


class Diagnostics:
    """The operator's command, for as long as this process lives."""

    def __init__(self, command: str, seconds: float) -> None:
        self._command, self._seconds = command, seconds
        self._said: set[str] = set()

    async def told(
        self, bench: Bench, paths: Sequence[str], look: Callable[[Path], Guarded]
    ) -> JsonObject:
        """What the result of a write says besides: the lines about its files, if there are any.

        Args:
            bench: Where commands run that nobody looked at.
            paths: The files, relative to the workspace. Of secrets nothing is told.
            look: Finds what a box has to guard in a workspace.
        """
        files = [path for path in paths if not is_secret(path)]
        script = self._script(files)
        if script is None:
            return {}
        if bench.sandbox is None:
            return self._once(
                "GONOGO_DIAGNOSTICS does not run here: there is no sandbox. gonogo doctor says why."
            )
        try:
            guards = await anyio.to_thread.run_sync(look, bench.workspace.root)
            done = await self._run(replace(bench, guards=guards), script)
        except ToolFailed as failure:
            return self._failed(f"it could not run: {failure}")
        return self._of(done, files, f"{bench.workspace.root}/")

    def _script(self, files: Sequence[str]) -> str | None:
        """The command for these files; None where it is not for any of them."""
        named = [_such(files, found[1]) for found in _FILES.finditer(self._command)]
        if not files or not all(named):
            return None
        return _FILES.sub(lambda found: " ".join(map(_word, _such(files, found[1]))), self._command)

    async def _run(self, bench: Bench, script: str) -> CommandOutput:
        return await run_command(
            bench.workspace, script, cwd=None, timeout=self._seconds, output_cap=_KEPT,
            sandbox=bench.sandbox, read_only=True, hidden=bench.hidden, shown=bench.shown,
            guards=bench.guards, ceilings=bench.ceilings, search_path=bench.search_path,
        )  # fmt: skip

    def _of(self, done: CommandOutput, files: Sequence[str], root: str) -> JsonObject:
        if done.exit_code in _CANNOT_RUN:
            return self._failed(f"it could not run: {_shown(done.output.strip())}")
        found = list(dict.fromkeys(_about(files, done.output.replace(root, ""))))
        told: JsonObject = {"lines": found[:_MOST_LINES]} if found else {}
        if len(found) > _MOST_LINES:
            told["left_out"] = len(found) - _MOST_LINES
        if done.timed_out:
            told["note"] = f"it was ended after {self._seconds:g} seconds"
        elif done.over is not None:
            told["note"] = f"it was ended: it took more {done.over} than a command may"
        return {"diagnostics": told} if told else {}

    def _failed(self, why: str) -> JsonObject:
        """Tell who wrote that nobody looked; the operator is told once of each reason."""
        if why not in self._said:
            self._said.add(why)
            _LOG.warning("GONOGO_DIAGNOSTICS: %s", why)
        return {"diagnostics": {"note": why}}

    def _once(self, why: str) -> JsonObject:
        return {} if why in self._said else self._failed(why)


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
    """A path as a word of bash that no program takes for an option."""
    return quote(f"./{path}" if path.startswith("-") else path)


def _about(files: Iterable[str], output: str) -> Iterator[str]:
    """The lines that name one of the files."""
    names = "|".join(re.escape(path) for path in files)
    named = re.compile(f"{_BEFORE}(?:{names}){_AFTER}")
    lines = (_COLOURS.sub("", line).rstrip() for line in output.split("\n"))
    return map(partial(_shown, mark="…"), filter(named.search, lines))


def _shown(line: str, mark: str = "") -> str:
    said = visible(line[:_LONGEST], lines=False)
    return said + mark if len(line) > _LONGEST else said
