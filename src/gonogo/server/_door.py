"""What all requests share: the runtime, the limits of this door, and who may come in."""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from gonogo.domain.errors import Busy, Failed, Unauthorized
from gonogo.domain.identity import Principal
from gonogo.server._codes import Codes
from gonogo.server._limits import Failures, Rates
from gonogo.server.connections import Connections

if TYPE_CHECKING:
    from gonogo.runtime import Runtime

_FRESH = _GLANCE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long this door waits for people and their programs, in seconds."""

    body: float = 30.0
    """For the head of a request to arrive, and then for its body."""
    auth: float = 5.0
    """For the first frame of a WebSocket that came without a token."""
    write: float = 60.0
    """For a reader to take a stream's next bytes, before it is cut off."""
    gone: float = 120.0
    """For a connection to take anything, before it is dropped with what it was to be told."""
    heartbeat: float = 15.0
    """Between the comments that keep an idle stream open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a request shows of itself: a token, or a browser session's secret."""

    token: str | None = None
    session: str | None = None


class Readiness:
    """Whether the server can work, looked at once however many ask at the same moment.

    Looking is a write, and whoever asks needs no token.
    """

    def __init__(self) -> None:
        self._looked_at = -math.inf
        self._found = False
        self._free = anyio.Lock()

    async def is_given(self, check: Callable[[], Awaitable[None]]) -> bool:
        """Whether a check came through that is not older than a second.

        Args:
            check: Raises `Busy` when the server cannot work.
        """
        async with self._free:
            if anyio.current_time() > self._looked_at + _FRESH:
                self._found = await _comes_through(check)
                self._looked_at = anyio.current_time()
            return self._found


async def _comes_through(check: Callable[[], Awaitable[None]]) -> bool:
    try:
        await check()
    except Busy:
        return False
    return True


@dataclass(slots=True, kw_only=True)
class Door:
    """The runtime behind a server, and what the server itself remembers."""

    runtime: "Runtime"
    auth: bool = True
    limits: Limits = field(default_factory=Limits)
    rates: Rates
    failures: Failures = field(default_factory=Failures)
    codes: Codes = field(default_factory=Codes)
    connections: Connections = field(default_factory=Connections)
    readiness: Readiness = field(default_factory=Readiness)
    _locks: dict[tuple[str, str], tuple[anyio.Lock, int]] = field(
        default_factory=dict[tuple[str, str], tuple[anyio.Lock, int]]
    )
    _changed: anyio.Event = field(default_factory=anyio.Event)

    async def identify(self, credential: Credential | None, address: str) -> Principal:
        """Whose credential this is; without authentication, the owner's.

        Raises:
            Unauthorized: it is none.
            RateLimited: it is none, and this address was wrong too often.
        """
        if not self.auth:
            return self.runtime.owner
        if credential is None:
            raise Unauthorized("This needs a token: Authorization: Bearer <token>")
        try:
            return await self._holder(credential)
        except Unauthorized:
            self.failures.add(address)
            raise

    def credentials_changed(self) -> None:
        """Somebody's credential ended: have every open stream look at its own again."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def ended(self, credential: Credential | None, principal: Principal) -> None:
        """Wait until a credential that was valid is not any more: revoked, or over by itself."""
        while (left := self.runtime.seconds_left(principal)) > 0:
            changed = self._changed
            if self.auth and credential is not None and not await self._is_valid(credential):
                return
            await self._look_away(changed, left)

    async def _look_away(self, changed: anyio.Event, left: float) -> None:
        """Wait until a credential may have ended: somebody's was revoked, or time went by."""
        # Only the provider's tokens have an end of their own. The clock may be set, and a machine
        # that sleeps counts no seconds: so it is looked at.
        with anyio.move_on_after(left if left == math.inf else min(left, _GLANCE)):
            await changed.wait()

    @asynccontextmanager
    async def one_at_a_time(self, principal_id: str, key: str) -> AsyncGenerator[None]:
        """Hold an idempotency key, so that a request and its repeat do not race."""
        name = principal_id, key
        lock, waiting = self._locks.get(name, (anyio.Lock(), 0))
        self._locks[name] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            _, waiting = self._locks[name]
            if waiting == 1:
                del self._locks[name]
            else:
                self._locks[name] = lock, waiting - 1

    async def _holder(self, credential: Credential) -> Principal:
        if credential.token is not None:
            return await self.runtime.authenticate(credential.token)
        return await self.runtime.logged_in(credential.session or "")

    async def _is_valid(self, credential: Credential) -> bool:
        try:
            await self._holder(credential)
        except Unauthorized:
            return False
        except Failed:
            # It was valid, and nobody can say now that it is not; its own end still holds.
            return True
        return True
