"""What a rollback would do, path by path, before it does anything.

A path is restored only while it holds what the agent left there. What a person changed since is
a conflict and stays; a mode that a person changed since stays too, even where the content goes
back.
"""

import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gonogo.domain.errors import ToolFailed
from gonogo.domain.paths import write_guard
from gonogo.workspace._beneath import best_opener, opened
from gonogo.workspace._listing import STATE_FOLDERS
from gonogo.workspace._scan import root_opened
from gonogo.workspace._standing import Standing, blocker, check_path, look
from gonogo.workspace._states import FileState, Folders, parents
from gonogo.workspace._workspace import Workspace

Left = FileState | str | None
"""What an agent left at a path: the state, the content hash alone, or no file."""

Reason = Literal["", "changed", "mode_changed", "hard_link", "protected", "in_the_way"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreItem:
    """What becomes of one path."""

    path: str
    action: Literal["restore", "nothing", "conflict"]
    wanted: FileState | None
    """What will be there after a `restore`; None is no file."""
    found: Standing
    reason: Reason = ""
    """Why it is a conflict. `changed`: somebody changed it since. `mode_changed`: the right to
    execute is another one, and it is not known who changed it. `hard_link`: the file has a second
    name. `protected`: gonogo never writes there. `in_the_way`: a file, link or folder that is to
    stay stands where another is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
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
        raise ToolFailed("invalid_arguments", f"It is not said what was left at {min(missing)!a}")
    for path in (*wanted, *folders.made, *folders.gone):
        check_path(path)
    with root_opened(workspace.root) as root:
        items = [
            _guarded(workspace, _judged(path, wanted[path], left[path], look(root, path)))
            for path in sorted(wanted)
        ]
        deleted = {item.path for item in items if item.action == "restore" and item.wanted is None}
        ways = _Ways(root, deleted, set(folders.made))
        gone = tuple(path for path in folders.gone if _can_be_made(workspace, ways, path))
        return Restore(
            items=tuple(ways.checked(item) for item in items),
            folders=replace(folders, gone=gone),
        )


def _judged(path: str, wanted: FileState | None, left: Left, found: Standing) -> RestoreItem:
    if found.equals(wanted):
        return RestoreItem(path=path, action="nothing", wanted=wanted, found=found)
    if not _as_left(left, found):
        if left is None and wanted is not None and found.holds(wanted):
            # Somebody has put it back already; whatever its mode is, it is theirs.
            return RestoreItem(path=path, action="nothing", wanted=wanted, found=found)
        return _conflict(path, wanted, found, "changed")
    if found.linked:
        return _conflict(path, wanted, found, "hard_link")
    merged = _merged(wanted, left, found)
    if merged == "unclear":
        return _conflict(path, wanted, found, "mode_changed")
    action = "nothing" if found.equals(merged) else "restore"
    return RestoreItem(path=path, action=action, wanted=merged, found=found)


def _conflict(path: str, wanted: FileState | None, found: Standing, reason: Reason) -> RestoreItem:
    return RestoreItem(path=path, action="conflict", wanted=wanted, found=found, reason=reason)


def _as_left(left: Left, found: Standing) -> bool:
    if left is None:
        return found.kind in ("absent", "folder")
    if isinstance(left, str):
        return found.kind in ("file", "link") and found.hash == left
    return found.holds(left)


def _merged(
    wanted: FileState | None, left: Left, found: Standing
) -> FileState | Literal["unclear"] | None:
    """What is wanted, with the mode that a person may have changed since."""
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


def _guarded(workspace: Workspace, item: RestoreItem) -> RestoreItem:
    if item.action != "restore" or not _is_closed(workspace, item.path):
        return item
    return replace(item, action="conflict", reason="protected")


def _is_closed(workspace: Workspace, path: str) -> bool:
    """Whether nothing may be restored there.

    Settings of editors and shells may: what an agent's command slipped in there is to go. So
    only the folders of repositories, gonogo's own, and those that the workspace was told of are
    closed.
    """
    if any(name in STATE_FOLDERS or name.casefold() == ".git" for name in path.split("/")):
        return True
    return any(_is_own(workspace, place) for place in (path, *parents(path)))


def _is_own(workspace: Workspace, path: str) -> bool:
    try:
        return workspace.is_protected(path) and write_guard(path) is None
    except ToolFailed:
        # A name that tools cannot say, so nobody can have named it to the workspace either.
        return False


def _can_be_made(workspace: Workspace, ways: "_Ways", path: str) -> bool:
    return not _is_closed(workspace, path) and ways.is_free(path)


@dataclass(frozen=True, slots=True)
class _Ways:
    """Whether the way to a path is free once the planned files are deleted."""

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
