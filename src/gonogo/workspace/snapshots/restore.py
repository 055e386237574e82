"""Carrying out a rollback, completely or not at all, and without overwriting others' changes.

Everything new is first written and synced in one folder beside the files. Then each path is changed
by renaming. What a rename took out is compared with what the plan saw there: if it differs, it is
put back, and so is everything that was done before. Nothing is deleted until all paths are changed.
"""

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed, because
from gonogo.workspace.files.safe_open import (
    best_opener,
    exchange,
    open_component,
    opened,
    rename_new,
    root_opened,
    told,
)
from gonogo.workspace.files.search import STATE_FOLDERS
from gonogo.workspace.files.workspace import Workspace
from gonogo.workspace.snapshots.git import Git, outlet, replace_file
from gonogo.workspace.snapshots.scan import ScanRecord, lock
from gonogo.workspace.snapshots.states import (
    ABSENT,
    DiskState,
    FileState,
    Folders,
    blocker,
    check_path,
    look,
    look_in,
    parent_opened,
    parents,
)

# The plan: what a rollback would do at each path.
#
# A path is restored only if it still has what the agent left there. What a person has changed since
# is a conflict, and stays. A mode that a person has changed since stays too, even if the content is
# restored.

Left = FileState | str | None
"""What an agent left at a path: the state, only the content hash, or no file."""

Reason = Literal["", "changed", "mode_changed", "hard_link", "protected", "in_the_way"]


class RestoreItem(Struct, frozen=True, kw_only=True):
    """What a rollback does at one path."""

    path: str
    action: Literal["restore", "nothing", "conflict"]
    wanted: FileState | None
    """The state after a `restore`; None is no file."""
    found: DiskState
    reason: Reason = ""
    """Why it is a conflict. `changed`: somebody changed it since. `mode_changed`: its mode differs,
    and it is not known who changed that. `hard_link`: the file has a second name. `protected`:
    gonogo never writes there. `in_the_way`: a file, link or folder that must stay is where another
    one is needed."""


class Restore(Struct, frozen=True, kw_only=True):
    """The plan of one rollback."""

    items: tuple[RestoreItem, ...]
    folders: Folders

    @property
    def conflicts(self) -> tuple[RestoreItem, ...]:
        """The paths that will stay as they are although the agent changed them."""
        return tuple(item for item in self.items if item.action == "conflict")

    @property
    def changes(self) -> tuple[RestoreItem, ...]:
        """The paths that will be changed."""
        return tuple(item for item in self.items if item.action == "restore")


def plan(
    workspace: Workspace,
    wanted: Mapping[str, FileState | None],
    left: Mapping[str, Left],
    folders: Folders,
) -> Restore:
    """See `Snapshots.plan_restore`."""
    if missing := wanted.keys() - left.keys():
        raise ToolFailed(
            "invalid_arguments",
            "The record of what was left at {path!a} is missing",
            path=min(missing),
        )
    for path in (*wanted, *folders.made, *folders.gone):
        check_path(path)
    with told("."), root_opened(workspace.root) as root:
        items = [
            _guarded(_judged(path, wanted[path], left[path], look(root, path)))
            for path in sorted(wanted)
        ]
        deleted = {item.path for item in items if item.action == "restore" and item.wanted is None}
        ways = _Ways(root, deleted, set(folders.made))
        gone = tuple(path for path in folders.gone if _can_be_made(ways, path))
        return Restore(
            items=tuple(ways.checked(item) for item in items),
            folders=replace(folders, gone=gone),
        )


def _judged(path: str, wanted: FileState | None, left: Left, found: DiskState) -> RestoreItem:
    if found.equals(wanted):
        return RestoreItem(path=path, action="nothing", wanted=wanted, found=found)
    if not _as_left(left, found):
        if left is None and wanted is not None and found.holds(wanted):
            # Somebody has put it back already; its mode is their choice.
            return RestoreItem(path=path, action="nothing", wanted=wanted, found=found)
        return _conflict(path, wanted, found, "changed")
    if found.linked:
        return _conflict(path, wanted, found, "hard_link")
    merged = _merged(wanted, left, found)
    if merged == "unclear":
        return _conflict(path, wanted, found, "mode_changed")
    action = "nothing" if found.equals(merged) else "restore"
    return RestoreItem(path=path, action=action, wanted=merged, found=found)


