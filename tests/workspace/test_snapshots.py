"""Snapshots promise that what they hold comes back byte for byte, that the user's own repository
is neither written nor obeyed, and that a rollback is all or nothing and never costs a person's
work, whatever was ignored, linked, renamed or interrupted meanwhile."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fakes.trees import files_id, paths_in, state_in
from gonogo.domain.base import content_hash
from gonogo.domain.errors import Busy, ToolFailed
from gonogo.workspace import Workspace
from gonogo.workspace.snapshots import restore as restoring
from gonogo.workspace.snapshots.git import Git, blob_id
from gonogo.workspace.snapshots.restore import Restore
from gonogo.workspace.snapshots.scan import ScanRecord
from gonogo.workspace.snapshots.snapshot import Snapshots
from gonogo.workspace.snapshots.states import (
    Change,
    DiskState,
    FileState,
    Folders,
    SnapshotLimits,
    Tree,
)
from plugins.nightly import examples

Picture = dict[str, tuple[str, bytes, int]]
"""Each file, link and folder: its kind, content and mode."""

AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false")


def hash_of(snapshots: Snapshots, tree: Tree, path: str) -> str | None:
    state = state_in(snapshots, tree, path)
    return state.hash if state else None


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path


@pytest.fixture
def root(place: Path) -> Path:
    return place / "ws"


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)


@pytest.fixture
def snapshots(place: Path) -> Snapshots:
    return Snapshots(place / "state" / "snapshots")


def refused(kind: str):
    return pytest.raises(ToolFailed, check=lambda failure: failure.kind == kind)


def fill(root: Path, files: Mapping[str, bytes | str]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *AUTHOR, *arguments], cwd=folder, capture_output=True, timeout=60, check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )  # fmt: skip
    return done.stdout.decode()


def picture(root: Path) -> Picture:
    """Everything below a folder, read without any of gonogo's code."""
    found: Picture = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            own = os.fsdecode(os.path.relpath(path, os.fsencode(root)))
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                found[own] = ("link", os.readlink(path), 0)
            elif stat.S_ISDIR(status.st_mode):
                found[own] = ("folder", b"", 0)
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    found[own] = ("file", file.read(), mode)
    return found


def digest_of(folder: Path) -> str:
    """All bytes, names, modes and times of a folder."""
    running = hashlib.sha256()
    for above, folders, files in sorted(os.walk(folder)):
        for name in sorted((*folders, *files)):
            path = Path(above, name)
            status = path.lstat()
            running.update(f"{path}{status.st_mode}{status.st_mtime_ns}{status.st_ino}".encode())
            if path.is_file():
                running.update(path.read_bytes())
    return running.hexdigest()


def changed(snapshots: Snapshots, before: Tree, after: Tree) -> dict[str, Change]:
    return {change.path: change for change in snapshots.trees.diff(before, after)}


def undo(snapshots: Snapshots, workspace: Workspace, before: Tree, after: Tree) -> Restore:
    """Roll back everything that happened between two snapshots."""
    restore = plan(snapshots, workspace, before, after)
    snapshots.apply(workspace, restore)
    return restore


def plan(snapshots: Snapshots, workspace: Workspace, before: Tree, after: Tree) -> Restore:
    changes = snapshots.trees.diff(before, after)
    return snapshots.plan_restore(
        workspace,
        {change.path: change.before for change in changes},
        {change.path: change.after for change in changes},
        folders=snapshots.trees.folders(before, after),
    )


def reasons(restore: Restore) -> dict[str, str]:
    return {item.path: item.reason for item in restore.conflicts}


# --- taking


def test_equal_workspaces_have_equal_snapshots_and_a_change_makes_another(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"a.txt": "one", "d/b.txt": "two"})
    first = snapshots.take(workspace)
    again = snapshots.take(workspace)
    fill(root, {"a.txt": "two"})
    other = snapshots.take(workspace)
    fill(root, {"a.txt": "one"})

    assert first == again == snapshots.take(workspace) != other
    assert files_id(snapshots, first) != files_id(snapshots, other)
    assert paths_in(snapshots, first) == ("a.txt", "d/b.txt")
    assert hash_of(snapshots, first, "d/b.txt") == content_hash(b"two")
    assert hash_of(snapshots, first, "d") is None


def test_an_empty_workspace_has_a_snapshot(snapshots: Snapshots, workspace: Workspace) -> None:
    tree = snapshots.take(workspace)

    assert paths_in(snapshots, tree) == ()
    assert snapshots.trees.verify(tree) == ()
    assert files_id(snapshots, tree) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_the_files_id_is_the_hash_that_git_gives_to_the_same_tree(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"a.txt": "one\r\n", "d/e/b.bin": b"\0\xff"})
    (root / "a.txt").chmod(0o755)
    os.symlink("a.txt", root / "link")
    git(root, "init", "-q")
    git(root, "add", "-A")

    assert files_id(snapshots, snapshots.take(workspace)) == git(root, "write-tree").strip()


def test_another_process_finds_what_the_last_one_took(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {"a": "one", "b": "two"})
    before = snapshots.take(workspace)
    other = Snapshots(place / "state" / "snapshots")

    assert other.take(workspace) == before
    assert other.read(blob_id(b"two")) == b"two"


def test_a_damaged_or_stale_cache_does_no_harm(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {"a": "one", "b": "two"})
    before = snapshots.take(workspace)
    (cache,) = (place / "state" / "snapshots" / "workspaces").glob("*/index.msgpack")
    for damage in (b"", cache.read_bytes()[:-1], b"{", b"\x80", b"\x94\x07\xc0\xa0\x80"):
        cache.write_bytes(damage)
        assert Snapshots(place / "state" / "snapshots").take(workspace) == before


