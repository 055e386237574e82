"""A stream that breaks goes on where it broke, and a message is sent once."""

import asyncio
import json
from collections.abc import AsyncIterator

import anyio
import httpx
import pytest

from gonogo.client import Unreachable
from gonogo.client.transport import ATTEMPTS, _Breaks, over_socket, read_stream
from gonogo.domain.errors import Busy

HELLO = {"type": "user_message", "content": "hi"}


def event(seq: int | None, **more) -> bytes:
    body = {"type": "assistant_message", "content": f"#{seq}", **more}
    if seq is None:
        return b"event: message\ndata: " + json.dumps(body).encode() + b"\n\n"
    return f"event: message\nid: {seq}\ndata: {json.dumps({**body, 'seq': seq})}\n\n".encode()


DONE = b'event: done\ndata: {"type":"done","is_final":true}\n\n'


class Broken(httpx.AsyncByteStream):
    """Bytes, and then the line goes dead."""

    def __init__(self, *chunks: bytes, dead: bool = True) -> None:
        self._chunks, self._dead = chunks, dead

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        if self._dead:
            raise httpx.ReadError("reset")


class Server:
    """Answers that come one after the other, and what was asked."""

    def __init__(self, *answers: httpx.AsyncByteStream | Exception) -> None:
        self.answers, self.asked = list(answers), []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(200, stream=answer)


async def test_a_broken_answer_is_asked_for_again_under_the_same_key(against):
    server = Server(
        httpx.ConnectError("not yet"),
        Broken(event(1), event(None), event(2)[:20]),
        Broken(event(1), event(2), event(3, is_final=True), DONE),
    )
    async with against(server) as client:
        with anyio.fail_after(60):
            got = [e["content"] async for e in client.send("s", HELLO)]

    assert got == ["#1", "#None", "#2", "#3"]
    keys = {request.headers["idempotency-key"] for request in server.asked}
    assert len(keys) == 1
    assert len({request.content for request in server.asked}) == 1


async def test_two_messages_have_two_keys(against):
    server = Server(Broken(DONE), Broken(DONE))
    async with against(server) as client:
        for _ in range(2):
            async for _ in client.send("s", HELLO):
                pass

    assert len({request.headers["idempotency-key"] for request in server.asked}) == 2


async def test_a_broken_log_goes_on_after_the_last_event(against):
    server = Server(
        Broken(event(5), event(6)),
        Broken(event(6), event(7), dead=False),
        Broken(event(8)),
    )
    got = []
    async with against(server) as client:
        with anyio.fail_after(60):
            async for e in client.follow("s", after=4):
                got.append(e["seq"])
                if e["seq"] == 8:
                    break

    assert got == [5, 6, 7, 8]
    assert [r.headers.get("last-event-id") for r in server.asked] == [None, "6", "7"]
    assert [r.url.query for r in server.asked] == [b"after=4", b"", b""]


async def test_a_server_that_stays_away_is_unreachable_in_the_end(against, monkeypatch):
    monkeypatch.setattr("gonogo.client.transport._LONGEST_DELAY", 0.001)
    server = Server(*[httpx.ConnectError("refused") for _ in range(6)])
    async with against(server) as client:
        with pytest.raises(Unreachable, match="refused"), anyio.fail_after(60):
            await anext(client.follow("s"))

    assert server.answers == []


async def test_a_server_that_comes_back_each_time_may_break_any_number_of_times(
    against, monkeypatch
):
    monkeypatch.setattr("gonogo.client.transport._LONGEST_DELAY", 0.001)
    server = Server(*[Broken(event(seq)) for seq in range(1, 4 * ATTEMPTS)])
    async with against(server) as client:
        with anyio.fail_after(60):
            async for found in client.follow("s"):
                if found["seq"] == 4 * ATTEMPTS - 1:
                    break

    assert server.answers == []


async def test_a_patient_client_asks_again_until_another_server_is_there(against, monkeypatch):
    monkeypatch.setattr("gonogo.client.transport._LONGEST_DELAY", 0.001)
    away = [httpx.ConnectError("refused") for _ in range(9)]
    server = Server(*away, Broken(event(1)))
    async with against(server, patience=60) as client:
        with anyio.fail_after(60):
            assert (await anext(client.follow("s")))["seq"] == 1

    asked: list[httpx.Request] = []
    answers = [httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.Response(200, json={
        "name": "mcp__x__y", "news": True,
    })]  # fmt: skip

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if isinstance(given := answers.pop(0), Exception):
            raise given
        return given

    async with against(answer, patience=60) as client:
        with anyio.fail_after(60):
            assert (await client.accept_tool("mcp__x__y")).news
        answers[:] = [httpx.ReadError("reset")]
        with pytest.raises(Unreachable, match="reset"):
            await client.delete_session("s")
        answers[:] = [httpx.ConnectError("refused"), httpx.Response(204)]
        await client.delete_session("s")

    assert len({request.headers["idempotency-key"] for request in asked[:3]}) == 1
    assert [request.method for request in asked] == ["POST"] * 3 + ["DELETE"] * 3


