"""The help of every command, against the text that is kept in `golden/help.txt`.

`python -m pytest tests/cli/test_help.py` with `GONOGO_WRITE_GOLDEN=1` writes it anew after a change
that is meant.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from fakes.golden import kept
from gonogo.cli import app

GOLDEN = Path(__file__).parent / "golden" / "help.txt"
WIDTH = 100
COMMAND = typer.main.get_command(app)


def helps(command: Any, name: str, parent: typer.Context | None) -> Iterator[tuple[str, str]]:
    """A command and all below it as they are listed, each with its help."""
    context = typer.Context(command, parent, name, terminal_width=WIDTH, **command.context_settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, TyperGroup):
        for below in command.list_commands(context):
            yield from helps(command.get_command(context, below), below, context)


def pages(command: Any) -> str:
    """The help of a command and of all below it."""
    return "\n".join(f"$ {name} --help\n{text}\n" for name, text in helps(command, "gonogo", None))


def test_the_help_of_every_command_reads_as_it_is_kept():
    found = pages(COMMAND)
    assert found == kept(GOLDEN, found)
