"""Strict reading of JSON that strangers wrote.

Python's `json` takes duplicate keys, NaN, numbers out of range and lone surrogates, and a deep
nest ends it; each of these has been used to smuggle a second meaning past a check, so here each is
refused.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn, cast

from gonogo.domain.errors import InvalidMessage, TooLarge

MAX_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 32
# Possessive, and content with a string that does not end: looking again for the end of each quote
# would take time with the square of the text's length.
_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_FORBIDDEN = re.compile("[\ud800-\udfff\x00]")


def loads(text: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON, refusing what two readers could read in two ways.

    Raises:
        TooLarge: over 2 MiB, or nested deeper than 32.
        InvalidMessage: not JSON, a key twice in one object, a number that is none or out of range,
            a lone surrogate or a NUL.
    """
    text = _as_text(text)
    _check_depth(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except ValueError as error:
        raise InvalidMessage("Not valid JSON: {error}", error=error) from None
    check_text(value)
    return value


def check_text(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Check every string of a JSON value for what databases cannot keep alike.

    Raises:
        InvalidMessage: a lone surrogate or a NUL.
    """
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if _FORBIDDEN.search(item):
                raise InvalidMessage("Text must not contain NUL or lone surrogates; remove them")
        elif isinstance(item, list):
            pending.extend(cast("list[Any]", item))
        elif isinstance(item, dict):
            fields = cast("dict[Any, Any]", item)
            pending.extend(fields)
            pending.extend(fields.values())


def _as_text(text: str | bytes) -> str:
    size = len(text)
    if isinstance(text, str) and not text.isascii() and size <= MAX_BYTES:
        size = len(text.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        raise TooLarge("The message has more than {most} bytes; shorten it", most=MAX_BYTES)
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise InvalidMessage("Not valid UTF-8; send UTF-8") from None


def _check_depth(text: str) -> None:
    depth = 0
    for token in _BRACKETS.finditer(text):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        if depth > MAX_DEPTH:
            raise TooLarge(
                "The message is nested more than {most} levels deep; make it flatter",
                most=MAX_DEPTH,
            )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise InvalidMessage("An object has the same key twice; keep one of them")
    return value


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise InvalidMessage(
            "The number {digits} is out of range; use a smaller one", digits=digits[:40]
        )
    return number


def _no_constant(name: str) -> NoReturn:
    raise InvalidMessage("{name} is not JSON", name=name)


# Canonical JSON and the digests made of it.
#
# What a person is shown, what an approval stores and what runs are compared by these digests, so
# equal values must give equal bytes on every platform: keys sorted, no blanks, UTF-8, no NaN.


def canonical_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Write a JSON value in its one canonical form.

    Raises:
        ValueError: the value holds NaN or an infinity.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """`sha256:` and the hex digest of a JSON value's canonical form."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode()).hexdigest()


def content_hash(data: bytes) -> str:
    """`sha256:` and the hex digest of a file's bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def mapped(value: object, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - any JSON value
    """A JSON value with every text in it changed; the names of fields stay."""
    match value:
        case str():
            return change(value)
        case list():
            return [mapped(item, change) for item in cast("list[object]", value)]
        case dict():
            fields = cast("dict[str, object]", value)
            return {name: mapped(item, change) for name, item in fields.items()}
        case _:
            return value
