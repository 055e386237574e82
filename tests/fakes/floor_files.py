"""The files of a shop floor: what lies in its folder, and what truly became of each file.

A shelf keeps files in memory, for very many examples; a folder keeps them on disk, with the real
snapshots. Nothing that is written twice is the same, so a content that is there again was put back.
"""

import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed
from gonogo.workspace import FileState, Folders, Restore, RestoreItem, Snapshots, Tree, Workspace

FIRST = {"common.txt": "first common\n", "a.txt": "first a\n"}
"""What lies there before anything runs."""
PERSON = "person"
_MODE = stat.S_IFREG | 0o644
Truth = dict[str, str | None]
"""Path → content; None is no file."""


class Crash(BaseException):
    """The process dies."""


class Shelf:
    """Files in memory, which go back by the same words as those of a workspace."""

    root = Path("/code")

    def __init__(self) -> None:
        self.snapshots: Any = self
        self.workspace: Any = self
        self.dies = False
        self.clear()

    def clear(self) -> None:
        self._files, self._kept = dict(FIRST), {}

    def read(self) -> dict[str, str]:
        return dict(self._files)

    def write(self, path: str, text: str) -> None:
        self._files[path] = text

    def hold(self, path: str) -> FileState | None:
        return None if path not in self._files else self._state(self._files[path])

    def take(self, workspace: Any) -> Tree:
        return Tree("shelf")

    def plan_restore(
        self,
        workspace: Any,
        wanted: Mapping[str, FileState | None],
        left: Mapping[str, Any],
        *,
        folders: Folders,
    ) -> Restore:
        items = [self._item(path, wanted[path], left[path]) for path in sorted(wanted)]
        return Restore(items=tuple(items), folders=folders)

    def apply(self, workspace: Any, restore: Restore) -> None:
        if self.dies:
            raise Crash
        for item in restore.changes:
            if self._files.get(item.path) != item.found:
                raise ToolFailed("changed_since_approval", item.path)
        for item in restore.changes:
            if item.wanted is None:
                del self._files[item.path]
            else:
                self._files[item.path] = self._kept[item.wanted.hash]

    def _item(self, path: str, wanted: FileState | None, left: Any) -> RestoreItem:
        now = self.hold(path)
        action = "nothing" if now == wanted else "restore"
        if action == "restore" and _hash(now) != _hash(left):
            action = "conflict"
        found: Any = self._files.get(path)
        reason = "changed" if action == "conflict" else ""
        return RestoreItem(path=path, action=action, wanted=wanted, found=found, reason=reason)

    def _state(self, text: str) -> FileState:
        found = content_hash(text.encode())
        self._kept[found] = text
        return FileState(blob=found, mode=_MODE, hash=found)


class _Brittle(Snapshots):
    dies = False

    def apply(self, workspace: Workspace, restore: Restore) -> None:
        if self.dies:
            raise Crash
        super().apply(workspace, restore)


class Folder:
    """Files on disk, and the real snapshots of them."""

    def __init__(self, root: Path, store: Path) -> None:
        root.mkdir()
        self.root = root
        self.snapshots = _Brittle(store)
        self.workspace = Workspace(root)
        self.clear()

    @property
    def dies(self) -> bool:
        return self.snapshots.dies

    @dies.setter
    def dies(self, dies: bool) -> None:
        self.snapshots.dies = dies

    def clear(self) -> None:
        for path in self.root.iterdir():
            path.unlink()
        for path, text in FIRST.items():
            self.write(path, text)

    def read(self) -> dict[str, str]:
        return {path.name: path.read_text(encoding="utf-8") for path in self.root.iterdir()}

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text, encoding="utf-8")

    def hold(self, path: str) -> FileState | None:
        return self.snapshots.hold(self.workspace, path)


def _hash(state: Any) -> str | None:
    return state.hash if isinstance(state, FileState) else state


# The truth ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deed:
    """One change of one file: by whom, and what it left."""

    who: str
    """`plan/subtask`, or a person; empty for what lay there at first."""
    text: str | None
    by: str = ""
    """The plan whose rollback put it back."""


@dataclass(slots=True)
class Past:
    """What became of every file, told by those who wrote, and not by what the product keeps."""

    paths: dict[str, list[Deed]] = field(
        default_factory=lambda: {path: [Deed("", text)] for path, text in FIRST.items()}
    )
    lost: set[str] = field(default_factory=set)
    """`plan/subtask` of those who had a file of theirs taken back since they last wrote."""

    def wrote(self, path: str, who: str, text: str) -> None:
        """Somebody wrote a file."""
        self._of(path).append(Deed(who, text))
        self.lost.discard(who)

    def put_back(self, path: str, text: str | None, by: str) -> None:
        """A rollback wrote a file: what came after that content has gone, what made it is back."""
        deeds = self._of(path)
        before = _standing(deeds)
        last = max(n for n, deed in enumerate(deeds) if deed.text == text)
        after = _standing(deeds[: last + 1])
        gone, back = _without(before, after), _without(after, before)
        self.lost |= {deed.who for deed in gone if "/" in deed.who}
        self.lost -= {deed.who for deed in back}
        deeds += [replace(deed, by=by) for deed in back or after[-1:]]

    def now(self) -> Truth:
        """What must lie there now, file by file."""
        return {path: deeds[-1].text for path, deeds in self.paths.items()}

    def mark(self) -> dict[str, int]:
        """This moment: how much has become of each file."""
        return {path: len(deeds) for path, deeds in self.paths.items()}

    def undone(self, ours: Callable[[Deed], bool], since: Mapping[str, int]) -> Truth:
        """What must lie there once what was done since a moment, by some, is undone.

        What others did since stays, and so does what lies beneath it.
        """
        return {
            path: _undone(_standing(deeds[since.get(path, 1) - 1 :]), ours)
            for path, deeds in self.paths.items()
        }

    def _of(self, path: str) -> list[Deed]:
        return self.paths.setdefault(path, [Deed("", None)])


def _standing(deeds: list[Deed]) -> list[Deed]:
    """The deeds that still stand: what lies between a content and its return does not."""
    found: list[Deed] = []
    for deed in deeds:
        same = next((n for n, each in enumerate(found) if each.text == deed.text), None)
        if same is None:
            found.append(deed)
        else:
            del found[same + 1 :]
    return found


def _without(some: list[Deed], others: list[Deed]) -> list[Deed]:
    texts = {deed.text for deed in others}
    return [deed for deed in some if deed.text not in texts]


def _undone(deeds: list[Deed], ours: Callable[[Deed], bool]) -> str | None:
    """Where the last of the deeds are ours, and none before them is: what lay there before."""
    top = len(deeds)
    while top > 1 and ours(deeds[top - 1]):
        top -= 1
    beneath = any(map(ours, deeds[1:top]))
    return deeds[-1].text if beneath else deeds[top - 1].text
