"""The numbers at `/metrics`, counted from the events as they are committed.

Labels have few values, fixed by gonogo or by the operator: never an id, never what somebody wrote.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from gonogo.domain.conversation import Usage

CONTENT_TYPE = CONTENT_TYPE_LATEST
_WORK = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400)
_ENDINGS = ("completed", "failed", "skipped", "cancelled")

Event = Mapping[str, Any]


class Metrics:
    """The counters of one runtime; each has its own, so that two never mix."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._opened: dict[str, datetime] = {}
        self._make_plans()
        self._make_approvals()
        self._make_work()
        self._on: dict[str, Callable[[Event], None]] = {
            "plan_completed": self._plan_ended,
            "plan_replanning": self._plan_replanned,
            "plan_rolled_back": self._plan_rolled_back,
            "approval_requested": self._approval_opened,
            "approval_resolved": self._approval_closed,
            "tool_approved": self._call_decided,
            "tool_rejected": self._call_decided,
            "tool_result": self._call_ended,
            **{f"subtask_{ending}": self._subtask_ended for ending in _ENDINGS},
        }

    def observe(self, event: Event) -> None:
        """Count one committed event; those that nothing is counted of are passed over."""
        handler = self._on.get(event.get("type", ""))
        if handler:
            handler(event)

    def model_answered(self, model: str, usage: Usage) -> None:
        """Count a request that a model answered, and its tokens."""
        self._requests.labels(model, "completed").inc()
        self._request_seconds.labels(model).observe(usage.duration_ms / 1_000)
        self._tokens.labels(model, "input").inc(usage.input_tokens)
        self._tokens.labels(model, "output").inc(usage.output_tokens)
        self._cost.labels(model).inc(usage.cost or 0.0)

    def model_failed(self, model: str) -> None:
        """Count a request that a model did not answer."""
        self._requests.labels(model, "failed").inc()

    def set_pending(self, kind: str, count: int) -> None:
        """Say how many questions were open when the runtime started."""
        self._pending.labels(kind).set(count)

    def render(self) -> bytes:
        """All of it in the Prometheus text format, to be sent as `CONTENT_TYPE`."""
        return generate_latest(self._registry)

    def _make_plans(self) -> None:
        self._plans = self._counter("plan_executions_total", "Plans that ended.", "status")
        self._plan_seconds = self._histogram(
            "plan_execution_duration_seconds", "Run time of plans.", "status"
        )
        self._steps = self._counter(
            "plan_steps_total", "Subtasks that ended.", "step_type", "status"
        )
        self._step_seconds = self._histogram(
            "plan_step_duration_seconds", "Run time of subtasks.", "step_type"
        )
        self._replans = self._counter("plan_replans_total", "Plans sent back.", "cause")
        self._rollbacks = self._counter("plan_rollbacks_total", "Rollbacks carried out.")

    def _make_approvals(self) -> None:
        self._pending = Gauge(
            "approvals_pending", "Open questions.", ["kind"], registry=self._registry
        )
        self._outcomes = self._counter("approvals_total", "Questions closed.", "kind", "status")
        self._latency = self._histogram(
            "approval_decision_seconds", "From question to answer.", "kind"
        )
        self._decisions = self._counter(
            "tool_decisions_total", "Decisions about tool calls.", "decision", "source"
        )

    def _make_work(self) -> None:
        self._calls = self._counter("tool_calls_total", "Tool calls that ended.", "tool", "status")
        self._call_seconds = self._histogram(
            "tool_call_duration_seconds", "Run time of tool calls.", "tool"
        )
        self._requests = self._counter(
            "model_requests_total", "Requests to models.", "model", "status"
        )
        self._request_seconds = self._histogram(
            "model_request_duration_seconds", "Duration of requests to models.", "model"
        )
        self._tokens = self._counter("model_tokens_total", "Tokens.", "model", "direction")
        self._cost = self._counter("model_cost_dollars_total", "Known cost.", "model")

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self._registry)

    def _histogram(self, name: str, about: str, *labels: str) -> Histogram:
        return Histogram(name, about, labels, registry=self._registry, buckets=_WORK)

    def _plan_ended(self, event: Event) -> None:
        facts = event["metadata"]
        self._plans.labels(facts["status"]).inc()
        self._plan_seconds.labels(facts["status"]).observe(facts["duration_seconds"])

    def _plan_replanned(self, event: Event) -> None:
        self._replans.labels(event["metadata"].get("cause", "unknown")).inc()

    def _plan_rolled_back(self, _event: Event) -> None:
        self._rollbacks.inc()

    def _subtask_ended(self, event: Event) -> None:
        facts = event["metadata"]
        step_type = facts.get("subtask_type", "action")
        self._steps.labels(step_type, event["type"].removeprefix("subtask_")).inc()
        if facts.get("duration_seconds") is not None:
            self._step_seconds.labels(step_type).observe(facts["duration_seconds"])

    def _approval_opened(self, event: Event) -> None:
        facts = event["metadata"]
        self._pending.labels(facts["kind"]).inc()
        if event.get("ts"):
            self._opened[facts["approval_id"]] = _time(event["ts"])

    def _approval_closed(self, event: Event) -> None:
        facts = event["metadata"]
        self._pending.labels(facts["kind"]).dec()
        self._outcomes.labels(facts["kind"], facts["status"]).inc()
        opened = self._opened.pop(facts["approval_id"], None)
        if opened and event.get("ts"):
            waited = (_time(event["ts"]) - opened).total_seconds()
            self._latency.labels(facts["kind"]).observe(waited)

    def _call_decided(self, event: Event) -> None:
        facts = event["metadata"]
        self._decisions.labels(facts["decision"], facts["source"]).inc()

    def _call_ended(self, event: Event) -> None:
        facts = event["metadata"]
        self._calls.labels(event["tool_name"], facts["status"]).inc()
        if facts.get("duration_ms") is not None:
            self._call_seconds.labels(event["tool_name"]).observe(facts["duration_ms"] / 1_000)


def _time(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)
