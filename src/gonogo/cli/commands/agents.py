"""`gonogo instructions`, `tool` and `policy`: what agents are told, can do, and may do."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gonogo.cli.support import (
    Directory,
    Exit,
    Json,
    Session,
    SessionId,
    Stop,
    command,
    group,
    own_locale,
    own_words,
)

if TYPE_CHECKING:
    from gonogo.domain.instructions import FoundInstructions
    from gonogo.domain.tool_calls import Instructions

# `gonogo instructions`: which instruction files and skills agents are told of, and how.

top = typer.Typer()


@command(
    top,
    "instructions",
    "gonogo instructions",
    "gonogo instructions -C path/to/repo src/api/app.py",
    "gonogo instructions --json",
)
async def instructions(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH", help="Show what agents would see after working on these files."
        ),
    ] = None,
    directory: Directory = None,
    json: Json = False,
) -> Exit:
    """List the instruction files and skills of a folder, and show what agents see of them."""
    from gonogo.cli.folder import read_settings
    from gonogo.cli.terminal.output import facts
    from gonogo.execution.agent import compose
    from gonogo.runtime import open_reader

    settings = read_settings({"workspace": directory})
    found = open_reader(settings).look(settings.workspace, paths or [])
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


@command(app, "run", """gonogo tool run read_file '{"path": "README.md"}' -C path/to/repo""")
async def run(
    name: Annotated[str, typer.Argument(help="The tool's name.")],
    arguments: Annotated[str, typer.Argument(help="Its arguments as a JSON object.")] = "{}",
    directory: Directory = None,
    json: Json = False,
) -> Exit:
    """Run one tool with the same checks as for an agent's call.

    Exit code: 0 done, 1 failed, 2 wrong arguments, 3 it needs an approval, 4 denied.
    """
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


@command(app, "list", "gonogo tool list", "gonogo tool list --json")
async def list_(json: Json = False) -> Exit:
    """List the tools, and the MCP servers with their tools."""
    from gonogo.cli.rules import list_tools

    return await list_tools(json=json)


@command(app, "accept", "gonogo tool accept mcp__docs__search")
async def accept(
    name: Annotated[str, typer.Argument(help="The tool's name.")], json: Json = False
) -> Exit:
    """Accept a server's tool as it is now, after it has changed.

    Rules and plans that allowed it before the change allow it again.
    """
    from gonogo.cli.rules import accept_tool

    return await accept_tool(name, json=json)


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


# `gonogo policy`: what the rules say, without running anything.

policy = group("The policy: what may run, what needs an approval, what is denied.")

RulesFile = Annotated[
    Path | None,
    typer.Option(
        "--rules", exists=True, dir_okay=False, help="A file of rules instead of your own."
    ),
]


class RuleWord(StrEnum):
    """What a rule may say."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@command(
    policy,
    "check",
    "gonogo policy check -- git push --force",
    "gonogo policy check --rules rules.toml -- 'cd src && pytest -q'",
    "gonogo policy check --rules rules.toml",
    "gonogo policy check --batch --context contexts.json < commands.jsonl",
)
async def check(
    command: Annotated[list[str] | None, typer.Argument(help="The command, after --.")] = None,
    rules: RulesFile = None,
    context: Annotated[
        Path | None,
        typer.Option(
            "--context", exists=True, dir_okay=False, help="A file of named contexts, as JSON."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The context for lines without one.")] = "",
    batch: Annotated[
        bool,
        typer.Option(
            "--batch", help='Read {"cmd", "policy_context"} from each line of standard input.'
        ),
    ] = False,
) -> Exit:
    """Show how the policy decides about a command: verdict, reason and rule as JSON.

    Without a command: check the rules files, and list review rules that nobody could satisfy.
    """
    from gonogo.cli.rules import check_batch, check_files, check_one

    if batch:
        return check_batch(rules, context, name)
    if not command and context is None:
        return await check_files(rules)
    if not command:
        raise Stop("Name a command, for example: gonogo policy check -- git push", Exit.USAGE)
    return check_one(command, rules, context, name)


@command(
    policy,
    "explain",
    "gonogo policy explain -- git push --force",
    """gonogo policy explain write_file '{"path": "a.md", "content": ""}' --agent debug""",
)
async def explain(
    call: Annotated[
        list[str], typer.Argument(help="A command, after --; or a tool and its arguments as JSON.")
    ],
    directory: Directory = None,
    agent: Annotated[str, typer.Option("--agent", help="The agent that makes the call.")] = "coder",
    rules: RulesFile = None,
    session: Annotated[
        str | None, typer.Option("--session", help="Use this session's workspace and rules.")
    ] = None,
    json: Json = False,
) -> Exit:
    """Show every rule that is considered for a call, and which one decides; nothing runs."""
    from gonogo.cli.rules import explain_call

    return await explain_call(call, directory, agent, rules, session, json=json)


@command(policy, "list", "gonogo policy list s_0192")
async def list_rules(session_id: SessionId, json: Json = False) -> Exit:
    """List the rules that apply only in one session."""
    from gonogo.cli.rules import list_rules

    return await list_rules(session_id, json=json)


@command(
    policy,
    "add",
    'gonogo policy add s_0192 allow --command "pytest -q"',
    'gonogo policy add s_0192 allow --tool write_file --path "docs/**"',
)
async def add_rule(
    session_id: SessionId,
    decision: Annotated[RuleWord, typer.Argument(help="What the rule decides.")],
    command: Annotated[
        str | None, typer.Option("--command", help="The words that the command begins with.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Match exactly this command, or this path.")
    ] = False,
    tool: Annotated[str | None, typer.Option("--tool", help="A tool's name.")] = None,
    path: Annotated[
        str | None, typer.Option("--path", help="A glob of paths in the workspace.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The agent that makes the call.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help="The reason that people see.")
    ] = None,
    json: Json = False,
) -> Exit:
    """Add a rule for one session; it applies until the session ends or you remove it."""
    from gonogo.cli.rules import add_rule

    fields = {
        "decision": decision.value, "command": command, "exact": exact or None, "tool": tool,
        "path": path, "agent": agent, "reason": reason,
    }  # fmt: skip
    given: dict[str, object] = {name: value for name, value in fields.items() if value is not None}
    return await add_rule(session_id, given, json=json)


@command(policy, "remove", "gonogo policy remove s_0192 session:1")
async def remove_rule(
    session_id: SessionId,
    rule: Annotated[str, typer.Argument(help="The rule's id or name.")],
    json: Json = False,
) -> Exit:
    """Remove a rule of a session; the calls that it allowed need an approval again."""
    from gonogo.cli.rules import remove_rule

    return await remove_rule(session_id, rule, json=json)


@command(
    policy, "replay", "gonogo policy replay rules.toml", "gonogo policy replay new.toml --since 7d"
)
async def replay(
    file: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="A file of rules instead of your own."),
    ],
    session: Session = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="From 12h, 7d or 4w ago, or from a date; by default all."),
    ] = None,
    json: Json = False,
) -> Exit:
    """Show which recorded calls would be decided differently; nothing changes."""
    from gonogo.cli.rules import replay

    return await replay(file, session, since, json=json)


@command(policy, "suggest", "gonogo policy suggest --min 5 > suggested.toml")
async def suggest(
    session: Session = None,
    least: Annotated[
        int, typer.Option("--min", min=1, help="How often a call must have been approved.")
    ] = 3,
    json: Json = False,
) -> Exit:
    """Print rules for what you always approve; edit them before you save them."""
    from gonogo.cli.rules import suggestions

    return await suggestions(session, least, json=json)
