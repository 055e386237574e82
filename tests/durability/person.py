"""A person who sees the story through, from wherever it stands, over any line to gonogo.

What the person was told is kept, in a log that may outlive the person: events by their numbers,
and that a message or a decision was taken. All of it must be found in the database again.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import anyio

from durability.story import FIRST, SECOND, answer_to

PATIENCE = 60.0
"""Seconds without news after which something is stuck."""
Body = dict[str, Any]


class Line(Protocol):
    """A way to gonogo."""

    async def say(self, content: str) -> None:
        """Say something under a key of its own, so that a repeat is not a second message."""

    async def pending(self) -> list[Any]:
        """What waits for an answer."""

    async def decide(self, approval_id: str, fields: Body) -> None:
        """Answer it. That somebody was faster is no error."""

    def events(self, after: int) -> AbstractAsyncContextManager[AsyncIterator[Body]]:
        """The session's events."""


class Told:
    """What one person was told, over all the lives of the server."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._entries = [json.loads(line) for line in lines]

    def keep(self, **entry: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        self._entries.append(entry)

    @property
    def events(self) -> list[Body]:
        return [entry["event"] for entry in self._entries if "event" in entry]

    @property
    def decided(self) -> list[str]:
        return [entry["decided"] for entry in self._entries if "decided" in entry]

    @property
    def last(self) -> int:
        return self.events[-1]["seq"] if self.events else 0

    def has(self, kind: str) -> bool:
        return any(event["type"] == kind for event in self.events)

    def after_plan(self) -> list[Body]:
        """The last words of turns since the plan's end."""
        kinds = [event["type"] for event in self.events]
        end = kinds.index("plan_completed") if "plan_completed" in kinds else len(kinds)
        return [e for e in self.events[end + 1 :] if e.get("is_final") and "turn_id" in e]


class Person:
    """Someone who says two things and answers what is asked."""

    def __init__(
        self, line: Line, told: Told, workspace: Path, *, patience: float = PATIENCE
    ) -> None:
        self._line, self._told, self._workspace = line, told, workspace
        self._patience = patience
        self._said: set[str] = set()
        self._news = anyio.Event()

    async def see_through(self, on_event: Callable[[Body], None] = lambda body: None) -> None:
        """Drive the story to its end.

        Raises:
            TimeoutError: nothing happened for too long.
        """
        await self._say(FIRST)
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, on_event)
            while not await self._is_over():
                with anyio.fail_after(self._patience):
                    await self._news.wait()
            group.cancel_scope.cancel()

    async def _listen(self, on_event: Callable[[Body], None]) -> None:
        async with self._line.events(self._told.last) as events:
            async for body in events:
                if "seq" not in body:
                    continue
                self._told.keep(event=body)
                on_event(body)
                self._news.set()

    async def _is_over(self) -> bool:
        self._news = anyio.Event()
        for approval in await self._line.pending():
            await self._line.decide(approval.approval_id, answer_to(approval, self._workspace))
            self._told.keep(decided=approval.approval_id)
        if not self._told.has("plan_completed"):
            return False
        await self._say(SECOND)
        return bool(self._told.after_plan())

    async def _say(self, content: str) -> None:
        # Also what an earlier life has said: it may not know that it was heard.
        if content not in self._said:
            await self._line.say(content)
            self._said.add(content)
            self._told.keep(said=content)
