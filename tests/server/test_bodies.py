"""A body has one meaning or is refused, and an error has one shape whatever went wrong."""

import anyio
import httpx
import pytest

from gonogo.domain.errors import InvalidMessage
from gonogo.domain.messages import validated
from gonogo.server import WaitLimits, create_app
from gonogo.server.openapi import Answers, ApprovalAnswer, NewSession, PlanAnswer, RollbackOrder

SEND = "/api/v1/agent/message/stream"
HELLO = b'{"session_id":"s_A","message":{"type":"user_message","content":"hi"}}'
JSON = {"Content-Type": "application/json"}


def is_problem(answer: httpx.Response, status: int, code: str) -> bool:
    body = answer.json()
    return (
        answer.status_code == body["status"] == status
        and answer.headers["content-type"] == "application/problem+json"
        and set(body) >= {"type", "title", "status", "detail", "code"}
        and body["code"] == code
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"{", b"null", b"[]", b'"x"', b"\xff", b"NaN", b'{"a":1,"a":2}', b"",
        b'{"session_id":"s_A","message":{"type":"user_message","content":"\\ud800"}}',
        b'{"session_id":"s_A","message":{"type":"user_message","content":"a\\u0000b"}}',
        b'{"session_id":"s_A","message":null}', b'{"session_id":"s_A","message":"hi"}',
        b'{"session_id":null,"message":{"type":"user_message","content":"x"}}',
        b'{"session_id":123,"message":{"type":"user_message","content":"x"}}',
        b'{"session_id":"../../x","message":{"type":"user_message","content":"x"}}',
        b'{"session_id":"s_A","message":{}}', b'{"session_id":"s_A","message":{"type":1}}',
        b'{"session_id":"s_A","message":{"type":"user_message"}}',
        b'{"session_id":"s_A","message":{"type":"user_message","content":"x"},"more":1}',
        b'{"message":{"type":"cancel"}}',
        b'{"session_id":"s_A","message":{"type":"plan_decision","plan_id":"p1","decision":"reject",'
        b'"decision":"approve"}}',
        b'{"session_id":"s_A","message":{"type":"hitl_decision","call_id":"c1","decision":"approve",'
        b'"remember":"always"}}',
        b"{" + b",".join(b'"k%d":1' % n for n in range(100_000)) + b"}",
    ],
)  # fmt: skip
async def test_a_message_of_another_shape_is_422_and_changes_nothing(ask, runtime, raw):
    async with ask() as client:
        answer = await client.post(SEND, content=raw, headers=JSON)

    assert is_problem(answer, 422, "invalid_message")
    assert runtime.accepted == []


@pytest.mark.parametrize("kind", ["__class__", "plan_approved", "tool_call", "done"])
async def test_a_type_that_clients_cannot_send_is_422(ask, kind):
    async with ask() as client:
        answer = await client.post(SEND, json={"session_id": "s_A", "message": {"type": kind}})

    assert is_problem(answer, 422, "unknown_type")


@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "",
     "application/json; charset=utf-16", "multipart/form-data; boundary=x"],
)  # fmt: skip
async def test_another_media_type_is_415(ask, runtime, media):
    async with ask() as client:
        answer = await client.post(SEND, content=HELLO, headers={"Content-Type": media})

    assert is_problem(answer, 415, "invalid_message")
    assert runtime.accepted == []


async def test_a_body_without_a_media_type_is_415(ask):
    async with ask() as client:
        request = client.build_request("POST", SEND, content=HELLO)
        request.headers.pop("content-type", None)
        answer = await client.send(request)

    assert answer.status_code == 415


async def test_a_charset_of_utf8_is_json_too(ask):
    async with ask() as client:
        answer = await client.post(
            "/api/v1/sessions", content=b"{}",
            headers={"Content-Type": 'Application/JSON; charset="UTF-8"'},
        )  # fmt: skip

    assert answer.status_code == 201


async def test_a_body_nested_too_deep_is_413(ask):
    async with ask() as client:
        answer = await client.post(SEND, content=b"[" * 100_000, headers=JSON)

    assert is_problem(answer, 413, "too_large")


async def test_a_body_over_two_mebibytes_is_413_whether_announced_or_not(served):
    async def endless():
        for _ in range(40):
            yield b" " * 100_000

    async with served() as client:
        announced = await client.post(SEND, content=b" " * 3_000_000, headers=JSON)
        chunked = await client.post(SEND, content=endless(), headers=JSON)

    assert is_problem(announced, 413, "too_large")
    assert is_problem(chunked, 413, "too_large")


async def test_a_body_that_does_not_come_is_408(runtime):
    app = create_app(runtime, limits=WaitLimits(body=0.05))
    sent: list[dict] = []

    async def receive() -> dict:
        await anyio.sleep_forever()

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": SEND, "raw_path": SEND.encode(), "query_string": b"",
        "root_path": "", "server": ("127.0.0.1", 8001), "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"127.0.0.1:8001"), (b"content-type", b"application/json"),
                    (b"authorization", b"Bearer token-a"), (b"content-length", b"10")],
    }  # fmt: skip
    with anyio.fail_after(60):
        await app(scope, receive, send)

    assert sent[0]["status"] == 408


async def test_a_length_that_lies_smuggles_no_second_message(served, runtime):
    async with served() as client:
        url = client.ready
        head = (
            f"POST {SEND} HTTP/1.1\r\nHost: 127.0.0.1:{url.port}\r\n"
            "Authorization: Bearer token-a\r\nContent-Type: application/json\r\n"
            "Content-Length: 10\r\n\r\n"
        ).encode()
        async with await anyio.connect_tcp("127.0.0.1", url.port) as line:
            await line.send(head + b" " * 100_000)
            with anyio.fail_after(60):
                answer = await line.receive()

    assert answer.split()[1] in {b"400", b"422"}
    assert runtime.accepted == []


