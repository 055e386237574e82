"""Which files of a workspace are in a snapshot.

Git says what `.gitignore` files hide; the disk is then read beneath the root's descriptor, without
following links. Left out are: ignored files, other repositories with their contents (nested, bare,
worktrees, submodules), state folders, other file systems, and everything that is not a file, a link
or a folder. A snapshot lists what it left out, so that a later snapshot with it shows no creation.
A file that was once in a snapshot stays in later ones, even if it is ignored by then.
"""

import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path

from msgspec import DecodeError, Raw, Struct, field, msgpack

from gonogo.domain.errors import ToolFailed, because
from gonogo.workspace.files.safe_open import (
    READING,
    best_opener,
    opened,
    read_all,
    root_opened,
)
from gonogo.workspace.files.search import STATE_FOLDERS
from gonogo.workspace.snapshots.git import Git, replace_file
from gonogo.workspace.snapshots.states import SnapshotLimits, Tree

Signature = tuple[int, int, int, int, int]
"""Mode, size, times of change, inode: while these are the same, so is the content."""

TEMPORARY = re.compile(r"\.gonogo-[0-9a-f]{16}\.tmp")
"""Names of gonogo's own temporary files."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_BARE = frozenset({"HEAD", "objects", "refs"})
_AT_ONCE = frozenset({"HEAD", "commondir"})
"""Files that git reads in a possible repository, as it reads `.gitignore` in every folder."""
_LONGEST_RULES = 8 << 20
_STATUS = (
    *("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all"),
    *("--untracked-files=all", "--ignored=matching"),
)
_LINES_A_FILE = 4
_MOST_ASKED = 200
"""The most paths that git is asked about by name."""
RULES = ".gitignore"
_USUAL_MODES = {stat.S_IFREG | 0o644, stat.S_IFREG | 0o755, stat.S_IFLNK}
_facts: Callable[[os.stat_result], Signature] = attrgetter(
    "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino"
)


class FoundFile(Struct, frozen=True, gc=False):
    """One file or link on the disk."""

    path: str
    status: os.stat_result

    @property
    def signature(self) -> Signature:
        """A value that changes whenever the content changes."""
        return _facts(self.status)


class HeldFile(Struct, frozen=True, array_like=True, gc=False):
    """One file of a snapshot; `signature` is None if the file must be read again."""

    mode: int
    blob: str
    signature: Signature | None


class HeldFolder(Struct, frozen=True):
    """The files of one folder in a snapshot, by their names, and values computed from them.

    A folder in which nothing changed is the same object in the next snapshot, so nothing of it is
    processed again.
    """

    files: dict[str, HeldFile]
    size: int
    largest: int
    """The size of the largest file."""
    rare: dict[str, int]
    """The modes that a git tree cannot express."""
    encoded: Raw
    """The form in which it is saved."""


def held_folder(files: dict[str, HeldFile]) -> HeldFolder:
    """Make a folder of files; `files` must not be changed afterwards."""
    sizes = [held.signature[1] for held in files.values() if held.signature is not None]
    return HeldFolder(
        files, size=sum(sizes), largest=max(sizes, default=0),
        rare={
            name: stat.S_IMODE(held.mode)
            for name, held in files.items() if held.mode not in _USUAL_MODES
        },
        encoded=Raw(msgpack.encode({os.fsencode(name): held for name, held in files.items()})),
    )  # fmt: skip


class Index(Struct):
    """The files of the last snapshot, its id, and the id of its metadata."""

    folders: dict[str, HeldFolder] = field(default_factory=dict[str, HeldFolder])
    """The folders that were looked into, and those with files. The root is `.`."""
    tree: Tree | None = None
    meta: str = ""
    ignored: set[str] = field(default_factory=set[str])
    """What git ignores; folders end in `/`."""
    rules: dict[str, Signature | None] | None = None
    """The `.gitignore` files from which git knew that; None if they may have changed."""

    trees: dict[str, str] = field(default_factory=dict[str, str])
    """The git trees of all folders that are not empty."""

    def names(self) -> set[str]:
        """The ids of all objects that the index names."""
        blobs = {held.blob for folder in self.folders.values() for held in folder.files.values()}
        return {*blobs, *self.trees.values(), self.meta, self.tree or ""} - {""}

    def distrusted(self) -> "Index":
        """The same paths, all of which must be read again."""
        return Index({
            path: held_folder({
                name: HeldFile(held.mode, "", None) for name, held in folder.files.items()
            })
            for path, folder in self.folders.items()
        })  # fmt: skip


class Scan(Struct):
    """The result of a scan; folders in `unseen` (what was left out) end in `/`."""

    folders: dict[str, HeldFolder] = field(default_factory=dict[str, HeldFolder])
    """The folders in which nothing changed."""
    same: dict[str, dict[str, HeldFile]] = field(default_factory=dict[str, dict[str, HeldFile]])
    """For every other folder, the files that did not change."""
    changed: list[FoundFile] = field(default_factory=list[FoundFile])
    """The files that must be read."""
    empty: list[str] = field(default_factory=list[str])
    unseen: set[str] = field(default_factory=set[str])
    ignored: set[str] = field(default_factory=set[str])
    rules: dict[str, Signature] = field(default_factory=dict[str, Signature])

    def settled_rules(self, horizon: int) -> dict[str, Signature | None]:
        """The `.gitignore` files; None for one of which a later change might not be seen."""
        # The signature of a link does not show changes of its target.
        return {
            path: settled(mark, horizon) if stat.S_ISREG(mark[0]) else None
            for path, mark in self.rules.items()
        }


def scan(git: Git, root: Path, last: Index, limits: SnapshotLimits) -> Scan:
    """Find everything for a snapshot of `root`, without reading contents.

    Git is asked only about names that are new since the last snapshot. What it said of the others
    stays valid as long as the `.gitignore` files do not change.

    Raises:
        ToolFailed: `too_large`.
    """
    # If the root does not exist, the error must be about the workspace, not about a path in it.
    root.stat()
    with root_opened(root) as descriptor:
        walk = _TreeWalk(descriptor, last, _own_folder(git, root))
        if last.rules is not None and None not in last.rules.values():
            walk.run()
        if walk.scan.rules != last.rules:
            walk = _TreeWalk(descriptor, last, _own_folder(git, root))
            walk.hear(*_sorted_by_git(git, root, descriptor, limits, ()))
            walk.run()
        elif walk.asked:
            walk.hear(*_sorted_by_git(git, root, descriptor, limits, walk.asked))
            walk.resume()
        walk.finish()
    _check_size(walk.scan, limits)
    return walk.scan


def content(root: int, found: FoundFile, limit: int) -> tuple[bytes, Signature] | None:
    """The content of a file or link now, and its signature before it was read.

    Returns:
        None if it is gone, cannot be read, or is something else by now.

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
    """Looks into every folder, and compares what it finds with the last snapshot."""

    def __init__(self, root: int, last: Index, own: str | None) -> None:
        self.scan = Scan()
        self.asked: list[str] = []
        """New paths about which git must be asked; nothing below them was looked at."""
        self._root, self._last, self._own = root, last, own
        self._shown: Collection[str] | None = None
        self._hidden: Collection[str] = last.ignored
        self._todo = ["."]
        self._device = os.fstat(root).st_dev

    def hear(self, shown: Collection[str], hidden: Collection[str], ignored: set[str]) -> None:
        """Take git's answer about the paths that it was asked about."""
        self._shown, self._hidden = shown, hidden
        self.scan.ignored |= ignored

    def run(self) -> None:
        while self._todo:
            path = self._todo.pop()
            same = self.scan.same.setdefault(path, {})
            try:
                with opened(best_opener(), self._root, path, _FOLDER) as folder:
                    self._enter(folder, path, same)
            except OSError:
                self.scan.unseen.add(f"{path}/")

    def resume(self) -> None:
        """Look at the paths that git was asked about."""
        for path in self.asked:
            if path[-1] == "/":
                self._meet_folder(path)
            elif path in (self._shown or ()):
                self._take(path)
            else:
                self.scan.unseen.add(path)
        self.run()

    def finish(self) -> None:
        """Look for files of the last snapshot that were not met, and find unchanged folders."""
        met = {found.path for found in self.scan.changed}
        for path, folder in self._last.folders.items():
            # For example files of a folder that is ignored by now.
            missing = folder.files.keys() - self.scan.same.get(path, {}).keys()
            for full in {joined(path, name) for name in missing} - met:
                self._take(full)
        others = {split_path(found.path)[0] for found in self.scan.changed}
        for path, files in [*self.scan.same.items()]:
            last = self._last.folders.get(path)
            if last and len(files) == len(last.files) and path not in others:
                self.scan.folders[path] = last
                del self.scan.same[path]

    def _take(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        try:
            with opened(best_opener(), self._root, parent or ".", _FOLDER) as folder:
                status = os.lstat(name, dir_fd=folder)
        except OSError:
            return
        if _can_be_held(name, status.st_mode):
            self._hold(path, status)

    def _hold(self, path: str, status: os.stat_result) -> None:
        parent, name = split_path(path)
        folder = self._last.folders.get(parent)
        held = folder.files.get(name) if folder else None
        if held is not None and held.signature == _facts(status):
            self.scan.same.setdefault(parent, {})[name] = held
        else:
            self.scan.changed.append(FoundFile(path, status))

    def _enter(self, folder: int, path: str, same: dict[str, HeldFile]) -> None:
        with os.scandir(folder) as entries:
            names = list(entries)
            if path != "." and (os.fstat(folder).st_dev != self._device or _is_repository(names)):
                self.scan.unseen.add(f"{path}/")
                return
            if path != "." and not names:
                self.scan.empty.append(path)
            last = self._last.folders.get(path)
            files = last.files if last else {}
            others = _unlike(names, files, same)
            if (rules := same.get(RULES)) and rules.signature:
                self.scan.rules[joined(path, RULES)] = rules.signature
            for entry in others:
                self._meet(entry, joined(path, entry.name), known=entry.name in files)

    def _meet(self, entry: os.DirEntry[str], path: str, *, known: bool) -> None:
        if path == self._own or (entry.name.startswith(".") and _is_left_out(entry.name)):
            return
        if entry.is_dir(follow_symlinks=False):
            self._meet_folder(f"{path}/")
            return
        if entry.name == RULES:
            self._note_rules(entry, path)
        if known or not self._is_hidden(path):
            self._meet_file(entry, path, known=known)
        else:
            self._leave_out(path)

    def _is_hidden(self, path: str) -> bool:
        return path in self._hidden if self._shown is None else path not in self._shown

    def _meet_folder(self, path: str) -> None:
        if path in self._hidden:
            self._leave_out(path, is_empty=self._is_empty(path))
            # A repository may stop being one, so the next scan looks into it.
            if path not in self.scan.ignored:
                self.scan.same.setdefault(path[:-1], {})
        elif self._shown is None and path[:-1] not in self._last.folders:
            self.asked.append(path)
        else:
            self._todo.append(path[:-1])

    def _is_empty(self, path: str) -> bool:
        try:
            with opened(best_opener(), self._root, path, _FOLDER) as folder:
                return not os.listdir(folder)
        except OSError:
            return False

    def _leave_out(self, path: str, *, is_empty: bool = False) -> None:
        if is_empty:
            # An empty folder hides nothing: a file in it in a later snapshot is new.
            self.scan.empty.append(path[:-1])
        else:
            self.scan.unseen.add(path)
        if path in self._last.ignored and self._shown is None:
            self.scan.ignored.add(path)

    def _note_rules(self, entry: os.DirEntry[str], path: str) -> None:
        with suppress(OSError):
            self.scan.rules[path] = _facts(entry.stat(follow_symlinks=False))

    def _meet_file(self, entry: os.DirEntry[str], path: str, *, known: bool) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if not _can_be_held(entry.name, status.st_mode):
            self._leave_out(path)
        elif known or self._shown is not None:
            self._hold(path, status)
        else:
            self.asked.append(path)


def _unlike(
    entries: Iterable[os.DirEntry[str]], last: Mapping[str, HeldFile], same: dict[str, HeldFile]
) -> list[os.DirEntry[str]]:
    """The entries that differ from the last snapshot; the others are put into `same`.

    This runs for each file of a workspace, so it must be fast; nothing else does.
    """
    others: list[os.DirEntry[str]] = []
    for entry in entries:
        held = last.get(entry.name)
        try:
            if held is not None and held.signature == _facts(entry.stat(follow_symlinks=False)):
                same[entry.name] = held
                continue
        except OSError:
            pass
        others.append(entry)
    return others


def split_path(path: str) -> tuple[str, str]:
    """The folder of a file, and its name there."""
    parent, _, name = path.rpartition("/")
    return parent or ".", name


def joined(folder: str, name: str) -> str:
    """The path of a file by its folder and its name there."""
    return name if folder == "." else f"{folder}/{name}"


def _can_be_held(name: str, mode: int) -> bool:
    # Git refuses a link of this name in every tree.
    return stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and name.casefold() != ".gitmodules")


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


