"""References: where the inputs of a subtask name the results of others.

    {"file": "${subtasks.build.output.path}", "note": "made ${subtasks.build.output.files[0]}"}

A string that is one reference becomes the value it names, of whatever type; in a longer string the
value stands as text. `$${` is a plain `${`. Nothing is computed, and what a reference brings in is
never read for references again, so a result cannot reach for other results.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from gonogo.domain._order import ancestors
from gonogo.domain.canonical import canonical_json
from gonogo.domain.errors import InvalidPlan, defects_of
from gonogo.domain.failure import Category, Classified, Severity
from gonogo.domain.plan import Subtask

MAX_TEXT = 1_000_000
"""Characters that the references of one subtask may put into texts."""
MAX_DEPTH = 32
COMPLETED = "completed"

_STEP = re.compile(r'\.([A-Za-z0-9_-]{1,64})|\[(\d{1,6})\]|\["([^"\\]{1,200})"\]')
_REFERENCE = re.compile(
    r'\$\$\{|\$\{(?:subtasks((?:\.[A-Za-z0-9_-]{1,64}|\[\d{1,6}\]|\["[^"\\]{1,200}"\])+)\})?'
)


class UnmetReference(Classified):
    """A subtask refers to a result that is not there."""

    def __init__(self, message: str, severity: Severity = Severity.CRITICAL) -> None:
        super().__init__(message, severity=severity, category=Category.DEPENDENCY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One place in the inputs of a subtask that names a result."""

    text: str
    """As it is written, with `${` and `}`."""
    subtask_id: str
    path: tuple[str, ...]
    """The names and places that lead from the subtask to the value."""


def references(inputs: Mapping[str, Any] | None) -> tuple[Reference, ...]:
    """The references of a subtask's inputs, each once, in the order they are written.

    Raises:
        InvalidPlan: a `${` begins no reference.
    """
    found = (part for text in _texts(inputs or {}) for part in _parts(text))
    return tuple(dict.fromkeys(part for part in found if isinstance(part, Reference)))


def check_references(subtasks: Sequence[Subtask], done: Collection[str] = ()) -> None:
    """Check that every reference names a subtask that is over by then.

    Args:
        done: Ids of subtasks that stand elsewhere and are over already.

    Raises:
        InvalidPlan: naming the subtask and the reference.
    """
    above = ancestors(subtasks)
    for subtask in subtasks:
        with defects_of(subtask.id):
            for reference in references(subtask.inputs):
                if reference.subtask_id not in above[subtask.id] | set(done):
                    raise InvalidPlan(f"Subtask {subtask.id!r}: {_stray(reference, above)}")


def resolve(inputs: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The inputs with each reference replaced by what it names.

    Args:
        results: By subtask id; `status` among the fields says how the subtask ended.

    Raises:
        UnmetReference: the subtask has no result, did not complete, or its result lacks the field.
        InvalidPlan: a `${` begins no reference.
    """
    return _Resolver(results).fields(inputs, MAX_DEPTH)


def _stray(reference: Reference, above: Mapping[str, frozenset[str]]) -> str:
    if reference.subtask_id in above:
        return f"{reference.text} refers to a subtask that it does not depend on"
    return f"{reference.text} refers to an unknown subtask"


class _Resolver:
    """One pass over one subtask's inputs."""

    def __init__(self, results: Mapping[str, Mapping[str, Any]]) -> None:
        self.results = results
        self.left = MAX_TEXT

    def fields(self, given: Mapping[str, Any], depth: int) -> dict[str, Any]:
        return {name: self.value(value, depth - 1) for name, value in given.items()}

    def value(self, value: object, depth: int) -> Any:  # noqa: ANN401 - any JSON value
        _check_depth(depth)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self.fields(cast("dict[str, Any]", value), depth)
        if isinstance(value, list):
            return [self.value(item, depth - 1) for item in cast("list[Any]", value)]
        return value

    def text(self, text: str) -> Any:  # noqa: ANN401 - any JSON value
        parts = list(_parts(text))
        if len(parts) == 1 and isinstance(parts[0], Reference):
            return self.named(parts[0])
        return "".join(part if isinstance(part, str) else self.spelled(part) for part in parts)

    def spelled(self, reference: Reference) -> str:
        value = self.named(reference)
        text = value if isinstance(value, str) else canonical_json(value)
        self.left -= len(text)
        if self.left < 0:
            raise UnmetReference(f"{reference.text} is too long for a text", Severity.HIGH)
        return text

    def named(self, reference: Reference) -> Any:  # noqa: ANN401 - any JSON value
        found = self.results.get(reference.subtask_id)
        if found is None:
            raise UnmetReference(
                f"Dependency {reference.subtask_id} not found in execution context:"
                f" {reference.text}"
            )
        if found.get("status") != COMPLETED and reference.path[:1] != ("status",):
            raise UnmetReference(
                f"Dependency {reference.subtask_id} is {found.get('status')}, not {COMPLETED}:"
                f" {reference.text}"
            )
        return _walked(found, reference)


def _walked(value: object, reference: Reference) -> object:
    for place, step in enumerate(reference.path):
        inside = _inside(value, step)
        if inside is None:
            where = ".".join((reference.subtask_id, *reference.path[:place]))
            raise UnmetReference(f"{reference.text}: {where} has no {step!r}", Severity.HIGH)
        (value,) = inside
    return value


def _inside(value: object, step: str) -> tuple[object] | None:
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        return (fields[step],) if step in fields else None
    if isinstance(value, Sequence) and not isinstance(value, str) and step.isdecimal():
        items = cast("Sequence[object]", value)
        return (items[int(step)],) if int(step) < len(items) else None
    return None


def _texts(value: object, depth: int = MAX_DEPTH) -> Iterator[str]:
    _check_depth(depth)
    if isinstance(value, str):
        yield value
    inner: Iterable[object] = ()
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, object]", value).values()
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    for item in inner:
        yield from _texts(item, depth - 1)


def _check_depth(depth: int) -> None:
    if depth < 0:
        raise InvalidPlan(f"inputs: nested deeper than {MAX_DEPTH}")


def _parts(text: str) -> Iterator[str | Reference]:
    """The pieces of a text: plain ones, with escapes undone, and references."""
    at = 0
    for found in _REFERENCE.finditer(text):
        if found.start() > at:
            yield text[at : found.start()]
        at = found.end()
        yield "${" if found[0] == "$${" else _reference(text, found)
    if at < len(text) or not text:
        yield text[at:]


def _reference(text: str, found: re.Match[str]) -> Reference:
    if found[1] is None:
        shown = text[found.start() : found.start() + 40]
        raise InvalidPlan(
            f"inputs: {shown!r} is no reference like ${{subtasks.ID.output}};"
            " write $${ for a plain ${"
        )
    steps = [step[1] or step[2] or step[3] for step in _STEP.finditer(found[1])]
    return Reference(text=found[0], subtask_id=steps[0], path=tuple(steps[1:]))
