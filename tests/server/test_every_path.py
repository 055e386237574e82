"""What holds of every path of the OpenAPI document, over a whole server with a plan that waits.

Reading changes nothing, and what is somebody else's is not told from what there is not. A path that
is added is in these tests by itself; one that needs a body to get as far as its id needs a line.
"""

import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from gonogo.store.schema import METADATA
from wire.deployment import Deployment, deployed
from wire.states import Scene

API = "/api/v1"
UNKNOWN = "there-is-no-such-id"
WEAK = {"decision": "approve"}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("post", "/approvals/{approval_id}/decision"): WEAK,
    ("post", "/plans/{plan_id}/decision"): WEAK,
    ("post", "/plans/{plan_id}/check"): {"modified_subtasks": []},
    ("post", "/plans/{plan_id}/comments"): {"content": "Why?"},
    ("post", "/plans/{plan_id}/replan"): {"reason": "It is wrong"},
    ("post", "/plans/{plan_id}/subtasks/{subtask_id}/steer"): {"content": "Mind the tests."},
    ("post", "/sessions/{session_id}/steer"): {"content": "Be brief."},
    ("post", "/sessions/{session_id}/rules"): {"rule": {"decision": "deny", "tool": "write_file"}},
    ("patch", "/sessions/{session_id}"): {"title": "Mine now"},
}
"""Bodies that are right, so that it is the id that is refused."""
NEEDED = {"from": 1, "to": 1}
ADMINS = {
    ("delete", "/tokens/{token_id}"): "only admins come here, and to them no token is foreign",
    ("get", "/places/{place_id}"): "only admins come here, and one process has no places",
    ("post", "/places/{place_id}/release"): "only admins come here, and one process has no places",
}
"""Paths whose ids are foreign to nobody who may ask, with the reason."""
ENDLESS = ("/sessions/{session_id}/events", "/news")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory) -> Iterator[Deployment]:
    with deployed(tmp_path_factory.mktemp("paths"), public_url="http://127.0.0.1:8001") as found:
        yield found


@pytest.fixture
def commits(deployment) -> Iterator["Commits"]:
    with closing(sqlite3.connect(deployment.work.parent / "state" / "gonogo.db")) as line:
        yield Commits(line)


@pytest.fixture(scope="module")
def scene(deployment) -> Scene:
    return Scene(deployment, "paths", "S8")


@pytest.fixture(scope="module")
def ids(deployment, scene) -> dict[str, str]:
    """An id of Ann's for each parameter that takes one, and what else a path needs."""
    plan, session = scene.names["p1"], scene.session_id
    checkpoints = deployment.get(f"/checkpoints?plan_id={plan}")["checkpoints"]
    body = BODIES["post", "/sessions/{session_id}/rules"]
    rule = deployment.ask("POST", f"{API}/sessions/{session}/rules", json=body)
    assert rule.status_code == 201, rule.text
    return {
        "session_id": session, "plan_id": plan, "subtask_id": "two1", "number": "1",
        "approval_id": scene.pending()[0]["approval_id"], "rule_id": rule.json()["rule_id"],
        "checkpoint_id": checkpoints[0]["checkpoint_id"],
        "grant_id": deployment.get(f"/grants?session_id={session}")["grants"][0]["grant_id"],
        "token_id": deployment.get("/tokens", "root")["tokens"][0]["token_id"],
        "place_id": UNKNOWN,
    }  # fmt: skip


def operations(deployment: Deployment) -> list[tuple[str, str, dict[str, Any]]]:
    """Each method, its path without the prefix, and what the document says of it."""
    found = deployment.get("/openapi.json")["paths"]
    return [
        (method, path.removeprefix(API), operation)
        for path, methods in found.items()
        for method, operation in methods.items()
    ]


def named(path: str, ids: dict[str, str]) -> str:
    """A path with its ids."""
    return API + re.sub(r"{(\w+)}", lambda name: ids[name[1]], path)


def query(operation: dict[str, Any], ids: dict[str, str], *, whole: bool) -> dict[str, Any]:
    """The parameters that a request needs, and with `whole` every id that it may have."""
    wanted = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
    known = {**NEEDED, **ids}
    return {
        each["name"]: known[each["name"]]
        for each in wanted
        if each.get("required") or (whole and each["name"] in ids)
    }


def state(deployment: Deployment) -> dict[str, str]:
    """The digest of each table, but that which counts writes: `/ready` tries whether it can."""
    digests = {}
    for table in METADATA.tables.keys() - {"writers"}:
        rows = sorted(repr(tuple(row)) for row in deployment.rows(f"SELECT * FROM {table}"))  # noqa: S608
        digests[table] = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    return digests


class Commits:
    """Tells whether anybody has written since it was last asked, which is cheaper than a look."""

    def __init__(self, line: sqlite3.Connection) -> None:
        self._line = line
        self._seen = self._version()

    def none(self) -> bool:
        before, self._seen = self._seen, self._version()
        return before == self._seen

    def _version(self) -> int:
        return self._line.execute("PRAGMA data_version").fetchone()[0]


def read(deployment: Deployment, path: str, params: dict[str, Any], who: str) -> int:
    """Ask for something, to its end or, where it has none, to its first bytes."""
    if not path.endswith(("/events", "/news")):
        return deployment.ask("GET", path, who, params=params).status_code
    headers = {**deployment.headers(who), "Last-Event-ID": "0"}
    with deployment.http.stream("GET", path, headers=headers) as answer:
        next(answer.iter_raw())
        return answer.status_code


