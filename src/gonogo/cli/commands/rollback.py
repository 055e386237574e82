"""`gonogo checkpoints` and `gonogo rollback`: where a plan can go back to, and going there."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.arguments import EXACT, Json, Limit, PlanId, example, group
from gonogo.cli.support import Exit, Stop, carry_out

if TYPE_CHECKING:
    from gonogo.client import Client
    from gonogo.domain.plan_views import CheckpointView, RollbackView


LATEST = "latest"
EXAMPLE = example(
    "gonogo rollback p_0192 --dry-run",
    "gonogo rollback p_0192",
    "gonogo rollback p_0192 --subtask api",
    "gonogo rollback p_0192 --to checkpoint_0192",
)


def rollback(
    plan_id: PlanId,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="CHECKPOINT", help="Undo only what came since; `latest` is one, too."
        ),
    ] = None,
    subtask: Annotated[
        str | None,
        typer.Option("--subtask", metavar="ID", help="Undo only this one and its dependants."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be undone.")
    ] = False,
    include_shared: Annotated[
        bool,
        typer.Option("--include-shared", help="Also what changed while a command ran."),
    ] = False,
    json: Json = False,
) -> None:
    """Undo what a plan did to files, all of it; what people changed since stays.

    A checkpoint is taken first: going back to it undoes the rollback.
    """
    carry_out(_roll_back, plan_id, to, subtask, dry_run, include_shared, json)


async def _roll_back(
    plan_id: str,
    to: str | None,
    subtask: str | None,
    dry_run: bool,
    include_shared: bool,
    json: bool,
) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts

    async with connected() as client:
        done = await client.rollback(
            plan_id, checkpoint_id=None if to == LATEST else to, subtask_id=subtask,
            whole=to is None and subtask is None, dry_run=dry_run, include_shared=include_shared,
        )  # fmt: skip
        return facts(done) if json else _told(done, to_latest=to == LATEST)


def _told(done: "RollbackView", *, to_latest: bool) -> Exit:
    from gonogo.cli.terminal.output import line, table

    verb = "would be put back" if done.dry_run else "put back"
    line(
        f"{done.restored} {verb}, {done.conflicts} left because somebody changed them,"
        f" {done.shared} left because they changed while a command ran"
    )
    if to_latest and not done.files:
        line(
            "that is since the latest checkpoint; go further back with --to CHECKPOINT, one of: "
            f"gonogo checkpoints list {done.plan_id}"
        )
    if done.again:
        line(f"runs again when the plan goes on: {', '.join(done.again)}")
    if done.checkpoint_id:
        line(f"undo this with: gonogo rollback {done.plan_id} --to {done.checkpoint_id}")
    rows = [(file.action, file.path, file.reason or "") for file in done.files]
    return table(("action", "file", "why"), rows) if rows else Exit.DONE


# `gonogo checkpoints`: the places that a rollback can go back to.

app = group("Checkpoints: the places that a rollback can go back to.")


@app.command("list", **EXACT, epilog=example("gonogo checkpoints list p_0192"))
def list_checkpoints(
    plan_id: PlanId,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List a plan's checkpoints, oldest first."""
    carry_out(_list, plan_id, limit, json)


@app.command(
    "create",
    **EXACT,
    epilog=example(
        "gonogo checkpoints create plan_0192",
        'gonogo checkpoints create s_0192 --note "before I try the other way"',
    ),
)
def create_checkpoint(
    of: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION|PLAN",
            help="By default the newest session; of a session, its latest plan.",
        ),
    ] = None,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="What it is for.")
    ] = None,
    json: Json = False,
) -> None:
    """Take a checkpoint now, between two subtasks of a plan or after it.

    It is refused while a subtask is at work: pause the plan first.
    """
    carry_out(_create, of, note, json)


@app.command("show", **EXACT, epilog=example("gonogo checkpoints show checkpoint_0192"))
def show_checkpoint(
    checkpoint_id: Annotated[str, typer.Argument(help="The checkpoint's id.")],
    json: Json = False,
) -> None:
    """Show where every subtask stood, and whether the checkpoint is whole."""
    carry_out(_show, checkpoint_id, json)


@app.command(
    "diff",
    **EXACT,
    epilog=example(
        "gonogo checkpoints diff checkpoint_0192",
        "gonogo checkpoints diff checkpoint_0192 --to checkpoint_0193",
    ),
)
def diff_checkpoint(
    checkpoint_id: Annotated[str, typer.Argument(help="The checkpoint's id.")],
    to: Annotated[
        str | None, typer.Option("--to", help="Another checkpoint; by default the files now.")
    ] = None,
    json: Json = False,
) -> None:
    """Show how files differ between a checkpoint and another one, or the workspace now."""
    carry_out(_diff, checkpoint_id, to, json)


async def _list(plan_id: str, limit: int, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, table

    async with connected() as client:
        page = await client.checkpoints(plan_id, limit=limit)
        if json:
            return facts(page)
        rows = [
            (c.checkpoint_id, c.created_at, "yes" if c.tree else "no", c.reason)
            for c in page.checkpoints
        ]
        return table(("checkpoint", "created", "snapshot", "taken"), rows)


async def _create(of: str | None, note: str | None, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.folder import own_locale
    from gonogo.cli.terminal.output import facts, line
    from gonogo.i18n import say

    async with connected() as client:
        made = await _taken(client, of, note)
    if json:
        return facts(made)
    line(f"{made.checkpoint_id}  {made.reason}")
    back = f"gonogo rollback {made.plan_id} --to {made.checkpoint_id}"
    line(say("cli_checkpoint_taken", own_locale(), command=back))
    return Exit.DONE


async def _taken(client: "Client", of: str | None, note: str | None) -> "CheckpointView":
    from gonogo.cli.folder import own_locale
    from gonogo.cli.session.run import newest_session
    from gonogo.domain.errors import NotFound
    from gonogo.i18n import say

    if of is not None:
        with suppress(NotFound):
            return await client.create_checkpoint(plan_id=of, note=note)
        with suppress(NotFound):
            return await client.create_checkpoint(session_id=of, note=note)
        raise Stop(say("cli_no_plan_or_session", own_locale(), id=of))
    session = await newest_session(client)
    return await client.create_checkpoint(session_id=session.session_id, note=note)


async def _show(checkpoint_id: str, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line, spoken, table

    async with connected() as client:
        found = await client.checkpoint(checkpoint_id)
        if json:
            return facts(found)
        line(f"{found.checkpoint_id}  {spoken(found.reason)}")
        line(f"{found.hash}  {'verified' if found.verified else 'NOT AS IT WAS WRITTEN'}")
        return table(("subtask", "stood"), [(s.id, s.status) for s in found.subtasks])


async def _diff(checkpoint_id: str, to: str | None, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line
    from gonogo.cli.terminal.render import file_lines

    async with connected() as client:
        found = await client.checkpoint_diff(checkpoint_id, to=to)
        if json:
            return facts(found)
        for text in file_lines(found):
            line(text)
        return Exit.DONE
