"""Whether a repository that came may stay: in it is nothing that git would run by itself."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.workspace.sandbox import guards
from gonogo.workspace.sandbox.guards import (
    GuardedName,
    Guards,
    guarded_paths,
    is_harmless,
    take_away,
    topmost,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a repository as git makes it."""
    root = tmp_path_factory.mktemp("made") / "ws"
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "ws"))


def outside(root: Path, name: str) -> Path:
    """The same as a file of the repository, elsewhere."""
    return Path(shutil.copy2(root / ".git" / name, root.parent / "elsewhere"))


def link(root: Path, name: str) -> None:
    there = outside(root, name)
    (root / ".git" / name).unlink()
    (root / ".git" / name).symlink_to(there)


def hard_link(root: Path, name: str) -> None:
    there = outside(root, name)
    (root / ".git" / name).unlink()
    os.link(there, root / ".git" / name)


def hook(root: Path, name: str) -> Path:
    folder = root / ".git/hooks"
    folder.mkdir(exist_ok=True)
    (folder / name).touch()
    return folder


def pipe(root: Path, name: str) -> None:
    (root / ".git" / name).unlink()
    os.mkfifo(root / ".git" / name)


def endless(root: Path, name: str) -> None:
    (root / ".git" / name).unlink()
    (root / ".git" / name).symlink_to("/dev/zero")


def long(root: Path, name: str) -> None:
    with (root / ".git" / name).open("a") as file:
        file.write("\n" * (1 << 20))


def linked_hooks(root: Path) -> None:
    shutil.rmtree(root / ".git/hooks", ignore_errors=True)
    (root.parent / "hooks").mkdir()
    (root / ".git/hooks").symlink_to(root.parent / "hooks")


def linked_hook(root: Path) -> None:
    (hook(root, "x") / "a.sample").symlink_to("x")
    (root / ".git/hooks/x").rename(root / ".git/x.sample")


