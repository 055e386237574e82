"""Files that an operator writes as TOML tables of a few names: rules, hooks, foreign servers.

Each is read whole and refused at its first defect, which is told with file and line.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from gonogo.domain.errors import InvalidMessage


class TableFile(Struct, frozen=True, kw_only=True):
    """A kind of file that holds tables of some names and nothing else."""

    what: str
    """What the file is, as in `a hooks file`."""
    names: tuple[str, ...]
    refusal: type[InvalidMessage]
    most: int | None = None
    """How many tables of one name there may be."""

    def read(self, path: Path | None, name: str) -> list[tuple[Any, str]]:
        """The tables of one name, unparsed, each with its file and line; none if no file exists.

        Raises:
            InvalidMessage: the kind's own `refusal`; the file cannot be read, or holds something
                else.
        """
        if path is None or not path.exists():
            return []
        try:
            source = path.read_text("utf-8")
            fields = tomllib.loads(source)
        except (OSError, ValueError, RecursionError) as error:
            raise self.refusal("{path}: {error}", path=path, error=error) from error
        written: Any = fields.get(name, [])
        if set(fields) - set(self.names) or not isinstance(written, list):
            held = ", ".join(f"[[{each}]]" for each in self.names)
            raise self.refusal(
                "{path}:1: {what} can contain only {held} tables",
                path=path,
                what=self.what,
                held=held,
            )
        tables = cast("list[Any]", written)
        if self.most is not None and len(tables) > self.most:
            raise self.refusal(
                "{path}:1: there can be at most {most} [[{name}]] tables",
                path=path,
                most=self.most,
                name=name,
            )
        head = re.compile(rf"\s*\[\[\s*{name}\s*\]\]")
        lines = [n for n, line in enumerate(source.splitlines(), 1) if head.match(line)]
        lines += [1] * (len(tables) - len(lines))
        return [(table, f"{path}:{line}") for table, line in zip(tables, lines, strict=False)]
