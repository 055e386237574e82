"""What stops a rollback, and what is read of a damaged snapshot: said in whole sentences."""

import errno
import fcntl
import os
import random
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fakes.trees import files_id, paths_in, state_in
from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed
from gonogo.workspace import FileState, Folders, Snapshots, Tree, Workspace
from gonogo.workspace.snapshots import restore as restoring
from gonogo.workspace.snapshots import scan
from gonogo.workspace.snapshots.git import Git


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "ws").mkdir()
    return Workspace(tmp_path / "ws")


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "store")


def refusal(kind: str):
    return pytest.raises(ToolFailed, check=lambda failure: failure.kind == kind)


def held(snapshots: Snapshots, text: str, mode: int = 0o644) -> FileState:
    """The state of a file that a rollback can bring back."""
    data = text.encode()
    return FileState(blob=snapshots.blob(data), mode=stat.S_IFREG | mode, hash=content_hash(data))


def write(workspace: Workspace, **files: str) -> None:
    for name, text in files.items():
        (workspace.root / name).write_text(text)
        (workspace.root / name).chmod(0o644)


def test_what_was_left_has_to_be_said_of_every_path(
    snapshots: Snapshots, workspace: Workspace
) -> None:
    with refusal("invalid_arguments") as refused:
        snapshots.plan_restore(workspace, {"b": None, "a": None, "c": None}, {"c": None})
    assert str(refused.value) == "The record of what was left at 'a' is missing"
    for folders in (Folders(made=("../x",)), Folders(gone=("../x",))):
        with refusal("bad_path") as bad:
            snapshots.plan_restore(workspace, {}, {}, folders=folders)
        assert str(bad.value) == "'../x' is not a path of a snapshot"


def test_what_changed_since_the_plan_is_named(snapshots: Snapshots, workspace: Workspace) -> None:
    one, two = held(snapshots, "one"), held(snapshots, "two")
    write(workspace, a="two", b="two")
    restore = snapshots.plan_restore(workspace, {"a": one, "b": one}, {"a": two, "b": two})
    write(workspace, b="three")

    with refusal("changed_since_approval") as refused:
        snapshots.apply(workspace, restore)
    assert str(refused.value) == "'b' has changed since the rollback was planned"
    assert (workspace.root / "a").read_text() == "two"
    write(workspace, b="one")
    snapshots.apply(workspace, restore)
    assert (workspace.root / "a").read_text() == "one"


def test_a_content_that_is_not_what_was_there_is_named(
    snapshots: Snapshots, workspace: Workspace
) -> None:
    other = replace(held(snapshots, "other"), hash=content_hash(b"one"))
    write(workspace, a="two")
    restore = snapshots.plan_restore(workspace, {"a": other}, {"a": held(snapshots, "two")})

    with refusal("io_error") as refused:
        snapshots.apply(workspace, restore)
    assert str(refused.value) == "The stored content of 'a' has changed"
    assert os.listdir(workspace.root) == ["a"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("content", "The snapshot store's content '[0-9a-f]{40}' is damaged$"),
        ("head", "The snapshot store has no content '[0-9a-f]{40}'$"),
        ("pack", "The snapshot store has no content '[0-9a-f]{40}'$"),
    ],
)
def test_nothing_is_put_back_from_a_damaged_pack(
    snapshots: Snapshots, workspace: Workspace, tmp_path: Path, damage: str, said: str
) -> None:
    good, bad = "good\n", random.Random(7).randbytes(4_096).hex()
    write(workspace, a=good, b=bad)
    before = snapshots.take(workspace)
    write(workspace, a="new", b="new")
    after = snapshots.take(workspace)
    changes = snapshots.trees.diff(before, after)
    restore = snapshots.plan_restore(
        workspace, {c.path: c.before for c in changes}, {c.path: c.after for c in changes}
    )
    spoil(snapshots, max((tmp_path / "store/objects/pack").glob("*.pack"), key=size_of), damage)

    with refusal("io_error") as refused:
        snapshots.apply(workspace, restore)
    assert re.match(said, str(refused.value))
    assert {path.name: path.read_text() for path in workspace.root.iterdir()} == {
        "a": "new", "b": "new",
    }  # fmt: skip
    if damage == "content":
        assert snapshots.trees.verify(before) == ("b",)
        assert snapshots.trees.verify(after) == ()


