"""One session over a WebSocket: its events out, client messages in.

The writer pulls events as `EventStream` does; the reader takes one frame after the other. Neither
waits for the other, and a frame that arrived is carried out even if the connection is gone by
then. What the sender got wrong is an `error` frame and changes nothing; a credential that is
missing, wrong or revoked ends the connection with 1008, a binary frame with 1003. Frames over
2 MiB (1009) and text that is not UTF-8 (1007) end it below us.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any

import anyio
from fastapi import APIRouter, WebSocket
from msgspec import Struct, field
from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from gonogo.domain.base import loads
from gonogo.domain.errors import (
    Busy,
    Forbidden,
    GonogoError,
    Internal,
    InternalFailure,
    RateLimited,
    Unauthorized,
)
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import parse_message
from gonogo.domain.views import DecisionAnswer
from gonogo.server.auth import (
    Connections,
    Credential,
    ServerState,
    TooFast,
    address_of,
    door_of,
    presented,
)
from gonogo.server.requests import counted, error_event, possible, problem_of, said
from gonogo.server.routes.sessions import read_cursor
from gonogo.server.sse import as_json

# WebSocket frames before any of them is a message: nobody keeps the server busy with crumbs.
#
# Pings are answered, and pieces of a message gathered, below the application, where nothing counts
# them. Here a connection that sends more small frames in a second than any client has reason to is
# ended, and who sends pings and does not read the answers gets none. The word that ends a
# connection is said also to who reads nothing: it is read once reading goes on. A handshake that
# cannot be read is answered as well.

KNOWN = "known"
"""Where the application finds what to call once it knows who is there."""
SMALL = 256
"""Bytes below which a frame counts."""
MOST = 500
"""So many of them may come in a second."""
_SLICE = 4_096
_REFUSED = 1008
_LAST = 1.0
"""Seconds from the last word to the end."""
_NO_HANDSHAKE = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Frames(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with an end to small frames."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        self._since, self._count = monotonic(), 0
        self._refused = False
        app: Any = self.config.app
        self._held: Connections = app.state.door.connections

    def connection_lost(self, exc: Exception | None) -> None:
        """Hold it no more."""
        self._held.left(self.transport)
        super().connection_lost(exc)

    def handle_connect(self, event: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Begin, with a way to say that whoever is there may be."""
        super().handle_connect(event)
        if not self.close_sent:
            known = {KNOWN: partial(self._held.works, self.transport)}
            self.scope["state"] = {**self.scope.get("state", {}), **known}

    def pause_writing(self) -> None:
        """The other side does not take what it asked for."""
        super().pause_writing()
        self._held.waits(self.transport)

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._held.works(self.transport)

    def data_received(self, data: bytes) -> None:
        """Take what came a slice at a time, so that a flood is seen before all of it is read."""
        for start in range(0, len(data), _SLICE):
            if self._refused:
                return
            super().data_received(data[start : start + _SLICE])
            if self.conn.handshake_exc is not None and not self.handshake_initiated:
                self._turn_away()

    def handle_events(self) -> None:
        """Take the frames that are whole, unless they are too many."""
        small = sum(isinstance(each, Frame) and len(each.data) < SMALL for each in self.conn.events)
        if small and self._too_many(small):
            self.conn.events_received()
            self._refuse()
            return
        super().handle_events()

    async def send(self, message: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Send as uvicorn does; only the end does not wait until there is room for it."""
        if message["type"] == "websocket.close":
            self.writable.set()
        await super().send(message)

    def handle_ping(self) -> None:
        """Answer, if the answers before are read."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def _turn_away(self) -> None:
        """End a handshake with a head that is too long or has a body; below us it just hangs."""
        self._refused = True
        self.transport.write(b"".join(self.conn.data_to_send()) or _NO_HANDSHAKE)
        self.transport.close()

    def _too_many(self, small: int) -> bool:
        now = monotonic()
        if now - self._since > 1:
            self._since, self._count = now, 0
        self._count += small
        return self._count > MOST

    def _refuse(self) -> None:
        """Say why, and read on for a moment: a reset would overtake what was said."""
        self._refused = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _REFUSED})
        if not self.close_sent:
            self.conn.fail(_REFUSED, "Too many small frames")
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        if self.close_timer is None:
            self.close_timer = self.loop.call_later(_LAST, self.transport.abort)
        self.transport.resume_reading()


NORMAL, GOING_AWAY, NOT_TEXT, REFUSED, BROKEN, TRY_LATER = 1000, 1001, 1003, 1008, 1011, 1013
_LOG = logging.getLogger("gonogo.server")

router = APIRouter()


class _Gone(Exception):
    """The other side is not there any more."""


class _Slow(Exception):
    """The other side is there and does not read."""


@router.websocket("/ws/{session_id}")
async def talk(socket: WebSocket, session_id: str) -> None:
    """Both directions of one session."""
    door = door_of(socket)
    try:
        credential = presented(socket) if door.auth else None
    except Forbidden as error:
        await socket.send_denial_response(problem_of(error))
        return
    except Unauthorized:
        credential = Credential(token="")
    await socket.accept()
    line = _FrameSender(socket=socket, session_id=session_id, seconds=door.limits.write)
    try:
        conversation = await _begin(door, line, credential)
    except _Gone:
        return
    except GonogoError as error:
        await line.refuse(error)
        return
    # The server that it came by may close it for others, as long as nobody has said who it is.
    socket.scope.get("state", {}).get(KNOWN, lambda: None)()
    try:
        await conversation.hold()
    finally:
        with anyio.CancelScope(shield=True):
            await door.runtime.release_tool_host(conversation.connection)


