"""`gonogo instructions` and `gonogo tool`: what agents are told, and what they can do."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gonogo.cli.arguments import Directory, Json, example, group
from gonogo.cli.support import Exit, Stop, carry_out, own_locale, own_words

if TYPE_CHECKING:
    from gonogo.domain.instructions import FoundInstructions
    from gonogo.domain.tool_calls import Instructions


# `gonogo instructions`: which instruction files and skills agents are told of, and how.

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
        typer.Argument(
            metavar="PATH", help="Show what agents would see after working on these files."
        ),
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


# `gonogo tool`: what there is, and one tool through the gate, without a model.

_REFUSALS = {
    "invalid_arguments": Exit.USAGE,
    "unknown_tool": Exit.USAGE,
    "policy_denied": Exit.DENIED,
    "path_outside_workspace": Exit.DENIED,
    "protected_path": Exit.DENIED,
    "symlink_escape": Exit.DENIED,
    "hardlink": Exit.DENIED,
}
"""What a refused call means by the word that its reason begins with; else it failed."""
app = group("Tools: list them, and try by hand what agents can do.")


@app.command(
    "run",
    epilog=example("""gonogo tool run read_file '{"path": "README.md"}' -C path/to/repo"""),
)
def run(
    name: Annotated[str, typer.Argument(help="The tool's name.")],
    arguments: Annotated[str, typer.Argument(help="Its arguments as a JSON object.")] = "{}",
    directory: Directory = None,
    json: Json = False,
) -> None:
    """Run one tool with the same checks as for an agent's call.

    Exit code: 0 done, 1 failed, 2 wrong arguments, 3 it needs an approval, 4 denied.
    """
    carry_out(_run, name, arguments, directory, json)


@app.command("list", epilog=example("gonogo tool list", "gonogo tool list --json"))
def list_(json: Json = False) -> None:
    """List the tools, and the MCP servers with their tools."""
    carry_out(_list, json)


@app.command("accept", epilog=example("gonogo tool accept mcp__docs__search"))
def accept(
    name: Annotated[str, typer.Argument(help="The tool's name.")], json: Json = False
) -> None:
    """Accept a server's tool as it is now, after it has changed.

    Rules and plans that allowed it before the change allow it again.
    """
    carry_out(_accept, name, json)


async def _list(json: bool) -> Exit:
    from gonogo.cli.rules import list_tools

    return await list_tools(json=json)


async def _accept(name: str, json: bool) -> Exit:
    from gonogo.cli.rules import accept_tool

    return await accept_tool(name, json=json)


async def _run(name: str, arguments: str, directory: Path | None, json: bool) -> Exit:
    from gonogo.cli.terminal.output import facts, line

    told = await _told(name, _object(arguments), directory)
    if json:
        facts(told)
    else:
        line(_words(told))
    match told["decision"]:
        case "ask":
            return Exit.WAITS
        case "deny":
            kind = str(told["reason"]).partition(":")[0]
            return _REFUSALS.get(kind, Exit.FAILED)
        case _:
            return Exit.FAILED if "error" in told else Exit.DONE


async def _told(name: str, given: dict[str, Any], directory: Path | None) -> dict[str, Any]:
    from gonogo.cli.daemon import linked
    from gonogo.cli.folder import read_settings
    from gonogo.domain.errors import PolicyDenied

    settings = read_settings({"workspace": directory, "background": False})
    async with linked(settings) as link:
        if link.runtime is None:
            raise Stop(
                "Another process uses {home}; end it with gonogo stop, or set GONOGO_HOME to "
                "another folder for this command",
                home=settings.home,
            )
        runtime = link.runtime
        try:
            return await runtime.run_tool(runtime.owner, name, given, settings.workspace)
        except PolicyDenied as error:
            return {"decision": "deny", "reason": error.args[0]}


def _object(text: str) -> dict[str, Any]:
    from gonogo.domain.base import loads

    given = loads(text)
    if not isinstance(given, dict):
        raise Stop("The arguments must be one JSON object, such as {}", Exit.USAGE)
    return cast("dict[str, Any]", given)


def _reason(given: dict[str, Any]) -> str:
    from gonogo.cli.terminal.output import spoken
    from gonogo.i18n import told

    return spoken(_failure(told(given["reason"], own_locale())))


def _failure(told: str) -> str:
    """A failure, after what people call its kind where the user's language has a word for it."""
    from gonogo.i18n import term

    kind = told.partition(":")[0]
    known = term("tool failure", kind, own_locale())
    return told if known == kind else f"{known} ({told})"


def _words(told: dict[str, Any]) -> str:
    from gonogo.cli.terminal.output import spoken
    from gonogo.domain.text_safety import visible_json

    if told["decision"] == "deny":
        return own_words("Denied: {reason}", reason=_reason(told))
    if told["decision"] == "ask":
        asks = own_words("This call needs an approval: {reason}", reason=_reason(told))
        return f"{asks}\n{told.get('preview', '')}"
    if "error" in told:
        return own_words("Error: {problem}", problem=spoken(_failure(told["error"])))
    result: dict[str, Any] = told.get("result") or {}
    said = result.get("content") or result.get("output")
    return spoken(str(said)) if said else visible_json(result, indent=2)
