"""What a person is told of plans, questions and checkpoints, beyond drawings."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gonogo import demo
from gonogo.cli.commands.plans import _budget, _used
from gonogo.cli.session.interrupts import pause_lines, standing
from gonogo.cli.session.run import _account, used_text
from gonogo.cli.session.run import _settings as demo_settings
from gonogo.cli.terminal.render import diff_lines, file_lines, question_lines, revision_lines
from gonogo.domain.plan import Subtask
from gonogo.domain.plan_views import (
    CheckpointDiff,
    FileDiff,
    ModelUse,
    PlanDiff,
    PlanStatusView,
    PlanView,
    UsageView,
)
from gonogo.domain.views import ApprovalView
from gonogo.i18n import say
from gonogo.settings import Settings

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def plan(**more: Any) -> PlanView:
    given = {
        "plan_id": "p", "session_id": "s", "goal": "g", "original_task": "t", "status": "paused",
        "revision": 1, "digest": "d", "is_approved": True, "subtasks": [], "critical_path": [],
        "created_at": NOW,
    }  # fmt: skip
    return PlanView(**{**given, **more})


def asked(**more: Any) -> ApprovalView:
    given = {
        "approval_id": "a", "request_id": "a", "kind": "intervention", "session_id": "s",
        "request_type": "intervention", "subject": "more?", "details": {}, "reason": "why",
        "digest": "d", "status": "pending", "created_at": NOW, "plan_id": "p",
    }  # fmt: skip
    return ApprovalView(**{**given, **more})


@pytest.mark.feature(214)
def test_a_plan_that_waits_for_a_quota_says_until_when_and_how_to_go_on_now():
    shown = plan(pause_reason="quota", paused_until=NOW)

    assert standing(shown) == "paused (quota)"
    assert pause_lines(shown, [], "en") == [
        "Paused until 2026-03-01 12:30:00 UTC: the model's quota is exhausted. The plan resumes "
        "automatically; to resume it now: gonogo plans resume p"
    ]


@pytest.mark.feature(213)
def test_a_plan_whose_budget_is_spent_names_its_question_and_no_other():
    pending = [asked(), asked(approval_id="b", plan_id="q"), asked(approval_id="c", subtask_id="x")]
    said, *answers = pause_lines(plan(pause_reason="budget"), pending, "en")

    assert "budget is spent" in said
    assert answers == ["Waiting for a decision: a. Decide: gonogo approvals decide a approve"]


def test_a_plan_that_a_person_paused_says_how_to_go_on_and_one_that_is_not_paused_nothing():
    assert standing(plan()) == "paused"
    assert standing(plan(status="awaiting_approval", revising=True)) == (
        "awaiting_approval (being revised)"
    )
    assert pause_lines(plan(), [], "en") == [
        "A person paused the plan. Resume it: gonogo plans resume p"
    ]
    assert pause_lines(plan(status="running"), [asked()], "en") == []


def test_what_a_plan_took_of_its_budget_is_said_limit_by_limit():
    usage = UsageView(
        requests=3, input_tokens=800, output_tokens=400, tokens=1_200, cost=0.25,
        unpriced_requests=2, seconds=9.0, subtasks=1,
    )  # fmt: skip
    status = PlanStatusView(
        plan_id="p", status="running", revision=1, current_step=1, total_steps=2, progress=50,
        usage=usage, limits={"tokens": 5_000, "cost": 1.5, "session_cost": 9}, subtasks=[],
    )  # fmt: skip

    assert _budget(status) == [
        "budget: 1200 of 5000, tokens",
        "budget: 0.25 of 1.5, cost",
        "The price of 2 requests is not known.",
    ]
    assert _budget(status.model_copy(update={"limits": None})) == []


def test_what_models_were_asked_for_a_plan_is_said_by_classes_of_tokens():
    usage = UsageView(
        requests=3, input_tokens=800, cached_tokens=600, cache_write_tokens=100, output_tokens=400,
        reasoning_tokens=50, tokens=1_200, cost=0.25, unpriced_requests=0, seconds=9.0, subtasks=1,
    )  # fmt: skip
    status = PlanStatusView(
        plan_id="p", status="running", revision=1, current_step=1, total_steps=2, progress=50,
        usage=usage, subtasks=[],
    )  # fmt: skip

    assert _used(status) == [
        "models: 3 requests, tokens in: 800 (from the cache 600, into the cache 100), "
        "out: 400 (thinking 50), $0.2500"
    ]
    free = {"cached_tokens": 0, "cache_write_tokens": 0, "reasoning_tokens": 0, "cost": 0.0}
    plain = status.model_copy(update={"usage": usage.model_copy(update=free)})
    assert _used(plain) == ["models: 3 requests, tokens in: 800, out: 400"]
    nothing = usage.model_copy(update={"requests": 0})
    assert _used(status.model_copy(update={"usage": nothing})) == []


def test_a_run_ends_with_what_its_models_took():
    dear = ModelUse(
        model="a", requests=2, failed=1, input_tokens=800, cached_tokens=600, output_tokens=40,
        reasoning_tokens=5, cost_dollars=0.25,
    )  # fmt: skip
    plain = ModelUse(
        model="b", requests=1, failed=0, input_tokens=100, output_tokens=10, cost_dollars=0.0
    )
    assert used_text([dear, plain], "en") == (
        "Requests to models: 3. Tokens in: 900, out: 50. From the cache: 600, thinking: 5. "
        "Cost: $0.2500."
    )
    assert used_text([plain], "en") == "Requests to models: 1. Tokens in: 100, out: 10."


@pytest.mark.feature(217)
@pytest.mark.parametrize("reason", [None, "quota", "budget", "rollback"])
def test_every_pause_is_explained_in_russian_too(reason):
    said = pause_lines(plan(pause_reason=reason, paused_until=NOW), [], "ru")
    assert "приостановлен" in said[0].lower()


def test_the_files_of_a_checkpoint_are_compared_line_by_line():
    diff = CheckpointDiff(
        checkpoint_id="c1",
        files=[FileDiff(path="a\u202e.txt", status="modified", diff="@@ -1 +1 @@\n-a\n+b\\x1b\n")],
        truncated=True,
    )
    assert list(file_lines(diff)) == [
        "c1 → the workspace now",
        "modified a\\u202e.txt",
        "    @@ -1 +1 @@",
        "    -a",
        "    +b\\x1b",
        "Not all differences are shown.",
    ]
    none = CheckpointDiff(checkpoint_id="c1", to="c2", files=[])
    assert list(file_lines(none)) == ["c1 → c2", "No files differ."]


@pytest.mark.feature(206)
def test_a_later_revision_is_shown_with_its_cause_its_changes_and_its_findings():
    added = Subtask(id="c", description="Do\x1b more", agent="debug", dependencies=("a",))
    details = {
        "subtasks": [added.model_dump(mode="json", exclude_none=True)],
        "replan": {"cause": "logic", "subtask_id": "b", "reason": "b failed", "root_cause": "no x"},
        "changes": {
            "added": [added.model_dump(mode="json", exclude_none=True)],
            "removed": ["b"],
            "changed": [{"id": "a", "fields": {"timeout": {"from": None, "to": 60.0}}}],
        },
        "findings": [{"severity": "warning", "key": "k", "message": "c\u200b has no scope"}],
    }
    lines = list(question_lines(asked(kind="plan", subject="goal", revision=2, details=details)))

    assert lines[lines.index("the reason for the new plan: logic") :] == [
        "the reason for the new plan: logic",
        "after the subtask: b",
        "because: b failed",
        "root cause: no x",
        "Changes since the previous revision:",
        "- b",
        "+ c: Do\\x1b more (debug)",
        "    after a",
        "    allowed: files anywhere in the workspace; all tools of its agent",
        "~ a",
        "    timeout: none → 60.0",
        "! warning: c\\u200b has no scope",
        "reason: why",
    ]
    assert list(revision_lines({"subtasks": []})) == []


def test_a_plan_names_the_instruction_files_that_its_planner_was_told_of():
    files = [{"path": "AGENTS.md", "cut": False}, {"path": "docs/\u202eCLAUDE.md", "cut": True}]

    assert list(revision_lines({"instructions": files})) == [
        "The planner read these instructions: AGENTS.md, docs/\\u202eCLAUDE.md (cut)"
    ]


@pytest.mark.parametrize(
    ("inputs", "kind", "worker"),
    [
        ({"command": "pytest -q"}, "validation", "tool:execute_command"),
        ({"file": "a.txt"}, "validation", "tool:read_file"),
        ({"question": "?"}, "validation", "model"),
        (None, "decision", "model"),
        (None, "wait", "kind:wait"),
    ],
)
def test_who_carries_out_what_no_agent_does_is_said(inputs, kind, worker):
    subtask = Subtask(id="v", description="Look", type=kind, inputs=inputs)
    diff = PlanDiff(
        plan_id="p", from_revision=1, to_revision=2, added=[subtask], removed=[], changed=[]
    )
    assert f"+ v: Look ({worker})" in list(diff_lines(diff))
    shown = list(question_lines(asked(kind="plan", details={"subtasks": [subtask.model_dump()]})))
    assert any(worker in line for line in shown)


def test_a_run_ends_with_what_its_models_took_in_the_language_of_the_task():
    cached = ModelUse(
        model="a", requests=2, failed=0, input_tokens=8, cached_tokens=6, output_tokens=4,
        cost_dollars=0.00005,
    )  # fmt: skip
    thought = cached.model_copy(
        update={"cached_tokens": 0, "reasoning_tokens": 3, "cost_dollars": 0.0}
    )
    first = "Запросов к моделям: 2. Токенов на входе: 8, на выходе: 4."
    assert used_text([cached], "ru") == (
        f"{first} Из кэша: 6, на размышления: 0. Стоимость: 0.0001 $."
    )
    assert used_text([thought], "ru") == f"{first} Из кэша: 0, на размышления: 3."
    nothing = used_text([], "ru")
    assert nothing == "Запросов к моделям: 0. Токенов на входе: 0, на выходе: 0."


def test_the_demo_ends_with_what_to_look_at_and_how(monkeypatch, tmp_path):
    monkeypatch.setattr("gonogo.cli.session.run.program", lambda: "gng")
    settings = Settings(home=tmp_path / "home")
    after = demo.TestRun(passed=True, summary="OK")

    assert _account(settings, tmp_path / "tally", after, "ru") == [
        "",
        "Тесты после: OK",
        f"Проект с изменениями лежит в {tmp_path}/tally. Журнал и данные этого запуска: "
        f"{tmp_path}/home. Посмотрите:",
        f"  git -C {tmp_path}/tally diff",
        f"  GONOGO_HOME={tmp_path}/home gng plans list",
        f"  GONOGO_HOME={tmp_path}/home gng audit show",
        f"  GONOGO_HOME={tmp_path}/home gng audit verify",
    ]


@pytest.mark.parametrize("home", ["", "/elsewhere"])
def test_the_demo_works_in_a_folder_of_its_own_unless_one_is_set(monkeypatch, tmp_path, home):
    monkeypatch.setenv("GONOGO_HOME", home)
    found = demo_settings(tmp_path, tmp_path / "tally")

    assert found.home == (Path(home) if home else tmp_path / "state")
    assert (found.workspace, found.roots, found.model, found.background) == (
        tmp_path / "tally", (), "demo", False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "until", "pending", "said"),
    [
        ("model", None, [], ["cli_paused_model_asked"]),
        ("model", NOW, [], ["cli_paused_model"]),
        ("disk", NOW, [], ["cli_paused_disk"]),
        ("quota", None, [], ["cli_paused_quota"]),
        ("lunch", None, [], ["cli_paused"]),
        ("budget", None, [asked()], ["cli_paused_budget", "cli_waiting"]),
    ],
)
def test_a_pause_is_told_by_its_reason_and_with_its_question(reason, until, pending, said):
    shown = plan(pause_reason=reason, paused_until=until)
    given = {
        "plan_id": "p",
        "approval_id": "a",
        "until": "2026-03-01 12:30:00 UTC" if until else "",
    }
    assert pause_lines(shown, pending, "ru") == [say(key, "ru", **given) for key in said]
    assert standing(plan(pause_reason="a\nb")) == "paused (a ⏎ b)"
