"""The values of snapshots: the state of a file, a change of a file, and the folders around them.

Paths are relative to the workspace, with `/`; bytes of a name that are not UTF-8 are kept as
surrogates (`os.fsencode` gives the bytes back).
"""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal, NamedTuple, NewType

from msgspec import Struct

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed
from gonogo.workspace.files.safe_open import READING, best_opener, hash_all, open_component, opened

Tree = NewType("Tree", str)
"""The id of one snapshot: the hash of a git tree. Equal ids are equal snapshots."""


class FileState(Struct, frozen=True, kw_only=True):
    """One file in a snapshot. The content of a symbolic link is its target."""

    blob: str
    mode: int
    """The part of `st_mode` that is kept: the kind and nine permission bits."""
    hash: str
    """The result of `domain.base.content_hash`."""

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)


class LineCount(NamedTuple):
    """How many lines were added and removed in a file; a changed line counts as both."""

    added: int
    removed: int


class Hunks(NamedTuple):
    """The difference of two texts: the hunks of a unified diff, from the first `@@` on."""

    text: str
    cut: bool
    """The text was cut at the limit."""


class Change(Struct, frozen=True, kw_only=True):
    """The difference of two snapshots at one path; None is no file."""

    path: str
    before: FileState | None
    after: FileState | None


class Folders(Struct, frozen=True, kw_only=True):
    """Folders that were made or removed between two snapshots; parents come before children."""

    made: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


class SnapshotLimits(Struct, frozen=True, kw_only=True):
    """How much a snapshot may hold; sizes in bytes."""

    files: int = 100_000
    total: int = 1 << 30
    file: int = 128 << 20


def git_mode(mode: int) -> str:
    """The mode of an entry in a git tree."""
    if stat.S_ISLNK(mode):
        return "120000"
    return "100755" if mode & 0o100 else "100644"


def kept_mode(status_mode: int) -> int:
    """The part of `st_mode` that snapshots keep."""
    if stat.S_ISLNK(status_mode):
        return stat.S_IFLNK
    return stat.S_IFMT(status_mode) | status_mode & 0o777


def parents(path: str) -> list[str]:
    """The folders above a path, the nearest first; the root is not among them."""
    found: list[str] = []
    while "/" in path:
        path = path.rpartition("/")[0]
        found.append(path)
    return found


# What is at a path now; the look follows no links.

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_BLOCKED = (errno.ENOTDIR, errno.ELOOP)


class DiskState(Struct, frozen=True, kw_only=True):
    """What is at a path; `other` is something that snapshots do not keep or that is unreadable."""

    kind: Literal["absent", "file", "link", "folder", "other"]
    hash: str | None = None
    mode: int = 0
    linked: bool = False
    """Whether the file has a second name (a hard link)."""

    def holds(self, state: FileState) -> bool:
        """Whether the content equals that of `state`; the mode does not matter."""
        kind = "link" if state.is_link else "file"
        return self.kind == kind and self.hash == state.hash

    def equals(self, state: FileState | None) -> bool:
        """Whether content and mode equal those of `state`; None is no file."""
        if state is None:
            return self.kind in ("absent", "folder")
        return self.holds(state) and (state.is_link or self.mode == state.mode)


ABSENT = DiskState(kind="absent")
_OTHER = DiskState(kind="other")


def check_path(path: str) -> str:
    """Check that a path can be that of a file in a snapshot.

    Raises:
        ToolFailed: `bad_path`.
    """
    if "\0" in path or any(name in ("", ".", "..") for name in path.split("/")):
        raise ToolFailed("bad_path", "{path!a} is not a path of a snapshot", path=path)
    return path


@contextmanager
def parent_opened(root: int, path: str) -> Generator[tuple[int, str]]:
    """The open folder that holds `path`, and the name there."""
    parent, _, name = path.rpartition("/")
    with opened(best_opener(), root, parent or ".", _FOLDER) as folder:
        yield folder, name


def look(root: int, path: str) -> DiskState:
    """What is at a path below the root; there is nothing below a file or a link."""
    try:
        with parent_opened(root, path) as (folder, name):
            return look_in(folder, name)
    except OSError as error:
        gone = error.errno in (errno.ENOENT, *_BLOCKED)
        return ABSENT if gone else _OTHER


def look_in(folder: int, name: str) -> DiskState:
    """What an open folder has under a name."""
    try:
        status = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=folder))
            return DiskState(kind="link", hash=content_hash(target), mode=stat.S_IFLNK)
        if stat.S_ISDIR(status.st_mode):
            return DiskState(kind="folder")
        return _read(folder, name) if stat.S_ISREG(status.st_mode) else _OTHER
    except FileNotFoundError:
        return ABSENT
    except OSError:
        return _OTHER


def _read(folder: int, name: str) -> DiskState:
    file = open_component(folder, name, READING)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return _OTHER
        mode, linked = kept_mode(status.st_mode), status.st_nlink > 1
        return DiskState(kind="file", hash=hash_all(file), mode=mode, linked=linked)
    finally:
        os.close(file)


def blocker(root: int, path: str) -> str | None:
    """The file or link that is in the place of a folder above `path`; None if there is none."""
    for above in reversed(parents(path)):
        try:
            with opened(best_opener(), root, above, _FOLDER):
                continue
        except FileNotFoundError:
            return None
        except OSError:
            return above
    return None
