"""The walks of docs/tutorial/first-plan.md do what the page says, run as they are printed.

A real server in a process of its own, real `curl`, a model that is scripted at the other end of
HTTP.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from fakes.nursery import Nursery, python
from fakes.openai_server import fake_openai

TUTORIAL = Path(__file__).parent.parent.parent / "docs" / "tutorial" / "first-plan.md"
pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")

PLAN = {
    "goal": "TODO приложение",
    "subtasks": [
        {"id": "app", "description": "Создать todo.py", "agent": "coder"},
        {
            "id": "readme",
            "description": "Создать README.md",
            "agent": "coder",
            "dependencies": ["app"],
        },
    ],
}


def writes(path: str) -> list[dict[str, Any]]:
    """What a coder answers whose subtask is one file."""
    write = {"name": "write_file", "arguments": {"path": path, "content": f"# {path}\n"}}
    end = {"name": "attempt_completion", "arguments": {"result": f"Создан {path}"}}
    return [{"calls": [write]}, {"calls": [end]}]


SCRIPT = {
    "rules": [
        {
            "when": {"tools": ["create_plan"]},
            "replies": [{"calls": [{"name": "create_plan", "arguments": PLAN}]}],
        },
        {"when": {"user": "Создать README.md"}, "replies": writes("README.md")},
        {"when": {"user": "Создать todo.py"}, "replies": writes("todo.py")},
    ],
    "default": {"text": "Готово."},
}


class Walk:
    """A server with an empty workspace, and the tutorial's commands against it."""

    def __init__(self, environment: dict[str, str], workspace: Path) -> None:
        self.environment, self.workspace = environment, workspace

    def step(self, walk: int, step: str) -> list[dict[str, Any]]:
        """Run one printed command; the events that it prints."""
        command = re.search(
            rf"^```sh walk={walk} step={step}\n(.*?)^```", TUTORIAL.read_text(), re.DOTALL | re.M
        )
        assert command is not None
        done = subprocess.run(
            ["bash", "-euc", command[1]],
            env=self.environment, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        lines = done.stdout.splitlines()
        return [json.loads(line.removeprefix("data: ")) for line in lines if line[:6] == "data: "]

    def create(self, walk: int) -> list[dict[str, Any]]:
        """Ask for the plan, and remember its id as the page says."""
        events = self.step(walk, "create")
        self.environment["PLAN"] = of_type(events, "plan_notification")[0]["metadata"]["plan_id"]
        return events

    @property
    def files(self) -> set[str]:
        """The names of the files in the workspace."""
        return {path.name for path in self.workspace.iterdir()}


@pytest.fixture
def walk(tmp_path: Path, born: Nursery) -> Iterator[Walk]:
    workspace = tmp_path / "todo"
    workspace.mkdir()
    with fake_openai(SCRIPT) as provider:
        environment = {
            **os.environ,
            **python(),
            "GONOGO_HOME": str(tmp_path / "home"),
            "GONOGO_CONFIG": str(tmp_path / "config"),
            "GONOGO_BACKGROUND": "false",
            "GONOGO_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": provider.base_url,
            "OPENAI_API_KEY": "sk-test",
        }
        command = ["gonogo", "serve", "--port", "0", "--workspace", str(workspace)]
        read, write = os.pipe()
        with os.fdopen(read) as printed:
            server = born.start(*command, env=environment, cwd=tmp_path, stdout=write, stderr=2)
            os.close(write)
            try:
                environment["GONOGO"] = served_at(printed)
                environment["TOKEN"] = token(born, environment, tmp_path)
                yield Walk(environment, workspace)
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(60)
        assert provider.violations == []


def served_at(printed: IO[str]) -> str:
    """The address that a server prints when it is ready."""
    for line in printed:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return found[0]
    raise AssertionError("the server ended before it was ready")


def token(born: Nursery, environment: dict[str, str], folder: Path) -> str:
    command = ["gonogo", "token", "create", "--role", "operator", "--name", "tutorial"]
    done = born.run(*command, env=environment, cwd=folder, stdin="", timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def of_type(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


@pytest.mark.feature(27)
def test_walk_1_creates_a_plan_and_carries_it_out_when_it_is_approved(walk: Walk) -> None:
    created = walk.create(1)

    switched = of_type(created, "agent_switched")[0]
    assert switched["metadata"]["to_agent"] == "architect"
    assert types(created)[-2:] == ["plan_notification", "done"]
    assert created[-2]["is_final"] is True
    assert created[-2]["content"].startswith("# План: TODO приложение")
    assert walk.files == set()

    approved = walk.step(1, "decide")

    assert of_type(approved, "plan_approved")[0]["content"] == (
        "План подтвержден. Начинаю выполнение 2 подзадач..."
    )
    started = [event["content"] for event in of_type(approved, "subtask_started")]
    assert started == ["Subtask 1/2: Создать todo.py", "Subtask 2/2: Создать README.md"]
    assert types(approved)[-2:] == ["plan_completed", "done"]
    assert approved[-2]["content"] == (
        "Plan Execution Complete\n- Total: 2\n- Completed: 2\n- Failed: 0"
    )
    assert walk.files == {"todo.py", "README.md"}


@pytest.mark.feature(28)
def test_walk_2_rejects_a_plan_and_nothing_has_run(walk: Walk) -> None:
    walk.create(2)

    rejected = walk.step(2, "decide")

    said = of_type(rejected, "plan_rejected")[0]
    assert said["content"] == "План отменен. Этот подход не подходит"
    assert said["metadata"]["feedback"] == "Этот подход не подходит"
    assert said["is_final"] is True
    assert types(rejected)[-1] == "done"
    assert walk.files == set()


@pytest.mark.feature(29)
def test_walk_3_edits_a_plan_and_only_what_was_written_runs(walk: Walk) -> None:
    walk.create(3)

    edited = walk.step(3, "decide")

    approved = of_type(edited, "plan_approved")[0]
    assert approved["content"] == "План обновлен. Начинаю выполнение 1 подзадачи..."
    assert approved["metadata"]["was_edited"] is True
    assert approved["metadata"]["revision"] == 2
    assert [event["metadata"]["subtask_id"] for event in of_type(edited, "subtask_started")] == [
        "subtask_1"
    ]
    assert types(edited)[-2:] == ["plan_completed", "done"]
    assert walk.files == {"README.md"}
