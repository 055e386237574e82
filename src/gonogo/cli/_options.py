"""How commands are declared: groups, and the options that several of them have."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gonogo.cli._complete import approval_ids, plan_ids, session_ids

EXACT: dict[str, Any] = {"context_settings": {"help_option_names": ["-h", "--help"]}}

Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Events = Annotated[bool, typer.Option("--json", help="Write one JSON event a line.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many at most.")]
Session = Annotated[
    str | None,
    typer.Option("--session", help="Only of this session.", autocompletion=session_ids),
]
SessionId = Annotated[str, typer.Argument(help="The session's id.", autocompletion=session_ids)]
PlanId = Annotated[str, typer.Argument(help="The plan's id.", autocompletion=plan_ids)]
ApprovalId = Annotated[str, typer.Argument(help="The approval's id.", autocompletion=approval_ids)]
Directory = Annotated[
    Path | None,
    typer.Option("-C", "--directory", exists=True, file_okay=False, help="The folder to work in."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", help="provider:name, or demo; by default GONOGO_MODEL or detected."),
]


def group(about: str, epilog: str | None = None, *, completes: bool = False) -> typer.Typer:
    """A group of commands; alone, it shows its help.

    Args:
        completes: It is the whole program, and offers to complete its words in a shell.
    """
    return typer.Typer(
        help=about,
        epilog=example(epilog) if epilog else None,
        no_args_is_help=True,
        add_completion=completes,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        **EXACT,
    )


def example(*lines: str) -> str:
    """Examples for a help text, kept as they are written."""
    return "Example:\n\n\b\n" + "\n".join(
        "  " + line for text in lines for line in text.split("\n")
    )
