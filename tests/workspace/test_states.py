"""What snapshots speak of: the modes that are kept, what stands on the disk, and what was there."""

import os
import socket
import stat
from pathlib import Path

import pytest

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed
from gonogo.workspace.snapshots.restore import _judged
from gonogo.workspace.snapshots.states import (
    ABSENT,
    DiskState,
    FileState,
    blocker,
    check_path,
    git_mode,
    kept_mode,
    look,
    parents,
)

FILE, LINK = stat.S_IFREG, stat.S_IFLNK


@pytest.mark.parametrize(
    ("mode", "git", "kept"),
    [
        (FILE | 0o644, "100644", FILE | 0o644),
        (FILE | 0o755, "100755", FILE | 0o755),
        (FILE | 0o100, "100755", FILE | 0o100),
        (FILE | 0o677, "100644", FILE | 0o677),
        (FILE | 0o6711, "100755", FILE | 0o711),
        (LINK | 0o777, "120000", LINK),
    ],
)
def test_of_a_mode_the_kind_and_nine_bits_are_kept(mode: int, git: str, kept: int) -> None:
    assert (git_mode(mode), kept_mode(mode)) == (git, kept)


def test_the_folders_above_a_path_are_named_from_the_nearest_on() -> None:
    assert parents("a/b/c") == ["a/b", "a"]
    assert parents("a") == []


@pytest.mark.parametrize("path", ["", ".", "..", "a//b", "/a", "a/", "a/./b", "a/../b", "a\0b"])
def test_what_is_no_path_of_a_snapshot_is_refused(path: str) -> None:
    assert check_path("a/.b/...") == "a/.b/..."
    with pytest.raises(ToolFailed) as refused:
        check_path(path)
    assert (refused.value.kind, str(refused.value)) == (
        "bad_path", f"{path!a} is not a path of a snapshot",
    )  # fmt: skip


def state(text: str, mode: int = FILE | 0o644) -> FileState:
    return FileState(blob="b" * 40, mode=mode, hash=content_hash(text.encode()))


def disk(text: str, mode: int = FILE | 0o644, **more) -> DiskState:
    kind = "link" if stat.S_ISLNK(mode) else "file"
    return DiskState(kind=kind, hash=content_hash(text.encode()), mode=mode, **more)


FOLDER, OTHER = DiskState(kind="folder"), DiskState(kind="other")


@pytest.mark.parametrize(
    ("found", "wanted", "holds", "equals"),
    [
        (disk("a"), state("a"), True, True),
        (disk("a", linked=True), state("a"), True, True),
        (disk("a"), state("b"), False, False),
        (disk("a"), state("a", FILE | 0o755), True, False),
        (disk("a", LINK), state("a", LINK), True, True),
        (disk("a", LINK), state("a", LINK | 0o777), True, True),
        (disk("a", LINK), state("a"), False, False),
        (disk("a"), state("a", LINK), False, False),
        (OTHER, state("a"), False, False),
    ],
)
def test_a_file_is_as_a_state_says_with_its_kind_content_and_mode(
    found: DiskState, wanted: FileState, holds: bool, equals: bool
) -> None:
    assert (found.holds(wanted), found.equals(wanted)) == (holds, equals)


def test_no_file_is_where_nothing_or_a_folder_is() -> None:
    there = (ABSENT, FOLDER, disk("a"), disk("a", LINK), OTHER)
    assert [each.equals(None) for each in there] == [True, True, False, False, False]


