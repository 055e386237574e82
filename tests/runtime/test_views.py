"""Rows as clients are shown them: each fact in its place, and nothing that was not said."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.rows import NOW, approval, grant, plan, revision, session, subtask
from gonogo.domain.plan import RetryPolicy, Scope
from gonogo.domain.records import Comment, SubtaskRow, Vote
from gonogo.domain.replanning import Used
from gonogo.domain.states import ApprovalKind, ApprovalStatus, PlanStatus, SubtaskStatus
from gonogo.runtime.plans import Drawn, _revision_view, graph_view
from gonogo.runtime.views import (
    approval_view,
    comment_view,
    grant_view,
    plan_view,
    session_view,
    status_view,
    subtask_view,
    usage_view,
)
from gonogo.store.calls import SubtaskQuestion

LATER = NOW + timedelta(minutes=1)
LAST = NOW + timedelta(minutes=3)


def shown(view: Any) -> dict[str, Any]:
    return view.model_dump(exclude_none=True)


def row(subtask_id: str = "a", **more: Any) -> SubtaskRow:
    given = {
        "key": f"p1/1/{subtask_id}", "plan_id": "p1", "revision": 1, "subtask_id": subtask_id,
        "position": 1, "status": SubtaskStatus.PENDING, "attempt": 0, "epoch": 0,
        "not_before": None, "started_at": None, "active_since": None, "finished_at": None,
        "result": None, "error": None, "reason": None,
    }  # fmt: skip
    return SubtaskRow(**{**given, **more})


def test_a_session_is_shown_with_all_that_it_was_opened_with() -> None:
    more = {"title": "T", "locale": "ru", "active_plan_id": "p1", "last_seq": 7, "model": "m"}
    given = session(**more, tool_host="client", unattended=True, updated_at=LATER)

    assert shown(session_view(given)) == {
        "session_id": "s1", "workspace": "/code", "tool_host": "client", "agent": "orchestrator",
        "unattended": True, "created_at": NOW, "updated_at": LATER, **more,
    }  # fmt: skip
    assert session_view(session()).tool_host == "server"


def test_a_question_is_shown_with_its_subject_and_its_answer() -> None:
    answer = {"decided_name": "Ann", "approved_by": ["Ann", "Bob"], "feedback": "so"}
    given = approval(
        call_id="call_1", plan_id="p1", revision=2, subtask_id="a", group_key="g",
        details={"tool": "edit", "arguments": {"path": "x"}}, requested_by="user:ann",
        expires_at=LAST, escalated_at=LATER, decided_at=LATER, decision=answer,
        status=ApprovalStatus.APPROVED,
    )  # fmt: skip

    assert shown(approval_view(given, open_comments=3)) == {
        "approval_id": "appr_1", "request_id": "call_1", "kind": "tool", "request_type": "tool",
        "session_id": "s1", "subject": "write_file", "details": given.details, "reason": "asks",
        "digest": "sha256:c", "status": "approved", "created_at": NOW, "expires_at": LAST,
        "plan_id": "p1", "revision": 2, "subtask_id": "a", "call_id": "call_1",
        "tool_name": "edit", "arguments": {"path": "x"}, "requested_by": "ann",
        "escalated_at": LATER, "group": "g", "decided_by": "Ann", "decided_at": LATER,
        "approved_by": ["Ann", "Bob"], "feedback": "so", "open_comments": 3,
    }  # fmt: skip


def test_a_question_is_known_by_what_older_clients_know_it_by() -> None:
    of_plan = approval_view(approval(kind=ApprovalKind.PLAN, plan_id="p1"))
    of_call = approval_view(approval(call_id="call_1"))
    other = approval_view(approval(kind="deploy"))

    assert of_plan.request_id == "plan-approval-p1"
    assert (of_call.request_id, of_call.tool_name) == ("call_1", "write_file")
    assert (other.request_id, other.tool_name, other.votes) == ("appr_1", None, None)


VOTE = Vote(
    approval_id="appr_1", principal_id="user:bob", name="Bob", ruling={"decision": "approve"},
    created_at=LATER,
)  # fmt: skip


def test_a_question_under_review_says_who_decides_who_has_and_who_will() -> None:
    review = {
        "needed": 2, "role": "admin", "reviewers": ["user:ann", "user:bob"], "also": ["user:bob",
        "user:eve"], "not_requester": True, "escalate_after": 60, "escalate_to": ["user:eve"],
        "escalate_role": "admin", "asked_too": ["user:kim"], "rules": ["admin:review:1"],
    }  # fmt: skip
    view = approval_view(approval(review=review), [VOTE], owner="user:ann")

    assert [shown(vote) for vote in view.votes or ()] == [
        {"name": "Bob", "decision": "approve", "created_at": LATER}
    ]
    assert shown(view.review) == {
        "needed": 2, "role": "admin", "reviewers": ["ann", "bob", "eve"], "not_requester": True,
        "asked_too": ["kim"], "escalates_at": LATER, "escalates_to": ["eve", "role:admin"],
        "rules": ["admin:review:1"],
    }  # fmt: skip


def test_a_review_that_names_nobody_says_who_sees_the_question() -> None:
    def review(**more: Any) -> dict[str, Any]:
        found = approval_view(approval(review=more), owner="user:ann").review
        return shown(found)

    quiet = {"needed": 1, "role": "operator", "not_requester": False, "rules": []}
    assert review() == {**quiet, "seen_by": ["ann", "role:admin"]}
    also = {"also": ["user:ann", "user:bob"]}
    assert review(**also)["seen_by"] == ["ann", "bob", "role:admin"]
    assert review(**also, also_role="operator")["seen_by"] == ["ann", "bob", "role:operator"]
    assert review(also_role="admin")["seen_by"] == ["ann", "role:admin"]
    unowned = approval_view(approval(review={"also": ["user:bob"]})).review
    assert shown(unowned)["seen_by"] == ["bob", "role:admin"]


def test_a_review_that_has_escalated_escalates_no_more_and_one_without_people_has_a_problem() -> (
    None
):
    given = approval(review={"escalate_after": 60, "reviewers": []}, escalated_at=LATER)
    review = shown(approval_view(given).review)

    assert "escalates_at" not in review
    assert "escalates_to" not in review
    assert review["problem"] == "the rules of review name no reviewer in common"
    barred = {"reviewers": ["user:ann"], "not_requester": True}
    view = approval_view(approval(review=barred, requested_by="user:ann"))
    assert shown(view.review)["problem"] == "1 approvals are needed, and 0 may approve"


WHOLE = subtask(
    "a", "b", tool="edit", agent=None, type="validation", estimated_time="2 h",
    scope=Scope(paths=("x",)), approval_required=True, inputs={"n": 1}, condition="b.ok",
    after_skipped="run", on_reject="fail", retry_policy=RetryPolicy(max_attempts=2), timeout=9.0,
    must_change=False,
)  # fmt: skip


def test_a_subtask_is_shown_as_planned_and_where_it_stands() -> None:
    stands = row(
        status=SubtaskStatus.FAILED, attempt=2, result={"r": 1}, error={"e": 1}, reason="why",
        started_at=NOW, finished_at=LATER,
    )  # fmt: skip
    found = shown(subtask_view(WHOLE, stands))
    policy = found.pop("retry_policy")

    assert policy["max_attempts"] == 2
    assert None not in policy.values()
    assert found == {
        "id": "a", "description": "Do a", "tool": "edit", "type": "validation",
        "dependencies": ["b"], "estimated_time": "2 h", "status": "failed", "attempt": 2,
        "scope": {"paths": ["x"], "commands": [], "network": False},
        "approval_required": True, "inputs": {"n": 1},
        "condition": "b.ok", "after_skipped": "run", "on_reject": "fail", "timeout": 9.0,
        "must_change": False, "result": {"r": 1}, "error": {"e": 1}, "reason": "why",
        "started_at": NOW, "finished_at": LATER, "duration_seconds": 60.0,
    }  # fmt: skip
    assert subtask_view(WHOLE, stands, {"a", "c"}).rolled_back is True
    assert subtask_view(WHOLE, stands, {"b"}).rolled_back is None
    assert subtask_view(WHOLE, row(started_at=NOW)).duration_seconds is None
    assert subtask_view(WHOLE, row(finished_at=NOW)).duration_seconds is None


def test_a_plan_is_shown_with_its_life() -> None:
    life = {
        "approved_revision": 1, "auto_approve_tools": False, "pause_reason": "quota",
        "paused_until": LAST, "approved_at": NOW, "started_at": LATER, "finished_at": LAST,
        "feedback": "so",
    }  # fmt: skip
    file = {"path": "AGENTS.md", "source": "repository", "bytes": 3, "how": "whole", "cut": False}
    given = plan(**life, instructions=[file], revising={"id": "r"})
    tasks = revision(subtask("a"), subtask("b", "a"))
    view = shown(plan_view(given, tasks, [row("b", attempt=2), row("a", attempt=1)]))

    assert [(each["id"], each["attempt"]) for each in view.pop("subtasks")] == [("a", 1), ("b", 2)]
    assert view == {
        "plan_id": "p1", "session_id": "s1", "goal": "A goal", "original_task": "Do it",
        "status": "awaiting_approval", "revision": 1, "digest": "sha256:1", "is_approved": True,
        "requires_approval": True, "critical_path": ["a", "b"], "created_at": NOW,
        "revising": True, "instructions": [file], **life,
    }  # fmt: skip
    none, rows = revision(), []
    assert plan_view(plan(), none, rows).is_approved is False
    assert plan_view(plan(), none, rows).revising is None
    assert plan_view(plan(), none, rows).instructions is None
    running = plan(revising={"id": "r"}, status=PlanStatus.RUNNING)
    assert plan_view(running, none, rows).revising is None


def test_a_comment_is_shown_with_its_answer() -> None:
    said = Comment(
        id="c1", session_id="s1", plan_id="p1", revision=2, subtask_id="a", author_id="user:ann",
        author="Ann", content="why", created_at=NOW, answer="so", answered_revision=3,
        answered_at=LATER,
    )  # fmt: skip

    assert shown(comment_view(said)) == {
        "comment_id": "c1", "plan_id": "p1", "revision": 2, "subtask_id": "a", "author": "Ann",
        "content": "why", "created_at": NOW, "answer": "so", "answered_revision": 3,
        "answered_at": LATER,
    }  # fmt: skip


def test_a_grant_is_shown_with_its_end() -> None:
    given = grant(scope={"paths": ["x"]}, status="ended", ended_at=LATER, ended_because="over")

    assert shown(grant_view(given)) == {
        "grant_id": "grant_1", "session_id": "s1", "plan_id": "p1", "revision": 1,
        "subtask_id": "a", "scope": {"paths": ["x"]}, "status": "ended", "created_at": NOW,
        "ended_at": LATER, "ended_because": "over",
    }  # fmt: skip


USED = Used(
    requests=2, input_tokens=100, cached_tokens=60, cache_write_tokens=30, output_tokens=20,
    reasoning_tokens=5, cost_micros=1_500_000, unpriced=1,
)  # fmt: skip
TOOK = {
    "requests": 2, "input_tokens": 100, "cached_tokens": 60, "cache_write_tokens": 30,
    "output_tokens": 20, "reasoning_tokens": 5, "tokens": 120, "cost": 1.5, "unpriced_requests": 1,
}  # fmt: skip


def test_what_a_plan_took_counts_from_its_start_to_its_end_or_to_now() -> None:
    soon = NOW + timedelta(seconds=1, microseconds=234_567)

    assert shown(usage_view(plan(), 4, USED, LATER)) == {**TOOK, "seconds": 0.0, "subtasks": 4}
    assert usage_view(plan(started_at=NOW), 4, USED, soon).seconds == 1.235
    assert usage_view(plan(started_at=NOW, finished_at=LATER), 4, USED, LAST).seconds == 60


def test_how_far_a_plan_is_counts_what_is_over_and_one_that_runs() -> None:
    tasks = revision(*(subtask(name) for name in "abc"))
    rows = [
        row("a", status=SubtaskStatus.COMPLETED), row("b", status=SubtaskStatus.RUNNING), row("c"),
    ]  # fmt: skip
    usage = usage_view(plan(), 1, USED, NOW)
    given = plan(
        status=PlanStatus.PAUSED, pause_reason="quota", paused_until=LAST, started_at=NOW,
        finished_at=LATER, again=[{"subtask_id": "a", "by": "user:ann"}],
    )  # fmt: skip
    view = status_view(
        given, tasks, rows, usage=usage, each={"a": USED, None: USED}, limits={"tokens": 9},
        refused=2,
    )  # fmt: skip
    found = shown(view)

    assert [(s["id"], s.get("usage")) for s in found.pop("subtasks")] == [
        ("a", TOOK), ("b", None), ("c", None),
    ]  # fmt: skip
    assert found == {
        "plan_id": "p1", "status": "paused", "revision": 1, "current_step": 2, "total_steps": 3,
        "progress": 33.3, "pause_reason": "quota", "paused_until": LAST, "usage": shown(usage),
        "limits": {"tokens": 9}, "again": ["a"], "refused": 2, "started_at": NOW,
        "finished_at": LATER,
    }  # fmt: skip
    over = [row(name, status=SubtaskStatus.SKIPPED) for name in "abc"]
    plain = status_view(plan(), tasks, over, usage=usage, each={"a": USED})
    assert (plain.current_step, plain.progress) == (3, 100)
    assert (plain.again, plain.refused, plain.limits) == (None, None, None)
    over[0] = row("a", status=SubtaskStatus.FAILED)
    for ended, progress in ((None, 66.7), (LATER, 100)):
        stands = plan(finished_at=ended)
        assert status_view(stands, tasks, over, usage=usage, each={}).progress == progress


def test_a_revision_is_shown_with_who_made_it_and_why() -> None:
    made, task = SimpleNamespace(created_at=NOW, created_by="ann", reason="edited"), subtask("a")
    found = _revision_view(revision(task, number=2), made)

    assert found.subtasks == [task]
    assert found.model_dump(exclude={"subtasks"}) == {
        "plan_id": "p1", "revision": 2, "digest": revision(task, number=2).digest,
        "goal": "A goal", "created_at": NOW, "created_by": "ann", "reason": "edited",
    }  # fmt: skip


def question(**more: Any) -> SubtaskQuestion:
    given = {"subtask_id": "a", "revision": 1, "created_at": NOW, "decided_at": LATER}
    return SubtaskQuestion(**{**given, **more})


def drawn(*rows: SubtaskRow, asked: list[SubtaskQuestion], **more: Any):
    tasks = revision(subtask("a"), subtask("b", "a"))
    return graph_view(Drawn(plan(**more), tasks, list(rows), asked, 7), LAST)


def test_a_plan_is_drawn_with_its_edges_its_times_and_where_the_log_stood() -> None:
    rows = (
        row("a", started_at=NOW, finished_at=LATER, attempt=1, epoch=1),
        row("b", started_at=LATER, attempt=1, epoch=1),
    )
    found = shown(drawn(*rows, asked=[], started_at=NOW, finished_at=LATER))
    nodes = found.pop("nodes")

    assert [(node["id"], node["waits"], node.get("waited_seconds")) for node in nodes] == [
        ("a", [], None), ("b", [], None),
    ]  # fmt: skip
    assert found == {
        "plan_id": "p1", "session_id": "s1", "revision": 1, "status": "awaiting_approval",
        "as_of": LAST, "last_seq": 7, "started_at": NOW, "finished_at": LATER,
        "edges": [{"from": "a", "to": "b"}], "critical_path": ["a", "b"],
        "actual_path": ["a", "b"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("stands", "asked", "waited"),
    [
        ({}, {}, 60),
        ({}, {"decided_at": None}, 180),
        ({"finished_at": NOW + timedelta(seconds=30)}, {}, 30),
        ({"finished_at": NOW}, {"created_at": NOW}, 0),
        ({"finished_at": NOW}, {"created_at": LATER, "decided_at": LAST}, None),
        ({}, {"subtask_id": "b"}, None),
        ({}, {"revision": 2}, None),
        ({"epoch": 0}, {"revision": 2}, 60),
        ({"epoch": 0, "attempt": 0}, {"revision": 2}, None),
        ({"epoch": 0}, {"revision": 2, "subtask_id": "b"}, None),
    ],
)  # fmt: skip
def test_a_subtask_waited_for_its_own_questions_while_it_was_there(
    stands: dict[str, Any], asked: dict[str, Any], waited: float | None
) -> None:
    a = row("a", **{"started_at": NOW, "attempt": 1, "epoch": 1, **stands})
    first = drawn(a, row("b"), asked=[question(**asked)]).nodes[0]

    assert first.waited_seconds == waited
    assert sum((each.until - each.since).total_seconds() for each in first.waits) == (waited or 0)
