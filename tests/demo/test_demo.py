"""The demo's material: a bug that a test shows, and recorded lines that mend it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gonogo.demo import TASKS, lay_out, recording, run_tests
from gonogo.domain.plan import parse_subtasks

AGENTS = {"coder", "debug", "ask", "universal"}


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    lay_out(tmp_path / "sample")
    return tmp_path / "sample"


def calls_of(thread: str) -> list[dict[str, Any]]:
    return [call for line in recording()[thread] for call in line.get("calls", [])]


def proposed() -> dict[str, Any]:
    return next(c["arguments"] for c in calls_of("main/architect") if c["name"] == "create_plan")


def carry_out(folder: Path, call: dict[str, Any]) -> None:
    arguments = call["arguments"]
    if call["name"] == "write_file":
        (folder / arguments["path"]).write_text(arguments["content"], encoding="utf-8")
    if call["name"] == "edit_file":
        path = folder / arguments["path"]
        text = path.read_text(encoding="utf-8")
        assert text.count(arguments["old"]) == 1
        path.write_text(text.replace(arguments["old"], arguments["new"]), encoding="utf-8")


def test_the_sample_has_one_failing_test(sample):
    before = run_tests(sample)
    assert not before.passed
    assert before.summary == "FAILED (failures=1)"


def test_the_sample_is_a_git_repository_with_nothing_to_commit(sample):
    assert (sample / ".git").is_dir()
    assert (sample / ".gitignore").read_text() == "__pycache__/\n"
    log = ["git", "log", "--format=%an <%ae> %s"]
    done = subprocess.run(log, cwd=sample, capture_output=True, text=True, check=True)
    assert done.stdout == "gonogo demo <demo@localhost> Sample\n"


def test_no_packed_name_is_left(sample):
    assert not list(sample.rglob("*.txt"))


def test_the_recorded_edits_fit_the_sample_and_make_the_tests_pass(sample):
    for subtask in proposed()["subtasks"]:
        for call in calls_of(subtask["id"]):
            carry_out(sample, call)
    after = run_tests(sample)
    assert after.passed, after.summary


def test_the_recorded_edits_fit_in_either_order_of_the_parallel_subtasks(sample):
    for subtask in ("json_flag", "document", "fix_totals"):
        for call in calls_of(subtask):
            carry_out(sample, call)
    assert run_tests(sample).passed


def test_the_recorded_plan_has_four_subtasks_or_more_of_which_two_run_in_parallel():
    subtasks = parse_subtasks(proposed()["subtasks"], agents=AGENTS)
    assert len(subtasks) >= 4
    by_id = {s.id: s for s in subtasks}
    assert by_id["fix_totals"].dependencies == by_id["json_flag"].dependencies == ("reproduce",)


def test_parallel_subtasks_declare_different_files():
    subtasks = {s["id"]: s for s in proposed()["subtasks"]}
    first, second = (set(subtasks[i]["scope"]["paths"]) for i in ("fix_totals", "json_flag"))
    assert not first & second


def test_every_recorded_write_is_inside_its_scope():
    for subtask in proposed()["subtasks"]:
        declared = subtask["scope"].get("paths", [])
        written = [
            c["arguments"]["path"]
            for c in calls_of(subtask["id"])
            if c["name"] in {"write_file", "edit_file"}
        ]
        assert set(written) <= set(declared)


def test_exactly_one_recorded_command_is_outside_its_scope():
    outside = []
    for subtask in proposed()["subtasks"]:
        prefixes = tuple(subtask["scope"].get("commands", []))
        for call in calls_of(subtask["id"]):
            command = call["arguments"].get("command")
            if command and not command.startswith(prefixes):
                outside.append(command)
    assert outside == ["python3 -m tally expenses.csv --json"]


def test_every_subtask_has_its_lines_and_ends_by_saying_what_came_of_it():
    for subtask in proposed()["subtasks"]:
        assert calls_of(subtask["id"])[-1]["name"] == "attempt_completion"


def test_the_recording_is_plain_json_and_the_task_is_told_in_both_languages():
    assert json.loads(json.dumps(recording())) == recording()
    assert set(TASKS) == {"en", "ru"}


def test_the_sample_is_committed_whatever_the_users_git_is_set_to(tmp_path, monkeypatch, capfd):
    hooks, settings = tmp_path / "hooks", tmp_path / "gitconfig"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-commit").chmod(0o700)
    settings.write_text(
        f"[commit]\ngpgsign = true\n[gpg]\nprogram = /bin/false\n[core]\nhooksPath = {hooks}\n"
        "[init]\ndefaultBranch = other\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    folder = tmp_path / "new" / "sample"
    lay_out(folder)

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
        return done.stdout

    assert git("log", "--format=%s") == "Sample\n"
    assert git("branch", "--show-current") == "main\n"
    assert git("status", "--porcelain") == ""
    assert capfd.readouterr() == ("", "")
    (folder / "README.md").write_text("mine")
    lay_out(folder)
    assert (folder / "README.md").read_text() != "mine", "it is laid out anew"


def test_without_git_the_sample_is_only_files_and_its_tests_leave_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / "sample"
    lay_out(folder)
    before = sorted(folder.rglob("*"))
    assert not (folder / ".git").exists()
    assert run_tests(folder).summary == "FAILED (failures=1)"
    assert sorted(folder.rglob("*")) == before
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "test_it.py").write_text("import os\nos._exit(3)\n")
    ended = run_tests(tmp_path / "none")
    assert (ended.passed, ended.summary) == (False, "")