def test_no_get_changes_a_row(deployment, scene, ids, commits):
    approval = f"{API}/approvals/{ids['approval_id']}/links"
    link = deployment.ask("POST", approval, "A", json={}).json()["url"]
    token = link.rpartition("/")[2]
    gets = [(named(p, ids), o) for m, p, o in operations(deployment) if m == "get"]
    bare = [(path, {}) for path in ("/", "/health", "/ready", "/metrics", f"/d/{token}")]
    before = state(deployment)

    statuses = {}
    for path, operation in [*gets, *bare]:
        for who in ("A", "root", "B", "A_readonly", "nobody"):
            for whole in (False, True):
                params = query(operation, ids, whole=whole)
                if path.endswith("/events") and who in {"B", "nobody"}:
                    continue
                statuses[path, who] = read(deployment, path, params, who)
                assert commits.none() or state(deployment) == before, (path, who)

    mine = {path: status for (path, who), status in statuses.items() if who == "root"}
    assert len(gets) > 25
    refused = {path for path, status in mine.items() if status != 200}
    # Nothing ran yet, so this checkpoint has no files to compare; one process has no places.
    assert refused == {
        f"{API}/checkpoints/{ids['checkpoint_id']}/diff", f"{API}/places/{UNKNOWN}"
    }  # fmt: skip
    assert scene.ledger == []
    assert state(deployment) == before


def test_a_foreign_id_is_answered_like_an_unknown_one_on_every_path(deployment, ids):
    with_ids = [each for each in operations(deployment) if "{" in each[1]]
    before = state(deployment)
    odd = {}
    for method, path, _ in with_ids:
        if (method, path) in ADMINS:
            continue
        foreign, unknown = (
            told(deployment, method, path, {**ids, **dict.fromkeys(hidden, UNKNOWN)}, "B")
            for hidden in ((), set(ids) - {"number"})
        )
        if foreign != unknown or foreign[0] != 404:
            odd[method, path] = foreign, unknown

    assert len(with_ids) > 25
    assert odd == {}
    assert state(deployment) == before


def told(
    deployment: Deployment, method: str, path: str, ids: dict[str, str], who: str
) -> tuple[int, str]:
    """A status and its text, with the ids left out that the sender gave itself."""
    operation = next(o for m, p, o in operations(deployment) if (m, p) == (method, path))
    body = {} if method in {"get", "delete"} else {"json": BODIES.get((method, path), {})}
    answer = deployment.ask(
        method.upper(), named(path, ids), who, params=query(operation, ids, whole=True), **body
    )
    return answer.status_code, without(answer.text, ids)


def without(text: str, ids: dict[str, str]) -> str:
    """A text without the ids."""
    for value in sorted(ids.values(), key=len, reverse=True):
        text = text.replace(value, "ID") if len(value) > 1 else text
    return text


def test_a_foreign_id_in_a_query_is_answered_like_an_unknown_one(deployment, ids):
    asked = [
        (path, operation, each["name"])
        for method, path, operation in operations(deployment)
        for each in operation.get("parameters", ())
        if method == "get" and each["in"] == "query" and each["name"] in ids
    ]
    odd = {}
    for path, operation, name in asked:
        if "{" in path:
            continue
        answers = []
        for value in (ids[name], UNKNOWN):
            params = {**query(operation, ids, whole=False), name: value}
            answer = deployment.ask("GET", named(path, ids), "B", params=params)
            answers.append((answer.status_code, without(answer.text, {name: value})))
        if answers[0] != answers[1] or ids[name] in answers[0][1]:
            odd[path, name] = answers

    assert len(asked) >= 6
    assert odd == {}


def test_ids_in_a_body_are_answered_alike_too(deployment, ids):
    answers = []
    for value in (ids["approval_id"], UNKNOWN):
        body = {"decisions": [{"approval_id": value, **WEAK}]}
        answer = deployment.ask("POST", f"{API}/approvals/decisions", "B", json=body)
        answers.append((answer.status_code, without(answer.text, {"id": value})))

    assert answers[0] == answers[1]
    assert '"code":"not_found"' in answers[0][1]


def test_the_exceptions_still_are_what_they_say(deployment, ids):
    known = {(method, path) for method, path, _ in operations(deployment)}
    assert known >= {*ADMINS, *BODIES}
    for method, path in ADMINS:
        answers = [
            told(deployment, method, path, {**ids, "token_id": value}, "B")
            for value in (ids["token_id"], UNKNOWN)
        ]
        assert answers[0] == answers[1]
        assert answers[0][0] == 403


def test_every_page_says_what_it_may_load_who_may_frame_it_and_where_it_came_from(deployment, ids):
    made = deployment.ask("POST", f"{API}/approvals/{ids['approval_id']}/links", json={})
    token = made.json()["url"].rpartition("/")[2]
    for path, status in (("/", 200), (f"/d/{token}", 200), ("/d/unknown", 404)):
        answer = deployment.ask("GET", path, "nobody")
        assert (answer.status_code, answer.headers["content-type"]) == (
            status, "text/html; charset=utf-8"
        )  # fmt: skip
        rules = dict(
            (rule.strip().split(" ", 1))
            for rule in answer.headers["content-security-policy"].split(";")
        )
        assert rules["default-src"] == "'none'"
        assert rules["frame-ancestors"] == rules["base-uri"] == "'none'"
        assert rules.get("script-src", "'self'") == "'self'", "nothing inline is run"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"


def test_nothing_but_the_known_pages_is_html(deployment, ids):
    for method, path, operation in operations(deployment):
        if method != "get" or path in ENDLESS:
            continue
        params = query(operation, ids, whole=False)
        answer = deployment.ask("GET", named(path, ids), "root", params=params)
        assert "html" not in answer.headers["content-type"], path
        assert answer.headers["x-content-type-options"] == "nosniff"
