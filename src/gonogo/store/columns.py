"""Column types that hold the same text on SQLite and PostgreSQL.

Times are RFC 3339 in UTC with six digits, so that they sort as text; JSON is text, decoded on
reading. What only one of the databases could keep (NUL, half of a surrogate pair) becomes U+FFFD on
both. Both then compare, order and return exactly the same values.
"""

import json
import re
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct
from sqlalchemy import Integer, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
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
    return whole(text).replace("\x00", "\ufffd")


def as_kept(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A JSON value as it will be read again: what is hashed must be what is kept."""
    text = _encode(value)
    kept = whole(text)
    return value if kept is text else json.loads(kept)


class Clean(TypeDecorator[str]):
    """Any text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """To text that both databases can keep."""
        return None if value is None else clean(value)


class Utc(TypeDecorator[datetime]):
    """An aware moment."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """To text."""
        return None if value is None else stamp(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        """From text."""
        return None if value is None else moment(value)


class Json(TypeDecorator[Any]):
    """Any JSON value; SQL NULL is None."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ANN401
        """To text."""
        return None if value is None else json_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ANN401
        """From text."""
        return None if value is None else json.loads(value)


class Packed(Struct, frozen=True):
    """A JSON value whose long texts are elsewhere, by references; see `texts`."""

    value: Any


class Written(Struct, frozen=True):
    """A JSON value without long texts, as the text that it is kept as."""

    text: str


def json_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """A JSON value as the text that it is kept as. NUL can stay: JSON writes it as an escape."""
    return whole(_encode(value))


class Shared(Json):
    """Any JSON value, with its long texts or without them.

    One without them has a blank before it, which JSON allows and no encoder of ours writes.
    """

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ANN401
        """To text."""
        if isinstance(value, Written):
            return value.text
        if isinstance(value, Packed):
            return f" {super().process_bind_param(value.value, dialect)}"
        return super().process_bind_param(value, dialect)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ANN401
        """From text."""
        found = super().process_result_value(value, dialect)
        return Packed(found) if value is not None and value.startswith(" ") else found


class Flag(TypeDecorator[bool]):
    """Yes or no, as 1 or 0."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: bool | None, dialect: Dialect) -> int | None:
        """To a number."""
        return None if value is None else int(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> bool | None:
        """From a number."""
        return None if value is None else bool(value)


class WordColumn(TypeDecorator[Any]):
    """One of a set of words; where `others` may come, those stay plain text."""

    impl = Text
    cache_ok = True

    def __init__(self, words: type[StrEnum], *, others: bool = False) -> None:
        super().__init__()
        self.words = words
        self.others = others
        self._by_text = {word.value: word for word in words}

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """To text."""
        return None if value is None else clean(str(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ANN401
        """From text."""
        if value is None:
            return None
        return self._by_text.get(value, value) if self.others else self._by_text[value]
