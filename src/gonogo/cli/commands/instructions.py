"""`gonogo instructions`: which instruction files and skills agents are told of, and how."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gonogo.cli.arguments import Directory, Json, example
from gonogo.cli.language import own_locale
from gonogo.cli.support import Exit, carry_out

if TYPE_CHECKING:
    from gonogo.domain.instructions import FoundInstructions
    from gonogo.domain.tool_calls import Instructions

top = typer.Typer()


@top.command(
    epilog=example(
        "gonogo instructions",
        "gonogo instructions -C path/to/repo src/api/app.py",
        "gonogo instructions --json",
    )
)
def instructions(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Show what agents would see after working on these files."),
    ] = None,
    directory: Directory = None,
    json: Json = False,
) -> None:
    """List the instruction files and skills of a folder, and show what agents see of them."""
    carry_out(_instructions, paths or [], directory, json)


async def _instructions(paths: list[str], directory: Path | None, json: bool) -> Exit:
    from gonogo.cli.folder import read_settings
    from gonogo.cli.terminal.output import facts
    from gonogo.execution.agent import compose
    from gonogo.runtime import open_reader

    settings = read_settings({"workspace": directory})
    found = open_reader(settings).look(settings.workspace, paths)
    told = compose((), found, own_locale())
    if json:
        return facts(_as_json(found, told, on=settings.instructions))
    return _shown(found, told, on=settings.instructions)


def _as_json(
    found: "FoundInstructions", told: "Instructions | None", *, on: bool
) -> dict[str, Any]:
    from msgspec.structs import asdict

    from gonogo.execution.agent import facts_of

    return {
        "on": on,
        "files": [facts_of(file) for file in told.files] if told else [],
        "skills": [asdict(skill) for skill in found.skills],
        "left_out": [{"path": path, "reason": why} for path, why in found.left_out.items()],
        "content": told.content if told else "",
    }


def _shown(found: "FoundInstructions", told: "Instructions | None", *, on: bool) -> Exit:
    from gonogo.cli.terminal.output import line
    from gonogo.domain.text_safety import visible
    from gonogo.i18n import say
    from gonogo.i18n import told as told_in

    locale = own_locale()
    if told is None:
        line(say("cli_instructions_none" if on else "cli_instructions_off", locale))
    for file in told.files if told else ():
        words = (file.source, file.how, f"{file.size} B", f"sha256 {file.sha256}")
        line("  ".join((visible(file.path, lines=False), *words)))
    for path, why in found.left_out.items():
        said = say("cli_instructions_left_out", locale, path=path, reason=told_in(why, locale))
        line(visible(said, lines=False))
    if told is not None:
        line("\n" + say("cli_instructions_told", locale) + "\n")
        line(told.content)
    return Exit.DONE
