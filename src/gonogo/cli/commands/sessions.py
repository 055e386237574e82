"""`gonogo sessions`: what has been talked about."""

from typing import TYPE_CHECKING, Annotated

import typer

from gonogo.cli.support import (
    Exit,
    Json,
    Limit,
    PlanId,
    SessionId,
    Stop,
    SubtaskId,
    Words,
    command,
    group,
    own_locale,
    own_words,
)

if TYPE_CHECKING:
    from gonogo.domain.views import MessageView


app = group("Sessions: conversations, each in one workspace.")


@command(app, "list", "gonogo sessions list --limit 5")
async def list_sessions(limit: Limit = 20, json: Json = False) -> Exit:
    """List sessions, newest first."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, table

    async with connected() as client:
        page = await client.sessions(limit=limit)
        if json:
            return facts(page)
        rows = [
            (s.session_id, s.agent, s.updated_at, s.title or "", s.workspace) for s in page.sessions
        ]
        return table(("session", "agent", "updated", "title", "workspace"), rows)


@command(app, "show", "gonogo sessions show s_0192")
async def show_session(session_id: SessionId, json: Json = False) -> Exit:
    """Show a session's messages, and what waits for you."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line, one_line, spoken

    async with connected() as client:
        history = await client.history(session_id)
        pending = await client.pending_approvals(session_id)
        if json:
            return facts({"history": history, "pending": pending})
        for message in history.messages:
            if message.content:
                line(f"{one_line(_speaker(message))}: {spoken(message.content)}")
        for approval in pending.pending_approvals:
            said = f"{approval.approval_id} {one_line(approval.subject, 1000)}"
            line(own_words("waits for you: {question}", question=said))
        return Exit.DONE


@command(app, "context", "gonogo sessions context s_0192")
async def show_context(session_id: SessionId, json: Json = False) -> Exit:
    """Show what the next request to the model would contain, by part and tokens."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import facts, line, one_line, table
    from gonogo.i18n import say

    async with connected() as client:
        found = await client.context(session_id)
    if json:
        return facts(found)
    told = {"agent": one_line(found.agent), "tokens": found.tokens}
    if found.window is None:
        line(say("cli_context", own_locale(), **told))
    else:
        percent = found.tokens * 100 // found.window
        line(say("cli_context_of", own_locale(), window=found.window, percent=percent, **told))
    rows = [(part.part, str(part.count), str(part.tokens)) for part in found.parts]
    return table(("part", "count", "tokens"), rows)


@command(app, "delete", "gonogo sessions delete s_0192")
async def delete_session(
    session_id: SessionId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> Exit:
    """Delete a session with everything in it; running work is stopped."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.folder import environment
    from gonogo.cli.session.live import ask
    from gonogo.cli.terminal.input import TerminalPerson
    from gonogo.cli.terminal.output import one_line, outcome
    from gonogo.i18n import say

    locale, named = own_locale(), one_line(session_id)
    if not yes:
        if not TerminalPerson(environment()).is_there:
            raise Stop(
                "There is no terminal to ask you on; add --yes to delete the session", Exit.USAGE
            )
        options = {
            "delete": say("cli_session_delete", locale), "keep": say("cli_session_keep", locale),
        }  # fmt: skip
        if await ask(say("cli_session_sure", locale, session=named), options) != "delete":
            return outcome({"session_id": session_id, "deleted": False}, json=json)
    async with connected() as client:
        await client.delete_session(session_id)
    said = say("cli_session_deleted", locale, session=named)
    return outcome({"session_id": session_id, "deleted": True}, said, json=json)


def _speaker(message: "MessageView") -> str:
    """Who said it; of a tool, which one to whom, and of what an agent was asked, to whom."""
    if message.role == "user":
        return f"→ {message.agent}" if message.subtask_id and message.agent else "user"
    return " → ".join(filter(None, (message.tool_name, message.agent)))


# `gonogo steer`: say something to an agent while it works.

top = typer.Typer()


@command(top, "steer", 'gonogo steer plan_0192 add-flag "Mind the tests"')
async def steer(
    plan_id: PlanId,
    subtask: SubtaskId,
    text: Words,
    json: Json = False,
) -> Exit:
    """Send a message to the agent of a running subtask.

    The agent reads it before its next request to the model. The message permits nothing new and
    restarts nothing.
    """
    from gonogo.cli.daemon import connected
    from gonogo.cli.session.interrupts import status_line
    from gonogo.cli.terminal.output import outcome

    async with connected() as client:
        plan = await client.steer_subtask(plan_id, subtask, text)
    return outcome(plan, status_line(plan), json=json)


@command(app, "steer", 'gonogo sessions steer s_0192 "Be brief"')
async def steer_turn(session_id: SessionId, text: Words, json: Json = False) -> Exit:
    """Send a message to the agent that is answering in a session."""
    from gonogo.cli.daemon import connected
    from gonogo.cli.terminal.output import outcome

    async with connected() as client:
        steered = await client.steer_turn(session_id, text)
    return outcome(steered, steered.turn_id, json=json)
