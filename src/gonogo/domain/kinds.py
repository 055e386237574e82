"""Kinds of subtasks: what each gives, who may carry it out, and what a plan must say of it.

The three that are built in are described here; others are registered, in the same words.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from gonogo.domain.errors import InvalidPlan

if TYPE_CHECKING:
    from gonogo.domain.plan import Subtask
    from gonogo.domain.plan_views import SubtaskView

COMMAND_TOOL = "execute_command"
READ_TOOL = "read_file"
_COMMAND_CHECK = frozenset({"command", "exit_code", "cwd", "timeout"})
_FILE_CHECK = frozenset({"file", "exists", "contains"})


class SubtaskType(StrEnum):
    """The kinds that are built in: an effect, an answer, or a verdict."""

    ACTION = "action"
    DECISION = "decision"
    VALIDATION = "validation"


class Worker(StrEnum):
    """Who carries a subtask out."""

    AGENT = "agent"
    TOOL = "tool"
    NOBODY = "nobody"
    """Neither: the kind does it by itself, or with a model alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRule:
    """What a plan must say of a subtask of one kind."""

    name: str
    workers: frozenset[Worker]
    """Who may carry it out."""
    check: Callable[["Subtask"], None] = lambda subtask: None
    """Looks at the subtask's inputs; raises `InvalidPlan`, beginning with the field."""


def worker_of(subtask: "Subtask | SubtaskView") -> Worker:
    """Who carries a subtask out, as its plan says."""
    if subtask.agent is not None:
        return Worker.AGENT
    return Worker.NOBODY if subtask.tool is None else Worker.TOOL


def own_tool(subtask: "Subtask | SubtaskView") -> str | None:
    """The tool of the one call that a subtask without an agent makes, if it makes one."""
    if worker_of(subtask) is not Worker.NOBODY or subtask.type != SubtaskType.VALIDATION:
        return subtask.tool
    inputs = subtask.inputs or {}
    return COMMAND_TOOL if "command" in inputs else READ_TOOL if "file" in inputs else None


def worker_name(subtask: "Subtask | SubtaskView") -> str:
    """Who carries a subtask out, in a word.

    An agent; `tool:` and a tool; `model`; or `kind:` and the kind that does it by itself.
    """
    if subtask.agent is not None:
        return subtask.agent
    if (tool := own_tool(subtask)) is not None:
        return f"tool:{tool}"
    return "model" if subtask.type in BUILT_IN else f"kind:{subtask.type}"


def check_decision(subtask: "Subtask") -> None:
    """Check the options that a decision is limited to, if it is.

    Raises:
        InvalidPlan: they are no choice.
    """
    options = (subtask.inputs or {}).get("options")
    if options is None or _is_reference(options):
        return
    items = cast("list[object]", options) if isinstance(options, list) else []
    texts = {item for item in items if isinstance(item, str) and item}
    if len(texts) < 2 or len(texts) < len(items):
        raise InvalidPlan("inputs.options: a decision needs two or more different texts")


def check_validation(subtask: "Subtask") -> None:
    """Check what a validation without an agent looks at.

    Raises:
        InvalidPlan: the inputs are neither a command's check nor a file's, or both.
    """
    inputs = subtask.inputs or {}
    if worker_of(subtask) is not Worker.NOBODY or not {"command", "file"} & set(inputs):
        return
    if "command" in inputs:
        _only(inputs, _COMMAND_CHECK)
        _typed(inputs, "command", str)
        _typed(inputs, "exit_code", int)
        return
    _only(inputs, _FILE_CHECK)
    _typed(inputs, "file", str)
    _typed(inputs, "exists", bool)
    _typed(inputs, "contains", str)
    if inputs.get("exists") is False and "contains" in inputs:
        raise InvalidPlan("inputs.contains: a file that must not exist contains nothing")


_RULES = (
    KindRule(name=SubtaskType.ACTION.value, workers=frozenset(Worker)),
    KindRule(
        name=SubtaskType.DECISION.value,
        workers=frozenset({Worker.AGENT, Worker.NOBODY}),
        check=check_decision,
    ),
    KindRule(name=SubtaskType.VALIDATION.value, workers=frozenset(Worker), check=check_validation),
)
BUILT_IN: Mapping[str, KindRule] = {rule.name: rule for rule in _RULES}


def _only(inputs: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in inputs:
        if name not in known:
            raise InvalidPlan(f"inputs.{name}: a check takes {', '.join(sorted(known))}")


def _typed(inputs: Mapping[str, Any], name: str, kind: type) -> None:
    value = inputs.get(name)
    if value is None and name not in inputs:
        return
    # A truth value is a number to Python, and an exit code to nobody.
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not right and not _is_reference(value):
        raise InvalidPlan(f"inputs.{name}: {kind.__name__} is needed")


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and "${" in value
