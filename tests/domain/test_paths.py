"""Protected and secret paths are known by their names, at any depth, in any spelling."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.paths import is_secret, write_guard

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases/paths.jsonl").read_text("utf-8").splitlines()
]
PROTECTED = [case for case in CASES if case["category"] == "protected"]


@pytest.mark.parametrize("case", PROTECTED, ids=lambda case: case["id"])
def test_the_cases_of_protected_paths_hold(case):
    if case["tool"] == "read_file":
        found = "ask" if is_secret(case["path"]) else "allow"
    else:
        found = write_guard(case["path"]) or "allow"
    assert found in (case["expect"], *case["also_ok"])
    assert found != "allow"


@pytest.mark.parametrize(
    "path",
    [
        "src/app.py", "README.md", "docs/secrets.md", "src/secrets.py", "...", "..data/x",
        "a..b.txt", "~backup", "C:relative.txt", ".gitignore", ".github.md", "env.py",
        "tests/test_auth.py", "pyproject.toml", "a/.../b",
    ],
)  # fmt: skip
def test_ordinary_files_are_free(path):
    assert write_guard(path) is None
    assert not is_secret(path)


@pytest.mark.parametrize(
    "path",
    [
        ".git", ".GIT/config", "a/b/.git/hooks/x", ".git ./config", ".git./config", "git~1/config",
        ".git::$INDEX_ALLOCATION/x", "a\\.git\\config", "x/../.git/y", ".gonogo",
        ".g\u200bit/config", ".gonogo/token", ".vscode/tasks.json", ".idea/x", ".zshrc",
        "sub/.profile", ".mcp.json", "",
        ".", "a/..",
    ],
)  # fmt: skip
def test_what_other_programs_obey_is_never_written(path):
    assert write_guard(path) == "deny"


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py", "tests/conftest.py", "MAKEFILE", "package.json", "CLAUDE.md", "x/AGENTS.md",
        ".github/workflows/x.yml", "a.pth", ".env", "certs/server.key", "secrets/a",
    ],
)  # fmt: skip
def test_what_runs_by_itself_is_written_only_with_a_persons_eyes(path):
    assert write_guard(path) == "ask"


@pytest.mark.parametrize(
    "path",
    [
        ".env", ".ENV", "a/.env.local", "prod.env", "id_rsa", "x.pem", ".ssh/config", "secrets/db",
        ".aws/credentials", ".git/config", "sub/.git/config", "credentials.json", ".bash_history",
        "my-service/service-account-1.json", "a:b.pem", "a.pem:b", "src/HEAD:.env",
    ],
)  # fmt: skip
def test_credentials_are_secret(path):
    assert is_secret(path)


@pytest.mark.parametrize("path", ["", ".env.example", ".env.sample", "id_rsa.pub", ".git/HEAD"])
def test_examples_and_public_halves_are_not_secret(path):
    assert not is_secret(path)


@given(st.text(max_size=40), st.sampled_from([".git/x", ".env", "conftest.py", ".gonogo/y"]))
def test_no_folder_in_front_takes_the_guard_away(folder, path):
    assert write_guard(f"{folder}/{path}") is not None
