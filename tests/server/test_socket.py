"""A WebSocket carries a session both ways, and what one side does never stops the other."""

import json
import socket
import struct
from contextlib import asynccontextmanager

import anyio
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from fakes.sockets import connected
from fakes.until import until
from gonogo.domain.errors import Busy, Conflict, Internal
from gonogo.domain.views import DecisionAnswer
from gonogo.server import WaitLimits

TOKEN = {"Authorization": "Bearer token-a"}
HELLO = json.dumps({"type": "user_message", "content": "hi"})
APPROVE = json.dumps({"type": "hitl_decision", "call_id": "c1", "decision": "approve"})


@asynccontextmanager
async def opened(client, path="/api/v1/ws/s_A", headers=TOKEN, **options):
    url = f"ws://127.0.0.1:{client.ready.port}{path}"
    async with connect(url, additional_headers=headers, proxy=None, **options) as line:
        yield line


async def received(line) -> dict:
    with anyio.fail_after(60):
        return json.loads(await line.recv())


async def closed(line) -> int:
    """Read on until the other side closes; the code it closed with."""
    with anyio.fail_after(60):
        try:
            while True:
                await line.recv()
        except ConnectionClosed as end:
            return end.rcvd.code if end.rcvd else 1006


@pytest.mark.feature(71)
@pytest.mark.parametrize("path", ["/ws/s_A", "/api/v1/ws/s_A"])
async def test_a_message_is_taken_and_its_events_come_back(served, runtime, path):
    async with served() as client, opened(client, path) as line:
        await line.send(APPROVE)
        event = await received(line)

    message, connection = runtime.accepted[0]
    assert (message.call_id, message.decision) == ("c1", "approve")
    assert connection
    assert (event["type"], event["seq"], event["session_id"]) == ("assistant_message", 1, "s_A")


async def test_what_was_missed_comes_first_when_it_is_asked_for(served, runtime):
    for n in range(3):
        runtime.happen("s_A", {"type": "assistant_message", "content": str(n), "seq": 0})
    async with (
        served() as client,
        opened(client, "/ws/s_A?after=1") as late,
        opened(client) as live,
    ):
        assert [(await received(late))["seq"] for _ in range(2)] == [2, 3]
        await late.send(HELLO)
        assert (await received(late))["seq"] == (await received(live))["seq"] == 4


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/ws/s_A?after=-1", "invalid_cursor"), ("/ws/s_A?after=abc", "invalid_cursor"),
        ("/ws/s_A?after=9", "invalid_cursor"), ("/ws/s_404", "not_found"),
        ("/ws/s_B", "not_found"),
    ],
)  # fmt: skip
async def test_what_cannot_be_shown_is_said_and_ends_it(served, path, code):
    async with served() as client, opened(client, path) as line:
        event = await received(line)

        assert (event["type"], event["code"]) == ("error", code)
        assert await closed(line) == 1008


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "invalid_message"), ("[]", "invalid_message"), ("null", "invalid_message"),
        ('{"type":"user_message","type":"cancel"}', "invalid_message"),
        ('{"type":"tool_call"}', "unknown_type"), ("[" * 100_000, "too_large"),
    ],
)  # fmt: skip
async def test_a_wrong_message_is_said_and_the_line_stays_open(served, runtime, frame, code):
    async with served() as client, opened(client) as line:
        await line.send(frame)
        event = await received(line)
        await line.send(HELLO)
        after = await received(line)

    assert (event["type"], event["code"], event["session_id"]) == ("error", code, "s_A")
    assert after["type"] == "assistant_message"
    assert len(runtime.accepted) == 1


async def test_a_refused_message_is_said_and_the_line_stays_open(served, runtime):
    runtime.refuse = Conflict("stale")
    async with served() as client, opened(client) as line:
        await line.send(APPROVE)
        assert (await received(line))["code"] == "conflict"
        runtime.refuse = Busy()
        await line.send(APPROVE)
        assert (await received(line))["code"] == "unavailable"
        runtime.refuse = RuntimeError("secret detail")
        await line.send(APPROVE)
        defect = await received(line)
        runtime.refuse = None
        await line.send(APPROVE)
        assert (await received(line))["type"] == "assistant_message"

    assert defect["code"] == "internal"
    assert "secret" not in defect["error"]


