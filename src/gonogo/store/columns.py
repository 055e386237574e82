"""Column types that hold the same text on SQLite and PostgreSQL.

Times are RFC 3339 in UTC with six digits, so that they sort as text; JSON is text, decoded on
reading. Characters that only one of the databases can store (NUL, half of a surrogate pair) become
U+FFFD on both. Both then compare, order and return exactly the same values.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Integer, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_encode_fast = msgspec.json.Encoder().encode
"""Takes a tenth of the time."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@lru_cache(maxsize=64)
def stamp(moment: datetime) -> str:
    """A moment as it is stored; cached, as a transaction stamps the same moment many times.

    Raises:
        ValueError: the moment has no time zone.
    """
    if moment.tzinfo is None:
        raise ValueError("a moment without a time zone cannot be stored")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def moment(stamped: str) -> datetime:
    """A stored moment as a value."""
    return datetime.fromisoformat(stamped)


def whole(text: str) -> str:
    """The text with surrogate pairs joined, and lone halves replaced."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean(text: str) -> str:
    """The text with NUL and halves of surrogate pairs replaced."""
    if text.isascii() and "\x00" not in text:
        return text
    return whole(text).replace("\x00", "\ufffd")


def as_kept(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A JSON value as it will be read again: a hash must be of what is stored."""
    text = _encode(value)
    kept = whole(text)
    return value if kept is text else json.loads(kept)


def json_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """A JSON value as the text that is stored. NUL can stay: JSON writes it as an escape.

    Raises:
        ValueError: it contains NaN or an infinite number.
    """
    try:
        text = _encode_fast(value).decode()
    except (TypeError, ValueError, OverflowError):
        # Half of a surrogate pair, a number of any size, a text that is more than a text.
        return _as_again(whole(_encode(value)))
    if "null" in text:
        # The fast encoder writes `null` for NaN; the slow one raises.
        _encode(value)
    return text


def _as_again(text: str) -> str:
    """The output of the slow encoder as the fast one writes the same value, where it can."""
    try:
        return _encode_fast(json.loads(text)).decode()
    except (OverflowError, ValueError):
        return text


Converter = Callable[[Any], Any]


class Converted(TypeDecorator[Any]):
    """A type whose values are converted for storing; None stays NULL."""

    impl = Text
    cache_ok = True
    to_column: Converter
    """Converts a value (not None) to what is stored."""
    from_column: Converter | None = None
    """Converts what is stored to a value; None if it needs no conversion."""

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401
        """To what is stored."""
        return None if value is None else self.to_column(value)


class Restored(Converted):
    """A type whose values are converted for reading too."""

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401
        """From what is stored."""
        return value if value is None or self.from_column is None else self.from_column(value)


class Clean(Converted):
    """Any text."""

    cache_ok = True
    to_column = staticmethod(clean)


class Utc(Restored):
    """An aware moment."""

    cache_ok = True
    to_column = staticmethod(stamp)
    from_column = staticmethod(moment)


class Json(Restored):
    """Any JSON value; SQL NULL is None."""

    cache_ok = True
    to_column = staticmethod(json_text)
    from_column = staticmethod(json.loads)


class Packed(Struct, frozen=True):
    """A JSON value with references to its long texts, which are in the table `texts`."""

    value: Any


class Written(Struct, frozen=True):
    """A JSON value without long texts, already as the text that is stored."""

    text: str


class Shared(Restored):
    """Any JSON value, either whole or with references to its long texts.

    One with references has a space before it. JSON allows that, and our encoders never write it.
    """

    cache_ok = True

    @staticmethod
    def to_column(value: Any) -> str:  # noqa: ANN401
        """To text."""
        if isinstance(value, Written):
            return value.text
        return f" {json_text(value.value)}" if isinstance(value, Packed) else json_text(value)

    @staticmethod
    def from_column(kept: str) -> Any:  # noqa: ANN401
        """From text."""
        found = json.loads(kept)
        return Packed(found) if kept.startswith(" ") else found


class Flag(Restored):
    """Yes or no, as 1 or 0."""

    impl = Integer
    cache_ok = True
    to_column = int
    from_column = bool


class WordColumn(Restored):
    """One of a set of words; with `others`, any other word is allowed and stays plain text."""

    cache_ok = True

    def __init__(self, words: type[StrEnum], *, others: bool = False) -> None:
        super().__init__()
        self.words = words
        self.others = others
        by_text = {word.value: word for word in words}
        self.from_column = (lambda kept: by_text.get(kept, kept)) if others else by_text.__getitem__

    @staticmethod
    def to_column(value: str) -> str:
        """To text."""
        return clean(str(value))
