"""A reader at home, with a provider of models that answers what the pages say."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.nursery import Nursery
from fakes.openai_server import fake_openai
from fakes.reader import Reader, reader
from gonogo.demo import lay_out

GREET = """\
import argparse


def greeting(name, loud=False):
    text = f"Hello, {name}!"
    return text.upper() if loud else text


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--loud", action="store_true")
    given = parser.parse_args()
    print(greeting(given.name, given.loud))
"""
TEST = """\
import unittest

from greet import greeting


class LoudTest(unittest.TestCase):
    def test_loud_is_in_capitals(self):
        self.assertEqual(greeting("Ann", loud=True), "HELLO, ANN!")
"""


PASSES = """\
import unittest


class Passes(unittest.TestCase):
    def test_nothing(self):
        pass
"""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def wrote(*paths: str, text: str = "Text\n", end: str = "Done.") -> list[dict[str, Any]]:
    """What an agent answers whose subtask is these files."""
    return [
        *({"calls": [call("write_file", path=path, content=text)]} for path in paths),
        {"calls": [call("attempt_completion", result=end)]},
    ]


def proposed(task: str, goal: str, *subtasks: dict[str, Any]) -> dict[str, Any]:
    """The architect's answers to a task."""
    first = {"calls": [call("create_plan", goal=goal, subtasks=list(subtasks))]}
    return {"when": {"tools": ["create_plan"], "user": task}, "reply": first}


def greets(task: str, minute: str, *texts: str) -> list[dict[str, Any]]:
    """The rules of the tutorial's first page: two subtasks, one after the other."""
    goal, loud, tell, made, told, reason = texts
    return [
        proposed(
            task, goal,
            {
                "id": "loud", "description": loud, "agent": "coder",
                "estimated_time": f"3 {minute}",
                "scope": {
                    "paths": ["greet.py", "test_greet.py"], "commands": ["python3 -m unittest"],
                },
                "done_when": [{"command": "python3 -m unittest test_greet"}],
            },
            {
                "id": "readme", "description": tell, "agent": "coder",
                "estimated_time": f"2 {minute}",
                "dependencies": ["loud"], "scope": {"paths": ["README.md"], "commands": []},
            },
        ),
        {"when": {"user": tell}, "replies": wrote("README.md", text="# greet\n", end=told)},
        {
            "when": {"user": loud},
            "replies": [
                {"calls": [call("read_file", path="greet.py")]},
                {"calls": [
                    call("write_file", path="greet.py", content=GREET),
                    call("write_file", path="test_greet.py", content=TEST),
                ]},
                {"calls": [call("attempt_completion", result=made)]},
            ],
        },
        {
            "when": {"tools": ["switch_mode"], "user": task, "assistants": 0},
            "reply": {"calls": [call("switch_mode", mode="architect", reason=reason)]},
        },
    ]  # fmt: skip


def todo(task: str, goal: str, app: str, readme: str, notes: str) -> list[dict[str, Any]]:
    """The rules of the walks over HTTP."""
    return [
        proposed(
            task, goal,
            {"id": "app", "description": app, "agent": "coder"},
            {"id": "readme", "description": readme, "agent": "coder",
             "dependencies": ["app"]},
        ),
        {"when": {"user": readme}, "replies": wrote("README.md")},
        {"when": {"user": app}, "replies": wrote("todo.py")},
        {"when": {"user": notes}, "replies": wrote("NOTES.md")},
    ]  # fmt: skip


DONE = {"calls": [call("attempt_completion", result="Done.")]}
SCRIPT = {
    "rules": [
        *greets(
            "--loud option", "min", "Greet in capitals with --loud",
            "Add the option --loud to greet.py, with a test", "Describe --loud in README.md",
            "`python3 greet.py Ann --loud` prints HELLO, ANN!; test_greet.py covers it.",
            "README.md describes --loud.", "Code, a test and a description",
        ),
        *greets(
            "ключ --loud", "мин", "Приветствие заглавными буквами с ключом --loud",
            "Добавить в greet.py ключ --loud, с тестом", "Описать --loud в README.md",
            "`python3 greet.py Ann --loud` выводит HELLO, ANN!; это проверяет test_greet.py.",
            "README.md описывает --loud.", "Код, тест и описание",
        ),
        *todo("Create a TODO app", "A TODO app", "Create todo.py", "Create README.md", "NOTES.md"),
        *todo(
            "Создай TODO приложение", "TODO приложение", "Создать todo.py", "Создать README.md",
            "NOTES.md",
        ),
        proposed(
            "that asks", "A step that asks",
            {"id": "flag", "description": "Do what asks", "agent": "coder", "must_change": False},
        ),
        proposed(
            "", "Add a --json flag",
            {"id": "flag", "description": "Add the flag", "agent": "coder",
             "scope": {"paths": ["tally/**"]}},
            {"id": "docs", "description": "Describe the flag", "agent": "coder",
             "scope": {"paths": ["README.md"]}, "dependencies": ["flag"]},
        ),
        {
            "when": {"user": "what asks"},
            "replies": [{"calls": [call("execute_command", command="make all")]}, DONE],
        },
        {
            "when": {"user": "flag to tally/cli.py"},
            "replies": wrote("tests/test_cli.py", "tests/test_report.py", text=PASSES),
        },
        {"when": {"user": "Write CHANGELOG.md"}, "replies": wrote("CHANGELOG.md")},
        {"when": {"user": "Describe the flag"}, "replies": wrote("README.md")},
        {"when": {"user": "Add the flag"}, "replies": wrote("tally/flag.py")},
        {
            "when": {"tools": ["switch_mode"], "user": "?"},
            "replies": [{"text": "It adds up expenses by category."}],
        },
        {
            "when": {"tools": ["switch_mode"]},
            "replies": [
                {"calls": [call("switch_mode", mode="architect", reason="Several steps")]},
                {"text": "Done."},
            ],
        },
    ],
    "default": DONE,
}  # fmt: skip


@pytest.fixture(scope="session")
def provider() -> Iterator[str]:
    """The address of a provider that knows the pages."""
    with fake_openai(SCRIPT) as running:
        yield running.base_url
        assert running.violations == []


@pytest.fixture
def at_home(tmp_path: Path, born: Nursery, provider: str) -> Iterator[Reader]:
    """A reader with a model, and a project in `~/src/my-project`."""
    environment = {
        "GONOGO_MODEL": "openai:scripted", "OPENAI_BASE_URL": provider, "OPENAI_API_KEY": "sk-test",
    }  # fmt: skip
    with reader(tmp_path, born, environment) as found:
        found.instead |= {
            "http://127.0.0.1:11434/v1": provider,
            "/tmp/a": str(tmp_path / "a"),  # noqa: S108 - only shown
            "/path/to/gonogo/.venv/bin/python": sys.executable,
            "/path/to/gonogo": str(Path(__file__).parent.parent.parent),
        }
        lay_out(tmp_path / "src" / "my-project")
        yield found
