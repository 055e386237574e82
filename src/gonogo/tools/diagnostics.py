"""What the operator's own command, such as a linter, says of files that an agent has just written.

It looks and changes nothing: it runs in the box of commands that only read, without a network, and
where there is no box it does not run. What it prints is the repository's as much as the program's,
so it is data: bounded, and with nothing in it that could deceive.
"""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from shlex import quote

import anyio.to_thread
from msgspec.structs import replace

from gonogo.domain.errors import ToolFailed
from gonogo.domain.paths import is_secret
from gonogo.domain.placeholders import FILES
from gonogo.domain.text_safety import visible
from gonogo.tools.base import Bench, JsonObject
from gonogo.workspace import CommandOutput, Guarded, run_command

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
