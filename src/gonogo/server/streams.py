"""Streams of events: server-sent ones, and a session over a WebSocket with messages in.

On a WebSocket the writer pulls events as `EventStream` does; the reader takes one frame after the
other. Neither waits for the other, and a frame that arrived is carried out even if the connection
has ended by then. A sender's mistake gets an `error` frame and changes nothing; a credential
that is missing, wrong or revoked ends the connection with 1008, a binary frame with 1003. Frames
over 2 MiB (1009) and text that is not UTF-8 (1007) end it below us.
"""

import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from time import monotonic
from typing import Any

import anyio
from fastapi import APIRouter, WebSocket
from msgspec import Struct, field
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from gonogo.domain.base import WrittenEvent, as_line, loads
from gonogo.domain.errors import (
    Busy,
    Forbidden,
    GonogoError,
    Internal,
    InternalFailure,
    InvalidCursor,
    RateLimited,
    Unauthorized,
)
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import parse_message
from gonogo.domain.views import DecisionAnswer, SessionView
from gonogo.server.auth import (
    Caller,
    Connections,
    Credential,
    ServerState,
    TooFast,
    WaitLimits,
    address_of,
    door_of,
    presented,
)
from gonogo.server.requests import counted, error_event, possible, problem_of, said

_LOG = logging.getLogger("gonogo.server")

# Events as a stream of server-sent events.
#
# `event: message`, `id:` the event's seq, one line of JSON; errors come as `event: error`. A
# comment every 15 seconds keeps idle streams open. The stream takes an event from its source only
# when the one before it was given to the network. So a slow reader costs the memory of one event;
# it is cut off if it reads nothing for a minute. A reader that goes away ends the stream and
# nothing else.

EventBody = Mapping[str, Any]
Source = Callable[[], AbstractAsyncContextManager[AsyncIterator[EventBody]]]
DONE: EventBody = {"type": "done", "is_final": True}
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def frame(event: EventBody) -> bytes:
    """One event as a frame of the stream."""
    seq = event.get("seq")
    place = "" if seq is None else f"id: {seq}\n"
    return f"event: {_frame_name(event)}\n{place}data: {as_json(event)}\n\n".encode()


def as_json(event: EventBody) -> str:
    """An event as one line of JSON, which a published event already has."""
    return event.written if isinstance(event, WrittenEvent) else as_line(event)


