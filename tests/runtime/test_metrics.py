"""What operators read off `/metrics` is what happened, and what the dashboard asks for is there."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakes.world import World, call, calls, of, plan, run, says, step, world_of, write

OPS = Path(__file__).parent.parent.parent / "ops"
ONCE_MORE = {"max_attempts": 2, "delay": 0, "on": ["environment"]}
LINES = {
    "main/architect": [
        plan(step("one", type="validation"), step("two", retry_policy=ONCE_MORE), step("x", "two"))
    ],
    "one": [
        calls(write("one.txt")),
        calls(call("give_verdict", valid=True, reasons=["it is written"])),
    ],
    "two": [],
}


def shown(world: World) -> dict[str, float]:
    """Every sample of the exposition, by its name with its labels as they are written."""
    lines = world.runtime.metrics.render().decode().splitlines()
    found = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in found}


@pytest.mark.feature(107)
async def test_the_four_counts_of_plans_and_steps_change_with_a_run(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES, auto_replanning=False) as world:
        before = shown(world)
        await world.decide_plan(await world.propose())
        after = shown(world)

    assert before['plan_executions_total{status="partial"}'] == 0
    assert after['plan_executions_total{status="partial"}'] == 1
    assert after['plan_execution_duration_seconds_count{status="partial"}'] == 1
    assert after['plan_steps_total{status="completed",step_type="validation"}'] == 1
    assert after['plan_steps_total{status="failed",step_type="action"}'] == 1, "its retry is no end"
    assert after['plan_steps_total{status="skipped",step_type="action"}'] == 1
    assert after['plan_step_duration_seconds_count{step_type="validation"}'] == 1
    assert after['model_requests_total{model="scripted",status="failed"}'] == 2


@pytest.mark.feature(108)
async def test_durations_are_those_of_the_run_and_not_the_age_of_the_plan(tmp_path: Path) -> None:
    async with world_of(tmp_path, LINES) as world:
        plan_id = await world.propose()
        world.clock.ahead += timedelta(hours=5)
        events = await world.decide_plan(plan_id)

        assert 0 < events[-1]["metadata"]["duration_seconds"] < 3600
        for ended in of(events, "subtask_completed"):
            assert 0 < ended["metadata"]["duration_seconds"] < 3600
        status = await world.runtime.plans.status(world.ann, plan_id)
        assert status.started_at is not None
        assert status.finished_at is not None
        assert status.finished_at - status.started_at < timedelta(hours=1)


@pytest.mark.feature(107)
async def test_questions_that_wait_are_still_counted_after_a_restart(tmp_path: Path) -> None:
    lines = {
        "main/architect": [plan(step("one"))],
        "one": [calls(run("make all")), says("done")],
    }
    async with world_of(tmp_path, lines) as world:
        plan_id = await world.propose()
        assert shown(world)['approvals_pending{kind="plan"}'] == 1
        await world.decide_plan(plan_id)
        assert shown(world)['approvals_pending{kind="tool"}'] == 1
        await world.restart()
        assert shown(world)['approvals_pending{kind="tool"}'] == 1
        assert shown(world)['plan_executions_total{status="cancelled"}'] == 0

        world.clock.ahead += timedelta(minutes=30)
        [question] = await world.pending()
        await world.decide(question.call_id, "reject")
        assert shown(world)['approvals_pending{kind="tool"}'] == 0
        assert 1800 <= shown(world)['approval_decision_seconds_sum{kind="tool"}'] < 3600
        assert shown(world)['tool_decisions_total{decision="reject",source="person"}'] == 1


async def test_a_plan_that_a_person_stops_is_counted_with_its_run_time(tmp_path: Path) -> None:
    lines = {"main/architect": [plan(step("one"), step("two", "one"))], "one": [says("", 30)]}
    async with world_of(tmp_path, lines) as world:
        plan_id = await world.propose()
        await world.send({"type": "plan_decision", "plan_id": plan_id, "decision": "approve"})
        await world.until("subtask_started")
        await world.runtime.plans.cancel(world.ann, plan_id)
        await world.until("plan_cancelled")
        after = shown(world)

    assert after['plan_executions_total{status="cancelled"}'] == 1
    assert after['plan_execution_duration_seconds_count{status="cancelled"}'] == 1
    assert after['plan_steps_total{status="cancelled",step_type="action"}'] == 2


async def test_every_allowed_call_counts_by_what_allowed_it(tmp_path: Path) -> None:
    lines = {
        "main/architect": [plan(step("one"))],
        "one": [calls(write("a.txt"), {"name": "list_files", "arguments": {}}), says("done")],
    }
    async with world_of(tmp_path, lines) as world:
        await world.decide_plan(await world.propose())
        after = shown(world)

    assert after['tool_decisions_total{decision="allow",source="grant"}'] == 1
    assert after['tool_decisions_total{decision="allow",source="rule"}'] == 1
    assert after['tool_calls_total{status="completed",tool="write_file"}'] == 1


SOURCES = {"prometheus", "tempo"}


def asked(dashboard: object) -> Iterator[str]:
    """Every expression of a dashboard, wherever it stands."""
    if isinstance(dashboard, dict) and dashboard.get("queryType") != "traceql":
        for name, part in dashboard.items():
            if name in {"expr", "query"} and isinstance(part, str) and part not in SOURCES:
                yield part
            yield from asked(part)
    elif isinstance(dashboard, list):
        for part in dashboard:
            yield from asked(part)


def names_and_labels(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric that an expression reads, with the labels that it picks or groups by."""
    grouped = {
        label.strip()
        for found in re.findall(r"\bby \(([^)]*)\)", expression)
        for label in found.split(",")
    }
    for name, picked in re.findall(r"\b((?:\w+_)+\w+)(?:\{([^}]*)\})", expression):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!=|=)", picked)) | grouped
    for name, label in re.findall(r"label_values\((\w+), (\w+)\)", expression):
        yield name, {label}


