"""Messages on two file descriptors, one a line, as the library's server wants them.

The library's own reading blocks a thread that nobody can end; this one waits in the event loop.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from gonogo.pipes import read_some, write_all

_LONGEST = 4 << 20
_LOG = logging.getLogger(__name__)


@asynccontextmanager
async def messages_on(source: int, sink: int) -> AsyncGenerator[tuple[Any, Any]]:
    """The streams of messages from the other side and to it.

    Args:
        source: Where messages are read from.
        sink: Where messages are written to.
    """
    into, received = anyio.create_memory_object_stream[Any](0)
    sent, out = anyio.create_memory_object_stream[SessionMessage](0)
    async with into, received, sent, out, anyio.create_task_group() as group:
        group.start_soon(_read, source, into)
        group.start_soon(_write, sink, out)
        yield received, sent
        group.cancel_scope.cancel()


async def _read(source: int, into: MemoryObjectSendStream[Any]) -> None:
    async with into:
        async for line in _lines(source):
            try:
                message: Any = SessionMessage(jsonrpc_message_adapter.validate_json(line))
            except ValueError as error:
                # The library's server answers what it can of it.
                message = error
            try:
                await into.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _lines(source: int) -> AsyncIterator[bytes]:
    held = b""
    while True:
        more = await read_some(source)
        if not more:
            return
        *whole, held = (held + more).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(held) > _LONGEST:
            _LOG.error("a message is longer than %s bytes", _LONGEST)
            return


async def _write(sink: int, out: MemoryObjectReceiveStream[SessionMessage]) -> None:
    with suppress(OSError):
        async with out:
            async for message in out:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await write_all(sink, f"{text}\n".encode())
