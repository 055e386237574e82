"""What two revisions of a plan have otherwise, as lines."""

from collections.abc import Iterator
from typing import Any

from gonogo.cli._escape import json_line, one_line
from gonogo.cli._tree import scope_line
from gonogo.domain.plan import Subtask
from gonogo.domain.views import PlanDiff


def diff_lines(diff: PlanDiff) -> Iterator[str]:
    """`+` for what was added, `-` for what was removed, `~` for what was changed, and how."""
    yield f"{diff.plan_id}  revision {diff.from_revision} → {diff.to_revision}"
    for subtask in diff.removed:
        yield f"- {_headline(subtask)}"
    for subtask in diff.added:
        yield f"+ {_headline(subtask)}"
        yield from _facts(subtask)
    for change in diff.changed:
        yield f"~ {one_line(change['id'])}"
        for name, values in change["fields"].items():
            yield f"    {name}: {_value(values['from'])} → {_value(values['to'])}"
    if not (diff.added or diff.removed or diff.changed):
        yield "The same subtasks."


def _headline(subtask: Subtask) -> str:
    worker = subtask.agent or subtask.tool or "model"
    return f"{one_line(subtask.id)}: {one_line(subtask.description, 160)} ({one_line(worker)})"


def _facts(subtask: Subtask) -> Iterator[str]:
    if subtask.dependencies:
        yield f"    after {', '.join(map(one_line, subtask.dependencies))}"
    if subtask.scope and (needs := scope_line(subtask.scope.model_dump(mode="json"))):
        yield f"    needs {needs}"


def _value(value: Any) -> str:  # noqa: ANN401 - a field's JSON
    if value is None or value == []:
        return "none"
    return json_line(value, 300)