async def test_what_failed_of_a_batch_is_said_by_its_id(served, runtime):
    runtime.script = []
    runtime.batch = (DecisionAnswer(id="c2", ok=False, code="not_found", detail="none"),)
    async with served() as client, opened(client) as line:
        await line.send(APPROVE)
        event = await received(line)

    assert (event["code"], event["call_id"]) == ("not_found", "c2")


async def test_the_first_frame_may_bring_the_token(served):
    async with served(token=None) as client, opened(client, headers={}) as line:
        await line.send('{"type":"auth","token":"token-a"}')
        await line.send(HELLO)
        assert (await received(line))["type"] == "assistant_message"


@pytest.mark.parametrize(
    "frame", [APPROVE, '{"type":"auth"}', '{"type":"auth","token":"wrong"}', "{", "[]"]
)
async def test_without_a_valid_token_the_line_ends(served, runtime, frame):
    async with served() as client, opened(client, headers={}) as line:
        await line.send(frame)
        assert (await received(line))["type"] == "error"
        assert await closed(line) == 1008

    assert runtime.accepted == []


async def test_silence_instead_of_a_token_ends_the_line(served):
    async with served(limits=WaitLimits(auth=0.05)) as client, opened(client, headers={}) as line:
        assert await closed(line) == 1008


async def test_a_wrong_token_or_one_in_the_query_ends_the_line(served):
    wrong = {"Authorization": "Bearer wrong"}
    async with served() as client:
        async with opened(client, "/ws/s_A?token=token-a", headers=wrong) as line:
            assert (await received(line))["code"] == "unauthorized"
            assert await closed(line) == 1008
        async with opened(client, headers={"Authorization": "Basic x"}) as line:
            assert await closed(line) == 1008


@pytest.mark.parametrize(
    ("name", "headers"),
    [
        ("127.0.0.1", {"Origin": "https://evil.test", **TOKEN}),
        ("127.0.0.1", {"Origin": "null", **TOKEN}),
        ("evil.test", TOKEN),
        ("127.0.0.1", {"Cookie": "gonogo_{port}=x"}),
    ],
)
async def test_what_a_browser_was_tricked_into_ends_at_the_handshake(served, name, headers):
    async with served() as client:
        port = client.ready.port
        sent = {k: v.replace("{port}", str(port)) for k, v in headers.items()}
        with pytest.raises(InvalidStatus) as refused:
            await connect(
                f"ws://{name}:{port}/ws/s_A", host="127.0.0.1", port=port, proxy=None,
                additional_headers=sent,
            )  # fmt: skip

    assert refused.value.response.status_code == 403


async def test_the_consoles_cookie_opens_a_line_from_its_own_page(served, runtime):
    async with served(token=None) as client:
        url = client.ready.url
        code = client.ready.login_url.partition("#code=")[2]
        await client.post("/api/v1/auth/session", json={"code": code}, headers={"Origin": url})
        name = f"gonogo_{client.ready.port}"
        headers = {"Origin": url, "Cookie": f"{name}={client.cookies[name]}"}
        async with opened(client, headers=headers) as line:
            await line.send(HELLO)
            assert (await received(line))["seq"] == 1
            await client.delete("/api/v1/auth/session", headers={"Origin": url})
            assert await closed(line) == 1008


async def test_revoking_the_token_closes_the_line(served, runtime):
    async with served() as client, opened(client) as line:
        runtime.revoke("token-a")
        await line.send(APPROVE)
        assert await closed(line) == 1008

    assert runtime.accepted == []


async def test_a_token_revoked_by_another_process_opens_nothing_any_more(served, runtime):
    async with served() as client, opened(client) as line:
        del runtime.tokens["token-a"]
        await line.send(APPROVE)
        assert (await received(line))["code"] == "unauthorized"
        assert await closed(line) == 1008

    assert runtime.accepted == []


async def test_a_binary_frame_ends_the_line_with_1003(served):
    async with served() as client, opened(client) as line:
        await line.send(b"\x00\x01")
        assert await closed(line) == 1003


async def test_text_that_is_not_utf8_ends_the_line_with_1007(served):
    async with served() as client, opened(client) as line:
        raw = Frame(Opcode.TEXT, b"\xff\xfe").serialize(mask=True)
        line.transport.write(raw)
        assert await closed(line) == 1007


