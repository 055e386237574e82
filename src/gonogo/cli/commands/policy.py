"""`gonogo policy`: what the rules say, without running anything."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gonogo.cli.arguments import Directory, Json, Session, SessionId, example, group
from gonogo.cli.support import Exit, Stop, carry_out

app = group("The policy: what may run, what needs an approval, what is denied.")

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


@app.command(
    "check",
    epilog=example(
        "gonogo policy check -- git push --force",
        "gonogo policy check --rules rules.toml -- 'cd src && pytest -q'",
        "gonogo policy check --rules rules.toml",
        "gonogo policy check --batch --context contexts.json < commands.jsonl",
    ),
)
def check(
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
) -> None:
    """Show how the policy decides about a command: verdict, reason and rule as JSON.

    Without a command: check the rules files, and list review rules that nobody could satisfy.
    """
    carry_out(_check, command or [], rules, context, name, batch)


@app.command(
    "explain",
    epilog=example(
        "gonogo policy explain -- git push --force",
        """gonogo policy explain write_file '{"path": "a.md", "content": ""}' --agent debug""",
    ),
)
def explain(
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
) -> None:
    """Show every rule that is considered for a call, and which one decides; nothing runs."""
    carry_out(_explain, call, directory, agent, rules, session, json)


@app.command("list", epilog=example("gonogo policy list s_0192"))
def list_rules(session_id: SessionId, json: Json = False) -> None:
    """List the rules that apply only in one session."""
    carry_out(_list, session_id, json)


@app.command(
    "add",
    epilog=example(
        'gonogo policy add s_0192 allow --command "pytest -q"',
        'gonogo policy add s_0192 allow --tool write_file --path "docs/**"',
    ),
)
def add_rule(
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
) -> None:
    """Add a rule for one session; it applies until the session ends or you remove it."""
    fields = {
        "decision": decision.value, "command": command, "exact": exact or None, "tool": tool,
        "path": path, "agent": agent, "reason": reason,
    }  # fmt: skip
    given = {name: value for name, value in fields.items() if value is not None}
    carry_out(_add, session_id, given, json)


@app.command("remove", epilog=example("gonogo policy remove s_0192 session:1"))
def remove_rule(
    session_id: SessionId,
    rule: Annotated[str, typer.Argument(help="The rule's id or name.")],
    json: Json = False,
) -> None:
    """Remove a rule of a session; the calls that it allowed need an approval again."""
    carry_out(_remove, session_id, rule, json)


@app.command(
    "replay",
    epilog=example("gonogo policy replay rules.toml", "gonogo policy replay new.toml --since 7d"),
)
def replay(
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
) -> None:
    """Show which recorded calls would be decided differently; nothing changes."""
    carry_out(_replay, file, session, since, json)


@app.command(
    "suggest",
    epilog=example("gonogo policy suggest --min 5 > suggested.toml"),
)
def suggest(
    session: Session = None,
    least: Annotated[
        int, typer.Option("--min", min=1, help="How often a call must have been approved.")
    ] = 3,
    json: Json = False,
) -> None:
    """Print rules for what you always approve; edit them before you save them."""
    carry_out(_suggest, session, least, json)


async def _replay(file: Path, session: str | None, since: str | None, json: bool) -> Exit:
    from gonogo.cli.rules import replay

    return await replay(file, session, since, json=json)


async def _suggest(session: str | None, least: int, json: bool) -> Exit:
    from gonogo.cli.rules import suggestions

    return await suggestions(session, least, json=json)


async def _list(session_id: str, json: bool) -> Exit:
    from gonogo.cli.rules import list_rules

    return await list_rules(session_id, json=json)


async def _add(session_id: str, rule: dict[str, object], json: bool) -> Exit:
    from gonogo.cli.rules import add_rule

    return await add_rule(session_id, rule, json=json)


async def _remove(session_id: str, rule: str, json: bool) -> Exit:
    from gonogo.cli.rules import remove_rule

    return await remove_rule(session_id, rule, json=json)


async def _check(
    command: list[str], rules: Path | None, context: Path | None, name: str, batch: bool
) -> Exit:
    from gonogo.cli.rules import check_batch, check_files, check_one

    if batch:
        return check_batch(rules, context, name)
    if not command and context is None:
        return await check_files(rules)
    if not command:
        raise Stop("Name a command, for example: gonogo policy check -- git push", Exit.USAGE)
    return check_one(command, rules, context, name)


async def _explain(
    call: list[str],
    directory: Path | None,
    agent: str,
    rules: Path | None,
    session: str | None,
    json: bool,
) -> Exit:
    from gonogo.cli.rules import explain_call

    return await explain_call(call, directory, agent, rules, session, json=json)
