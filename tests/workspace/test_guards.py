"""What a box has to guard is found, however much lies around it, and what is new is told."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.workspace import CommandOutput, Sandbox, Workspace, run_command
from gonogo.workspace.sandbox.guards import (
    SCAN_LIMIT,
    Guards,
    guarded_paths,
    is_harmless,
    take_away,
)
from plugins.nightly import is_nightly

BUBBLEWRAP = Sandbox.detect()
boxed = pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap does not work here")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """A limit that is soon reached."""
    monkeypatch.setattr("gonogo.workspace.sandbox.guards.SCAN_LIMIT", 50)
    return 50


def lay(root: Path, *paths: str) -> None:
    """Make files, and folders where a path ends in a slash; what holds them too."""
    for path in paths:
        place = root / path
        (place if path.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            place.write_text("as it was\n")


def fill(folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"f{number}").touch()


def settle(root: Path) -> None:
    """Wait until a look believes that the folders change no more unseen."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if all(record.signature for record in guarded_paths(root).records.values()):
            return
        time.sleep(0.05)
    raise AssertionError("the clock stands")


def new_names(root: Path, marks: dict[str, str]) -> list[str]:
    return [each.path for each in guarded_paths(root).since(marks)]


async def run(root: Path, script: str, **more) -> CommandOutput:
    options = {"cwd": None, "timeout": 60, "sandbox": BUBBLEWRAP, **more}
    with anyio.fail_after(120):
        return await run_command(Workspace(root), script, **options)


# What is found ------------------------------------------------------------------------------------


def test_guarded_names_are_found_at_any_depth_and_in_any_spelling(root: Path) -> None:
    lay(root, ".git/config", "a/.GIT/x", "a/b/.vscode/", "a/.Git ", "a/b/c/.bashrc", "plain/git")

    found = [path.relative_to(root).as_posix() for path in guarded_paths(root).protected]

    assert found == [".git", "a/.GIT", "a/.Git ", "a/b/.vscode", "a/b/c/.bashrc"]


@pytest.mark.parametrize("names", [("HEAD", "objects/", "refs/"), ("HEAD", "commondir"),
                                   ("head", "Objects/", "REFS/")])  # fmt: skip
def test_a_folder_that_git_takes_for_its_own_is_guarded_whatever_its_name(
    root: Path, names: tuple[str, ...]
) -> None:
    lay(
        root, *(f"deep/store/{name}" for name in (*names, "config", "hooks/")), "deep/store/code.py"
    )

    found = {
        path.relative_to(root / "deep/store").as_posix() for path in guarded_paths(root).protected
    }

    assert found == {name.rstrip("/") for name in (*names, "config", "hooks")}


def test_a_folder_with_some_of_gits_names_is_a_folder(root: Path) -> None:
    lay(root, "config/.envrc", "objects/x/.git", "refs/", "hooks/")

    found = guarded_paths(root)

    assert found.protected == [root / "objects/x/.git"]
    assert found.names["config/.envrc"].guard == "ask"


def test_what_a_guarded_link_leads_to_is_guarded_with_it(root: Path, tmp_path: Path) -> None:
    lay(root, "store/config", "conf/tasks.json")
    (root / ".git").symlink_to("store")
    (root / ".vscode").symlink_to(root / "conf")
    (root / ".idea").symlink_to(tmp_path)
    (root / ".zed").symlink_to("nowhere")
    (root / "conf/.vscode").symlink_to("x" * 300)

    assert guarded_paths(root).protected == [root / "conf", root / "store"]


def test_repositories_among_installed_packages_are_guarded(root: Path) -> None:
    lay(root, "node_modules/a/.git/config", ".venv/src/b/.git", "venv/c/HEAD", "venv/c/commondir",
        "node_modules/a/.npmrc", "node_modules/a/package.json")  # fmt: skip

    found = guarded_paths(root)

    assert found.protected == [
        root / ".venv/src/b/.git", root / "node_modules/a/.git", root / "venv/c/HEAD",
        root / "venv/c/commondir",
    ]  # fmt: skip
    assert "node_modules/a/.npmrc" in found.names
    assert "node_modules/a/package.json" not in found.names


