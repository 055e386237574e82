"""Which files of a workspace a snapshot holds.

Git says what `.gitignore` files hide; the disk is then read beneath the root's descriptor, no
link followed. Left alone are: what is ignored, other repositories with all that is in them
(nested, bare, worktrees, submodules), state folders, other file systems, and whatever is neither
a file, a link nor a folder. What was left alone is listed, so that its later appearance is not
taken for a creation. A file that once was held stays held when it is ignored later.
"""

import fcntl
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import DecodeError, Struct, field, msgpack

from gonogo.domain.errors import ToolFailed, because
from gonogo.workspace.files.content import READING, read_all
from gonogo.workspace.files.listing import STATE_FOLDERS
from gonogo.workspace.files.safe_open import best_opener, opened, told
from gonogo.workspace.snapshots.git import Git, replace_file
from gonogo.workspace.snapshots.states import SnapshotLimits, Tree

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


class FoundFile(Struct, frozen=True, gc=False):
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


class Scan(Struct):
    """What was found; paths in `unseen` end in `/` when they are folders."""

    found: dict[str, FoundFile] = field(default_factory=dict[str, FoundFile])
    empty: list[str] = field(default_factory=list[str])
    unseen: set[str] = field(default_factory=set[str])


def scan(git: Git, root: Path, known: Collection[str], limits: SnapshotLimits) -> Scan:
    """Look at everything that a snapshot of `root` holds, without reading contents.

    Args:
        known: What the last snapshot held.

    Raises:
        ToolFailed: `too_large`.
    """
    shown, hidden = _sorted_by_git(git, root, limits)
    with root_opened(root) as descriptor:
        shown.update(known)
        walk = _TreeWalk(descriptor, shown, hidden, _own_folder(git, root))
        walk.run()
        for path in known:
            if path not in walk.scan.found:
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


def content(root: int, found: FoundFile, limit: int) -> tuple[bytes, Signature] | None:
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
            return read_all(file, found.path, limit), FoundFile(found.path, status).signature
    except OSError:
        return None


class _TreeWalk:
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
            self.scan.found[path] = FoundFile(path, status)

    def _enter(self, folder: int, path: str) -> None:
        with os.scandir(folder) as entries:
            names = list(entries)
            if path != "." and (os.fstat(folder).st_dev != self._device or _is_repository(names)):
                self.scan.unseen.add(f"{path}/")
                return
            if path != "." and not names:
                self.scan.empty.append(path)
            above = "" if path == "." else f"{path}/"
            for entry in names:
                self._meet(entry, above + entry.name)

    def _meet(self, entry: os.DirEntry[str], path: str) -> None:
        if path == self._own or (entry.name.startswith(".") and _is_left_out(entry.name)):
            return
        if entry.is_dir(follow_symlinks=False):
            self._meet_folder(path)
        elif path in self._shown:
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
        kind = stat.S_IFMT(status.st_mode)
        # Git refuses a link of this name in any tree.
        if kind == stat.S_IFREG or (
            kind == stat.S_IFLNK and entry.name.casefold() != ".gitmodules"
        ):
            self.scan.found[path] = FoundFile(path, status)
        else:
            self.scan.unseen.add(path)


def _is_left_out(name: str) -> bool:
    if name in STATE_FOLDERS or name.casefold() == ".git":
        return True
    return TEMPORARY.fullmatch(name) is not None


def _is_repository(entries: Sequence[os.DirEntry[str]]) -> bool:
    names = [entry.name for entry in entries]
    return _BARE.issubset(names) or any(
        name.casefold() == ".git" for name in names if name.startswith(".")
    )


def _own_folder(git: Git, root: Path) -> str | None:
    store = git.folder.resolve()
    return store.relative_to(root).as_posix() if store.is_relative_to(root) else None


def _sorted_by_git(git: Git, root: Path, limits: SnapshotLimits) -> tuple[set[str], set[str]]:
    """What is shown to git and what is hidden; hidden folders end in `/`."""
    lines = _status(git, root, limits)
    hidden = {line[3:] for line in lines if line[0] == "!" or line[-1] == "/"}
    return {line[3:] for line in lines if line[0] == "?" and line[-1] != "/"}, hidden


def _status(git: Git, root: Path, limits: SnapshotLimits) -> list[str]:
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
    return os.fsdecode(b"".join(chunks)).split("\0")[:-1]


def _check_size(scan: Scan, limits: SnapshotLimits) -> None:
    if len(scan.found) > limits.files:
        raise _too_many(limits)
    total = 0
    for found in scan.found.values():
        size = found.status.st_size
        total += size
        if size > limits.file:
            raise ToolFailed(
                "too_large",
                "No snapshot: {path!r} has {size} bytes, more than {most}. Name it in .gitignore, "
                "or raise the limit",
                path=found.path,
                size=size,
                most=limits.file,
            )
    if total > limits.total:
        raise ToolFailed(
            "too_large",
            "No snapshot: the workspace has {total} bytes, more than {most}. Name generated files "
            "in .gitignore, or raise the limit",
            total=total,
            most=limits.total,
        )


def _too_many(limits: SnapshotLimits) -> ToolFailed:
    return ToolFailed(
        "too_large",
        "No snapshot: the workspace has more than {most} files. Name generated files in "
        ".gitignore, or raise the limit",
        most=limits.files,
    )