async def test_a_message_over_two_mebibytes_ends_the_line_with_1009(served, runtime):
    async with served() as client, opened(client) as line:
        await line.send("x" * 2_500_000)
        assert await closed(line) == 1009

    assert runtime.accepted == []


async def test_fragments_are_one_message_with_one_limit(served, runtime):
    async def pieces():
        for character in HELLO:
            yield character

    async with served() as client:
        async with opened(client) as line:
            await line.send(pieces())
            assert (await received(line))["seq"] == 1
        async with opened(client, compression="deflate") as line:
            assert line.protocol.extensions == []


async def test_many_pings_are_answered(served, runtime):
    async with served() as client, opened(client) as line:
        for _ in range(300):
            await line.ping()
        await line.send(HELLO)
        assert (await received(line))["seq"] == 1


async def test_a_decision_counts_although_the_line_breaks_at_once(served, runtime):
    async with served() as client:
        for _ in range(5):
            async with opened(client) as line:
                await line.send(APPROVE)
                reset = struct.pack("ii", 1, 0)
                handle = line.transport.get_extra_info("socket")
                handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                line.transport.abort()
            await until(lambda: len(runtime.accepted) == 1)
            runtime.accepted.clear()


async def test_a_message_that_takes_long_does_not_hold_events_up(served, runtime):
    runtime.held = anyio.Event()
    async with served() as client, opened(client) as line:
        await line.send(HELLO)
        runtime.happen("s_A", {"type": "assistant_message", "content": "other", "seq": 0})
        first = await received(line)
        runtime.held.set()
        second = await received(line)

    assert (first["content"], second["type"]) == ("other", "assistant_message")


async def test_one_connection_hosts_a_sessions_tools(served, runtime):
    async with served() as client:
        async with opened(client, "/ws/s_A?tool_host=1") as host:
            await host.send(HELLO)
            await received(host)
            assert runtime.hosts["s_A"] == runtime.accepted[0][1]
            async with opened(client, "/ws/s_A?tool_host=1") as second:
                assert (await received(second))["code"] == "conflict"
                assert await closed(second) == 1008
            assert runtime.hosts["s_A"] == runtime.accepted[0][1]
        await until(lambda: not runtime.hosts)


async def test_a_line_ends_when_the_server_closes(served, runtime):
    with anyio.fail_after(60):
        async with served() as client, opened(client) as line:
            runtime.closing.set()
            assert await closed(line) in {1001, 1012}


@asynccontextmanager
async def unread(served, runtime, limits):
    """A line that takes nothing, and the port that it listens on, once the server gave it up."""
    async with (
        served(limits=limits) as client,
        opened(client, "/ws/s_A?tool_host=1", max_queue=1, ping_interval=None) as line,
    ):
        await until(lambda: runtime.hosts)
        for n in range(400):
            runtime.happen("s_A", {"type": "x", "content": str(n) * 20_000, "seq": 0})
        await until(lambda: not runtime.hosts)
        yield line, client.ready.port


async def test_a_reader_that_takes_nothing_is_cut_off_and_reads_so_later(served, runtime):
    async with unread(served, runtime, WaitLimits(write=0.2)) as (line, _):
        assert await closed(line) == 1013


async def test_a_connection_that_takes_nothing_is_dropped_with_what_it_was_to_be_told(
    served, runtime
):
    async with unread(served, runtime, WaitLimits(write=0.2, gone=0.5)) as (line, port):
        await until(lambda: not connected(port, line.local_address[1]))
        assert await closed(line) == 1006


def crumbs(opcode, times):
    """Frames with nothing in them; of a text in pieces, what never ends."""
    whole = opcode is not Opcode.CONT
    start = b"" if whole else serialized(Opcode.TEXT, fin=False)
    return start + serialized(opcode, fin=whole) * times