def _conflict(path: str, wanted: FileState | None, found: DiskState, reason: Reason) -> RestoreItem:
    return RestoreItem(path=path, action="conflict", wanted=wanted, found=found, reason=reason)


def _as_left(left: Left, found: DiskState) -> bool:
    if left is None:
        return found.kind in ("absent", "folder")
    if isinstance(left, str):
        return found.kind in ("file", "link") and found.hash == left
    return found.holds(left)


def _merged(
    wanted: FileState | None, left: Left, found: DiskState
) -> FileState | Literal["unclear"] | None:
    """The wanted state, but with the mode of the file if a person has changed that since."""
    if isinstance(left, FileState) and wanted is None:
        return "unclear" if found.mode != left.mode else None
    if wanted is None or found.kind != "file" or not stat.S_ISREG(wanted.mode):
        return wanted
    if isinstance(left, FileState):
        if found.mode == left.mode:
            return wanted
        if wanted.mode == left.mode:
            return replace(wanted, mode=found.mode)
        return wanted if found.mode == wanted.mode else "unclear"
    if (found.mode ^ wanted.mode) & 0o111:
        return "unclear"
    return replace(wanted, mode=found.mode)


def _guarded(item: RestoreItem) -> RestoreItem:
    if item.action != "restore" or not _is_closed(item.path):
        return item
    return replace(item, action="conflict", reason="protected")


def _is_closed(path: str) -> bool:
    """Whether nothing may be restored at a path.

    Only the folders of repositories and of gonogo are closed. Settings of editors and shells are
    not, as a rollback must remove what an agent's command put there.
    """
    return any(name in STATE_FOLDERS or name.casefold() == ".git" for name in path.split("/"))


def _can_be_made(ways: "_Ways", path: str) -> bool:
    return not _is_closed(path) and ways.is_free(path)


class _Ways(Struct, frozen=True):
    """Checks whether the way to a path is free after the planned deletions."""

    root: int
    deleted: Collection[str]
    made: Collection[str]

    def checked(self, item: RestoreItem) -> RestoreItem:
        if item.action != "restore" or item.wanted is None:
            return item
        if self.is_free(item.path) and (item.found.kind != "folder" or self._goes(item.path)):
            return item
        return replace(item, action="conflict", reason="in_the_way")

    def is_free(self, path: str) -> bool:
        above = blocker(self.root, path)
        return above is None or above in self.deleted

    def _goes(self, path: str) -> bool:
        """Whether a folder was made by the agent and will be empty."""
        if path not in self.made:
            return False
        try:
            with (
                opened(best_opener(), self.root, path, os.O_RDONLY | os.O_DIRECTORY) as folder,
                os.scandir(folder) as entries,
            ):
                names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            return False
        return all(
            self._goes(f"{path}/{name}") if is_folder else f"{path}/{name}" in self.deleted
            for name, is_folder in names
        )


# The staging folder, where a rollback keeps new and old files, and the renames in and out of it.
#
# Every rename checks what it took out, and undoes itself if that is unexpected. A note describes
# the rollback; it is in the store, where no command of an agent can write, and the folder has a
# name that nobody can guess. `clear` deletes only contents that the note knows, and puts everything
# else that it finds back into the workspace.

PART = "part"
"""The name of a file that is not complete yet."""

Expected = Callable[[DiskState], bool]


class Noted(Struct, frozen=True, kw_only=True):
    """One path that is about to change: what is there now, and what will be there."""

    path: str
    found: DiskState
    wanted: DiskState

    def knows(self, thing: DiskState) -> bool:
        """Whether the store has this content, so that it can be deleted."""
        return any(
            thing.kind == one.kind and thing.hash == one.hash for one in (self.found, self.wanted)
        )


def standing_of(state: FileState | None) -> DiskState:
    """The disk state of a file that has this state."""
    if state is None:
        return ABSENT
    kind = "link" if state.is_link else "file"
    return DiskState(kind=kind, hash=state.hash, mode=state.mode)


