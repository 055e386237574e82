"""Bodies of several things are objects, never bare lists, and have no nulls."""

from typing import get_args

import pytest

from fakes.rows import revision, subtask
from gonogo.domain import plan_views, views
from gonogo.domain import views as pages
from gonogo.domain.base import View
from gonogo.domain.plan_views import SubtaskView, as_planned, percentiles, plan_diff, rate

WRAPS = {
    pages.Revisions: "revisions", pages.DecisionAnswers: "answers", pages.Agents: "agents",
    pages.Tools: "tools", pages.Models: "models", pages.Grants: "grants", pages.Audit: "entries",
    pages.Tokens: "tokens",
}  # fmt: skip

OF_REPORTS = (
    "Audit", "PlanOutcomes", "SubtaskOutcomes", "ModelUse", "ApprovalOutcomes",
    "CallOutcomes",
)  # fmt: skip
"""How the names of bodies begin that are of reports."""


@pytest.mark.parametrize("page", WRAPS, ids=lambda page: page.__name__)
def test_a_page_is_an_object_that_can_grow(page):
    assert issubclass(page, View)
    made = page.model_validate({WRAPS[page]: [], "from_the_future": 1})
    assert made.model_dump(exclude_none=True) == {WRAPS[page]: []}


@pytest.mark.parametrize("module", [views, plan_views])
def test_what_may_be_absent_on_the_wire_is_nothing_unless_it_is_said(module):
    for view in vars(module).values():
        if not (isinstance(view, type) and issubclass(view, View)):
            continue
        for name, field in view.model_fields.items():
            if type(None) in get_args(field.annotation) and not field.is_required():
                assert field.get_default() is None, f"{view.__name__}.{name}"


def said_by_default(module, *, of_reports=False):
    """What each body says where nobody says it, but for what is absent then."""
    return {
        f"{view.__name__}.{name}": field.get_default()
        for view in vars(module).values()
        if isinstance(view, type)
        and issubclass(view, View)
        and view.__name__.startswith(OF_REPORTS) == of_reports
        for name, field in view.model_fields.items()
        if not field.is_required() and field.get_default() is not None
    }


def test_what_a_body_of_a_plan_says_by_default_and_what_it_leaves_out():
    made = SubtaskView(
        id="a", description="d", type="action", dependencies=[], estimated_time="5 min",
        status="pending", attempt=0,
    )  # fmt: skip
    planned = {"id": "a", "description": "d", "type": "action", "dependencies": [],
               "estimated_time": "5 min", "approval_required": False}  # fmt: skip
    shown = made.model_dump(mode="json", exclude_none=True)
    assert shown == planned | {"status": "pending", "attempt": 0}
    # Where it stands is no plan.
    ended = {"result": 1, "error": {}, "reason": "x", "started_at": "x", "finished_at": "x",
             "duration_seconds": 1, "usage": {}}  # fmt: skip
    assert as_planned([shown | ended, 7]) == [planned, 7]
    assert as_planned("x") == "x"
    assert said_by_default(plan_views) == {
        "ModelUsageView.cached_tokens": 0, "ModelUsageView.cache_write_tokens": 0,
        "ModelUsageView.reasoning_tokens": 0, "SubtaskView.approval_required": False,
        "PlanView.requires_approval": True, "PlanView.auto_approve_tools": True,
        "UsageView.cached_tokens": 0, "UsageView.cache_write_tokens": 0,
        "UsageView.reasoning_tokens": 0, "PlanCheck.findings": [], "PlanCheck.critical_path": [],
        "GraphNode.approval_required": False, "GraphNode.waits": [],
        "CheckpointDiff.truncated": False, "ChangedFile.diff": "", "RollbackView.again": [],
    }  # fmt: skip


def test_what_a_report_says_by_default_and_what_it_leaves_out():
    assert (rate(1, 3), rate(1, 1), rate(0, 5)) == (0.3333, 1.0, 0.0)
    assert percentiles([3.00049, 1.23456, 2]).model_dump() == {
        "count": 3, "p50": 2, "p90": 3.0, "p99": 3.0,
    }  # fmt: skip
    said = said_by_default(plan_views, of_reports=True)
    assert {name for name, value in said.items() if value == 0} == {
        *(f"PlanOutcomes.{name}" for name in
          "ended completed partial failed cancelled replans rollbacks".split()),
        *(f"SubtaskOutcomes.{name}" for name in
          "ended completed failed skipped cancelled retries".split()),
        *(f"ModelUse.{name}_tokens" for name in "cached cache_write reasoning".split()),
        "ApprovalOutcomes.pending", "CallOutcomes.asked",
    }  # fmt: skip
    assert {name: value for name, value in said.items() if value != 0} == {
        "AuditReport.removed": [], "AuditReport.older": [], "AuditReport.parts": {},
        "ApprovalOutcomes.answers": {},
        "CallOutcomes.started": {}, "CallOutcomes.ended": {},
    }  # fmt: skip


def test_what_other_bodies_say_by_default_and_what_they_leave_out():
    assert said_by_default(views) == {
        "SessionView.tool_host": "server", "SessionView.unattended": False,
        "CallView.granted": False, "ServerView.refused": {}, "ServerView.changed": {},
        "ServerView.agents": [], "ServerView.sightings": {}, "ServerView.parts": {},
        "ReviewView.not_requester": False,
        "ApprovalFilter.mine": False, "ModelUsageView.cached_tokens": 0,
        "ModelUsageView.cache_write_tokens": 0, "ModelUsageView.reasoning_tokens": 0,
        "NodeView.labels": {}, "NodeView.policy": "",
    }  # fmt: skip


def test_a_difference_of_two_revisions_is_told_field_by_field():
    before = revision(subtask("a"), subtask("b", "a"), subtask("d"))
    after = revision(subtask("a", description="Do more", timeout=5), subtask("c"), subtask("d"),
                     number=3)  # fmt: skip
    told = plan_diff(before, after).model_dump()
    assert [s["id"] for s in told.pop("added")] == ["c"]
    assert [s["id"] for s in told.pop("removed")] == ["b"]
    assert told == {
        "plan_id": "p1", "from_revision": 1, "to_revision": 3,
        "changed": [{"id": "a", "fields": {
            "description": {"from": "Do a", "to": "Do more"}, "timeout": {"from": None, "to": 5.0},
        }}],
    }  # fmt: skip
