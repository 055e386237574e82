"""A command that may write and must change nothing gets a copy of the workspace."""

import os
from pathlib import Path

import anyio
import pytest

from gonogo.workspace import Sandbox, Workspace, run_command
from gonogo.workspace.sandbox import bubblewrap
from gonogo.workspace.sandbox.bubblewrap import copy_of

BUBBLEWRAP = Sandbox.detect()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for folder in (".git", "src", "big"):
        (root / folder).mkdir(parents=True)
    for path, text in {".git/HEAD": "x", "src/a.py": "a", "b.txt": "b", ".env": "key"}.items():
        (root / path).write_text(text)
    for n in range(5):
        (root / f"big/{n}").write_text("x" * 100)
    (root / "src/link").symlink_to("a.py")
    (root / "src/.env.local").write_text("key")
    (root / "lost").symlink_to("nowhere")
    (root / "b.txt").chmod(0o750)
    os.mkfifo(root / "pipe")
    os.mkfifo(root / "src/pipe")
    return root


def paths(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


async def test_a_copy_has_files_and_links_and_neither_secrets_nor_pipes_nor_the_repository(root):
    async with copy_of(root, lambda path: False) as copy:
        assert paths(copy.folder) == {
            "src", "src/a.py", "src/link", "b.txt", "lost", "big", *(f"big/{n}" for n in range(5))
        }  # fmt: skip
        assert os.readlink(copy.folder / "src/link") == "a.py"
        assert (copy.folder / "b.txt").stat().st_mode & 0o777 == 0o750
        assert copy.left == (root / ".git",)
        assert not copy.folder.is_relative_to(root)
    assert not copy.folder.exists()


async def test_a_secret_that_a_rule_shows_is_in_the_copy(root):
    async with copy_of(root, lambda path: path == ".env") as copy:
        assert {".env", "src/.env.local"} & paths(copy.folder) == {".env"}
    async with copy_of(root, None) as copy:
        assert {".env", "src/.env.local"} <= paths(copy.folder)


@pytest.mark.parametrize(("limit", "most"), [("_MOST_FILES", 15), ("_MOST_BYTES", 508)])
async def test_what_there_is_just_room_for_is_copied(root, monkeypatch, limit, most):
    monkeypatch.setattr(bubblewrap, limit, most)
    async with copy_of(root, None) as copy:
        assert copy.left == (root / ".git",)
    monkeypatch.setattr(bubblewrap, limit, most - 1)
    async with copy_of(root, None) as copy:
        assert copy.left == (root / ".git", root / "big")


@pytest.mark.parametrize(("limit", "most"), [("_MOST_FILES", 6), ("_MOST_BYTES", 400)])
async def test_what_is_too_large_is_left_and_what_is_small_is_copied(
    root, monkeypatch, limit, most
):
    monkeypatch.setattr(bubblewrap, limit, most)
    async with copy_of(root, None) as copy:
        assert root / "big" in copy.left
        assert "b.txt" in paths(copy.folder)
        assert not (copy.folder / "big").exists()


async def test_what_cannot_be_copied_is_left(root, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise PermissionError("nobody's to read")

    monkeypatch.setattr(bubblewrap.shutil, "copytree", fails)
    async with copy_of(root, None) as copy:
        assert {root / "src", root / "big"} <= set(copy.left)
        assert "b.txt" in paths(copy.folder)


async def test_a_copy_goes_also_when_it_is_cancelled(root):
    folders: list[Path] = []
    with anyio.CancelScope() as scope:
        async with copy_of(root, None) as copy:
            folders.append(copy.folder)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert not folders[0].exists()


@pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap does not work here")
async def test_a_command_on_a_copy_writes_what_is_copied_and_reads_what_is_left(root, monkeypatch):
    monkeypatch.setattr(bubblewrap, "_MOST_BYTES", 400)
    before = paths(root)
    script = (
        "echo new > b.txt && rm src/a.py && mkdir made && cat b.txt big/0 .git/HEAD"
        " && ! touch big/new 2>/dev/null && ! touch .git/new 2>/dev/null"
    )
    result = await run_command(
        Workspace(root), script, cwd=None, timeout=60, sandbox=BUBBLEWRAP, read_only=True,
        on_copy=True, shown=lambda path: False,
    )  # fmt: skip

    assert (result.exit_code, result.output) == (0, "new\n" + "x" * 100 + "x")
    assert paths(root) == before
    assert (root / "b.txt").read_text() == "b"
