"""`gonogo rollback`: undo what a plan did to files."""

from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli._exits import Exit, carry_out
from gonogo.cli._options import Json, PlanId, example

if TYPE_CHECKING:
    from gonogo.domain.plan_views import RollbackView

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
    from gonogo.cli._owner import connected
    from gonogo.cli._print import facts

    async with connected() as client:
        done = await client.rollback(
            plan_id, checkpoint_id=None if to == LATEST else to, subtask_id=subtask,
            whole=to is None and subtask is None, dry_run=dry_run, include_shared=include_shared,
        )  # fmt: skip
        return facts(done) if json else _told(done, to_latest=to == LATEST)


def _told(done: "RollbackView", *, to_latest: bool) -> Exit:
    from gonogo.cli._print import line, table

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
