"""`gonogo policy`: what the rules say, without running anything."""

from pathlib import Path
from typing import Annotated

import typer

from gonogo.cli._exits import Exit, carry_out
from gonogo.cli._options import EXACT, Directory, Json, example, group

app = group("The policy: what may run, what asks, what is denied.")

RulesFile = Annotated[
    Path | None,
    typer.Option("--rules", exists=True, dir_okay=False, help="Rules instead of your own."),
]


@app.command(
    "check",
    **EXACT,
    epilog=example(
        "gonogo policy check -- git push --force",
        "gonogo policy check --rules rules.toml -- 'cd src && pytest -q'",
        "gonogo policy check --batch --context contexts.json < commands.jsonl",
    ),
)
def check(
    command: Annotated[list[str] | None, typer.Argument(help="The command, after --.")] = None,
    rules: RulesFile = None,
    context: Annotated[
        Path | None,
        typer.Option("--context", exists=True, dir_okay=False, help="Named contexts, as JSON."),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="Which context, where a line names none.")
    ] = "",
    batch: Annotated[
        bool, typer.Option("--batch", help='Read {"cmd", "policy_context"} from each line.')
    ] = False,
) -> None:
    """Say what the policy makes of a command: verdict, reason and rule as JSON."""
    carry_out(_check, command or [], rules, context, name, batch)


@app.command(
    "explain",
    **EXACT,
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
    agent: Annotated[str, typer.Option("--agent", help="In whose hands.")] = "coder",
    rules: RulesFile = None,
    json: Json = False,
) -> None:
    """Show every rule that is considered for a call, and what decides; nothing runs."""
    carry_out(_explain, call, directory, agent, rules, json)


async def _check(
    command: list[str], rules: Path | None, context: Path | None, name: str, batch: bool
) -> Exit:
    from gonogo.cli._verdicts import check_batch, check_one

    if batch:
        return check_batch(rules, context, name)
    return check_one(command, rules, context, name)


async def _explain(
    call: list[str], directory: Path | None, agent: str, rules: Path | None, json: bool
) -> Exit:
    from gonogo.cli._explain import explain_call

    return await explain_call(call, directory, agent, rules, json=json)
