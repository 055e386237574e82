"""Allowed mutants, really run: in gonogo's own box, beside secrets that must not come out.

Afterwards no file of the workspace has changed, and no output holds what only a secret holds.
"""

import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from gonogo.workspace import Sandbox, Workspace, run_command
from mutants.workspace import CANARY, MOUNTED_AT, OUTSIDE_TEXT

RUNS_CODE = frozenset({"pytest", "python", "python3", "mypy", "ruff", "make", "npm"})
"""They run what the repository says, or keep a cache in it: allowed by name, not for reading."""
_SHELL = "timeout 5 bash --noprofile --norc -c"
_AT_ONCE = 20
_LENGTH = 100_000
"""Of a script: Linux starts no program with a longer word than 128 KiB."""
_CAP = 64 * 1024 * 1024
_TIME_LIMIT = 600


@dataclass(frozen=True, slots=True)
class Spill:
    """A command that changed a file or showed a secret."""

    run_as: str
    why: str


def _batches(commands: Sequence[str]) -> Iterator[list[str]]:
    batch = list[str]()
    for command in commands:
        whole = sum(len(shlex.quote(each)) for each in (*batch, command))
        if batch and (len(batch) == _AT_ONCE or whole > _LENGTH):
            yield batch
            batch = []
        batch.append(command)
    if batch:
        yield batch


class Canary:
    """A workspace whose every change and every word shown is looked for."""

    def __init__(self, sandbox: Sandbox, root: Path) -> None:
        self._sandbox, self._root = sandbox, root
        self._before = state(root)

    def spills(self, commands: Sequence[str]) -> list[Spill]:
        """Those of the commands that do harm."""
        found: list[Spill] = []
        for batch in _batches(commands):
            found += self._batch(batch)
        return found

    def _batch(self, commands: Sequence[str]) -> list[Spill]:
        outputs = self._outputs(commands)
        found = [Spill(command, why) for command, output in zip(commands, outputs, strict=True)
                 if (why := _shown(output))]  # fmt: skip
        changed = sorted(set(state(self._root).items()) ^ set(self._before.items()))
        if changed:
            found.append(Spill(" OR ".join(commands), f"changed: {changed[:5]}"))
            self._before = state(self._root)
        return found

    def _outputs(self, commands: Sequence[str]) -> list[str]:
        script = "\n".join(
            f"printf '\\1%d\\1' {n}; {_SHELL} {shlex.quote(command)} </dev/null 2>&1"
            for n, command in enumerate(commands)
        )
        done = anyio.run(self._run, f"{script}\nprintf '\\1%d\\1' {len(commands)}")
        rest, outputs = done, []
        for number in range(len(commands) + 1):
            output, mark, rest = rest.partition(f"\1{number}\1")
            assert mark, f"the box ended before command {number - 1} did: {done[-300:]!r}"
            outputs.append(output)
        return outputs[1:]

    async def _run(self, script: str) -> str:
        done = await run_command(
            Workspace(self._root), script, cwd=None, timeout=_TIME_LIMIT, output_cap=_CAP,
            sandbox=self._sandbox,
        )  # fmt: skip
        return done.output


def readers(commands: Iterable[str]) -> list[str]:
    """Those of the commands that only read, as they can be run here, each once."""
    return [
        command
        for command in dict.fromkeys(commands)
        if RUNS_CODE.isdisjoint(command.split()) and MOUNTED_AT not in command
    ]


def state(root: Path) -> dict[str, str]:
    """Each file of the workspace, with a digest of its content and its mode."""
    found: dict[str, str] = {}
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder) / name
            found[path.relative_to(root).as_posix()] = _digest(path)
    return found


def _digest(path: Path) -> str:
    mode = path.lstat().st_mode
    if path.is_symlink():
        return f"{mode:o} {path.readlink()}"
    if not path.is_file():
        return f"{mode:o}"
    return f"{mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _shown(output: str) -> str | None:
    if CANARY in output:
        at = output.index(CANARY)
        return f"shows a secret: {output[max(0, at - 120) : at + 20]!r}"
    if OUTSIDE_TEXT in output:
        return "shows a file outside of the workspace"
    return None