def _sorted_by_git(
    git: Git, root: Path, descriptor: int, limits: SnapshotLimits, asked: Collection[str]
) -> tuple[set[str], set[str], set[str]]:
    """The files that git shows, what it hides, and what of that is ignored; folders end in `/`.

    Args:
        asked: The paths to ask git about; if there are none or very many, it is asked about all.
    """
    named = [path.rstrip("/") for path in asked] if len(asked) <= _MOST_ASKED else []
    _check_readable(descriptor, named)
    words = ("--", *named) if named else ()
    lines = _status(git, root, limits, words)
    ignored = {line[3:] for line in lines if line[0] == "!"}
    hidden = ignored | {line[3:] for line in lines if line[-1] == "/"}
    return {line[3:] for line in lines if line[0] == "?" and line[-1] != "/"}, hidden, ignored


def _check_readable(root: int, asked: Collection[str]) -> None:
    """Refuse files that git would read without end, such as a pipe that nobody writes to."""
    todo = list(asked) or ["."]
    while todo:
        path = todo.pop()
        with (
            suppress(OSError),
            opened(best_opener(), root, path, _FOLDER) as folder,
            os.scandir(folder) as entries,
        ):
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(joined(path, entry.name))
                elif (entry.name == RULES or entry.name in _AT_ONCE) and _is_endless(entry):
                    raise _unreadable(joined(path, entry.name))