class _FrameSender(Struct, frozen=True, kw_only=True):
    """The sending side; whoever sends, frames never mix."""

    socket: WebSocket
    session_id: str
    seconds: float
    free: anyio.Lock = field(default_factory=anyio.Lock)

    async def send(self, event: Mapping[str, Any]) -> None:
        """Send one event.

        Raises:
            _Gone: nobody is there.
            _Slow: somebody is, and does not read.
        """
        try:
            async with self.free:
                with anyio.fail_after(self.seconds):
                    await self.socket.send_text(as_json(event))
        except TimeoutError as error:
            raise _Slow from error
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise _Gone from error

    async def refuse(self, error: GonogoError) -> None:
        """Say what is wrong and end the connection."""
        try:
            await self.send({**error_event(error), "session_id": self.session_id})
        except (_Gone, _Slow):
            return
        later = isinstance(error, (Busy, TooFast))
        await self.close(TRY_LATER if later else REFUSED, error.code)

    async def close(self, code: int, reason: str = "") -> None:
        """End the connection; it may be gone already."""
        with anyio.move_on_after(1):
            try:
                await self.socket.close(code, reason)
            except (WebSocketDisconnect, RuntimeError, OSError):
                return


class _Conversation(Struct, frozen=True, kw_only=True):
    door: ServerState
    line: _FrameSender
    credential: Credential | None
    principal: Principal
    session_id: str
    after: int
    connection: str

    async def hold(self) -> None:
        """Talk until one side ends it."""
        async with anyio.create_task_group() as group:
            scope = group.cancel_scope
            closing = self.door.runtime.closing.wait
            ended = partial(self.door.ended, self.credential, self.principal)
            group.start_soon(self._close_when, closing, GOING_AWAY, scope)
            group.start_soon(self._close_when, ended, REFUSED, scope)
            group.start_soon(self._write, scope)
            await self._read()
            scope.cancel()

    async def _close_when(
        self, wait: Callable[[], Awaitable[None]], code: int, scope: anyio.CancelScope
    ) -> None:
        await wait()
        await self.line.close(code)
        scope.cancel()

    async def _write(self, scope: anyio.CancelScope) -> None:
        code = NORMAL
        try:
            async with self.door.runtime.streams.follow(
                self.principal, self.session_id, self.after
            ) as events:
                async for event in events:
                    await self.line.send(event)
        except _Gone:
            # The reader still has to take what was sent before the connection went.
            return
        except _Slow:
            code = TRY_LATER
        except GonogoError as error:
            await self.line.refuse(error)
        except Exception:
            _LOG.exception("A WebSocket failed")
            code = BROKEN
        await self.line.close(code)
        scope.cancel()

    async def _read(self) -> None:
        while True:
            message = await self.line.socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is None:
                await self.line.close(NOT_TEXT, "Frames are text")
                return
            try:
                await self._take(text)
            except _Gone:
                continue
            except _Slow:
                return
            except (Unauthorized, RateLimited) as error:
                await self.line.refuse(error)
                return

    async def _take(self, text: str) -> None:
        # Another process may have revoked the token, so each frame is checked.
        try:
            await self.door.identify(self.credential, address_of(self.line.socket))
        except InternalFailure as error:
            await self.line.send({**error_event(error), "session_id": self.session_id})
            return
        try:
            answers = await self._carry_out(text)
        except GonogoError as error:
            answers = [error_event(error)]
        except Exception:
            _LOG.exception("A message failed")
            answers = [error_event(Internal())]
        for event in answers:
            await self.line.send({**event, "session_id": self.session_id})

    async def _carry_out(self, text: str) -> list[dict[str, Any]]:
        with counted(self.door.rates, self.principal) as count:
            self.principal.require(Role.OPERATOR)
            message = count(parse_message(loads(text)))
        answers: tuple[DecisionAnswer, ...] = ()
        with anyio.CancelScope(shield=True):
            receipt = await self.door.runtime.messages.accept(
                self.principal, self.session_id, message, connection=self.connection
            )
            answers = receipt.answers
        return [_refused(answer) for answer in answers if not answer.ok]


def _refused(answer: DecisionAnswer) -> dict[str, Any]:
    """What was refused of a message that decides several things."""
    return {**said(answer.code or "conflict", answer.said, is_final=False), "call_id": answer.id}


async def _begin(
    door: ServerState, line: _FrameSender, credential: Credential | None
) -> _Conversation:
    """Find out who is there and what they want to see.

    Raises:
        GonogoError: they may not.
        _Gone: nobody is there.
    """
    socket = line.socket
    if door.auth and credential is None:
        credential = await _first_frame(socket, door.limits.auth)
    principal = await door.identify(credential, address_of(socket))
    door.rates.requests.take(principal.id)
    view = await door.runtime.sessions.get(principal, possible(line.session_id))
    after = socket.query_params.get("after")
    conversation = _Conversation(
        door=door,
        line=line,
        credential=credential,
        principal=principal,
        session_id=line.session_id,
        after=view.last_seq if after is None else read_cursor(after, view),
        connection=secrets.token_hex(12),
    )
    if socket.query_params.get("tool_host") in {"1", "true"}:
        await door.runtime.claim_tool_host(principal, line.session_id, conversation.connection)
    return conversation


async def _first_frame(socket: WebSocket, seconds: float) -> Credential:
    try:
        with anyio.fail_after(seconds):
            message = await socket.receive()
    except TimeoutError:
        raise Unauthorized(
            "No token arrived within {seconds:g} seconds; connect again, and send the token first",
            seconds=seconds,
        ) from None
    if message["type"] == "websocket.disconnect":
        raise _Gone
    match loads(message.get("text") or "null"):
        case {"type": "auth", "token": str(token), **rest} if not rest:
            return Credential(token=token)
        case _:
            raise Unauthorized(
                "The first frame must be {shape}", shape='{"type":"auth","token":"…"}'
            )