async def test_between_breaks_it_waits_longer_and_longer_until_it_was_tried_often_and_long_enough():
    error, breaks = Unreachable("away"), _Breaks()
    assert [breaks.add(error, 0) for _ in range(5)] == [0.1, 0.2, 0.4, 0.8, 1.6]
    with pytest.raises(Unreachable, match=r"^away$"):
        breaks.add(error, 0)

    breaks = _Breaks(count=5, since=anyio.current_time() - 30)
    assert breaks.add(error, patience=60) == 2.0, "often, and not long enough"
    with pytest.raises(Unreachable):
        breaks.add(error, patience=20)
    breaks = _Breaks()
    breaks.add(error, 0)
    assert 0 <= anyio.current_time() - breaks.since < 60, "it counts from the first on"


@pytest.mark.parametrize(
    ("end", "said"),
    [(Broken(), "reset"), (Broken(dead=False), "the server ended the stream; try again")],
    ids=["cut", "ended"],
)
async def test_a_stream_that_keeps_breaking_says_how(against, monkeypatch, end, said):
    monkeypatch.setattr("gonogo.client.transport._LONGEST_DELAY", 0.001)
    async with against(Server(*[end] * ATTEMPTS)) as client:
        with anyio.fail_after(60), pytest.raises(Unreachable) as away:
            await anext(client.follow("s"))

    assert str(away.value) == f"The stream breaks again and again: {said}"


@pytest.mark.feature(211)
async def test_the_log_is_whole_whatever_breaks(client, runtime):
    for n in range(50):
        runtime.happen("s_A", {"type": "assistant_message", "content": str(n), "seq": 0})
    got: list[int] = []
    async with client() as c:
        while len(got) < 50:
            with anyio.fail_after(60):
                stream = c.follow("s_A", after=got[-1] if got else 0)
                async for e in stream:
                    got.append(e["seq"])
                    if e["seq"] % 7 == 0 or e["seq"] == 50:
                        break
                await stream.aclose()

    assert got == list(range(1, 51))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
async def test_frames_are_read_however_they_are_cut(size):
    raw = (
        b": hello\r\n\r\nevent: message\r\nid: 1\r\n"
        b'data: {"type":"x",\r\ndata: "text":"\xd0\x9f \xe2\x80\xa8 \xc2\x85"}\r\n\r\n'
        b'data:{"type":"y"}\n\ndata: {"type":"cut"}\n'
    )

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(raw), size):
            yield raw[start : start + size]

    events = [e async for e in read_stream(chunks())]

    assert events == [{"type": "x", "text": "П \u2028 \x85"}, {"type": "y"}]


def away(request: httpx.Request) -> httpx.Response:
    body = {"code": "unavailable", "status": 503, "detail": "not now"}
    return httpx.Response(503, json=body, headers={"Retry-After": "5"})


async def test_who_waits_for_a_server_that_cannot_work_now_asks_until_it_can(against, monkeypatch):
    monkeypatch.setattr("gonogo.client.transport._LONGEST_DELAY", 0.001)
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) % 9:
            return away(request)
        if request.method == "GET":
            return httpx.Response(200, stream=Broken(event(1)))
        return httpx.Response(200, json={"name": "mcp__x__y", "news": True})

    async with against(answer, busy=60) as client:
        with anyio.fail_after(60):
            assert (await client.accept_tool("mcp__x__y")).news
            assert (await anext(client.follow("s")))["seq"] == 1
        with pytest.raises(Busy):
            await client.revoke_token("t")

    keys = {each.headers.get("idempotency-key") for each in asked if each.method == "POST"}
    assert (len(asked), len(keys)) == (19, 1)


async def test_who_does_not_wait_is_told(against, monkeypatch):
    monkeypatch.setattr("gonogo.client.transport._LONGEST_DELAY", 0.001)
    async with against(away) as client:
        with anyio.fail_after(60):
            with pytest.raises(Busy, match="not now"):
                await client.agents()
            with pytest.raises(Busy, match="not now"):
                await anext(client.follow("s"))


@pytest.mark.anyio
async def test_a_read_that_is_cut_off_as_its_bytes_arrive_leaves_no_trace(tmp_path):
    """Errors in callbacks of the loop fail a test; at a terminal they are tracebacks."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    listener = await anyio.create_unix_listener(tmp_path / "s")
    http, reads = httpx.AsyncClient(transport=over_socket(tmp_path / "s")), anyio.Event()

    async def follow():
        async with http.stream("GET", "http://gonogo/") as answer:
            reads.set()
            async for _ in answer.aiter_raw():
                pass

    async with listener, http, anyio.create_task_group() as group:
        group.start_soon(follow)
        async with await listener.accept() as server:
            await server.receive()
            await server.send(head)
            await reads.wait()
            await anyio.wait_all_tasks_blocked()
            await server.send(b"1\r\nx\r\n")
            # The loop has the bytes, and goes on here before it reads them.
            await asyncio.sleep(0)
            group.cancel_scope.cancel()