def serialized(opcode, *, fin):
    return Frame(opcode, b"", fin=fin).serialize(mask=True, extensions=[])


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("Content-Length: 2", 400), ("Transfer-Encoding: chunked", 400),
        ("Cookie: " + "x" * 9_000, 431), ("\r\n".join(f"X-{n}: y" for n in range(200)), 431),
    ],
)  # fmt: skip
async def test_a_handshake_that_cannot_be_read_is_answered_and_over(served, line, status):
    fixed = "GET /ws/s_A HTTP/1.1", "Host: 127.0.0.1", "Connection: Upgrade", "Upgrade: websocket"
    async with served() as client:
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", client.ready.port) as raw:
                await raw.send(("\r\n".join((*fixed, line)) + "\r\n\r\n").encode())
                said = b"".join([part async for part in raw])
    assert said.startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.PONG, Opcode.CONT, Opcode.TEXT])
async def test_a_flood_of_small_frames_ends_its_connection_and_no_other(served, runtime, opcode):
    async with served() as client, opened(client) as calm, opened(client) as line:
        line.transport.write(crumbs(opcode, 100_000))
        assert await closed(line) == 1008
        await calm.send(HELLO)
        assert (await received(calm))["type"] == "assistant_message"
        with anyio.fail_after(60):
            await (await calm.ping())
    assert runtime.accepted[-1][0].content == "hi"


async def test_who_sends_pings_and_does_not_read_is_not_answered_for_ever(served, runtime):
    ping = Frame(Opcode.PING, b"x" * 125).serialize(mask=True, extensions=[])
    async with served() as client, opened(client) as line:
        line.transport.pause_reading()
        line.transport.write(ping * 400)
        line.transport.resume_reading()
        await line.send(HELLO)
        assert (await received(line))["type"] == "assistant_message"


async def ended(line) -> tuple[int, str]:
    """The code and the words with which the other side closes."""
    await closed(line)
    return line.close_code, line.close_reason


async def test_a_line_that_ends_says_why(served, runtime):
    async with served(limits=WaitLimits(auth=0.2)) as client:
        async with opened(client) as line:
            await line.send(b"x")
            assert await ended(line) == (1003, "Frames are text")
        async with opened(client, headers={"Authorization": "Bearer wrong"}) as line:
            assert await received(line) == {
                "type": "error", "error": "This token is not valid", "code": "unauthorized",
                "content": "This token is not valid", "is_final": True, "session_id": "s_A",
            }  # fmt: skip
            assert await ended(line) == (1008, "unauthorized")
        async with opened(client, headers={}) as line:
            assert (await received(line))["error"] == (
                "No token arrived within 0.2 seconds; connect again, and send the token first"
            )
        for frame in (HELLO, '{"type":"auth","token":"token-a","more":1}', '{"type":"auth"}'):
            async with opened(client, headers={}) as line:
                await line.send(frame)
                told = (await received(line))["error"]
                assert told == 'The first frame must be {"type":"auth","token":"…"}'
        async with opened(client) as line:
            line.transport.write(crumbs(Opcode.PONG, 100_000))
            assert await ended(line) == (1008, "Too many small frames")


async def test_a_stream_that_breaks_ends_its_line_and_is_in_the_log(served, runtime, caplog):
    async def broken(*_):
        raise RuntimeError("secret detail")
        yield {}

    runtime._after = broken
    async with served() as client, opened(client) as line:
        assert await ended(line) == (1011, "")
    assert "A WebSocket failed" in [record.getMessage() for record in caplog.records]
    assert "secret detail" in caplog.text


async def test_what_was_refused_without_a_word_is_said_to_be(served, runtime, caplog):
    runtime.script = []
    runtime.batch = (
        DecisionAnswer(id="c1", ok=True), DecisionAnswer(id="c2", ok=False),
    )  # fmt: skip
    async with served() as client, opened(client) as line:
        await line.send(APPROVE)
        assert await received(line) == {
            "type": "error", "error": "Refused", "content": "Refused", "code": "conflict",
            "is_final": False, "call_id": "c2", "session_id": "s_A",
        }  # fmt: skip
        runtime.refuse = RuntimeError("secret detail")
        await line.send(APPROVE)
        defect = await received(line)
    assert defect["error"] == str(Internal())
    assert "A message failed" in [record.getMessage() for record in caplog.records]


async def test_so_many_small_frames_may_come_at_once(served, runtime):
    async with served() as client, opened(client) as line:
        line.transport.write(crumbs(Opcode.PONG, 499))
        await line.send(HELLO)
        assert (await received(line))["type"] == "assistant_message"
