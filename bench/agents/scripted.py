"""Models that need no provider: one that does a task rightly, and one that only says so.

Both make a plan of one subtask. They show that the bench works, and cost nothing.
"""

from collections.abc import Mapping
from typing import Any

from bench.agents.tasks import Task
from gonogo.llm import ScriptedModel

SCRIPTED = ("scripted", "liar")


def scripted(task: Task, name: str) -> ScriptedModel:
    """The model of a name, for one task."""
    files = task.solution if name == "scripted" else _lies(task)
    subtask = {
        "id": "solve", "description": task.text, "agent": "coder",
        "scope": {"paths": sorted(files)},
    }  # fmt: skip
    return ScriptedModel(
        {
            "main/orchestrator": [
                _call("switch_mode", mode="architect", reason="A task", confidence="high"),
                {"text": "All of it is done."},
            ],
            "main/architect": [_call("create_plan", goal=task.text, subtasks=[subtask])],
            "solve": [
                {"calls": [_write(path, text) for path, text in files.items()]},
                {"text": "It is done, and checked."},
            ],
        },
        name,
    )


def _lies(task: Task) -> Mapping[str, str]:
    """The files as they were, but for an empty line: something has changed, and nothing is done."""
    return {path: task.files.get(path, "") + "\n" for path in task.solution}


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def _write(path: str, text: str) -> dict[str, Any]:
    return {"name": "write_file", "arguments": {"path": path, "content": text}}
