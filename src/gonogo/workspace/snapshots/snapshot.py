"""Snapshots of workspaces: taken fast, compared, and read back byte for byte.

They are kept in a separate store. The workspace need not be a repository; if it is one, its `.git`
is never written and its settings are never read. A snapshot has the files and links that
`.gitignore` does not hide, including untracked ones, with their nine permission bits, whatever
their names and contents, and the names of empty folders. It does not have owners, extended
attributes, times, hard links as such, and what `scan` leaves out.

Equal contents are stored once, for all workspaces. A sweep removes what nobody refers to any more.
It keeps what was returned lately, as the caller may not have written that down yet.
"""

import json
import logging
import os
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field

from gonogo.domain.base import content_hash
from gonogo.domain.errors import Busy, ToolFailed, because
from gonogo.workspace.files.safe_open import root_opened
from gonogo.workspace.files.workspace import Workspace
from gonogo.workspace.snapshots.git import (
    Git,
    Kind,
    PackWriter,
    object_id,
    outlet,
    pack_writer,
    tree_object,
)
from gonogo.workspace.snapshots.objects import GRACE, NO_GRACE, Trees, pack, sweep, useless
from gonogo.workspace.snapshots.restore import Left, Restore, apply, plan, recover
from gonogo.workspace.snapshots.scan import (
    FoundFile,
    HeldFile,
    HeldFolder,
    Index,
    Scan,
    ScanRecord,
    content,
    held_folder,
    joined,
    now_in,
    open_store,
    scan,
    settled,
    split_path,
)
from gonogo.workspace.snapshots.states import (
    FileState,
    Folders,
    Hunks,
    LineCount,
    SnapshotLimits,
    Tree,
    check_path,
    git_mode,
    kept_mode,
    parent_opened,
    parents,
)

_LOG = logging.getLogger(__name__)
_NO_LIMITS = SnapshotLimits()
_NOWHERE = Path()
_Folders = dict[str, HeldFolder]
_PROBE = 1 << 20


