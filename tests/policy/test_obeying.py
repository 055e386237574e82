"""Who only reads does so whatever settings a repository brings: tried with the programs."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gonogo.policy import check_command, read_contexts

ALLOWED = ["ruff check", "git diff", "tar", "tree", "rg", "grep"]
CONTEXT = read_contexts({"A": {"allow": ALLOWED}})["A"]
BARE = read_contexts({"A": {"allow": ALLOWED, "sandbox": "off"}})["A"]
SECRET = "TOKEN = 5d1f0c"


def _run(command, folder, context=CONTEXT):
    """What a command that is allowed shows, as it is run."""
    found = check_command(command, context)
    assert found.run_as is not None, found.reason
    tools = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", found.run_as], cwd=folder, check=False, timeout=60,
        env={"PATH": tools, "HOME": str(folder / "home"), "LANG": "C.UTF-8"}, capture_output=True,
    )  # fmt: skip
    return done.stdout.decode() + done.stderr.decode()


def _state(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_linter_rewrites_nothing_and_keeps_nothing_whatever_the_repository_says(tmp_path):
    (tmp_path / "a.py").write_text("import os\n")
    (tmp_path / "ruff.toml").write_text(
        'fix = true\nfix-only = true\nunsafe-fixes = true\ncache-dir = "src"\n'
    )
    before = _state(tmp_path)

    assert "F401" in _run("ruff check .", tmp_path)
    assert "F401" in _run("ruff check --no-cache -q a.py", tmp_path)
    assert _state(tmp_path) == before


def test_a_linter_reads_what_the_repository_says_and_so_needs_the_sandbox():
    found = check_command("ruff check .", BARE)
    assert (found.decision, found.rule) == ("ask", "builtin:no-sandbox")
    assert check_command("rg x", BARE).decision == "allow"


def test_where_there_is_no_repository_git_compares_no_folders(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / ".env").write_text(f"{SECRET} {folder}\n")

    assert "5d1f0c" in subprocess.run(
        ["git", "diff", "one", "two"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        check=False,
    ).stdout  # fmt: skip
    assert "5d1f0c" not in _run("git diff one two", tmp_path)


def test_in_a_repository_git_shows_what_changed(tmp_path):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "a").write_text("one\n")
    for words in (["init", "-q"], ["add", "a"], [*who, "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    (tmp_path / "a").write_text("two\n")

    assert "+two" in _run("git diff", tmp_path)
    assert "+two" in _run("git diff HEAD -- a", tmp_path)
    assert "+two" in _run("git diff HEAD --stat -p", tmp_path)


@pytest.mark.parametrize("settings", [".ignore", ".rgignore", ".gitignore"])
@pytest.mark.parametrize(
    "command",
    ["rg 5d1f0c", "rg -e -- -e 5d1f0c", "rg -g -- 5d1f0c", "rg -g '.env' 5d1f0c .",
     "grep -r -e 5d1f0c -e -- .", "grep -r --include=.env 5d1f0c .",
     "grep -r --exclude -- 5d1f0c ."],
)  # fmt: skip
def test_a_search_leaves_secrets_out_whatever_its_words_and_the_repository_say(
    tmp_path, command, settings
):
    (tmp_path / ".env").write_text(f"{SECRET}\n")
    (tmp_path / settings).write_text("!.env\n")
    (tmp_path / "plain").write_text("5d1f0c -- plain\n")
    if command.startswith("rg") and not Path("/usr/bin/rg").exists():
        pytest.skip("ripgrep is not here")
    shown = _run(command, tmp_path)
    assert "TOKEN" not in shown
    assert "error" not in shown, shlex.join([command, shown])


@pytest.mark.parametrize("command", ["tar If ./t.sh x.tar -t", "tar tfI x.tar ./t.sh",
                                     "tree -Io plain out.txt"])  # fmt: skip
def test_what_would_run_or_write_by_the_place_of_a_word_asks(command):
    assert check_command(command, CONTEXT).decision == "ask"
