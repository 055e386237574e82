"""`gonogo checkpoints` and `gonogo rollback`: where a plan can go back to, and going there."""

from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.arguments import Json, Limit, PlanId, example, group
from gonogo.cli.support import Exit, carry_out

if TYPE_CHECKING:
    from gonogo.domain.plan_views import RollbackView


LATEST = "latest"
top = typer.Typer()


@top.command(
    epilog=example(
        "gonogo rollback p_0192 --dry-run",
        "gonogo rollback p_0192",
        "gonogo rollback p_0192 --subtask api",
        "gonogo rollback p_0192 --to checkpoint_0192",
    )
)
def rollback(
    plan_id: PlanId,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="CHECKPOINT",
            help="Undo only what came after this checkpoint; `latest` names the newest.",
        ),
    ] = None,
    subtask: Annotated[
        str | None,
        typer.Option(
            "--subtask", metavar="ID", help="Undo only this subtask and those that depend on it."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be undone.")
    ] = False,
    include_shared: Annotated[
        bool,
        typer.Option("--include-shared", help="Also undo what changed while a command ran."),
    ] = False,
    json: Json = False,
) -> None:
    """Undo everything that a plan did to files; what people changed since then stays.

    A checkpoint is made first: roll back to it to undo the rollback.
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

app = group("Checkpoints: the states that a rollback can restore.")


@app.command("list", epilog=example("gonogo checkpoints list p_0192"))
def list_checkpoints(
    plan_id: PlanId,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List a plan's checkpoints, oldest first."""
    carry_out(_list, plan_id, limit, json)


@app.command("show", epilog=example("gonogo checkpoints show checkpoint_0192"))
def show_checkpoint(
    checkpoint_id: Annotated[str, typer.Argument(help="The checkpoint's id.")],
    json: Json = False,
) -> None:
    """Show the state of every subtask, and whether the checkpoint is complete."""
    carry_out(_show, checkpoint_id, json)


@app.command(
    "diff",
    epilog=example(
        "gonogo checkpoints diff checkpoint_0192",
        "gonogo checkpoints diff checkpoint_0192 --to checkpoint_0193",
    ),
)
def diff_checkpoint(
    checkpoint_id: Annotated[str, typer.Argument(help="The checkpoint's id.")],
    to: Annotated[
        str | None,
        typer.Option("--to", help="Another checkpoint; by default the files as they are now."),
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
