"""Conditions in CEL: checked before a plan is approved, evaluated before a subtask starts.

The cost of a condition is calculated from its text and from the results before it is evaluated, and
not measured while it runs. So the same condition over the same results always has the same answer,
on any machine, and none blocks a thread for longer than a moment.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from gonogo.domain.conditions import (
    COPYING,
    ROOT,
    Condition,
    Token,
    is_macro,
    is_root,
    read_condition,
)
from gonogo.domain.errors import InvalidPlan, because
from gonogo.domain.failures import Category, Classified, Severity

if TYPE_CHECKING:
    from cel import Program


MAX_CHARACTERS = 2_000_000
"""Characters in all the results that a condition looks at."""
MAX_DEPTH = 64
MAX_COST = 5_000_000
"""Values touched; at most two seconds' worth."""
_PER_PATTERN = 300_000
"""What reading a regular expression may cost, in values touched."""
_PER_VALUE = 64
"""Characters that cost as much as one value."""


class ConditionFailed(Classified):
    """A condition has no answer for these results."""

    def __init__(self, problem: str, category: Category = Category.LOGIC) -> None:
        said = because("condition: {problem}", problem=problem)
        super().__init__(said, severity=Severity.HIGH, category=category)


def check_condition(text: str) -> None:
    """Check that a condition can be read.

    Raises:
        InvalidPlan: naming what is wrong with it.
    """
    _program(text)


def holds(text: str, results: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a condition holds for the results of what a subtask depends on.

    Args:
        results: By subtask id, JSON objects: `status`, `output` and whatever else.

    Raises:
        ConditionFailed: it names a result or a field that does not exist, compares what cannot
            be compared, is neither true nor false, or would take too long.
        InvalidPlan: it cannot be read.
    """
    condition, program = _program(text)
    seen = _seen(condition, results)
    size = _Size()
    size.add(seen, MAX_DEPTH)
    if _cost(condition, size) > MAX_COST:
        raise ConditionFailed(because("it would look at too many values"), Category.RESOURCE)
    try:
        answer: object = program.execute({ROOT: seen})
    except Exception as error:
        raise ConditionFailed(_said(error)) from error
    if not isinstance(answer, bool):
        raise ConditionFailed(
            because("it gives {kind}, not true or false", kind=type(answer).__name__)
        )
    return answer


@lru_cache(maxsize=512)
def _program(text: str) -> "tuple[Condition, Program]":
    condition = read_condition(text)
    # Imported here, as it takes half a second and few plans have conditions.
    import cel

    try:
        return condition, cel.compile(text)
    except Exception as error:
        raise InvalidPlan("condition: {error}", error=_said(error)) from error


def _said(error: Exception) -> str:
    """The library's message, in one line and without the text that it quotes."""
    if isinstance(error, KeyError):
        return because("there is no {name}", name=error.args[0] if error.args else "such field")
    words = str(error)
    _, found, after = words.partition("ERROR: ")
    return (after if found else words).partition("\n")[0][:300]


def _seen(
    condition: Condition, results: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    if condition.looks_at_all:
        return dict(results)
    for name in sorted(condition.named):
        if name not in results:
            raise ConditionFailed(
                because("subtask {name!r} has no result", name=name), Category.DEPENDENCY
            )
    return {name: results[name] for name in condition.named}


class _Size(Struct):
    """How much data a condition looks at."""

    values: int = 0
    characters: int = 0
    longest: int = 1
    """Elements of the longest list or object."""

    @property
    def volume(self) -> int:
        return self.values + self.characters // _PER_VALUE

    def add(self, value: object, depth: int) -> None:
        self.values += 1
        if isinstance(value, str):
            self.characters += len(value)
        if depth < 0 or self.characters > MAX_CHARACTERS or self.values > MAX_COST:
            raise ConditionFailed(
                because("the results are too large to compare"), Category.RESOURCE
            )
        inner = list(_inner(value))
        self.longest = max(self.longest, len(inner))
        for item in inner:
            self.add(item, depth - 1)


def _inner(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        yield from fields
        yield from fields.values()
    elif isinstance(value, (list, tuple)):
        yield from cast("Sequence[object]", value)


def _cost(condition: Condition, size: _Size) -> int:
    """An upper bound of the values that evaluating could touch.

    Every token may touch all values, once for each level of macros around it. A macro that copies
    what it has found so far counts as two levels, and so does one that looks at all results for
    each element.
    """
    tokens = condition.tokens
    levels = list(_levels(tokens))
    roots = [at for at in range(len(tokens)) if is_root(tokens, at)]
    grown = prod(_uses(tokens, at) for at in range(len(tokens)) if _is_map(tokens, at))
    signs = Counter(token.text for token in tokens)
    volume = max(1, size.volume) * max(1, len(roots)) * grown
    longest = max(size.longest, signs[","] + 1) * (signs["+"] + 1) * grown
    again = max(0, max(levels) - 1) + any(levels[at] for at in roots)
    patterns = (at for at, token in enumerate(tokens) if token.text == "matches")
    return len(tokens) * volume * longest**again + sum(
        _PER_PATTERN * longest ** levels[at] for at in patterns
    )


def _is_map(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].text == "map" and is_macro(tokens, at)


def _uses(tokens: Sequence[Token], macro: int) -> int:
    """How often a macro's expression names its element (at least 1): so much its value may grow."""
    name, uses = tokens[macro + 2].text, 0
    at, depth = macro + 4, 1
    while depth and at < len(tokens):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        uses += tokens[at].text == name
        at += 1
    return max(1, uses)


def _levels(tokens: Sequence[Token]) -> Iterator[int]:
    """For each token, the number of levels of macros around it."""
    inside: list[int] = []
    for at, token in enumerate(tokens):
        if token.text == ")" and inside:
            inside.pop()
        yield sum(inside)
        if token.text == "(":
            macro = at > 0 and is_macro(tokens, at - 1)
            inside.append(macro + (macro and tokens[at - 1].text in COPYING))
