"""The hub: hands what happened in a session to those who follow it now.

A follower has a bounded buffer. When it is full, what is durable is dropped from it and read from
the database later, and what is live only (text as it is written) is lost to that follower alone.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import anyio

from gonogo.domain.events import Broadcast

_LOG = logging.getLogger(__name__)
Body = dict[str, Any]
_BUFFER = 1_000


class Follower:
    """One reader's place in a session's stream."""

    def __init__(self) -> None:
        self.items: deque[Body] = deque(maxlen=_BUFFER)
        self.is_last = False
        """Whether nothing follows what is in `items`: the session is gone."""
        self.is_behind = False
        """Whether the log may have what was never handed over."""
        self._grew = anyio.Event()

    def push(self, body: Body) -> None:
        """Add something, and wake the reader."""
        self.items.append(body)
        self._grew.set()

    def wake(self) -> None:
        """Have the reader look again."""
        self._grew.set()

    async def wait(self) -> None:
        """Return at once if something was pushed since the last wait, else when it is."""
        await self._grew.wait()
        self._grew = anyio.Event()


class Hub:
    """Who follows which session in this process."""

    def __init__(self) -> None:
        self._followers: dict[str, set[Follower]] = defaultdict(set)
        self._watchers: list[Callable[[Body], None]] = []

    def follow(self, session_id: str) -> Follower:
        """Begin to follow a session; what is told from now on is pushed."""
        follower = Follower()
        self._followers[session_id].add(follower)
        return follower

    def leave(self, session_id: str, follower: Follower) -> None:
        """Follow no longer."""
        followers = self._followers[session_id]
        followers.discard(follower)
        if not followers:
            del self._followers[session_id]

    def watch(self, watcher: Callable[[Body], None]) -> None:
        """Have every durable event of every session told to a function, in this process."""
        self._watchers.append(watcher)

    def tell(self, session_id: str, body: Body) -> None:
        """Push something to everybody who follows the session."""
        followers = self._followers.get(session_id)
        if followers:
            told = Broadcast(body)
            for follower in followers:
                follower.push(told)

    def tell_event(self, body: Body) -> None:
        """Push a durable event, to the watchers too."""
        self.tell(body["session_id"], body)
        for watcher in self._watchers:
            try:
                watcher(body)
            except Exception:
                # Whoever only counts events must not keep them from those who wait for them.
                _LOG.exception("a watcher of events failed")

    def end(self, session_id: str) -> None:
        """Have those who follow a session know that it is gone."""
        for follower in self._followers.get(session_id, ()):
            follower.is_last = True
            follower.wake()

    def refresh(self) -> None:
        """Have every reader look into the log: another process may have written there."""
        for followers in self._followers.values():
            for follower in followers:
                follower.is_behind = True
                follower.wake()

    def wake_all(self) -> None:
        """Have every reader look again: the process is about to end."""
        for followers in self._followers.values():
            for follower in followers:
                follower.wake()