def size_of(path: Path) -> int:
    return path.stat().st_size


def spoil(snapshots: Snapshots, pack: Path, damage: str) -> None:
    """Damage the middle of the largest content of a pack, its head, or all of the pack."""
    data = bytearray(pack.read_bytes())
    middle = len(data) // 2
    if damage == "content":
        data[middle : middle + 8] = bytes(byte ^ 0x55 for byte in data[middle : middle + 8])
    pack.chmod(0o600)
    pack.write_bytes(
        b"" if damage == "pack" else bytes(64) + data[64:] if damage == "head" else data
    )


def tree(root: Path) -> dict[str, str]:
    """All that is below a folder, with the contents of its files."""
    return {
        path.relative_to(root).as_posix(): path.read_text() if path.is_file() else "a folder"
        for path in root.rglob("*")
    }


@pytest.mark.parametrize("refused", ["a rename", "new folders"])
def test_what_a_full_disk_refuses_in_the_middle_is_undone_and_done_later(
    snapshots: Snapshots, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    one, two = held(snapshots, "one"), held(snapshots, "two")
    (workspace.root / "new").mkdir()
    write(workspace, a="two", b="two", c="two", **{"new/x": "two"})
    restore = snapshots.plan_restore(
        workspace, {"a": one, "b": one, "c": None, "in/d": one, "new/x": None},
        {"a": two, "b": two, "c": two, "in/d": None, "new/x": two},
        folders=Folders(made=("new",), gone=("empty",)),
    )  # fmt: skip
    place, name = (os, "mkdir") if refused == "new folders" else (restoring, "rename_new")
    before, really, done = tree(workspace.root), getattr(place, name), False

    def undo(first: Any, *more: Any, **where: Any) -> None:
        if name == "mkdir":
            os.rmdir(first, dir_fd=where.get("dir_fd"))
        else:
            old, folder, new = more
            really(folder, new, first, old)

    for point in count():
        calls = count()

        def refusing(
            *given: Any, point: int = point, calls: Iterator[int] = calls, **more: Any
        ) -> None:
            really(*given, **more)
            at = next(calls)
            if at == point or (at > point and name == "mkdir"):
                undo(*given, **more)
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(place, name, refusing)
        with suppress(ToolFailed):
            snapshots.apply(workspace, restore)
            done = True
        monkeypatch.setattr(place, name, really)
        if done:
            break
        snapshots.recover(workspace)
        assert tree(workspace.root) == before, point
    assert point > 2
    assert tree(workspace.root) == {
        "a": "one", "b": "one", "in": "a folder", "in/d": "one", "empty": "a folder",
    }  # fmt: skip


def test_a_folder_that_the_disk_does_not_let_go_goes_the_next_time(
    snapshots: Snapshots, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(workspace, a="two")
    restore = snapshots.plan_restore(workspace, {"a": None}, {"a": held(snapshots, "two")})

    def refusing(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "rmdir", refusing)
        snapshots.apply(workspace, restore)
    assert len(os.listdir(workspace.root)) == 1
    snapshots.recover(workspace)
    assert os.listdir(workspace.root) == []


def test_a_rollback_waits_for_a_change_and_not_for_ever(
    snapshots: Snapshots, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(workspace, a="two")
    restore = snapshots.plan_restore(workspace, {"a": None}, {"a": held(snapshots, "two")})
    monkeypatch.setattr(scan, "PATIENCE", 0.01)
    other = os.open(workspace.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        with refusal("io_error") as refused:
            snapshots.apply(workspace, restore)
    finally:
        os.close(other)
    assert str(refused.value) == "The workspace is locked by another change"
    snapshots.apply(workspace, restore)
    assert os.listdir(workspace.root) == []


def test_why_a_path_stays_is_told_with_what_stands_there(
    snapshots: Snapshots, workspace: Workspace
) -> None:
    one, two = held(snapshots, "one"), held(snapshots, "two")
    for folder in (".gonogo", ".git", "full", "made"):
        (workspace.root / folder).mkdir()
    for path in (".gonogo/a", ".git/a", "file", "full/theirs", "made/gone", ".envrc"):
        (workspace.root / path).write_text("two")
        (workspace.root / path).chmod(0o644)
    wanted = dict.fromkeys((".gonogo/a", ".git/a", "file/x", "full", "made", ".envrc"), one)
    left = {".gonogo/a": two, ".git/a": two, ".envrc": two, "made/gone": two}
    restore = snapshots.plan_restore(
        workspace, {**wanted, "made/gone": None}, dict.fromkeys(wanted) | left,
        folders=Folders(made=("made", "full"), gone=(".git/x", "file/y", ".gonogo/z", "free/w")),
    )  # fmt: skip

    assert {item.path: (item.action, item.reason) for item in restore.items} == {
        ".gonogo/a": ("conflict", "protected"), ".git/a": ("conflict", "protected"),
        "file/x": ("conflict", "in_the_way"), "full": ("conflict", "in_the_way"),
        "made": ("restore", ""), ".envrc": ("restore", ""), "made/gone": ("restore", ""),
    }  # fmt: skip
    assert [item.path for item in restore.conflicts] == [".git/a", ".gonogo/a", "file/x", "full"]
    assert [item.path for item in restore.changes] == [".envrc", "made", "made/gone"]
    assert restore.folders == Folders(made=("made", "full"), gone=("free/w",))
    snapshots.apply(workspace, restore)
    assert (workspace.root / "made").read_text() == "one"
    assert (workspace.root / "free/w").is_dir()


@pytest.mark.parametrize("meta", ["", "[]", "{}", '{"empty": [], "modes": {}, "unseen": 7}'])
def test_a_snapshot_whose_words_are_damaged_is_told(
    snapshots: Snapshots, tmp_path: Path, meta: str
) -> None:
    blob = snapshots.blob(meta.encode())
    given = f"100644 blob {blob}\tmeta\n".encode()
    tree = Tree(Git(tmp_path / "store").run("mktree", given=given).decode().strip())

    with refusal("io_error") as refused:
        paths_in(snapshots, tree)
    assert str(refused.value) == f"The snapshot {tree!r} is damaged"


def test_what_a_snapshot_says_besides_its_files_is_read(
    snapshots: Snapshots, workspace: Workspace
) -> None:
    write(workspace, a="one", b="two")
    (workspace.root / "b").chmod(0o600)
    (workspace.root / "empty/er").mkdir(parents=True)
    (workspace.root / ".gitignore").write_text("hidden\n")
    (workspace.root / "hidden").mkdir()
    (workspace.root / "hidden/x").touch()
    before = snapshots.take(workspace)
    (workspace.root / "b").chmod(0o640)
    (workspace.root / "empty/er").rmdir()
    (workspace.root / "new/er").mkdir(parents=True)
    after = snapshots.take(workspace)

    assert [snapshots.trees.hides(before, path) for path in ("hidden", "hidden/x", "a", "hid")] == [
        False, True, False, False,
    ]  # fmt: skip
    assert snapshots.trees.folders(before, after) == Folders(
        made=("new", "new/er"), gone=("empty/er",)
    )
    # What is the same is not read: most commands change nothing.
    lost = Tree("0" * 40)
    assert (snapshots.trees.diff(lost, lost), snapshots.trees.folders(lost, lost)) == (
        (),
        Folders(),
    )
    [change] = snapshots.trees.diff(before, after)
    assert change.path == "b"
    assert change.before == replace(change.after, mode=stat.S_IFREG | 0o600)
    assert change.after == held(snapshots, "two", 0o640)
    assert snapshots.trees.diff(before, before) == ()
    assert state_in(snapshots, before, "none") is None
    assert files_id(snapshots, before) == files_id(snapshots, after)
