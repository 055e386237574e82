"""The outermost layers: they check where a request comes from, answer 304, and catch exceptions.

`Host` must be a name of this server, which prevents DNS rebinding by pages from elsewhere;
`Origin`, where there is one, must be the server's own or one that the operator allows. An
unexpected exception is logged here and answered without its traceback.
"""

import logging
import os
import re
import socket
import sys
from asyncio import TimerHandle
from collections.abc import Collection
from hashlib import blake2b
from ipaddress import ip_address
from struct import Struct as Layout
from typing import Any, cast
from urllib.parse import urlsplit

import h11
from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from gonogo.domain.errors import Forbidden, Internal, because
from gonogo.domain.network import LOOPBACK
from gonogo.server.auth import Connections, Room
from gonogo.server.requests import problem_of

LINKS = "/d/"
"""The path of links that decide. Their address is the credential; cookies are ignored there."""
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound
_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_PEER = Layout("3i")
"""Process, user and group of the peer of a Unix socket (unix(7), SO_PEERCRED)."""
_KEPT = frozenset({b"cache-control", b"etag", b"vary", b"x-content-type-options"})
"""The headers that a 304 keeps (RFC 9110, section 15.4.5): none that describes the body."""
_NOT_AT_ALL = re.compile(r"q\s*=\s*0(\.0*)?")
_LOG = logging.getLogger("gonogo.server")


class Names(Struct, frozen=True, kw_only=True):
    """The names of this server, and the origins of the pages that may use it."""

    hosts: frozenset[str]
    origins: frozenset[str]
    any_address: bool
    """It listens on every interface: any IP address may be ours, and DNS cannot rebind one."""

    @classmethod
    def of(cls, bound: str, hosts: Collection[str], origins: Collection[str]) -> "Names":
        """The names of a server that listens on `bound`."""
        return cls(
            hosts=LOOPBACK | {name.lower() for name in (bound, *hosts) if name},
            origins=frozenset(origin.lower().rstrip("/") for origin in origins),
            any_address=bound in WILDCARDS,
        )

    def has(self, host: str) -> bool:
        """Whether a `Host` header names this server."""
        name = _name(host)
        if name is None:
            return False
        return name in self.hosts or (self.any_address and _is_address(name))


class Guard:
    """An ASGI app that lets through only what a browser cannot have forged."""

    def __init__(self, app: ASGIApp, names: Names) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one connection and hand it on."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await problem_of(Forbidden(refusal))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not is_local_socket(scope) and not self._names.has(host):
            return because(
                "{host!r} is not a name of this server; use the server's own address, or set "
                "GONOGO_PUBLIC_URL",
                host=host[:200],
            )
        own = f"{_SCHEMES[scope['scheme']]}://{host.lower()}"
        for origin in headers.getlist("origin"):
            if origin == "null" and scope.get("path", "").startswith(LINKS):
                # The form of a page without a referrer has the origin `null`; see `approvals`.
                continue
            if origin.lower() != own and origin.lower() not in self._names.origins:
                return because(
                    "The origin {origin!r} is not this server's; open the console at the "
                    "server's own address, or set GONOGO_PUBLIC_URL",
                    origin=origin[:200],
                )
        return None


class Packing:
    """Says to the layers within whether the client can read gzip.

    They only search for `gzip`, but `gzip;q=0` means that it cannot (RFC 9110, section 12.5.3).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through."""
        if scope["type"] == "http":
            headers = MutableHeaders(scope=scope)
            if "gzip" in (said := headers.get("accept-encoding", "").lower()):
                headers["accept-encoding"] = "gzip" if _takes_gzip(said) else "identity"
        await self._app(scope, receive, send)


def _takes_gzip(accepted: str) -> bool:
    for each in accepted.split(","):
        coding, *params = (part.strip() for part in each.split(";"))
        if coding == "gzip":
            return not any(_NOT_AT_ALL.fullmatch(param) for param in params)
    return False