@pytest.mark.parametrize("step", [None, -(10**12)])
def test_a_snapshot_after_changes_is_the_one_that_a_new_store_takes(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path, step: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if step:
        # What is remembered is believed at once.
        monkeypatch.setattr("gonogo.workspace.snapshots.scan._STEP", step)
    fill(root, {f"{folder}/{name}": f"{folder}{name}" for folder in "abcd" for name in "xyz"})
    fill(root, {".gitignore": "*.log\nout/\n/b/own.*\n", "a/a.log": "", "out/a": "", "b/own.1": ""})
    os.mkfifo(root / "pipe")
    snapshots.take(workspace)
    stories: list[dict[str, str | None]] = [
        {"a/x": "other", "a/y": None}, {"b": None, "new/deep/file": "1"},
        {"c/x": None, "c/x/below": "a folder where a file was"}, {"d": "a file where a folder was"},
        {"c/x": "a file again"}, {"new": None, "a/z": None, "\udcff\n": "odd", 'q"\\': "odder"},
        {"b/own.2": "", "b/other": "", "a/out/1": "", "c/n.log": "", "c/e/out/2": "", "c/e/3": ""},
        {"out": "no folder"}, {"out": None, "out/b": "", "d": None, "d/a.log": "", "d/out/c": ""},
        {"new/.gitignore": "!a.log\nb\n", "new/a.log": "shown", "new/b/c": ""}, {"new/b": "file"},
        {".git/HEAD": "not a whole repository"}, {"r/.git/HEAD": "nor this", "r/s": ""},
        {"r/.git": None},
        {**{f"a/{n}.txt": str(n) for n in range(300)}, "a/1.log": ""}, {"a": None},
        {".gitignore": "out/\n"}, {"x/.gitignore": "*", "x/1": ""}, {".gitignore": None},
    ]  # fmt: skip
    for story in stories:
        put_in_place(root, story)
        taken = snapshots.take(workspace)
        new = Snapshots(place / f"new{stories.index(story)}").take(workspace)
        assert (story, taken) == (story, new)
        assert snapshots.take(workspace) == taken
        assert snapshots.trees.verify(taken) == ()
    (folder,) = (place / "state" / "snapshots" / "workspaces").iterdir()
    assert {path.name for path in folder.iterdir()} == {"index.msgpack", "lock", "stamp"}
    fsck = ("--git-dir", str(place / "state/snapshots"), "fsck", "--strict", "--full")
    assert {line.split()[0] for line in git(root, *fsck).splitlines()} == {"dangling"}


def test_git_is_asked_about_new_names_alone_while_its_rules_are_the_same(
    snapshots: Snapshots, workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr("gonogo.workspace.snapshots.scan._STEP", -(10**12))
    process = Git.process
    monkeypatch.setattr(
        Git, "process", lambda self, *words, **rest: (
            asked.append(words[words.index("--") + 1 :] if "--" in words else ("all",)),
            process(self, *words, **rest),
        )[1],
    )  # fmt: skip
    fill(root, {".gitignore": "*.log\n", "a/x": "1", "a/y.log": "", "b/c/z": "2", "sub/own": ""})
    git(root / "sub", "init", "-q")
    os.mkfifo(root / "pipe")
    steps: list[tuple[dict[str, str | None], list[tuple[str, ...]]]] = [
        ({}, [("all",)]), ({"a/x": "11", "b/c/z": None}, []), ({"a/new": ""}, [("a/new",)]),
        ({"d/e": "", "d/f.log": ""}, [("d",)]), ({"d/e": "more"}, []), ({"d": None}, []),
        ({".gitignore": "*.lag\n"}, [("all",)]), ({"b/.gitignore": "c"}, [("all",)]), ({}, []),
    ]  # fmt: skip
    for story, told in steps:
        put_in_place(root, story)
        asked.clear()
        snapshots.take(workspace)
        assert (story, asked) == (story, told)


def put_in_place(root: Path, story: dict[str, str | None]) -> None:
    for name, text in story.items():
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if text is not None:
            fill(root, {name: text})


def test_a_change_of_the_same_size_is_seen_however_soon_it_comes(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    for number in range(10, 30):
        (root / "a").write_bytes(b"%d" % number)
        tree = snapshots.take(workspace)
        assert hash_of(snapshots, tree, "a") == content_hash(b"%d" % number)


def test_snapshots_taken_at_once_agree(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {f"d{n}/f": str(n) for n in range(50)})
    taken: list[Tree] = []
    stores = [snapshots, snapshots, Snapshots(place / "state" / "snapshots")]
    threads = [
        threading.Thread(target=lambda store=store: taken.append(store.take(workspace)))
        for store in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert len(taken) == 3
    assert len(set(taken)) == 1
    assert snapshots.trees.verify(taken[0]) == ()


def test_workspaces_share_a_store_without_sharing_files(place: Path) -> None:
    snapshots = Snapshots(place / "store")
    for name in ("one", "two"):
        fill(place, {f"{name}/{name}": "same"})
    trees = [snapshots.take(Workspace(place / name)) for name in ("one", "two")]

    assert [paths_in(snapshots, tree) for tree in trees] == [("one",), ("two",)]


# --- the user's repository


def hostile_repository(root: Path, canary: Path) -> None:
    """A repository whose every hook, filter and setting would leave a trace."""
    script = root.parent / "trap"
    script.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    script.chmod(0o755)
    git(root, "init", "-q")
    fill(
        root,
        {".gitattributes": "* text eol=crlf filter=trap ident\n*.w working-tree-encoding=UTF-16\n"},
    )
    fill(root, {"a.txt": "one\r\ntwo\n$Id$\n", "b.w": "text", "c.bin": bytes(range(256))})
    git(root, "add", "a.txt")
    git(root, "commit", "-qm", "first")
    for key in ("filter.trap.clean", "filter.trap.smudge", "core.fsmonitor", "diff.external"):
        git(root, "config", key, str(script))
    git(root, "config", "core.autocrlf", "true")
    git(root, "config", "core.excludesFile", str(root / "a.txt"))
    for hook in ("post-index-change", "pre-commit", "post-checkout"):
        (root / ".git" / "hooks" / hook).parent.mkdir(exist_ok=True)
        shutil.copy(script, root / ".git" / "hooks" / hook)


def test_not_a_byte_of_the_users_repository_is_written_and_nothing_in_it_is_obeyed(
    snapshots: Snapshots,
    workspace: Workspace,
    root: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canary = place / "canary"
    hostile_repository(root, canary)
    monkeypatch.setenv("GIT_DIR", str(root / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(root / ".git" / "index"))
    monkeypatch.setenv("HOME", str(root))
    (root / ".gitconfig").write_text(f"[core]\n\tfsmonitor = {place / 'trap'}\n")
    canary.unlink(missing_ok=True)
    own, files = digest_of(root / ".git"), picture(root)

    before = snapshots.take(workspace)
    fill(root, {"a.txt": "changed", "new/n.txt": "new"})
    after = snapshots.take(workspace)
    snapshots.trees.unified(before, after, "a.txt")
    undo(snapshots, workspace, before, after)

    assert digest_of(root / ".git") == own
    assert picture(root) == files
    assert not canary.exists()
    assert hash_of(snapshots, before, "a.txt") == content_hash(b"one\r\ntwo\n$Id$\n")
    assert hash_of(snapshots, before, "b.w") == content_hash(b"text")


def test_a_locked_index_a_switched_branch_and_a_collection_do_not_disturb(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    git(root, "init", "-q")
    fill(root, {"a.txt": "one"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    before = snapshots.take(workspace)
    git(root, "checkout", "-qb", "other")
    git(root, "gc", "-q")
    (root / ".git" / "index.lock").touch()

    assert snapshots.take(workspace) == before


def repositories(root: Path) -> None:
    """One nested, one as a worktree, one as a submodule, one bare."""
    git(root, "init", "-q")
    for name in ("nested", "origin"):
        fill(root, {f"{name}/own.txt": name})
        git(root / name, "init", "-q")
        git(root / name, "add", "-A")
        git(root / name, "commit", "-qm", "first")
    git(root / "nested", "worktree", "add", "-q", str(root / "tree"), "-b", "side")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "./origin", "sub")
    git(root, "clone", "-q", "--bare", "origin", "bare.git")


def test_other_repositories_inside_are_left_alone(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    repositories(root)
    fill(root, {"own.txt": "own"})
    inside = ("nested", "origin", "tree", "sub", "bare.git")
    before = snapshots.take(workspace)
    fill(root, {f"{name}/new.txt": "new" for name in inside})
    fill(root, {"nested/own.txt": "changed", "bare.git/HEAD": "ref: refs/heads/else"})
    kept = {name: picture(root / name) for name in inside}
    fill(root, {"own.txt": "changed"})
    after = snapshots.take(workspace)
    undo(snapshots, workspace, before, after)

    assert paths_in(snapshots, before) == (".gitmodules", "own.txt")
    assert {name: picture(root / name) for name in inside} == kept
    assert (root / "own.txt").read_text() == "own"


def test_a_repository_that_stops_being_one_is_not_taken_for_the_agents_files(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"nested/own.txt": "precious"})
    git(root / "nested", "init", "-q")
    before = snapshots.take(workspace)
    shutil.rmtree(root / "nested" / ".git")
    after = snapshots.take(workspace)
    undo(snapshots, workspace, before, after)

    assert (root / "nested" / "own.txt").read_text() == "precious"


def test_a_folder_that_becomes_a_repository_stays_watched(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"d/own.txt": "precious"})
    before = snapshots.take(workspace)
    git(root / "d", "init", "-q")
    (root / "d" / "own.txt").unlink()
    after = snapshots.take(workspace)
    undo(snapshots, workspace, before, after)

    assert (root / "d" / "own.txt").read_text() == "precious"


def test_a_store_inside_the_workspace_does_not_hold_itself(
    workspace: Workspace, root: Path
) -> None:
    fill(root, {"a": "one"})
    snapshots = Snapshots(root / "state")
    first = snapshots.take(workspace)

    assert snapshots.take(workspace) == first
    assert paths_in(snapshots, first) == ("a",)


# --- what is held


STRANGE_NAMES = (
    b"blank and 'quotes' \"", b"new\nline", b"tab\there", b"\xff\xfe.bin", b"caf\xe9/\x80",
    "кириллица/файл".encode(), b"-rf", b"*", b"a\\b", b"git~1", b"con", b"dot.", b"=x", b":(top)y",
    b".gitignored", b"\x1b[31m", b"sub/.GITHUB/x", b"meta", b"files/meta", b"x" * 255,
)  # fmt: skip
STRANGE_CONTENTS = (b"", b"\r\n", b"a\r\nb\n", b"\0\1\2", b"\xff\xfe\xfa", bytes(range(256)) * 400)


def test_names_and_contents_of_every_kind_come_back_byte_for_byte(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    for number, name in enumerate(STRANGE_NAMES):
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(STRANGE_CONTENTS[number % len(STRANGE_CONTENTS)])
    files = picture(root)
    before = snapshots.take(workspace)
    for entry in root.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    after = snapshots.take(workspace)
    restore = undo(snapshots, workspace, before, after)

    assert len(restore.changes) == len(STRANGE_NAMES)
    assert restore.conflicts == ()
    assert picture(root) == files
    assert snapshots.take(workspace) == before


def test_modes_come_back_and_a_secret_stays_one(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    modes = {"run.sh": 0o755, "key.txt": 0o600, "odd": 0o711, "plain": 0o644, "group": 0o664}
    fill(root, dict.fromkeys(modes, "same"))
    for name, mode in modes.items():
        (root / name).chmod(mode)
    files = picture(root)
    before = snapshots.take(workspace)
    (root / "run.sh").chmod(0o644)
    (root / "odd").chmod(0o755)
    (root / "plain").chmod(0o755)
    (root / "group").unlink()
    (root / "key.txt").chmod(0o644)
    after = snapshots.take(workspace)

    assert set(changed(snapshots, before, after)) == {"run.sh", "odd", "plain", "group", "key.txt"}
    undo(snapshots, workspace, before, after)
    assert picture(root) == files


def test_links_are_held_as_links_and_never_followed(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(place, {"outside/secret": "CANARY"})
    links = {"out": "../outside/secret", "folder": "../outside", "gone": "no/where", "up": ".."}
    for name, target in links.items():
        os.symlink(target, root / name)
    files, outside = picture(root), picture(place / "outside")
    before = snapshots.take(workspace)
    for name in links:
        (root / name).unlink()
    fill(root, {"out": "a file now", "folder/secret": "a folder now"})
    after = snapshots.take(workspace)
    undo(snapshots, workspace, before, after)

    assert hash_of(snapshots, before, "out") == content_hash(b"../outside/secret")
    assert paths_in(snapshots, before) == ("folder", "gone", "out", "up")
    assert picture(root) == files
    assert picture(place / "outside") == outside


def test_ignored_files_are_not_held_but_their_contents_can_be(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {".gitignore": "*.log\nbuild/\n", "a.log": "log", "build/out": "x", "src/a": "a"})
    fill(root, {"src/.gitignore": "b\n", "src/b": "b", "env/.gitignore": "*", "env/bin/x": "x"})
    tree = snapshots.take(workspace)
    blob = snapshots.blob(b"log \0\xff\r\n")

    assert paths_in(snapshots, tree) == (".gitignore", "src/.gitignore", "src/a")
    assert blob == blob_id(b"log \0\xff\r\n")
    assert snapshots.read(blob) == b"log \0\xff\r\n"


def test_pipes_sockets_and_state_folders_are_left_alone(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"a": "a", ".gonogo/x": "x", ".hg/y": "y", "d/.svn/z": "z"})
    fill(root, {".gonogo-0123456789abcdef.tmp": "on its way"})
    os.mkfifo(root / "pipe")
    os.symlink("a", root / ".gitmodules")

    assert paths_in(snapshots, snapshots.take(workspace)) == ("a",)


def test_too_much_is_refused_with_the_name_of_the_limit(place: Path, root: Path) -> None:
    workspace = Workspace(root)
    fill(root, {"a": "1234567", "b": "12345", "c": "1234"})
    for limits in (SnapshotLimits(file=6), SnapshotLimits(total=15), SnapshotLimits(files=2)):
        with refused("too_large") as refusal:
            Snapshots(place / "store", limits=limits).take(workspace)
        assert "limit" in str(refusal.value)
    with open(root / "huge.img", "wb") as file:
        file.truncate(1 << 40)
    with refused("too_large") as refusal:
        Snapshots(place / "store").take(workspace)
    assert "'huge.img'" in str(refusal.value)

    fill(root, {".gitignore": "*.img"})
    assert "a" in paths_in(Snapshots(place / "store"), Snapshots(place / "store").take(workspace))


def test_a_store_that_cannot_be_written_is_said(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {"a": "one"})
    snapshots.take(workspace)
    objects = place / "state" / "snapshots" / "objects"
    shutil.rmtree(objects)
    objects.write_text("in the way")
    fill(root, {"a": "two"})

    with refused("io_error"):
        snapshots.take(workspace)


def test_a_workspace_that_went_away_and_a_store_that_is_not_there_yet_are_said(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    with refused("io_error"):
        snapshots.read(blob_id(b"x"))
    snapshots.take(workspace)
    root.rmdir()
    with refused("io_error"):
        snapshots.take(workspace)
    (place / "file").write_text("in the way")
    root.mkdir()
    with pytest.raises(Busy):
        Snapshots(place / "file" / "store").take(workspace)


def test_a_lost_snapshot_is_made_again(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {"a": "one"})
    tree = snapshots.take(workspace)
    lay_loose(place / "state" / "snapshots")
    (place / "state" / "snapshots" / "objects" / tree[:2] / tree[2:]).unlink()
    with refused("io_error"):
        snapshots.trees.verify(tree)

    assert snapshots.take(workspace) == tree
    assert snapshots.trees.verify(tree) == ()


def lay_loose(store: Path) -> None:
    """Have every object lie for itself."""
    for pack in (store / "objects/pack").glob("*.pack"):
        data = pack.read_bytes()
        for path in (pack.with_suffix(".idx"), pack):
            path.unlink()
        unpack = ["git", "-C", str(store), "unpack-objects", "-q"]
        subprocess.run(unpack, input=data, check=True)


@pytest.mark.parametrize("change", [{}, {"c": "three"}, {"d/x": "four"}])
@pytest.mark.parametrize("lost", [b"one", b"two", b"tree"])
def test_lost_contents_are_found_out_and_held_again_whatever_has_changed(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path, lost: bytes,
    change: dict[str, bytes | str],
) -> None:  # fmt: skip
    fill(root, {"a": "one", "d/b": "two"})
    tree, store = snapshots.take(workspace), place / "state" / "snapshots"
    lay_loose(store)
    below = git(root, "--git-dir", str(store), "rev-parse", f"{tree}:files/d").strip()
    name = below if lost == b"tree" else blob_id(lost)
    (store / "objects" / name[:2] / name[2:]).unlink()

    fill(root, change)
    assert snapshots.trees.verify(snapshots.take(workspace)) == ()
    if (lost, change) != (b"tree", {"d/x": "four"}):
        # Else the folder has another tree now.
        assert snapshots.trees.verify(tree) == ()


def test_a_pack_that_is_lost_or_has_a_damaged_index_is_missed(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {f"{n}": str(n) for n in range(3_000)})
    for suffix in (".pack", ".idx"):
        tree = snapshots.take(workspace)
        for pack in [*(place / "state/snapshots/objects/pack").glob("*.pack")]:
            pack.with_suffix(suffix).unlink()
            (pack.with_suffix(".idx")).touch()
        again = Snapshots(place / "state/snapshots")
        assert again.take(workspace) == tree
        assert again.trees.verify(tree) == ()


def test_what_is_given_out_has_its_name_on_the_disk(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    store, real, kept = place / "state/snapshots", os.fsync, dict[Path, set[str]]()

    def noting(descriptor: int) -> None:
        real(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            kept[path] = set(os.listdir(path))

    monkeypatch.setattr(os, "fsync", noting)
    for number in range(2):
        fill(root, {"a": f"one {number}", "d/b": "two"})
        snapshots.take(workspace)
        snapshots.blob(b"beside %d" % number, root)
        for path in (store / "objects").rglob("*"):
            while path != store.parent:
                assert path.name in kept[path.parent], path
                path = path.parent

    shutil.copytree(root, place / "same")
    kept.clear()
    snapshots.take(Workspace(place / "same"))
    snapshots.blob(b"beside 0", root)
    assert {*kept} == {store / "objects/pack", Git(store).place(blob_id(b"beside 0")).parent}


@pytest.mark.parametrize("name", ["", "--help", "HEAD", "0" * 39, "0" * 40])
def test_what_is_no_id_is_refused(snapshots: Snapshots, workspace: Workspace, name: str) -> None:
    snapshots.take(workspace)

    for look in (snapshots.read, lambda id_: paths_in(snapshots, Tree(id_))):
        with pytest.raises(ToolFailed):
            look(name)


def test_only_the_owner_can_look_into_the_store(
    snapshots: Snapshots, workspace: Workspace, place: Path
) -> None:
    snapshots.take(workspace)

    assert stat.S_IMODE((place / "state" / "snapshots").stat().st_mode) == 0o700


# --- comparing


def test_a_difference_names_what_came_went_and_changed(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"stays": "s", "goes": "g", "changes": "one"})
    before = snapshots.take(workspace)
    (root / "goes").unlink()
    fill(root, {"comes": "c", "changes": "two"})
    after = snapshots.take(workspace)

    def state(data: bytes) -> FileState:
        mode = (root / "stays").stat().st_mode
        return FileState(blob=blob_id(data), mode=mode, hash=content_hash(data))

    assert snapshots.trees.diff(before, before) == ()
    assert snapshots.trees.diff(before, after) == (
        Change(path="changes", before=state(b"one"), after=state(b"two")),
        Change(path="comes", before=None, after=state(b"c")),
        Change(path="goes", before=state(b"g"), after=None),
    )


def test_a_difference_is_shown_as_text(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"d/a b": "one\ntwo\n", "bin": b"\0one", "l*": "x\n", "lx": "x\n"})
    before = snapshots.take(workspace)
    fill(root, {"d/a b": "one\n\x1b[31mthree\xff\n", "bin": b"\0two", "lx": "y\n"})
    after = snapshots.take(workspace)
    text = snapshots.trees.unified(before, after, "d/a b")

    assert text.splitlines()[-6:] == [
        "--- a/d/a b\t", "+++ b/d/a b\t", "@@ -1,2 +1,2 @@", " one", "-two", "+\x1b[31mthreeÿ",
    ]  # fmt: skip
    assert "Binary files a/bin and b/bin differ" in snapshots.trees.unified(before, after, "bin")
    assert snapshots.trees.unified(before, after, "l*") == ""
    cut = f"{text[:20]}\n[cut after 20 of {len(text)} characters]\n"
    assert snapshots.trees.unified(before, after, "d/a b", limit=20) == cut
    assert snapshots.trees.unified(before, after, "d/a b", limit=len(text)) == text


# --- rolling back


def test_a_rollback_gives_back_what_was_there(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"a": "one", "d/b": "two", "d/e/c": "three"})
    (root / "empty" / "inner").mkdir(parents=True)
    files = picture(root)
    before = snapshots.take(workspace)
    fill(root, {"a": "changed", "new/deep/n": "new", "d/n": "new"})
    shutil.rmtree(root / "d" / "e")
    shutil.rmtree(root / "empty")
    (root / "made").mkdir()
    after = snapshots.take(workspace)

    restore = undo(snapshots, workspace, before, after)

    assert {item.path: item.action for item in restore.items} == dict.fromkeys(
        ("a", "d/e/c", "d/n", "new/deep/n"), "restore"
    )
    assert picture(root) == files
    assert snapshots.take(workspace) == before


def test_a_rollback_can_be_rolled_back(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"a": "one", "gone": "x"})
    before = snapshots.take(workspace)
    fill(root, {"a": "two", "new/n": "new"})
    (root / "gone").unlink()
    files, after = picture(root), snapshots.take(workspace)
    undo(snapshots, workspace, before, after)
    undo(snapshots, workspace, after, snapshots.take(workspace))

    assert picture(root) == files


def test_what_a_person_changed_since_is_a_conflict_and_stays(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"edited": "one", "deleted": "one", "undone": "one", "other": "one"})
    before = snapshots.take(workspace)
    fill(root, {"edited": "agent", "deleted": "agent", "undone": "agent", "created": "agent"})
    fill(root, {"kept/a": "agent"})
    (root / "other").unlink()
    after = snapshots.take(workspace)
    fill(root, {"edited": "person", "created": "person", "other": "person", "undone": "one"})
    fill(root, {"kept/own": "person"})
    (root / "deleted").unlink()

    restore = undo(snapshots, workspace, before, after)

    assert reasons(restore) == dict.fromkeys(("edited", "deleted", "created", "other"), "changed")
    assert {item.path for item in restore.items if item.action == "nothing"} == {"undone"}
    assert {name: data for name, (kind, data, _) in picture(root).items() if kind == "file"} == {
        "edited": b"person", "created": b"person", "other": b"person", "undone": b"one",
        "kept/own": b"person",
    }  # fmt: skip


def test_a_persons_mode_stays_although_the_content_goes_back(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"a": "one", "b": "one"})
    before = snapshots.take(workspace)
    fill(root, {"a": "two", "new": "new"})
    (root / "b").chmod(0o755)
    after = snapshots.take(workspace)
    (root / "a").chmod(0o700)
    (root / "b").chmod(0o711)
    (root / "new").chmod(0o755)

    restore = undo(snapshots, workspace, before, after)

    assert reasons(restore) == {"b": "mode_changed", "new": "mode_changed"}
    assert (root / "a").read_text() == "one"
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "b").stat().st_mode) == 0o711


def test_with_a_content_hash_alone_an_unclear_right_to_execute_is_a_conflict(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"a": "one", "b": "one"})
    tree = snapshots.take(workspace)
    wanted = {name: state_in(snapshots, tree, name) for name in ("a", "b")}
    fill(root, {"a": "two", "b": "two"})
    (root / "b").chmod(0o755)

    restore = snapshots.plan_restore(workspace, wanted, dict.fromkeys(wanted, content_hash(b"two")))
    snapshots.apply(workspace, restore)

    assert reasons(restore) == {"b": "mode_changed"}
    assert [(root / name).read_text() for name in ("a", "b")] == ["one", "two"]


def test_an_ignored_file_goes_back_by_its_blob(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {".gitignore": ".env\n", ".env": "SECRET=1\n"})
    (root / ".env").chmod(0o600)
    data = (root / ".env").read_bytes()
    wanted = FileState(blob=snapshots.blob(data), mode=0o100600, hash=content_hash(data))
    workspace.write(".env", b"SECRET=2\n", base=content_hash(data))

    restore = snapshots.plan_restore(
        workspace, {".env": wanted}, {".env": content_hash(b"SECRET=2\n")}
    )
    snapshots.apply(workspace, restore)

    assert (root / ".env").read_bytes() == data
    assert stat.S_IMODE((root / ".env").stat().st_mode) == 0o600


@pytest.mark.parametrize("ignored_by", [".gitignore", "env/.gitignore"])
def test_files_that_were_ignored_before_are_never_deleted(
    snapshots: Snapshots, workspace: Workspace, root: Path, ignored_by: str
) -> None:
    rule = "*.log\nenv/\n" if ignored_by == ".gitignore" else "*\n"
    fill(root, {"env/x.log": "precious", "env/deep/y": "precious", ignored_by: rule, "a": "a"})
    files = picture(root)
    before = snapshots.take(workspace)
    (root / ignored_by).unlink()
    after = snapshots.take(workspace)
    assert "env/x.log" in paths_in(snapshots, after)
    undo(snapshots, workspace, before, after)

    del files[ignored_by]
    assert files.items() <= picture(root).items()


def test_files_that_are_ignored_later_stay_watched(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"kept.log": "precious", "d/changed": "one", "d/deleted": "precious"})
    files = picture(root)
    before = snapshots.take(workspace)
    fill(root, {".gitignore": "*.log\nd/\n", "d/changed": "two"})
    (root / "d" / "deleted").unlink()
    after = snapshots.take(workspace)

    assert set(changed(snapshots, before, after)) == {".gitignore", "d/changed", "d/deleted"}
    undo(snapshots, workspace, before, after)
    assert picture(root) == files


def test_files_that_are_ignored_later_are_not_deleted_when_the_cache_is_lost(
    workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {"kept.log": "precious"})
    files = picture(root)
    before = Snapshots(place / "store").take(workspace)
    fill(root, {".gitignore": "*.log\n"})
    shutil.rmtree(place / "store" / "workspaces")
    snapshots = Snapshots(place / "store")
    undo(snapshots, workspace, before, snapshots.take(workspace))

    assert picture(root) == files


def test_files_folders_and_links_that_took_each_others_places_go_back(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"file": "f", "folder/a": "a", "folder/d/b": "b", "linked/x": "x"})
    os.symlink("file", root / "link")
    files = picture(root)
    before = snapshots.take(workspace)
    for name in ("folder", "linked"):
        shutil.rmtree(root / name)
    for name in ("file", "link"):
        (root / name).unlink()
    fill(root, {"file/deep/f": "f", "folder": "now a file", "link": "now a file"})
    os.symlink("file", root / "linked")
    after = snapshots.take(workspace)
    restore = undo(snapshots, workspace, before, after)

    assert restore.conflicts == ()
    assert picture(root) == files


def test_what_a_person_put_in_the_way_stays(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"folder/a": "a", "file": "f"})
    before = snapshots.take(workspace)
    shutil.rmtree(root / "folder")
    (root / "file").unlink()
    fill(root, {"file/agent": "agent"})
    after = snapshots.take(workspace)
    fill(root, {"folder": "person", "file/person": "person"})

    restore = undo(snapshots, workspace, before, after)

    assert reasons(restore) == {"folder/a": "in_the_way", "file": "in_the_way"}
    assert (root / "folder").read_text() == "person"
    assert (root / "file" / "person").read_text() == "person"


