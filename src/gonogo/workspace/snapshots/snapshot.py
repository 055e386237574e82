"""Snapshots of workspaces: taken fast, compared, and read back byte for byte.

They live in a store of their own. The workspace need be no repository; if it is one, not a byte
of its `.git` is written and none of its settings is read. Held are the files and links that
`.gitignore` does not hide, untracked ones included, with their nine permission bits, whatever
their names and contents, and the names of empty folders. Not held: owners, extended attributes,
times, hard links as such, and what `_scan` leaves alone.

Equal contents are held once, whoever they belong to; what nobody names any more is swept. What was
given out lately stays meanwhile, since whoever asked for it may not have written that down yet.
"""

import json
import logging
import os
import stat
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from gonogo.domain.errors import Busy, ToolFailed, because
from gonogo.domain.strict_json import content_hash
from gonogo.workspace.files.workspace import Workspace
from gonogo.workspace.snapshots.git import (
    Entry,
    Git,
    Intake,
    blob_id,
    intake,
    outlet,
    speaks_of_lost,
)
from gonogo.workspace.snapshots.restore import Left, Restore, apply, plan, recover
from gonogo.workspace.snapshots.scan import (
    FoundFile,
    HeldFile,
    Index,
    Scan,
    ScanRecord,
    content,
    now_in,
    open_store,
    root_opened,
    scan,
    settled,
)
from gonogo.workspace.snapshots.states import (
    Change,
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
)
from gonogo.workspace.snapshots.sweep import GRACE, NO_GRACE, pack, sweep, useless
from gonogo.workspace.snapshots.trees import Trees

_LOG = logging.getLogger(__name__)
_NO_LIMITS = SnapshotLimits()
_USUAL_MODES = {stat.S_IFREG | 0o644, stat.S_IFREG | 0o755, stat.S_IFLNK}
_NOWHERE = Path()
_Files = dict[str, HeldFile]
_Changes = dict[str, HeldFile | None]
_PROBE = 1 << 20
_FEW = 64
"""Changes that a tree is made of without an index of all its files."""
_MOST_BESIDE = 2_000