async def test_after_a_request_of_two_lengths_nothing_more_is_taken_from_the_connection(served):
    async with served() as client:
        port = client.ready.port
        head = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        twice = f"{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        answers = b""
        async with await anyio.connect_tcp("127.0.0.1", port) as line:
            await line.send(f"{twice}{head}\r\n".encode())
            with anyio.fail_after(60):
                async for piece in line:
                    answers += piece

    assert answers.count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404), ("GET", "//evil.test/%2e%2e", 404),
        ("GET", "/api/v1/sessions/", 404), ("PUT", "/api/v1/sessions", 405),
        ("GET", "/api/v1/sessions/s_404", 404), ("GET", "/api/v1/sessions/s_B", 404),
        ("GET", "/api/v1/sessions/%00", 404), ("GET", "/api/v1/sessions/a'b", 404),
        ("GET", "/api/v1/sessions?limit=x", 422), ("GET", "/api/v1/sessions?limit=0", 422),
        ("GET", "/api/v1/sessions?offset=99999999999", 422),
        ("GET", "/api/v1/plans?status=odd", 422), ("GET", "/api/v1/plans/p/diff?from=1", 422),
        ("GET", "/api/v1/approvals?session_id=%00", 422),
    ],
)  # fmt: skip
async def test_every_refusal_is_a_problem(ask, method, path, status):
    async with ask() as client:
        answer = await client.request(method, path)

    code = {404: "not_found", 405: "invalid_message", 422: "invalid_message"}[status]
    assert is_problem(answer, status, code)


async def test_unknown_query_parameters_are_passed_over(ask):
    async with ask() as client:
        assert (await client.get("/api/v1/sessions?colour=red")).status_code == 200


async def test_a_defect_is_said_without_its_traceback_and_logged(ask, runtime, caplog):
    runtime.broken = True
    async with ask() as client:
        answer = await client.get("/api/v1/sessions/s_A/history")

    assert is_problem(answer, 500, "internal")
    assert "secret detail" not in answer.text
    assert "secret detail" in caplog.text


async def test_answers_hold_no_nulls_and_are_not_stored_by_caches(ask):
    async with ask() as client:
        answer = await client.get("/api/v1/sessions/s_A")

    assert None not in answer.json().values()
    assert answer.json()["created_at"] == "2026-01-02T03:04:05Z"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k1"}])
async def test_a_refused_move_of_a_plan_says_where_it_stands(ask, headers):
    async with ask() as client:
        answer = await client.post("/api/v1/plans/p1/start", headers=headers)

    assert is_problem(answer, 409, "conflict")
    assert answer.json()["current"]["status"] == "completed"


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (PlanAnswer, {"decision": "approve", "feedback": None, "start": None, "digest": None}),
        (ApprovalAnswer, {"decision": "reject", "modified_arguments": None, "feedback": None}),
        (Answers, {"decisions": [{"approval_id": "a", "decision": "reject", "digest": None,
                                  "for_session": None}], "group": None, "decision": None}),
    ],
)  # fmt: skip
def test_a_null_in_a_decision_by_any_path_is_a_field_left_out(model, fields):
    assert validated(model, fields).decision in {"approve", "reject", None}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (RollbackOrder, {"subtask_id": None}),
        (NewSession, {"session_id": None}),
        (NewSession, {"limits": {"cost": None}}),
    ],
)
def test_a_null_in_an_order_is_refused_since_leaving_it_out_means_something_else(model, fields):
    with pytest.raises(InvalidMessage, match="leave the field out instead of sending null"):
        validated(model, fields)


def test_an_order_that_says_nothing_rolls_back_since_the_latest_checkpoint_and_for_real():
    order = validated(RollbackOrder, {})

    assert (order.checkpoint_id, order.subtask_id) == (None, None)
    assert (order.whole, order.dry_run, order.include_shared) == (False, False, False)


@pytest.mark.parametrize(
    ("method", "path", "headers", "said"),
    [
        ("GET", "/api/v1/nothing", {},
         "There is nothing at this address; see the addresses in GET /openapi.json"),
        ("PUT", "/api/v1/sessions", {},
         "This address does not take this method; see GET /openapi.json"),
        (
            "GET", "/api/v1/sessions?limit=0", {},
            "limit: Input should be greater than or equal to 1",
        ),
        (
            "POST", "/api/v1/sessions", {"Idempotency-Key": ""},
            "Idempotency-Key: 1 to 200 printable ASCII characters",
        ),
        (
            "GET", "/api/v1/sessions", {"Authorization": "Basic eA=="},
            "This needs a token (Authorization: Bearer <token>); create one: gonogo token create",
        ),
        (
            "GET", "/api/v1/sessions", {"Authorization": ""},
            "This needs a token (Authorization: Bearer <token>); create one: gonogo token create",
        ),
    ],
)  # fmt: skip
async def test_a_refusal_says_what_is_wrong(ask, method, path, headers, said):
    async with ask() as client:
        answer = await client.request(method, path, headers=headers | JSON, content=b"{}")

    assert answer.json()["detail"] == said


async def test_a_request_without_a_token_is_told_how_to_send_one(ask):
    async with ask(token=None) as client:
        answer = await client.get("/api/v1/sessions")

    assert answer.json()["detail"] == (
        "This needs a token (Authorization: Bearer <token>); create one: gonogo token create"
    )
