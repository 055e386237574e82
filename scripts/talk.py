"""A conversation with a runtime in this process, whose model is scripted."""

from typing import Any

import anyio

from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import parse_message
from gonogo.runtime import Runtime

ANN = Principal(id="user:ann", name="ann", role=Role.OPERATOR)


def calls(name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A line of the model: one call of a tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def plan_of(*subtasks: dict[str, Any]) -> dict[str, Any]:
    """The lines of those who make a plan of these subtasks."""
    return {
        "main/orchestrator": [calls("switch_mode", mode="architect"), {"text": "Done."}],
        "main/architect": [calls("create_plan", goal="A goal", subtasks=list(subtasks))],
    }


async def say(runtime: Runtime, session: str | None, **message: str) -> list[dict[str, Any]]:
    """Send a message. Gives its answer: the events up to the last."""
    with anyio.fail_after(60):
        receipt = await runtime.messages.accept(ANN, session, parse_message(message))
        async with runtime.streams.answer(receipt) as events:
            return [{**event} async for event in events]
