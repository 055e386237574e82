"""The outermost layers: whom a browser speaks for, what it has already, and our mistakes.

`Host` must be a name of this server, or a page from elsewhere could be rebound to it; `Origin`,
where there is one, must be the server's own. An unexpected exception is logged here and
answered without its traceback.
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
"""Where links that decide are. Their address is the credential, so a cookie is never looked at."""
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound
_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_PEER = Layout("3i")
"""Process, user and group of who is at the other end of a Unix socket (unix(7), SO_PEERCRED)."""
_KEPT = frozenset({b"cache-control", b"etag", b"vary", b"x-content-type-options"})
"""The headers that a 304 has (RFC 9110, section 15.4.5): those of the answer but for its body's."""
_NOT_AT_ALL = re.compile(r"q\s*=\s*0(\.0*)?")
_LOG = logging.getLogger("gonogo.server")


class Names(Struct, frozen=True, kw_only=True):
    """What this server may be called, and from which pages."""

    hosts: frozenset[str]
    origins: frozenset[str]
    any_address: bool
    """Bound to every interface: any numeric address may be ours, and none can be rebound."""

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
                # A page that sends no referrer has its form come from nowhere; see `_links`.
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

    They only look for the word, and `gzip;q=0` means that it cannot (RFC 9110, section 12.5.3).
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
        """Run the inner app; what it raises is logged, and answered if nothing was said yet."""
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
    """Whether a proxy in between may have seen another end of the request (RFC 9112, 6.1)."""
    names = {name for name, _ in scope.get("headers", ())}
    return scope["type"] == "http" and {b"content-length", b"transfer-encoding"} <= names


def is_local_socket(scope: Scope) -> bool:
    """Whether a request came by the Unix socket, so from the user whose process this is."""
    server = scope.get("server")
    return server is not None and server[1] is None


def _is_stranger(connection: Any) -> bool:  # noqa: ANN401 - asyncio's own
    """Whether another user of this machine is at the other end of a Unix socket; root is none."""
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


# The head of a request, which has to come whole in some time.
#
# uvicorn waits for it without an end: who opens connections and says nothing, or a byte now and
# then, could hold every one that the server may have, and needs no token for that.


class Heads(H11Protocol):
    """uvicorn's HTTP; a connection on which no whole head comes in time is closed."""

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
        """Wait no more."""
        self._stop()
        self._held.left(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; whatever ends a head, its body has a limit of its own."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._stop()
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read, unless something was said; then nobody else answers it."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Wait for the next request; who did not wait with it for this answer has no other.

        Nobody who means well does that, and one packet would be as good as a thousand requests.
        """
        if self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
            self.transport.close()
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """The other side does not take what it asked for."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._look()

    def _look(self) -> None:
        """Say whether something is done for this connection; a WebSocket says so itself."""
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
    needs no version of what is shown and cannot be wrong: the view is made as always, and only its
    bytes are not sent again. It is a weak one, because the layer around this one may compress them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through; what is no GET is not looked at."""
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
