"""A server of tools at an address that wants to do harm: HTTP by hand, so that it can be broken.

    async with hostile(trick) as url: …

Without its trick it lists one tool, `search`, and answers each call. `TRICKS` has what it does
otherwise, by the method of the message that it does it at.
"""

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import repeat
from typing import Any

from fakes.hostile import SEARCH, asks, notes, said

Json = dict[str, Any]
Play = Callable[["Exchange"], Awaitable[None]]
EVENTS = "text/event-stream"
PACKED_IF_WANTED = "packed, unless that is declined"


class Exchange:
    """One request, and what is said to it."""

    def __init__(self, request: Json, writer: asyncio.StreamWriter, accepts: str) -> None:
        self.request, self.writer, self.accepts = request, writer, accepts

    async def head(
        self, status: str = "200 OK", kind: str = "application/json", *more: str
    ) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *more, "", ""]
        await self.write("\r\n".join(lines).encode())

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def flood(self, data: bytes) -> None:
        chunk = data * max(1, (1 << 16) // len(data))
        for each in repeat(chunk):
            await self.write(each)

    def result(self, value: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": self.request["id"], "result": value}).encode()

    async def answer(self, value: Any) -> None:
        await self.head()
        await self.write(self.result(value))


def event(data: bytes) -> bytes:
    return b"event: message\ndata: " + data.strip() + b"\n\n"


def events(data: bytes) -> Play:
    """A stream of events that has no end, and no answer in it."""

    async def play(exchange: Exchange) -> None:
        await exchange.head("200 OK", EVENTS)
        await exchange.flood(data)

    return play


def bare(status: str, kind: str = "application/json", *more: str, body: bytes = b"") -> Play:
    async def play(exchange: Exchange) -> None:
        await exchange.head(status, kind, *more)
        await exchange.write(body)

    return play


async def _answer_then_flood(exchange: Exchange) -> None:
    await exchange.head("200 OK", EVENTS)
    await exchange.flood(event(notes("notifications/message", level="error", data="x" * 1_000)))


async def _endless_body(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.flood(b" ")


async def _trickle(exchange: Exchange) -> None:
    await exchange.head()
    while True:
        await exchange.write(b" ")
        await asyncio.sleep(0.05)


async def _again_at_once(exchange: Exchange) -> None:
    await exchange.head("200 OK", EVENTS)
    await exchange.write(b"retry: 0\nid: 1\ndata:\n\n")


async def _cut_off(exchange: Exchange) -> None:
    await exchange.head("200 OK", "application/json", "Content-Length: 1000")
    await exchange.write(b'{"jsonrpc": "2.0"')


async def _long_head(exchange: Exchange) -> None:
    await exchange.write(b"HTTP/1.1 200 OK\r\n")
    await exchange.flood(b"X-Long: " + b"x" * 1_000 + b"\r\n")


async def _no_head(exchange: Exchange) -> None:
    await exchange.flood(b"\x00\xff")


async def _of_another(exchange: Exchange) -> None:
    exchange.request["id"] = 10**6
    await exchange.answer(said("not yours"))


async def _infinite(exchange: Exchange) -> None:
    await exchange.head()
    await exchange.write(
        exchange.result({"content": [], "structuredContent": {"n": 0}}).replace(b"0}}", b"1e999}}")
    )


async def _packed_if_wanted(exchange: Exchange) -> None:
    """It packs its answer, unless it was told not to."""
    plain = exchange.accepts == "identity"
    await exchange.head(*() if plain else ("200 OK", "application/json", "Content-Encoding: gzip"))
    answer = exchange.result(said("as you like it"))
    await exchange.write(answer if plain else gzip.compress(answer))


TRICKS: dict[str, tuple[str, Play]] = {
    "comments": ("tools/call", events(b": still here\n")),
    "comments at once": ("tools/list", events(b": still here\n")),
    "lines": ("tools/call", events(b"\n")),
    "other events": ("tools/call", events(b"event: what\ndata: x\n\n")),
    "an event without end": ("tools/call", events(b"data: " + b"x" * 1_000 + b"\n")),
    "a line without end": ("tools/call", events(b"x")),
    "notifications": ("tools/call", events(event(notes("notifications/tools/list_changed")))),
    "long notifications": ("tools/call", _answer_then_flood),
    "sampling": ("tools/call", events(event(asks("sampling/createMessage", messages=[])))),
    "junk": ("tools/call", events(b"data: not a message\n\n")),
    "again at once": ("tools/call", _again_at_once),
    "a body without end": ("tools/call", _endless_body),
    "a trickle": ("tools/call", _trickle),
    "cut off": ("tools/call", _cut_off),
    "a head without end": ("tools/call", _long_head),
    "no head": ("tools/call", _no_head),
    "packed": ("tools/call", bare("200 OK", "application/json", "Content-Encoding: gzip")),
    PACKED_IF_WANTED: ("tools/call", _packed_if_wanted),
    "a page": ("tools/call", bare("200 OK", "text/html", body=b"<h1>Hello</h1>")),
    "no JSON": ("tools/call", bare("200 OK", body=b"not JSON")),
    "accepted": ("tools/call", bare("202 Accepted")),
    "nobody": ("tools/call", bare("404 Not Found")),
    "not you": ("tools/call", bare("401 Unauthorized")),
    "broken": ("tools/call", bare("500 Internal Server Error", body=b"{}")),
    "elsewhere": ("tools/call", bare("307 See", "text/plain", "Location: http://127.0.0.1:1/")),
    "in a circle": ("tools/call", bare("307 See", "text/plain", "Location: /mcp")),
    "of another": ("tools/call", _of_another),
    "infinite": ("tools/call", _infinite),
    "broken from the start": ("initialize", bare("500 Internal Server Error")),
    "comments from the start": ("initialize", events(b": still here\n")),
}


async def _read(reader: asyncio.StreamReader) -> tuple[str, Json, str]:
    written = (await reader.readuntil(b"\r\n\r\n")).decode()
    head, accepts = written.lower(), re.search("(?i)^accept-encoding: (.*?)\r$", written, re.M)
    length = head.partition("content-length: ")[2].partition("\r\n")[0]
    body = await reader.readexactly(int(length or 0))
    return head.split()[0], json.loads(body or b"{}"), accepts[1] if accepts else ""


async def _take(trick: str, requests: list[str], exchange: Exchange) -> None:
    method = exchange.request.get("method", "")
    requests.append(method)
    when, play = TRICKS[trick]
    if method == when:
        await play(exchange)
    elif method == "initialize":
        await exchange.answer({
            "protocolVersion": exchange.request["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "hostile", "version": "1"},
        })  # fmt: skip
    elif method == "tools/list":
        await exchange.answer({"tools": [SEARCH]})
    elif method == "tools/call":
        await exchange.answer(said("done"))
    elif "id" in exchange.request and method:
        error = {"code": -32601, "message": "Method not found"}
        await exchange.head()
        await exchange.write(
            json.dumps({"jsonrpc": "2.0", "id": exchange.request["id"], "error": error}).encode()
        )
    else:
        await exchange.head("202 Accepted")


@asynccontextmanager
async def hostile(trick: str) -> AsyncIterator[tuple[str, list[str]]]:
    """A server with that trick; gives its address, and the methods that it was asked for."""
    requests: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            verb, request, accepts = await _read(reader)
            exchange = Exchange(request, writer, accepts)
            if verb == "post":
                await _take(trick, requests, exchange)
            elif verb == "get":
                requests.append("GET")
                await TRICKS[trick][1](exchange)
            else:
                await exchange.head("405 Method Not Allowed")
        writer.transport.abort() if writer.is_closing() else writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", requests
    finally:
        server.close()
