"""Who asks: the credential that a request shows, and the principal behind it.

A Bearer token takes precedence over a cookie. In a request that could change something, a cookie
counts only with the server's own `Origin`, because a browser adds cookies by itself. A token in a
query is ignored. Each authenticated principal may then send only a limited number of requests.
"""

import asyncio
import errno
import logging
import math
import os
import resource
import secrets
import socket
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import anyio
from fastapi import Depends, Request
from msgspec import Struct, field
from starlette.requests import HTTPConnection

from gonogo.domain.errors import Busy, Forbidden, InternalFailure, RateLimited, Unauthorized
from gonogo.domain.identity import Principal, secret_hash

if TYPE_CHECKING:
    from gonogo.runtime import Runtime

# The connections that a server holds: never more than there are descriptors for.
#
# A connection costs a descriptor, and its peer is not authenticated yet. If there is no room for
# another one, the connection that has been idle for longest is closed; if all are at work, the new
# one is told to try again. So idle connections, and those that read nothing, block nobody, and
# there are always descriptors left for what requests need.

MOST, LEAST = 10_000, 4
_SPARE = 256
"""Descriptors that are kept for everything else; fewer if the limit is low."""
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_BREATH = 0.1
_SAID_EVERY = 600.0
"""The shortest time in seconds between two log lines that there is no room."""
_READ = 65_536
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)
_LOG = logging.getLogger("gonogo.server")


def room_for_connections() -> int:
    """How many connections there are descriptors for; some are kept for other needs."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MOST
    free = limit - len(os.listdir("/dev/fd"))
    return max(LEAST, min(MOST, free - min(free // 2, _SPARE)))


class Room(Struct):
    """The connections that came in by one listener."""

    most: int
    held: int = 0
    waiting: "OrderedDict[asyncio.BaseTransport, None]" = field(
        default_factory=OrderedDict[asyncio.BaseTransport, None]
    )
    """Idle connections, the one that has waited for longest first."""


class Connections:
    """All connections of a server."""

    def __init__(self) -> None:
        """Begin with none."""
        self._rooms: dict[asyncio.BaseTransport, Room] = {}
        self._said = -_SAID_EVERY

    def admit(self, transport: asyncio.BaseTransport, room: Room) -> None:
        """Add a connection; it is idle at first."""
        self._rooms[transport] = room
        room.held += 1
        room.waiting[transport] = None

    def waits(self, transport: asyncio.BaseTransport) -> None:
        """Mark a connection as idle: it has no request, or does not read its answer."""
        if transport in self._rooms:
            self._rooms[transport].waiting[transport] = None

    def works(self, transport: asyncio.BaseTransport) -> None:
        """Mark a connection as at work."""
        if transport in self._rooms:
            self._rooms[transport].waiting.pop(transport, None)

    def left(self, transport: asyncio.BaseTransport) -> None:
        """Remove a connection that has ended."""
        room = self._rooms.pop(transport, None)
        if room is not None:
            room.held -= 1
            room.waiting.pop(transport, None)

    async def accept(
        self, listener: socket.socket, room: Room, made: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        """Take connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._make_room(room)
                    self._tell(error.strerror or str(error))
                await anyio.sleep(_BREATH)
                continue
            if room.held >= room.most and not self._make_room(room):
                self._tell(f"{room.held} connections are at work")
                _turn_away(taken)
                continue
            try:
                await loop.connect_accepted_socket(made, taken)
            except OSError:
                taken.close()

    def _make_room(self, room: Room) -> bool:
        """Close the connection that has been idle for longest; False if none is idle."""
        if not room.waiting:
            return False
        transport = next(iter(room.waiting))
        self.left(transport)
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()
        return True

    def _tell(self, why: str) -> None:
        if monotonic() - self._said >= _SAID_EVERY:
            self._said = monotonic()
            _LOG.warning("No room for more connections: %s; some are turned away", why)


