"""Each path asks the runtime for just what it says, in the sender's name, and answers with it."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from gonogo.domain.audit_chain import AuditFilter, ChainHead
from gonogo.domain.errors import Conflict, InvalidCursor
from gonogo.domain.identity import Role
from gonogo.domain.messages import HitlDecision, PlanDecision, Steer
from gonogo.domain.records import SessionPlace
from gonogo.domain.states import ApprovalKind, ApprovalStatus, PlanStatus, SessionState
from gonogo.domain.views import ApprovalFilter, ApprovalView, Audit, TokenView
from gonogo.server.routes.catalog import Wanted
from server.stand_in import NOW, StandIn, Verbs

API = "/api/v1"
DAY = datetime(2026, 1, 2, tzinfo=UTC)
PAGED = {"limit": 50, "offset": 0}
ANY = {"state": None, "after": None}
PLACE = SessionPlace(DAY, "s1")
FILES = {"path": None, "limit": 100, "offset": 0}
RULE = {"decision": "deny", "tool": "write_file"}
HEAD = {"chain": "c", "seq": 1, "hash": "0" * 64}
ROLLBACK = {
    "checkpoint_id": None, "subtask_id": None, "whole": False, "dry_run": False,
    "include_shared": False,
}  # fmt: skip
QUESTION = ApprovalView(
    approval_id="a1", request_id="r", kind=ApprovalKind.TOOL, request_type=ApprovalKind.TOOL,
    session_id="s1", subject="x", details={}, reason="why", digest="d",
    status=ApprovalStatus.PENDING, created_at=NOW,
)  # fmt: skip
GIVES = {
    "plans.grants": [], "plans.revisions": [], "reports.calls": [], "servers.all": [],
    "maintenance.nodes": [],
    "sessions.rules": [], "sessions.log_page": [], "audit.entries": [], "audit.prune": [],
    "audit.page": Audit(entries=[]), "approvals.get": QUESTION,
    "approvals.decide": SimpleNamespace(approval_id="a1"),
    "messages.accept": SimpleNamespace(session_id="s1", turn_id=None),
}  # fmt: skip
ROOMS = (
    "sessions", "messages", "plans", "changes", "checkpoints", "approvals", "links", "audit",
    "servers", "maintenance", "reports",
)  # fmt: skip


@pytest.fixture
def calls(runtime: StandIn) -> list[Any]:
    """What the runtime is asked: the verb, by whom, and for what."""
    found: list[Any] = []
    for room in ROOMS:
        setattr(runtime, room, Verbs(room, found, GIVES))
    runtime.policies = Verbs("policies", found, GIVES, at_once={"in_force"})
    people = Verbs("people", found, {"people.tokens": []})
    runtime.people.tokens, runtime.people.revoke_token = people.tokens, people.revoke_token
    runtime.settings.locale = None
    return found


def asks(verb: str, *args: Any, **more: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    return verb, args, more


CASES: list[tuple[str, str, Any, int, list[Any]]] = [
    ("POST", "/sessions", {"title": "T", "locale": "ru"}, 201,
     [asks("sessions.open", anywhere=False, title="T", locale="ru")]),
    ("POST", "/sessions", None, 201, [asks("sessions.open", anywhere=False)]),
    ("GET", "/sessions", None, 200, [asks("sessions.page", 50, 0, None, **ANY)]),
    ("GET", "/sessions?limit=500&offset=4&q=x", None, 200,
     [asks("sessions.page", 500, 4, "x", **ANY)]),
    ("GET", f"/sessions?state=failed&after={PLACE.text().replace('+', '%2B')}", None, 200,
     [asks("sessions.page", 50, 0, None, state=SessionState.FAILED, after=PLACE)]),
    ("GET", "/sessions/s1/usage", None, 200, [asks("sessions.usage", "s1")]),
    ("GET", "/workspaces", None, 200, [asks("sessions.workspaces")]),
    ("GET", "/sessions/s1", None, 200, [asks("sessions.get", "s1")]),
    ("PATCH", "/sessions/s1", {"title": "T"}, 200, [asks("sessions.edit", "s1", title="T")]),
    ("PATCH", "/sessions/s1", {"locale": None}, 200, [asks("sessions.edit", "s1", locale=None)]),
    ("DELETE", "/sessions/s1", None, 204, [asks("sessions.delete", "s1")]),
    ("POST", "/sessions/s1/steer", {"content": "x", "turn_id": "t"}, 202,
     [asks("messages.accept", "s1", Steer(type="steer", content="x", turn_id="t"))]),
    ("GET", "/sessions/s1/history", None, 200,
     [asks("sessions.history", "s1", by_people=False)]),
    ("GET", "/sessions/s1/history?by_people=true", None, 200,
     [asks("sessions.history", "s1", by_people=True)]),
    ("GET", "/sessions/s1/context", None, 200, [asks("sessions.context", "s1")]),
    ("GET", "/sessions/s1/pending-approvals", None, 200, [asks("sessions.pending", "s1")]),
    ("POST", "/sessions/s1/rules", {"rule": RULE}, 201, [asks("sessions.add_rule", "s1", RULE)]),
    ("GET", "/sessions/s1/rules", None, 200, [asks("sessions.rules", "s1")]),
    ("DELETE", "/sessions/s1/rules/r1", None, 204, [asks("sessions.remove_rule", "s1", "r1")]),
    ("GET", "/sessions/s1/log", None, 200, [asks("sessions.log_page", "s1", None, 500)]),
    ("GET", "/sessions/s1/log?before=9&limit=1000", None, 200,
     [asks("sessions.log_page", "s1", 9, 1_000)]),
    ("GET", "/sessions/s1/changes?path=a&limit=2&offset=1", None, 200,
     [asks("changes.of_session", "s1", path="a", limit=2, offset=1)]),
    ("GET", "/plans", None, 200, [asks("plans.page", **PAGED, session_id=None, status=None)]),
    ("GET", "/plans?session_id=s1&status=paused&limit=2&offset=1", None, 200,
     [asks("plans.page", limit=2, offset=1, session_id="s1", status=PlanStatus.PAUSED)]),
    ("GET", "/plans/p1", None, 200, [asks("plans.get", "p1")]),
    ("GET", "/plans/p1/status", None, 200, [asks("plans.status", "p1")]),
    ("GET", "/plans/p1/graph", None, 200, [asks("plans.graph", "p1")]),
    ("GET", "/plans/p1/revisions", None, 200, [asks("plans.revisions", "p1")]),
    ("GET", "/plans/p1/revisions/2", None, 200, [asks("plans.revision", "p1", 2)]),
    ("GET", "/plans/p1/diff?from=1&to=2", None, 200, [asks("plans.diff", "p1", 1, 2)]),
    ("POST", "/plans/p1/decision", {"decision": "hold", "revision": 2}, 202,
     [asks("approvals.decide", PlanDecision(plan_id="p1", decision="hold", revision=2)),
      asks("plans.get", "p1")]),
    ("POST", "/plans/p1/check", {"modified_subtasks": [{}]}, 200,
     [asks("plans.check", "p1", [{}])]),
    ("GET", "/plans/p1/comments", None, 200, [asks("plans.comments", "p1")]),
    ("POST", "/plans/p1/comments", {"content": "x", "subtask_id": "a"}, 201,
     [asks("plans.comment", "p1", content="x", subtask_id="a", revision=None)]),
    ("POST", "/plans/p1/revise", None, 202, [asks("plans.revise", "p1")]),
    ("POST", "/plans/p1/start", None, 202, [asks("plans.start", "p1")]),
    ("POST", "/plans/p1/pause", {}, 202, [asks("plans.pause", "p1")]),
    ("POST", "/plans/p1/resume", {}, 202, [asks("plans.resume", "p1")]),
    ("POST", "/plans/p1/cancel", None, 202, [asks("plans.cancel", "p1", reason=None)]),
    ("POST", "/plans/p1/cancel", {"reason": "r"}, 202, [asks("plans.cancel", "p1", reason="r")]),
    ("POST", "/plans/p1/replan", {"reason": "r"}, 202, [asks("plans.replan", "p1", "r")]),
    ("GET", "/plans/p1/changes", None, 200,
     [asks("changes.of_plan", "p1", **FILES, subtask_id=None)]),
    ("GET", "/plans/p1/changes?subtask_id=a&path=b", None, 200,
     [asks("changes.of_plan", "p1", **{**FILES, "path": "b"}, subtask_id="a")]),
    ("POST", "/plans/p1/rollback", None, 202, [asks("checkpoints.rollback", "p1", **ROLLBACK)]),
    ("POST", "/plans/p1/rollback", {"whole": True, "dry_run": True}, 202,
     [asks("checkpoints.rollback", "p1", **{**ROLLBACK, "whole": True, "dry_run": True})]),
    ("POST", "/plans/p1/subtasks/a/retry", None, 202, [asks("plans.retry_subtask", "p1", "a")]),
    ("POST", "/plans/p1/subtasks/a/skip", None, 202, [asks("plans.skip_subtask", "p1", "a")]),
    ("POST", "/plans/p1/subtasks/a/cancel", {"reason": "r"}, 202,
     [asks("plans.cancel_subtask", "p1", "a", reason="r")]),
    ("POST", "/plans/p1/subtasks/a/steer", {"content": "x"}, 202,
     [asks("plans.steer_subtask", "p1", "a", "x")]),
    ("GET", "/checkpoints?plan_id=p1", None, 200,
     [asks("checkpoints.page", **PAGED, plan_id="p1")]),
    ("GET", "/checkpoints/c1", None, 200, [asks("checkpoints.get", "c1")]),
    ("GET", "/checkpoints/c1/diff", None, 200, [asks("checkpoints.diff", "c1", None)]),
    ("GET", "/checkpoints/c1/diff?to=c2", None, 200, [asks("checkpoints.diff", "c1", "c2")]),
    ("GET", "/approvals", None, 200, [asks("approvals.page", ApprovalFilter(), None, 1_000)]),
    ("GET", "/approvals?status=pending&session_id=s1&kind=plan&group=g&mine=true&before=b&limit=1",
     None, 200, [asks("approvals.page", ApprovalFilter(
         status=ApprovalStatus.PENDING, session_id="s1", kind=ApprovalKind.PLAN, group="g",
         mine=True), "b", 1)]),
    ("GET", "/approvals/a1", None, 200, [asks("approvals.get", "a1")]),
    ("POST", "/approvals/a1/decision", {"decision": "approve", "for_session": True}, 202,
     [asks("approvals.get", "a1"),
      asks("approvals.decide",
           HitlDecision(approval_id="a1", decision="approve", for_session=True)),
      asks("approvals.get", "a1")]),
    ("POST", "/approvals/a1/links", {"name": "bob"}, 201, [asks("links.make", "a1", "bob")]),
    ("POST", "/approvals/a1/links", None, 201, [asks("links.make", "a1", None)]),
    ("DELETE", "/approvals/a1/links", None, 204, [asks("links.revoke", "a1")]),
    ("GET", "/audit", None, 200, [asks("audit.page", AuditFilter(), None, 100)]),
    ("GET", "/audit?actor=a&action=tool.&since=2026-01-02T00:00:00Z&until=2026-01-02T00:00:00Z"
     "&limit=1000", None, 200,
     [asks("audit.page", AuditFilter(actor="a", action="tool.", since=DAY, until=DAY), None,
           1_000)]),
    ("GET", "/audit?session_id=s1", None, 200,
     [asks("audit.entries", "s1", 0, 100, AuditFilter())]),
    ("GET", "/audit?after=3&limit=5", None, 200,
     [asks("audit.entries", "system", 3, 5, AuditFilter())]),
    ("GET", "/audit/verify?session_id=s1", None, 200, [asks("audit.verify", (), "s1")]),
    ("POST", "/audit/anchors", None, 201, [asks("audit.anchor")]),
    ("POST", "/audit/prune", {"before": "2026-01-02T02:00:00+02:00", "heads": [HEAD]}, 200,
     [asks("audit.prune", DAY, [ChainHead(**HEAD)])]),
    ("GET", "/servers", None, 200, [asks("servers.all")]),
    ("POST", "/maintenance/vacuum", None, 200, [asks("maintenance.vacuum", dry_run=False)]),
    ("POST", "/maintenance/vacuum", {"dry_run": True}, 200,
     [asks("maintenance.vacuum", dry_run=True)]),
    ("GET", "/policy", None, 200, [asks("policies.in_force")]),
    ("POST", "/policy/check", {"command": "ls", "arguments": {"a": 1}}, 200,
     [asks("policies.judge", "execute_command", {"command": "ls"}, "coder")]),
    ("POST", "/policy/check", {"tool": "x", "arguments": {"a": 1}, "agent": "ask"}, 200,
     [asks("policies.judge", "x", {"a": 1}, "ask")]),
    ("GET", "/grants", None, 200, [asks("plans.grants", session_id=None)]),
    ("GET", "/grants?session_id=s1", None, 200, [asks("plans.grants", session_id="s1")]),
    ("DELETE", "/grants/g1", None, 204, [asks("plans.revoke_grant", "g1")]),
    ("GET", "/calls", None, 200, [asks("reports.calls", None, None, 100, 0)]),
    ("GET", "/calls?session_id=s1&since=2026-01-02T00:00:00Z&limit=500&offset=2", None, 200,
     [asks("reports.calls", "s1", DAY, 500, 2)]),
    ("GET", "/analytics", None, 200, [asks("reports.analytics", None, None, None)]),
    ("GET", "/analytics?session_id=s1&since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z",
     None, 200,
     [asks("reports.analytics", "s1", datetime(2026, 1, 1, tzinfo=UTC), DAY)]),
    ("GET", "/nodes", None, 200, [asks("maintenance.nodes")]),
    ("GET", "/tokens", None, 200, [asks("people.tokens")]),
    ("DELETE", "/tokens/t1", None, 204, [asks("people.revoke_token", "t1")]),
]  # fmt: skip
WHOLE = {
    "messages.accept": {"session_id": "s1", "turn_id": ""}, "sessions.rules": {"rules": []},
    "sessions.log_page": {"events": []}, "plans.revisions": {"revisions": []},
    "audit.page": {"entries": []}, "audit.entries": {"entries": []}, "audit.prune": {"heads": []},
    "servers.all": {"servers": []}, "plans.grants": {"grants": []}, "reports.calls": {"calls": []},
    "people.tokens": {"tokens": []}, "maintenance.nodes": {"nodes": []},
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "wanted"), CASES, ids=lambda value: str(value)[:50]
)
async def test_a_path_asks_for_what_it_says_and_answers_with_it(
    ask: Any, calls: list[Any], method: str, path: str, body: Any, status: int, wanted: list[Any]
) -> None:
    async with ask() as client:
        more = {} if body is None else {"json": body}
        answer = await client.request(method, f"{API}{path}", **more)

    assert answer.status_code == status, answer.text
    assert calls == [(verb, "a", args, more) for verb, args, more in wanted]
    if status == 204:
        assert answer.content == b""
        return
    last = wanted[-1][0]
    given = GIVES.get(last)
    if isinstance(given, ApprovalView):
        assert answer.json() == given.model_dump(mode="json", exclude_none=True)
    else:
        assert answer.json() == WHOLE.get(last, {"verb": last})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/approvals/decisions", {"decisions": [{"approval_id": "a1", "decision": "approve"}]}),
        ("/approvals/a1/decision", {"decision": "approve"}), ("/approvals/a1/links", {}),
        ("/sessions/s1/rules", {"rule": RULE}), ("/tools/accept", {"name": "x"}),
        ("/agent/message/stream", {"session_id": "s1", "message": {"type": "cancel"}}),
    ],
)  # fmt: skip
async def test_who_only_looks_asks_for_nothing_else(
    ask: Any, calls: list[Any], path: str, body: Any
) -> None:
    async with ask(token="token-viewer") as client:
        answer = await client.post(f"{API}{path}", json=body)

    assert (answer.status_code, calls) == (403, [])


@pytest.mark.parametrize(("query", "code"), [("state=odd", 422), ("after=s1", 400)])
async def test_a_list_of_sessions_refuses_what_is_no_state_and_no_place_of_it(
    ask: Any, calls: list[Any], query: str, code: int
) -> None:
    async with ask() as client:
        answer = await client.get(f"{API}/sessions?{query}")

    assert (answer.status_code, calls) == (code, [])


async def test_a_servers_tool_is_accepted_by_admins_alone(ask: Any, calls: list[Any]) -> None:
    async with ask() as client:
        refused = await client.post(f"{API}/tools/accept", json={"name": "x"})
    async with ask(token="token-root") as client:
        done = await client.post(f"{API}/tools/accept", json={"name": "x"})

    assert (refused.status_code, done.status_code) == (403, 200)
    assert calls == [("servers.accept", "root", ("x",), {})]


def of_plan(runtime: StandIn, calls: list[Any]) -> None:
    """Have the question be about a plan."""
    asked = QUESTION.model_copy(
        update={"kind": ApprovalKind.PLAN, "plan_id": "p1", "revision": 3, "subject": "y"}
    )
    runtime.approvals = Verbs("approvals", calls, {**GIVES, "approvals.get": asked})


async def test_an_answer_to_a_plan_by_its_question_is_of_the_revision_that_was_asked(
    ask: Any, runtime: StandIn, calls: list[Any]
) -> None:
    of_plan(runtime, calls)
    body = {"decision": "reject", "digest": "d", "feedback": "why"}
    async with ask() as client:
        answer = await client.post(f"{API}/approvals/a1/decision", json=body)

    assert answer.status_code == 202
    meant = PlanDecision(plan_id="p1", revision=3, decision="reject", digest="d", feedback="why")
    assert calls[1] == ("approvals.decide", "a", (meant,), {})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"for_session": True},
            "for_session and for_plan: only a tool call can be approved for longer",
        ),
        (
            {"for_plan": True},
            ("for_session and for_plan: only a tool call can be approved for longer"),
        ),
        ({"modified_arguments": {}}, "modified_arguments: a plan is edited by modified_subtasks"),
    ],
)
async def test_what_is_for_calls_alone_is_refused_of_a_plan(
    ask: Any, runtime: StandIn, calls: list[Any], more: dict[str, Any], said: str
) -> None:
    of_plan(runtime, calls)
    async with ask() as client:
        answer = await client.post(
            f"{API}/approvals/a1/decision", json={"decision": "approve", **more}
        )

    assert (answer.status_code, answer.json()["detail"]) == (422, said)
    assert [verb for verb, *_ in calls] == ["approvals.get"]


async def test_a_group_in_which_nothing_is_open_is_not_there(
    ask: Any, runtime: StandIn, calls: list[Any]
) -> None:
    page = SimpleNamespace(approvals=[])
    runtime.approvals = Verbs("approvals", calls, {"approvals.page": page})
    async with ask() as client:
        answer = await client.post(
            f"{API}/approvals/decisions", json={"group": "g", "decision": "approve"}
        )

    wanted = ApprovalFilter(status=ApprovalStatus.PENDING, group="g")
    assert calls == [("approvals.page", "a", (wanted,), {})]
    said = answer.json()
    assert (answer.status_code, said["detail"], said["see"]) == (
        404, "No open approval found with group=g", "gonogo approvals list"
    )  # fmt: skip


async def test_a_group_is_answered_question_by_question_each_bound_to_what_it_asks(
    ask: Any, runtime: StandIn, calls: list[Any]
) -> None:
    found = [
        QUESTION.model_copy(update={"approval_id": name, "digest": f"of {name}"})
        for name in ("a1", "a2")
    ]
    gives = {
        "approvals.page": SimpleNamespace(approvals=found), "approvals.get": found[1],
        "approvals.decide_many": [
            SimpleNamespace(approval_id="a1", outcome="decided"), Conflict("It is over"),
        ],
    }  # fmt: skip
    runtime.approvals = Verbs("approvals", calls, gives)
    body = {"group": "g", "decision": "edit", "feedback": "why", "modified_arguments": {"b": 1}}
    async with ask() as client:
        answer = await client.post(f"{API}/approvals/decisions", json=body)

    more = {name: body[name] for name in ("decision", "feedback", "modified_arguments")}
    meant = [HitlDecision(approval_id="a2", digest=f"of {name}", **more) for name in ("a1", "a2")]
    assert [(verb, args) for verb, _, args, _ in calls] == [
        ("approvals.page", (ApprovalFilter(status=ApprovalStatus.PENDING, group="g"),)),
        ("approvals.get", ("a1",)), ("approvals.get", ("a2",)),
        ("approvals.decide_many", (meant,)), ("approvals.get", ("a1",)),
    ]  # fmt: skip
    assert answer.json() == {"answers": [
        {"id": "a1", "ok": True, "status": "pending", "outcome": "decided"},
        {"id": "a2", "ok": False, "code": "conflict", "detail": "It is over"},
    ]}  # fmt: skip


def test_one_chain_is_paged_by_its_numbers_and_all_of_them_by_a_place() -> None:
    assert (Wanted().chain(), Wanted().place()) == (None, None)
    assert Wanted(after=0).chain() == "system"
    assert Wanted(session_id="s1").chain() == Wanted(session_id="s1", after=0).chain() == "s1"
    for one in (Wanted(before="x", after=0), Wanted(before="x", session_id="s1")):
        with pytest.raises(InvalidCursor) as refused:
            one.place()
        assert str(refused.value) == (
            "`before` works only for all chains together; for one chain, use `after`"
        )


@pytest.mark.parametrize(("auth", "lines"), [(True, "1\n"), (False, "1\n2\n")])
async def test_an_export_ends_with_the_credential_that_asked_for_it(
    ask: Any, runtime: StandIn, auth: bool, lines: str
) -> None:
    asked: list[Any] = []

    async def two() -> Any:
        yield "1\n"
        del runtime.tokens["token-a"]
        yield "2\n"

    async def export(principal: Any, **wanted: Any) -> Any:
        asked.append(wanted)
        return two()

    runtime.audit = SimpleNamespace(export=export)
    query = "session_id=s1&since=2026-01-02T00:00:00Z&removable=2026-01-02T00:00:00Z"
    async with ask(auth=auth) as client:
        answer = await client.get(f"{API}/audit/export?{query}")

    assert (answer.text, answer.headers["content-type"]) == (lines, "application/x-ndjson")
    assert asked == [{"session_id": "s1", "since": DAY, "until": None, "removable": DAY}]


async def test_a_token_is_made_of_a_name_and_a_role(ask: Any, runtime: StandIn) -> None:
    made: list[Any] = []

    async def create(principal: Any, name: str, role: Role) -> Any:
        made.append((principal.id, name, role))
        view = TokenView(token_id="t1", name=name, role=role.word, created_at=NOW)
        return view, "secret"

    runtime.people.create_token = create
    async with ask() as client:
        answer = await client.post(f"{API}/tokens", json={"name": "ci", "role": "viewer"})
        longest = await client.post(f"{API}/tokens", json={"name": "x" * 101, "role": "viewer"})

    assert made == [("a", "ci", Role.VIEWER)]
    assert answer.json() == {"token": "secret", "view": {
        "token_id": "t1", "name": "ci", "role": "viewer", "created_at": "2026-01-02T03:04:05Z",
    }}  # fmt: skip
    assert longest.status_code == 422


async def test_leaving_by_a_token_ends_no_browser_session(ask: Any, runtime: StandIn) -> None:
    runtime.logins["browser-of-a"] = runtime.tokens["token-a"]
    async with ask() as client:
        answer = await client.delete(f"{API}/auth/session")

    assert answer.status_code == 204
    assert answer.headers["set-cookie"].startswith('gonogo_8001="";')
    assert "browser-of-a" in runtime.logins
