"""A conversation with the runtime: shows what happens, asks the person, sends their answers.

What is shown comes from one stream, the session's own, in order and without gaps. Each message that
is sent opens a stream of its own, which tells when the answer to it is over; only then, and with
nothing left to ask, the command may end.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from gonogo.cli._answers import SENT_BACK, Answers
from gonogo.cli._escape import spoken
from gonogo.cli._exits import Exit
from gonogo.cli._outcome import Outcome
from gonogo.cli._setup import program
from gonogo.cli._show import Event, Screen
from gonogo.client import Client
from gonogo.domain.errors import GonogoError, Refused
from gonogo.texts import say

_BACKLOG = 1_000
_FAREWELL = 10.0
"""Seconds that the cancelling of what runs may take."""


@dataclass(frozen=True, slots=True)
class Over:
    """The answer to one message has ended, with the event of that seq."""

    seq: int


class Conversation:
    """One session, from this command's point of view."""

    def __init__(
        self,
        client: Client,
        session_id: str,
        screen: Screen,
        answers: Answers,
        *,
        after: int = 0,
    ) -> None:
        """Take part in a session.

        Args:
            after: The last event that is not news.
        """
        self._client = client
        self._session_id = session_id
        self._screen = screen
        self._answers = answers
        self._person, self._wish, self._locale = answers.person, answers.wish, answers.locale
        self._outcome = Outcome()
        self._open = 0
        self._seen = after
        self._due = 0

    async def carry(self, message: dict[str, Any]) -> Exit:
        """Send a message and see it through, with all that follows from it.

        Cancelled, it cancels what the message set going.
        """
        return await self._see_through(lambda: self._send(message))

    async def watch(self, act: Callable[[], Awaitable[object]]) -> Exit:
        """Do something that has no stream of its own, and see through what follows from it."""
        return await self._see_through(lambda: self._start(act))

    def know(self, approval_id: str) -> None:
        """Do not ask about an approval that has its answer on the way."""
        self._answers.know(approval_id)

    async def is_sent_back(self, plan_id: str) -> None:
        """Do not ask about a plan while its planner answers comments on it."""
        await self._answers.is_sent_back(plan_id)

    async def _see_through(self, begin: Callable[[], None]) -> Exit:
        settled = False
        try:
            async with anyio.create_task_group() as group:
                send, receive = anyio.create_memory_object_stream[Event | Over](_BACKLOG)
                self._group, self._into = group, send
                async with send, receive:
                    group.start_soon(self._follow, send.clone(), self._seen)
                    begin()
                    async for item in receive:
                        if await self._take(item):
                            break
                    group.cancel_scope.cancel()
            settled = True
        except Exception:
            settled = True
            raise
        finally:
            if not settled:
                await self._give_up()
        return self._end()

    async def _take(self, item: Event | Over) -> bool:
        """Take in what happened; whether that was the last of it."""
        match item:
            case Over(seq):
                self._open -= 1
                self._due = max(self._due, seq)
            case event:
                self._screen.show(event)
                self._outcome.note(event)
                self._seen = max(self._seen, event.get("seq", 0))
                if event["type"] == "plan_not_revised":
                    self._answers.comes_back(event["plan_id"])
                if _asks(event):
                    await self._ask()
        if self._open or self._seen < self._due:
            return False
        await self._ask()
        return not self._open

    async def _ask(self) -> None:
        for message in await self._answers.to_what_waits():
            if message["type"] == SENT_BACK:
                self._start(_is_done)
            else:
                self._send(message)
        if self._open or not self._outcome.question:
            return
        if message := await self._answers.to_question(self._outcome.question):
            self._send(message)

    def _send(self, message: dict[str, Any]) -> None:
        self._open += 1
        self._outcome.fresh()
        self._group.start_soon(self._tell, message, self._into.clone())

    def _start(self, act: Callable[[], Awaitable[object]]) -> None:
        self._open += 1
        self._group.start_soon(self._act, act, self._into.clone(), self._seen)

    async def _act(
        self,
        act: Callable[[], Awaitable[object]],
        into: MemoryObjectSendStream[Event | Over],
        after: int,
    ) -> None:
        """What follows from it ends with the first final event after those that are known."""
        async with into:
            events = self._client.follow(self._session_id, after)
            await act()
            async with aclosing(events):
                async for event in events:
                    if event.get("is_final") and "seq" in event:
                        await into.send(Over(event["seq"]))
                        return

    async def _tell(
        self, message: dict[str, Any], into: MemoryObjectSendStream[Event | Over]
    ) -> None:
        last = 0
        async with into:
            async for event in self._client.send(self._session_id, message):
                last = max(last, event.get("seq", 0))
                if event["type"] == "approval_voted" and event.get("is_final"):
                    self._answers.waits(event["metadata"]["approval_id"])
                if event["type"] == "error" and "seq" not in event:
                    await self._answers.refused(message, str(event.get("code")))
                    await into.send(event)
            await into.send(Over(last))

    async def _follow(self, into: MemoryObjectSendStream[Event | Over], after: int) -> None:
        async with into:
            async for event in self._client.follow(self._session_id, after):
                await into.send(event)

    def _end(self) -> Exit:
        for approval_id in self._answers.left:
            said = say("cli_waiting", self._locale, approval_id=approval_id)
            self._person.tell(
                said.replace("gonogo approvals", f"{self._wish.prefix}{program()} approvals")
            )
        if self._wish.plan_only and self._outcome.plan_id:
            return Exit.DONE
        if question := self._outcome.question:
            self._person.tell(
                f"{spoken(question)}\nThe session {self._session_id} waits for the answer."
            )
        if self._answers.left or question:
            return Exit.WAITS
        return self._outcome.exit

    async def _give_up(self) -> None:
        with anyio.move_on_after(_FAREWELL, shield=True), suppress(GonogoError):
            if self._outcome.plan_id:
                with suppress(Refused):
                    await self._client.cancel_plan(self._outcome.plan_id)
            async for _ in self._client.send(self._session_id, {"type": "cancel"}):
                pass
        self._person.tell(say("cli_interrupted", self._locale, session_id=self._session_id))


async def _is_done() -> None:
    """What there is to see through was set going already."""


def _asks(event: Event) -> bool:
    """Whether a person has now seen what they are to decide about."""
    if event["type"] in {"plan_notification", "plan_not_revised"}:
        return True
    return event["type"] == "approval_requested" and event["metadata"]["kind"] != "plan"
