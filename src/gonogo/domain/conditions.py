"""Conditions, as far as they can be judged without evaluating them.

A condition is an expression in CEL over `subtasks`: the results of what a subtask depends on. Only
the engine evaluates one; here it is read into its tokens, so that a plan can be refused before
anybody approves it: for a character, a variable or a function that there is not, or for a subtask
that it names and does not wait for.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from msgspec import Struct

from gonogo.domain.base import canonical_json
from gonogo.domain.errors import InvalidPlan, because, defects_of
from gonogo.domain.failures import Category, Classified, Severity
from gonogo.domain.plan import Subtask, ancestors

# What a condition gives, as far as its text alone tells: enough to refuse `1 + 1` or `"x"`.
#
# Read from the outside in: the sign that binds least says what comes of the whole. What depends on
# results, such as the field of an output, may be anything.


class ConditionToken(Protocol):
    """A token of a condition."""

    @property
    def kind(self) -> str:
        """Its kind, as the grammar calls it."""
        ...

    @property
    def text(self) -> str:
        """As it is written."""
        ...


_RELATIONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_SUMS = frozenset({"+", "-", "*", "/", "%"})
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_ASKING = frozenset(
    {"has", "contains", "startsWith", "endsWith", "matches", "all", "exists", "exists_one"}
)
_RESULT = re.compile(r"""subtasks(?:\.\w+|\[["'][\w-]+["']\])?(?:\.status)?""")


def never_boolean(tokens: Sequence[ConditionToken]) -> bool:
    """Whether it is plain to see that a condition is neither true nor false."""
    top = [at for at, _ in _on_top(tokens)]
    chosen = _branches(tokens, top)
    if chosen:
        return all(never_boolean(branch) for branch in chosen)
    for sign in ("||", "&&"):
        parts = _split(tokens, top, sign)
        if len(parts) > 1:
            # One side that is true, or false, may settle it whatever the other is.
            return all(never_boolean(part) for part in parts)
    if not tokens or any(tokens[at].text in _RELATIONS for at in top):
        return False
    if any(_is_sum(tokens, at) for at in top):
        return True
    if tokens[0].text in ("!", "-"):
        return tokens[0].text == "-"
    return _is_other(tokens)


def _is_other(tokens: Sequence[ConditionToken]) -> bool:
    """Whether one operand is a number, a text, a list, an object, or null."""
    if len(tokens) == 1 and tokens[0].text != "subtasks":
        return tokens[0].kind in ("number", "text") or tokens[0].text == "null"
    if _RESULT.fullmatch("".join(token.text for token in tokens)):
        return True
    match tokens[-1].text:
        case ")":
            return _is_other_call(tokens)
        case "]" | "}":
            return _opened(tokens) == 0
        case _:
            return False


def _is_other_call(tokens: Sequence[ConditionToken]) -> bool:
    start = _opened(tokens)
    if start == 0:
        return never_boolean(tokens[1:-1])
    return tokens[start - 1].kind == "name" and tokens[start - 1].text not in _ASKING


def _opened(tokens: Sequence[ConditionToken]) -> int:
    """Where the bracket opens that the last token closes."""
    depth = 0
    for at in range(len(tokens) - 1, -1, -1):
        if tokens[at].kind == "sign":
            depth += (tokens[at].text in _CLOSING) - (tokens[at].text in _OPENING)
        if depth == 0:
            return at
    return 0


def _on_top(tokens: Sequence[ConditionToken]) -> Iterator[tuple[int, ConditionToken]]:
    """The tokens that stand in no bracket."""
    depth = 0
    for at, token in enumerate(tokens):
        sign = token.text if token.kind == "sign" else ""
        depth -= sign in _CLOSING
        if depth == 0 and sign not in _CLOSING:
            yield at, token
        depth += sign in _OPENING


def _branches(
    tokens: Sequence[ConditionToken], top: Sequence[int]
) -> list[Sequence[ConditionToken]]:
    """Both results of a choice; nothing when there is none."""
    asked = [at for at in top if tokens[at].text == "?"]
    if not asked:
        return []
    depth = 0
    for at in top:
        depth += tokens[at].text == "?"
        depth -= tokens[at].text == ":"
        if tokens[at].text == ":" and depth == 0:
            return [tokens[asked[0] + 1 : at], tokens[at + 1 :]]
    return []


def _split(
    tokens: Sequence[ConditionToken], top: Sequence[int], sign: str
) -> list[Sequence[ConditionToken]]:
    cuts = [at for at in top if tokens[at].text == sign]
    bounds = zip([0, *(at + 1 for at in cuts)], [*cuts, len(tokens)], strict=True)
    return [tokens[start:end] for start, end in bounds]


def _is_sum(tokens: Sequence[ConditionToken], at: int) -> bool:
    if tokens[at].kind != "sign" or tokens[at].text not in _SUMS or at == 0:
        return False
    return tokens[at - 1].kind != "sign" or tokens[at - 1].text in _CLOSING


MAX_CONDITION = 2_000
ROOT = "subtasks"
"""The one variable."""
COPYING = frozenset({"map", "filter"})
"""Macros that give a new list."""
MACROS = COPYING | {"all", "exists", "exists_one"}
METHODS = frozenset({"size", "contains", "startsWith", "endsWith", "matches"})
FUNCTIONS = frozenset({"has", "size", "int", "uint", "double", "string", "timestamp", "duration"})
_WORDS = frozenset({"true", "false", "null", "in"})

_TOKEN = re.compile(
    r"""
      (?P<blank>\s+|//[^\n]*)
    | (?P<text>
        [bB]?[rR](?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"[^"\n]*"|'[^'\n]*')
      | [bB]?(?:\"{3}(?:[^\\]|\\[\s\S])*?\"{3}|'{3}(?:[^\\]|\\[\s\S])*?'{3}
              |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      )
    | (?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?[uU]?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>&&|\|\||[=!<>]=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE | re.ASCII,
)


class Token(Struct, frozen=True):
    """One word or sign of a condition."""

    kind: str
    """`text`, `number`, `name` or `sign`."""
    text: str


class Condition(Struct, frozen=True, kw_only=True):
    """A condition that was read."""

    text: str
    tokens: tuple[Token, ...]
    named: frozenset[str]
    """The subtasks that it names by their ids."""
    looks_at_all: bool
    """It also uses `subtasks` without naming one."""


def read_condition(text: str) -> Condition:
    """Read a condition, without judging its grammar.

    Raises:
        InvalidPlan: too long, or with a character, variable or function that there is not.
    """
    if len(text) > MAX_CONDITION:
        raise InvalidPlan(
            "condition: longer than {most} characters; shorten it", most=MAX_CONDITION
        )
    tokens = tuple(_tokens(text))
    if not tokens:
        raise InvalidPlan("condition: it is empty; write an expression, or leave the field out")
    _check_names(tokens, frozenset(_bound(tokens)))
    roots = [_named(tokens, at) for at in range(len(tokens)) if is_root(tokens, at)]
    return Condition(
        text=text,
        tokens=tokens,
        named=frozenset(name for name in roots if name is not None),
        looks_at_all=None in roots,
    )


def is_root(tokens: Sequence[Token], at: int) -> bool:
    """Whether the token is the variable `subtasks`, not a field of that name."""
    return tokens[at] == Token("name", ROOT) and _sign(tokens, at - 1) != "."


def gives_no_answer(condition: Condition) -> bool:
    """Whether it is plain to see that the condition is neither true nor false, as a sum."""
    return never_boolean(condition.tokens)


def never_true(condition: Condition) -> bool:
    """Whether it is plain to see that the condition cannot hold.

    A dependency is over when a condition is looked at, and only one that completed or was itself
    left out lets others go on; so what asks for a failed one waits for nothing.
    """
    return any(_is_false(part) for part in _conjuncts(condition.tokens))


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InvalidPlan(
                "condition: {text!r} is not understood; correct the expression",
                text=text[at : at + 12],
            )
        if found.lastgroup != "blank":
            yield Token(str(found.lastgroup), found[0])
        at = found.end()


def _sign(tokens: Sequence[Token], at: int) -> str:
    """The sign at that place; empty when there is none."""
    within = 0 <= at < len(tokens)
    return tokens[at].text if within and tokens[at].kind == "sign" else ""


def _check_names(tokens: Sequence[Token], bound: frozenset[str]) -> None:
    if ROOT in bound:
        raise InvalidPlan(
            "condition: the name {root!r} is taken; choose another name for the element", root=ROOT
        )
    for at, token in enumerate(tokens):
        if token.text == "." and (at == 0 or _sign(tokens, at - 1) not in ("", ")", "]", "}")):
            raise InvalidPlan("condition: a dot can stand only after a name or a bracket")
        if token.kind != "name" or token.text in _WORDS:
            continue
        _check_name(tokens, at, bound)


def _check_name(tokens: Sequence[Token], at: int, bound: frozenset[str]) -> None:
    name, method = tokens[at].text, _sign(tokens, at - 1) == "."
    if _sign(tokens, at + 1) == "(":
        if name not in (METHODS | MACROS if method else FUNCTIONS):
            raise InvalidPlan(
                "condition: there is no function {name!r}; correct the expression", name=name
            )
        return
    if not method and name != ROOT and name not in bound:
        raise InvalidPlan(
            'condition: there is no variable {name!r}; a subtask is {root}.ID, and {root}["ID"] '
            "when its id has a hyphen",
            name=name, root=ROOT,
        )  # fmt: skip


def _bound(tokens: Sequence[Token]) -> Iterator[str]:
    """The names that macros give to elements."""
    for at, token in enumerate(tokens):
        if not is_macro(tokens, at):
            continue
        inner = tokens[at + 2 : at + 4]
        if len(inner) < 2 or inner[0].kind != "name" or inner[1].text != ",":
            raise InvalidPlan("condition: {text} needs a name and an expression", text=token.text)
        if _sign(tokens, at + 5) == "," and tokens[at + 4].kind == "name":
            raise InvalidPlan(
                "condition: {text} takes one name and one expression", text=token.text
            )
        yield inner[0].text


def is_macro(tokens: Sequence[Token], at: int) -> bool:
    """Whether the token is a macro that goes over elements."""
    return (
        tokens[at].kind == "name"
        and tokens[at].text in MACROS
        and _sign(tokens, at - 1) == "."
        and _sign(tokens, at + 1) == "("
    )


def _named(tokens: Sequence[Token], at: int) -> str | None:
    """The subtask that `subtasks` at this place is followed by."""
    following = [token.text for token in tokens[at + 1 : at + 4]]
    if following[:1] == ["."] and len(following) > 1 and following[2:] != ["("]:
        return following[1]
    if following[:1] == ["["] and following[2:] == ["]"] and tokens[at + 2].kind == "text":
        inner = following[1][1:-1]
        return inner if re.fullmatch(r"[A-Za-z0-9_-]+", inner) else None
    return None


def _conjuncts(tokens: Sequence[Token]) -> list[list[str]]:
    """The parts that must all hold; the whole when it is not that plain."""
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token.text in ("||", "?", "(", "{"):
            return [[token.text for token in tokens]]
        if token.text == "&&":
            parts.append([])
        else:
            parts[-1].append(token.text)
    return parts


def _is_false(part: Sequence[str]) -> bool:
    if list(part) == ["false"]:
        return True
    if part[-2:-1] != ["=="] or part[:1] != [ROOT] or part[-4:-2] != [".", "status"]:
        return False
    plain = len(part) in (7, 8)
    return plain and part[-1][1:-1] not in ("completed", "skipped")


# References: where the inputs of a subtask name the results of others.
#
#     file: ${subtasks.build.output.path}
#     note: made ${subtasks.build.output.files[0]}
#
# A string that is one reference becomes the value it names, of whatever type; in a longer string
# the value stands as text. `$${` is a plain `${`. Nothing is computed, and what a reference brings
# in is never read for references again, so a result cannot reach for other results.

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

    def __init__(self, said: str, severity: Severity = Severity.CRITICAL) -> None:
        super().__init__(said, severity=severity, category=Category.DEPENDENCY)


class Reference(Struct, frozen=True, kw_only=True):
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
                    raise InvalidPlan(
                        "Subtask {subtask_id!r}: {reference}",
                        subtask_id=subtask.id, reference=_stray(reference, above),
                    )  # fmt: skip


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
        return because(
            "{reference} refers to a subtask that it does not depend on; add it to dependencies",
            reference=reference.text,
        )
    return because(
        "{reference} refers to an unknown subtask; correct its id", reference=reference.text
    )


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
            said = because("{reference} is too long for a text", reference=reference.text)
            raise UnmetReference(said, Severity.HIGH)
        return text

    def named(self, reference: Reference) -> Any:  # noqa: ANN401 - any JSON value
        found = self.results.get(reference.subtask_id)
        if found is None:
            raise UnmetReference(
                because(
                    "Dependency {subtask_id} not found in execution context: {reference}",
                    subtask_id=reference.subtask_id, reference=reference.text,
                )
            )  # fmt: skip
        if found.get("status") != COMPLETED and reference.path[:1] != ("status",):
            raise UnmetReference(
                because(
                    "Dependency {subtask_id} is {subtask_status}, not completed: {reference}",
                    subtask_id=reference.subtask_id, subtask_status=str(found.get("status")),
                    reference=reference.text,
                )
            )  # fmt: skip
        return _walked(found, reference)


def _walked(value: object, reference: Reference) -> object:
    for place, step in enumerate(reference.path):
        inside = _inside(value, step)
        if inside is None:
            where = ".".join((reference.subtask_id, *reference.path[:place]))
            said = because(
                "{reference}: {where} has no {step!r}",
                reference=reference.text, where=where, step=step,
            )  # fmt: skip
            raise UnmetReference(said, Severity.HIGH)
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
        raise InvalidPlan("inputs: nested deeper than {most}; make them flatter", most=MAX_DEPTH)


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
            "inputs: {shown!r} is not a reference like ${{subtasks.ID.output}}; write $${{ for "
            "a plain ${{",
            shown=shown,
        )
    steps = [step[1] or step[2] or step[3] for step in _STEP.finditer(found[1])]
    return Reference(text=found[0], subtask_id=steps[0], path=tuple(steps[1:]))
