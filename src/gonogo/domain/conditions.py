"""Conditions, as far as they can be judged without evaluating them.

A condition is an expression in CEL over `subtasks`: the results of what a subtask depends on. Only
the engine evaluates one; here it is read into its tokens, so that a plan can be refused before
anybody approves it: for a character, a variable or a function that there is not, or for a subtask
that it names and does not wait for.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gonogo.domain._condition_type import never_boolean
from gonogo.domain.errors import InvalidPlan

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


@dataclass(frozen=True, slots=True)
class Token:
    """One word or sign of a condition."""

    kind: str
    """`text`, `number`, `name` or `sign`."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
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
        raise InvalidPlan(f"condition: longer than {MAX_CONDITION} characters")
    tokens = tuple(_tokens(text))
    if not tokens:
        raise InvalidPlan("condition: empty")
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
            raise InvalidPlan(f"condition: {text[at : at + 12]!r} is not understood")
        if found.lastgroup != "blank":
            yield Token(str(found.lastgroup), found[0])
        at = found.end()


def _sign(tokens: Sequence[Token], at: int) -> str:
    """The sign at that place; empty when there is none."""
    within = 0 <= at < len(tokens)
    return tokens[at].text if within and tokens[at].kind == "sign" else ""


def _check_names(tokens: Sequence[Token], bound: frozenset[str]) -> None:
    if ROOT in bound:
        raise InvalidPlan(f"condition: {ROOT!r} is taken and cannot name an element")
    for at, token in enumerate(tokens):
        if token.text == "." and (at == 0 or _sign(tokens, at - 1) not in ("", ")", "]", "}")):
            raise InvalidPlan("condition: a dot follows a name or a bracket")
        if token.kind != "name" or token.text in _WORDS:
            continue
        _check_name(tokens, at, bound)


def _check_name(tokens: Sequence[Token], at: int, bound: frozenset[str]) -> None:
    name, method = tokens[at].text, _sign(tokens, at - 1) == "."
    if _sign(tokens, at + 1) == "(":
        if name not in (METHODS | MACROS if method else FUNCTIONS):
            raise InvalidPlan(f"condition: there is no function {name!r}")
        return
    if not method and name != ROOT and name not in bound:
        raise InvalidPlan(
            f"condition: there is no variable {name!r}; a subtask is {ROOT}.ID,"
            f' and {ROOT}["ID"] when its id has a hyphen'
        )


def _bound(tokens: Sequence[Token]) -> Iterator[str]:
    """The names that macros give to elements."""
    for at, token in enumerate(tokens):
        if not is_macro(tokens, at):
            continue
        inner = tokens[at + 2 : at + 4]
        if len(inner) < 2 or inner[0].kind != "name" or inner[1].text != ",":
            raise InvalidPlan(f"condition: {token.text} needs a name and an expression")
        if _sign(tokens, at + 5) == "," and tokens[at + 4].kind == "name":
            raise InvalidPlan(f"condition: {token.text} takes one name and one expression")
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
