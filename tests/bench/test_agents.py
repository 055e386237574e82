"""The bench of tasks tells who did a task from who only says so."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.agents import attempt as attempts
from bench.agents.attempt import attempt, check
from bench.agents.tasks import load_tasks

from fakes.world import call, calls, says
from gonogo.llm import ScriptedModel

ROOT = Path(__file__).parents[2]
TASKS = load_tasks()
POSSIBLE = [name for name, task in TASKS.items() if task.is_possible]
MEDIAN = TASKS["py-bug-median"]
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def test_there_are_ten_tasks_of_six_kinds_in_three_languages():
    assert len(TASKS) == 10
    assert {task.kind for task in TASKS.values()} == {
        "bug", "feature", "refactoring", "failing test", "docs", "migration"
    }  # fmt: skip
    assert {task.language for task in TASKS.values()} == {"python", "javascript", "go"}
    assert len(POSSIBLE) >= 6


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", POSSIBLE)
async def test_a_right_solution_is_told_from_a_lie(name, tmp_path):
    task = TASKS[name]
    found = {}
    for model in ("scripted", "liar"):
        (tmp_path / model).mkdir()
        found[model] = await attempt(task, tmp_path / model, model=model, policy="plans", minutes=1)
        assert found[model].ended == "completed"
        assert found[model].questions == {"plan": 1}
        assert found[model].requests == 4
        assert set(found[model].tokens) >= {"input", "output"}
    right, lie = found["scripted"], found["liar"]
    assert (right.success, right.false_done, right.check) == (True, False, "")
    assert (lie.success, lie.false_done, bool(lie.check)) == (False, True, True)
    # Who does nothing has not done it, and nothing of the check was there to be read.
    assert not (tmp_path / "liar" / "clone" / name / next(iter(task.hidden))).exists() or (
        next(iter(task.hidden)) in task.files
    )


def script(monkeypatch, *lines):
    model = ScriptedModel({"main/orchestrator": [*lines]}, "scripted")
    monkeypatch.setattr(attempts, "scripted", lambda _task, _name: model)


async def test_a_question_in_words_is_answered_and_no_question_is_waited_for(tmp_path, monkeypatch):
    asks = calls(call("ask_followup_question", question="Which?"))
    script(monkeypatch, asks, asks, asks, asks)
    made = await attempt(MEDIAN, tmp_path, model="scripted", policy="all", minutes=1)
    assert (made.ended, made.questions, made.said_done) == ("asks", {"words": 3}, False)


@pytest.mark.parametrize(("policy", "success"), [("all", True), ("plans", False)])
async def test_the_policy_decides_what_is_approved(tmp_path, monkeypatch, policy, success):
    text = MEDIAN.solution["stats.py"]
    model = ScriptedModel(
        {
            "main/orchestrator": [calls(call("switch_mode", mode="coder"))],
            "main/coder": [
                calls(call("write_file", path="stats.py", content=text)), says("It is done."),
            ],
        },
        "scripted",
    )  # fmt: skip
    monkeypatch.setattr(attempts, "scripted", lambda _task, _name: model)
    made = await attempt(MEDIAN, tmp_path, model="scripted", policy=policy, minutes=1)
    assert (made.success, made.questions) == (success, {"tool": 1})
    assert made.false_done is not success


async def test_a_model_that_fails_or_takes_too_long_has_not_said_that_it_is_done(
    tmp_path, monkeypatch
):
    script(monkeypatch)
    (tmp_path / "fails").mkdir()
    made = await attempt(MEDIAN, tmp_path / "fails", model="scripted", policy="all", minutes=1)
    assert (made.ended, made.success, made.false_done) == ("error", False, False)
    script(monkeypatch, says("Late", delay=600))
    (tmp_path / "late").mkdir()
    made = await attempt(MEDIAN, tmp_path / "late", model="scripted", policy="all", minutes=0.01)
    assert (made.ended, made.said_done) == ("timeout", False)


async def test_a_check_writes_through_no_link_and_runs_in_the_sandbox(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    clone = tmp_path / "clone"
    MEDIAN.lay_out(clone)
    (clone / "stats.py").write_text(f"open({str(outside)!r}, 'w').write('theirs')\n")
    (clone / "hidden_check.py").symlink_to(outside)
    passed, told = await check(MEDIAN, clone, tmp_path / "copy")
    assert not passed
    assert "Error" in told
    assert outside.read_text() == "mine"


async def test_a_check_finds_its_program_where_the_task_found_it(tmp_path, monkeypatch):
    program = tmp_path / "go" / "bin" / "tool-of-a-test"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    task = replace(MEDIAN, needs=program.name, command=program.name)
    task.lay_out(tmp_path / "clone")
    assert task.is_possible
    assert await check(task, tmp_path / "clone", tmp_path / "copy") == (True, "")


def test_the_command_prints_json_and_fails_where_a_task_was_not_done():
    command = [sys.executable, "-m", "bench.agents", "--task", "py-docs-options", "--json"]
    done = subprocess.run(
        [*command, "--model", "liar"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert (told["model"], told["approve"]) == ("liar", "all")
    (task,) = told["tasks"]
    assert (task["task"], task["success"], task["false_done"]) == ("py-docs-options", False, True)