def test_a_link_in_place_of_a_folder_leads_a_rollback_nowhere(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {"d/a": "one", "d/b": "one"})
    fill(place, {"outside/a": "two"})
    outside = picture(place / "outside")
    before = snapshots.take(workspace)
    fill(root, {"d/a": "two"})
    (root / "d" / "b").unlink()
    after = snapshots.take(workspace)
    shutil.rmtree(root / "d")
    os.symlink("../outside", root / "d")

    restore = undo(snapshots, workspace, before, after)

    assert set(reasons(restore)) == {"d/a", "d/b"}
    assert picture(place / "outside") == outside


def test_a_file_with_a_second_name_is_a_conflict_and_settings_of_editors_are_not(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"linked": "one", ".vscode/tasks.json": "one"})
    before = snapshots.take(workspace)
    fill(root, {"linked": "two", ".vscode/tasks.json": "slipped in"})
    after = snapshots.take(workspace)
    os.link(root / "linked", root.parent / "second")

    restore = undo(snapshots, workspace, before, after)

    assert reasons(restore) == {"linked": "hard_link"}
    assert (root.parent / "second").read_text() == "two"
    assert (root / ".vscode" / "tasks.json").read_text() == "one"


@pytest.mark.parametrize("path", ["", ".", "../x", "/etc/passwd", "a//b", "a/./b", "a\0b"])
def test_a_plan_for_a_bad_path_is_refused(
    snapshots: Snapshots, workspace: Workspace, path: str
) -> None:
    with refused("bad_path"):
        snapshots.plan_restore(workspace, {path: None}, {path: None})
    with refused("bad_path"):
        snapshots.plan_restore(workspace, {}, {}, folders=Folders(made=(path,)))


