"""What a prompt names is there for its agent, and what it forbids the gate refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gonogo.execution.agent import Gate, load_profiles
from gonogo.policy import load_reviews
from gonogo.runtime import bare_thread, open_gate
from gonogo.settings import Settings
from gonogo.tools import builtin_tools
from gonogo.workspace import Sandbox

TOOLS = builtin_tools()
PROFILES = load_profiles(None, known_tools=TOOLS)
QUOTED = re.compile(r"`([^`\n]+)`")
WORD = re.compile(r"[a-z]+(?:_[a-z]+)+")
COMMAND = ("execute_command", {"command": "python3 -m unittest"})
CODE = ("write_file", {"path": "src/a.py", "content": "x = 1\n"})
EDIT = ("edit_file", {"path": "src/a.py", "old": "0", "new": "1"})
DELETE = ("delete_file", {"path": "src/a.py"})
READ = ("read_file", {"path": "src/a.py"})
PLAN = ("create_plan", {"goal": "A goal", "subtasks": []})
FORBIDDEN = {
    "orchestrator": ("You do no work yourself", [READ, CODE, COMMAND, PLAN]),
    "architect": ("You change no code", [CODE, EDIT, DELETE, COMMAND]),
    "ask": ("You change nothing and run nothing", [CODE, EDIT, DELETE, COMMAND, PLAN]),
    "debug": ("You change no file, neither with a tool nor with a command", [CODE, EDIT, DELETE]),
}
"""What prompts say, and calls that would break it."""


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    (tmp_path / "ws" / "src").mkdir(parents=True)
    (tmp_path / "ws" / "src" / "a.py").write_text("x = 0\n")
    settings = Settings(home=tmp_path / "home", config=tmp_path, workspace=tmp_path / "ws")
    return open_gate(settings, TOOLS, PROFILES, load_reviews(None, None))


def fields(schema: Any) -> set[str]:
    """The names of all fields in a tool's schema, however deep."""
    return set(re.findall(r'"([a-z_]+)": ', json.dumps(schema)))


@pytest.mark.parametrize("name", PROFILES)
def test_each_tool_that_a_prompt_names_is_one_of_its_agents(name: str) -> None:
    profile = PROFILES[name]
    known = set(profile.tools).union(*(fields(TOOLS[t].schema().parameters) for t in profile.tools))
    quoted = set(QUOTED.findall(profile.prompt))

    assert quoted & set(TOOLS) <= set(profile.tools)
    assert {word for word in quoted if WORD.fullmatch(word)} <= known


@pytest.mark.parametrize("name", PROFILES)
def test_each_prompt_says_how_its_work_ends(name: str) -> None:
    ends = "create_plan" if name == "architect" else "attempt_completion"

    assert f"`{ends}`" in PROFILES[name].prompt


@pytest.mark.parametrize("name", FORBIDDEN)
async def test_what_a_prompt_forbids_is_refused_whatever_the_model_tries(
    name: str, gate: Gate, tmp_path: Path
) -> None:
    said, tried = FORBIDDEN[name]
    thread = bare_thread(tmp_path / "ws", name)

    assert said in " ".join(PROFILES[name].prompt.split())
    for tool, arguments in tried:
        found = await gate.judge(thread, tool, arguments)
        assert found.verdict.decision == "deny", (tool, found.verdict)


async def test_the_architect_may_write_the_documents_that_its_prompt_speaks_of(
    gate: Gate, tmp_path: Path
) -> None:
    thread = bare_thread(tmp_path / "ws", "architect")
    document = {"path": "docs/design.md", "content": "# Design\n"}

    assert (await gate.judge(thread, "write_file", document)).verdict.decision != "deny"


@pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
async def test_a_command_of_the_debugger_writes_nothing_unless_a_person_saw_and_allowed_it(
    gate: Gate, tmp_path: Path
) -> None:
    thread, other = (bare_thread(tmp_path / "ws", name) for name in ("debug", "coder"))
    found = await gate.judge(thread, "execute_command", {"command": "touch src/b.py"})

    assert found.verdict.decision == "ask"
    assert gate.writes_nothing(thread, found.verdict, asked=False)
    assert not gate.writes_nothing(thread, found.verdict, asked=True)
    assert not gate.writes_nothing(other, found.verdict, asked=False)
