"""`gonogo checkpoints`: the places that a rollback can go back to."""

from typing import Annotated

import typer

from gonogo.cli._exits import Exit, carry_out
from gonogo.cli._options import EXACT, Json, Limit, PlanId, example, group

app = group("Checkpoints: the places that a rollback can go back to.")


@app.command("list", **EXACT, epilog=example("gonogo checkpoints list p_0192"))
def list_checkpoints(
    plan_id: PlanId,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List a plan's checkpoints, oldest first."""
    carry_out(_list, plan_id, limit, json)


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
    from gonogo.cli._owner import connected
    from gonogo.cli._print import facts, table

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
    from gonogo.cli._escape import spoken
    from gonogo.cli._owner import connected
    from gonogo.cli._print import facts, line, table

    async with connected() as client:
        found = await client.checkpoint(checkpoint_id)
        if json:
            return facts(found)
        line(f"{found.checkpoint_id}  {spoken(found.reason)}")
        line(f"{found.hash}  {'verified' if found.verified else 'NOT AS IT WAS WRITTEN'}")
        return table(("subtask", "stood"), [(s.id, s.status) for s in found.subtasks])


async def _diff(checkpoint_id: str, to: str | None, json: bool) -> Exit:
    from gonogo.cli._diff import file_lines
    from gonogo.cli._owner import connected
    from gonogo.cli._print import facts, line

    async with connected() as client:
        found = await client.checkpoint_diff(checkpoint_id, to=to)
        if json:
            return facts(found)
        for text in file_lines(found):
            line(text)
        return Exit.DONE
