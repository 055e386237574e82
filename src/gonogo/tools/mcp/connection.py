"""One connection to an MCP server; only this file of the client side uses the protocol's library.

Everything that a server sends is limited before it is read: the length of a line, a body and an
event, the parts of an answer, the pages of a listing, and the amount of unrequested messages (see
`Chatter`). Requests of a server (to sample a model, to ask the user, to list folders) are refused,
as we announce no such capability; its notifications are ignored.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import anyio.abc
import anyio.lowlevel
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Struct
from pydantic import ValidationError

from gonogo.domain.errors import OutcomeUnknown, Reason, ToolFailed, because, defect_of, together
from gonogo.tools.base import JsonObject
from gonogo.tools.mcp.servers import ServerConfig
from gonogo.workspace import bound_process

# Unrequested messages of a server, and when there are too many.
#
# We never need an unrequested message. Some servers write log lines where messages should be,
# report progress or send pings, so a good many are ignored. A flood ends the server: reading it
# would take the time of everybody else, and logging it would fill the disk.

MOST_MESSAGE = 4 << 20
"""Bytes of one message."""
JUNK, REQUEST, REOPENED = 20, 10, 40
"""How many notifications each counts as: a line that is no message, a request to us, and a stream
that we must reopen for the rest of an answer."""
_UNASKED, _UNASKED_BURST = 100, 2_000
"""Allowed notifications per second, and in one burst."""
_BYTES, _BYTES_BURST = 4 << 20, 64 << 20
_LINE = 1 << 10
"""Bytes that each line counts in addition to its length."""
_KEPT, _SHOWN = 2_000, 300
"""Bytes of a program's last words, and characters that are shown of what a server said."""
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Allowance:
    """A token bucket: it fills steadily, up to a burst."""

    rate: float
    burst: float
    left: float = field(init=False)
    since: float = field(default_factory=anyio.current_time)

    def __post_init__(self) -> None:
        self.left = self.burst

    def take(self, amount: float) -> bool:
        """Take an amount, and return whether there was enough."""
        now = anyio.current_time()
        self.left = min(self.burst, self.left + (now - self.since) * self.rate) - amount
        self.since = now
        return self.left >= 0


class Chatter:
    """Everything that one run of a server sends besides its answers."""

    def __init__(self, server: str) -> None:
        """Begin to listen.

        Args:
            server: Its name, for the log.
        """
        self._server = server
        self._unasked = _Allowance(_UNASKED, _UNASKED_BURST)
        self._bytes = _Allowance(_BYTES, _BYTES_BURST)
        self._words = b""
        self._junk = 0
        self.gone = anyio.Event()
        """The server has ended, or we have stopped listening to it."""
        self.why: str | None = None
        """Why we stopped listening."""

    def words(self, chunk: bytes) -> None:
        """Keep the end of what a program writes to standard error."""
        self._words = (self._words + chunk)[-_KEPT:]

    def came(self, size: int, lines: int = 1) -> bool:
        """Count received data. Returns False if we no longer listen to the server."""
        if not self._bytes.take(size + lines * _LINE):
            self.end(because("it writes too much too fast"))
        return self.why is None

    def unasked(self, weight: float = 1) -> bool:
        """Count an unrequested message. Returns False if we no longer listen to the server."""
        if not self._unasked.take(weight):
            self.end(
                because(
                    "it keeps writing lines that are not messages ({count})", count=self._junk
                ) if self._junk else because("it keeps writing what nobody asked for")
            )  # fmt: skip
        return self.why is None

    def junk(self, line: bytes) -> bool:
        """Count a line that is no message. Returns False if we no longer listen to the server."""
        self._junk += 1
        if self._junk == 1:
            _LOG.warning(
                "MCP server %s writes what is no message; this is said once: %s",
                self._server, _shown(line),
            )  # fmt: skip
        return self.unasked(JUNK)

    def end(self, why: str) -> None:
        """Stop listening."""
        if self.why is None:
            self.why = why
            _LOG.warning("MCP server %s is ended: %s", self._server, why)
        self.gone.set()

    def late(self, seconds: float) -> Reason:
        """Why a call has no answer although the server still runs."""
        if not self._junk:
            return because("its server timed out: no answer within {seconds:g} s", seconds=seconds)
        return because(
            "its server timed out: no readable answer within {seconds:g} s, and {lines} lines "
            "that are not messages",
            seconds=seconds, lines=self._junk,
        )  # fmt: skip

    def doubt(self, otherwise: str) -> Reason:
        """Why a call has no answer."""
        if self.why is not None:
            return because("gonogo stopped its server: {why}", why=self.why)
        return because("its server ended: {why}", why=self.reason(otherwise))

    def reason(self, otherwise: str) -> str:
        """Why it is over: our reason to end it, or `otherwise`, with its last output."""
        if self.why is not None:
            return because("gonogo stopped it: {why}", why=self.why)
        said = otherwise
        if self._junk:
            junk = because(
                "lines that it wrote and that are not messages: {count}", count=self._junk
            )
            said = together([said, junk])
        lines = self._words.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        heard = [because("it said: {words}", words=last[:_SHOWN])] if last else []
        return together([said, *heard])


