"""`gonogo steer`: say something to an agent while it works."""

from typing import Annotated

import typer

from gonogo.cli.arguments import Json, PlanId, SessionId, example
from gonogo.cli.commands import sessions
from gonogo.cli.language import own_locale
from gonogo.cli.support import Exit, carry_out

top = typer.Typer()
Words = Annotated[str, typer.Argument(metavar="TEXT", help="Your message.")]


@top.command(epilog=example('gonogo steer plan_0192 add-flag "Mind the tests"'))
def steer(
    plan_id: PlanId,
    subtask: Annotated[str, typer.Argument(help="The subtask's id.")],
    text: Words,
    json: Json = False,
) -> None:
    """Send a message to the agent of a running subtask.

    The agent reads it before its next request to the model. The message permits nothing new and
    restarts nothing.
    """
    carry_out(_steer_subtask, plan_id, subtask, text, json)


@sessions.app.command("steer", epilog=example('gonogo sessions steer s_0192 "Be brief"'))
def steer_turn(session_id: SessionId, text: Words, json: Json = False) -> None:
    """Send a message to the agent that is answering in a session."""
    carry_out(_steer_turn, session_id, text, json)


async def _steer_subtask(plan_id: str, subtask: str, text: str, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line
    from gonogo.i18n import term

    async with connected() as client:
        plan = await client.steer_subtask(plan_id, subtask, text)
    if json:
        return facts(plan)
    line(f"{plan.plan_id} {term('plan', plan.status, own_locale())}")
    return Exit.DONE


async def _steer_turn(session_id: str, text: str, json: bool) -> Exit:
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line

    async with connected() as client:
        steered = await client.steer_turn(session_id, text)
    if json:
        return facts(steered)
    line(steered.turn_id)
    return Exit.DONE
