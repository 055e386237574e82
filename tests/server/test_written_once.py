"""An event is encoded once: what its transaction wrote is what every follower and replay gets."""

import json
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import anyio
import httpx
import pytest
from websockets.asyncio.client import unix_connect

from fakes.door import LIMIT, served
from gonogo.domain import base
from gonogo.domain.events import AssistantMessage
from gonogo.domain.identity import Role
from gonogo.store import columns
from gonogo.store import events as log

MARK = "Привет\u2028once and for all"
LONG = MARK * 50
"""Kept elsewhere in the database, once for all rows that say it."""


@pytest.fixture
async def door(tmp_path):
    async with served(tmp_path, {}) as (runtime, path):
        _, token = await runtime.people.create_token(runtime.owner, "ann", Role.ADMIN)
        headers = {"Authorization": f"Bearer {token}"}
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://gonogo/api/v1", headers=headers, timeout=LIMIT
        ) as http:
            made = await http.post("/sessions", json={})
            session = made.json()["session_id"]
            yield Door(runtime, str(path), headers, http, session)


class Door:
    """One session, and the ways in which its events can be followed."""

    def __init__(self, runtime, path, headers, http, session) -> None:
        self.runtime, self.path, self.headers = runtime, path, headers
        self.http, self.session = http, session

    @asynccontextmanager
    async def sse(self, after: int):
        way = f"/sessions/{self.session}/events"
        async with self.http.stream("GET", way, params={"after": after}) as answer:
            yield self._data(answer.aiter_bytes())

    async def _data(self, pieces):
        rest = b""
        async for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data: "):
                    yield line.removeprefix(b"data: ")

    @asynccontextmanager
    async def ws(self, after: int):
        url = f"ws://gonogo/api/v1/ws/{self.session}?after={after}"
        async with unix_connect(self.path, url, additional_headers=self.headers) as line:
            yield (each.encode() async for each in line)

    async def page(self) -> bytes:
        answer = await self.http.get(f"/sessions/{self.session}/log")
        return answer.content

    async def tell(self, content: str) -> None:
        event = AssistantMessage(content=content)
        await self.runtime.parts.store.write(log.tell, self.session, event)


@contextmanager
def counted(monkeypatch) -> Iterator[dict[str, int]]:
    """How often what has the mark is made JSON, or is read from it."""
    found = {"encoded": 0, "decoded": 0}

    def counting(what: str, fn: Callable[..., Any], has: Callable[[Any, Any], Any]) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            result = fn(*given, **more)
            found[what] += "once and for all" in str(has(given, result))
            return result

        return call

    def whole(given: Any, result: Any) -> str:
        """Events, not the texts that are put in the place of references."""
        text = result.decode() if isinstance(result, bytes) else result
        return text if text[0] in "[{" else ""

    def taken(given: Any, result: Any) -> Any:
        return given

    with monkeypatch.context() as patch:
        patch.setattr(columns, "_encode_fast", counting("encoded", columns._encode_fast, whole))
        patch.setattr(columns, "_encode", counting("encoded", columns._encode, whole))
        patch.setattr(base, "as_line", counting("encoded", base.as_line, whole))
        patch.setattr(json, "dumps", counting("encoded", json.dumps, whole))
        patch.setattr(json, "loads", counting("decoded", json.loads, taken))
        yield found


async def first(events) -> bytes:
    with anyio.fail_after(LIMIT):
        return await anext(events)


@pytest.mark.parametrize("content", [MARK, LONG])
async def test_all_who_follow_and_all_who_come_later_get_the_bytes_of_one_encoding(
    door, monkeypatch, content
):
    async with AsyncExitStack() as stack:
        live = [
            await stack.enter_async_context(way(0))
            for way in (door.sse, door.ws, door.sse, door.ws)
        ]
        with counted(monkeypatch) as found:
            await door.tell(content)
            told = [await first(events) for events in live]
            for way in (door.sse, door.ws):
                async with way(0) as again:
                    told.append(await first(again))
            page = await door.page()

    assert found == {"encoded": 1, "decoded": 0}
    assert len({*told}) == 1
    assert page == b'{"events":[' + told[0] + b"]}"
    body = json.loads(told[0])
    assert (body["type"], body["content"], body["seq"]) == ("assistant_message", content, 1)
    assert "\\u2028" in told[0].decode()
