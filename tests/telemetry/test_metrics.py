"""Metrics: the documented names, counted from events, with nothing personal in a label."""

from typing import Any

import pytest

from gonogo.domain.tool_calls import Usage
from gonogo.telemetry import Metrics


def sample(metrics: Metrics, line: str) -> float | None:
    """The value of one line of the exposition, or None."""
    for row in metrics.render().decode().splitlines():
        name, _, value = row.rpartition(" ")
        if name == line:
            return float(value)
    return None


def event(event_type: str, /, **metadata: Any) -> dict[str, Any]:
    return {"type": event_type, "metadata": metadata}


def test_a_plan_that_ends_is_counted_with_its_run_time() -> None:
    metrics = Metrics()

    metrics.observe(event("plan_completed", status="partial", duration_seconds=2.5))

    assert sample(metrics, 'plan_executions_total{status="partial"}') == 1
    assert sample(metrics, 'plan_execution_duration_seconds_sum{status="partial"}') == 2.5


def test_subtasks_are_counted_by_type_and_status() -> None:
    metrics = Metrics()

    metrics.observe(event("subtask_completed", subtask_type="validation", duration_seconds=1.5))
    metrics.observe(event("subtask_skipped"))
    metrics.observe(event("subtask_retrying", subtask_type="validation", duration_seconds=1.5))

    assert sample(metrics, 'plan_steps_total{status="completed",step_type="validation"}') == 1
    assert sample(metrics, 'plan_steps_total{status="skipped",step_type="action"}') == 1
    assert sample(metrics, 'plan_step_duration_seconds_sum{step_type="validation"}') == 1.5
    assert sample(metrics, 'plan_step_duration_seconds_count{step_type="validation"}') == 1
    assert sample(metrics, 'plan_step_duration_seconds_count{step_type="action"}') is None


def test_open_questions_their_outcome_and_the_wait_are_counted() -> None:
    metrics = Metrics()
    metrics.set_pending("tool", 2)
    asked = event("approval_requested", approval_id="a", kind="tool")
    answered = event("approval_resolved", kind="tool", status="rejected", waited_seconds=7)

    metrics.observe(asked)
    assert sample(metrics, 'approvals_pending{kind="tool"}') == 3
    metrics.observe(answered)

    assert sample(metrics, 'approvals_pending{kind="tool"}') == 2
    assert sample(metrics, 'approvals_total{kind="tool",status="rejected"}') == 1
    assert sample(metrics, 'approval_decision_seconds_sum{kind="tool"}') == 7


def test_a_question_that_nobody_answered_has_no_wait() -> None:
    metrics = Metrics()

    metrics.observe(event("approval_resolved", kind="plan", status="expired"))

    assert sample(metrics, 'approvals_total{kind="plan",status="expired"}') == 1
    assert sample(metrics, 'approval_decision_seconds_count{kind="plan"}') is None


@pytest.mark.parametrize("kind", ["tool_approved", "tool_rejected"])
def test_decisions_about_calls_are_counted_by_who_made_them(kind: str) -> None:
    metrics = Metrics()

    metrics.observe(event(kind, decision="edit", source="person"))

    assert sample(metrics, 'tool_decisions_total{decision="edit",source="person"}') == 1


def test_calls_that_a_rule_or_a_grant_decided_are_counted_and_those_that_ask_are_not() -> None:
    metrics = Metrics()

    metrics.observe(event("tool_call", tool_class="pure", decision="allow", source="rule"))
    metrics.observe(event("tool_call", tool_class="other", decision="allow", source="grant"))
    metrics.observe(event("tool_call", tool_class="other", decision="deny", source="rule"))
    metrics.observe(event("tool_call", tool_class="other", decision="ask", source="rule"))
    metrics.observe(event("tool_call", tool_class="control", decision="allow", source="rule"))
    metrics.observe(event("tool_call", tool_class="other"))

    assert sample(metrics, 'tool_decisions_total{decision="allow",source="rule"}') == 1
    assert sample(metrics, 'tool_decisions_total{decision="allow",source="grant"}') == 1
    assert sample(metrics, 'tool_decisions_total{decision="deny",source="rule"}') == 1
    assert sample(metrics, 'tool_decisions_total{decision="ask",source="rule"}') is None
    metrics.observe(event("tool_call", tool_class="other", decision="deny"))
    assert sample(metrics, 'tool_decisions_total{decision="deny",source="rule"}') == 2


def test_a_plan_that_was_cancelled_counts_if_it_had_begun() -> None:
    metrics = Metrics()

    metrics.observe(event("plan_cancelled", plan_id="p"))
    assert sample(metrics, 'plan_executions_total{status="cancelled"}') == 0
    metrics.observe(event("plan_cancelled", plan_id="p", duration_seconds=3))

    assert sample(metrics, 'plan_executions_total{status="cancelled"}') == 1
    assert sample(metrics, 'plan_execution_duration_seconds_sum{status="cancelled"}') == 3


def test_what_a_model_makes_up_is_no_label_of_its_own() -> None:
    metrics = Metrics({"edit"})

    for name in ("edit", "made_up_1", "made_up_2"):
        metrics.observe(event("tool_result", status="failed") | {"tool_name": name})
    for cause in ("network", "person", "Agent x not found", None):
        metrics.observe(event("plan_replanning", cause=cause, reason="text of its own"))

    assert sample(metrics, 'tool_calls_total{status="failed",tool="edit"}') == 1
    assert sample(metrics, 'tool_calls_total{status="failed",tool="other"}') == 2
    assert sample(metrics, 'plan_replans_total{cause="network"}') == 1
    assert sample(metrics, 'plan_replans_total{cause="person"}') == 1
    assert sample(metrics, 'plan_replans_total{cause="other"}') == 2


