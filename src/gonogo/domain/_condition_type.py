"""What a condition gives, as far as its text alone tells: enough to refuse `1 + 1` or `"x"`.

Read from the outside in: the sign that binds least says what comes of the whole. What depends on
results, such as the field of an output, may be anything.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Protocol


class Word(Protocol):
    """A token of a condition."""

    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...


_RELATIONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_SUMS = frozenset({"+", "-", "*", "/", "%"})
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_ASKING = frozenset(
    {"has", "contains", "startsWith", "endsWith", "matches", "all", "exists", "exists_one"}
)
_RESULT = re.compile(r"""subtasks(?:\.\w+|\[["'][\w-]+["']\])?(?:\.status)?""")


def never_boolean(tokens: Sequence[Word]) -> bool:
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


def _is_other(tokens: Sequence[Word]) -> bool:
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


def _is_other_call(tokens: Sequence[Word]) -> bool:
    start = _opened(tokens)
    if start == 0:
        return never_boolean(tokens[1:-1])
    return tokens[start - 1].kind == "name" and tokens[start - 1].text not in _ASKING


def _opened(tokens: Sequence[Word]) -> int:
    """Where the bracket opens that the last token closes."""
    depth = 0
    for at in range(len(tokens) - 1, -1, -1):
        if tokens[at].kind == "sign":
            depth += (tokens[at].text in _CLOSING) - (tokens[at].text in _OPENING)
        if depth == 0:
            return at
    return 0


def _on_top(tokens: Sequence[Word]) -> Iterator[tuple[int, Word]]:
    """The tokens that stand in no bracket."""
    depth = 0
    for at, token in enumerate(tokens):
        sign = token.text if token.kind == "sign" else ""
        depth -= sign in _CLOSING
        if depth == 0 and sign not in _CLOSING:
            yield at, token
        depth += sign in _OPENING


def _branches(tokens: Sequence[Word], top: Sequence[int]) -> list[Sequence[Word]]:
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


def _split(tokens: Sequence[Word], top: Sequence[int], sign: str) -> list[Sequence[Word]]:
    cuts = [at for at in top if tokens[at].text == sign]
    bounds = zip([0, *(at + 1 for at in cuts)], [*cuts, len(tokens)], strict=True)
    return [tokens[start:end] for start, end in bounds]


def _is_sum(tokens: Sequence[Word], at: int) -> bool:
    if tokens[at].kind != "sign" or tokens[at].text not in _SUMS or at == 0:
        return False
    return tokens[at - 1].kind != "sign" or tokens[at - 1].text in _CLOSING
