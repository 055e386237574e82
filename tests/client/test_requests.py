"""Every method asks its path with its words, and reads the answer as what it is."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from fakes.receiver import answers, receiver
from gonogo.client import Client, Unintelligible
from gonogo.domain.audit_chain import AuditFilter, ChainHead
from gonogo.domain.messages import PlanDecision

Ask = Callable[[Client], Awaitable[Any]]
THEN = datetime(2026, 7, 1, 12, tzinfo=UTC)
AT = "2026-07-01T12%3A00%3A00%2B00%3A00"
READS: list[tuple[Ask, str, str]] = [
    (lambda c: c.sessions(), "sessions?limit=50&offset=0", "SessionList"),
    (lambda c: c.sessions(limit=2, offset=3, q="x"), "sessions?limit=2&offset=3&q=x",
     "SessionList"),
    (lambda c: c.session("s.1"), "sessions/s%2E1", "SessionView"),
    (lambda c: c.history("s"), "sessions/s/history", "History"),
    (lambda c: c.context("s"), "sessions/s/context", "ContextView"),
    (lambda c: c.pending_approvals("s"), "sessions/s/pending-approvals", "PendingApprovals"),
    (lambda c: c.session_rules("s"), "sessions/s/rules", "SessionRules"),
    (lambda c: c.session_changes("s"), "sessions/s/changes?limit=100&offset=0", "Changes"),
    (lambda c: c.session_changes("s", path="a", limit=1, offset=2),
     "sessions/s/changes?path=a&limit=1&offset=2", "Changes"),
    (lambda c: c.plans(), "plans?limit=50&offset=0", "PlanList"),
    (lambda c: c.plans(session_id="s", status="running", limit=1, offset=2),
     "plans?session_id=s&status=running&limit=1&offset=2", "PlanList"),
    (lambda c: c.plan("p"), "plans/p", "PlanView"),
    (lambda c: c.plan_status("p"), "plans/p/status", "PlanStatusView"),
    (lambda c: c.plan_graph("p"), "plans/p/graph", "PlanGraph"),
    (lambda c: c.plan_revisions("p"), "plans/p/revisions", "Revisions"),
    (lambda c: c.plan_revision("p", 2), "plans/p/revisions/2", "RevisionView"),
    (lambda c: c.plan_diff("p", 1, 2), "plans/p/diff?from=1&to=2", "PlanDiff"),
    (lambda c: c.plan_comments("p"), "plans/p/comments", "CommentList"),
    (lambda c: c.plan_changes("p"), "plans/p/changes?limit=100&offset=0", "Changes"),
    (lambda c: c.plan_changes("p", subtask_id="x", path="a", limit=1, offset=2),
     "plans/p/changes?subtask_id=x&path=a&limit=1&offset=2", "Changes"),
    (lambda c: c.approvals(), "approvals", "ApprovalList"),
    (lambda c: c.approvals(status="pending", session_id="s", kind="tool", group="g", mine=True),
     "approvals?status=pending&session_id=s&kind=tool&group=g&mine=true", "ApprovalList"),
    (lambda c: c.approval("a"), "approvals/a", "ApprovalView"),
    (lambda c: c.audit(session_id="s"), "audit?session_id=s&after=0&limit=100", "Audit"),
    (lambda c: c.audit(session_id="s", after=1, limit=2, locale="ru",
                       wanted=AuditFilter(actor="ann", action="tool.", since=THEN, until=THEN)),
     "audit?session_id=s&after=1&limit=2&locale=ru"
     f"&actor=ann&action=tool.&since={AT}&until={AT}", "Audit"),
    (lambda c: c.audit_log(), "audit?limit=100", "Audit"),
    (lambda c: c.audit_log(AuditFilter(actor="ann"), before="b", limit=2, locale="ru"),
     "audit?before=b&limit=2&locale=ru&actor=ann", "Audit"),
    (lambda c: c.verify_audit(), "audit/verify", "AuditReport"),
    (lambda c: c.verify_audit("a", "s"), "audit/verify?anchor=a&session_id=s", "AuditReport"),
    (lambda c: c.checkpoints("p"), "checkpoints?plan_id=p&limit=50&offset=0", "CheckpointList"),
    (lambda c: c.checkpoints("p", limit=1, offset=2), "checkpoints?plan_id=p&limit=1&offset=2",
     "CheckpointList"),
    (lambda c: c.checkpoint("k"), "checkpoints/k", "CheckpointState"),
    (lambda c: c.checkpoint_diff("k"), "checkpoints/k/diff", "CheckpointDiff"),
    (lambda c: c.checkpoint_diff("k", to="l"), "checkpoints/k/diff?to=l", "CheckpointDiff"),
    (lambda c: c.health(), "health", "Health"),
    (lambda c: c.me(), "me", "Me"),
    (lambda c: c.agents(), "agents", "Agents"),
    (lambda c: c.tools(), "tools", "Tools"),
    (lambda c: c.servers(), "servers", "Servers"),
    (lambda c: c.models(), "models", "Models"),
    (lambda c: c.policy(), "policy", "PolicyView"),
    (lambda c: c.grants(), "grants", "Grants"),
    (lambda c: c.grants(session_id="s"), "grants?session_id=s", "Grants"),
    (lambda c: c.calls(), "calls?limit=100&offset=0", "Calls"),
    (lambda c: c.calls(session_id="s", since=THEN, limit=1, offset=2),
     f"calls?session_id=s&since={AT}&limit=1&offset=2", "Calls"),
    (lambda c: c.analytics(), "analytics", "Analytics"),
    (lambda c: c.analytics(session_id="s", since=THEN, until=THEN),
     f"analytics?session_id=s&since={AT}&until={AT}", "Analytics"),
    (lambda c: c.tokens(), "tokens", "Tokens"),
]  # fmt: skip
WRITES: list[tuple[Ask, str, dict[str, Any], str]] = [
    (lambda c: c.open_session(), "POST sessions", {}, "SessionView"),
    (lambda c: c.open_session(session_id="s", workspace="/w", title="t", locale="ru",
                              tool_host="client", model="m", unattended=True),
     "POST sessions", {"session_id": "s", "workspace": "/w", "title": "t", "locale": "ru",
                       "tool_host": "client", "model": "m", "unattended": True}, "SessionView"),
    (lambda c: c.edit_session("s", title="t"), "PATCH sessions/s", {"title": "t"}, "SessionView"),
    (lambda c: c.edit_session("s", locale=None), "PATCH sessions/s", {"locale": None},
     "SessionView"),
    (lambda c: c.edit_session("s", locale="ru"), "PATCH sessions/s", {"locale": "ru"},
     "SessionView"),
    (lambda c: c.add_session_rule("s", {"tool": "x"}), "POST sessions/s/rules",
     {"rule": {"tool": "x"}}, "SessionRuleView"),
    (lambda c: c.steer_turn("s", "no"), "POST sessions/s/steer", {"content": "no"}, "SteeredTurn"),
    (lambda c: c.steer_turn("s", "no", turn_id="t"), "POST sessions/s/steer",
     {"content": "no", "turn_id": "t"}, "SteeredTurn"),
    (lambda c: c.decide_plan(PlanDecision(plan_id="p", decision="approve", feedback="so")),
     "POST plans/p/decision", {"decision": "approve", "feedback": "so"}, "PlanView"),
    (lambda c: c.check_plan("p", ({"id": "x"},)), "POST plans/p/check",
     {"modified_subtasks": [{"id": "x"}]}, "PlanCheck"),
    (lambda c: c.comment_plan("p", "why"), "POST plans/p/comments", {"content": "why"},
     "CommentView"),
    (lambda c: c.comment_plan("p", "why", subtask_id="x", revision=2), "POST plans/p/comments",
     {"content": "why", "subtask_id": "x", "revision": 2}, "CommentView"),
    (lambda c: c.revise_plan("p"), "POST plans/p/revise", {}, "PlanView"),
    (lambda c: c.start_plan("p"), "POST plans/p/start", {}, "PlanView"),
    (lambda c: c.pause_plan("p"), "POST plans/p/pause", {}, "PlanView"),
    (lambda c: c.resume_plan("p"), "POST plans/p/resume", {}, "PlanView"),
    (lambda c: c.cancel_plan("p"), "POST plans/p/cancel", {}, "PlanView"),
    (lambda c: c.cancel_plan("p", reason="so"), "POST plans/p/cancel", {"reason": "so"},
     "PlanView"),
    (lambda c: c.replan("p", "so"), "POST plans/p/replan", {"reason": "so"}, "PlanView"),
    (lambda c: c.retry_subtask("p", "x"), "POST plans/p/subtasks/x/retry", {}, "PlanView"),
    (lambda c: c.skip_subtask("p", "x"), "POST plans/p/subtasks/x/skip", {}, "PlanView"),
    (lambda c: c.cancel_subtask("p", "x"), "POST plans/p/subtasks/x/cancel", {}, "PlanView"),
    (lambda c: c.cancel_subtask("p", "x", reason="so"), "POST plans/p/subtasks/x/cancel",
     {"reason": "so"}, "PlanView"),
    (lambda c: c.steer_subtask("p", "x", "no"), "POST plans/p/subtasks/x/steer",
     {"content": "no"}, "PlanView"),
    (lambda c: c.decide("a", "approve"), "POST approvals/a/decision", {"decision": "approve"},
     "ApprovalView"),
    (lambda c: c.decide("a", "edit", digest="d", modified_arguments={"n": 1}, feedback="so",
                        for_session=True, for_plan=True),
     "POST approvals/a/decision",
     {"decision": "edit", "digest": "d", "modified_arguments": {"n": 1}, "feedback": "so",
      "for_session": True, "for_plan": True}, "ApprovalView"),
    (lambda c: c.decide_group("g", "reject"), "POST approvals/decisions",
     {"group": "g", "decision": "reject"}, "DecisionAnswers"),
    (lambda c: c.decide_group("g", "reject", feedback="so"), "POST approvals/decisions",
     {"group": "g", "decision": "reject", "feedback": "so"}, "DecisionAnswers"),
    (lambda c: c.decide_many([{"approval_id": "a", "decision": "approve"}]),
     "POST approvals/decisions", {"decisions": [{"approval_id": "a", "decision": "approve"}]},
     "DecisionAnswers"),
    (lambda c: c.make_link("a"), "POST approvals/a/links", {}, "LinkView"),
    (lambda c: c.make_link("a", "bob"), "POST approvals/a/links", {"name": "bob"}, "LinkView"),
    (lambda c: c.anchor_audit(), "POST audit/anchors", {}, "AuditAnchor"),
    (lambda c: c.prune_audit(THEN, [ChainHead(chain="s", seq=3, hash="h")]), "POST audit/prune",
     {"before": THEN.isoformat(), "heads": [{"chain": "s", "seq": 3, "hash": "h"}]}, "AuditHeads"),
    (lambda c: c.rollback("p"), "POST plans/p/rollback",
     {"dry_run": False, "include_shared": False}, "RollbackView"),
    (lambda c: c.rollback("p", checkpoint_id="k", subtask_id="x", whole=True, dry_run=True,
                          include_shared=True),
     "POST plans/p/rollback", {"checkpoint_id": "k", "subtask_id": "x", "whole": True,
                               "dry_run": True, "include_shared": True}, "RollbackView"),
    (lambda c: c.accept_tool("t"), "POST tools/accept", {"name": "t"}, "AcceptedTool"),
    (lambda c: c.vacuum(), "POST maintenance/vacuum", {"dry_run": False}, "Vacuumed"),
    (lambda c: c.vacuum(dry_run=True), "POST maintenance/vacuum", {"dry_run": True}, "Vacuumed"),
    (lambda c: c.create_token(name="ci", role="viewer"), "POST tokens",
     {"name": "ci", "role": "viewer"}, "MadeToken"),
]  # fmt: skip
DELETES: list[tuple[Ask, str]] = [
    (lambda c: c.delete_session("s"), "sessions/s"),
    (lambda c: c.remove_session_rule("s", "r.1"), "sessions/s/rules/r%2E1"),
    (lambda c: c.revoke_links("a"), "approvals/a/links"),
    (lambda c: c.revoke_grant("g"), "grants/g"),
    (lambda c: c.revoke_token("t"), "tokens/t"),
]


def asked(request: httpx.Request) -> str:
    """What a request asks, without the prefix that all have."""
    path = request.url.raw_path.decode()
    assert path.startswith("/api/v1/")
    return f"{request.method} {path.removeprefix('/api/v1/')}"


async def expected(ask: Awaitable[Any]) -> str:
    """What a method took the answer for."""
    with pytest.raises(Unintelligible) as refused:
        await ask
    assert str(refused.value) == (
        f"The answer is not a valid {refused.value.expected} of this version's protocol: another "
        "server is at this address, or it has another version of gonogo; stop it and start gonogo "
        "again"
    )
    return refused.value.expected


async def test_each_method_that_reads_asks_its_path_and_knows_its_answer(against):
    requests: list[httpx.Request] = []
    async with against(lambda r: requests.append(r) or httpx.Response(200, json={})) as c:
        found = [await expected(ask(c)) for ask, _, _ in READS]

    assert [asked(each) for each in requests] == [f"GET {path}" for _, path, _ in READS]
    assert found == [answer for _, _, answer in READS]
    assert {each.content for each in requests} == {b""}
    assert {each.headers["authorization"] for each in requests} == {"Bearer t"}
    assert not any("idempotency-key" in each.headers for each in requests)


async def test_each_method_that_changes_something_sends_its_words_and_knows_its_answer(against):
    requests: list[httpx.Request] = []
    async with against(lambda r: requests.append(r) or httpx.Response(200, json={})) as c:
        found = [await expected(ask(c)) for ask, _, _, _ in WRITES]

    assert [(asked(each), json.loads(each.content)) for each in requests] == [
        (path, body) for _, path, body, _ in WRITES
    ]
    assert found == [answer for _, _, _, answer in WRITES]
    posted = [each for each in requests if each.method == "POST"]
    assert len({each.headers["idempotency-key"] for each in posted}) == len(posted)
    for each in posted:
        time = None if each.url.path.endswith("/vacuum") else 30.0
        assert set(each.extensions["timeout"].values()) == {time}, "a vacuum is waited for"


async def test_each_method_that_ends_something_names_it(against):
    requests: list[httpx.Request] = []
    async with against(lambda r: requests.append(r) or httpx.Response(204)) as c:
        for ask, _ in DELETES:
            await ask(c)

    assert [asked(each) for each in requests] == [f"DELETE {path}" for _, path in DELETES]


async def test_a_session_is_opened_with_what_the_client_was_made_with(against):
    requests: list[httpx.Request] = []
    way = httpx.MockTransport(lambda r: requests.append(r) or httpx.Response(200, json={}))
    async with Client(transport=way, opening={"workspace": "/w", "locale": "ru"}) as c:
        await expected(c.open_session(locale="en"))

    assert json.loads(requests[0].content) == {"workspace": "/w", "locale": "en"}
    assert str(requests[0].url) == "http://gonogo/api/v1/sessions"
    assert "authorization" not in requests[0].headers


async def test_the_log_is_exported_as_it_comes_with_what_is_left_out_named(against):
    requests: list[httpx.Request] = []
    async with against(lambda r: requests.append(r) or httpx.Response(200, text="{}\n")) as c:
        pieces = [piece async for piece in c.export_audit()]
        more = {"session_id": "s", "since": THEN, "until": THEN, "removable": THEN}
        assert [piece async for piece in c.export_audit(**more)] == pieces == [b"{}\n"]

    every = f"GET audit/export?session_id=s&since={AT}&until={AT}&removable={AT}"
    assert [asked(each) for each in requests] == ["GET audit/export", every]


async def test_a_refused_export_says_why(against):
    body = {"code": "forbidden", "detail": "admins alone"}
    async with against(lambda _: httpx.Response(403, json=body)) as c:
        with pytest.raises(Exception, match=r"^admins alone$"):
            await anext(c.export_audit())


async def test_a_stream_is_asked_for_with_all_that_makes_asking_again_safe(against):
    requests: list[httpx.Request] = []
    done = 'event: done\ndata: {"type":"done"}\n\n'
    async with against(lambda r: requests.append(r) or httpx.Response(200, text=done)) as c:
        hello = {"type": "user_message", "content": "hi"}
        for session in ("s", None):
            assert [event async for event in c.send(session, hello)] == []
        assert [event async for event in c.follow("s.1", after=7)] == []
        assert [event async for event in c.follow("s")] == []

    assert [asked(each) for each in requests] == [
        "POST agent/message/stream", "POST agent/message/stream",
        "GET sessions/s%2E1/events?after=7", "GET sessions/s/events?after=0",
    ]  # fmt: skip
    said, opened, followed, _ = requests
    assert json.loads(said.content) == {"session_id": "s", "message": hello}
    assert json.loads(opened.content) == {"message": hello}
    assert (len(said.headers["idempotency-key"]), "last-event-id" in said.headers) == (32, False)
    assert "last-event-id" not in followed.headers, "nobody had this stream before"
    assert "idempotency-key" not in followed.headers
    patience = {"connect": 10.0, "read": 45.0, "write": 10.0, "pool": 10.0}
    assert [each.extensions["timeout"] for each in requests] == [patience] * 4


async def test_all_pages_of_approvals_are_one_list_oldest_first(against):
    def question(number: int) -> dict[str, Any]:
        return {
            "approval_id": f"a{number}", "request_id": "r", "kind": "tool", "request_type": "tool",
            "session_id": "s", "subject": "x", "details": {}, "reason": "", "digest": "d",
            "status": "pending", "created_at": THEN.isoformat(),
        }  # fmt: skip

    pages = [
        {"approvals": [question(3), question(4)], "count": 2, "before": "a3"},
        {"approvals": [question(1), question(2)], "count": 2},
    ]
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json=pages[len(requests) - 1])

    async with against(answer) as c:
        found = await c.approvals(kind="tool")

    assert [each.approval_id for each in found.approvals] == ["a1", "a2", "a3", "a4"]
    assert (found.count, found.before) == (4, None)
    assert [asked(each) for each in requests] == [
        "GET approvals?kind=tool", "GET approvals?kind=tool&before=a3",
    ]  # fmt: skip


async def test_no_proxy_of_the_environment_comes_between_a_client_and_its_server(monkeypatch):
    async with receiver() as server, receiver() as proxy:
        server.behaviour = answers(200, body=b'{"status":"ok"}')
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        async with Client(f"{server.url}/") as c:
            assert (await c.health()).status == "ok"

    assert [request.path for request in server.received] == ["/told/api/v1/health"]
    assert proxy.received == []