class Snapshots:
    """A store of snapshots of any number of workspaces. All methods block."""

    def __init__(self, store: Path, *, limits: SnapshotLimits = _NO_LIMITS) -> None:
        """Open the store; it is created with the first snapshot.

        Args:
            store: A folder of its own, which is only read by its owner.
            limits: What a snapshot may hold at most.
        """
        self._git = Git(store.absolute())
        self._trees = Trees(self._git)
        self._limits = limits
        self._desks: dict[Path, ScanRecord] = {}
        self._given: defaultdict[Path, dict[str, float]] = defaultdict(dict)
        """By workspace, what was given out of it, and when."""
        self._guard = threading.Lock()

    def probe(self) -> None:
        """Write something beside the store, to see whether that can be done.

        Raises:
            Busy: not now.
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
        """Hold what is in the workspace now.

        Raises:
            ToolFailed: `too_large`, `timeout`, or `io_error`.
            Busy: the store cannot be written now, as when its disk is full.

        Either way nothing was held.
        """
        with self._writing():
            self._git.prepare()
            desk = self._desk(workspace.root)
            with desk.held(), open_store(self._git.folder):
                tree = self._taken(_Taking(self._git, desk, workspace.root, self._limits))
                self._give(workspace.root, tree)
                self._pack()
                return tree

    def blob(self, data: bytes, root: Path = _NOWHERE) -> str:
        """Hold one content, such as that of an ignored file, and return its id.

        Args:
            root: The workspace that it belongs to.
        """
        with self._writing():
            self._git.prepare()
            with open_store(self._git.folder):
                return self._give(root, self._git.keep(data))

    def hold(self, workspace: Workspace, path: str) -> FileState | None:
        """Hold one file as it is now, even one that snapshots leave alone; None is no file.

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

    def diff(self, before: Tree, after: Tree) -> tuple[Change, ...]:
        """What came, went or changed between two snapshots, in the order of the paths.

        A file that the first one left alone, such as one that was ignored, has no known state
        there: that it is in the second one is no change.
        """
        return self._trees.diff(before, after)

    def folders(self, before: Tree, after: Tree) -> Folders:
        """The folders that came or went between two snapshots, for `plan_restore`."""
        return self._trees.folders(before, after)

    def hides(self, tree: Tree, path: str) -> bool:
        """Whether a snapshot left a path alone, such as one that is ignored: nobody knows of it."""
        return self._trees.hides(tree, path)

    def unified(self, before: Tree, after: Tree, path: str, *, limit: int = 1 << 20) -> str:
        """The difference of one file as text, empty when there is none.

        Args:
            limit: Characters; a longer text is cut, and ends with a line that says so.

        What could deceive is as it stands in the files: make it visible before it is shown.
        """
        return self._trees.unified(before, after, path, limit)

    def changed_lines(
        self, pairs: Sequence[tuple[str | None, str | None]]
    ) -> list[LineCount | None]:
        """How many lines each pair of contents differs by, as git counts them.

        Everything that speaks of lines that were added and removed counts them with this.

        Args:
            pairs: The ids of the content before and of the one after; None is no file.

        Returns:
            Of each pair in turn; None where nobody can tell, since one of the two is no text, is
            very long, or is kept no more.

        Raises:
            ToolFailed: `io_error` or `timeout`.
        """
        if not (self._git.folder / "HEAD").exists():
            return [None for _ in pairs]
        with self._writing(), open_store(self._git.folder):
            return self._trees.changed_lines(pairs)

    def hunks(
        self, pairs: Sequence[tuple[str | None, str | None]], *, limit: int, in_all: int
    ) -> list[Hunks]:
        """How the texts of each pair differ, as the hunks of a unified diff.

        Args:
            pairs: The ids of the content before and of the one after; None is no file.
            limit: Characters of one pair's hunks.
            in_all: Characters of all of them together.

        Returns:
            Of each pair in turn. No text where nothing differs, or where `changed_lines` counts
            nothing. What could deceive is as it stands in the files: make it visible before it
            is shown.

        Raises:
            ToolFailed: `io_error` or `timeout`.
        """
        if not (self._git.folder / "HEAD").exists():
            return [Hunks("", cut=False) for _ in pairs]
        with self._writing(), open_store(self._git.folder):
            return self._trees.hunks(pairs, limit, in_all)

    def state(self, tree: Tree, path: str) -> FileState | None:
        """One file of a snapshot; None when it has none there."""
        return self._trees.state(tree, path)

    def paths(self, tree: Tree) -> tuple[str, ...]:
        """The files of a snapshot, in order."""
        return tuple(sorted(self._trees.entries(tree)))

    def files_id(self, tree: Tree) -> str:
        """An id of the files alone: equal when two snapshots hold equal files.

        The snapshot's own id also covers what was ignored, empty folders, and rare modes.
        """
        return self._trees.files_id(tree)

    def verify(self, tree: Tree) -> tuple[str, ...]:
        """The files of a snapshot whose contents are lost or damaged.

        Raises:
            ToolFailed: `io_error` when the snapshot itself is lost.
        """
        return self._trees.verify(tree)

    def plan_restore(
        self,
        workspace: Workspace,
        wanted: Mapping[str, FileState | None],
        left: Mapping[str, Left],
        *,
        folders: Folders = Folders(),  # noqa: B008 - frozen
    ) -> Restore:
        """Find out what a rollback would do.

        Nothing is changed, but that what an interrupted rollback left is cleared away first.

        Args:
            wanted: What each path should be again; None is no file.
            left: What the agent left there: the state, or the content hash alone. Only with the
                state can a person's change of the mode be told from the agent's.
            folders: What `folders` says of the time between: folders that were made are removed
                when the rollback leaves them empty, empty ones that went are made again.

        Raises:
            ToolFailed: `invalid_arguments` when a path is missing in `left`, `bad_path`.
        """
        self.recover(workspace)
        return plan(workspace, wanted, left, folders)

    def apply(self, workspace: Workspace, restore: Restore) -> None:
        """Do what a plan says, all of it or nothing.

        After a crash in the middle, applying the same plan again finishes the work; so does
        making a new plan from the same facts and applying that.

        Raises:
            ToolFailed: `changed_since_approval` when a file is neither as it was planned nor as
                it is wanted, and `io_error`; the workspace is as it was.
        """
        apply(self._git, self._desk(workspace.root), workspace.root, restore)

    def recover(self, workspace: Workspace) -> None:
        """Clear away what an interrupted `apply` left lying about. Files keep their contents."""
        recover(self._desk(workspace.root), workspace.root)

    def sweep(self, keep: Iterable[str], *, grace: float = GRACE) -> int:
        """Remove what is held for nobody. Gives how many objects and packs went.

        Args:
            keep: The ids of all snapshots and contents that somebody may still ask for.
            grace: Seconds for which what was held lately stays, whoever asks for it.

        Raises:
            ToolFailed: `io_error` or `timeout`; whatever is needed is still there.
        """
        return self._swept(keep, self._given_since(time.monotonic() - grace), grace, sweep)

    def useless(self, keep: Iterable[str]) -> int:
        """The bytes that a sweep would give back, about.

        Raises:
            ToolFailed: `io_error` or `timeout`.
        """
        given = self._given_since(time.monotonic() - GRACE)
        return self._swept(keep, given, GRACE, useless)

    def forget(self, root: Path, keep: Iterable[str]) -> int:
        """Remove at once what is held for nobody, however young it is.

        The caller sees to it that nobody is at work in this workspace. Gives how many objects went.

        Args:
            keep: As for `sweep`. The index of the workspace goes, if its snapshot is not kept.

        Raises:
            ToolFailed: `io_error` or `timeout`; whatever is needed is still there.
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
        """The bytes that the store takes."""
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
        """What was given out lately; what was given out before that is thought of no more."""
        with self._guard:
            for root, given in self._given.items():
                self._given[root] = {name: at for name, at in given.items() if at >= since}
            return {root: {*given} for root, given in self._given.items() if given}

    def _pack(self) -> None:
        try:
            pack(self._git)
        except ToolFailed as failure:
            # It takes more room, and that is all.
            _LOG.warning("snapshots were not packed: %s", failure)

    def _taken(self, taking: "_Taking") -> Tree:
        index = taking.desk.load()
        try:
            return taking.run(index)
        except ToolFailed as failure:
            if not speaks_of_lost(failure):
                raise
            # The store has lost contents that the index speaks of: read everything again.
            return taking.run(index.distrusted())

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Tell the store's own trouble, which passes, from what is wrong with a workspace."""
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
    """One snapshot on its way."""

    git: Git
    desk: ScanRecord
    root: Path
    limits: SnapshotLimits

    def run(self, index: Index) -> Tree:
        horizon = now_in(self.desk.folder)
        seen = scan(self.git, self.root, index.files, self.limits)
        with ExitStack() as stack:
            files, taking = self._read(seen, index, horizon, stack)
            meta = _meta(seen, files)
            name, changes = blob_id(meta), _changes(index.files, files)
            tree, is_new = index.tree, bool(changes) or name != index.meta
            if is_new or tree is None or not self.git.has(tree):
                # Of a snapshot that is lost, parts may be too: git looks at all of it again.
                held = tree if is_new else None
                if held is None or name != index.meta:
                    self.git.keep(meta)
                base = held if len(changes) <= _FEW else None
                tree = self._tree(base, files, changes, name, taking, stack)
        if tree != index.tree:
            self.git.renew(tree)
        if files != index.files or tree != index.tree:
            self.desk.save(Index(files, tree, name))
        return tree

    def _read(
        self, seen: Scan, index: Index, horizon: int, stack: ExitStack
    ) -> tuple[_Files, Intake | None]:
        """Every file as it is held; contents that are new go into the store."""
        files: _Files = {}
        unknown: list[FoundFile] = []
        for path, found in seen.found.items():
            known = index.files.get(path)
            if known is not None and known.signature == found.signature:
                files[path] = known
            else:
                unknown.append(found)
        held = {known.blob for known in index.files.values()} if unknown else set[str]()
        taking = None
        with root_opened(self.root) as root:
            for found in sorted(unknown, key=lambda found: found.path):
                read = content(root, found, self.limits.file)
                if read is None:
                    seen.unseen.add(found.path)
                    continue
                data, signature = read
                now = files[found.path] = _known(found, data, settled(signature, horizon))
                if now.blob not in held:
                    taking = taking or stack.enter_context(intake(self.git))
                    taking.write_blob(data)
                    held.add(now.blob)
        return files, taking

    def _tree(
        self, base: Tree | None, files: _Files, changes: _Changes, meta: str,
        taking: Intake | None, stack: ExitStack,
    ) -> Tree:  # fmt: skip
        """The tree of the files, made of another one where there is one to begin with."""
        if base is None:
            # What it is made of has to be there.
            stack.close()
            entries = _entries(files.items(), meta)
            return Tree(self.git.write_tree(self.desk.new_git_index(), entries))
        taking = taking or stack.enter_context(intake(self.git))
        return Tree(taking.write_tree(base, _changed(files, changes, meta)))


