"""The forms of the cases that are more than one request: each a function by the case's number.

Where a case names a quantity that would take longer than two seconds, a smaller one is sent; the
docstring says which.
"""

import json
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.connection import Connection

from gonogo.domain.identity import Role
from wire.deployment import FORGED, STREAM, WAIT, Deployment, deployed
from wire.outcomes import (
    PATIENCE,
    Outcome,
    account,
    body_of,
    exchange,
    last_seq,
    of_error,
    of_problem,
    of_stream,
    send,
)
from wire.states import Scene

Form = Callable[[Scene, dict[str, Any]], Outcome]
BY_CASE: dict[str, Form] = {}


def form(*cases: str) -> Callable[[Form], Form]:
    """Register what carries some cases out."""

    def register(carry_out: Form) -> Form:
        BY_CASE.update(dict.fromkeys(cases, carry_out))
        return carry_out

    return register


# Several requests --------------------------------------------------------------------------------


@form("W075", "W142", "W143")
def at_once(scene: Scene, case: dict[str, Any]) -> Outcome:
    """The parallel forms. 200 repeats are 8 here; of 50 equal requests 25 are sent."""
    names: set[str] = set()
    for turn in range(min(case["send"].get("repeat", 1), 8)):
        each = scene if turn == 0 else Scene(scene.deployment, case["id"], case["pre"])
        requests = case["send"]["parallel"] * min(case["send"].get("count", 1), 25)
        outcomes = together(each, case, requests)
        accepted = [o for o in outcomes if "accepted" in o.names]
        assert accepted, outcomes
        if len(case["send"]["parallel"]) == 2:
            assert len(accepted) == 1, outcomes
            assert decided(each) == 1
        assert len(each.ledger) <= 1
        names |= set[str]().union(*(o.names for o in outcomes))
    return Outcome(*(names & {"accepted", "409", "ignored_idempotent"}), *unexpected(names))


def unexpected(names: set[str]) -> set[str]:
    """What must not be among the answers of a race."""
    wrong = {name for name in names if name.isdecimal() and name != "409"}
    assert not wrong, names
    return set()


@form("W144", "W233")
def in_turn(scene: Scene, case: dict[str, Any]) -> Outcome:
    """The sequence form: the last answer counts, and each of them is one of the expected."""
    outcome = Outcome()
    for message in case["send"]["sequence"]:
        outcome = send(scene, case, message)
        assert outcome.names & set(case["expect"]), outcome
    return outcome


@form("W237")
def cancel_and_approve(scene: Scene, case: dict[str, Any]) -> Outcome:
    message = {"type": "hitl_decision", "call_id": "c1", "decision": "approve"}
    approve = {"to": f"POST {STREAM}", "json": {"session_id": "s_A", "message": message}}
    cancel, approved = together(scene, case, [{"to": case["send"]["to"]}, approve])
    scene.until(lambda: plan_status(scene) == "cancelled")
    assert len(scene.ledger) <= (1 if "accepted" in approved.names else 0)
    assert approved.names & {"accepted", "409"}, approved
    return cancel