class Snapshots:
    """A store of snapshots of any number of workspaces. All methods block."""

    def __init__(self, store: Path, *, limits: SnapshotLimits = _NO_LIMITS) -> None:
        """Open the store; it is created with the first snapshot.

        Args:
            store: A folder of its own, which is only read by its owner.
            limits: What a snapshot may hold at most.
        """
        self._git = Git(store.absolute())
        self.trees = Trees(self._git)
        """Reads and compares snapshots."""
        self._limits = limits
        self._desks: dict[Path, ScanRecord] = {}
        self._given: defaultdict[Path, dict[str, float]] = defaultdict(dict)
        """By workspace, the ids that were returned lately, and when."""
        self._guard = threading.Lock()

    def probe(self) -> None:
        """Write something beside the store, to see whether writing is possible.

        Raises:
            Busy: it is not possible now.
        """
        try:
            folder = self._git.folder.parent
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(_PROBE))
                file.flush()
        except OSError as error:
            said = because("the state folder cannot be written: {error}", error=error)
            raise Busy(reason=said) from error

    def take(self, workspace: Workspace) -> Tree:
        """Take a snapshot of the workspace as it is now.

        Raises:
            ToolFailed: `too_large`, `timeout`, or `io_error`; there is no snapshot then.
            Busy: the store cannot be written now, for example because its disk is full; there is
                no snapshot then.
        """
        with self._writing():
            self._git.prepare()
            desk = self._desk(workspace.root)
            with desk.held(), open_store(self._git.folder):
                tree = _Taking(self._git, desk, workspace.root, self._limits).run()
                self._give(workspace.root, tree)
                self._pack()
                return tree

    def blob(self, data: bytes, root: Path = _NOWHERE) -> str:
        """Store one content, such as that of an ignored file, and return its id.

        Args:
            root: The workspace that it belongs to.
        """
        with self._writing():
            self._git.prepare()
            with open_store(self._git.folder):
                return self._give(root, self._git.keep(data))

    def hold(self, workspace: Workspace, path: str) -> FileState | None:
        """Store one file as it is now, even one that snapshots leave out; None is no file.

        Raises:
            ToolFailed: `io_error`, `bad_path`, or `too_large`.
            Busy: the store cannot be written now.
        """
        with self._writing(), root_opened(workspace.root) as root:
            try:
                with parent_opened(root, check_path(path)) as (folder, name):
                    status = os.lstat(name, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError):
                return None
            read = content(root, FoundFile(path, status), self._limits.file)
        if read is None:
            return None
        kept = kept_mode(status.st_mode)
        blob = self.blob(read[0], workspace.root)
        return FileState(blob=blob, mode=kept, hash=content_hash(read[0]))

    def read(self, blob: str) -> bytes:
        """The content with this id.

        Raises:
            ToolFailed: `io_error` when it is missing or damaged.
        """
        with outlet(self._git) as contents:
            return contents.read(blob)

    def changed_lines(
        self, pairs: Sequence[tuple[str | None, str | None]]
    ) -> list[LineCount | None]:
        """Count the lines in which each pair of contents differs, as git counts them.

        All numbers of added and removed lines in gonogo come from here.

        Args:
            pairs: The ids of the contents before and after; None is no file.

        Returns:
            One count for each pair, in order; None if a content is not text, is very long, or is
            not kept any more.

        Raises:
            ToolFailed: `io_error` or `timeout`.
        """
        if not (self._git.folder / "HEAD").exists():
            return [None for _ in pairs]
        with self._writing(), open_store(self._git.folder):
            return self.trees.changed_lines(pairs)

    def hunks(
        self, pairs: Sequence[tuple[str | None, str | None]], *, limit: int, in_all: int
    ) -> list[Hunks]:
        """The differences of the texts of each pair, as the hunks of a unified diff.

        Args:
            pairs: The ids of the contents before and after; None is no file.
            limit: The most characters of one pair's hunks.
            in_all: The most characters of all hunks together.

        Returns:
            The hunks of each pair, in order; empty if nothing differs, or if `changed_lines` has no
            count. Deceptive characters are as in the files: make them visible before you show them.

        Raises:
            ToolFailed: `io_error` or `timeout`.
        """
        if not (self._git.folder / "HEAD").exists():
            return [Hunks("", cut=False) for _ in pairs]
        with self._writing(), open_store(self._git.folder):
            return self.trees.hunks(pairs, limit, in_all)

    def plan_restore(
        self,
        workspace: Workspace,
        wanted: Mapping[str, FileState | None],
        left: Mapping[str, Left],
        *,
        folders: Folders = Folders(),  # noqa: B008 - frozen
    ) -> Restore:
        """Find out what a rollback would do.

        This changes nothing, except that it first removes the remains of an interrupted rollback.

        Args:
            wanted: The state that each path should have again; None is no file.
            left: What the agent left there: the state, or only the content hash. A person's change
                of the mode can be told from the agent's only with the state.
            folders: The folders that came or went in between: made ones are removed if the rollback
                leaves them empty; empty ones that went are made again.

        Raises:
            ToolFailed: `invalid_arguments` if a path is missing in `left`, `bad_path`.
        """
        self.recover(workspace)
        return plan(workspace, wanted, left, folders)

    def apply(self, workspace: Workspace, restore: Restore) -> None:
        """Carry out a rollback as planned, completely or not at all.

        After a crash in the middle, applying the same plan again finishes the work; so does a new
        plan from the same facts.

        Raises:
            ToolFailed: `changed_since_approval` if a file is neither as planned nor as wanted, and
                `io_error`; the workspace is then unchanged.
        """
        apply(self._git, self._desk(workspace.root), workspace.root, restore)

    def recover(self, workspace: Workspace) -> None:
        """Remove temporary files that an interrupted `apply` left. Files keep their contents."""
        recover(self._desk(workspace.root), workspace.root)

    def sweep(self, keep: Iterable[str], *, grace: float = GRACE) -> int:
        """Remove what nobody needs, and return the number of removed objects and packs.

        Args:
            keep: The ids of all snapshots and contents that somebody may still need.
            grace: Objects that were stored in the last so many seconds stay in any case.

        Raises:
            ToolFailed: `io_error` or `timeout`; everything that is needed is still there.
        """
        return self._swept(keep, self._given_since(time.monotonic() - grace), grace, sweep)

    def useless(self, keep: Iterable[str]) -> int:
        """About how many bytes a sweep would free.

        Raises:
            ToolFailed: `io_error` or `timeout`.
        """
        given = self._given_since(time.monotonic() - GRACE)
        return self._swept(keep, given, GRACE, useless)

    def forget(self, root: Path, keep: Iterable[str]) -> int:
        """Remove what nobody needs, however new it is, and return the number of removed objects.

        The caller makes sure that nobody is at work in this workspace.

        Args:
            keep: As for `sweep`. The index of the workspace is removed if its snapshot is.

        Raises:
            ToolFailed: `io_error` or `timeout`; everything that is needed is still there.
        """
        kept, desk = {*keep}, self._desk(root)
        given = self._given_since(time.monotonic() - GRACE)
        self._given.pop(root, None)
        others = {root_: ids for root_, ids in given.items() if root_ != root}
        if desk.folder.exists():
            with self._writing(), desk.held():
                desk.forget(kept)
        return self._swept(kept, others, NO_GRACE, sweep)

    @property
    def size(self) -> int:
        """The size of the store in bytes."""
        return sum(path.lstat().st_size for path in self._git.folder.rglob("*") if path.is_file())

    def _swept(
        self,
        keep: Iterable[str],
        given: Mapping[Path, Iterable[str]],
        grace: float,
        how: Callable[[Git, Iterable[str], float], int],
    ) -> int:
        if not (self._git.folder / "HEAD").exists():
            return 0
        with self._writing(), open_store(self._git.folder, alone=True):
            return how(self._git, {*keep, *(id_ for ids in given.values() for id_ in ids)}, grace)

    def _give(self, root: Path, name: str) -> str:
        with self._guard:
            self._given[root][name] = time.monotonic()
        return name

    def _given_since(self, since: float) -> dict[Path, set[str]]:
        """The ids that were returned since a moment; older ones are forgotten."""
        with self._guard:
            for root, given in self._given.items():
                self._given[root] = {name: at for name, at in given.items() if at >= since}
            return {root: {*given} for root, given in self._given.items() if given}

    def _pack(self) -> None:
        try:
            pack(self._git)
        except ToolFailed as failure:
            # Harmless: the store only takes more space.
            _LOG.warning("snapshots were not packed: %s", failure)

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Raise `Busy` if the store cannot be written, so that only other errors remain."""
        try:
            yield
        except (ToolFailed, OSError) as error:
            if isinstance(error, OSError) or error.kind == "io_error":
                self.probe()
            if isinstance(error, OSError):
                raise ToolFailed("io_error", "No snapshot: {error}", error=error) from error
            raise

    def _desk(self, root: Path) -> ScanRecord:
        with self._guard:
            return self._desks.setdefault(root, ScanRecord(self._git.folder, root))


class _Taking(Struct):
    """One snapshot while it is being taken."""

    git: Git
    desk: ScanRecord
    root: Path
    limits: SnapshotLimits
    there: set[str] = field(default_factory=set[str])
    """The ids of objects that are known to be in the store."""
    used_again: list[str] = field(default_factory=list[str])

    def run(self) -> Tree:
        index = self.desk.load()
        self.there = index.names()
        if self.git.lacking(self.there):
            # The store has lost objects that the index names: read everything again.
            index, self.there = index.distrusted(), set()
        horizon = now_in(self.desk.folder)
        seen = scan(self.git, self.root, index, self.limits)
        with pack_writer(self.git.folder) as pack:
            folders = self._read(seen, index, horizon, pack)
            meta = self._hold(pack, "blob", _meta(seen, folders))
            trees = self._trees(index, folders, pack)
            top = [("files", "40000", trees["."])] if trees else []
            tree = Tree(self._hold(pack, "tree", tree_object([*top, ("meta", "100644", meta)])))
        self.git.renew(self.used_again)
        rules = seen.settled_rules(horizon)
        now = Index(folders, tree, meta, seen.ignored, rules, trees)
        if now != index:
            self.desk.save(now)
        return tree

    def _hold(self, pack: PackWriter, kind: Kind, data: bytes) -> str:
        """Make sure that an object is in the store, and return its id."""
        name = object_id(kind, data)
        if name not in self.there:
            self.there.add(name)
            if self.git.has(name):
                self.used_again.append(name)
            else:
                pack.write(kind, name, data)
        return name

    def _read(self, seen: Scan, index: Index, horizon: int, pack: PackWriter) -> _Folders:
        """The records of all folders; new contents go into the store."""
        with root_opened(self.root) as root:
            for found in sorted(seen.changed, key=lambda found: found.path):
                read = content(root, found, self.limits.file)
                if read is None:
                    seen.unseen.add(found.path)
                    continue
                folder, name = split_path(found.path)
                signature = settled(read[1], horizon)
                mode = found.status.st_mode if signature is None else signature[0]
                held = HeldFile(kept_mode(mode), self._hold(pack, "blob", read[0]), signature)
                seen.same.setdefault(folder, {})[name] = held
        last = index.folders
        return seen.folders | {
            path: _as_before(last.get(path), files) or held_folder(files)
            for path, files in seen.same.items()
        }

    def _trees(self, index: Index, folders: _Folders, pack: PackWriter) -> dict[str, str]:
        """The trees of all folders; those of unchanged folders are in the store already."""
        changed = _with_parents(_changed(index.folders, folders))
        if not changed:
            return index.trees
        trees, below = dict(index.trees), _below(folders)
        for path in sorted(changed, key=lambda path: -len(parents(path)) if path != "." else 1):
            files = folders[path].files if path in folders else {}
            entries = [
                (name, git_mode(held.mode), held.blob)
                for name, held in files.items() if name not in below[path]
            ]  # fmt: skip
            entries += [(name, "40000", trees[joined(path, name)]) for name in below[path]]
            if entries:
                trees[path] = self._hold(pack, "tree", tree_object(entries))
            else:
                trees.pop(path, None)
        return trees


def _as_before(last: HeldFolder | None, files: dict[str, HeldFile]) -> HeldFolder | None:
    return last if last is not None and last.files == files else None


def _below(folders: _Folders) -> defaultdict[str, set[str]]:
    """For each folder, its subfolders that have files in or below them."""
    below: defaultdict[str, set[str]] = defaultdict(set)
    for path, folder in folders.items():
        while folder.files and path != ".":
            above, name = split_path(path)
            if name in below[above]:
                break
            below[above].add(name)
            path = above
    return below


def _changed(old: _Folders, new: _Folders) -> Iterator[str]:
    """The folders whose trees have other entries than before."""
    for path in old.keys() | new.keys():
        before, after = old.get(path), new.get(path)
        if before is not after and _held_in(before) != _held_in(after):
            yield path


def _held_in(folder: HeldFolder | None) -> dict[str, tuple[int, str]]:
    files = folder.files if folder else {}
    return {name: (held.mode, held.blob) for name, held in files.items()}


def _with_parents(paths: Iterable[str]) -> set[str]:
    return {above for path in paths for above in (path, *parents(path), ".")}


def _meta(seen: Scan, folders: _Folders) -> bytes:
    """What a git tree cannot express: rare modes, empty folders, and files that were left out."""
    modes = sorted(
        (joined(path, name), mode)
        for path, folder in folders.items() if folder.rare
        for name, mode in folder.rare.items()
    )  # fmt: skip
    said = {"empty": sorted(seen.empty), "modes": dict(modes), "unseen": sorted(seen.unseen)}
    return json.dumps(said, separators=(",", ":")).encode()
