"""Carrying a rollback out: all of it or nothing, and never over what somebody else wrote.

Everything new is first written and brought to the disk in one folder beside the files. Then each
path is changed by renaming, and what a rename took out is compared with what the plan had seen:
if it is something else, it goes back, and so does all that was done before. Nothing is deleted
until every path is changed.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gonogo.domain.errors import ToolFailed
from gonogo.domain.strict_json import content_hash
from gonogo.workspace._beneath import best_opener, rename_new
from gonogo.workspace._failures import told
from gonogo.workspace._git import Git, outlet
from gonogo.workspace._index import Desk, lock
from gonogo.workspace._plan import Restore, RestoreItem
from gonogo.workspace._scan import root_opened
from gonogo.workspace._stage import (
    PART,
    Noted,
    Stage,
    clear,
    stage_opened,
    standing_of,
    start,
    still,
)
from gonogo.workspace._standing import Standing, look, parent_opened
from gonogo.workspace._states import FileState, Folders, parents

_BUSY = "The workspace is locked by another change"


def apply(git: Git, desk: Desk, root: Path, restore: Restore) -> None:
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


def recover(desk: Desk, root: Path) -> None:
    """See `Snapshots.recover`."""
    if not desk.note.exists():
        return
    with told("."), root_opened(root) as descriptor:
        lock(descriptor, _BUSY)
        clear(descriptor, desk.note)


def _to_do(root: int, restore: Restore) -> list[RestoreItem]:
    """What is not done yet, after everything else was found as it was planned."""
    todo: list[RestoreItem] = []
    for item in restore.changes:
        if look(root, item.path).equals(item.wanted):
            continue
        if not still(root, _noted(item)):
            raise _changed(item.path)
        todo.append(item)
    return todo


def _stage_contents(git: Git, stage: Stage, todo: Sequence[RestoreItem]) -> None:
    wanted = [(item, item.wanted) for item in todo if item.wanted is not None]
    if not wanted:
        return
    with outlet(git) as contents:
        for item, state in wanted:
            data = contents.read(state.blob)
            if content_hash(data) != state.hash:
                raise ToolFailed("io_error", f"The content kept for {item.path!a} is another one")
            _stage_one(stage, item.path, state, data)
    os.fsync(stage.folder)


def _stage_one(stage: Stage, path: str, state: FileState, data: bytes) -> None:
    if state.is_link:
        os.symlink(os.fsdecode(data), PART, dir_fd=stage.folder)
    else:
        _fill(stage, path, state.mode & 0o777, data)
    rename_new(stage.folder, PART, stage.folder, stage.note.kept(path))


def _fill(stage: Stage, path: str, mode: int, data: bytes) -> None:
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


@dataclass(slots=True)
class _Work:
    """The changes done so far, and how to undo them."""

    stage: Stage
    _undo: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])

    def run(self, todo: Sequence[RestoreItem], folders: Folders) -> None:
        try:
            self._go(todo, folders)
            self._settle([*(item.path for item in todo), *folders.made, *folders.gone])
        except BaseException:
            while self._undo:
                # One step that cannot be undone is no reason to leave the others.
                with suppress(OSError):
                    self._undo.pop()()
            raise

    def _go(self, todo: Sequence[RestoreItem], folders: Folders) -> None:
        for item in todo:
            if item.wanted is None:
                self._delete(item)
        for path in reversed(folders.made):
            self._remove_folder(path)
        for path in folders.gone:
            self._make_folders([*reversed(parents(path)), path])
        for item in todo:
            if item.wanted is not None:
                self._write(item)

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
            # Not empty, gone, or no folder any more: it stays as it is.
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
        """Bring the folders of all changes to the disk, before what was there is deleted."""
        for path in {path.rpartition("/")[0] or "." for path in paths}:
            try:
                folder = best_opener()(self.stage.root, path, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                # A folder that went, or in whose place something else now is.
                continue
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _noted(item: RestoreItem) -> Noted:
    return Noted(path=item.path, found=item.found, wanted=standing_of(item.wanted))


def _is(expected: Standing) -> Callable[[Standing], bool]:
    return lambda found: found == expected


def _changed(path: str) -> ToolFailed:
    return ToolFailed(
        "changed_since_approval", f"{path!r} has changed since the rollback was planned"
    )
