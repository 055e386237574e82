"""The brief of a subtask: what its conversation begins with."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from gonogo.domain.text_safety import visible_json
from gonogo.execution.scheduling import Step
from gonogo.i18n import say

_SHOWN = 4_000
"""Characters of each part of a dependency's result that a subtask is told."""
_MOST_SAID = 20
"""Words of people to earlier attempts that a new one is told, the newest."""


def brief(step: Step, locale: str, ending: str | None = None, said: Sequence[str] = ()) -> str:
    """What to do, what it may touch, what is known, and how it ends.

    Args:
        ending: Key of the text that says how it ends.
        said: What people said to earlier attempts at it.
    """
    subtask = step.subtask
    parts = [
        say(
            "model_subtask", locale, goal=step.work.revision.goal, subtask=subtask.id,
            description=subtask.description,
        )
    ]  # fmt: skip
    if subtask.scope is not None:
        scope = json.dumps(subtask.scope.model_dump(exclude_defaults=True), ensure_ascii=False)
        parts.append(say("model_subtask_scope", locale, scope=scope))
    if subtask.done_when:
        parts.extend(_checks(step, locale))
    if step.inputs:
        parts.append(json.dumps({"inputs": step.inputs}, ensure_ascii=False))
    if subtask.dependencies:
        parts.append(say("model_subtask_results", locale))
    parts.extend(_result_of(step, dependency, locale) for dependency in subtask.dependencies)
    if said:
        parts.append(say("model_subtask_steered", locale))
        parts.extend(said[-_MOST_SAID:])
    if ending is not None:
        parts.append(say(ending, locale))
    return "\n\n".join(parts)


def _checks(step: Step, locale: str) -> Iterator[str]:
    """What the subtask is checked by, and what an earlier attempt lacked."""
    checks = "\n".join(f"- {check.text}" for check in step.subtask.done_when or ())
    yield say("model_subtask_checks", locale, checks=checks)
    if step.failed is not None:
        said = visible_json({"failure": cut(step.failed, _SHOWN, locale)})
        yield say("model_subtask_again", locale, said=said)


def _result_of(step: Step, dependency: str, locale: str) -> str:
    done, result = step.work.revision.subtask(dependency), step.results[dependency]
    return say(
        "model_dependency", locale, subtask=dependency, description=done.description,
        agent=done.agent or done.tool or done.type, status=result["status"],
        metadata=cut(result["metadata"], _SHOWN, locale),
        output=cut(result["output"], _SHOWN, locale),
    )  # fmt: skip


def cut(value: Any, limit: int, locale: str) -> str:  # noqa: ANN401 - any JSON value
    """A value as text of bounded length that says how much was left out.

    Args:
        limit: Characters.
    """
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(shown) <= limit:
        return shown
    return shown[:limit] + say("model_truncated", locale, count=len(shown) - limit)


def shaped(result: object, status: str) -> dict[str, Any]:
    """A subtask's result in the one shape that all have: `{status, output, metadata}`."""
    if not isinstance(result, Mapping) or "output" not in result:
        return {"status": status, "output": result, "metadata": {}}
    return {"metadata": {}, **cast("Mapping[str, Any]", result), "status": status}
