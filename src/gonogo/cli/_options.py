"""How commands are declared: groups, and the options that several of them have."""

from pathlib import Path
from typing import Annotated, Any

import typer

EXACT: dict[str, Any] = {"context_settings": {"help_option_names": ["-h", "--help"]}}

Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Events = Annotated[bool, typer.Option("--json", help="Write one JSON event a line.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many at most.")]
Session = Annotated[str | None, typer.Option("--session", help="Only of this session.")]
Directory = Annotated[
    Path | None,
    typer.Option("-C", "--directory", exists=True, file_okay=False, help="The folder to work in."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", help="provider:name, or demo; by default GONOGO_MODEL or detected."),
]


def group(about: str, epilog: str | None = None) -> typer.Typer:
    """A group of commands; alone, it shows its help."""
    return typer.Typer(
        help=about,
        epilog=example(epilog) if epilog else None,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        **EXACT,
    )


def example(*lines: str) -> str:
    """Examples for a help text, kept as they are written."""
    return "Example:\n\n\b\n" + "\n".join(
        "  " + line for text in lines for line in text.split("\n")
    )