class EventStream(Response):
    """An answer that stays open and sends every event of a source as it comes.

    Args:
        source: Opened before the answer starts, so that it can still refuse with a status.
        ends: Whether the stream ends by itself, with `done`.
    """

    media_type = "text/event-stream"

    def __init__(self, caller: Caller, source: Source, *, ends: bool) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._caller, self._source, self._ends = caller, source, ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the source ends, the reader is gone, or the server closes."""
        async with self._source() as events, anyio.create_task_group() as group:
            line = _EventSender(send, self._caller.door.limits, group.cancel_scope)
            await line.start(self.status_code, self.raw_headers)
            group.start_soon(_until_gone, receive, group.cancel_scope)
            group.start_soon(line.keep_open)
            await self._send_all(events, line)
            await line.end()
            group.cancel_scope.cancel()

    async def _send_all(self, events: AsyncIterator[EventBody], line: "_EventSender") -> None:
        door, whole = self._caller.door, False
        ended = partial(door.ended, self._caller.credential, self._caller.principal)
        async with anyio.create_task_group() as group:
            scope = group.cancel_scope
            group.start_soon(_then_cancel, door.runtime.closing.wait, scope)
            group.start_soon(_then_cancel, ended, scope)
            is_final = await _pump(events, line)
            whole = is_final or not door.runtime.closing.is_set()
            scope.cancel()
        # Without its `done` a reader knows that the stream was cut, and asks for the rest.
        if self._ends and whole:
            await line.send(frame(DONE))


class _EventSender:
    """The sending side of one connection, shared by the events and the heartbeat."""

    def __init__(self, send: Send, limits: WaitLimits, connection: anyio.CancelScope) -> None:
        self._send, self._limits, self._connection = send, limits, connection
        self._free = anyio.Lock()
        self._sent = False

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, data: bytes) -> None:
        self._sent = True
        async with self._free:
            with anyio.move_on_after(self._limits.write) as limit:
                await self._send({"type": "http.response.body", "body": data, "more_body": True})
        if limit.cancelled_caught:
            self._connection.cancel()

    async def end(self) -> None:
        with anyio.move_on_after(self._limits.write):
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def keep_open(self) -> None:
        while True:
            self._sent = False
            await anyio.sleep(self._limits.heartbeat)
            if not self._sent:
                await self.send(b": still here\n\n")


async def _pump(events: AsyncIterator[EventBody], line: _EventSender) -> bool:
    """Send every event; return whether the last one ended the answer."""
    is_final = False
    try:
        async for event in events:
            await line.send(frame(event))
            is_final = event.get("is_final") is True
    except GonogoError as error:
        await line.send(frame(error_event(error)))
        return True
    except OSError:
        return is_final
    except Exception:
        _LOG.exception("A stream failed")
        await line.send(frame(error_event(Internal())))
        return True
    return is_final


async def _until_gone(receive: Receive, connection: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    connection.cancel()


async def _then_cancel(wait: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
    await wait()
    scope.cancel()


def _frame_name(event: EventBody) -> str:
    kind = event["type"]
    return kind if kind in {"error", "done"} else "message"


def read_cursor(text: str, session: SessionView) -> int:
    """A place in a session's log, as a reader gave it.

    Raises:
        InvalidCursor: it is not a seq, or nothing has that seq yet.
    """
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InvalidCursor("{text!r} is not a seq; use the seq of an event", text=text[:80])
    if int(text) > session.last_seq:
        raise InvalidCursor(
            "{text} is later than the last event, {last_seq}; use a smaller seq",
            text=text,
            last_seq=session.last_seq,
        )
    return int(text)


# WebSocket frames before they are messages: nobody keeps the server busy with small frames.
#
# The library answers pings and joins the parts of a message before the application, where nothing
# counts them. Here a connection ends if it sends more small frames in a second than any client
# needs, and a client that does not read the answers to its pings gets none. The close frame is sent
# even to a client that reads nothing: it gets it when it reads again. A handshake that cannot be
# read is answered as well.

KNOWN = "known"
"""The key in the state of a connection: what to call once its sender is authenticated."""
SMALL = 256
"""Frames with fewer bytes than this are counted."""
MOST = 500
"""How many small frames may come in a second."""
_SLICE = 4_096
_REFUSED = 1008
_LAST = 1.0
"""Seconds from the close frame until the connection is cut."""
_NO_HANDSHAKE = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Frames(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with a limit for small frames."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **kwargs)
        self._since, self._count = monotonic(), 0
        self._refused = False
        app: Any = self.config.app
        self._held: Connections = app.state.door.connections

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from those that are held."""
        self._held.left(self.transport)
        super().connection_lost(exc)

    def handle_connect(self, event: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Begin, with a way for the application to report that the sender is authenticated."""
        super().handle_connect(event)
        if not self.close_sent:
            known = {KNOWN: partial(self._held.works, self.transport)}
            self.scope["state"] = {**self.scope.get("state", {}), **known}

    def pause_writing(self) -> None:
        """Count the connection as idle: the other side does not read."""
        super().pause_writing()
        self._held.waits(self.transport)

    def resume_writing(self) -> None:
        """Count the connection as at work: the other side reads again."""
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
        """Answer, if the client has read the earlier answers."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def _turn_away(self) -> None:
        """Refuse a handshake whose head is too long or has a body; the library would just hang."""
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
        """Say why, and read for a moment longer: a reset would discard the close frame."""
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
    # Until the sender is authenticated, the server may close the connection to make room.
    socket.scope.get("state", {}).get(KNOWN, lambda: None)()
    try:
        await conversation.hold()
    finally:
        with anyio.CancelScope(shield=True):
            await door.runtime.release_tool_host(conversation.connection)


class _FrameSender(Struct, frozen=True, kw_only=True):
    """The sending side. Several tasks may send; their frames never mix."""

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
    """The event for one refused decision of a message with several decisions."""
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
