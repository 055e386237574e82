"""Events as a stream of server-sent events.

`event: message`, `id:` the event's seq, one line of JSON; errors come as `event: error`. A comment
every 15 seconds keeps idle streams open. The stream pulls: an event is taken from its source when
the one before it was handed to the network, so a slow reader costs one event, and is cut off when
it takes nothing for a minute. A reader that goes away ends the stream and nothing else.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gonogo.domain.base import WrittenEvent, as_line
from gonogo.domain.errors import GonogoError, Internal
from gonogo.server.auth import Caller, WaitLimits
from gonogo.server.requests import error_event

EventBody = Mapping[str, Any]
Source = Callable[[], AbstractAsyncContextManager[AsyncIterator[EventBody]]]
DONE: EventBody = {"type": "done", "is_final": True}
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_LOG = logging.getLogger("gonogo.server")


def frame(event: EventBody) -> bytes:
    """One event as it stands on the wire."""
    seq = event.get("seq")
    place = "" if seq is None else f"id: {seq}\n"
    return f"event: {_frame_name(event)}\n{place}data: {as_json(event)}\n\n".encode()


def as_json(event: EventBody) -> str:
    """An event as one line of JSON; of one that was told it was written then."""
    return event.written if isinstance(event, WrittenEvent) else as_line(event)


class EventStream(Response):
    """The answer that lasts: every event of a source, as it comes.

    Args:
        source: Opened before the answer starts, so what it refuses is still a plain answer.
        ends: Whether the stream has an end of its own, said by `done`.
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
    """Send every event; whether the last one ended the answer."""
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
