"""What is otherwise in two revisions of a plan, or in the files of two checkpoints, as lines."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gonogo.cli._escape import json_line, one_line
from gonogo.cli._tree import scope_line
from gonogo.domain.plan import Subtask, worker_name
from gonogo.domain.plan_views import CheckpointDiff, PlanDiff
from gonogo.domain.text_safety import visible


def diff_lines(diff: PlanDiff) -> Iterator[str]:
    """`+` for what was added, `-` for what was removed, `~` for what was changed, and how."""
    yield f"{diff.plan_id}  revision {diff.from_revision} → {diff.to_revision}"
    for subtask in diff.removed:
        yield f"- {_headline(subtask)}"
    yield from _added(diff.added)
    yield from _changed(diff.changed)
    if not (diff.added or diff.removed or diff.changed):
        yield "The same subtasks."


def revision_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """Why there is another revision of a plan, what is otherwise in it, and what to know of it.

    Args:
        facts: `replan`, `changes`, `comments` and `findings` of a plan's question or notice, if it
            has them.
    """
    replan: Mapping[str, Any] = facts.get("replan") or {}
    changes = facts.get("changes")
    for name in ("cause", "subtask_id", "reason", "root_cause", "suggestion", "by"):
        if name in replan:
            yield f"{_REPLAN[name]}: {one_line(str(replan[name]), 1000)}"
    if changes:
        yield "Against the revision before:"
        yield from (f"- {one_line(key)}" for key in changes["removed"])
        yield from _added(map(Subtask.model_validate, changes["added"]))
        yield from _changed(changes["changed"])
    yield from comment_lines(facts.get("comments") or ())
    for finding in facts.get("findings") or ():
        said = one_line(finding.get("message", ""), 1000)
        yield f"! {finding.get('severity', '')}: {said}"


def comment_lines(comments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What people said of a plan, and under it the agent's words, marked as such."""
    for comment in comments:
        where = one_line(comment.get("subtask_id") or "the plan")
        yield f"? {one_line(comment['author'])} on {where}: {one_line(comment['content'], 4_000)}"
        answer = comment.get("answer")
        yield f"    the agent answers: {one_line(answer, 4_000)}" if answer else "    no answer yet"


_REPLAN = {
    "cause": "planned anew for",
    "subtask_id": "after subtask",
    "reason": "because",
    "root_cause": "root cause",
    "suggestion": "suggestion",
    "by": "asked for by",
}


def file_lines(diff: CheckpointDiff) -> Iterator[str]:
    """Each file that differs, with its difference."""
    yield f"{diff.checkpoint_id} → {diff.to or 'the workspace now'}"
    for file in diff.files:
        yield f"{file.status} {visible(file.path, lines=False)}"
        yield from (f"    {text}" for text in file.diff.splitlines())
    if not diff.files:
        yield "The same files."
    if diff.truncated:
        yield "There is more than is shown."


def _added(subtasks: Iterable[Subtask]) -> Iterator[str]:
    for subtask in subtasks:
        yield f"+ {_headline(subtask)}"
        if subtask.dependencies:
            yield f"    after {', '.join(map(one_line, subtask.dependencies))}"
        if needs := scope_line(subtask.model_dump(mode="json")):
            yield f"    allowed: {needs}"


def _changed(changes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for change in changes:
        yield f"~ {one_line(change['id'])}"
        for name, values in change["fields"].items():
            yield f"    {name}: {_value(values['from'])} → {_value(values['to'])}"


def _headline(subtask: Subtask) -> str:
    worker = one_line(worker_name(subtask))
    return f"{one_line(subtask.id)}: {one_line(subtask.description, 160)} ({worker})"


def _value(value: Any) -> str:  # noqa: ANN401 - a field's JSON
    return "none" if value is None or value == [] else json_line(value, 300)
