"""What a snapshot of a large workspace takes, beside git doing the same by hand."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench._rig import median
from gonogo.workspace import Snapshots, Workspace

FILES = 10_000
CHANGED = 7
_FOLDERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Milliseconds, ours and git's."""

    first: float
    again: float
    git_first: float
    git_again: float


def snapshot_ms(runs: int, files: int = FILES) -> Took:
    """The first snapshot of a workspace, and one after a few changes.

    The yardstick is `git add --all` and `git write-tree` with an index of their own, in the same
    run, on the same files.
    """
    took = [_once(files) for _ in range(runs)]
    return Took(
        first=median([each.first for each in took]), again=median([each.again for each in took]),
        git_first=median([each.git_first for each in took]),
        git_again=median([each.git_again for each in took]),
    )  # fmt: skip


def _once(files: int) -> Took:
    with TemporaryDirectory() as folder:
        root, ours, theirs = (Path(folder) / name for name in ("work", "store", "git"))
        for number in range(files):
            path = _path(root, number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"line {number}\n" * 40)
        subprocess.run(["git", "init", "--quiet", "--bare", theirs], check=True)
        snapshots, workspace = Snapshots(ours), Workspace(root)
        first, git_first = _timed(lambda: snapshots.take(workspace)), _timed(_by_git(root, theirs))
        for number in range(CHANGED):
            _path(root, number * 13).write_text(f"changed {number}\n")
        again, git_again = _timed(lambda: snapshots.take(workspace)), _timed(_by_git(root, theirs))
        return Took(first=first, again=again, git_first=git_first, git_again=git_again)


def _path(root: Path, number: int) -> Path:
    return root / f"folder{number % _FOLDERS}" / f"file{number}.txt"


def _by_git(root: Path, store: Path) -> Callable[[], object]:
    def run() -> None:
        where = {**os.environ, "GIT_DIR": str(store), "GIT_WORK_TREE": str(root)}
        for words in (("add", "--all"), ("write-tree",)):
            subprocess.run(
                ["git", *words], env=where, cwd=root, check=True, stdout=subprocess.DEVNULL
            )

    return run


def _timed(what: Callable[[], object]) -> float:
    began = perf_counter()
    what()
    return (perf_counter() - began) * 1000