def test_nothing_is_ever_restored_into_a_repositorys_inside(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    state = FileState(blob=snapshots.blob(b"x"), mode=0o100755, hash=content_hash(b"x"))
    paths = (".git/hooks/pre-commit", "d/.GIT/config", ".gonogo/db")
    restore = snapshots.plan_restore(workspace, dict.fromkeys(paths, state), dict.fromkeys(paths))
    snapshots.apply(workspace, restore)

    assert reasons(restore) == dict.fromkeys(paths, "protected")
    assert picture(root) == {}


# --- all or nothing


def prepared(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> tuple[Picture, Picture, Restore]:
    """The files before and after an agent's work, and the plan to undo it."""
    fill(root, {"a": "one", "b/c": "one", "gone/g": "one", "swap": "one"})
    os.symlink("a", root / "link")
    first, before = picture(root), snapshots.take(workspace)
    fill(root, {"a": "two", "b/c": "two", "new/n": "two"})
    shutil.rmtree(root / "gone")
    (root / "swap").unlink()
    fill(root, {"swap/in": "two"})
    (root / "link").unlink()
    os.symlink("b", root / "link")
    second, after = picture(root), snapshots.take(workspace)
    return first, second, plan(snapshots, workspace, before, after)


@pytest.mark.parametrize("path", ["a", "b/c", "gone/g", "new/n", "swap", "swap/in", "link"])
def test_one_file_that_changed_after_the_plan_stops_all_of_it(
    snapshots: Snapshots, workspace: Workspace, root: Path, path: str
) -> None:
    _, _, restore = prepared(snapshots, workspace, root)
    if path == "swap":
        shutil.rmtree(root / "swap")
    (root / path).unlink(missing_ok=True)
    fill(root, {path: "person"})
    files = picture(root)

    with refused("changed_since_approval"):
        snapshots.apply(workspace, restore)

    assert picture(root) == files


Race = Callable[[], None]


def race(monkeypatch: pytest.MonkeyPatch, at: int, act: Race) -> None:
    """Let somebody act in the instant before the rename with this number."""
    count = 0

    def before(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            nonlocal count
            count += 1
            if count == at:
                act()
            return real(*arguments)

        return call

    monkeypatch.setattr(restoring, "rename_new", before(restoring.rename_new))
    monkeypatch.setattr(restoring, "exchange", before(restoring.exchange))


@pytest.mark.spread(3)
@pytest.mark.parametrize("swaps", [True, False], ids=["swapping", "without swapping"])
@pytest.mark.parametrize("path", ["a", "b/c", "gone/g", "new/n", "swap/in"])
@pytest.mark.parametrize("at", [1, 3, 5, 8, 12])
def test_a_person_who_saves_in_the_last_instant_loses_nothing(
    snapshots: Snapshots,
    workspace: Workspace,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    at: int,
    swaps: bool,
) -> None:
    first, _, restore = prepared(snapshots, workspace, root)
    if not swaps:
        monkeypatch.setattr(restoring, "exchange", lambda *_: False)

    def save() -> None:
        fill(root, {"beside": "person"})
        with_folder = root / path
        with_folder.parent.mkdir(exist_ok=True, parents=True)
        (root / "beside").rename(with_folder)

    with monkeypatch.context() as patched:
        race(patched, at, lambda: save() if not (root / "swap").is_file() else None)
        with suppress(ToolFailed):
            snapshots.apply(workspace, restore)
    now = {name: data for name, (kind, data, _) in picture(root).items() if kind == "file"}

    saved = b"person" in now.values()
    assert saved or now == {name: data for name, (k, data, _) in first.items() if k == "file"}
    assert not [name for name in now if name.startswith(".gonogo-")]


@pytest.mark.parametrize("swaps", [True, False], ids=["swapping", "without swapping"])
def test_what_was_replaced_before_one_file_had_changed_is_put_back(
    snapshots: Snapshots,
    workspace: Workspace,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    swaps: bool,
) -> None:
    fill(root, {"a": "one", "b": "one", "c": "one"})
    before = snapshots.take(workspace)
    fill(root, {"a": "two", "b": "two", "c": "two"})
    restore = plan(snapshots, workspace, before, snapshots.take(workspace))
    real = restoring.exchange

    def exchange(folder: int, first: str, second: str) -> bool:
        if second == "c" and (root / "c").read_text() == "two":
            fill(root, {"c": "person"})
        return swaps and real(folder, first, second)

    monkeypatch.setattr(restoring, "exchange", exchange)
    with refused("changed_since_approval"):
        snapshots.apply(workspace, restore)

    assert {path.name: path.read_text() for path in root.iterdir()} == {
        "a": "two", "b": "two", "c": "person",
    }  # fmt: skip


CRASH = """
import os, sys
from pathlib import Path
from gonogo.workspace import Workspace
from gonogo.workspace.snapshots import restore as restoring
from gonogo.workspace.snapshots.snapshot import Snapshots
from gonogo.workspace.snapshots.states import Tree

store, root, before, after, at, swaps = sys.argv[1:]
left = int(at)

def dying(real):
    def call(*arguments, **named):
        global left
        left -= 1
        if left < 0:
            os._exit(77)
        return real(*arguments, **named)
    return call

if swaps == "no":
    restoring.exchange = lambda *_: False
restoring.rename_new = dying(restoring.rename_new)
restoring.exchange = dying(restoring.exchange)
for name in ("unlink", "rmdir", "mkdir", "fsync", "symlink"):
    setattr(os, name, dying(getattr(os, name)))
snapshots, workspace = Snapshots(Path(store)), Workspace(Path(root))
changes = snapshots.trees.diff(Tree(before), Tree(after))
restore = snapshots.plan_restore(
    workspace,
    {change.path: change.before for change in changes},
    {change.path: change.after for change in changes},
    folders=snapshots.trees.folders(Tree(before), Tree(after)),
)
snapshots.apply(workspace, restore)
"""


@pytest.mark.parametrize("swaps", ["yes", "no"])
def test_a_rollback_that_was_killed_is_finished_by_applying_it_again(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path, swaps: str
) -> None:
    first, second, restore = prepared(snapshots, workspace, root)
    after = snapshots.take(workspace)
    snapshots.apply(workspace, restore)
    before = snapshots.take(workspace)
    undo(snapshots, workspace, after, before)
    assert picture(root) == second
    store, codes, every = str(place / "state" / "snapshots"), [77], examples(12, nightly=1)
    while codes[-1] == 77:
        again = place / f"killed {len(codes)}"
        shutil.copytree(root, again, symlinks=True)
        killed = Workspace(again)
        arguments = (store, str(again), before, after, str(1 + every * (len(codes) - 1)), swaps)
        done = subprocess.run(
            [sys.executable, "-c", CRASH, *arguments],
            env={"PYTHONPATH": os.pathsep.join(sys.path)}, timeout=60, check=False,
        )  # fmt: skip
        codes.append(done.returncode)
        assert _one_of_both(picture(again), first, second)
        if len(codes) % 2:
            restore = plan(snapshots, killed, before, after)
            assert restore.conflicts == ()
        snapshots.apply(killed, restore)
        assert picture(again) == first
        restore = plan(snapshots, workspace, before, after)

    assert codes[-1] == 0
    assert len(codes) > 24 // every


def _one_of_both(now: Picture, first: Picture, second: Picture) -> bool:
    """Whether every file is as it was or as it will be; one may be on its way."""
    files = {name: seen for name, seen in now.items() if not name.startswith(".gonogo-")}
    return all(
        seen in (first.get(name), second.get(name)) or "/.gonogo-" in name
        for name, seen in files.items()
    )


def interrupted(place: Path, root: Path, kept: Mapping[str, bytes]) -> restoring.Note:
    """A rollback that stopped while it kept these contents, each for its path."""
    desk = ScanRecord(place / "state" / "snapshots", root)
    desk.prepare()
    todo = [
        restoring.Noted(
            path=path,
            found=DiskState(kind="file", hash=content_hash(b"two")),
            wanted=DiskState(kind="file", hash=content_hash(b"one")),
        )
        for path in kept
    ]
    note = restoring.start(desk.note, todo)
    fill(root, {f"{note.folder}/{note.kept(path)}": data for path, data in kept.items()})
    return note


def test_what_an_interrupted_rollback_left_is_cleared_and_foreign_work_in_it_is_kept(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {"a": "one", "b": "mine"})
    interrupted(place, root, {"a": b"two", "b": b"precious", "lost/c": b"precious too"})
    snapshots.recover(workspace)

    now = {name: data for name, (_, data, _) in picture(root).items()}
    assert now.pop("a") == b"one"
    assert now.pop("b") == b"mine"
    assert now.pop("c") == b"precious too"
    ((name, data),) = now.items()
    assert name.startswith("b.saved-")
    assert data == b"precious"


def test_what_a_rollback_had_not_yet_written_whole_goes_whichever_version_began_it(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {"a": "one"})
    note = interrupted(place, root, {"a": b"two"})
    # So it was named since the first version.
    fill(root, {f"{note.folder}/part": "hal"})
    snapshots.recover(workspace)

    assert {name: data for name, (_, data, _) in picture(root).items()} == {"a": b"one"}


def test_what_somebody_put_into_the_folder_of_an_interrupted_rollback_stays_and_blocks_nothing(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    fill(root, {"a": "one"})
    before = snapshots.take(workspace)
    note = interrupted(place, root, {"a": b"two"})
    fill(root, {f"{note.folder}/mine": "precious"})
    snapshots.recover(workspace)

    now = {name: data for name, (_, data, _) in picture(root).items()}
    assert now == {"a": b"one", note.folder: b"", f"{note.folder}/mine": b"precious"}
    fill(root, {"a": "two"})
    undo(snapshots, workspace, before, snapshots.take(workspace))
    assert (root / "a").read_text() == "one"


def test_a_kept_content_that_is_not_what_was_there_is_never_put_back(
    snapshots: Snapshots, workspace: Workspace, root: Path
) -> None:
    fill(root, {"a": "one", "b": "one"})
    before = snapshots.take(workspace)
    fill(root, {"a": "two", "b": "two"})
    now = picture(root)
    good = state_in(snapshots, before, "a")
    other = replace(good, hash=content_hash(b"another"))
    left = content_hash(b"two")
    restore = snapshots.plan_restore(workspace, {"a": good, "b": other}, {"a": left, "b": left})

    with refused("io_error") as failed:
        snapshots.apply(workspace, restore)
    assert str(failed.value) == "The stored content of 'b' has changed"
    assert picture(root) == now


def test_an_agent_cannot_plant_what_a_rollback_would_take_for_its_own(
    snapshots: Snapshots, workspace: Workspace, root: Path, place: Path
) -> None:
    other = place / "other"
    other.mkdir()
    note = interrupted(place, other, {".git/hooks/pre-commit": b"planted"})
    (root / ".git" / "hooks").mkdir(parents=True)
    shutil.copytree(other / note.folder, root / note.folder)
    said = ScanRecord(place / "state" / "snapshots", other).note.read_bytes()
    fill(root, {f"{note.folder}/note.json": said, f"{note.folder}/rollback.json": said})
    files = picture(root)
    snapshots.recover(workspace)
    snapshots.apply(workspace, snapshots.plan_restore(workspace, {}, {}))

    assert picture(root) == files


# --- any tree, any agent, any person


Act = tuple[str, str, bytes, int]


def act(root: Path, acts: list[Act]) -> None:
    for kind, name, data, mode in acts:
        DEEDS[kind](root, root / name, data, mode)


def write(root: Path, path: Path, data: bytes, mode: int) -> None:
    if not path.is_symlink():
        fill(root, {path.relative_to(root).as_posix(): data})


def delete(root: Path, path: Path, data: bytes, mode: int) -> None:
    if not os.path.lexists(path):
        return
    path.unlink()
    if mode == 0o600 and path.parent != root and not any(path.parent.iterdir()):
        path.parent.rmdir()


def set_mode(root: Path, path: Path, data: bytes, mode: int) -> None:
    if path.exists() and not path.is_symlink():
        path.chmod(mode)


def link(root: Path, path: Path, data: bytes, mode: int) -> None:
    if os.path.lexists(path):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(os.fsdecode(data.replace(b"\0", b"") or b"x"), path)


def ignore(root: Path, path: Path, data: bytes, mode: int) -> None:
    (root / ".gitignore").write_text("*.log\n" if mode == 0o600 else "f/\n")


def unignore(root: Path, path: Path, data: bytes, mode: int) -> None:
    (root / ".gitignore").unlink(missing_ok=True)


def folder(root: Path, path: Path, data: bytes, mode: int) -> None:
    (root / "empty" / data.hex()).mkdir(parents=True, exist_ok=True)


DEEDS = {
    "write": write, "again": write, "delete": delete, "mode": set_mode, "link": link,
    "ignore": ignore, "unignore": unignore, "folder": folder,
}  # fmt: skip
NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a", "f/a", "é\n", "x.log", "f/y.log"])
CONTENTS = st.sampled_from([b"", b"one", b"two\r\n", b"\0\xff", b"three"])
MODES = st.sampled_from([0o644, 0o755, 0o600])
ACTS = st.lists(st.tuples(st.sampled_from(list(DEEDS)), NAMES, CONTENTS, MODES), max_size=8)


def files_of(files: Picture) -> Picture:
    return {name: seen for name, seen in files.items() if seen[0] != "folder"}


def allowed(
    first: tuple[str, bytes, int] | None,
    agent: tuple[str, bytes, int] | None,
    person: tuple[str, bytes, int] | None,
) -> tuple[str, bytes, int] | None:
    """What one path must hold in the end: the three-way rule, written down anew."""
    if first == agent or person == first:
        return person
    if person == agent:
        return first
    if person is None or first is None or agent is None:
        return person
    if person[:2] == agent[:2]:
        # The person changed the mode alone: that stays, while the agent's content goes.
        return (first[0], first[1], person[2]) if first[2] == agent[2] else person
    return person


def unknown(seen: Picture, name: str) -> bool:
    """Whether the path was there and ignored at that time, alone or with its folder."""
    rule = seen.get(".gitignore")
    if rule is None:
        return False
    if rule[1] == b"*.log\n":
        return name.endswith(".log") and name in seen
    return name.startswith("f/") and any(other.startswith("f/") for other in seen)


@settings(
    max_examples=examples(30, nightly=600),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(start=ACTS, agents=ACTS, persons=ACTS)
@example(
    # An ignored folder that is empty hides nothing.
    start=[
        ("write", "f/a", b"", 0o644),
        ("delete", "f/a", b"", 0o644),
        ("ignore", "a", b"", 0o644),
    ],
    agents=[("write", "f/y.log", b"", 0o644), ("unignore", "a", b"", 0o644)],
    persons=[],
)
def test_a_rollback_undoes_the_agent_and_keeps_the_person(
    tmp_path_factory: pytest.TempPathFactory,
    start: list[Act],
    agents: list[Act],
    persons: list[Act],
) -> None:
    place = tmp_path_factory.mktemp("any")
    root = place / "ws"
    root.mkdir()
    snapshots, workspace = Snapshots(place / "store"), Workspace(root)
    try:
        act(root, start)
        first, before = picture(root), snapshots.take(workspace)
        act(root, agents)
        agent, after = picture(root), snapshots.take(workspace)
        act(root, persons)
        person = picture(root)
        restore = undo(snapshots, workspace, before, after)
        now = picture(root)
        snapshots.apply(workspace, restore)

        expected: Picture = {}
        for name in files_of(first) | files_of(agent) | files_of(person):
            own = person.get(name)
            of = (first.get(name), agent.get(name), own)
            hidden = unknown(first, name) or (name not in first and unknown(agent, name))
            end = own if hidden else allowed(*of)
            if end is not None:
                expected[name] = end
        assert files_of(now) == expected
        assert picture(root) == now
        # Folders that were there before, or that the person made, are still there.
        kept = {n for n in person if n in first and person[n][0] == first[n][0] == "folder"}
        kept |= {n for n in person if n not in agent and person[n][0] == "folder"}
        assert kept <= now.keys()
    finally:
        shutil.rmtree(place)


# Lines ------------------------------------------------------------------------------------------


def lines_of(snapshots: Snapshots, *pairs: tuple[bytes | None, bytes | None]) -> list[Any]:
    """What is counted for contents, given as they are."""
    held = {data: snapshots.blob(data) for pair in pairs for data in pair if data is not None}
    return snapshots.changed_lines([(held.get(one), held.get(two)) for one, two in pairs])


def test_lines_that_came_and_went_are_counted_of_each_pair_in_turn(snapshots: Snapshots) -> None:
    assert lines_of(
        snapshots,
        (b"a\nb\nc\n", b"a\nB\nc\nd\n"),
        (None, b"a\nb\n"),
        (b"a\nb\nc\n", None),
        (b"same\n", b"same\n"),
        (None, b""),
        (None, None),
        (b"no end", b"no end\n"),
        (b"a\r\n", b"a\n"),
    ) == [(2, 1), (2, 0), (0, 3), (0, 0), (0, 0), (0, 0), (1, 1), (1, 1)]


def test_a_file_that_is_no_text_or_very_long_has_no_lines_to_count(snapshots: Snapshots) -> None:
    long = b"line\n" * (4 << 20)

    assert lines_of(
        snapshots, (b"a\n", b"\0\1\2"), (b"a\n", b"b\n"), (None, long), (b"\0", None)
    ) == [None, (1, 1), None, None]


def test_contents_that_are_kept_no_more_are_not_counted(snapshots: Snapshots) -> None:
    kept, lost = snapshots.blob(b"a\n"), "0" * 39 + "1"

    assert snapshots.changed_lines([(kept, lost), (lost, None), (None, kept)]) == [
        None, None, (1, 0),
    ]  # fmt: skip


def test_nothing_is_counted_in_a_store_that_does_not_exist(snapshots: Snapshots) -> None:
    assert snapshots.changed_lines([(None, None), ("0" * 40, None)]) == [None, None]


def test_the_hunks_of_each_pair_are_as_long_as_wanted_and_so_are_all_of_them(
    snapshots: Snapshots,
) -> None:
    old, new, bare = (snapshots.blob(data) for data in (b"a\nb\n", b"a\nB\n", b"\0"))
    lost = "0" * 39 + "1"
    pairs = [(old, new), (None, old), (old, None), (old, old), (bare, None), (lost, None)]

    def hunks(limit: int, in_all: int) -> list[tuple[str, bool]]:
        return [(*found,) for found in snapshots.hunks(pairs, limit=limit, in_all=in_all)]

    whole = [
        ("@@ -1,2 +1,2 @@\n a\n-b\n+B\n", False),
        ("@@ -0,0 +1,2 @@\n+a\n+b\n", False),
        ("@@ -1,2 +0,0 @@\n-a\n-b\n", False),
        ("", False), ("", False), ("", False),
    ]  # fmt: skip
    assert hunks(100, 1_000) == whole
    assert hunks(24, 1_000) == [
        (whole[0][0][:-1], True) if n == 0 else each for n, each in enumerate(whole)
    ]
    assert hunks(100, 40) == [
        whole[0], (whole[1][0][:15], True), ("", True), ("", True), ("", True), ("", False),
    ]  # fmt: skip


def test_there_are_no_hunks_in_a_store_that_does_not_exist(snapshots: Snapshots) -> None:
    assert snapshots.hunks([("0" * 40, None)], limit=9, in_all=9) == [("", False)]


def test_what_is_no_id_is_refused_before_a_program_sees_it(snapshots: Snapshots) -> None:
    snapshots.blob(b"a\n")

    with refused("invalid_arguments"):
        snapshots.changed_lines([("--help", None)])


@settings(
    max_examples=examples(10, nightly=200),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=2, max_size=8))
def test_the_lines_that_came_less_those_that_went_are_the_difference_in_length(
    snapshots: Snapshots, texts: list[list[str]]
) -> None:
    contents = ["".join(f"{line}\n" for line in text).encode() for text in texts]
    found = lines_of(snapshots, *pairwise(contents))

    assert [added - removed for added, removed in found] == [
        len(after) - len(before) for before, after in pairwise(texts)
    ]
    assert all(added <= len(after) for (added, _), after in zip(found, texts[1:], strict=True))
