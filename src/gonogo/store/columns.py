"""Column types that hold the same text on SQLite and PostgreSQL.

Times are RFC 3339 in UTC with six digits, so that they sort as text; JSON is text, decoded on
reading. What only one of the databases could keep (NUL, half of a surrogate pair) becomes U+FFFD on
both. Both then compare, order and return exactly the same values.
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
    """A moment as it is stored. A transaction stamps the same one many times.

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
    """A JSON value as it will be read again: what is hashed must be what is kept."""
    text = _encode(value)
    kept = whole(text)
    return value if kept is text else json.loads(kept)


def json_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """A JSON value as the text that it is kept as. NUL can stay: JSON writes it as an escape.

    Raises:
        ValueError: it has a number that is none.
    """
    try:
        text = _encode_fast(value).decode()
    except (TypeError, ValueError, OverflowError):
        # Half of a surrogate pair, a number of any size, a text that is more than a text.
        return _as_again(whole(_encode(value)))
    if "null" in text:
        # A number that is none would be written so too, and is refused here.
        _encode(value)
    return text


def _as_again(text: str) -> str:
    """What the slow encoder wrote, as the fast one will write it once it was read."""
    try:
        return _encode_fast(json.loads(text)).decode()
    except (OverflowError, ValueError):
        return text


Converter = Callable[[Any], Any]


class Converted(TypeDecorator[Any]):
    """A type whose values are kept as something else; what is not there stays so."""

    impl = Text
    cache_ok = True
    to_column: Converter
    """To what is kept, of a value that is there."""
    from_column: Converter | None = None
    """From what is kept; None where that is the value."""

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401
        """To what is kept."""
        return None if value is None else self.to_column(value)


class Restored(Converted):
    """A type whose values are made of what is kept."""

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401
        """From what is kept."""
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
    """A JSON value whose long texts are elsewhere, by references; see `texts`."""

    value: Any


class Written(Struct, frozen=True):
    """A JSON value without long texts, as the text that it is kept as."""

    text: str


class Shared(Restored):
    """Any JSON value, with its long texts or without them.

    One without them has a blank before it, which JSON allows and no encoder of ours writes.
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
    """One of a set of words; where `others` may come, those stay plain text."""

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