HARMS: dict[str, Callable[[Path], object]] = {
    "its settings are a link": lambda root: link(root, "config"),
    "its head is a link": lambda root: link(root, "HEAD"),
    "its settings have another name": lambda root: hard_link(root, "config"),
    "its head has another name": lambda root: hard_link(root, "HEAD"),
    "its settings are a pipe": lambda root: pipe(root, "config"),
    "its head is a pipe": lambda root: pipe(root, "HEAD"),
    "its settings have no end": lambda root: endless(root, "config"),
    "its settings are longer than any are": lambda root: long(root, "config"),
    "it has no settings": lambda root: (root / ".git/config").unlink(),
    "it has no head": lambda root: (root / ".git/HEAD").unlink(),
    "it has a hook": lambda root: hook(root, "post-checkout"),
    "a hook of it is a link": linked_hook,
    "its hooks are a link": linked_hooks,
    **{
        f"it has {name}": lambda root, name=name: (root / ".git" / name).mkdir()
        for name in ("config.worktree", "commondir", "modules", "worktrees")
    },
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_git_would_run_or_be_led_by_is_harm(root: Path, harm: str) -> None:
    [found] = guarded_paths(root).since({})
    assert (found.path, found.is_repository) == (".git", True)
    assert is_harmless(root, found)
    hook(root, "more.sample")
    assert is_harmless(root, found)
    HARMS[harm](root)
    assert not is_harmless(root, found)


def test_a_repository_that_is_a_file_or_a_link_is_no_harmless_one(root: Path) -> None:
    (root / ".git").rename(root / "real")
    (root / ".git").write_text("gitdir: real\n")
    found = guarded_paths(root).names[".git"]
    assert not is_harmless(root, found)
    (root / ".git").unlink()
    (root / ".git").symlink_to("real")
    found = guarded_paths(root).names[".git"]
    assert (found.is_link, is_harmless(root, found)) == (True, False)


@pytest.mark.parametrize(
    ("line", "usual"),
    [
        ("[core]\n\tbare = true", True),
        ("[Core]\n\n  Bare=true  ", True),
        ('[remote "a b"]\n\turl = /x/y\n\tfetch = +refs/*:refs/*', True),
        ("[core]\n\tbare =", True),
        ("bare = true", False),
        ('[remote "a"]\n\turl = a::b', False),
        ("[core]\n\tbare = -x", False),
        ("[core]\n\tbare", False),
        ("[core]\n\tpager = x", False),
        ("[other]\n\tbare = true", False),
        ("[remote]\n\tbare = true", False),
        *(
            (f"[{section}]\n\t{name} = x", True)
            for section, names in {
                "core": ("repositoryformatversion", "protectntfs", "symlinks"),
                "remote": ("url", "partialclonefilter"),
                "branch": ("remote", "merge", "rebase"),
                "extensions": ("objectformat", "partialclone"),
                "submodule": ("url", "active"),
            }.items()
            for name in names
        ),
    ],
)
def test_settings_are_usual_where_git_runs_nothing_by_them(line: str, usual: bool) -> None:
    assert guards._is_usual(line.splitlines()) is usual


def test_all_that_git_obeys_is_guarded_in_a_folder_that_it_takes_for_its_own(root: Path) -> None:
    names = """HEAD config config.worktree hooks info objects refs packed-refs commondir gitdir
        modules worktrees branches remotes""".split()
    for name in (*names, "logs", "index"):
        (root / "x" / name).mkdir(parents=True)

    found = [path for path in guarded_paths(root).protected if path.parent == root / "x"]
    assert found == sorted(root / "x" / name for name in names)


def test_what_makes_no_repository_is_harmless_here(root: Path) -> None:
    assert is_harmless(root, GuardedName(".envrc", "ask", "file:1:2"))
    assert is_harmless(root, GuardedName("a/HEAD", "ask", "file:1:2"))
    assert not is_harmless(root, GuardedName("a/HEAD", "deny", "file:1:2"))


def test_the_same_thing_stands_where_it_did_whatever_its_number_but_for_links() -> None:
    file = GuardedName("a/.envrc", "ask", "file:1:2")
    linked = GuardedName("a/.envrc", "ask", "link:1:to:b")

    marks = (None, "file:1:2", "file:1:3", "file:2:2", "folder:1:2", "link:1:2")
    assert [file.is_like(mark) for mark in marks] == [False, True, True, False, False, False]
    assert (file.name, file.is_link, linked.is_link) == (".envrc", False, True)
    assert linked.is_like("link:1:to:b")
    assert not linked.is_like("link:1:to:c")


def test_what_lies_in_others_is_not_named_again() -> None:
    names = [GuardedName(path, "ask", "") for path in ("b/c", "a", "a/b", "a/b/c", "ab")]

    assert topmost(names) == ["a", "ab", "b/c"]


def test_a_workspace_that_cannot_be_looked_at_is_told(root: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can look as somebody else")
    os.chmod(root, 0)
    os.seteuid(65534)
    try:
        with pytest.raises(ToolFailed) as refused:
            guarded_paths(root)
    finally:
        os.seteuid(0)
    assert refused.value.kind == "io_error"
    assert str(refused.value) == "The workspace cannot be read: Permission denied"


def test_of_many_workspaces_the_last_sixteen_are_remembered(tmp_path: Path) -> None:
    found, roots = Guards(), [tmp_path / str(number) for number in range(17)]
    for root in (*roots[:16], roots[0], roots[16]):
        root.mkdir(exist_ok=True)
        found.look(root)

    assert [*found._last] == [*roots[2:16], roots[0], roots[16]]


def test_what_is_taken_away_lies_in_folders_of_its_owner_and_replaces_nothing(
    root: Path, tmp_path: Path
) -> None:
    shelf = tmp_path / "taken"
    for number in range(3):
        (root / "sub").mkdir(exist_ok=True)
        (root / "sub/.envrc").write_text(str(number))
        assert take_away(root, ["sub/.envrc", "sub/none"], shelf) == ["sub/.envrc"]

    kept = {path.name: path.read_text() for path in (shelf / "sub").iterdir()}
    assert kept == {".envrc": "0", ".envrc~": "1", ".envrc~~": "2"}
    assert (shelf / "sub").stat().st_mode & 0o777 == 0o700
