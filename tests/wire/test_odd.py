"""Requests that nobody sends by mistake: each has a refusal, and none is a defect of ours."""

import json
import os
import socket
from contextlib import ExitStack, suppress

import pytest

from wire.cases import CASES
from wire.deployment import STREAM, WAIT
from wire.outcomes import account, of_error, of_problem
from wire.states import Scene

SINGLE = [
    case
    for case in CASES
    if case["as"] == "A"
    and case["send"].get("json", {}).get("session_id") == "s_A"
    and isinstance(case["send"]["json"]["message"], dict)
    and not {"accepted", "ignored_idempotent", "413", "415"} & set(case["expect"])
    and not {"headers", "cookie_only", "content_type"} & {*case, *case["send"]}
    and case["pre"] != "S11"
]
"""The refused messages of the cases, which a WebSocket can carry as well."""
FIRST, LAST = "0001-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59-23:59"
"""Moments of the years 1 and 9999, and in UTC of none that a calendar has."""


@pytest.mark.feature(88)
@pytest.mark.parametrize("case", SINGLE, ids=[case["id"] for case in SINGLE])
def test_a_message_is_refused_over_websocket_with_the_same_word(shared, case) -> None:
    scene = Scene(shared, case["id"], case["pre"])
    before = account(scene)
    frame = scene.named(case["send"]["json"]["message"])
    if "$repeat" in json.dumps(frame):
        frame["modified_subtasks"][0]["id"] = "a" * 10_000

    with shared.socket(scene.session_id) as line:
        line.send(json.dumps(frame))
        event = json.loads(line.recv(WAIT))
        line.send('{"type":"still there?"}')
        after = json.loads(line.recv(WAIT))

    assert event["type"] == "error"
    assert of_error(event).names & set(case["expect"]), event
    assert after["code"] == "unknown_type"
    assert account(scene) == before


@pytest.mark.parametrize(
    ("workspace", "status"),
    [
        ("~no-such-user/x", 422), ("{work}/" + "a" * 300, 422), ("{work}/" + "a/" * 1_900, 422),
        ("{work}/..", 403), ("/", 403), ("~", 403), ("relative", 403), ("/" + "a" * 300, 403),
        ("", 422), ("{work}/nowhere", 422), ("{work}\x00", 422), ("x" * 5_000, 422),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_one_is_refused(shared, workspace, status) -> None:
    body = {"workspace": workspace.replace("{work}", str(shared.work))}

    answer = shared.ask("POST", "/api/v1/sessions", json=body)

    assert of_problem(answer).names == {str(status)}
    assert shared.complaints.lines == []


@pytest.mark.parametrize("name", ["a\n", "\n", "a b", "a/b", "a" * 65, "\u202e", ""])
def test_a_token_with_an_odd_name_is_refused(shared, name) -> None:
    answer = shared.ask("POST", "/api/v1/tokens", "root", json={"name": name, "role": "viewer"})

    assert of_problem(answer).names == {"422"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nowhere", 404), ("GET", "/api/v1/sessions/", 404),
        ("GET", "/api/v1/sessions/%00", 404), ("GET", "/api/v1/sessions/%ff", 404),
        ("GET", "/api/v1/sessions/a%2Fb", 404), ("GET", "/api/v1/plans/%0a/status", 404),
        ("GET", "/api/v1/plans/x/revisions/99999999999999999999", 404),
        ("GET", "/api/v1/plans/x/revisions/one", 422),
        ("GET", "/api/v1/plans/x/diff?from=0&to=1", 422), ("GET", "/api/v1/plans/x/diff", 422),
        ("GET", "/api/v1/sessions?limit=99999999999999999999", 422),
        ("GET", "/api/v1/audit?after=-1", 422), ("GET", "/api/v1/approvals?status=x", 422),
        ("GET", "/api/v1/approvals?session_id=%00", 422),
        ("PUT", "/api/v1/sessions", 405), ("TRACE", "/health", 405), ("POST", "/health", 405),
        ("DELETE", "/api/v1/grants/nothing", 404),
        ("GET", f"/api/v1/audit?until={FIRST}", 422), ("GET", f"/api/v1/audit?since={LAST}", 422),
        ("GET", f"/api/v1/audit/export?since={FIRST}", 422),
        ("GET", f"/api/v1/calls?since={LAST}", 422),
        ("GET", f"/api/v1/analytics?until={FIRST}", 422),
        ("GET", f"/api/v1/audit?before={LAST}~1~system", 400),
    ],
)  # fmt: skip
def test_an_odd_path_is_a_problem_like_any_other(shared, method, path, status) -> None:
    answer = shared.ask(method, path, "root")

    assert of_problem(answer).names == {str(status)}


@pytest.mark.parametrize(
    "answer",
    [
        {"decision": "approve", "revision": 2**31}, {"decision": "approve", "revision": 10**400},
        {"decision": "approve", "modified_subtasks": []},
        {"decision": "reject", "modified_subtasks": [{"id": "a"}]},
    ],
)  # fmt: skip
def test_an_answer_to_a_plan_that_says_two_things_changes_nothing(shared, answer) -> None:
    scene = Scene(shared, "two-things", "S2")
    before = account(scene)

    said = shared.ask("POST", f"/api/v1/plans/{scene.names['p1']}/decision", json=answer)

    assert of_problem(said).names == {"422"}
    assert account(scene) == before


@pytest.mark.parametrize("name", ["%00", "%ff", "%0a", "a%20b", "..", "x" * 200])
def test_a_line_to_what_cannot_be_a_session_is_refused(shared, name) -> None:
    with shared.socket(name) as line:
        event = json.loads(line.recv(WAIT))

    assert (event["type"], event["code"]) == ("error", "not_found")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "1" * 5_000])
def test_a_number_that_no_database_keeps_is_refused(shared, number) -> None:
    scene = Scene(shared, "number", "S5")
    message = f'{{"type":"tool_result","call_id":"{scene.names["c1"]}","result":{number}}}'
    body = f'{{"session_id":"{scene.session_id}","message":{message}}}'

    answer = shared.ask("POST", STREAM, content=body, headers={"Content-Type": "application/json"})

    assert of_problem(answer).names == {"422"}


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_own_head(shared) -> None:
    """With Nagle's algorithm each of them takes 40 ms."""
    port = int(shared.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as ours:
        ours.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert ours.recv(8) == b"HTTP/1.1"
        with other_end(ours) as theirs:
            assert theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def other_end(ours: socket.socket) -> socket.socket:
    """The same connection, as the server in this process has it."""
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError), ExitStack() as closing:
            found = closing.enter_context(socket.socket(fileno=os.dup(int(descriptor))))
            if found.family == ours.family and found.getpeername() == ours.getsockname():
                closing.pop_all()
                return found
    raise AssertionError("it is in no descriptor of ours")
