"""The tables of a rules file, each with the line on which it stands."""

import re
import tomllib
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from gonogo.domain.errors import InvalidMessage

_NAMES = frozenset({"rule", "review"})


class BadRules(InvalidMessage):
    """A rules file has a defect; the message begins with file and line."""


def read_tables(path: Path | None, name: str) -> list[tuple[Any, str]]:
    """The tables of one name as they are written, with file and line; none without a file.

    Raises:
        BadRules: the file cannot be read, or holds something else.
    """
    if path is None or not path.exists():
        return []
    try:
        source = path.read_text("utf-8")
        fields = tomllib.loads(source)
    except (OSError, ValueError) as error:
        raise BadRules(f"{path}: {error}") from error
    written: Any = fields.get(name, [])
    if set(fields) - _NAMES or not isinstance(written, list):
        raise BadRules(
            f"{path}:1: a rules file holds [[rule]] and [[review]] tables and nothing else"
        )
    tables = cast("list[Any]", written)
    head = re.compile(rf"\s*\[\[\s*{name}\s*\]\]")
    lines = [n for n, line in enumerate(source.splitlines(), 1) if head.match(line)]
    lines += [1] * (len(tables) - len(lines))
    return [(table, f"{path}:{line}") for table, line in zip(tables, lines, strict=False)]


def defect_of(error: ValidationError, whole: str) -> str:
    """What is wrong with a table, first of all.

    Args:
        whole: What to name where it is no field of it.
    """
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or whole
    return f"{field}: {first['msg']}"
