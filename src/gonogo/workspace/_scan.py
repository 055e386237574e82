"""Which files of a workspace a snapshot holds.

Git says what `.gitignore` files hide; the disk is then read beneath the root's descriptor, no
link followed. Left alone are: what is ignored, other repositories with all that is in them
(nested, bare, worktrees, submodules), state folders, other file systems, and whatever is neither
a file, a link nor a folder. What was left alone is listed, so that its later appearance is not
taken for a creation. A file that once was held stays held when it is ignored later.
"""

import os
import re
import stat
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gonogo.domain.errors import ToolFailed
from gonogo.workspace._beneath import best_opener, opened
from gonogo.workspace._content import READING, read_all
from gonogo.workspace._failures import told
from gonogo.workspace._git import Git
from gonogo.workspace._listing import STATE_FOLDERS
from gonogo.workspace._states import Limits

Signature = tuple[int, int, int, int, int]
"""Mode, size, times of change, inode: while these stay, so does the content."""

TEMPORARY = re.compile(r"\.gonogo-[0-9a-f]{16}\.tmp")
"""Names of gonogo's own files, on their way to their places."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_BARE = frozenset({"HEAD", "objects", "refs"})
_STATUS = (
    *("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all"),
    *("--untracked-files=all", "--ignored=matching"),
)
_LINES_A_FILE = 4


@dataclass(frozen=True, slots=True)
class Found:
    """One file or link on the disk."""

    path: str
    status: os.stat_result

    @property
    def signature(self) -> Signature:
        """What changes whenever the content does."""
        status = self.status
        return (
            status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino,
        )  # fmt: skip


@dataclass(slots=True)
class Scan:
    """What was found; paths in `unseen` end in `/` when they are folders."""

    found: dict[str, Found] = field(default_factory=dict[str, Found])
    empty: list[str] = field(default_factory=list[str])
    unseen: set[str] = field(default_factory=set[str])


def scan(git: Git, root: Path, known: Collection[str], limits: Limits) -> Scan:
    """Look at everything that a snapshot of `root` holds, without reading contents.

    Args:
        known: What the last snapshot held.

    Raises:
        ToolFailed: `too_large`.
    """
    shown, hidden = _sorted_by_git(git, root, limits)
    with root_opened(root) as descriptor:
        walk = _Walk(descriptor, shown | set(known), hidden, _own_folder(git, root))
        walk.run()
        for path in set(known) - walk.scan.found.keys():
            walk.take_known(path)
    _check_size(walk.scan, limits)
    return walk.scan


@contextmanager
def root_opened(root: Path) -> Generator[int]:
    """The descriptor of a workspace's root."""
    with told("."):
        descriptor = os.open(root, _FOLDER | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def content(root: int, found: Found, limit: int) -> tuple[bytes, Signature] | None:
    """What a file or link holds now, and its signature before it was read.

    Returns:
        None when it is gone, cannot be read, or is something else by now.

    Raises:
        ToolFailed: `too_large`.
    """
    parent, _, name = found.path.rpartition("/")
    try:
        if stat.S_ISLNK(found.status.st_mode):
            with opened(best_opener(), root, parent or ".", _FOLDER) as folder:
                return os.fsencode(os.readlink(name, dir_fd=folder)), found.signature
        with opened(best_opener(), root, found.path, READING) as file:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return None
            return read_all(file, found.path, limit), Found(found.path, status).signature
    except OSError:
        return None


class _Walk:
    def __init__(
        self, root: int, shown: Collection[str], hidden: Collection[str], own: str | None
    ) -> None:
        self.scan = Scan()
        self._root, self._shown, self._hidden, self._own = root, shown, hidden, own
        self._todo = ["."]
        self._device = os.fstat(root).st_dev

    def run(self) -> None:
        while self._todo:
            path = self._todo.pop()
            try:
                with opened(best_opener(), self._root, path, _FOLDER) as folder:
                    self._enter(folder, path)
            except OSError:
                self.scan.unseen.add(f"{path}/")

    def take_known(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        try:
            with opened(best_opener(), self._root, parent or ".", _FOLDER) as folder:
                status = os.lstat(name, dir_fd=folder)
        except OSError:
            return
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            self.scan.found[path] = Found(path, status)

    def _enter(self, folder: int, path: str) -> None:
        with os.scandir(folder) as entries:
            names = list(entries)
            if path != "." and (os.fstat(folder).st_dev != self._device or _is_repository(names)):
                self.scan.unseen.add(f"{path}/")
                return
            if path != "." and not names:
                self.scan.empty.append(path)
            for entry in names:
                self._meet(entry, entry.name if path == "." else f"{path}/{entry.name}")

    def _meet(self, entry: os.DirEntry[str], path: str) -> None:
        if entry.name in STATE_FOLDERS or entry.name.casefold() == ".git" or path == self._own:
            return
        if TEMPORARY.fullmatch(entry.name):
            return
        if entry.is_dir(follow_symlinks=False):
            self._meet_folder(path)
        elif path in self._shown and _is_content(entry):
            self._meet_file(entry, path)
        else:
            self.scan.unseen.add(path)

    def _meet_folder(self, path: str) -> None:
        if f"{path}/" in self._hidden:
            self.scan.unseen.add(f"{path}/")
        else:
            self._todo.append(path)

    def _meet_file(self, entry: os.DirEntry[str], path: str) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        # Git refuses a link of this name in any tree.
        if stat.S_ISLNK(status.st_mode) and entry.name.casefold() == ".gitmodules":
            self.scan.unseen.add(path)
            return
        self.scan.found[path] = Found(path, status)


def _is_content(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() or entry.is_file(follow_symlinks=False)


def _is_repository(entries: Sequence[os.DirEntry[str]]) -> bool:
    names = {entry.name for entry in entries}
    return names >= _BARE or any(name.casefold() == ".git" for name in names)


def _own_folder(git: Git, root: Path) -> str | None:
    store = git.folder.resolve()
    return store.relative_to(root).as_posix() if store.is_relative_to(root) else None


def _sorted_by_git(git: Git, root: Path, limits: Limits) -> tuple[set[str], set[str]]:
    """What is shown to git and what is hidden; hidden folders end in `/`."""
    shown: set[str] = set()
    hidden: set[str] = set()
    for line in _status(git, root, limits):
        path = os.fsdecode(line[3:])
        if line.startswith(b"!!") or path.endswith("/"):
            hidden.add(path)
        else:
            shown.add(path)
    return shown, hidden


def _status(git: Git, root: Path, limits: Limits) -> list[bytes]:
    # The index does not exist, so that every file is one that git does not know yet.
    extra = {"GIT_WORK_TREE": str(root), "GIT_INDEX_FILE": str(git.folder / "no-index")}
    chunks: list[bytes] = []
    room = limits.files * _LINES_A_FILE
    with git.process(*_STATUS, given=False, extra=extra, cwd=root) as running:
        while running.stdout and (chunk := running.stdout.read(1 << 20)):
            chunks.append(chunk)
            room -= chunk.count(b"\0")
            if room < 0:
                raise _too_many(limits)
    return b"".join(chunks).split(b"\0")[:-1]


def _check_size(scan: Scan, limits: Limits) -> None:
    if len(scan.found) > limits.files:
        raise _too_many(limits)
    total = 0
    for found in scan.found.values():
        size = found.status.st_size
        total += size
        if size > limits.file:
            raise ToolFailed(
                "too_large",
                f"No snapshot: {found.path!r} has {size} bytes and {limits.file} are the limit of "
                "one file. Name it in .gitignore, or raise the limit",
            )
    if total > limits.total:
        raise ToolFailed(
            "too_large",
            f"No snapshot: the workspace has {total} bytes and {limits.total} are the limit. Name "
            "what is made by machines in .gitignore, or raise the limit",
        )


def _too_many(limits: Limits) -> ToolFailed:
    return ToolFailed(
        "too_large",
        f"No snapshot: the workspace has more than {limits.files} files. Name what is made by "
        "machines in .gitignore, or raise the limit",
    )
