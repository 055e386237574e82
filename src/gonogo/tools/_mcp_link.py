"""One connection to an MCP server: the only place on this side that knows the protocol's library.

What a server sends is bounded before it is read: a line, a body and an event have a longest length,
and a listing a most of pages. What a server asks of us (to sample a model, to question the user, to
name folders) is refused, as we say that we cannot.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from gonogo.domain.errors import OutcomeUnknown, ToolFailed
from gonogo.tools._mcp_config import ServerConfig
from gonogo.tools._tool import JsonObject
from gonogo.workspace import bound_process

MOST_TOOLS, MOST_MESSAGE = 256, 4 << 20
"""Tools of one server, and bytes of one message."""
_MOST_PAGES = 50
_SAID = 2_000
_MANNERS = 0.5
"""Seconds that a program has to end by itself when it is not needed any more."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as the server lists it, unchecked."""

    name: str
    description: str
    parameters: Any


@dataclass(frozen=True, slots=True)
class Link:
    """An open connection."""

    session: Any
    """`mcp.client.session.ClientSession`."""
    version: str
    """What the server calls itself."""
    gone: anyio.Event
    """Set when there is nobody at the other end any more."""
    over_http: bool

    async def tools(self) -> list[Listed]:
        """The tools that the server lists now.

        Raises:
            ToolFailed: `server_unavailable`, or `server_error` for a listing that is none.
        """
        from mcp_types import ListToolsRequest, ListToolsResult, PaginatedRequestParams

        found: list[Listed] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._asked(ListToolsRequest(params=params), ListToolsResult)
            found += [Listed(t.name, t.description or "", t.input_schema) for t in page.tools]
            cursor = page.next_cursor
            if cursor is None or len(found) > MOST_TOOLS:
                break
        return found[:MOST_TOOLS]

    async def call(self, tool: str, arguments: JsonObject, timeout: float) -> Any:  # noqa: ANN401, ASYNC109
        """Have the server carry out a call; gives the library's result.

        Raises:
            OutcomeUnknown: it was sent, and no answer came.
            ToolFailed: `server_error`: the server refuses it.
        """
        from mcp.shared.exceptions import MCPError
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

        params = CallToolRequestParams(name=tool, arguments=arguments)
        try:
            return await self.session.send_request(
                CallToolRequest(params=params), CallToolResult, request_read_timeout_seconds=timeout
            )
        except MCPError as error:
            raise self._failure(error) from error
        except ValueError as error:
            # The server did answer; what it did, nobody can tell from that.
            raise OutcomeUnknown(f"the answer is none: {str(error)[:_SAID]}") from error

    def _failure(self, error: Any) -> ToolFailed:  # noqa: ANN401 - MCPError
        from mcp_types import (
            CONNECTION_CLOSED,
            INTERNAL_ERROR,
            INVALID_REQUEST,
            PARSE_ERROR,
            REQUEST_TIMEOUT,
        )

        said = error.message[:_SAID]
        if error.code == CONNECTION_CLOSED or (self.over_http and error.code == INVALID_REQUEST):
            # Over HTTP that is how a session ends which the server has forgotten.
            self.gone.set()
        unsure = {CONNECTION_CLOSED, REQUEST_TIMEOUT}
        if self.over_http:
            # The library's words for an answer that is cut off, or comes from something between.
            unsure |= {INTERNAL_ERROR, PARSE_ERROR}
        return OutcomeUnknown(said) if error.code in unsure else ToolFailed("server_error", said)

    async def _asked(self, request: Any, kind: type[Any]) -> Any:  # noqa: ANN401
        from mcp.shared.exceptions import MCPError

        try:
            return await self.session.send_request(request, kind)
        except MCPError as error:
            self._failure(error)
            raise ToolFailed("server_unavailable", error.message[:_SAID]) from error
        except ValueError as error:
            raise ToolFailed(
                "server_error", f"a listing that is none: {str(error)[:_SAID]}"
            ) from error


@asynccontextmanager
async def linked(server: ServerConfig, said: "Said") -> AsyncGenerator[Link]:
    """A connection to a server, for as long as the block.

    Args:
        said: Takes what a server that is a program writes beside the protocol.

    Raises:
        ToolFailed: `io_error`: its program cannot be started.
        Exception: the library's, for a server that does not answer as one.
    """
    from mcp import Client
    from mcp_types import Implementation

    from gonogo import __version__

    gone = anyio.Event()
    transport = _http(server) if server.url else _stdio(server, said, gone)
    client = Client(
        cast("Any", transport),
        read_timeout_seconds=server.start_timeout,
        client_info=Implementation(name="gonogo", version=__version__),
        cache=None,
    )
    async with client:
        known = client.server_info
        version = f"{known.name} {known.version}"[:200] if known else ""
        yield Link(client.session, version, gone, server.url is not None)


class Said:
    """The last words of a program."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, chunk: bytes) -> None:
        """More words."""
        self._kept = (self._kept + chunk)[-_SAID:]

    @property
    def last_line(self) -> str:
        """The last line that says something."""
        lines = self._kept.decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


# Programs -------------------------------------------------------------------------------------


@asynccontextmanager
async def _stdio(server: ServerConfig, said: Said, gone: anyio.Event) -> AsyncGenerator[Any]:
    """The streams of messages to and from a program: one a line."""
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
        group.start_soon(_read, process.stdout, incoming, gone, server.name)
        group.start_soon(_write, process.stdin, outgoing, incoming)
        group.start_soon(_listen, process.stderr, said)
        try:
            yield received, sent
        finally:
            with anyio.move_on_after(_MANNERS, shield=True):
                await process.stdin.aclose()
                await process.wait()
            group.cancel_scope.cancel()


async def _read(
    stream: anyio.abc.ByteReceiveStream,
    to: MemoryObjectSendStream[Any],
    gone: anyio.Event,
    name: str,
) -> None:
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    async with to:
        async for line in _lines(stream, name):
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                _LOG.warning("MCP server %s: %.200r is no message", name, line)
                continue
            try:
                await to.send(SessionMessage(message))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return
        gone.set()


async def _lines(stream: anyio.abc.ByteReceiveStream, name: str) -> AsyncIterator[bytes]:
    left = b""
    while True:
        try:
            left += await stream.receive(65_536)
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return
        *whole, left = left.split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(left) > MOST_MESSAGE:
            _LOG.error("MCP server %s: a message is longer than %s bytes", name, MOST_MESSAGE)
            return


async def _write(
    stream: anyio.abc.ByteSendStream,
    messages: MemoryObjectReceiveStream[Any],
    incoming: MemoryObjectSendStream[Any],
) -> None:
    async with messages:
        async for message in messages:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            try:
                await stream.send(line.encode())
            except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
                # Whoever waits for an answer learns that there will be none.
                await incoming.aclose()
                return


async def _listen(stream: anyio.abc.ByteReceiveStream, said: Said) -> None:
    while True:
        try:
            said.add(await stream.receive(4_096))
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return


# HTTP -----------------------------------------------------------------------------------------


@asynccontextmanager
async def _http(server: ServerConfig) -> AsyncGenerator[Any]:
    """The streams of messages to and from an address. Proxies of the environment are not asked."""
    from mcp.client.streamable_http import streamable_http_client

    from gonogo.tools._mcp_http import bounded_client

    async with (
        bounded_client(server.headers, server.timeout, MOST_MESSAGE) as client,
        streamable_http_client(
            server.url or "", http_client=client, max_sse_event_size=MOST_MESSAGE
        ) as streams,
    ):
        yield streams
