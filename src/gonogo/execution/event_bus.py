"""The hub: hands what happened in a session to those who follow it now.

A follower has a bounded buffer. When it is full, what is durable is dropped from it and read from
the database later, and what is live only (text as it is written) is lost to that follower alone.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio

from gonogo.domain.audit_chain import SYSTEM
from gonogo.domain.written_events import WrittenEvent
from gonogo.store.hints import TextPart

_LOG = logging.getLogger(__name__)
Body = Mapping[str, Any]
_BUFFER = 1_000


class Follower:
    """One reader's place in a session's stream."""

    def __init__(self) -> None:
        self.items: deque[Body | TextPart] = deque(maxlen=_BUFFER)
        self.seen = 0
        """The place in the log up to which the reader has it."""
        self.is_last = False
        """Whether nothing follows what is in `items`: the session is gone."""
        self.is_behind = False
        """Whether the log may have what was never handed over."""
        self._grew = anyio.Event()

    def push(self, item: Body | TextPart) -> None:
        """Add something, and wake the reader."""
        self.items.append(item)
        self._grew.set()

    def begin_texts(self, so_far: Sequence[Body]) -> None:
        """Have texts that are being written begin with what there is of them."""
        told = [item for item in self.items if isinstance(item, TextPart) or "seq" in item]
        self.items.clear()
        for item in (*told, *so_far):
            self.push(item)

    def wake(self) -> None:
        """Have the reader look again."""
        self._grew.set()

    async def wait(self) -> None:
        """Return at once if something was pushed since the last wait, else when it is."""
        await self._grew.wait()
        self._grew = anyio.Event()


class Onlooker:
    """One reader of the news: which sessions changed since they looked, and what was told there."""

    def __init__(self) -> None:
        self._changed: dict[str, set[str]] = {}
        self._grew = anyio.Event()

    def push(self, changed: Mapping[str, Collection[str]]) -> None:
        """Add what changed, and wake the reader."""
        for chain, types in changed.items():
            self._changed.setdefault(chain, set()).update(types)
        self._grew.set()

    async def take(self) -> dict[str, set[str]]:
        """What changed since the last time, by session; waited for where nothing did."""
        await self._grew.wait()
        self._grew, changed, self._changed = anyio.Event(), self._changed, {}
        return changed


class Hub:
    """Who follows which session in this process, and who looks at all of them."""

    def __init__(self) -> None:
        self._followers: dict[str, set[Follower]] = defaultdict(set)
        self._onlookers: set[Onlooker] = set()
        self._watchers: list[Callable[[Body], None]] = []
        self.on_follow: Callable[[str], None] = _nobody_else
        """Called when somebody begins to follow a session."""

    def follow(self, session_id: str) -> Follower:
        """Begin to follow a session; what is told from now on is pushed."""
        follower = Follower()
        self._followers[session_id].add(follower)
        self.on_follow(session_id)
        return follower

    def leave(self, session_id: str, follower: Follower) -> None:
        """Follow no longer."""
        followers = self._followers[session_id]
        followers.discard(follower)
        if not followers:
            del self._followers[session_id]

    @contextmanager
    def look_on(self) -> Generator[Onlooker]:
        """Be told for a while which sessions change."""
        onlooker = Onlooker()
        self._onlookers.add(onlooker)
        try:
            yield onlooker
        finally:
            self._onlookers.discard(onlooker)

    def tell_news(self, changed: Mapping[str, Collection[str]]) -> None:
        """Tell onlookers which sessions changed, and the types of the events that tell of it."""
        for onlooker in self._onlookers:
            onlooker.push(changed)

    def watch(self, *watchers: Callable[[Body], None]) -> None:
        """Have every durable event of every session told to functions, in this process."""
        self._watchers.extend(watchers)

    def tell(self, session_id: str, body: Body) -> None:
        """Push something to everybody who follows the session."""
        followers = self._followers.get(session_id)
        if followers:
            told = body if isinstance(body, WrittenEvent) else WrittenEvent({**body})
            for follower in followers:
                follower.push(told)

    def show(self, shown: TextPart | Body) -> None:
        """Push what another process has told, or a part of a text that is written there."""
        if isinstance(shown, TextPart):
            for follower in self._followers.get(shown.session_id, ()):
                follower.push(shown)
            return
        self.tell_news({SYSTEM: ()})
        self.tell(shown["session_id"], shown)

    def tell_event(self, body: Body) -> None:
        """Push a durable event, to the watchers too."""
        self.tell(body["session_id"], body)
        for watcher in self._watchers:
            try:
                watcher(body)
            except Exception:
                # Whoever only counts events must not keep them from those who wait for them.
                _LOG.exception("a watcher of events failed")

    @property
    def followed(self) -> list[str]:
        """The sessions that somebody follows here."""
        return list(self._followers)

    def told_elsewhere(self, session_id: str, seq: int | None = None) -> None:
        """Have those who follow a session look into its log: another process has written there.

        Args:
            seq: Where the log ends; who has read that far is left alone.
        """
        if seq is None:
            # What it wrote is known to whoever looks.
            self.tell_news({SYSTEM: ()})
        for follower in self._followers.get(session_id, ()):
            if seq is None or follower.seen < seq:
                follower.is_behind = True
                follower.wake()

    def end(self, session_id: str) -> None:
        """Have those who follow a session know that it is gone."""
        for follower in self._followers.get(session_id, ()):
            follower.is_last = True
            follower.wake()

    def refresh(self) -> None:
        """Have every reader look into the log: another process may have written there."""
        self.tell_news({SYSTEM: ()})
        for session_id in self._followers:
            self.told_elsewhere(session_id)

    def wake_all(self) -> None:
        """Have every reader look again: the process is about to end."""
        self.tell_news({})
        for followers in self._followers.values():
            for follower in followers:
                follower.wake()


def _nobody_else(session_id: str) -> None:
    """Where one process does all the work, it knows of its followers."""
