"""What stands at a path now, seen without following any link."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from gonogo.domain.errors import ToolFailed
from gonogo.domain.strict_json import content_hash
from gonogo.workspace._beneath import best_opener, open_component, opened
from gonogo.workspace._content import READING, hash_all
from gonogo.workspace._states import FileState, kept_mode, parents

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_BLOCKED = (errno.ENOTDIR, errno.ELOOP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is there; `other` is what no snapshot holds, or what cannot be read."""

    kind: Literal["absent", "file", "link", "folder", "other"]
    hash: str | None = None
    mode: int = 0
    linked: bool = False
    """Whether the file has a second name."""

    def holds(self, state: FileState) -> bool:
        """Whether the content is that of `state`, whatever the mode."""
        kind = "link" if state.is_link else "file"
        return self.kind == kind and self.hash == state.hash

    def equals(self, state: FileState | None) -> bool:
        """Whether a file is here just as `state` says; None is no file."""
        if state is None:
            return self.kind in ("absent", "folder")
        return self.holds(state) and (state.is_link or self.mode == state.mode)


ABSENT = Standing(kind="absent")
_OTHER = Standing(kind="other")


def check_path(path: str) -> str:
    """Refuse what cannot be the path of a snapshot's file.

    Raises:
        ToolFailed: `bad_path`.
    """
    if "\0" in path or any(name in ("", ".", "..") for name in path.split("/")):
        raise ToolFailed("bad_path", f"{path!a} is no path of a snapshot")
    return path


@contextmanager
def parent_opened(root: int, path: str) -> Generator[tuple[int, str]]:
    """The open folder that holds `path`, and the name there."""
    parent, _, name = path.rpartition("/")
    with opened(best_opener(), root, parent or ".", _FOLDER) as folder:
        yield folder, name


def look(root: int, path: str) -> Standing:
    """What stands at a path beneath the root; nothing stands below a file or a link."""
    try:
        with parent_opened(root, path) as (folder, name):
            return look_in(folder, name)
    except OSError as error:
        gone = error.errno in (errno.ENOENT, *_BLOCKED)
        return ABSENT if gone else _OTHER


def look_in(folder: int, name: str) -> Standing:
    """What stands in an open folder under a name."""
    try:
        status = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=folder))
            return Standing(kind="link", hash=content_hash(target), mode=stat.S_IFLNK)
        if stat.S_ISDIR(status.st_mode):
            return Standing(kind="folder")
        return _read(folder, name) if stat.S_ISREG(status.st_mode) else _OTHER
    except FileNotFoundError:
        return ABSENT
    except OSError:
        return _OTHER


def _read(folder: int, name: str) -> Standing:
    file = open_component(folder, name, READING)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return _OTHER
        mode, linked = kept_mode(status.st_mode), status.st_nlink > 1
        return Standing(kind="file", hash=hash_all(file), mode=mode, linked=linked)
    finally:
        os.close(file)


def blocker(root: int, path: str) -> str | None:
    """The file or link above `path` that stands where a folder would have to."""
    for above in reversed(parents(path)):
        try:
            with opened(best_opener(), root, above, _FOLDER):
                continue
        except FileNotFoundError:
            return None
        except OSError:
            return above
    return None
