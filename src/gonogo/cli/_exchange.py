"""The streams of a session: its own, and one for each message that is sent to it.

What happened comes from the session's own, in order and without gaps. Those of messages tell only
when the answers to them are over.
"""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from gonogo.cli._answers import Answers
from gonogo.cli._show import Event
from gonogo.client import Client

T = TypeVar("T")
_BACKLOG = 1_000


@dataclass(frozen=True, slots=True)
class Over:
    """The answer to one message has ended, with the event of that seq."""

    seq: int


Item = Event | Over


class Exchange:
    """What is sent in a session, and what comes.

    Args:
        seen: The last event that is not news.
        due: The event up to which there is no end.
    """

    def __init__(
        self, client: Client, session_id: str, answers: Answers, *, seen: int, due: int
    ) -> None:
        self._client, self._session_id, self._answers = client, session_id, answers
        self.seen, self._due = seen, due
        self.open = 0
        """Answers that are not over."""
        self._late: deque[Item] = deque()
        self._waiting: anyio.CancelScope | None = None

    @asynccontextmanager
    async def begun(self, beside: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
        """Follow the session for the time of a block, and do something beside."""
        async with anyio.create_task_group() as group:
            send, receive = anyio.create_memory_object_stream[Item](_BACKLOG)
            self._group, self._into, self._items = group, send, receive
            async with send, receive:
                group.start_soon(self._follow, send.clone(), self.seen)
                group.start_soon(beside)
                yield
                group.cancel_scope.cancel()

    def end(self) -> None:
        """End the block, wherever it is."""
        self._group.cancel_scope.cancel()

    @property
    def is_busy(self) -> bool:
        """Whether more is to come, of what was sent or of what has happened."""
        return bool(self.open or self._late or self.seen < self._due)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self.open += 1
        self._group.start_soon(self._tell, message, self._into.clone())

    def start(self, act: Callable[[], Awaitable[object]], after: int | None = None) -> None:
        """Do something that has no stream of its own.

        Args:
            after: Its end is the first final event after that; by default, after what is known.
        """
        self.open += 1
        since = max(self.seen, self._due) if after is None else after
        self._group.start_soon(self._act, act, self._into.clone(), since)

    async def next(self) -> Item | None:
        """What happened next; None where that is interrupted."""
        if self._late:
            return self._late.popleft()
        with anyio.CancelScope() as self._waiting:
            return await self._items.receive()
        return None

    def interrupt(self) -> None:
        """Have nobody wait for what happens next."""
        if self._waiting is not None:
            self._waiting.cancel()

    def note(self, item: Item) -> None:
        """Something has been taken in."""
        if isinstance(item, Over):
            self.open -= 1
            self._due = max(self._due, item.seq)
        else:
            self.seen = max(self.seen, item.get("seq", 0))

    async def hearing(self, ask: Callable[[], Awaitable[T]], hear: Callable[[Item], bool]) -> T:
        """Do something, and hear meanwhile what happens.

        Args:
            hear: Takes an item in, or leaves it for later.
        """

        async def listen() -> None:
            while True:
                item = await self._items.receive()
                if not hear(item):
                    self._late.append(item)

        answers: list[T] = []
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            answers.append(await ask())
            group.cancel_scope.cancel()
        return answers[0]

    async def _act(
        self,
        act: Callable[[], Awaitable[object]],
        into: MemoryObjectSendStream[Item],
        after: int,
    ) -> None:
        """What follows from it ends with the first final event after those that are known."""
        async with into:
            events = self._client.follow(self._session_id, after)
            await act()
            async with aclosing(events):
                async for event in events:
                    if "seq" in event and _ends(event):
                        await into.send(Over(event["seq"]))
                        return

    async def _tell(self, message: dict[str, Any], into: MemoryObjectSendStream[Item]) -> None:
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

    async def _follow(self, into: MemoryObjectSendStream[Item], after: int) -> None:
        async with into:
            async for event in self._client.follow(self._session_id, after):
                await into.send(event)


def _ends(event: Event) -> bool:
    held = event["type"] == "plan_approved" and bool(event["metadata"].get("held"))
    return held or bool(event.get("is_final"))