def _known(
    found: FoundFile, data: bytes, signature: tuple[int, int, int, int, int] | None
) -> HeldFile:
    mode = found.status.st_mode if signature is None else signature[0]
    return HeldFile(kept_mode(mode), blob_id(data), signature)


def _changes(old: _Files, new: _Files) -> _Changes:
    """What a tree of the new files has otherwise; None is no file, and comes first."""
    gone = old.keys() - new.keys()
    return dict.fromkeys(gone) | {
        path: held for path, held in new.items()
        if (known := old.get(path)) is not held
        and (known is None or (known.mode, known.blob) != (held.mode, held.blob))
    }  # fmt: skip


def _entries(files: Iterable[tuple[str, HeldFile]], meta: str) -> Iterator[Entry]:
    """The entries of a tree."""
    for path, held in files:
        yield f"files/{path}", git_mode(held.mode), held.blob
    yield "meta", "100644", meta


def _changed(files: _Files, changes: _Changes, meta: str) -> Iterator[Entry]:
    """The entries of a tree that the last one has not, and those beside them.

    With those, git misses what was lost of the folders that have changed.
    """
    yield from ((f"files/{path}", "0", None) for path, held in changes.items() if held is None)
    folders = {path.rpartition("/")[0] for path in changes}
    beside = [(p, held) for p, held in files.items() if p.rpartition("/")[0] in folders]
    few = len(beside) <= _MOST_BESIDE
    now = beside if few else [(path, held) for path, held in changes.items() if held is not None]
    yield from _entries(now, meta)


def _meta(seen: Scan, files: _Files) -> bytes:
    """What a tree has no words for: rare modes, empty folders, and what was left alone."""
    modes = sorted(
        (path, stat.S_IMODE(known.mode))
        for path, known in files.items() if known.mode not in _USUAL_MODES
    )  # fmt: skip
    said = {"empty": sorted(seen.empty), "modes": dict(modes), "unseen": sorted(seen.unseen)}
    return json.dumps(said, separators=(",", ":")).encode()
