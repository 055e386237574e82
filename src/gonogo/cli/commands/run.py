"""`run`, `demo`, `serve`, `acp` and `mcp`: the commands that work."""

from pathlib import Path
from typing import Annotated

import typer

from gonogo.cli.support import (
    Directory,
    Events,
    Exit,
    Model,
    Restored,
    Stop,
    command,
    limits_of,
    own_locale,
    session_ids,
)

top = typer.Typer()

Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Approve the plan; --yes=all answers yes to every question, except about "
        "exceeding --max-cost.",
    ),
]
YesAll = Annotated[bool, typer.Option("--yes-all", hidden=True)]
Unattended = Annotated[
    bool, typer.Option("--unattended", help="Deny every call that would need your approval.")
]
Database = Annotated[str | None, typer.Option("--db", help="The database as a URL.")]
Foreground = Annotated[
    bool,
    typer.Option("--foreground", help="Do all the work in this process; it ends with the command."),
]


@command(
    top,
    "run",
    'gonogo run "Add a --json flag to the CLI" -C path/to/repo --model openai:gpt-5',
    'gonogo run "What does main() do?"',
    'gonogo run "Fix the failing test" --yes=all --json > events.jsonl',
    'gonogo run "List the TODOs" --output-schema todos.json -o out.json --max-cost 0.50',
    "gonogo run --plan plan.yaml",
)
async def run(  # noqa: PLR0913 - each is an option of the command
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="Your task, or a question.")
    ] = None,
    directory: Directory = None,
    model: Model = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", help="The agent that answers; by default the orchestrator chooses."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            exists=True,
            dir_okay=False,
            help="A plan file instead of TASK: no model writes the plan.",
        ),
    ] = None,
    yes: Yes = False,
    yes_all: YesAll = False,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Stop when the plan is ready; it waits for you.")
    ] = False,
    unattended: Unattended = False,
    foreground: Foreground = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the answer into this file, when all is done."),
    ] = None,
    output_schema: Annotated[
        Path | None,
        typer.Option(
            "--output-schema",
            exists=True,
            dir_okay=False,
            help="A JSON schema: the answer is JSON that fits it. Needs -o.",
        ),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost",
            help="Cost limit for the session in US dollars; at the limit the plan pauses and "
            "asks you.",
        ),
    ] = None,
    max_time: Annotated[
        str | None,
        typer.Option(
            "--max-time",
            help="Time limit for the session, such as 10m or 1h30m; then gonogo stops the work.",
        ),
    ] = None,
    json: Events = False,
) -> Exit:
    """Run one task, or a plan of your own: plan, approval, live progress, result.

    The work continues when you close the terminal; gonogo attach brings you back to it.

    Exit code: 0 all done, 1 failed, 3 waits for a person, 4 something was denied or rejected, 130
    interrupted. Without a terminal the command asks nothing: it ends with 3 and prints the id of
    the open question.
    """
    from gonogo.cli.session.answers import Wish
    from gonogo.cli.session.run import AnswerFile, run_plan, run_task
    from gonogo.i18n import say

    answer = AnswerFile.of(output_schema, output)
    limits = limits_of(max_cost, max_time)
    if answer is not None and plan_only:
        raise Stop(say("cli_output_plan_only", own_locale()), Exit.USAGE)
    wish = Wish(
        yes=yes or yes_all, all=yes_all, plan_only=plan_only, agent=agent, json=json,
        unattended=unattended, foreground=foreground, limits=limits,
    )  # fmt: skip
    if plan is not None:
        return await run_plan(plan, task, directory, model, wish, answer)
    return await run_task(task or "", directory, model, wish, answer)


@command(top, "attach", "gonogo attach", "gonogo attach s_0192")
async def attach(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION",
            help="The session's id; by default the newest session.",
            autocompletion=session_ids,
        ),
    ] = None,
    yes: Yes = False,
    yes_all: YesAll = False,
    unattended: Unattended = False,
    foreground: Foreground = False,
    json: Events = False,
) -> Exit:
    """Reconnect to a session: see its history, follow it, answer, send messages.

    Ctrl-D ends the command and changes nothing; Ctrl-C pauses the plan and asks. The exit codes are
    those of run. Without a terminal the command ends when the running work has ended.
    """
    from gonogo.cli.session.answers import Wish
    from gonogo.cli.session.run import attach as attach_to

    wish = Wish(
        yes=yes or yes_all, all=yes_all, unattended=unattended, json=json, foreground=foreground
    )
    return await attach_to(session, wish)


@command(top, "demo", "gonogo demo", "gonogo demo --yes")
async def demo(yes: Yes = False, yes_all: YesAll = False, json: Events = False) -> Exit:
    """Try gonogo on a sample project; no key is needed.

    The model's replies are recorded; the plan, your approval, the edits, the commands and the tests
    are real. --yes answers yes to every question.
    """
    from gonogo.cli.session.answers import Wish
    from gonogo.cli.session.run import run_demo

    wish = Wish(yes=yes or yes_all, all=yes or yes_all, json=json)
    return await run_demo(wish)