class Shelter:
    """An ASGI app that answers for the exceptions of the one inside."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the inner app; log its exception, and answer if no answer has begun."""
        started, is_framed_twice = False, _is_framed_twice(scope)

        async def sender(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("cache-control", "no-store")
                headers.setdefault("x-content-type-options", "nosniff")
                if is_framed_twice:
                    headers["connection"] = "close"
            started = True
            await send(message)

        try:
            await self._app(scope, receive, sender)
        except ClientDisconnect:
            return
        except Exception:
            _LOG.exception("A request failed: %s", scope.get("path"))
            if not started:
                answer = problem_of(Internal())
                await answer(scope, receive, sender)


def _is_framed_twice(scope: Scope) -> bool:
    """Whether a proxy may see the request end at another byte than we do (RFC 9112, 6.1)."""
    names = {name for name, _ in scope.get("headers", ())}
    return scope["type"] == "http" and {b"content-length", b"transfer-encoding"} <= names


def is_local_socket(scope: Scope) -> bool:
    """Whether a request came by the Unix socket, so from the user whose process this is."""
    server = scope.get("server")
    return server is not None and server[1] is None


def _is_stranger(connection: Any) -> bool:  # noqa: ANN401 - asyncio's own
    """Whether the peer of a Unix socket is another user of this machine; root is not one."""
    if connection is None or connection.family != socket.AF_UNIX or sys.platform != "linux":
        return False
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, user, _ = _PEER.unpack(told)
    return user not in {os.geteuid(), 0}


def _name(host: str) -> str | None:
    if not host or any(character in "@/\\?#" or character.isspace() for character in host):
        return None
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return None
    return name.lower() if name else None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


# The head of a request, which must be complete within a time limit.
#
# uvicorn waits for it without a limit: somebody without a token could open connections, send
# nothing or one byte now and then, and so occupy all connections that the server may have.


class Heads(H11Protocol):
    """uvicorn's HTTP; it closes a connection if no complete head arrives in time."""

    def __init__(self, config: Any, *args: Any, room: Room, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(config, *args, **kwargs)
        self._seconds: float = config.app.state.door.limits.body
        self._held: Connections = config.app.state.door.connections
        self._room = room
        self._late: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Wait for the first head."""
        super().connection_made(transport)
        if _is_stranger(transport.get_extra_info("socket")):
            transport.abort()
            return
        self._held.admit(transport, self._room)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, and remove the connection from those that are held."""
        self._stop()
        self._held.left(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, and stop the timer once the head ends: the body has its own limit."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._stop()
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read, unless an answer has begun; stop any request under way."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Wait for the next request; close if it was sent before this answer (pipelining).

        No normal client does that, and one packet could contain a thousand requests.
        """
        if self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
            self.transport.close()
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Count the connection as idle: the other side does not read."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """Look at the connection again: the other side reads again."""
        super().resume_writing()
        self._look()

    def _look(self) -> None:
        """Record whether the connection is at work or idle; a WebSocket does this itself."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete and not self.flow.write_paused:
            self._held.works(self.transport)
        elif self.transport.get_protocol() is self:
            self._held.waits(self.transport)

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self._seconds, self.transport.close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class Conditional:
    """An ASGI app that answers a GET by 304 where `If-None-Match` names the answer.

    The tag of a JSON answer is a hash of its body (RFC 9110, sections 8.8.3 and 13.1.2), so it
    needs no version number and cannot be wrong: the view is made as always, and only its bytes are
    not sent again. The tag is weak, because the layer around this one may compress the bytes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; only a GET can get a 304."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        wanted = Headers(scope=scope).get("if-none-match", "")
        await self._app(scope, receive, _Tagged(send, wanted).take)


class _Tagged:
    """What is sent for one request; the head waits for the first part of the body."""

    def __init__(self, send: Send, wanted: str) -> None:
        self._send, self._wanted = send, wanted
        self._head: Message | None = None

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_whole_json(message):
            self._head = message
            return
        if self._head is not None:
            head, self._head = self._head, None
            await self._send(head if message.get("more_body") else self._tag(head, message))
        await self._send(message)

    def _tag(self, head: Message, body: Message) -> Message:
        tag = f'W/"{blake2b(body["body"], digest_size=16).hexdigest()}"'
        MutableHeaders(scope=head)["ETag"] = tag
        if not _names(self._wanted, tag):
            return head
        body["body"] = b""
        kept = [(name, value) for name, value in head["headers"] if name.lower() in _KEPT]
        return {**head, "status": 304, "headers": kept}


def _is_whole_json(message: Message) -> bool:
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return message["status"] == 200 and kind.startswith("application/json")


def _names(wanted: str, tag: str) -> bool:
    """Whether an `If-None-Match` names a tag, by weak comparison."""
    told = {each.strip().removeprefix("W/") for each in wanted.split(",")}
    return bool(told & {"*", tag.removeprefix("W/")})