def test_what_stands_at_a_path_is_seen_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file").write_text("a")
    (tmp_path / "sub/file").chmod(0o640)
    os.link(tmp_path / "sub/file", tmp_path / "second")
    (tmp_path / "single").write_text("a")
    (tmp_path / "single").chmod(0o4755)
    (tmp_path / "link").symlink_to("sub")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        found = {
            path: look(root, path)
            for path in ("sub", "sub/file", "single", "link", "pipe", "socket", "none",
                         "sub/file/x", "link/file", "none/x", "x" * 300)
        }  # fmt: skip
        above = [
            blocker(root, path)
            for path in ("a", "sub/x", "sub/file/x/y", "link/x", "none/x/y", "sub/none/x", "pipe/x")
        ]
    finally:
        os.close(root)

    assert found == {
        "sub": FOLDER,
        "sub/file": disk("a", FILE | 0o640, linked=True),
        "single": disk("a", FILE | 0o755),
        "link": disk("sub", LINK),
        "pipe": OTHER, "socket": OTHER, "none": ABSENT,
        "sub/file/x": ABSENT, "link/file": ABSENT, "none/x": ABSENT, "x" * 300: OTHER,
    }  # fmt: skip
    assert above == [None, None, "sub/file", "link", None, None, "pipe"]


RW, RWX, PRIVATE = FILE | 0o644, FILE | 0o755, FILE | 0o600


@pytest.mark.parametrize(
    ("wanted", "left", "found", "verdict"),
    [
        # It stands as it is wanted.
        (state("a"), state("b"), disk("a"), ("nothing", state("a"), "")),
        (None, state("b"), ABSENT, ("nothing", None, "")),
        (state("a"), None, disk("a", RWX), ("nothing", state("a"), "")),
        # It stands as it was left.
        (state("a"), state("b"), disk("b"), ("restore", state("a"), "")),
        (None, state("b"), disk("b"), ("restore", None, "")),
        (state("a"), None, ABSENT, ("restore", state("a"), "")),
        (state("a"), None, FOLDER, ("restore", state("a"), "")),
        (state("a"), content_hash(b"b"), disk("b"), ("restore", state("a"), "")),
        (state("a"), content_hash(b"b"), disk("b", PRIVATE), ("restore", state("a", PRIVATE), "")),
        (None, content_hash(b"b"), disk("b"), ("restore", None, "")),
        (state("a", LINK), state("b"), disk("b"), ("restore", state("a", LINK), "")),
        (state("a"), state("b", LINK), disk("b", LINK), ("restore", state("a"), "")),
        # Somebody changed it.
        (state("a"), state("b"), disk("c"), ("conflict", state("a"), "changed")),
        (state("a"), state("b"), ABSENT, ("conflict", state("a"), "changed")),
        (state("a"), None, disk("c"), ("conflict", state("a"), "changed")),
        (None, state("b"), disk("c"), ("conflict", None, "changed")),
        (state("a"), content_hash(b"b"), FOLDER, ("conflict", state("a"), "changed")),
        (None, None, disk("c"), ("conflict", None, "changed")),
        # It has a second name.
        (state("a"), state("b"), disk("b", linked=True), ("conflict", state("a"), "hard_link")),
        # Somebody changed its mode.
        (state("a"), state("b"), disk("b", RWX), ("restore", state("a", RWX), "")),
        (state("a"), state("b", RWX), disk("b"), ("restore", state("a"), "")),
        (state("a"), state("b", RWX), disk("b", PRIVATE),
         ("conflict", state("a"), "mode_changed")),
        (None, state("b"), disk("b", RWX), ("conflict", None, "mode_changed")),
        (state("a"), content_hash(b"b"), disk("b", RWX),
         ("conflict", state("a"), "mode_changed")),
        (state("a"), state("a", RWX), disk("a", PRIVATE),
         ("conflict", state("a"), "mode_changed")),
        (state("a", PRIVATE), state("a", PRIVATE), disk("a", RWX),
         ("nothing", state("a", RWX), "")),
    ],
)  # fmt: skip
def test_what_becomes_of_a_path_follows_from_what_is_wanted_left_and_found(
    wanted: FileState | None,
    left: FileState | str | None,
    found: DiskState,
    verdict: tuple[str, FileState | None, str],
) -> None:
    item = _judged("p", wanted, left, found)

    assert (item.path, item.found) == ("p", found)
    assert (item.action, item.wanted, item.reason) == verdict