def _is_endless(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        status = entry.stat()  # of a link's target, as git reads that
        return not stat.S_ISREG(status.st_mode) or status.st_size > _LONGEST_RULES
    return False


def _unreadable(path: str) -> ToolFailed:
    return ToolFailed(
        "not_a_regular_file",
        "No snapshot: git would not come to the end of {path!r}, which is a pipe, a device or has "
        "more than {most} bytes; remove it",
        path=path,
        most=_LONGEST_RULES,
    )


def _status(git: Git, root: Path, limits: SnapshotLimits, words: Sequence[str]) -> list[str]:
    # The git index does not exist, so every file is untracked for git.
    extra = {"GIT_WORK_TREE": str(root), "GIT_INDEX_FILE": str(git.folder / "no-index")}
    chunks: list[bytes] = []
    room = limits.files * _LINES_A_FILE
    with git.process(*_STATUS, *words, given=False, extra=extra, cwd=root) as running:
        while running.stdout and (chunk := running.stdout.read(1 << 20)):
            chunks.append(chunk)
            room -= chunk.count(b"\0")
            if room < 0:
                raise _too_many(limits)
    return os.fsdecode(b"".join(chunks)).split("\0")[:-1]


def _check_size(scan: Scan, limits: SnapshotLimits) -> None:
    sizes = [*_sizes(scan, limits.file)]
    files = sum(len(folder.files) for folder in scan.folders.values())
    if files + sum(map(len, scan.same.values())) + len(scan.changed) > limits.files:
        raise _too_many(limits)
    for path, size in sizes:
        if path and size > limits.file:
            raise ToolFailed(
                "too_large",
                "No snapshot: {path!r} has {size} bytes, more than {most}. Name it in .gitignore, "
                "or raise the limit",
                path=path,
                size=size,
                most=limits.file,
            )
    total = sum(size for _, size in sizes)
    if total > limits.total:
        raise ToolFailed(
            "too_large",
            "No snapshot: the workspace has {total} bytes, more than {most}. Name generated files "
            "in .gitignore, or raise the limit",
            total=total,
            most=limits.total,
        )


def _sizes(scan: Scan, most: int) -> Iterator[tuple[str, int]]:
    """Paths with sizes; an unchanged folder counts as one, unless a file in it is over `most`."""
    for found in scan.changed:
        yield found.path, found.status.st_size
    whole = {path: folder for path, folder in scan.folders.items() if folder.largest <= most}
    for folder in whole.values():
        yield "", folder.size
    parts = {path: held.files for path, held in scan.folders.items() if path not in whole}
    for path, files in (scan.same | parts).items():
        for name, held in files.items():
            if held.signature is not None:
                yield joined(path, name), held.signature[1]


def _too_many(limits: SnapshotLimits) -> ToolFailed:
    return ToolFailed(
        "too_large",
        "No snapshot: the workspace has more than {most} files. Name generated files in "
        ".gitignore, or raise the limit",
        most=limits.files,
    )


# The record of the last snapshot of one workspace, so that the next one reads only what changed.
#
# It is only a cache: if it is missing, old or damaged, everything is read again. Other processes
# may take snapshots of the same workspace; `held` lets in one at a time.

PATIENCE = 60.0
"""How many seconds to wait for a lock."""

_VERSION = 4
# The clock of a file system ticks in steps; a second change within the same step does not change
# the times. Some file systems store only whole seconds, or only even ones.
_STEP = 50_000_000
_COARSE_STEP = 2_500_000_000


class ScanRecord:
    """The record of one workspace in the store."""

    def __init__(self, store: Path, root: Path) -> None:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
        self.folder = store / "workspaces" / name
        self.note = self.folder / "rollback.json"
        """The note of a rollback that is at work or was interrupted."""
        self._file = self.folder / "index.msgpack"
        self._read: tuple[tuple[int, int, int], Index] | None = None

    def prepare(self) -> None:
        """Create the folder if it does not exist."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def held(self) -> Generator[None]:
        """Lock the workspace against other snapshots inside this context.

        Raises:
            ToolFailed: `io_error` if others take too long.
        """
        self.prepare()
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lock(descriptor, because("Another snapshot of this workspace takes too long"))
            yield
        finally:
            os.close(descriptor)

    def load(self) -> Index:
        """The last saved index, by whatever process."""
        mark = self._mark()
        if mark is None:
            return Index()
        if self._read is None or self._read[0] != mark:
            self._read = (mark, _decoded(self._file))
        return self._read[1]

    def save(self, index: Index) -> None:
        """Save an index for the next snapshot."""
        replace_file(self._file, _encoded(index))
        mark = self._mark()
        self._read = None if mark is None else (mark, index)

    def forget(self, keep: Collection[str]) -> None:
        """Delete the index of the last snapshot, and the note of a rollback.

        The next snapshot then reads everything again. The index stays if its snapshot is in `keep`,
        as somebody else uses it by now.
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
    """The time of the clock of a folder's file system, in nanoseconds."""
    stamp = folder / "stamp"
    stamp.touch(mode=0o600)
    return stamp.stat().st_mtime_ns


def settled(signature: Signature, horizon: int) -> Signature | None:
    """The signature, if every later change of the file surely changes it; otherwise None."""
    changed = max(signature[2], signature[3])
    step = _STEP if signature[3] % 1_000_000_000 else _COARSE_STEP
    # A time in the future comes from another clock, whose steps are unknown.
    return signature if changed + step < horizon else None


@contextmanager
def open_store(folder: Path, *, alone: bool = False) -> Generator[None]:
    """Use a store together with others; or alone, to remove objects.

    Raises:
        ToolFailed: `io_error` if others take too long.
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
        shared: Lock only against those who want it for themselves.

    Raises:
        ToolFailed: `io_error` with the text `otherwise` if others have the lock for too long.
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
    ignored: list[bytes]
    rules: dict[bytes, Signature | None] | None
    folders: dict[bytes, Raw]
    trees: dict[bytes, str]


def _encoded(index: Index) -> bytes:
    rules = index.rules
    return msgpack.encode(_Saved(
        _VERSION, index.tree, index.meta, [os.fsencode(path) for path in index.ignored],
        None if rules is None else {os.fsencode(path): mark for path, mark in rules.items()},
        {os.fsencode(path): folder.encoded for path, folder in index.folders.items()},
        {os.fsencode(path): tree for path, tree in index.trees.items()},
    ))  # fmt: skip


def _decoded(file: Path) -> Index:
    try:
        said = msgpack.decode(file.read_bytes(), type=_Saved)
        if said.version != _VERSION:
            return Index()
        folders = {os.fsdecode(path): _folder(raw) for path, raw in said.folders.items()}
    except (OSError, DecodeError):
        return Index()
    rules = said.rules
    return Index(
        folders, said.tree, said.meta, {os.fsdecode(path) for path in said.ignored},
        None if rules is None else {os.fsdecode(path): mark for path, mark in rules.items()},
        {os.fsdecode(path): tree for path, tree in said.trees.items()},
    )  # fmt: skip


def _folder(raw: Raw) -> HeldFolder:
    said = msgpack.decode(raw, type=dict[bytes, HeldFile])
    return held_folder({os.fsdecode(name): held for name, held in said.items()})
