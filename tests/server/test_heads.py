"""A request whose head does not come holds no connection; who is being answered is left alone."""

import logging

import anyio
import pytest

from gonogo.server import WaitLimits
from server.test_socket import opened

WHOLE = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"


async def everything(line: anyio.abc.SocketStream) -> list[bytes]:
    found: list[bytes] = []
    with anyio.fail_after(60):
        while True:
            try:
                found.append(await line.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return found


async def read_to_the_end(line: anyio.abc.SocketStream) -> None:
    await everything(line)


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /health HTTP/1.1\r\nHost: ", b"\r\n"])
async def test_a_connection_on_which_no_whole_head_comes_is_closed(served, sent):
    async with (
        served(limits=WaitLimits(body=1.0)) as client,
        await anyio.connect_tcp("127.0.0.1", client.ready.port) as line,
    ):
        if sent:
            await line.send(sent)
        await read_to_the_end(line)


async def test_the_next_head_of_a_connection_has_to_come_in_time_too(served):
    async with (
        served(limits=WaitLimits(body=1.0)) as client,
        await anyio.connect_tcp("127.0.0.1", client.ready.port) as line,
    ):
        await line.send(WHOLE % client.ready.port)
        assert b"200 OK" in await line.receive()
        await line.send(b"GET /")
        await read_to_the_end(line)


async def test_of_requests_that_wait_for_no_answer_only_the_first_is_answered(served):
    async with (
        served() as client,
        await anyio.connect_tcp("127.0.0.1", client.ready.port) as line,
    ):
        whole = WHOLE % client.ready.port
        await line.send(whole)
        assert b"200 OK" in await line.receive()
        await line.send(whole * 3)
        assert b"".join(await everything(line)).count(b"200 OK") == 1


async def test_a_head_that_comes_a_byte_at_a_time_gets_no_more_time(served):
    async with (
        served(limits=WaitLimits(body=1.0)) as client,
        await anyio.connect_tcp("127.0.0.1", client.ready.port) as line,
        anyio.create_task_group() as group,
    ):

        async def drip() -> None:
            await line.send(b"GET /health HTTP/1.1\r\nX: ")
            while True:
                await line.send(b"x")
                await anyio.sleep(0.01)

        async def drip_while_it_is_open() -> None:
            try:
                await drip()
            except anyio.BrokenResourceError:
                return

        group.start_soon(drip_while_it_is_open)
        await read_to_the_end(line)
        group.cancel_scope.cancel()


async def test_who_is_answered_for_long_is_not_cut_off(served, runtime):
    async with (
        served(limits=WaitLimits(body=1.0, heartbeat=0.3)) as client,
        opened(client) as line,
        client.stream("GET", "/api/v1/sessions/s_A/events") as answer,
    ):
        with anyio.fail_after(60):
            beats = answer.aiter_text()
            assert [await anext(beats) for _ in range(6)] == [": still here\n\n"] * 6
            await (await line.ping())


@pytest.mark.parametrize("host", [b"evil", b"127.0.0.1"])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_body_that_cannot_be_read_leaves_no_trace_in_the_log(served, caplog, host, waits):
    head = (
        b"POST /api/v1/sessions HTTP/1.1\r\nHost: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % host
    )
    async with (
        served(None) as client,
        await anyio.connect_tcp("127.0.0.1", client.ready.port) as line,
    ):
        caplog.set_level(logging.ERROR)
        await line.send(head if waits else head + b"zz\r\n")
        assert (await line.receive()).startswith(b"HTTP/1.1 40")
        if waits:
            await line.send(b"zz\r\n")
        await read_to_the_end(line)
    assert caplog.records == []
