"""`gonogo checkpoints`: the places that a rollback can go back to."""

from typing import Annotated

import typer

from gonogo.cli._exits import Exit, carry_out
from gonogo.cli._options import EXACT, Json, Limit, example, group

app = group("Checkpoints: the places that a rollback can go back to.")


@app.command("list", **EXACT, epilog=example("gonogo checkpoints list p_0192"))
def list_checkpoints(
    plan_id: Annotated[str, typer.Argument(help="The plan's id.")],
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
