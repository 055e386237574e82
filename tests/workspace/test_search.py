"""Listing shows a folder without following links; searching finds the same lines with ripgrep and
without it, gives up in time, and never shows a secret or anything outside."""

import os
from pathlib import Path

import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.workspace import Match, Query, SearchResult, Workspace
from gonogo.workspace.files import search
from gonogo.workspace.sandbox.process import find_program

ENGINES = ["python", "rg"]

FILES = {
    "app.py": "import os\n\ndef main():\n    return os.getcwd()\n",
    "src/a-b.py": "x = 1\nclass Plan:\n    pass\n",
    "src/a/deep.py": "class Plan: pass\r\nlast line without end: Plan",
    "src/a.py": "Plan()\n",
    "src/web/index.ts": "const plan = 'Plan'\n",
    "docs/план.md": "Это Plan работ\nёлка\n",
    "docs/latin.txt": b"caf\xe9 Plan\n",
    "docs/binary.dat": b"Plan\0Plan\n",
    "docs/blank.txt": "\n\nPlan\n\n",
    ".hidden/x.py": "Plan hidden\n",
    ".env": "KEY=Plan\n",
    ".git/config": "Plan\n",
    "node_modules/m/index.js": "Plan\n",
    "--pre=evil": "Plan in an odd file\n",
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    top = tmp_path_factory.mktemp("search")
    outside = top / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("Plan CANARY\n")
    root = top / "ws"
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (root / "link").symlink_to(outside)
    (root / "hard.txt").hardlink_to(outside / "secret.txt")
    (root / "big.txt").write_bytes(b"Plan\n" * 1_000_000)
    return Workspace(root)


def needs(engine: str) -> None:
    if engine == "rg" and find_program("rg") is None:
        pytest.skip("ripgrep is not installed")


def refused(kind: str):
    return pytest.raises(ToolFailed, check=lambda failure: failure.kind == kind)


def both(workspace: Workspace, query: dict, path: str = ".") -> tuple[SearchResult, SearchResult]:
    needs("rg")
    plain, quick = (
        workspace.search(Query(**query, engine=engine), path=path) for engine in ENGINES
    )
    return plain, quick


@pytest.mark.parametrize("engine", ENGINES)
def test_lines_are_found_in_the_order_of_the_paths(workspace: Workspace, engine: str) -> None:
    needs(engine)

    found = workspace.search(Query(pattern=r"class \w+", engine=engine))

    assert found.matches == (
        Match(path="src/a/deep.py", line=1, text="class Plan: pass\r"),
        Match(path="src/a-b.py", line=2, text="class Plan:"),
    ) or found.matches == (
        Match(path="src/a-b.py", line=2, text="class Plan:"),
        Match(path="src/a/deep.py", line=1, text="class Plan: pass\r"),
    )


@pytest.mark.parametrize(
    "query",
    [
        {"pattern": "Plan"},
        {"pattern": "(?i)plan"},
        {"pattern": "^Plan"},
        {"pattern": "Plan$"},
        {"pattern": "^$"},
        {"pattern": r"\bPlan\b.*\(\)"},
        {"pattern": "Plan", "glob": "*.py"},
        {"pattern": "Plan", "glob": "src/*.py"},
        {"pattern": "Plan", "glob": "src/**/*.py"},
        {"pattern": "Plan", "glob": "**/*.{py,ts}"},
        {"pattern": "Plan", "glob": "[a-c]*.py"},
        {"pattern": "Plan", "glob": "src"},
        {"pattern": "()", "regex": False},
        {"pattern": "os.getcwd()", "regex": False},
        {"pattern": "--pre=./evil"},
        {"pattern": "Plan", "limit": 3},
        {"pattern": "ёл"},
        {"pattern": r"\w+ работ"},
        {"pattern": "(?<=class )Plan"},
        {"pattern": "nothing like this"},
    ],
    ids=str,
)
def test_both_engines_find_the_same(workspace: Workspace, query: dict) -> None:
    plain, quick = both(workspace, query)

    assert plain == quick


@pytest.mark.parametrize(
    "query",
    [
        {"pattern": "Plan"},
        {"pattern": "plan"},
        {"pattern": "os.getcwd()", "regex": False},
        {"pattern": "--pre=./evil", "regex": False},
        {"pattern": "Plan", "glob": "*.{py,ts}"},
        {"pattern": "nothing like this"},
    ],
    ids=str,
)
def test_what_ripgrep_can_find_it_finds_by_itself(
    workspace: Workspace, query: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = both(workspace, query)
    monkeypatch.setattr(search, "_by_python", lambda *_: pytest.fail("ripgrep was refused"))

    assert workspace.search(Query(**query)) == plain
    assert workspace.search(Query(**query, limit=1)).truncated == (len(plain.matches) > 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_file_is_left_out_because_somebody_ignores_it(tmp_path: Path, engine: str) -> None:
    needs(engine)
    for name in ("a.txt", "b.txt", "c/d.txt", "node_modules/e.txt", ".venv/f.txt", ".hg/g.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("Plan\n")
    (tmp_path / "wide.txt").write_bytes("\ufeffPlan\n".encode("utf-16-le"))
    (tmp_path / "marked.txt").write_bytes("\ufeffPlan\n".encode())
    (tmp_path / ".gitignore").write_text("a.txt\n")
    (tmp_path / ".ignore").write_text("b.txt\nc/\n")
    (tmp_path / ".rgignore").write_text("c/\n")

    found = Workspace(tmp_path).search(Query(pattern="Plan", engine=engine))
    assert [match.path for match in found.matches] == ["a.txt", "b.txt", "c/d.txt", "marked.txt"]


@pytest.mark.parametrize("engine", ENGINES)
def test_of_a_long_line_its_beginning_is_shown(tmp_path: Path, engine: str) -> None:
    needs(engine)
    (tmp_path / "a").write_text(f"Plan {'é' * 600}\n")

    [match] = Workspace(tmp_path).search(Query(pattern="Plan", engine=engine)).matches
    assert match.text == f"Plan {'é' * 495}"


def test_one_file_can_be_searched(workspace: Workspace) -> None:
    plain, quick = both(workspace, {"pattern": "Plan"}, "src/a.py")

    assert plain == quick
    assert [match.path for match in plain.matches] == ["src/a.py"]


@pytest.mark.parametrize("engine", ENGINES)
def test_secrets_state_binaries_links_and_outside_are_not_searched(
    workspace: Workspace, engine: str
) -> None:
    needs(engine)

    found = workspace.search(Query(pattern="Plan", engine=engine))

    assert {match.path for match in found.matches} == {
        *("src/a-b.py", "src/a/deep.py", "src/a.py", "src/web/index.ts", "docs/план.md"),
        *("docs/latin.txt", "docs/blank.txt", ".hidden/x.py", "--pre=evil"),
    }


def test_a_heavy_folder_is_searched_when_it_is_named(workspace: Workspace) -> None:
    plain, quick = both(workspace, {"pattern": "Plan"}, "node_modules/m")

    assert plain == quick
    assert len(plain.matches) == 1


def test_more_lines_than_the_limit_are_said(workspace: Workspace) -> None:
    found = workspace.search(Query(pattern="Plan", limit=2))

    assert len(found.matches) == 2
    assert found.truncated


def test_a_pattern_that_explodes_ends_at_the_time_limit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 60 + "!\n")

    with refused("timeout"):
        Workspace(tmp_path).search(Query(pattern="(a+)+$", engine="python", time_limit=0.5))


@pytest.mark.parametrize("glob", ["../**", "/etc/*", "a/../../b", "{..,a}/x"])
def test_a_glob_that_leads_out_is_refused(workspace: Workspace, glob: str) -> None:
    with refused("path_outside_workspace"):
        workspace.search(Query(pattern="x", glob=glob))


@pytest.mark.parametrize(
    "query",
    [{"pattern": "("}, {"pattern": ""}, {"pattern": "x", "glob": "{a"}, {"pattern": "a\nb"}],
)
def test_a_pattern_that_cannot_be_read_is_refused(workspace: Workspace, query: dict) -> None:
    with refused("invalid_arguments"):
        workspace.search(Query(**query))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pattern_has_up_to_2000_characters(workspace: Workspace, engine: str) -> None:
    needs(engine)
    longest = "x" * 2_000

    assert workspace.search(Query(pattern=longest, engine=engine)).matches == ()
    with pytest.raises(ToolFailed, match=r"^A pattern is one line of 1 to 2000 characters$"):
        workspace.search(Query(pattern=f"{longest}x", engine=engine))


def test_searching_nowhere_is_refused(workspace: Workspace) -> None:
    with refused("file_not_found"):
        workspace.search(Query(pattern="x"), path="nowhere")
    with refused("symlink_escape"):
        workspace.search(Query(pattern="x"), path="link")


def test_a_listing_shows_links_and_leaves_state_out(workspace: Workspace) -> None:
    listing = workspace.list(".", depth=2, limit=1_000)
    kinds = {entry.path: entry.kind for entry in listing.entries}

    assert kinds["link"] == "link"
    assert kinds["src/a"] == "folder"
    assert kinds["node_modules"] == "folder"
    assert "src/a/deep.py" not in kinds
    assert not any(path.startswith((".git/", "link/", "node_modules/")) for path in kinds)
    assert ".git" not in kinds
    assert [entry.path for entry in listing.entries if "/" not in entry.path] == sorted(
        path for path in kinds if "/" not in path
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_heavy_folders_are_shown_and_not_entered_and_those_of_state_are_not_there(
    tmp_path: Path, engine: str
) -> None:
    needs(engine)
    heavy = ("node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache",
             ".pytest_cache", ".ruff_cache")  # fmt: skip
    for name in (*heavy, ".git", ".gonogo", ".hg", ".svn", "plain"):
        (tmp_path / "a" / name / "b").mkdir(parents=True)
        (tmp_path / "a" / name / "b" / "c.txt").write_text("Plan\n")
    workspace = Workspace(tmp_path)

    listed = [entry.path for entry in workspace.list("a", depth=3, limit=99).entries]
    assert listed == sorted(
        [*(f"a/{name}" for name in heavy), "a/plain", "a/plain/b", "a/plain/b/c.txt"]
    )
    flat = [entry.path for entry in workspace.list("a", depth=2, limit=99).entries]
    assert flat == [path for path in listed if path.count("/") < 3]
    found = workspace.search(Query(pattern="Plan", engine=engine))
    assert [match.path for match in found.matches] == ["a/plain/b/c.txt"]


def test_a_listing_ends_at_its_limit_and_says_so(workspace: Workspace) -> None:
    listing = workspace.list(".", depth=5, limit=3)

    assert len(listing.entries) == 3
    assert listing.truncated
    assert not workspace.list("src/web", depth=1, limit=1).truncated


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("path", "kind"), [("pipe", "not_a_regular_file"), ("hard.txt", "hardlink")]
)
def test_what_no_tool_may_read_is_refused_by_its_name_and_not_waited_for(
    tmp_path: Path, engine: str, path: str, kind: str
) -> None:
    needs(engine)
    root = tmp_path / "ws"
    root.mkdir()
    os.mkfifo(root / "pipe")
    (tmp_path / "secret.txt").write_text("Plan CANARY\n")
    (root / "hard.txt").hardlink_to(tmp_path / "secret.txt")

    with refused(kind):
        Workspace(root).search(Query(pattern="Plan", engine=engine), path=path)
    assert Workspace(root).search(Query(pattern="Plan", engine=engine)).matches == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_of_up_to_four_mebibytes_is_searched(tmp_path: Path, engine: str) -> None:
    needs(engine)
    for name, size in (("a", 4 << 20), ("b", (4 << 20) + 1)):
        (tmp_path / name).write_bytes(b"Plan\n" + b"x" * (size - 5))

    found = Workspace(tmp_path).search(Query(pattern="Plan", engine=engine))
    assert [match.path for match in found.matches] == ["a"]