def test_of_installed_packages_the_programs_count_and_not_what_tools_make_all_the_time(
    root: Path,
) -> None:
    lay(root, ".venv/bin/python", ".venv/lib/site-packages/x.pth", "node_modules/.bin/tsc",
        "node_modules/a/node_modules/.bin/x", "node_modules/.cache/x.config.js", ".tox/py/bin/x",
        "src/__pycache__/conftest.pyc", "vendor/bin/rake", ".gradle/x.props")  # fmt: skip

    found = guarded_paths(root)

    bins = [".venv/bin", "node_modules/.bin", "vendor/bin"]
    assert sorted(found.names) == sorted([
        *bins, ".venv/bin/python", "node_modules/.bin/tsc", "vendor/bin/rake",
    ])  # fmt: skip
    assert found.programs(lambda path: False) == [root / each for each in bins]
    assert found.programs(lambda path: path.startswith(".venv")) == [
        root / each for each in bins[1:]
    ]


def test_a_folder_that_cannot_be_looked_into_is_sealed(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can look as somebody else")
    root = Path("/tmp") / f"sealed-{os.getpid()}"  # noqa: S108 - where others may look
    lay(root, "shut/.git/config", "open/x")
    try:
        os.chmod(root / "shut", 0)
        os.seteuid(65534)
        try:
            found = guarded_paths(root)
        finally:
            os.seteuid(0)
        assert found.protected == [root / "shut"]
        assert [each.path for each in found.since({})] == ["shut"]
        assert found.since(found.marks) == []
    finally:
        os.chmod(root / "shut", 0o700)
        for path in sorted(root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        root.rmdir()


def test_what_lies_too_deep_to_be_bound_is_sealed_above(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    name = "d" * 200
    for _ in range(30):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.mkdir(".git", dir_fd=here)
    os.close(here)

    [sealed] = guarded_paths(root).protected

    assert len(os.fsencode(sealed)) < 4_096
    assert set(sealed.relative_to(root).parts) == {name}


# How much is looked at ----------------------------------------------------------------------------


def test_the_roots_own_names_are_looked_at_however_many_there_are(root: Path, few: int) -> None:
    fill(root, few + 10)
    lay(root, "zz/.git/config", ".git/hooks/", ".env", ".vscode/")

    found = guarded_paths(root)

    assert found.is_over
    assert {root / ".git", root / ".vscode", root / "zz/.git"} == {*found.protected}
    assert root / ".env" in found.secret
    assert found.missed == {"zz"}


def test_many_files_in_one_place_hide_nothing_in_another(root: Path, few: int) -> None:
    fill(root / "aaa", few + 1)
    lay(root, "aaa/.git/config", "aaa/sub/.git/x", "b/c/d/.git/config", "zzz/.vscode/")

    found = guarded_paths(root)

    assert found.missed == {"aaa"}
    assert found.protected == [root / "aaa/.git", root / "b/c/d/.git", root / "zzz/.vscode"]


def test_installed_packages_and_what_is_guarded_do_not_count(root: Path, few: int) -> None:
    fill(root / "node_modules/a", few * 3)
    fill(root / ".git/objects", few * 3)
    fill(root / "src", few // 2)

    assert not guarded_paths(root).is_over


def test_as_many_as_the_limit_are_looked_at(root: Path, few: int) -> None:
    fill(root / "src", few - 1)
    assert not guarded_paths(root).is_over
    (root / "src" / "one more").touch()
    assert guarded_paths(root).is_over


# What is new --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (".git/config", ".git"),
        ("sub/.git", "sub/.git"),
        (".vscode/tasks.json", ".vscode"),
        (".envrc", ".envrc"),
        (".npmrc", ".npmrc"),
        ("node_modules/x/.git/config", "node_modules/x/.git"),
        (".venv/a/.vscode/x", ".venv/a/.vscode"),
        (".venv/bin/git", ".venv/bin"),
        ("web/node_modules/.bin/x", "web/node_modules/.bin"),
        ("a/b/c/.gitmodules", "a/b/c/.gitmodules"),
        ("AGENTS.md", "AGENTS.md"),
        ("sub/.github/workflows/ci.yml", "sub/.github"),
    ],
)
def test_a_guarded_name_that_came_is_new(root: Path, path: str, name: str) -> None:
    lay(root, "kept/.npmrc", "src/x.py")
    marks = guarded_paths(root).marks
    lay(root, path, "src/y.py")

    assert new_names(root, marks)[0] == name


def test_what_came_in_a_folder_that_others_run_is_new(root: Path) -> None:
    lay(root, ".github/workflows/ci.yml")
    marks = guarded_paths(root).marks
    lay(root, ".github/workflows/more.yml")

    assert new_names(root, marks) == [".github/workflows/more.yml"]


def test_a_folder_that_became_a_repository_tells_the_names_that_made_it_one(root: Path) -> None:
    lay(root, "src/config", "src/objects/", "src/code.py")
    marks = guarded_paths(root).marks
    lay(root, "src/HEAD", "src/refs/", "src/hooks/post-checkout")

    assert new_names(root, marks) == ["src/HEAD", "src/hooks", "src/refs"]


def test_what_moved_with_its_folder_is_not_new(root: Path) -> None:
    lay(root, "a/.git/config", "a/deep/.vscode/")
    marks = guarded_paths(root).marks
    (root / "a").rename(root / "b")

    assert new_names(root, marks) == []


def test_what_came_in_place_of_what_moved_with_its_folder_is_new(root: Path) -> None:
    lay(root, "a/.git/config", "b/c/.venv/bin/python")
    marks = guarded_paths(root).marks
    (root / "a").rename(root / "moved")
    (root / "b").rename(root / "z")
    lay(root, "a/.git/config", "b/c/.venv/bin/python")

    assert new_names(root, marks) == ["a/.git", "b/c/.venv/bin", "b/c/.venv/bin/python"]


def test_an_environment_that_is_a_link_now_is_new(root: Path) -> None:
    lay(root, "evil/bin/python")
    marks = guarded_paths(root).marks
    (root / ".venv").symlink_to("evil")

    assert new_names(root, marks) == [".venv"]


def test_what_moved_by_itself_is_new(root: Path) -> None:
    lay(root, "a/.vscode/tasks.json")
    marks = guarded_paths(root).marks
    (root / "a/.vscode").rename(root / ".vscode")

    assert new_names(root, marks) == [".vscode"]


def test_a_guarded_link_that_leads_elsewhere_now_is_new(root: Path) -> None:
    lay(root, "one/", "two/")
    (root / ".git").symlink_to("one")
    (root / ".envrc").symlink_to("made later")
    (root / ".npmrc").symlink_to("one")
    marks = guarded_paths(root).marks
    (root / ".git").unlink()
    (root / ".git").symlink_to("two")
    (root / "made later").touch()

    assert new_names(root, marks) == [".envrc", ".git"]


def test_what_became_another_sort_of_thing_is_new(root: Path) -> None:
    lay(root, ".envrc", "x")
    marks = guarded_paths(root).marks
    (root / ".envrc").unlink()
    (root / ".envrc").symlink_to("x")

    assert new_names(root, marks) == [".envrc"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_somebody_else_no_command_can_have_made(root: Path) -> None:
    marks = guarded_paths(root).marks
    lay(root, ".git/config", ".envrc")
    os.chown(root / ".git", 12345, 12345)

    assert new_names(root, marks) == [".envrc"]


def test_a_look_that_is_renewed_sees_what_a_first_one_does(root: Path) -> None:
    lay(root, "a/b/.git/config", "c/x", "node_modules/y/z", "gone/.vscode/")
    settle(root)
    guards = Guards()
    guards.look(root)
    lay(root, "c/.vscode/", "a/b/new/.git/x", "node_modules/y/.git")
    (root / "gone/.vscode").rmdir()
    (root / "gone").rmdir()

    again, anew = guards.look(root), guarded_paths(root)

    assert (again.names, again.protected) == (anew.names, anew.protected)
    assert "gone/.vscode" not in again.names


def test_a_name_that_came_in_the_same_moment_as_the_look_is_seen_by_the_next(root: Path) -> None:
    lay(root, "a/x")
    for number in range(200):
        before = guarded_paths(root)
        (root / f"a/{number}").mkdir()
        (root / f"a/{number}/.git").touch()
        assert f"a/{number}/.git" in before.renewed().names


# What is taken away -------------------------------------------------------------------------------


@pytest.fixture(params=["the same disk", "another"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where it is taken to."""
    if request.param == "the same disk":
        yield tmp_path / "home" / "taken"
        return
    memory = Path("/dev/shm")  # noqa: S108 - another file system
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system only")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder) / "taken"


def test_what_is_taken_away_is_whole_and_links_are_not_followed(
    root: Path, shelf: Path, tmp_path: Path
) -> None:
    lay(root, ".git/hooks/x", "sub/.envrc", "sub/kept")
    (tmp_path / "outside").mkdir()
    (root / ".vscode").symlink_to(tmp_path / "outside")
    (root / ".git/objects").mkdir(mode=0)
    os.mkfifo(root / ".git/pipe")

    found = take_away(root, [".git", ".vscode", "sub/.envrc", "never/there"], shelf)

    assert found == [".git", ".vscode", "sub/.envrc"]
    assert [path.name for path in root.iterdir()] == ["sub"]
    assert (shelf / ".git/hooks/x").read_text() == "as it was\n"
    assert (shelf / ".vscode").readlink() == tmp_path / "outside"
    assert (shelf / "sub/.envrc").is_file()
    assert (root / "sub/kept").is_file()


def test_taking_away_twice_loses_nothing(root: Path, shelf: Path) -> None:
    lay(root, ".envrc")
    take_away(root, [".envrc"], shelf)
    assert take_away(root, [".envrc"], shelf) == []
    (root / ".envrc").write_text("once more")
    take_away(root, [".envrc"], shelf)

    assert (shelf / ".envrc").read_text() == "as it was\n"
    assert (shelf / ".envrc~").read_text() == "once more"


def test_nothing_is_taken_from_where_a_link_leads(root: Path, shelf: Path, tmp_path: Path) -> None:
    lay(tmp_path, "outside/.envrc")
    (root / "sub").symlink_to(tmp_path / "outside")

    assert take_away(root, ["sub/.envrc"], shelf) == []
    assert (tmp_path / "outside/.envrc").exists()


def test_a_repository_as_git_makes_it_runs_nothing(root: Path) -> None:
    for words in (["init", "-q", "a"], ["clone", "-q", "a", "b"], ["init", "-q", "--bare", "c"]):
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
    found = guarded_paths(root).since({})

    assert {"a/.git", "b/.git", "c/HEAD", "c/config"} <= {each.path for each in found}
    assert [each.path for each in found if not is_harmless(root, each)] == []


@pytest.mark.parametrize(
    "line",
    [
        "[core]\n\tfsmonitor = x", "[core]\n\thooksPath = x", "[core]\n\tworktree = /x",
        "[alias]\n\tx = !y", "[include]\n\tpath = x", '[includeIf "gitdir:x"]\n\tpath = x',
        '[remote "o"]\n\turl = ext::sh', '[remote "o"]\n\turl = -oProxyCommand=x',
        '[remote "o"]\n\tuploadpack = x', '[url "x"]\n\tinsteadOf = y', "[core] fsmonitor = x",
        '[filter "x"]\n\tclean = y', "[core]\n\tbare = \\\n\tfsmonitor = x", "garbage",
        "[core]\n\tpager = x ; bare = true", '[remote "a\\\\"]"]\n\turl = x',
        "[CORE]\n\tFsMonitor = x",
    ],
)  # fmt: skip
def test_a_repository_with_settings_that_git_does_not_make_itself_is_no_such(
    root: Path, line: str
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    with (root / ".git/config").open("a") as file:
        file.write(f"{line}\n")
    [found] = guarded_paths(root).since({})

    assert not is_harmless(root, found)


# In the box ---------------------------------------------------------------------------------------


@boxed
async def test_however_many_files_there_are_the_box_guards_what_it_has_to(
    root: Path, request: pytest.FixtureRequest
) -> None:
    limit = SCAN_LIMIT if is_nightly() else request.getfixturevalue("few")
    lay(root, ".git/hooks/", "sub/.git/config")
    (root / ".env").write_text("KEY=CANARY\n")
    fill(root, limit + 100)

    with pytest.raises(ToolFailed) as refused:
        await run(root, "touch .git/hooks/x; cat .env", shown=lambda path: False)
    once = await run(
        root, "touch .git/hooks/x sub/.git/x; cat .env; echo y > sub/.git/config",
        shown=lambda path: False, unlooked=guarded_paths(root).missed,
    )  # fmt: skip

    assert refused.value.kind == "too_many_files"
    assert "CANARY" not in once.output
    assert not (root / ".git/hooks/x").exists()
    assert (root / "sub/.git/config").read_text() == "as it was\n"


@boxed
async def test_a_command_is_let_run_without_a_look_at_just_those_folders(
    root: Path, few: int
) -> None:
    fill(root / "data", few + 1)
    seen = guarded_paths(root).missed
    assert (await run(root, "touch ok", unlooked=seen)).exit_code == 0
    fill(root / "more", few + 1)

    with pytest.raises(ToolFailed) as refused:
        await run(root, "touch other", unlooked=seen)

    assert refused.value.kind == "too_many_files"
    assert not (root / "other").exists()


@boxed
async def test_installed_programs_are_changed_only_where_somebody_let_them_be(root: Path) -> None:
    names = (".venv/bin/python", "node_modules/.bin/tsc", "vendor/bin/rake")
    lay(root, *names, "Makefile", "package.json")
    script = "; ".join(
        f"echo changed > {name}; touch {name}2; rm -rf {name.split('/')[0]}" for name in names
    )

    await run(root, f"{script}; echo changed > Makefile; echo changed > package.json")
    assert [(root / name).read_text() for name in names] == ["as it was\n"] * len(names)
    assert not (root / ".venv/bin/python2").exists()
    told = [(root / name).read_text() for name in ("Makefile", "package.json")]
    assert told == ["changed\n", "changed\n"]

    await run(root, script, may_change=lambda path: path.startswith(".venv/"))
    stands = [(root / name).exists() for name in names]
    assert stands == [False, True, True]


@boxed
async def test_what_tools_do_in_folders_of_packages_they_can_do(root: Path) -> None:
    lay(root, "node_modules/.bin/tsc", ".venv/bin/python", "conftest.py", ".tox/x", ".gradle/x")
    script = (
        "set -e; mkdir -p node_modules/.cache node_modules/new __pycache__ .venv/lib;"
        " touch node_modules/.cache/x node_modules/new/index.js __pycache__/a.pyc .venv/lib/x"
        " .tox/y .gradle/y; echo formatted > conftest.py; rm -rf .tox; echo well"
    )

    assert (await run(root, script)).output.endswith("well\n")


@boxed
async def test_a_sealed_folder_is_read_only_in_the_box(root: Path, monkeypatch) -> None:
    monkeypatch.setattr("gonogo.workspace.sandbox.guards._MAX_PATH", len(os.fsencode(root)) + 8)
    lay(root, "deep/er/still/.git/config")

    await run(root, "echo x > deep/er/still/.git/config; touch deep/er/still/x; touch deep/x")

    assert (root / "deep/er/still/.git/config").read_text() == "as it was\n"
    assert not (root / "deep/er/still/x").exists()


@boxed
async def test_a_secret_in_a_folder_of_secrets_breaks_no_box(root: Path) -> None:
    lay(root, "secrets/.env", "secrets/deep/key.pem", ".github/secrets/x")

    done = await run(root, "ls -A secrets .github/secrets; echo done", shown=lambda path: False)

    assert done.output.endswith("done\n")
    assert ".env" not in done.output
