"""What commands write to standard output: lines, tables, JSON."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, cast

import typer
from pydantic import BaseModel

from gonogo.cli._exits import Exit
from gonogo.domain.visible import guarded, visible, visible_json


def line(text: str) -> None:
    """Write a line whose parts are visible already; what they left out is escaped here."""
    typer.echo(guarded(text))


def facts(value: Any) -> Exit:  # noqa: ANN401 - any JSON value, or bodies within one
    """Write a value as JSON."""
    typer.echo(visible_json(plain(value), indent=2))
    return Exit.DONE


def plain(value: Any) -> Any:  # noqa: ANN401
    """A value with every body in it as plain JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: plain(item) for key, item in fields.items()}
    if isinstance(value, list):
        return [plain(item) for item in cast("list[Any]", value)]
    return value


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Exit:
    """Write rows in columns; tabs between them where nobody looks."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not _is_terminal():
        for row in [list(head), *cells]:
            typer.echo("\t".join(row))
        return Exit.DONE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for title in head:
        drawn.add_column(title, overflow="fold")
    for row in cells:
        drawn.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(drawn)
    return Exit.DONE


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    return visible(str(value), lines=False)


def _is_terminal() -> bool:
    import sys

    return sys.stdout.isatty()
