"""The store's git: shut off from others' settings, bounded in time, and clear when it fails."""

import os
from pathlib import Path

import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.workspace.sandbox.process import HELPERS_PATH
from gonogo.workspace.snapshots import git as gits
from gonogo.workspace.snapshots.git import Git, check_id, outlet, pack_writer, replace_file

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
    }  # fmt: skip
    tell = ("-c", "alias.tell=!env", "tell")

    run = git.run(*tell)
    with git.process(*tell, given=False, extra={"MORE": "x"}) as running:
        began = running.stdout.read()

    for said, more in ((run, {}), (began, {"MORE": "x"})):
        told = dict(line.split("=", 1) for line in said.decode().splitlines())
        assert told["PATH"].endswith(HELPERS_PATH)
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
        assert {name: value for name, value in told.items() if name not in own} == wanted | more


def test_a_store_with_other_settings_gets_those_of_now_when_it_is_opened(git: Git) -> None:
    names = ("config", "info/exclude", "info/attributes", "HEAD")
    made = {name: (git.folder / name).stat().st_ino for name in names}
    git.keep(b"hello\n")
    again = Git(git.folder)
    again.prepare()
    assert {name: (git.folder / name).stat().st_ino for name in names} == made

    (git.folder / "config").write_text("[core]\n\tbare = true\n")
    (git.folder / "info/attributes").unlink()
    older = Git(git.folder)
    older.prepare()
    assert older.run("config", "core.fsync") == b"objects\n"
    assert (git.folder / "info/attributes").read_text().startswith("* -text")
    assert older.run("cat-file", "blob", HELLO) == b"hello\n"


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


def test_an_object_is_found_without_a_program_wherever_it_lies(
    git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    git.keep(b"hello\n")
    with pack_writer(git.folder) as pack:
        pack.write("blob", EMPTY, b"")
    assert git.held([HELLO, LOST, EMPTY]) == [HELLO, EMPTY]
    monkeypatch.setattr(gits, "find_program", lambda name: None)

    assert git.lacking({HELLO, EMPTY, LOST, "no id"}) == {LOST, "no id"}
    assert [git.has(name) for name in (HELLO, EMPTY, LOST)] == [True, True, False]
    for path in (git.folder / "objects/pack").iterdir():
        path.unlink()
    assert git.lacking({HELLO, EMPTY}) == {EMPTY}


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


def test_what_is_asked_for_again_is_young_wherever_it_lies(git: Git) -> None:
    loose = git.place(git.keep(b"hello\n"))
    with pack_writer(git.folder) as pack:
        pack.write("blob", EMPTY, b"")
    [packed] = (git.folder / "objects/pack").glob("*.pack")
    for names, young in (([HELLO], [True, False]), ([HELLO, EMPTY], [True, True])):
        os.utime(loose, (1, 1))
        os.utime(packed, (1, 1))
        git.renew(names)
        assert [path.stat().st_mtime > 1 for path in (loose, packed)] == young


def test_a_content_that_is_lost_or_damaged_is_told_by_its_id(git: Git) -> None:
    git.run("hash-object", "-w", "--stdin", given=b"hello\n")
    tree = git.run("mktree", given=f"100644 blob {HELLO}\ta\n".encode()).decode().strip()

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
