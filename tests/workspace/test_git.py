"""The store's git: shut off from others' settings, bounded in time, and clear when it fails."""

import os
from pathlib import Path

import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.workspace.sandbox.process import DEFAULT_PATH
from gonogo.workspace.snapshots import git as gits
from gonogo.workspace.snapshots.git import (
    Entry,
    Git,
    blob_id,
    check_id,
    intake,
    outlet,
    replace_file,
    speaks_of_lost,
)

EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
HELLO = "ce013625030ba8dba906f756967f9e9ca394464a"
LOST = "a" * 40
GITS_OWN = ("GIT_EXEC_PATH", "GIT_PREFIX", "GIT_CONFIG_PARAMETERS")


@pytest.fixture
def git(tmp_path: Path) -> Git:
    found = Git(tmp_path / "store")
    found.prepare()
    return found


def refusal(kind: str = "io_error"):
    return pytest.raises(ToolFailed, check=lambda failure: failure.kind == kind)


def test_its_programs_have_an_environment_of_their_own(
    git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_WORK_TREE", "GIT_CONFIG_COUNT", "CANARY"):
        monkeypatch.setenv(name, "1")
    folder = str(git.folder)
    wanted = {
        "HOME": folder, "XDG_CONFIG_HOME": folder, "LC_ALL": "C", "GIT_DIR": folder,
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1", "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0",
        "MORE": "x",
    }  # fmt: skip
    tell = ("-c", "alias.tell=!env", "tell")

    run = git.run(*tell, extra={"MORE": "x"})
    with git.process(*tell, given=False, extra={"MORE": "x"}) as running:
        began = running.stdout.read()

    for said in (run, began):
        told = dict(line.split("=", 1) for line in said.decode().splitlines())
        assert told["PATH"].endswith(DEFAULT_PATH)
        # What git and its shell add themselves.
        own = {
            "PATH",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
            "GIT_EXEC_PATH",
            "GIT_PREFIX",
            "GIT_CONFIG_PARAMETERS",
        }
        assert {name: value for name, value in told.items() if name not in own} == wanted


def test_it_is_prepared_once_and_is_its_owners_alone(git: Git) -> None:
    settings = git.folder / "config"
    settings.write_text("[core]\n\tbare = true\n")
    git.prepare()

    assert settings.read_text() == "[core]\n\tbare = true\n"
    assert git.folder.stat().st_mode & 0o777 == 0o700
    assert (git.folder / "objects/pack").stat().st_mode & 0o777 == 0o700
    assert (git.folder / "info/exclude").read_text() == ".gonogo/\n.hg/\n.svn/\n"
    assert sorted(path.name for path in git.folder.iterdir()) == [
        "HEAD", "config", "info", "objects", "refs",
    ]  # fmt: skip


def test_contents_are_taken_in_known_by_their_ids_and_read_back(git: Git) -> None:
    with intake(git) as taking:
        taking.write_blob(b"hello\n")
        taking.write_blob(b"")

    assert (blob_id(b"hello\n"), blob_id(b"")) == (HELLO, EMPTY)
    assert git.held([HELLO, LOST, EMPTY]) == [HELLO, EMPTY]
    assert [git.has(name) for name in (HELLO, LOST)] == [True, False]
    with outlet(git) as contents:
        assert [contents.read(name) for name in (HELLO, EMPTY, HELLO)] == [
            b"hello\n", b"", b"hello\n",
        ]  # fmt: skip


def test_an_object_that_lies_loose_is_found_without_a_program(
    git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    git.run("hash-object", "-w", "--stdin", given=b"hello\n")
    monkeypatch.setattr(gits, "find_program", lambda name: None)

    assert git.has(HELLO)
    with refusal():
        git.has(LOST)


def test_a_content_is_kept_as_git_keeps_it_and_is_young_when_it_is_kept_again(git: Git) -> None:
    for data, name in ((b"hello\n", HELLO), (b"", EMPTY)):
        place = git.folder / "objects" / name[:2] / name[2:]
        assert git.keep(data) == name
        assert git.run("cat-file", "blob", name) == data
        assert place.stat().st_mode & 0o777 == 0o444
        os.utime(place, (1, 1))
        before = place.stat().st_ino
        assert git.keep(data) == name
        assert place.stat().st_ino == before
        assert place.stat().st_mtime > 1
    assert git.run("fsck", "--strict").decode().count("missing") == 0
    assert [path.name for path in git.folder.glob("objects/??/tmp_*")] == []


ODD = 'a "b"\\\n\udcff'


def test_a_tree_is_made_of_another_and_of_what_it_has_otherwise(git: Git, tmp_path: Path) -> None:
    index, named = tmp_path / "index", ODD.encode(errors="surrogateescape")
    for data in (b"hello\n", b""):
        git.keep(data)
    first = git.write_tree(index, [("a", "100644", HELLO), ("b/c", "100755", HELLO)])
    with intake(git) as taking:
        taking.write_blob(b"new")
        gone: list[Entry] = [("a", "0", None), ("b", "100644", EMPTY)]
        second = taking.write_tree(first, [*gone, (f"{ODD}/x", "120000", blob_id(b"new"))])

    assert git.run("ls-tree", "-r", first).decode() == (
        f"100644 blob {HELLO}\ta\n100755 blob {HELLO}\tb/c\n"
    )
    link = f"120000 blob {blob_id(b'new')}\t".encode() + named
    assert git.run("ls-tree", "-r", "-z", second) == (
        link + b"/x\0" + f"100644 blob {EMPTY}\tb\0".encode()
    )
    # Nothing is left of how it was made.
    assert [path.name for path in tmp_path.iterdir()] == [git.folder.name]
    assert git.run("for-each-ref") == b""
    kinds = git.run("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert {*kinds} == {b"blob", b"tree"}


def test_what_is_asked_for_again_is_young_in_its_pack_too(git: Git, tmp_path: Path) -> None:
    git.keep(b"hello\n")
    tree = git.write_tree(tmp_path / "index", [("a", "100644", HELLO)])
    git.run("pack-objects", "-q", "objects/pack/pack", given=f"{tree}\n{HELLO}\n".encode())
    [pack] = (git.folder / "objects/pack").glob("*.pack")
    os.utime(pack, (1, 1))
    git.renew(tree)
    assert pack.stat().st_mtime == 1
    git.place(tree).unlink()
    git.renew(tree)
    assert pack.stat().st_mtime > 1


def test_a_tree_of_what_is_lost_is_refused(git: Git, tmp_path: Path) -> None:
    git.keep(b"hello\n")
    whole = git.write_tree(tmp_path / "index", [("a", "100644", HELLO)])
    for base, entries in ((whole, [("b", "100644", LOST)]), (LOST, [])):
        with refusal() as told, intake(git) as taking:
            taking.write_tree(base, entries)
        assert speaks_of_lost(told.value)
    with refusal() as told:
        git.write_tree(tmp_path / "index", [("a", "100644", LOST)])
    assert speaks_of_lost(told.value)


def test_a_content_that_is_lost_or_damaged_is_told_by_its_id(git: Git) -> None:
    git.run("hash-object", "-w", "--stdin", given=b"hello\n")
    tree = git.write_tree(git.folder / "git-index", [("a", "100644", HELLO)])

    for lost in (LOST, tree):
        with refusal() as told, outlet(git) as contents:
            contents.read(lost)
        assert str(told.value) == f"The snapshot store has no content {lost!r}"
    with refusal("invalid_arguments") as told, outlet(git) as contents:
        contents.read("--all")
    assert str(told.value) == "'--all' is not the id of a snapshot"


@pytest.mark.parametrize("name", [LOST.upper(), "a" * 39, "a" * 41, "g" * 40, f"{LOST}\n", ""])
def test_what_is_no_id_is_refused(name: str) -> None:
    assert check_id(LOST) == LOST
    with refusal("invalid_arguments") as told:
        check_id(name)
    assert str(told.value) == f"{name!r} is not the id of a snapshot"


def test_what_a_program_says_as_it_fails_is_told(git: Git) -> None:
    with refusal() as run:
        git.run("cat-file", "blob", "nothing")
    with refusal() as began, git.process("cat-file", "blob", "nothing", given=False) as running:
        running.stdout.read()

    told = "The snapshot store failed: git cat-file: fatal: Not a valid object name nothing"
    assert [str(each.value) for each in (run, began)] == [told] * 2


def test_of_what_a_program_says_the_last_five_hundred_characters_are_told() -> None:
    assert str(gits._failed(("a", "b"), b"x" + b"y" * 499 + b"z\n")) == (
        f"The snapshot store failed: git a: {'y' * 499}z"
    )
    assert str(gits._failed(("a",), b"\xff ")) == "The snapshot store failed: git a: \ufffd"


def test_a_program_that_does_not_read_what_it_is_given_has_failed(git: Git) -> None:
    with refusal() as told, git.process("version", given=True) as running:
        running.wait(60)
        running.stdin.write(bytes(1 << 20))
        running.stdin.flush()

    assert str(told.value) == "The snapshot store failed: git version: "


def test_a_program_that_takes_too_long_is_ended(git: Git) -> None:
    with refusal("timeout") as run:
        git.run("cat-file", "--batch", limit=0)
    with (
        refusal("timeout") as began,
        git.process("cat-file", "--batch", given=True, limit=0.05) as running,
    ):
        assert running.stdout.read() == b""

    told = "The snapshot took too long (git cat-file)"
    assert [str(each.value) for each in (run, began)] == [told] * 2


def test_a_block_that_is_left_early_leaves_no_program(git: Git) -> None:
    with pytest.raises(KeyError), git.process("cat-file", "--batch", given=True) as running:
        raise KeyError
    assert running.returncode == -9


def test_what_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = Git(tmp_path / "none")
    with refusal() as run:
        nowhere.run("version")
    with refusal() as began, nowhere.process("version", given=False):
        pass
    told = (
        "The snapshot store failed: git version: "
        f"[Errno 2] No such file or directory: '{tmp_path}/none'"
    )
    assert [str(each.value) for each in (run, began)] == [told] * 2

    monkeypatch.setattr(gits, "find_program", lambda name: None)
    with refusal() as missing:
        nowhere.run("version")
    assert str(missing.value) == "This machine has no git; install git"


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_of_the_stores_is_replaced_in_one_step(tmp_path: Path, durable: bool) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    before = os.open(file, os.O_RDONLY)

    replace_file(file, b"new", durable=durable)

    assert file.read_bytes() == b"new"
    assert os.read(before, 9) == b"old"
    os.close(before)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path, b"new")
    assert [path.name for path in tmp_path.parent.iterdir() if path.suffix == ".new"] == []
