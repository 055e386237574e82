"""Traffic: who may change the files of one workspace at the same time.

Calls that say what they change share a workspace. One that may change anything has it alone, so
that what changed meanwhile is its own doing, or a person's. Whoever comes first goes first. It
holds within one process, and only while a call runs: nobody waits for a person here.
"""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec import Struct, field


class _Place(Struct):
    alone: bool
    turn: anyio.Event = field(default_factory=anyio.Event)


class _Way(Struct):
    """The way into one workspace."""

    inside: int = 0
    closed: bool = False
    queue: deque[_Place] = field(default_factory=deque[_Place])

    async def enter(self, *, alone: bool) -> None:
        place = _Place(alone)
        self.queue.append(place)
        self._let_in()
        entered = False
        try:
            await place.turn.wait()
            entered = True
        finally:
            if not entered:
                self._give_up(place)

    def leave(self) -> None:
        self.inside -= 1
        self.closed = False
        self._let_in()

    def _give_up(self, place: _Place) -> None:
        if place.turn.is_set():
            self.leave()
            return
        self.queue.remove(place)
        self._let_in()

    def _let_in(self) -> None:
        while self.queue and self._has_room(self.queue[0]):
            place = self.queue.popleft()
            self.inside += 1
            self.closed = place.alone
            place.turn.set()

    def _has_room(self, place: _Place) -> bool:
        return not self.closed and (self.inside == 0 or not place.alone)


class Traffic:
    """The ways into any number of workspaces."""

    def __init__(self) -> None:
        self._ways: dict[Path, _Way] = {}
        self._entered: dict[Path, int] = {}
        """How often anybody has entered a workspace."""

    @asynccontextmanager
    async def shared(self, root: Path) -> AsyncGenerator[None]:
        """Change files beside others that do."""
        async with self._inside(root, alone=False):
            yield

    def is_closed(self, root: Path) -> bool:
        """Whether somebody changes files alone, or waits to. May be called in any thread."""
        way = self._ways.get(root)
        return way is not None and (way.closed or bool(way.queue))

    def mark(self, root: Path) -> int | None:
        """A number that stays the same until somebody enters; None: somebody is inside."""
        return None if root in self._ways else self._entered.get(root, 0)

    def is_untouched(self, root: Path, mark: int) -> bool:
        """Whether nobody has been inside since a mark, but who is there and asks."""
        return self._entered.get(root, 0) == mark + 1

    @asynccontextmanager
    async def alone(self, root: Path) -> AsyncGenerator[None]:
        """Change files while nobody else does."""
        async with self._inside(root, alone=True):
            yield

    @asynccontextmanager
    async def _inside(self, root: Path, *, alone: bool) -> AsyncGenerator[None]:
        way = self._ways.setdefault(root, _Way())
        await way.enter(alone=alone)
        self._entered[root] = self._entered.get(root, 0) + 1
        try:
            yield
        finally:
            way.leave()
            if not way.inside and not way.queue:
                self._ways.pop(root, None)