def _shown(line: bytes) -> str:
    return repr(line[:_SHOWN].decode("utf-8", "replace"))


MOST_PAGES, MOST_PARTS = 50, 1_000
"""The most pages in a listing of tools, and the most parts in an answer."""
_SAID = 500
_MANNERS = 0.5
"""Seconds that a program has to end by itself when it is no longer needed."""
_BREATH = 0.01
"""Seconds between two reads of a program's standard error."""
_ODD = ("server answered a request with 202", "Unexpected content type")
"""The library's messages for a call that may have been done although its answer is none."""
_NO_ANSWER = because("an answer that the protocol does not have")
_UNREADABLE = object()
"""Marks the error that replaces an answer of which only the id can be read."""
_PENDING = 64
"""The most refusals that wait for a server to read them; further ones are dropped."""


class Listed(Struct, frozen=True):
    """A tool as the server lists it, unchecked."""

    name: str
    description: str
    parameters: Any


class ServerConnection(Struct, frozen=True):
    """An open connection."""

    session: Any
    """`mcp.client.session.ClientSession`."""
    version: str
    """The name and version that the server gives itself."""
    chatter: Chatter
    over_http: bool
    patience: float
    """Seconds to wait for answers to requests other than calls."""

    async def pages(self) -> AsyncIterator[list[Listed]]:
        """The tools that the server lists now, page by page.

        Raises:
            ToolFailed: `server_unavailable`, or `server_error` for an invalid listing.
        """
        from mcp_types import ListToolsRequest, ListToolsResult, PaginatedRequestParams

        cursor: str | None = None
        for _ in range(MOST_PAGES):
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._asked(ListToolsRequest(params=params), ListToolsResult)
            yield [Listed(t.name, t.description or "", t.input_schema) for t in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return

    async def call(self, tool: str, arguments: JsonObject, timeout: float) -> Any:  # noqa: ANN401, ASYNC109
        """Let the server carry out a call, and return the library's result.

        Raises:
            OutcomeUnknown: the call was sent, and no answer came.
            ToolFailed: `server_error`: the server refuses the call.
        """
        from mcp.shared.exceptions import MCPError
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

        params = CallToolRequestParams(name=tool, arguments=arguments)
        try:
            return await self.session.send_request(
                CallToolRequest(params=params), CallToolResult, request_read_timeout_seconds=timeout
            )
        except MCPError as error:
            raise self._failure(error, timeout) from error
        except ValueError as error:
            # The server did answer, but the answer does not tell what it did.
            raise _unreadable(_on_one_line(error)) from error

    def _failure(self, error: Any, timeout: float) -> ToolFailed:  # noqa: ANN401 - MCPError
        from mcp_types import (
            CONNECTION_CLOSED,
            INTERNAL_ERROR,
            INVALID_REQUEST,
            PARSE_ERROR,
            REQUEST_TIMEOUT,
        )

        said, gone = " ".join(error.message.split())[:_SAID], self.chatter.gone
        if self.over_http and error.code in {CONNECTION_CLOSED, INVALID_REQUEST}:
            # This is how a session ends that the server no longer knows.
            gone.set()
        if gone.is_set() and error.code == CONNECTION_CLOSED:
            return OutcomeUnknown(self.chatter.doubt(said))
        if error.code == REQUEST_TIMEOUT:
            return OutcomeUnknown(self.chatter.late(timeout))
        # Over HTTP: the answer is cut off, is none, or comes from a proxy in between.
        odd = error.code in {INTERNAL_ERROR, PARSE_ERROR} or said.startswith(_ODD)
        if (self.over_http and odd) or error.error.data is _UNREADABLE:
            return _unreadable(said)
        return ToolFailed("server_error", said)

    async def _asked(self, request: Any, kind: type[Any]) -> Any:  # noqa: ANN401
        from mcp.shared.exceptions import MCPError

        try:
            return await self.session.send_request(request, kind)
        except MCPError as error:
            failure = self._failure(error, self.patience)
            raise ToolFailed("server_unavailable", failure.said) from error
        except ValueError as error:
            raise ToolFailed(
                "server_error", "a listing that cannot be read: {why}", why=_on_one_line(error)
            ) from error


def _unreadable(why: str) -> OutcomeUnknown:
    return OutcomeUnknown(because("its server's answer cannot be read: {why}", why=why))


def _on_one_line(error: ValueError) -> str:
    text = defect_of(error, "answer") if isinstance(error, ValidationError) else str(error)
    return text if isinstance(text, Reason) else " ".join(text.split())[:_SAID]


@asynccontextmanager
async def linked(server: ServerConfig, chatter: Chatter) -> AsyncGenerator[ServerConnection]:
    """A connection to a server for the time of a block.

    Args:
        chatter: Counts what the server sends besides its answers.

    Raises:
        ToolFailed: `io_error`: its program cannot be started.
        Exception: the library's, if the server does not speak the protocol.
    """
    from mcp import Client
    from mcp_types import Implementation

    from gonogo import __version__

    transport = _http(server, chatter) if server.url else _stdio(server, chatter)
    client = Client(
        cast("Any", _sifted(transport, chatter)),
        read_timeout_seconds=server.start_timeout,
        client_info=Implementation(name="gonogo", version=__version__),
        cache=None,
    )
    async with client:
        known = client.server_info
        version = f"{known.name} {known.version}"[:200] if known else ""
        over_http = server.url is not None
        yield ServerConnection(client.session, version, chatter, over_http, server.start_timeout)


# Incoming messages -----------------------------------------------------------------------------


@asynccontextmanager
async def _sifted(
    transport: AbstractAsyncContextManager[Any], chatter: Chatter
) -> AsyncGenerator[Any]:
    """The streams of a transport, without unrequested messages."""
    incoming, received = anyio.create_memory_object_stream[Any](0)
    sent, outgoing = anyio.create_memory_object_stream[Any](0)
    refused, refusals = anyio.create_memory_object_stream[Any](_PENDING)
    async with (
        incoming, received, sent, outgoing, refused, refusals,
        transport as (source, sink), anyio.create_task_group() as group,
    ):  # fmt: skip
        asked = set[str]()
        group.start_soon(_Sifter(asked, chatter, refused).run, source, incoming)
        group.start_soon(_send_on, outgoing, sink, asked)
        group.start_soon(_send_on, refusals, sink, asked)
        try:
            yield received, sent
        finally:
            group.cancel_scope.cancel()


class _Sifter(Struct, frozen=True):
    """Passes answers of limited size on, refuses requests, and drops everything else."""

    asked: set[str]
    """The ids of our requests that have no answer."""
    chatter: Chatter
    refused: MemoryObjectSendStream[Any]

    async def run(self, source: Any, to: MemoryObjectSendStream[Any]) -> None:  # noqa: ANN401
        async with to:
            async for item in source:
                if isinstance(item, Exception) or not self._is_answer(item.message):
                    await anyio.lowlevel.checkpoint()
                elif not await _sent(to, item):
                    return
                if self.chatter.why is not None:
                    return

    def _is_answer(self, message: Any) -> bool:  # noqa: ANN401 - JSONRPCMessage
        from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

        if isinstance(message, JSONRPCRequest):
            self._refuse(message)
            return False
        if isinstance(message, JSONRPCNotification) or str(message.id) not in self.asked:
            self.chatter.unasked()
            return False
        self.asked.discard(str(message.id))
        if isinstance(message, JSONRPCResponse):
            _cut(message.result)
        return True

    def _refuse(self, message: Any) -> None:  # noqa: ANN401 - JSONRPCRequest
        from mcp.shared.message import SessionMessage
        from mcp_types import METHOD_NOT_FOUND, ErrorData, JSONRPCError, JSONRPCResponse

        if message.method == "ping":
            answer = JSONRPCResponse(jsonrpc="2.0", id=message.id, result={})
        else:
            refusal = ErrorData(code=METHOD_NOT_FOUND, message="gonogo does nothing for servers")
            answer = JSONRPCError(jsonrpc="2.0", id=message.id, error=refusal)
        if self.chatter.unasked(REQUEST):
            # We never wait here: a server that reads only after we do would wait for ever.
            with suppress(anyio.WouldBlock):
                self.refused.send_nowait(SessionMessage(answer))


def _cut(result: dict[str, Any]) -> None:
    """Drop the parts of an answer that exceed the limit."""
    for name in ("content", "tools"):
        parts: Any = result.get(name)
        if isinstance(parts, list) and len(cast("list[Any]", parts)) > MOST_PARTS:
            result[name] = cast("list[Any]", parts)[:MOST_PARTS]
            if name == "content":
                said = f"[… {len(cast('list[Any]', parts)) - MOST_PARTS} parts left out …]"
                result[name].append({"type": "text", "text": said})


async def _send_on(
    messages: MemoryObjectReceiveStream[Any],
    sink: Any,  # noqa: ANN401
    asked: set[str],
) -> None:
    from mcp_types import JSONRPCRequest

    async with messages:
        async for message in messages:
            if isinstance(message.message, JSONRPCRequest):
                asked.add(str(message.message.id))
            if not await _sent(sink, message):
                return


async def _sent(to: Any, item: Any) -> bool:  # noqa: ANN401
    try:
        await to.send(item)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return False
    return True


# Programs -------------------------------------------------------------------------------------


@asynccontextmanager
async def _stdio(server: ServerConfig, chatter: Chatter) -> AsyncGenerator[Any]:
    """The streams of messages to and from a program, one message per line."""
    incoming, received = anyio.create_memory_object_stream[Any](0)
    sent, outgoing = anyio.create_memory_object_stream[Any](0)
    async with (
        incoming, received, sent, outgoing,
        bound_process(server.command, server.environment, server.folder) as process,
        anyio.create_task_group() as group,
    ):  # fmt: skip
        assert process.stdin is not None  # noqa: S101 - all three are pipes
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        group.start_soon(_read, process.stdout, incoming, chatter)
        group.start_soon(_write, process.stdin, outgoing, incoming, chatter)
        group.start_soon(_listen, process.stderr, chatter)
        try:
            yield received, sent
        finally:
            with anyio.move_on_after(_MANNERS, shield=True):
                await process.stdin.aclose()
                await process.wait()
            group.cancel_scope.cancel()


async def _read(
    stream: anyio.abc.ByteReceiveStream, to: MemoryObjectSendStream[Any], chatter: Chatter
) -> None:
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter
    from pydantic_core import from_json

    async with to:
        async for line in _lines(stream, chatter):
            try:
                # In two steps, because in one it takes several times as long.
                message = jsonrpc_message_adapter.validate_python(from_json(line), by_name=False)
            except ValueError:
                await anyio.lowlevel.checkpoint()
                message = _in_the_place_of(line)
                if message is None and not chatter.junk(line):
                    break
            if message is not None and not await _sent(to, SessionMessage(message)):
                return
        chatter.gone.set()


def _in_the_place_of(line: bytes) -> Any:  # noqa: ANN401 - JSONRPCMessage
    """An error in place of an answer that cannot be read; None if it answers no request."""
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
    from pydantic_core import from_json

    with suppress(ValueError):
        match from_json(line):
            case {"jsonrpc": "2.0", "id": int() | str() as of, "result": _} | {
                "jsonrpc": "2.0", "id": int() | str() as of, "error": _,
            }:  # fmt: skip
                error = ErrorData(code=PARSE_ERROR, message=_NO_ANSWER, data=_UNREADABLE)
                return JSONRPCError(jsonrpc="2.0", id=of, error=error)
            case _:
                return None
    return None


async def _lines(stream: anyio.abc.ByteReceiveStream, chatter: Chatter) -> AsyncIterator[bytes]:
    left = b""
    while True:
        try:
            chunk = await stream.receive(65_536)
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return
        *whole, left = (left + chunk).split(b"\n")
        if len(left) > MOST_MESSAGE:
            chatter.end(because("a message is longer than {most} bytes", most=MOST_MESSAGE))
        if not chatter.came(len(chunk), len(whole)):
            return
        for line in whole:
            if line.strip():
                yield line


async def _write(
    stream: anyio.abc.ByteSendStream,
    messages: MemoryObjectReceiveStream[Any],
    incoming: MemoryObjectSendStream[Any],
    chatter: Chatter,
) -> None:
    async with messages:
        async for message in messages:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            try:
                await stream.send(line.encode())
            except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
                # Whoever waits for an answer learns that none will come.
                chatter.gone.set()
                await incoming.aclose()
                return


async def _listen(stream: anyio.abc.ByteReceiveStream, chatter: Chatter) -> None:
    while True:
        try:
            chatter.words(await stream.receive(65_536))
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return
        # A program that writes more than we read has to wait; nobody else does.
        await anyio.sleep(_BREATH)


# HTTP -----------------------------------------------------------------------------------------


@asynccontextmanager
async def _http(server: ServerConfig, chatter: Chatter) -> AsyncGenerator[Any]:
    """The streams of messages to and from an address. Proxies of the environment are ignored."""
    from mcp.client.streamable_http import streamable_http_client

    async with (
        bounded_client(server.headers, server.timeout, chatter) as client,
        streamable_http_client(
            server.url or "", http_client=client, max_sse_event_size=MOST_MESSAGE
        ) as streams,
    ):
        yield streams


# The HTTP client for foreign servers: it follows no redirects and limits every body.

_CONNECT = 10.0
_NOT_ALLOWED = 405
_RESUMED = "last-event-id"
# Faulty servers could fill the log with tracebacks; what matters comes back as an error.
logging.getLogger("mcp.client.streamable_http").setLevel(logging.CRITICAL)


class _Body(httpx2.AsyncByteStream):
    """A body of limited length; in a stream of events, each event is limited instead."""

    def __init__(self, body: Any, chatter: Chatter, *, events: bool) -> None:  # noqa: ANN401 - the transport's own
        self._body, self._chatter, self._events = body, chatter, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_MESSAGE
        async for chunk in self._body:
            left -= 0 if self._events else len(chunk)
            if left < 0:
                raise httpx2.ReadError(because("the answer is too long"))
            if not self._chatter.came(len(chunk), chunk.count(b"\n") if self._events else 0):
                raise httpx2.ReadError(because("gonogo has stopped the server"))
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """Limits every body, and does not wait for unrequested messages."""

    def __init__(self, chatter: Chatter) -> None:
        super().__init__(trust_env=False)
        self._chatter = chatter

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET" and not self._may_resume(request):
            return httpx2.Response(_NOT_ALLOWED, request=request)
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            # A small compressed body could become a large one.
            await response.aclose()
            raise httpx2.ReadError(because("the answer is compressed, which gonogo does not take"))
        kind = response.headers.get("content-type", "")
        events = kind.lower().startswith("text/event-stream")
        response.stream = _Body(response.stream, self._chatter, events=events)
        return response

    def _may_resume(self, request: httpx2.Request) -> bool:
        return _RESUMED in request.headers and self._chatter.unasked(REOPENED)


def bounded_client(
    headers: Mapping[str, str], timeout: float, chatter: Chatter
) -> httpx2.AsyncClient:
    """A client with these headers.

    Args:
        timeout: Seconds that a server may be silent in the middle of an answer.
        chatter: Counts the received data.
    """
    return httpx2.AsyncClient(
        headers=dict(headers), transport=_Transport(chatter), trust_env=False,
        timeout=httpx2.Timeout(_CONNECT, read=timeout),
    )  # fmt: skip