def _turn_away(taken: socket.socket) -> None:
    """Answer that there is no room; unread bytes would cause a reset before the answer."""
    with taken, suppress(OSError):
        with suppress(BlockingIOError):
            taken.recv(_READ)
        taken.send(_BUSY)


# How a browser gets in: a code that works once.
#
# Codes live only in this process and end with it, or in the database if several servers share one.
# The browser sessions that they are exchanged for outlive the process. Only hashes of codes are
# kept, so nobody can log in with what is in the process's memory.

CODE_SECONDS = 600.0
KEPT = 1_000


class _Entry(Struct, frozen=True, kw_only=True):
    principal: Principal
    until: float


class Codes:
    """Login codes that nobody has used yet."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def new(self, principal: Principal) -> str:
        """A code that lets one browser in as `principal` within ten minutes."""
        code = secrets.token_urlsafe(32)
        entry = _Entry(principal=principal, until=self._clock() + CODE_SECONDS)
        self._entries[secret_hash(code)] = entry
        if len(self._entries) > KEPT:
            self._entries.popitem(last=False)
        return code

    def spend(self, code: str) -> Principal:
        """Whom a code lets in, this once.

        Raises:
            Unauthorized: there is no such code, it was used, or it is too old.
        """
        entry = self._entries.pop(secret_hash(code), None)
        if entry is None or entry.until < self._clock():
            raise Unauthorized(
                "This login code is not valid: each code works once, for ten minutes; get a "
                "new link from gonogo serve"
            )
        return entry.principal


# How often one address may be wrong about a credential, and how much one principal may ask.
#
# A valid credential never waits because others were wrong; after too many wrong ones in a minute,
# senders of further wrong ones are told to wait. Each request counts in one of three buckets, so
# that a principal who floods the server with messages can still decide and cancel. The memory for
# this is bounded, whatever the number of addresses and principals.

ALLOWED = 20
WINDOW = 60.0
ADDRESSES = 4_096
PRINCIPALS = 4_096
BURST = 4
"""Seconds of requests that may come at once after a pause."""
_NEARLY = 1e-6
"""The tolerance for rounding errors in sums of fractions of a request."""


class Failures:
    """Wrong credentials, counted for each address over a minute."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, address: str) -> None:
        """Count one more.

        Raises:
            RateLimited: it was one too many.
        """
        now = self._clock()
        since, count = self._counts.pop(address, (now, 0))
        if now - since > WINDOW:
            since, count = now, 0
        self._counts[address] = since, count + 1
        if len(self._counts) > ADDRESSES:
            self._counts.popitem(last=False)
        if count >= ALLOWED:
            raise RateLimited("Too many wrong credentials from this address; wait a minute")


class TooFast(RateLimited):
    """A principal asked for more than its share; waiting helps."""

    def __init__(self, what: str, seconds: int) -> None:
        super().__init__("Too many {what}; try again in {seconds} s", what=what, seconds=seconds)
        self.seconds = seconds