@command(
    top,
    "serve",
    "gonogo serve --workspace path/to/repo",
    "gonogo serve --host 0.0.0.0 --port 8001 --db postgresql://localhost/gonogo",
    "gonogo serve --no-work --db postgresql://localhost/gonogo",
)
async def serve(  # noqa: PLR0913 - each is an option of the command
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="The port; 0 picks a free one.")
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(
            "--workspace", "-C", exists=True, file_okay=False, help="The folder to work in."
        ),
    ] = None,
    db: Database = None,
    model: Model = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Require no token; only on a loopback address.")
    ] = False,
    accept_restored: Restored = False,
    socket_only: Annotated[
        bool,
        typer.Option(
            "--socket-only", help="Do not listen on a port: serve only commands on this machine."
        ),
    ] = False,
    exit_when_idle: Annotated[
        bool,
        typer.Option(
            "--exit-when-idle", help="With --socket-only: exit when there is nothing left to do."
        ),
    ] = False,
    work: Annotated[
        bool,
        typer.Option(
            "--work/--no-work",
            help="Do the work in this process, or leave it to workers (PostgreSQL only).",
        ),
    ] = True,
    pool: Annotated[
        str | None,
        typer.Option("--pool", help="With --no-work: the pool whose workers get new workspaces."),
    ] = None,
) -> Exit:
    """Serve HTTP, SSE and WebSocket until stopped."""
    from gonogo.cli.daemon import run_in_background
    from gonogo.cli.doors import Address, run_server

    if pool is not None and work:
        raise typer.BadParameter("it works only with --no-work; add --no-work", param_hint="--pool")
    if exit_when_idle and not socket_only:
        raise typer.BadParameter(
            "it works only with --socket-only; add --socket-only", param_hint="--exit-when-idle"
        )
    if socket_only:
        if not work:
            raise typer.BadParameter(
                "it does all the work itself; leave out --no-work", param_hint="--socket-only"
            )
        given = {"db": db, "model": model, "accept_restored": accept_restored or None}
        return await run_in_background(given, until_idle=exit_when_idle)
    given = {
        "host": host, "port": port, "workspace": workspace, "db": db, "model": model,
        "accept_restored": accept_restored or None,
    }  # fmt: skip
    address = Address(auth=not no_auth, pool=None if work else pool or "default")
    return await run_server(address, given)


@command(
    top,
    "worker",
    "gonogo worker --db postgresql://localhost/gonogo",
    "gonogo worker --pool large --capacity 8",
    "gonogo worker --metrics-port 9101",
)
async def worker(
    pool: Annotated[
        str, typer.Option("--pool", help="Work in the workspaces of this pool.")
    ] = "default",
    capacity: Annotated[
        int, typer.Option("--capacity", min=1, help="How many workspaces it works in at a time.")
    ] = 64,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="A label for gonogo nodes --json, as NAME=VALUE; repeatable."),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=0,
            max=65_535,
            help="Serve /metrics, /health and /ready on this port; 0 selects a free one.",
        ),
    ] = None,
    db: Database = None,
    model: Model = None,
) -> Exit:
    """Do the work of servers that run with --no-work (PostgreSQL only).

    Start any number of workers on one database. Each workspace has one worker at a time. If a
    worker dies, another one continues its work. After Ctrl-C or SIGTERM, a worker lets running
    steps end, for up to 30 seconds, and gives the rest to other workers.
    """
    from gonogo.cli.doors import run_worker

    labels = dict[str, str]()
    for each in label or ():
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise typer.BadParameter("write it as NAME=VALUE", param_hint="--label")
        labels[name] = value
    given = {"db": db, "model": model, "metrics_port": metrics_port}
    return await run_worker(pool, capacity, labels, given)


@command(top, "acp", "gonogo acp", "gonogo acp -C path/to/repo --model openai:gpt-5")
async def acp(
    directory: Directory = None, model: Model = None, foreground: Foreground = False
) -> Exit:
    """Run as an agent for editors that support the Agent Client Protocol (ACP), on stdio.

    Editors start it. The work continues without the editor, and any client can join the session.
    """
    from gonogo.cli.doors import run_acp

    return await run_acp(directory, model, foreground)


@command(top, "mcp", "gonogo mcp", "gonogo mcp -C path/to/repo")
async def mcp(
    directory: Directory = None, model: Model = None, foreground: Foreground = False
) -> Exit:
    """Offer plans, their status, open questions and results to another agent, by MCP on stdio.

    The other agent starts it. It can ask for a plan and read results; only people can decide.
    """
    from gonogo.cli.doors import run_mcp

    return await run_mcp(directory, model, foreground)
