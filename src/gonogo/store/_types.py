"""Column types that hold the same text on SQLite and PostgreSQL.

Times are RFC 3339 in UTC with six digits, so that they sort as text; JSON is text, decoded on
reading. Both databases then compare, order and return exactly the same values.
"""

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Integer, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator


def stamp(moment: datetime) -> str:
    """A moment as it is stored.

    Raises:
        ValueError: the moment has no time zone.
    """
    if moment.tzinfo is None:
        raise ValueError("a moment without a time zone cannot be stored")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment(stamped: str) -> datetime:
    """A stored moment as a value."""
    return datetime.fromisoformat(stamped)


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
        return None if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ANN401
        """From text."""
        return None if value is None else json.loads(value)


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


class Word(TypeDecorator[StrEnum]):
    """One of a fixed set of words."""

    impl = Text
    cache_ok = True

    def __init__(self, words: type[StrEnum]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, value: StrEnum | str | None, dialect: Dialect) -> str | None:
        """To text."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        """From text."""
        return None if value is None else self.words(value)
