"""A copy of a workspace for one command that may write and must change nothing.

What is small is copied; what is too large for that is left out, for the box to show it read-only
where it lies. Secrets are in no copy, and links stay links.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

import anyio
import anyio.to_thread
from msgspec import Struct

from gonogo.domain.paths import is_secret

_MOST_FILES = 20_000
_MOST_BYTES = 256 << 20
_REPOSITORY = ".git"


class WorkspaceCopy(Struct, frozen=True, kw_only=True):
    """What is shown in the place of a workspace."""

    folder: Path
    left: tuple[Path, ...]
    """What of the workspace is not in it."""


class _Need(Struct, frozen=True, order=True):
    """What copying something takes."""

    size: int
    files: int


@asynccontextmanager
async def copy_of(
    workspace: Path, shown: Callable[[str], bool] | None
) -> AsyncGenerator[WorkspaceCopy]:
    """Have a copy of a workspace, for as long as the block lasts.

    Args:
        shown: Which of the workspace's secrets may be in it, by path; None is all of them.
    """
    folder = Path(await anyio.to_thread.run_sync(tempfile.mkdtemp))
    try:
        left = await anyio.to_thread.run_sync(_copy, workspace, folder, shown)
        yield WorkspaceCopy(folder=folder, left=left)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


def _copy(workspace: Path, folder: Path, shown: Callable[[str], bool] | None) -> tuple[Path, ...]:
    """Copy what there is room for, the smallest first. Gives what was left."""
    size, files = _MOST_BYTES, _MOST_FILES
    entries = [Path(entry) for entry in os.scandir(workspace)]
    left = [entry for entry in entries if entry.name == _REPOSITORY]
    for need, entry in sorted((_need(entry), entry) for entry in entries if entry not in left):
        fits = need.size <= size and need.files <= files
        if fits and _is_taken(entry, folder / entry.name, workspace, shown):
            size, files = size - need.size, files - need.files
        else:
            left.append(entry)
    return tuple(left)


def _need(entry: Path) -> _Need:
    """What it takes to copy an entry; no more is counted than there is room for."""
    size = files = 0
    for path in _below(entry):
        files += 1
        with suppress(OSError):
            status = path.lstat()
            size += status.st_size if S_ISREG(status.st_mode) else 0
        if size > _MOST_BYTES or files > _MOST_FILES:
            break
    return _Need(size, files)


def _below(entry: Path) -> Iterator[Path]:
    yield entry
    for folder, folders, names in os.walk(entry):
        yield from (Path(folder, name) for name in (*folders, *names))


def _is_taken(entry: Path, to: Path, workspace: Path, shown: Callable[[str], bool] | None) -> bool:
    """Copy an entry, without secrets, pipes and sockets. False if that cannot be done."""

    def is_left_out(path: Path) -> bool:
        inside, mode = path.relative_to(workspace).as_posix(), path.lstat().st_mode
        hidden = is_secret(inside) and shown is not None and not shown(inside)
        return hidden or not (S_ISDIR(mode) or S_ISREG(mode) or S_ISLNK(mode))

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if is_left_out(Path(folder, name))}

    try:
        if is_left_out(entry):
            return True
        if S_ISDIR(entry.lstat().st_mode):
            shutil.copytree(entry, to, symlinks=True, ignore=left_out)
        else:
            shutil.copy2(entry, to, follow_symlinks=False)
    except OSError:
        # Gone meanwhile, nobody's to read, or too much for the disk.
        shutil.rmtree(to, ignore_errors=True)
        return False
    return True
