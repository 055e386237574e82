"""What a refusal says, word for word, and what goes with it: members, headers, a log line."""

import json
import logging
from datetime import UTC, datetime

import httpx
import pytest

from gonogo.domain.base import WrittenEvent
from gonogo.domain.errors import AlreadyDecided, Busy, Conflict, Internal, RateLimited, Unauthorized
from gonogo.server import WaitLimits, create_app
from gonogo.server.auth import CODE_SECONDS, WINDOW, Bucket, Codes, Failures, Rates, TooFast
from gonogo.server.requests import error_event, problem_of, written
from gonogo.server.streams import as_json, frame
from server.conftest import URL
from server.stand_in import OWNER
from server.test_bodies import HELLO, JSON, SEND
from server.test_memory import Clock

SESSIONS = "/api/v1/sessions"

NO_METHOD = "This address does not take this method; see GET /openapi.json"


def told(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["detail"]


async def test_a_problem_is_all_of_it(ask):
    async with ask() as client:
        missing = await client.get(f"{SESSIONS}/s_404")
        method = await client.put(SESSIONS)
        teapot = await client.get("/api/v1/nothing")

    assert missing.json() == {
        "type": "urn:gonogo:problem:not_found", "title": "Not Found", "status": 404,
        "detail": "There is no such session", "code": "not_found",
        "template": "There is no such session", "params": {},
    }  # fmt: skip
    assert method.json() == {
        "type": "urn:gonogo:problem:invalid_message", "title": "Method Not Allowed", "status": 405,
        "code": "invalid_message",
        "detail": NO_METHOD, "template": NO_METHOD, "params": {},
    }  # fmt: skip
    assert method.headers["allow"] == "POST"
    assert teapot.headers["content-type"] == "application/problem+json"


def test_an_error_brings_what_its_sender_can_act_on():
    late = problem_of(AlreadyDecided("a1", "approved", "Ann", "noon"), current={"id": "a1"})
    assert json.loads(late.body) == {
        "type": "urn:gonogo:problem:already_decided", "title": "Conflict", "status": 409,
        "detail": "a1 was already approved by Ann at noon", "code": "already_decided",
        "template": "{subject} was already {approval_status} by {decided_by} at {decided_at}",
        "params": {
            "subject": "a1", "approval_status": "approved", "decided_by": "Ann",
            "decided_at": "noon",
        },
        "decision": "approved", "decided_by": "Ann", "decided_at": "noon", "current": {"id": "a1"},
    }  # fmt: skip
    assert problem_of(TooFast("requests", 7)).headers["retry-after"] == "7"
    assert problem_of(RateLimited("x")).headers["retry-after"] == "60"
    assert problem_of(Busy()).headers["retry-after"] == "2"
    assert problem_of(Unauthorized("x")).headers["www-authenticate"] == "Bearer"
    assert "retry-after" not in problem_of(Conflict("x")).headers
    for status in (408, 413):
        assert written(status, "{}").headers["connection"] == "close"
    assert "template" not in json.loads(problem_of(Conflict("{x}")).body)
    odd = written(400, "Ж\ud800")
    assert (odd.status_code, odd.body) == (400, "Ж\\ud800".encode())
    assert odd.headers["content-type"] == "application/problem+json"
    assert error_event(Conflict("It is over")) == {
        "type": "error", "error": "It is over", "content": "It is over", "code": "conflict",
        "is_final": True,
    }  # fmt: skip


def test_an_event_is_a_frame_of_one_line_that_no_reader_breaks():
    assert frame({"type": "steered", "seq": 5, "content": "a\nЖ"}) == (
        'event: message\nid: 5\ndata: {"type":"steered","seq":5,"content":"a\\nЖ"}\n\n'.encode()
    )
    assert frame({"type": "error"}) == b'event: error\ndata: {"type":"error"}\n\n'
    assert frame({"type": "done"}) == b'event: done\ndata: {"type":"done"}\n\n'
    assert as_json({"a": "\x85\u2028\u2029\ud800"}) == '{"a":"\\u0085\\u2028\\u2029\\ud800"}'
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    assert as_json({"at": moment}) == '{"at":"2026-01-02 00:00:00+00:00"}'


@pytest.mark.parametrize(
    ("headers", "content", "status", "said"),
    [
        ({"Content-Type": "text/plain"}, b"{}", 415,
         "The body must be application/json, not text/plain"),
        ({"Content-Type": "x" * 90}, b"{}", 415,
         f"The body must be application/json, not {'x' * 80}"),
        ({"Content-Type": "application/json; charset=latin-1"}, b"{}", 415,
         "The body must be application/json, not application/json; charset=latin-1"),
        (JSON, b" " * 2_097_153, 413, "The message has more than 2097152 bytes; shorten it"),
        (JSON, b" " * 16_777_217, 413, "The message has more than 2097152 bytes; shorten it"),
        (JSON, b"{" + b" " * 2_097_150 + b"}", 201, ""),
        (JSON, b"[]", 422, "The body must be a JSON object"),
        (JSON, b'{"colour": 1}', 422, "colour: Extra inputs are not permitted"),
        ({**JSON, "Idempotency-Key": "x" * 201}, b"{}", 422,
         "Idempotency-Key: 1 to 200 printable ASCII characters"),
        ({**JSON, "Idempotency-Key": "a\tb"}, b"{}", 422,
         "Idempotency-Key: 1 to 200 printable ASCII characters"),
        ({**JSON, "Idempotency-Key": "x" * 200}, b"{}", 201, ""),
        ({"Authorization": "Basic dG9rZW4tYQ=="}, b"", 401,
         "This needs a token (Authorization: Bearer <token>); create one: gonogo token create"),
        ({"Authorization": "Bearer wrong"}, b"", 401, "This token is not valid"),
        ({"Host": "evil.test"}, b"", 403, (
            "'evil.test' is not a name of this server; use the server's own address, or set "
            "GONOGO_PUBLIC_URL"
        )),
        ({"Host": "x" * 300}, b"", 403, (
            f"{'x' * 200!r} is not a name of this server; use the server's own address, or set "
            "GONOGO_PUBLIC_URL"
        )),
        ({"Origin": "https://evil.test"}, b"", 403,
         (
             "The origin 'https://evil.test' is not this server's; open the console at the "
             "server's own address, or set GONOGO_PUBLIC_URL"
         )),
        ({"Origin": "x" * 300}, b"", 403, (
            f"The origin {'x' * 200!r} is not this server's; open the console at the server's own "
            "address, or set GONOGO_PUBLIC_URL"
        )),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
async def test_what_cannot_be_taken_is_told_why(ask, headers, content, status, said):
    async with ask() as client:
        answer = await client.post(SESSIONS, content=content, headers=headers)

    assert answer.status_code == status
    if said:
        assert answer.json()["detail"] == said


async def test_a_body_without_a_kind_is_told_to_have_one(ask):
    async with ask() as client:
        request = client.build_request("POST", SEND, content=HELLO)
        request.headers.pop("content-type", None)
        answer = await client.send(request)
        empty = client.build_request("POST", SESSIONS)
        empty.headers.pop("content-type", None)
        made = await client.send(empty)

    assert told(answer) == (415, "The body must be JSON, with Content-Type: application/json")
    assert made.status_code == 201


async def test_a_cookie_from_nowhere_is_told_what_it_lacks(runtime):
    app = create_app(runtime)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
        answer = await client.post(SESSIONS, json={}, headers={"Cookie": "gonogo_8001=x"})
        wrong = await client.post("/api/v1/auth/session", json={"code": "x"})

    assert told(answer) == (
        403,
        (
            "A request with a cookie must come from a page of this server; open the console at the "
            "server's address, or send a token"
        ),
    )
    assert told(wrong) == (
        401,
        (
            "This login code is not valid: each code works once, for ten minutes; get a new link "
            "from gonogo serve"
        ),
    )


async def test_a_moment_that_is_in_no_year_is_refused(ask):
    async with ask() as client:
        answer = await client.get("/api/v1/calls?since=0001-01-01T00:00:00%2B12:00")

    assert told(answer) == (422, "since: in UTC the year is not between 1 and 9999")


async def test_a_defect_is_in_the_log_by_its_path_and_the_sender_is_told_where_to_look(
    ask, runtime, caplog
):
    runtime.broken = True
    async with ask() as client:
        answer = await client.get(f"{SESSIONS}/s_A/history")

    assert answer.json() == {
        "type": "urn:gonogo:problem:internal", "title": "Internal Server Error", "status": 500,
        "detail": str(Internal()), "code": "internal",
        "template": str(Internal()), "params": {},
    }  # fmt: skip
    [record] = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.getMessage() == f"A request failed: {SESSIONS}/s_A/history"
    assert record.exc_info


async def test_a_key_that_was_used_elsewhere_is_no_answer_here(ask, runtime):
    async with ask() as client:
        await client.post(SESSIONS, json={}, headers={"Idempotency-Key": "k"})
        ((place, (asked, stored)),) = runtime.stored.items()
        assert stored.keys() == {"status", "body"}
        runtime.stored[place] = asked, {"status": 200, "receipt": {}}
        answer = await client.post(SESSIONS, json={}, headers={"Idempotency-Key": "k"})
        runtime.stored[place] = asked, {"status": 204}
        empty = await client.post(SESSIONS, json={}, headers={"Idempotency-Key": "k"})
        other = await client.post(
            SESSIONS, json={"session_id": "s_x"}, headers={"Idempotency-Key": "k"}
        )

    assert told(answer) == (
        409,
        ("This Idempotency-Key was used for another kind of request; use a new key"),
    )
    assert (empty.status_code, empty.content) == (204, b"")
    assert other.status_code == 409


async def test_nothing_is_left_of_a_key_once_its_requests_are_over(runtime):
    app = create_app(runtime)
    headers = {"Authorization": "Bearer token-a", "Idempotency-Key": "k"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=URL, headers=headers) as client:
        for _ in range(3):
            assert (await client.post(SESSIONS, json={})).status_code == 201

    assert app.state.door._locks == {}


@pytest.mark.parametrize(
    ("bucket", "what"),
    [("requests", "requests"), ("messages", "messages"), ("decisions", "decisions")],
)
def test_who_asks_too_much_is_told_of_what_and_for_how_long_to_wait(bucket, what):
    rates = Rates.of(requests=1, messages=15, clock=Clock())
    taken: Bucket = getattr(rates, bucket)
    for _ in range(4 if bucket != "messages" else 15):
        taken.take("a")
    with pytest.raises(TooFast) as refused:
        taken.take("a")

    assert str(refused.value) == f"Too many {what}; try again in {refused.value.seconds} s"
    assert refused.value.seconds == {"messages": 4}.get(bucket, 1)


def test_a_code_and_a_wrong_guess_last_to_the_last_second():
    clock = Clock()
    codes, failures = Codes(clock), Failures(clock)
    good, late = codes.new(OWNER), codes.new(OWNER)
    for _ in range(20):
        failures.add("a")
    clock.now = WINDOW
    with pytest.raises(RateLimited) as refused:
        failures.add("a")
    assert str(refused.value) == "Too many wrong credentials from this address; wait a minute"
    clock.now = WINDOW + 0.5
    for _ in range(20):
        failures.add("a")
    clock.now = CODE_SECONDS
    assert codes.spend(good) == OWNER
    clock.now = CODE_SECONDS + 0.5
    with pytest.raises(Unauthorized):
        codes.spend(late)
    assert (CODE_SECONDS, WINDOW) == (600, 60)


def test_a_door_waits_so_long_unless_it_is_told_otherwise():
    limits = WaitLimits()
    assert (limits.body, limits.auth, limits.write) == (30, 5, 60)
    assert (limits.gone, limits.heartbeat) == (120, 15)


async def test_what_lets_a_browser_in_is_one_thing(ask):
    async with ask(token=None) as client:
        both = await client.post("/api/v1/auth/session", json={"code": "x", "token": "y"})
        none = await client.post("/api/v1/auth/session", json={})
    async with ask(token="token-root") as client:
        tried = await client.post("/api/v1/policy/check", json={"command": "ls", "tool": "x"})
        neither = await client.post("/api/v1/policy/check", json={})

    assert told(both)[1].endswith("give either a code or a token")
    assert told(none) == told(both)
    assert told(tried)[1].endswith("give either a command or a tool")
    assert told(neither) == told(tried)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"group": "x"}, "give decisions, or group and decision"),
        ({"decision": "approve"}, "give decisions, or group and decision"),
        ({"decisions": [{"approval_id": "a", "decision": "approve"}], "group": "x"},
         "with decisions, leave out the other fields"),
    ],
)  # fmt: skip
async def test_several_answers_are_named_one_by_one_or_as_a_group(ask, body, said):
    async with ask() as client:
        answer = await client.post("/api/v1/approvals/decisions", json=body)

    assert told(answer)[1].endswith(said)


def test_what_several_follow_is_written_once_for_all_of_them():
    told = WrittenEvent({"type": "assistant_message", "content": "При\u2028вет", "seq": 3})

    first = as_json(told)

    assert first == '{"type":"assistant_message","content":"При\\u2028вет","seq":3}'
    assert as_json(told) is first
    assert as_json({**told, "seq": 4}).endswith('"seq":4}')
    assert frame(told).endswith(f"data: {first}\n\n".encode())