class Bucket:
    """What each principal may still ask for: it fills steadily, up to a burst."""

    def __init__(
        self, what: str, rate: float, burst: float, clock: Callable[[], float] = monotonic
    ) -> None:
        """Make a bucket for each principal, full at first.

        Args:
            what: What is counted, in the plural.
            rate: How many a second; 0 is no limit.
            burst: How many at once; at least one.
        """
        self._what, self._rate, self._burst, self._clock = what, rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, principal_id: str) -> None:
        """Count one more.

        Raises:
            TooFast: it was one too many, and counts for nothing.
        """
        if self._rate == 0:
            return
        now = self._clock()
        left, since = self._left.pop(principal_id, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        is_enough = left >= 1 - _NEARLY
        self._left[principal_id] = left - is_enough, now
        # The principal who has asked for nothing for longest has the fullest bucket; forget it.
        if len(self._left) > PRINCIPALS:
            self._left.popitem(last=False)
        if not is_enough:
            raise TooFast(self._what, max(1, ceil((1 - left) / self._rate - _NEARLY)))


class Rates(Struct, frozen=True, kw_only=True):
    """The buckets of a door. Whatever is asked counts in exactly one of them."""

    requests: Bucket
    messages: Bucket
    """What starts work: a user's message, a switch of the agent."""
    decisions: Bucket
    """Decisions, cancels and pauses: a person who wants to stop something is heard."""

    @classmethod
    def of(cls, *, requests: int, messages: int, clock: Callable[[], float] = monotonic) -> "Rates":
        """The buckets for so many requests a second and messages a minute; 0 is no limit."""
        return cls(
            requests=Bucket("requests", requests, BURST * requests, clock),
            messages=Bucket("messages", messages / 60, messages, clock),
            decisions=Bucket("decisions", requests, BURST * requests, clock),
        )


# What all requests share: the runtime, the limits of this door, and who may come in.

_FRESH = _GLANCE = 1.0


class WaitLimits(Struct, frozen=True, kw_only=True):
    """How long this door waits for people and their programs, in seconds."""

    body: float = 30.0
    """For the head of a request to arrive, and then for its body."""
    auth: float = 5.0
    """For the first frame of a WebSocket that came without a token."""
    write: float = 60.0
    """For a reader to take a stream's next bytes, before it is cut off."""
    gone: float = 120.0
    """For a connection to read anything, before it is dropped with its unsent bytes."""
    heartbeat: float = 15.0
    """Between the comments that keep an idle stream open."""


class Credential(Struct, frozen=True, kw_only=True):
    """What a request shows of itself: a token, or a browser session's secret."""

    token: str | None = None
    session: str | None = None


class Readiness:
    """Whether the server can work, checked once for all who ask at the same moment.

    The check writes to the database, and no token is needed to ask for it.
    """

    def __init__(self) -> None:
        self._looked_at = -math.inf
        self._found = False
        self._free = anyio.Lock()

    async def is_given(self, check: Callable[[], Awaitable[None]]) -> bool:
        """Whether a check succeeded that is not older than a second.

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


class ServerState(Struct, kw_only=True):
    """The runtime behind a server, and what the server itself remembers."""

    runtime: "Runtime"
    auth: bool = True
    limits: WaitLimits = field(default_factory=WaitLimits)
    rates: Rates
    failures: Failures = field(default_factory=Failures)
    codes: Codes = field(default_factory=Codes)
    connections: Connections = field(default_factory=Connections)
    readiness: Readiness = field(default_factory=Readiness)
    _locks: dict[tuple[str, str], tuple[anyio.Lock, int]] = field(
        default_factory=dict[tuple[str, str], tuple[anyio.Lock, int]]
    )
    _changed: anyio.Event = field(default_factory=anyio.Event)

    async def new_code(self, principal: Principal) -> str:
        """A code that lets one browser in as `principal` within ten minutes, at any server."""
        if self.runtime.hears_within == math.inf:
            return self.codes.new(principal)
        code = secrets.token_urlsafe(32)
        await self.runtime.people.keep_code(principal, code, CODE_SECONDS)
        return code

    async def spend_code(self, code: str) -> Principal:
        """Whom a code lets in, this once.

        Raises:
            Unauthorized: there is no such code, it was used, or it is too old.
        """
        if self.runtime.hears_within < math.inf:
            found = await self.runtime.people.spend_code(code)
            if found is not None:
                return found
        return self.codes.spend(code)

    async def identify(self, credential: Credential | None, address: str) -> Principal:
        """Whose credential this is; without authentication, the owner's.

        Raises:
            Unauthorized: it is none.
            RateLimited: it is none, and this address was wrong too often.
        """
        if not self.auth:
            return self.runtime.owner
        if credential is None:
            raise _no_token()
        try:
            return await self._holder(credential)
        except Unauthorized:
            self.failures.add(address)
            raise

    def credentials_changed(self) -> None:
        """Have every open stream check its credential again, because somebody's has ended."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def ended(self, credential: Credential | None, principal: Principal) -> None:
        """Wait until a valid credential is no longer valid: revoked or expired."""
        while (left := self.runtime.people.seconds_left(principal)) > 0:
            changed = self._changed
            if self.auth and credential is not None and not await self._is_valid(credential):
                return
            await self._look_away(changed, left)

    async def _look_away(self, changed: anyio.Event, left: float) -> None:
        """Wait until a credential may have ended: somebody's was revoked, or time went by."""
        # Only the provider's tokens expire. The clock may be changed, and timers stop while the
        # machine sleeps, so the time that is left is checked every second.
        longest = _GLANCE if left < math.inf else self.runtime.hears_within
        with anyio.move_on_after(min(left, longest)):
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
            return await self.runtime.people.authenticate(credential.token)
        return await self.runtime.people.find_login(credential.session or "")

    async def _is_valid(self, credential: Credential) -> bool:
        try:
            await self._holder(credential)
        except Unauthorized:
            return False
        except InternalFailure:
            # It was valid, and cannot be checked now. It still ends when it expires.
            return True
        return True


_URGENT = frozenset({"decision", "decisions", "cancel", "pause"})
"""The last words of the paths by which a person decides or stops something."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Caller(Struct, frozen=True, kw_only=True):
    """One request's sender."""

    door: ServerState
    principal: Principal
    credential: Credential | None
    request: Request

    @property
    def runtime(self) -> "Runtime":
        """The verbs."""
        return self.door.runtime


def door_of(connection: HTTPConnection) -> ServerState:
    """The door that a connection came through."""
    door: ServerState = connection.app.state.door
    return door


def address_of(connection: HTTPConnection) -> str:
    """Where a connection comes from, as the failure counter knows it."""
    return connection.client.host if connection.client else "local"


def cookie_name(connection: HTTPConnection) -> str:
    """The name of the session cookie. It has the port: browsers share cookies between ports."""
    server = connection.scope.get("server")
    return f"gonogo_{server[1] if server else 0}"


def presented(connection: HTTPConnection) -> Credential | None:
    """The credential that a request shows, if any.

    Raises:
        Unauthorized: its `Authorization` is of another kind.
        Forbidden: it shows a cookie, and does not come from this server's own page.
    """
    header = connection.headers.get("authorization")
    if header is not None:
        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise _no_token()
        return Credential(token=token.strip())
    secret = connection.cookies.get(cookie_name(connection))
    if secret is None:
        return None
    if not _is_own_page(connection):
        raise Forbidden(
            "A request with a cookie must come from a page of this server; open the console at "
            "the server's address, or send a token"
        )
    return Credential(session=secret)


async def caller_of(request: Request) -> Caller:
    """Authenticate a request.

    Raises:
        Unauthorized: it shows no valid credential.
    """
    door = door_of(request)
    credential = presented(request) if door.auth else None
    principal = await door.identify(credential, address_of(request))
    return Caller(door=door, principal=principal, credential=credential, request=request)


async def admitted(request: Request) -> Caller:
    """Authenticate a request, and count it.

    Raises:
        Unauthorized: it shows no valid credential.
        TooFast: its principal asks too much.
    """
    caller = await caller_of(request)
    _bucket(request, caller.door).take(caller.principal.id)
    return caller


Known = Annotated[Caller, Depends(caller_of)]
"""The sender of a request whose bucket depends on its body."""
Authenticated = Annotated[Caller, Depends(admitted)]


def _bucket(request: Request, door: ServerState) -> Bucket:
    word = request.url.path.rpartition("/")[2]
    is_urgent = request.method == "POST" and word in _URGENT
    return door.rates.decisions if is_urgent else door.rates.requests


def _is_own_page(connection: HTTPConnection) -> bool:
    # A foreign Origin was refused before; browsers leave it out of a page's own GETs.
    if "origin" in connection.headers:
        return True
    if connection.scope["type"] == "websocket" or connection.scope["method"] not in _READING:
        return False
    return connection.headers.get("sec-fetch-site") in {None, "none", "same-origin"}


def _no_token() -> Unauthorized:
    return Unauthorized(
        "This needs a token (Authorization: Bearer <token>); create one: gonogo token create"
    )
