"""Make the demo's cassettes anew: src/gonogo/demo/LOCALE.jsonl.gz, one for each language.

    PYTHONPATH=src .venv/bin/python scripts/demo_cassettes.py

The demo is carried out once for each language, with the story's script as the model. A test
compares what comes of it with what is there, so run this after a change of a prompt, of a tool, or
of the story.
"""

import tempfile
from pathlib import Path
from typing import Any

import anyio

from gonogo import demo
from gonogo.domain.messages import parse_message
from gonogo.domain.tool_calls import ModelRequest, Reply
from gonogo.llm import Model, OnText
from gonogo.llm.scripted import DEMO, HttpExchange, ScriptedModel, demo_model, exchange_of, packed
from gonogo.runtime import Runtime
from gonogo.settings import Settings

FOLDER = Path(demo.__file__).parent
LIMIT = 120
"""Seconds that the demo may take."""


class Taped:
    """The story, and what it was asked."""

    def __init__(self, script: ScriptedModel) -> None:
        self.name, self.window, self._script = script.name, script.window, script
        self.exchanges: list[HttpExchange] = []

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Answer a request as the story does, and keep both."""
        line = dict(self._script.next_line(request))
        self.exchanges.append(exchange_of(request, line))
        return await self._script.answer(line, request, on_text)

    async def aclose(self) -> None:
        """There is nothing to close."""


async def carried_out(folder: Path, locale: str, model: Model | None) -> Runtime:
    """The runtime after a demo in which a person approves all that they are asked.

    Args:
        model: None is the demo's own.
    """
    project = folder / "tally"
    demo.lay_out(project)
    settings = Settings(
        home=folder / "home", config=folder / "config", workspace=project, model=DEMO,
        locale=locale,
    )  # fmt: skip
    with anyio.fail_after(LIMIT):
        async with Runtime.open(settings, model=model) as runtime:
            task = {"type": "user_message", "content": demo.TASKS[locale]}
            session = await _say(runtime, None, task)
            async with runtime.streams.follow(runtime.owner, session, 0) as events:
                async for event in events:
                    if event["type"] == "approval_requested":
                        await _approve(runtime, session)
                    if event["type"] == "plan_completed":
                        return runtime
    raise SystemExit("the demo came to no end")


async def _say(runtime: Runtime, session: str | None, message: dict[str, Any]) -> str:
    accepted = await runtime.messages.accept(runtime.owner, session, parse_message(message))
    return accepted.session_id


async def _approve(runtime: Runtime, session: str) -> None:
    found = await runtime.sessions.pending(runtime.owner, session)
    for asked in found.pending_approvals:
        about = (
            {"type": "hitl_decision", "call_id": asked.call_id}
            if asked.call_id
            else {"type": "plan_decision", "plan_id": asked.plan_id}
        )
        await _say(runtime, session, {**about, "decision": "approve"})


def recorded(locale: str) -> list[HttpExchange]:
    """What one run of the demo asks, in an order of its own."""
    taped = Taped(demo_model())
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(carried_out, Path(folder), locale, taped)
    return sorted(taped.exchanges, key=lambda each: each.body)


def main() -> None:
    """Write them."""
    for locale in demo.TASKS:
        (FOLDER / f"{locale}.jsonl.gz").write_bytes(packed(recorded(locale)))


if __name__ == "__main__":
    main()