def test_tool_calls_replans_and_rollbacks_are_counted() -> None:
    metrics = Metrics()

    metrics.observe(event("tool_result", status="failed", duration_ms=250) | {"tool_name": "edit"})
    metrics.observe(event("plan_replanning", reason="timeout"))
    metrics.observe(event("plan_rolled_back"))
    metrics.observe(event("plan_rolled_back", conflicts=["a.py"]))

    assert sample(metrics, 'tool_calls_total{status="failed",tool="edit"}') == 1
    assert sample(metrics, 'tool_call_duration_seconds_sum{tool="edit"}') == 0.25
    assert sample(metrics, 'plan_replans_total{cause="timeout"}') == 1
    assert sample(metrics, 'plan_rollbacks_total{outcome="restored"}') == 1
    assert sample(metrics, 'plan_rollbacks_total{outcome="conflicts"}') == 1


def test_requests_to_models_are_counted_with_their_tokens_and_cost() -> None:
    metrics = Metrics()

    usage = Usage(
        input_tokens=100, cached_tokens=60, cache_write_tokens=30, output_tokens=20,
        reasoning_tokens=5, cost=0.5, duration_ms=2_000,
    )  # fmt: skip
    metrics.model_answered("demo", usage)
    metrics.model_failed("demo")

    assert sample(metrics, 'model_requests_total{model="demo",status="completed"}') == 1
    assert sample(metrics, 'model_requests_total{model="demo",status="failed"}') == 1
    assert sample(metrics, 'model_tokens_total{direction="input",model="demo"}') == 100
    assert sample(metrics, 'model_tokens_total{direction="output",model="demo"}') == 20
    parts = {"cached": 60, "cache_write": 30, "reasoning": 5}
    for name, count in parts.items():
        said = f'model_token_classes_total{{class="{name}",model="demo"}}'
        assert sample(metrics, said) == count
    assert sample(metrics, 'model_cost_dollars_total{model="demo"}') == 0.5
    assert sample(metrics, 'model_request_duration_seconds_sum{model="demo"}') == 2
    metrics.model_answered("demo", Usage(input_tokens=1, output_tokens=1, cost=None))
    assert sample(metrics, 'model_cost_dollars_total{model="demo"}') == 0.5


def test_attempts_to_tell_a_hook_are_counted_by_what_came_of_them() -> None:
    metrics = Metrics()

    for outcome in ("retried", "sent", "sent"):
        metrics.hook_tried("chat", outcome)

    assert sample(metrics, 'webhook_deliveries_total{hook="chat",outcome="retried"}') == 1
    assert sample(metrics, 'webhook_deliveries_total{hook="chat",outcome="sent"}') == 2


def test_other_events_count_nothing_and_two_runtimes_never_mix() -> None:
    one, other = Metrics(), Metrics()

    one.observe({"type": "assistant_message", "content": "hello"})
    one.observe({"type": "from_a_later_version"})
    one.observe(event("plan_rolled_back"))

    assert sample(one, 'plan_rollbacks_total{outcome="restored"}') == 1
    assert sample(other, 'plan_rollbacks_total{outcome="restored"}') is None


def test_each_metric_says_in_a_sentence_what_it_counts() -> None:
    lines = Metrics().render().decode().splitlines()
    described = [line.split(" ", 3)[3] for line in lines if line.startswith("# HELP ")]

    assert "Rollbacks." in described
    for text in described:
        first, rest = text[0], text[1:]
        assert (first.isupper(), rest.isupper(), text[-1]) == (True, False, "."), text


def test_times_are_counted_from_a_tenth_of_a_second_to_a_day() -> None:
    metrics = Metrics()
    metrics.observe(event("plan_completed", status="failed", duration_seconds=4_000))
    named = 'plan_execution_duration_seconds_bucket{le="'
    found = {
        row.removeprefix(named).split('"')[0]: float(row.rpartition(" ")[2])
        for row in metrics.render().decode().splitlines()
        if row.startswith(named)
    }

    assert list(found) == [
        "0.1", "0.5", "1.0", "5.0", "15.0", "60.0", "300.0", "900.0", "3600.0", "14400.0",
        "86400.0", "+Inf",
    ]  # fmt: skip
    assert [edge for edge, count in found.items() if count] == ["14400.0", "86400.0", "+Inf"]


def test_all_that_a_plan_may_end_in_is_there_from_the_first_scrape_on() -> None:
    for ending in ("completed", "failed", "partial", "cancelled"):
        assert sample(Metrics(), f'plan_executions_total{{status="{ending}"}}') == 0
    metrics = Metrics()
    for ending in ("completed", "failed", "skipped", "cancelled"):
        metrics.observe(event(f"subtask_{ending}"))
        assert sample(metrics, f'plan_steps_total{{status="{ending}",step_type="action"}}') == 1


def test_a_plan_is_sent_back_by_a_cause_a_reason_or_something_else() -> None:
    metrics = Metrics()
    for facts in ({"cause": "person"}, {"reason": "network"}, {"cause": "", "reason": "x"}):
        metrics.observe(event("plan_replanning", **facts))

    for cause in ("person", "network", "other"):
        assert sample(metrics, f'plan_replans_total{{cause="{cause}"}}') == 1
