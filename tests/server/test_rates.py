"""Nobody asks for more than their share, and nobody is kept from deciding by what they asked."""

import json

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from gonogo.server import create_app
from gonogo.server.auth import PRINCIPALS, Bucket, Rates, TooFast
from server.conftest import URL
from server.test_access import HELLO, SEND

ANN = {"Authorization": "Bearer token-a"}
CANCEL = {"session_id": "s_A", "message": {"type": "cancel"}}
DECISIONS = (
    {"type": "plan_decision", "plan_id": "p", "decision": "approve"},
    {"type": "hitl_decision", "call_id": "c", "decision": "reject"},
    {"type": "cancel"},
)


class Hand:
    """A clock that is moved by hand."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def door(runtime, clock):
    """A client of an app with a share of 2 requests a second and 3 messages a minute."""
    app = create_app(runtime)
    app.state.door.rates = Rates.of(requests=2, messages=3, clock=clock)
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url=URL, headers=ANN)


def admits(bucket: Bucket, who: str = "a") -> bool:
    try:
        bucket.take(who)
    except TooFast:
        return False
    return True


async def statuses(client, times: int, method: str, path: str, **options) -> list[int]:
    return [(await client.request(method, path, **options)).status_code for _ in range(times)]


@given(
    rate=st.floats(0.01, 1_000), burst=st.integers(1, 50),
    waits=st.lists(st.floats(0, 30), min_size=1, max_size=100),
)  # fmt: skip
def test_in_no_stretch_of_time_more_is_let_through_than_the_burst_and_what_flowed_in(
    rate, burst, waits
):
    clock = Hand()
    bucket = Bucket("requests", rate, burst, clock)
    let = []
    for wait in waits:
        clock.now += wait
        if admits(bucket):
            let.append(clock.now)

    for first in range(len(let)):
        for count, now in enumerate(let[first:], 1):
            assert count <= burst + (now - let[first]) * rate + 0.01


@given(rate=st.floats(0.01, 1_000), burst=st.integers(1, 20), late=st.floats(0, 5))
def test_who_waits_as_long_as_was_said_is_let_in(rate, burst, late):
    clock = Hand()
    bucket = Bucket("requests", rate, burst, clock)
    for _ in range(burst):
        bucket.take("a")
    clock.now += late
    while admits(bucket):
        pass
    with pytest.raises(TooFast) as refused:
        bucket.take("a")
    assert refused.value.seconds >= 1
    clock.now += refused.value.seconds

    assert admits(bucket)


def test_a_refusal_costs_nothing_and_others_are_not_concerned(clock):
    bucket = Bucket("requests", 1, 2, clock)
    assert [admits(bucket) for _ in range(50)] == [True, True, *[False] * 48]
    assert admits(bucket, "b")
    clock.now += 1
    assert [admits(bucket), admits(bucket)] == [True, False]


def test_what_is_remembered_of_principals_is_bounded(clock):
    bucket = Bucket("requests", 1, 1, clock)
    for number in range(PRINCIPALS + 500):
        bucket.take(str(number))

    assert len(bucket._left) == PRINCIPALS
    assert not admits(bucket, str(PRINCIPALS + 499))


def test_zero_is_no_limit_and_is_not_remembered(clock):
    rates = Rates.of(requests=0, messages=0, clock=clock)
    for bucket in (rates.requests, rates.messages, rates.decisions):
        assert all(admits(bucket) for _ in range(10_000))
        assert len(bucket._left) == 0


async def test_too_many_requests_are_told_how_long_to_wait(door, clock):
    async with door:
        assert await statuses(door, 8, "GET", "/api/v1/agents") == [200] * 8
        refused = await door.get("/api/v1/agents")
        other = await door.get("/api/v1/agents", headers={"Authorization": "Bearer token-b"})
        clock.now += int(refused.headers["retry-after"])
        later = await door.get("/api/v1/agents")

    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["code"] == "rate_limited"
    assert (other.status_code, later.status_code) == (200, 200)


async def test_tokens_of_one_principal_share_and_a_stranger_has_no_share_at_all(door):
    viewer = {"Authorization": "Bearer token-viewer"}
    async with door:
        await statuses(door, 8, "GET", "/api/v1/agents")
        assert (await door.get("/api/v1/agents", headers=viewer)).status_code == 429
        stranger = await door.get("/api/v1/agents", headers={"Authorization": "Bearer x"})

    assert stranger.status_code == 401


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/api/v1/metrics", "/"])
async def test_probes_and_numbers_are_not_counted(door, path):
    async with door:
        assert await statuses(door, 30, "GET", path) == [200] * 30
        await statuses(door, 20, "GET", "/api/v1/agents")
        assert (await door.get(path)).status_code == 200


async def test_a_message_too_many_changes_nothing_and_is_not_kept_under_its_key(
    door, clock, runtime
):
    async with door:
        assert await statuses(door, 3, "POST", SEND, json=HELLO) == [200] * 3
        headers = {"Idempotency-Key": "k"}
        refused = await door.post(SEND, json=HELLO, headers=headers)
        done = len(runtime.accepted), dict(runtime.stored)
        clock.now += int(refused.headers["retry-after"])
        again = await door.post(SEND, json=HELLO, headers=headers)

    assert (refused.status_code, refused.headers["retry-after"]) == (429, "20")
    assert done == (3, {})
    assert again.status_code == 200
    assert len(runtime.accepted) == 4


@pytest.mark.parametrize("message", DECISIONS, ids=lambda message: message["type"])
async def test_a_flood_of_messages_and_of_requests_holds_up_no_decision(door, message, runtime):
    switch = {"session_id": "s_A", "message": {"type": "switch_agent", "agent_type": "coder"}}
    async with door:
        flood = await statuses(door, 30, "POST", SEND, json=HELLO)
        flood += await statuses(door, 30, "POST", SEND, json=switch)
        flood += await statuses(door, 30, "GET", "/api/v1/agents")
        decided = await door.post(SEND, json={"session_id": "s_A", "message": message})

    assert flood.count(200) == 3 + 8
    assert decided.status_code == 200
    assert runtime.accepted[-1][0].type == message["type"]


@pytest.mark.parametrize(
    "path",
    ["plans/p/cancel", "plans/p/pause", "plans/p/decision", "plans/p/subtasks/s/cancel",
     "approvals/a/decision", "approvals/decisions"],
)  # fmt: skip
async def test_the_paths_that_decide_and_stop_count_for_themselves(door, path):
    async with door:
        await statuses(door, 30, "POST", SEND, json=HELLO)
        await statuses(door, 30, "POST", "/api/v1/plans/p/start")
        urgent = await statuses(door, 9, "POST", f"/api/v1/{path}", content="[")

    assert 429 not in urgent[:8]
    assert urgent[8] == 429


async def test_what_cannot_be_read_counts_as_a_request(door):
    async with door:
        answers = await statuses(door, 9, "POST", SEND, json={"session_id": "s_A", "message": {}})
        assert answers == [422] * 8 + [429]
        viewer = {"Authorization": "Bearer token-viewer"}
        assert (await door.post(SEND, json=HELLO, headers=viewer)).status_code == 429
        assert (await door.post(SEND, json=CANCEL)).status_code == 200


async def test_without_authentication_the_owner_has_a_share_too(runtime, clock):
    app = create_app(runtime, auth=False)
    app.state.door.rates = Rates.of(requests=1, messages=1, clock=clock)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
        assert await statuses(client, 5, "GET", "/api/v1/agents") == [200] * 4 + [429]


async def test_a_socket_stays_open_and_takes_decisions_when_messages_come_too_fast(served, runtime):
    runtime.settings.rate_messages = 1
    hello, cancel = json.dumps(HELLO["message"]), json.dumps({"type": "cancel"})
    async with served() as client:
        url = f"ws://127.0.0.1:{client.ready.port}/ws/s_A"
        async with connect(url, additional_headers=ANN, proxy=None) as line:
            with anyio.fail_after(60):
                for text in (hello, hello, cancel):
                    await line.send(text)
                error = None
                while error is None:
                    frame = json.loads(await line.recv())
                    error = frame if frame["type"] == "error" else None
                while len(runtime.accepted) < 2:
                    await line.recv()

    assert (error["code"], error["session_id"]) == ("rate_limited", "s_A")
    assert [message.type for message, _ in runtime.accepted] == ["user_message", "cancel"]


async def test_sockets_are_not_opened_faster_than_requests_are_taken(served, runtime):
    runtime.settings.rate_requests = 1
    runtime.happen("s_A", {"type": "assistant_message", "content": "x", "seq": 0})
    async with served() as client:
        url = f"ws://127.0.0.1:{client.ready.port}/ws/s_A?after=0"
        with anyio.fail_after(60):
            opened = True
            while opened:
                async with connect(url, additional_headers=ANN, proxy=None) as line:
                    frame = json.loads(await line.recv())
                    opened = frame["type"] != "error"
                    if not opened:
                        await line.wait_closed()

    assert (frame["code"], line.close_code) == ("rate_limited", 1013)


def test_the_burst_is_spent_before_the_flow_counts(clock):
    rates = Rates.of(requests=50, messages=60, clock=clock)
    assert sum(admits(rates.requests) for _ in range(1_000)) == 200
    assert sum(admits(rates.messages) for _ in range(1_000)) == 60
    for _ in range(5):
        clock.now += 1
        assert sum(admits(rates.requests) for _ in range(1_000)) == 50
        assert sum(admits(rates.messages) for _ in range(10)) == 1