async def test_the_dashboard_asks_only_for_metrics_and_labels_that_there_are(
    tmp_path: Path,
) -> None:
    dashboard = json.loads((OPS / "grafana" / "gonogo.json").read_text(encoding="utf-8"))
    async with world_of(tmp_path, LINES) as world:
        await world.decide_plan(await world.propose())
        metrics = world.runtime.metrics
        metrics.observe({"type": "plan_replanning", "metadata": {"cause": "network"}})
        metrics.observe({"type": "plan_rolled_back", "metadata": {}})
        metrics.hook_tried("chat", "sent")
        text = metrics.render().decode()
    there: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            # The scraper adds the job.
            there.setdefault(sample.name, {"job"}).update(sample.labels)

    expressions = list(asked(dashboard))
    read = [found for expression in expressions for found in names_and_labels(expression)]
    assert len(read) >= len(expressions) > 20
    assert [(name, labels) for name, labels in read if not labels <= there.get(name, set())] == []
    documented = {name for name, _ in read}
    assert {n.removesuffix("_bucket") for n in documented} == exposed(text)


def exposed(text: str) -> set[str]:
    """The names of all metrics, as a page would list them."""
    kinds = re.findall(r"^# TYPE (\w+) (\w+)", text, re.MULTILINE)
    return {name for name, _ in kinds if not name.endswith("_created")}


def test_the_page_about_monitoring_names_every_metric() -> None:
    page = (OPS.parent / "docs" / "how-to" / "monitor.md").read_text(encoding="utf-8")
    dashboard = (OPS / "grafana" / "gonogo.json").read_text(encoding="utf-8")
    wanted = set(re.findall(r"\b(?:plan|approval|approvals|tool|model)_\w+(?=\{)", dashboard))

    assert {name.removesuffix("_bucket") for name in wanted} - set(
        re.findall(r"\w+", page)
    ) == set()
