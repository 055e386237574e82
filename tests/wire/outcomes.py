"""What came of a message, in the words of the case files.

An answer has several names: an `error` event is `error_chunk:CODE`, its REST status by the table of
docs/reference/protocol.md §3, and what the case files call it.
"""

import json
from typing import Any

import httpx

from gonogo.domain import errors
from wire.deployment import STREAM, Deployment
from wire.states import Scene

PATIENCE = 60.0
"""Seconds that an answer may take to begin, or to go on."""
_STILL, _HANG = 3, 60
"""Comments of a server that it is still there and has nothing to say: after so many a stream stays
open, where a command runs for ever, and hangs, where none does."""
_STATUS = {
    kind.code: kind.status
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.GonogoError) and "code" in vars(kind)
}
_OTHER_NAMES = {
    "not_found": ("approval_not_found", "plan_not_found"),
    "conflict": ("superseded", "digest_mismatch", "not_approved"),
    "policy_denied": ("denied",),
    "unknown_type": ("invalid_message",),
}


class Outcome:
    """One answer: its names, its events, and whether it was still open when we left."""

    def __init__(self, *names: str, events: list[dict[str, Any]] | None = None) -> None:
        self.names, self.events, self.is_open = set(names), events or [], False

    @property
    def is_refusal(self) -> bool:
        """Whether nothing may have changed."""
        return not self.names & {"accepted", "ignored_idempotent", "connection_closed"}

    def __repr__(self) -> str:
        return f"Outcome({sorted(self.names)}, {self.events[-2:]})"


def of_error(event: dict[str, Any]) -> Outcome:
    """The names of an `error` event."""
    code = event["code"]
    words = (code, *_OTHER_NAMES.get(code, ()))
    return Outcome(str(_STATUS[code]), *(f"error_chunk:{word}" for word in words), events=[event])


def send(scene: Scene, case: dict[str, Any], message: dict[str, Any]) -> Outcome:
    """Carry out one request of a case and name what came of it."""
    deployment = scene.deployment
    method, path = scene.named(message["to"]).split(" ")
    headers = {**deployment.headers(case["as"]), **case.get("headers", {})}
    query = case.get("query", "").replace("<valid A>", deployment.tokens["A"])
    body = body_of(scene, message)
    if body is not None:
        headers["Content-Type"] = message.get("content_type", "application/json")
    before = last_seq(scene) if path == STREAM and scene.state != "S11" else 0
    outcome = exchange(
        deployment.url, method, path + query, headers, body, stays=scene.state == "S5"
    )
    if "accepted" in outcome.names and path == STREAM and last_seq(scene) == before:
        outcome.names = {"ignored_idempotent"}
    return outcome


def exchange(
    url: str,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes | None,
    *,
    stays: bool = False,
) -> Outcome:
    """One request on a connection of its own.

    Args:
        stays: Its stream may stay open.
    """
    with (
        httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False) as http,
        http.stream(method, path, headers=headers, content=body) as answer,
    ):
        if answer.is_error:
            answer.read()
            return of_problem(answer)
        if not answer.headers["content-type"].startswith("text/event-stream"):
            answer.read()
            return Outcome("accepted")
        return of_stream(answer, _STILL if stays else _HANG)


def of_problem(answer: httpx.Response) -> Outcome:
    """The name of a refusal with an HTTP status, after a look at its form."""
    assert answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert {"type", "title", "detail", "code"} <= set(problem)
    assert "Traceback" not in answer.text
    return Outcome(str(answer.status_code), events=[problem])


def of_stream(answer: httpx.Response, comments: int = _HANG) -> Outcome:
    """The name of an answer that is a stream, after a look at its form.

    Args:
        comments: After so many of them it counts as open.
    """
    outcome, finals, heard = Outcome("accepted"), 0, 0
    for line in answer.iter_lines():
        heard += line.startswith(":")
        outcome.is_open = heard >= comments
        if outcome.is_open:
            break
        if not line.startswith("data: "):
            continue
        event = json.loads(line[6:])
        if event["type"] == "done":
            break
        outcome.events.append(event)
        finals += event.get("is_final") is True
    assert finals <= 1, outcome.events
    assert outcome.is_open or finals == 1 or not outcome.events, outcome.events
    refused = [event for event in outcome.events if event["type"] == "error"]
    return of_error(refused[-1]) if refused else outcome


def body_of(scene: Scene, message: dict[str, Any]) -> bytes | None:
    """The bytes of a request's body."""
    if "raw" in message:
        raw = expanded(message["raw"])
        return scene.named(raw).encode() if "s_A" in raw else raw.encode()
    if "json" in message:
        return json.dumps(scene.named(expanded(message["json"]))).encode()
    return None


def expanded(value: Any) -> Any:
    """A value with its `$repeat` forms written out."""
    match value:
        case {"$repeat": [str(text), int(times)]}:
            return text * times
        case dict():
            return {name: expanded(each) for name, each in value.items()}
        case list():
            return [expanded(each) for each in value]
        case _:
            return value


def last_seq(scene: Scene) -> int:
    """Where the session's log ends."""
    session = scene.session_id
    found = scene.deployment.rows("SELECT last_seq FROM sessions WHERE id = :id", id=session)
    return found[0][0] if found else 0


def account(scene: Scene) -> dict[str, list[Any]]:
    """Everything of a session that a refused message must not change."""
    questions = {
        "sessions": "SELECT last_seq, agent, active_plan_id, deleted FROM sessions WHERE id = :id",
        "plans": "SELECT id, status, revision, digest FROM plans WHERE session_id = :id",
        "approvals": "SELECT id, status, decided_by FROM approvals WHERE session_id = :id",
        "calls": "SELECT id, status, digest FROM tool_calls WHERE session_id = :id",
        "messages": "SELECT count(*) FROM messages WHERE session_id = :id",
        "turns": "SELECT id, status FROM turns WHERE session_id = :id",
        "audit": "SELECT count(*) FROM audit WHERE chain = :id",
    }
    found = {
        name: [tuple(row) for row in scene.deployment.rows(question, id=scene.session_id)]
        for name, question in questions.items()
    }
    return {**found, "ledger": scene.ledger}


def check(deployment: Deployment, scene: Scene) -> None:
    """What holds after every case, whatever it did (tests/cases/invariants.md)."""
    complaints, deployment.complaints.lines = deployment.complaints.lines, []
    assert not complaints, "\n".join(complaints)
    # The session may still go on: what can only grow is read before what it is held against.
    session, ended_at, ledger = scene.session_id, last_seq(scene), list(scene.ledger)
    seqs = deployment.rows("SELECT seq FROM events WHERE session_id = :id ORDER BY seq", id=session)
    assert [row[0] for row in seqs] == list(range(1, len(seqs) + 1)), "I14"
    assert len(seqs) >= ended_at, "I14"
    allowed = deployment.rows(
        "SELECT id FROM tool_calls WHERE session_id = :id AND tool = 'execute_command'"
        " AND (status IN ('allowed', 'started', 'completed', 'failed', 'unknown')"
        # A plan may be cancelled while its command runs.
        " OR status = 'cancelled' AND started_at IS NOT NULL)", id=session,
    )  # fmt: skip
    assert len(ledger) <= len(allowed), "I02, I03"
    assert len(ledger) == len(set(ledger)), "I03"
    ((ended, resolved),) = deployment.rows(
        "SELECT (SELECT count(*) FROM approvals WHERE session_id = :id AND status != 'pending'),"
        " (SELECT count(*) FROM events WHERE session_id = :id AND type = 'approval_resolved')",
        id=session,
    )
    assert ended == resolved, "I01, I12"
