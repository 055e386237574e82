"""What was said in a session before, shown to an editor that loads it."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gonogo.acp._calls import TOLD
from gonogo.acp._dialogue import Dialogue
from gonogo.acp._updates import Update, asked, said
from gonogo.client import Client
from gonogo.domain.errors import GonogoError
from gonogo.domain.plan_views import PlanView
from gonogo.domain.strict_json import loads
from gonogo.domain.views import MessageView, SessionView


async def replay(client: Client, dialogue: Dialogue, session: SessionView) -> None:
    """Show the conversation so far, and the plan as it stands."""
    history = await client.history(session.session_id)
    for message in history.messages:
        await dialogue.show(*_of(message, dialogue))
    plan = await _plan_of(client, session)
    if plan is not None:
        subtasks = [s.model_dump(mode="json", exclude_none=True) for s in plan.subtasks]
        await dialogue.show(
            dialogue.updates.board.show(plan.plan_id, plan.revision, subtasks, plan.critical_path)
        )


async def _plan_of(client: Client, session: SessionView) -> PlanView | None:
    if session.active_plan_id:
        return await client.plan(session.active_plan_id)
    found = await client.plans(session_id=session.session_id, limit=1)
    return next(iter(found.plans), None)


def _of(message: MessageView, dialogue: Dialogue) -> list[Update]:
    if message.role == "user":
        # What a subtask's agent was told is not what the user said.
        return [] if message.subtask_id else [asked(message.content)]
    if message.role == "tool":
        return _result(message, dialogue)
    where = f"[{message.subtask_id}] " if message.subtask_id else ""
    updates: list[Update] = [said(f"{where}{message.content}\n\n")] if message.content else []
    calls = [call for call in message.tool_calls or [] if call["name"] not in TOLD]
    return [*updates, *(_call(call, message, dialogue) for call in calls)]


def _call(call: Mapping[str, Any], message: MessageView, dialogue: Dialogue) -> Update:
    arguments: Mapping[str, Any] = call.get("arguments") or {}
    return dialogue.updates.call(call["id"], call["name"], arguments, message.subtask_id)


def _result(message: MessageView, dialogue: Dialogue) -> list[Update]:
    tool = message.tool_name or ""
    if tool in TOLD or message.call_id is None:
        return []
    result: object = message.content
    with suppress(GonogoError):
        result = loads(message.content)
    return [dialogue.updates.ended(message.call_id, tool, result, None)]