class Note(Struct, frozen=True):
    """The note of one rollback; `token` is part of the names of all its temporary files."""

    token: str
    todo: tuple[Noted, ...]

    @property
    def folder(self) -> str:
        """The name of the staging folder."""
        return f".gonogo-{self.token}.tmp"

    def kept(self, path: str) -> str:
        """The name of the file for `path` in the staging folder."""
        salted = f"{self.token}/{path}".encode("utf-8", "surrogateescape")
        return f".gonogo-{hashlib.sha256(salted).hexdigest()[:16]}.tmp"


class StagingFolder(Struct, frozen=True):
    """The open staging folder, and the open root of the workspace."""

    root: int
    folder: int
    note: Note

    def pull(self, path: str, expected: Expected) -> bool:
        """Move what is at `path` into the staging folder, if it is as expected."""
        name = self.note.kept(path)
        with parent_opened(self.root, path) as (folder, own):
            try:
                rename_new(folder, own, self.folder, name)
            except FileNotFoundError:
                return False
            if expected(look_in(self.folder, name)):
                return True
            rename_new(self.folder, name, folder, own)
            return False

    def push(self, path: str) -> bool:
        """Move the staged file to `path`, if there is nothing."""
        with parent_opened(self.root, path) as (folder, own):
            try:
                rename_new(self.folder, self.note.kept(path), folder, own)
            except FileExistsError:
                return False
        return True

    def swap(self, path: str, expected: Expected) -> bool:
        """Exchange the staged file with what is at `path`, if that is as expected."""
        name = self.note.kept(path)
        with parent_opened(self.root, path) as (folder, own):
            rename_new(self.folder, name, folder, name)
            fits = _exchanged(folder, name, own, expected)
            try:
                rename_new(folder, name, self.folder, name)
            except OSError:
                # The caller does not know yet that it was done, so it must be undone here.
                if fits:
                    _exchange(folder, name, own)
                raise
            return fits


def start(file: Path, todo: Sequence[Noted]) -> Note:
    """Write the note of what will happen, before anything happens."""
    note = Note(secrets.token_hex(8), tuple(todo))
    said = [
        [one.path, [one.found.kind, one.found.hash], [one.wanted.kind, one.wanted.hash]]
        for one in todo
    ]
    replace_file(file, json.dumps([note.token, said]).encode(), durable=True)
    return note