def together(scene: Scene, case: dict[str, Any], messages: list[dict[str, Any]]) -> list[Outcome]:
    """Send requests at the same moment; what came of each, in their order."""
    barrier = threading.Barrier(len(messages))
    outcomes: dict[int, Outcome] = {}

    def one(place: int, message: dict[str, Any]) -> None:
        method, path = scene.named(message["to"]).split(" ")
        headers = {**scene.deployment.headers("A"), "Content-Type": "application/json"}
        body = body_of(scene, message)
        barrier.wait(WAIT)
        outcomes[place] = exchange(scene.deployment.url, method, path, headers, body)

    threads = [threading.Thread(target=one, args=each) for each in enumerate(messages)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    return [outcomes[place] for place in range(len(messages))]


def decided(scene: Scene) -> int:
    """How many questions about what was raced for have an answer."""
    return len(
        scene.deployment.rows(
            "SELECT id FROM approvals WHERE session_id = :id AND status IN ('approved', 'rejected')"
            " AND kind = :kind",
            id=scene.session_id, kind="plan" if scene.state == "S2" else "tool",
        )
    )  # fmt: skip


def plan_status(scene: Scene, plan: str = "p1") -> str:
    """The state of a plan."""
    return scene.deployment.get(f"/plans/{scene.names[plan]}")["status"]


# Bodies ------------------------------------------------------------------------------------------


@form("W033")
def slow_body(scene: Scene, case: dict[str, Any]) -> Outcome:
    """A server that waits 0.3 s for a body instead of 30."""
    with raw_connection(scene.deployment) as line:
        line.sendall(head(scene.deployment, "Transfer-Encoding: chunked"))
        line.sendall(b"1\r\n{\r\n")
        return status_line(line)


@form("W034")
def length_lie(scene: Scene, case: dict[str, Any]) -> Outcome:
    with raw_connection(scene.deployment) as line:
        line.sendall(head(scene.deployment, "Content-Length: 10"))
        with suppress(OSError):
            line.sendall(b"x" * 1024 * 1024)
        first = status_line(line)
        assert first.names <= {"400", "422", "connection_closed"}, first
        with suppress(ConnectionError):
            while line.recv(65_536):
                pass
        return Outcome("connection_closed")


@form("W038")
def many_keys(scene: Scene, case: dict[str, Any]) -> Outcome:
    return send(scene, case, {**case["send"], "json": {f"k{n}": n for n in range(100_000)}})


@form("W120", "W123")
def long_chain(scene: Scene, case: dict[str, Any]) -> Outcome:
    size = 10_000
    chain = [
        {"id": f"n{n}", "description": "d", "agent": "coder", "dependencies": [f"n{n - 1}"]}
        for n in range(size)
    ]
    chain[0]["dependencies"] = [f"n{size - 1}"] if case["id"] == "W123" else []
    message = {
        "type": "plan_decision", "plan_id": "p1", "decision": "edit", "modified_subtasks": chain,
    }  # fmt: skip
    return send(scene, case, {**case["send"], "json": {"session_id": "s_A", "message": message}})


def head(deployment: Deployment, *lines: str) -> bytes:
    """The head of a POST, written by hand."""
    fixed = (
        f"POST {STREAM} HTTP/1.1", f"Host: 127.0.0.1:{deployment.ready.port}",
        f"Authorization: Bearer {deployment.tokens['A']}", "Content-Type: application/json",
    )  # fmt: skip
    return ("\r\n".join((*fixed, *lines)) + "\r\n\r\n").encode()


def raw_connection(deployment: Deployment) -> socket.socket:
    return socket.create_connection(("127.0.0.1", deployment.ready.port), timeout=PATIENCE)


def status_line(line: socket.socket) -> Outcome:
    """The status of an answer that is read off the wire."""
    try:
        first = line.recv(4_096)
    except ConnectionError:
        return Outcome("connection_closed")
    return Outcome(first.split()[1].decode() if first else "connection_closed")


# Headers and credentials -------------------------------------------------------------------------


@form("W181")
def token_of_a_tool(scene: Scene, case: dict[str, Any]) -> Outcome:
    """Every value of the command's own environment is tried as a token."""
    scene.allow_edited("env > environment.txt")
    before = account(scene)
    values = (scene.folder / "environment.txt").read_text().split("\n")
    tried = {part for value in values for part in (value, value.partition("=")[2]) if part}
    assert not any(token in value for token in scene.deployment.tokens.values() for value in values)
    outcome = Outcome()
    for value in sorted(tried)[:15]:
        headers = {"Authorization": f"Bearer {value}"}
        outcome = send(scene, {**case, "as": "stranger", "headers": headers}, case["send"])
        assert outcome.names == {"401"}, outcome
    assert account(scene) == before
    return outcome


@form("W190")
def cookie_alone(scene: Scene, case: dict[str, Any]) -> Outcome:
    cookie = {"Cookie": logged_in(scene.deployment)}
    return send(scene, {**case, "as": "stranger", "headers": cookie}, case["send"])


@form("W196")
def open_redirect(scene: Scene, case: dict[str, Any]) -> Outcome:
    deployment = scene.deployment
    head = f"GET //evil.test/%2e%2e HTTP/1.1\r\nHost: 127.0.0.1:{deployment.ready.port}\r\n\r\n"
    with raw_connection(deployment) as line:
        line.sendall(head.encode())
        answer = line.recv(4_096)
    assert b"location" not in answer.lower()
    return Outcome(answer.split()[1].decode())


@form("W197")
def wrong_tokens(scene: Scene, case: dict[str, Any]) -> Outcome:
    """200 instead of 10,000."""
    with httpx.Client(base_url=scene.deployment.url, timeout=PATIENCE, trust_env=False) as http:
        statuses = [
            http.get("/api/v1/sessions", headers={"Authorization": f"Bearer {n}"}).status_code
            for n in range(200)
        ]
    assert set(statuses) == {401, 429}, set(statuses)
    assert scene.deployment.ask("GET", "/api/v1/sessions").status_code == 200
    return Outcome(str(statuses[-1]))


@form("W226")
def stored_on_the_way(scene: Scene, case: dict[str, Any]) -> Outcome:
    answer = say_hello(scene)
    assert answer.headers["cache-control"] == "no-store"
    return of_stream(answer)


@form("W238")
def wants_xml(scene: Scene, case: dict[str, Any]) -> Outcome:
    return of_stream(say_hello(scene, Accept="application/xml"))


@form("W229")
def another_deployment(scene: Scene, case: dict[str, Any]) -> Outcome:
    home = scene.deployment.work.parent / f"other-{scene.session_id}"
    with deployed(home) as other:
        body = {"session_id": scene.session_id}
        assert other.ask("POST", "/api/v1/sessions", json=body).status_code == 201
        other.tokens["A"] = scene.deployment.tokens["A"]
        message = {"type": "plan_decision", "plan_id": scene.names["p1"], "decision": "approve"}
        sent = {"session_id": scene.session_id, "message": message}
        return of_problem(other.ask("POST", STREAM, json=sent))


def say_hello(scene: Scene, **headers: str) -> httpx.Response:
    body = {"session_id": scene.session_id, "message": {"type": "user_message", "content": "x"}}
    return scene.deployment.ask("POST", STREAM, json=body, headers=headers)


def logged_in(deployment: Deployment) -> str:
    """The cookie of a browser that opened the printed link; the link works once."""
    if not deployment.browser:
        code = deployment.ready.login_url.partition("#code=")[2]
        origin = {"Origin": deployment.url}
        answer = deployment.ask(
            "POST", "/api/v1/auth/session", "stranger", json={"code": code}, headers=origin
        )
        assert answer.status_code == 204, answer.text
        deployment.browser = "; ".join(f"{k}={v}" for k, v in answer.cookies.items())
        deployment.http.cookies.clear()
    return deployment.browser


# Time --------------------------------------------------------------------------------------------


@form("W231")
def clock_set_back(scene: Scene, case: dict[str, Any]) -> Outcome:
    clock = scene.deployment.clock
    message = {"type": "hitl_decision", "call_id": "c1", "decision": "approve"}
    late = {"to": f"POST {STREAM}", "json": {"session_id": "s_A", "message": message}}
    try:
        clock.offset = timedelta(hours=25)
        assert "410" in send(scene, case, late).names
        clock.offset -= timedelta(hours=2)
        outcome = send(scene, case, late)
    finally:
        clock.offset = timedelta()
    assert scene.ledger == []
    return outcome


# WebSocket ---------------------------------------------------------------------------------------


@form("W199", "W200", "W201")
def tricked_browser(scene: Scene, case: dict[str, Any]) -> Outcome:
    deployment = scene.deployment
    wanted = case["send"]["handshake"]
    headers = deployment.headers("A")
    if "cookie" in wanted:
        headers = {"Cookie": logged_in(deployment)}
    if wanted.startswith("Origin"):
        headers["Origin"] = wanted.split(",")[0].removeprefix("Origin ")
    host = wanted.removeprefix("Host ") if wanted.startswith("Host") else "127.0.0.1"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    handshake = (
        f"GET /ws/{scene.session_id} HTTP/1.1\r\nHost: {host}:{deployment.ready.port}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
    )
    with raw_connection(deployment) as line:
        line.sendall(handshake.encode())
        return status_line(line)


@form("W203")
def revoked_then_decides(scene: Scene, case: dict[str, Any]) -> Outcome:
    deployment = scene.deployment
    deployment.token("short-lived", "ann", Role.OPERATOR)
    newest = max(
        (t for t in deployment.get("/tokens", "root")["tokens"] if t["name"] == "ann"),
        key=lambda token: token["created_at"],
    )
    with deployment.socket(scene.session_id, "short-lived") as line:
        deployment.ask("DELETE", f"/api/v1/tokens/{newest['token_id']}", "root")
        return end_of(line, json.dumps(decision(scene)))


@form("W204")
def binary(scene: Scene, case: dict[str, Any]) -> Outcome:
    with scene.deployment.socket(scene.session_id) as line:
        return end_of(line, json.dumps(decision(scene)).encode())


@form("W205")
def not_utf8(scene: Scene, case: dict[str, Any]) -> Outcome:
    with scene.deployment.socket(scene.session_id) as line:
        line.socket.sendall(Frame(Opcode.TEXT, b'{"type":"\xff\xfe"}').serialize(mask=True))
        return end_of(line)


@form("W206")
def too_long(scene: Scene, case: dict[str, Any]) -> Outcome:
    """The frame announces 64 MiB; 1 MiB of it is sent before we listen."""
    with scene.deployment.socket(scene.session_id) as line:
        announced = b"\x81\xff" + struct.pack("!Q", 64 * 1024 * 1024) + b"\x00" * 4
        line.socket.sendall(announced + b"x" * 1024 * 1024)
        return end_of(line)


@form("W207")
def fragments(scene: Scene, case: dict[str, Any]) -> Outcome:
    """20,000 fragments instead of a million."""
    message = {"type": "user_message", "content": "x" * 20_000}
    frames = [
        Frame(Opcode.CONT if n else Opcode.TEXT, byte.encode(), fin=False).serialize(mask=True)
        for n, byte in enumerate(json.dumps(message))
    ]
    frames.append(Frame(Opcode.CONT, b"", fin=True).serialize(mask=True))
    with scene.deployment.socket(scene.session_id) as line:
        line.socket.sendall(b"".join(frames))
        return first_of(line)


@form("W208")
def compression_bomb(scene: Scene, case: dict[str, Any]) -> Outcome:
    with scene.deployment.socket(scene.session_id, compression="deflate") as line:
        assert line.protocol.extensions == []
        frame = bytearray(Frame(Opcode.TEXT, b"\x00" * 100).serialize(mask=True))
        frame[0] |= 0x40  # the bit that says "compressed"
        line.socket.sendall(frame)
        return end_of(line)


@form("W209")
def flood_of_pings(scene: Scene, case: dict[str, Any]) -> Outcome:
    """2,000 pings instead of 100,000."""
    with scene.deployment.socket(scene.session_id) as line:
        line.socket.sendall(Frame(Opcode.PING, b"x").serialize(mask=True) * 2_000)
        with suppress(ConnectionClosed):  # it may have been cut off already
            line.send(json.dumps(decision(scene, "reject")))
        return first_of(line)


@form("W211")
def decides_before_the_token(scene: Scene, case: dict[str, Any]) -> Outcome:
    with scene.deployment.socket(scene.session_id, "stranger") as line:
        return end_of(line, json.dumps(decision(scene)))


@form("W214")
def gone_after_the_decision(scene: Scene, case: dict[str, Any]) -> Outcome:
    with scene.deployment.socket(scene.session_id) as line:
        line.send(json.dumps(decision(scene)))
        reset(line.socket)
    scene.until(lambda: plan_status(scene) == "completed")
    assert scene.ledger == ["c1"]
    return Outcome("accepted")


@form("W216")
def bad_cursors(scene: Scene, case: dict[str, Any]) -> Outcome:
    outcome = Outcome()
    for cursor in ("-1", "abc", "NaN", "1e3", "99999999999999999999", "%00", "+1", "1.0", ""):
        with scene.deployment.socket(scene.session_id, query=f"?after={cursor}") as line:
            outcome = end_of(line)
            assert "error_chunk:invalid_cursor" in outcome.names, (cursor, outcome)
    return outcome


@form("W218")
def never_reads(scene: Scene, case: dict[str, Any]) -> Outcome:
    """Eight events of a megabyte and 0.3 s of patience, instead of 100,000 events and minutes.

    It hosts its session's tools, so another may once the server has given it up.
    """
    talker = Scene(scene.deployment, case["id"], "S0")
    talker.open(talker.session_id, "A", "client")
    for _ in range(4):
        talker.say({"type": "user_message", "content": "tell me all", "agent_type": "ask"})
    hosting = {"session_id": talker.session_id, "query": "?after=0&tool_host=1"}
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    narrow.connect(("127.0.0.1", scene.deployment.ready.port))
    with scene.deployment.socket(**hosting, sock=narrow, max_queue=1) as line:
        talker.until(lambda: "accepted" in first_told(scene.deployment, hosting).names)
        outcome = end_of(line)
    with scene.deployment.socket(talker.session_id, query="?after=0") as line:
        seqs = [json.loads(line.recv(PATIENCE))["seq"] for _ in range(last_seq(talker))]
    assert seqs == list(range(1, len(seqs) + 1))
    return outcome


def first_told(deployment: Deployment, options: dict[str, Any]) -> Outcome:
    """What another line of these options is told first."""
    with deployment.socket(**options) as line:
        return first_of(line)


def decision(scene: Scene, word: str = "approve") -> dict[str, Any]:
    return {"type": "hitl_decision", "call_id": scene.names["c1"], "decision": word}


def end_of(line: Connection, *frames: str | bytes) -> Outcome:
    """Send, and read on until the other side ends it."""
    found = Outcome()
    try:
        for frame in frames:
            line.send(frame)
        while True:
            event = json.loads(line.recv(PATIENCE))
            if event["type"] == "error":
                found = of_error(event)
    except ConnectionClosed as end:
        found.names.add(f"ws_close:{end.rcvd.code if end.rcvd else 1006}")
    except InvalidStatus as refused:
        found.names.add(str(refused.response.status_code))
    return found


def first_of(line: Connection) -> Outcome:
    """What comes back first: an event, an error or the end."""
    try:
        event = json.loads(line.recv(PATIENCE))
    except ConnectionClosed as end:
        return Outcome(f"ws_close:{end.rcvd.code if end.rcvd else 1006}")
    return of_error(event) if event["type"] == "error" else Outcome("accepted", events=[event])


def reset(connection: socket.socket) -> None:
    """Break a connection off, as a dying client does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# Streams -----------------------------------------------------------------------------------------


@form("W220", "W221")
def gone_while_it_runs(scene: Scene, case: dict[str, Any]) -> Outcome:
    """A second plan, that does not ask, is approved by a client that goes away."""
    quick = Scene(scene.deployment, case["id"], "S1")
    quick.plan("never asks")
    wanted = "plan_approved" if case["id"] == "W221" else "subtask_completed"
    message = {"type": "plan_decision", "plan_id": quick.names["p1"], "decision": "approve"}
    body = {"session_id": quick.session_id, "message": message}
    headers = quick.deployment.headers("A")
    with quick.deployment.http.stream("POST", STREAM, json=body, headers=headers) as answer:
        for line in answer.iter_lines():
            if wanted in line:
                break
    quick.until(lambda: plan_status(quick) == "completed")
    assert {path.name for path in quick.folder.iterdir()} == {"one.txt", "two.txt", "three.txt"}
    return Outcome("accepted")


@form("W222")
def cursor_of_another(scene: Scene, case: dict[str, Any]) -> Outcome:
    other = Scene(scene.deployment, case["id"], "S1")
    say_hello(other)
    cursor = last_seq(other)
    path = f"/api/v1/sessions/{scene.session_id}/events"
    bodies = followed(
        scene.deployment, path, last_seq(scene) - cursor, {"Last-Event-ID": str(cursor)}
    )
    assert {body["session_id"] for body in bodies} == {scene.session_id}
    assert [body["seq"] for body in bodies] == list(range(cursor + 1, last_seq(scene) + 1))
    return Outcome("accepted")


@form("W223")
def forged_frames(scene: Scene, case: dict[str, Any]) -> Outcome:
    forged = Scene(scene.deployment, case["id"], "S1")
    (forged.folder / "forged.txt").write_text(FORGED.replace("\r", "\n"))
    forged.plan("reads")
    message = {"type": "plan_decision", "plan_id": forged.names["p1"], "decision": "approve"}
    body = {"session_id": forged.session_id, "message": message}
    answer = forged.deployment.ask("POST", STREAM, json=body)
    kept = forged.deployment.rows(
        "SELECT seq FROM events WHERE session_id = :id AND type = 'plan_approved'",
        id=forged.session_id,
    )
    for frame in answer.text.removesuffix("\n\n").split("\n\n"):
        lines = frame.splitlines()
        names = [line.partition(":")[0] for line in lines]
        assert names in (["event", "id", "data"], ["event", "data"], [""]), frame
        assert lines[0] in {"event: message", "event: done", ": still here"}, frame
    assert len(kept) == 1
    return of_stream(answer)


@form("W227")
def decides_unseen(scene: Scene, case: dict[str, Any]) -> Outcome:
    """Decided by the id and the digest that another client saw, before any stream was read."""
    asked = scene.pending()[0]
    message = {**decision(scene), "digest": asked["digest"]}
    outcome = send(
        scene, case, {"to": f"POST {STREAM}", "json": {"session_id": "s_A", "message": message}}
    )
    assert scene.ledger == ["c1"]
    return outcome


def followed(
    deployment: Deployment, path: str, wanted: int, headers: dict[str, str]
) -> list[dict[str, Any]]:
    """So many events of a session's stream."""
    bodies: list[dict[str, Any]] = []
    sent = {**deployment.headers("A"), **headers}
    with deployment.http.stream("GET", path, headers=sent, timeout=PATIENCE) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data: "):
                bodies.append(json.loads(line[6:]))
            if len(bodies) == wanted:
                return bodies
    return bodies