# What the last snapshot of one workspace held, so that the next one reads only what changed.
#
# Only a cache: when it is missing, old or damaged, everything is read again. Other processes may
# take snapshots of the same workspace; `held` lets one at a time.

PATIENCE = 60.0
"""Seconds that a lock is waited for."""

_VERSION = 3
# The clock of a file system ticks in steps; a change within the step of the last one leaves no
# trace in the times. Some keep whole or even seconds only.
_STEP = 50_000_000
_COARSE_STEP = 2_500_000_000


class HeldFile(Struct, frozen=True, array_like=True, gc=False):
    """One file as it was held; `signature` is None when it must be read again."""

    mode: int
    blob: str
    signature: Signature | None


class Index(Struct):
    """The files of the last snapshot, its id, and the id of what it says beside them."""

    files: dict[str, HeldFile] = field(default_factory=dict[str, HeldFile])
    tree: Tree | None = None
    meta: str = ""

    def distrusted(self) -> "Index":
        """The same paths, all of which must be read again."""
        return Index({path: HeldFile(known.mode, "", None) for path, known in self.files.items()})


class ScanRecord:
    """The place of one workspace in the store."""

    def __init__(self, store: Path, root: Path) -> None:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
        self.folder = store / "workspaces" / name
        self.note = self.folder / "rollback.json"
        """What a rollback that is at work, or was interrupted, is doing."""
        self._file = self.folder / "index.msgpack"
        self._read: tuple[tuple[int, int, int], Index] | None = None

    def prepare(self) -> None:
        """Create the place where there is none."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep others from taking a snapshot of this workspace meanwhile.

        Raises:
            ToolFailed: `io_error` when others take too long.
        """
        self.prepare()
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lock(descriptor, because("Another snapshot of this workspace takes too long"))
            yield
        finally:
            os.close(descriptor)

    def load(self) -> Index:
        """The last index that anybody saved."""
        mark = self._mark()
        if mark is None:
            return Index()
        if self._read is None or self._read[0] != mark:
            self._read = (mark, _decoded(self._file))
        return self._read[1]

    def save(self, index: Index) -> None:
        """Keep an index for the next snapshot."""
        replace_file(self._file, _encoded(index))
        mark = self._mark()
        self._read = None if mark is None else (mark, index)

    def new_git_index(self) -> Path:
        """The place of an index for git to make and to remove; what was left of others is gone."""
        for file in self.folder.glob("git-index*"):
            file.unlink(missing_ok=True)
        # A name of its own, so that a program that outlives a killed process has no part in it.
        return self.folder / f"git-index.{secrets.token_hex(4)}"

    def forget(self, keep: Collection[str]) -> None:
        """Forget what the last snapshot held, and what a rollback was doing.

        The next snapshot reads everything again. One that is kept, since it is somebody else's by
        now, is not forgotten.
        """
        self.note.unlink(missing_ok=True)
        if self.load().tree in keep:
            return
        self._read = None
        self._file.unlink(missing_ok=True)

    def _mark(self) -> tuple[int, int, int] | None:
        try:
            status = self._file.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def now_in(folder: Path) -> int:
    """The time of the folder's file system's clock, in nanoseconds."""
    stamp = folder / "stamp"
    stamp.touch(mode=0o600)
    return stamp.stat().st_mtime_ns


def settled(signature: Signature, horizon: int) -> Signature | None:
    """The signature, if any later change is sure to change it too."""
    changed = max(signature[2], signature[3])
    step = _STEP if signature[3] % 1_000_000_000 else _COARSE_STEP
    # A time of change in the future is that of another clock, whose steps are not known.
    return signature if changed + step < horizon else None


@contextmanager
def open_store(folder: Path, *, alone: bool = False) -> Generator[None]:
    """Be in a store beside others; or alone, to take things away.

    Raises:
        ToolFailed: `io_error` when others take too long.
    """
    descriptor = os.open(folder / "sweep.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        lock(descriptor, because("The snapshot store is busy for too long"), shared=not alone)
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int, otherwise: str, *, shared: bool = False) -> None:
    """Lock an open file or folder against others who lock it; closing it unlocks.

    Args:
        shared: Only against those who want it for themselves.

    Raises:
        ToolFailed: `io_error` with the text `otherwise` when others hold it for too long.
    """
    deadline = time.monotonic() + PATIENCE
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ToolFailed("io_error", otherwise) from None
            time.sleep(0.002)
        else:
            return


class _Saved(Struct, frozen=True, array_like=True):
    version: int
    tree: Tree | None
    meta: str
    files: dict[bytes, HeldFile]


def _encoded(index: Index) -> bytes:
    files = {os.fsencode(path): known for path, known in index.files.items()}
    return msgpack.encode(_Saved(_VERSION, index.tree, index.meta, files))


def _decoded(file: Path) -> Index:
    try:
        said = msgpack.decode(file.read_bytes(), type=_Saved)
    except (OSError, DecodeError):
        return Index()
    if said.version != _VERSION:
        return Index()
    files = {os.fsdecode(path): known for path, known in said.files.items()}
    return Index(files, said.tree, said.meta)