@contextmanager
def stage_opened(root: int, note: Note) -> Generator[StagingFolder]:
    """The staging folder of a note; it is created if it does not exist."""
    with suppress(FileExistsError):
        os.mkdir(note.folder, 0o700, dir_fd=root)
    folder = open_component(root, note.folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield StagingFolder(root, folder, note)
    finally:
        os.close(folder)


def clear(root: int, file: Path) -> None:
    """End the rollback of the note: delete known contents, and put back everything else."""
    note = _read(file)
    if note is None:
        return
    with stage_opened(root, note) as stage:
        for noted in note.todo:
            _settle(stage, noted)
        with suppress(FileNotFoundError):
            os.unlink(PART, dir_fd=stage.folder)
    try:
        os.rmdir(note.folder, dir_fd=root)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            # The folder cannot be removed now: the next `clear` finds it by the note.
            return
    os.fsync(root)
    file.unlink()


def _exchanged(folder: int, name: str, own: str, expected: Expected) -> bool:
    """Exchange two names of a folder, and back again if the wrong thing came out."""
    # If the system cannot swap in one step, somebody may write the file between two steps. Then
    # `clear` does the rest, and keeps everything that is not gonogo's.
    with suppress(FileNotFoundError, FileExistsError):
        _exchange(folder, name, own)
        if expected(look_in(folder, name)):
            return True
        _exchange(folder, name, own)
    return False


def _exchange(folder: int, name: str, own: str) -> None:
    if exchange(folder, name, own):
        return
    aside = _aside(name)
    rename_new(folder, own, folder, aside)
    rename_new(folder, name, folder, own)
    rename_new(folder, aside, folder, name)


def _read(file: Path) -> Note | None:
    try:
        token, said = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    todo = tuple(
        Noted(
            path=path,
            found=DiskState(kind=found[0], hash=found[1]),
            wanted=DiskState(kind=wanted[0], hash=wanted[1]),
        )
        for path, found, wanted in said
    )
    return Note(token, todo)


def _aside(name: str) -> str:
    """The name of the old file while the new one is still called `name`."""
    return f".gonogo-{hashlib.sha256(name.encode()).hexdigest()[:16]}.tmp"


def _settle(stage: StagingFolder, noted: Noted) -> None:
    """Clean up for one path: in the staging folder, and beside the file after a crash."""
    name = stage.note.kept(noted.path)
    with ExitStack() as stack:
        try:
            folder, own = stack.enter_context(parent_opened(stage.root, noted.path))
        except OSError:
            # The folder is gone; if somebody's work was staged for it, that goes to the root.
            folder, own = stage.root, noted.path.rpartition("/")[2]
        else:
            _put_back(folder, _aside(name), own, noted)
            for beside in (_aside(name), name):
                _settle_one(folder, beside, folder, own, noted)
        _settle_one(stage.folder, name, folder, own, noted)


def _put_back(folder: int, aside: str, own: str, noted: Noted) -> None:
    """Undo an exchange that a crash left half-done."""
    taken_out = look_in(folder, aside).hash == noted.found.hash is not None
    if taken_out and noted.wanted != ABSENT and look_in(folder, own) == ABSENT:
        rename_new(folder, aside, folder, own)


def _settle_one(kept_in: int, kept: str, folder: int, own: str, noted: Noted) -> None:
    thing, there = look_in(kept_in, kept), look_in(folder, own)
    if thing == ABSENT:
        return
    if noted.knows(thing):
        os.unlink(kept, dir_fd=kept_in)
        return
    place = own if there == ABSENT else f"{own}.saved-{secrets.token_hex(4)}"
    rename_new(kept_in, kept, folder, place)


def still(root: int, noted: Noted) -> bool:
    """Whether a path is still as it was found; a folder that was in its way may be gone."""
    now = look(root, noted.path)
    return now == noted.found or (noted.found.kind == "folder" and now == ABSENT)


_BUSY = because("The workspace is locked by another change")


def apply(git: Git, desk: ScanRecord, root: Path, restore: Restore) -> None:
    """See `Snapshots.apply`."""
    with told("."), root_opened(root) as descriptor:
        desk.prepare()
        lock(descriptor, _BUSY)
        clear(descriptor, desk.note)
        todo = _to_do(descriptor, restore)
        try:
            note = start(desk.note, [_noted(item) for item in todo])
            with stage_opened(descriptor, note) as stage:
                _stage_contents(git, stage, todo)
                _Work(stage).run(todo, restore.folders)
        finally:
            clear(descriptor, desk.note)


def recover(desk: ScanRecord, root: Path) -> None:
    """See `Snapshots.recover`."""
    if not desk.note.exists():
        return
    with told("."), root_opened(root) as descriptor:
        lock(descriptor, _BUSY)
        clear(descriptor, desk.note)


def _to_do(root: int, restore: Restore) -> list[RestoreItem]:
    """The changes that are not done yet.

    Raises:
        ToolFailed: `changed_since_approval`: a path is not as the plan saw it.
    """
    todo: list[RestoreItem] = []
    for item in restore.changes:
        if look(root, item.path).equals(item.wanted):
            continue
        if not still(root, _noted(item)):
            raise _changed(item.path)
        todo.append(item)
    return todo


def _stage_contents(git: Git, stage: StagingFolder, todo: Sequence[RestoreItem]) -> None:
    wanted = [(item, item.wanted) for item in todo if item.wanted is not None]
    if not wanted:
        return
    with outlet(git) as contents:
        for item, state in wanted:
            data = contents.read(state.blob)
            if content_hash(data) != state.hash:
                raise ToolFailed(
                    "io_error", "The stored content of {path!a} has changed", path=item.path
                )
            _stage_one(stage, item.path, state, data)
    os.fsync(stage.folder)


def _stage_one(stage: StagingFolder, path: str, state: FileState, data: bytes) -> None:
    if state.is_link:
        os.symlink(os.fsdecode(data), PART, dir_fd=stage.folder)
    else:
        _fill(stage, path, state.mode & 0o777, data)
    rename_new(stage.folder, PART, stage.folder, stage.note.kept(path))


def _fill(stage: StagingFolder, path: str, mode: int, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(PART, flags, 0o600, dir_fd=stage.folder)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        with suppress(OSError), parent_opened(stage.root, path) as (folder, name):
            status = os.lstat(name, dir_fd=folder)
            os.fchown(file, status.st_uid, status.st_gid)
        os.fchmod(file, mode)
        os.fsync(file)
    finally:
        os.close(file)


class _Work(Struct):
    """The changes done so far, and how to undo them."""

    stage: StagingFolder
    _undo: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])

    def run(self, todo: Sequence[RestoreItem], folders: Folders) -> None:
        try:
            self._go(todo, folders)
            self._settle([*(item.path for item in todo), *folders.made, *folders.gone])
        except BaseException:
            while self._undo:
                # If one step cannot be undone, undo the others all the same.
                with suppress(OSError):
                    self._undo.pop()()
            raise

    def _go(self, todo: Sequence[RestoreItem], folders: Folders) -> None:
        for item in todo:
            if item.wanted is None:
                self._delete(item)
        places = {item.path for item in todo if item.found.kind == "folder"}
        made = [*reversed(folders.made)]
        in_the_way = [path for path in made if places.intersection((path, *parents(path)))]
        for path in in_the_way:
            self._remove_folder(path)
        for path in folders.gone:
            self._make_folders([*reversed(parents(path)), path])
        for item in todo:
            if item.wanted is not None:
                self._write(item)
        # Last, as on a full disk an undo could not make them again.
        for path in (path for path in made if path not in in_the_way):
            self._remove_folder(path)

    def _delete(self, item: RestoreItem) -> None:
        with told(item.path):
            if not self.stage.pull(item.path, _is(item.found)):
                raise _changed(item.path)
        self._undo.append(lambda: self.stage.push(item.path))

    def _write(self, item: RestoreItem) -> None:
        if item.found.kind not in ("absent", "folder"):
            self._replace(item)
            return
        with told(item.path):
            self._make_folders(list(reversed(parents(item.path))))
            if not self.stage.push(item.path):
                raise _changed(item.path)
        self._undo.append(lambda: self.stage.pull(item.path, _is(standing_of(item.wanted))))

    def _replace(self, item: RestoreItem) -> None:
        with told(item.path):
            if not self.stage.swap(item.path, _is(item.found)):
                raise _changed(item.path)
        self._undo.append(lambda: self.stage.swap(item.path, _is(standing_of(item.wanted))))

    def _remove_folder(self, path: str) -> None:
        try:
            with parent_opened(self.stage.root, path) as (folder, name):
                os.rmdir(name, dir_fd=folder)
        except OSError:
            # It is not empty, gone, or not a folder any more: it stays as it is.
            return
        self._undo.append(lambda: self._make_one(path))

    def _make_folders(self, paths: Sequence[str]) -> None:
        for path in paths:
            if self._make_one(path):
                self._undo.append(lambda path=path: self._remove_one(path))

    def _make_one(self, path: str) -> bool:
        with parent_opened(self.stage.root, path) as (folder, name):
            try:
                os.mkdir(name, dir_fd=folder)
            except FileExistsError:
                return False
        return True

    def _remove_one(self, path: str) -> None:
        with suppress(OSError), parent_opened(self.stage.root, path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def _settle(self, paths: Sequence[str]) -> None:
        """Sync the folders of all changes, before the old files are deleted."""
        for path in {path.rpartition("/")[0] or "." for path in paths}:
            try:
                folder = best_opener()(self.stage.root, path, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                # A folder that was removed, or that was replaced by something else.
                continue
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _noted(item: RestoreItem) -> Noted:
    return Noted(path=item.path, found=item.found, wanted=standing_of(item.wanted))


def _is(expected: DiskState) -> Callable[[DiskState], bool]:
    return lambda found: found == expected


def _changed(path: str) -> ToolFailed:
    return ToolFailed(
        "changed_since_approval", "{path!r} has changed since the rollback was planned", path=path
    )
