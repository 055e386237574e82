"""The numbers at `/metrics`, counted from the events as they are committed.

Labels have few values, fixed by gonogo or by the operator: never an id, never what somebody wrote.
All unknown values count under the single label `other`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from gonogo.domain.failures import Category
from gonogo.domain.tool_calls import Usage

CONTENT_TYPE = CONTENT_TYPE_LATEST
_WORK = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400)
_ENDINGS = ("completed", "failed", "skipped", "cancelled")
_PLAN_ENDINGS = ("completed", "failed", "partial", "cancelled")
_CAUSES = frozenset({"person", *Category})
_OTHER = "other"

Event = Mapping[str, Any]


class Metrics:
    """The counters of one runtime; each has its own, so that two never mix.

    Args:
        tools: The tools that there are. Models ask for others too, and those count as one.
    """

    def __init__(self, tools: Collection[str] | None = None) -> None:
        self._registry = CollectorRegistry()
        self._tools = tools
        self._sharing: tuple[Gauge, Gauge, Gauge] | None = None
        self._make_plans()
        self._make_approvals()
        self._make_work()
        self._on: dict[str, Callable[[Event], None]] = {
            "plan_completed": self._plan_ended,
            "plan_cancelled": self._plan_cancelled,
            "plan_replanning": self._plan_replanned,
            "plan_rolled_back": self._plan_rolled_back,
            "approval_requested": self._approval_opened,
            "approval_resolved": self._approval_closed,
            "tool_call": self._call_judged,
            "tool_approved": self._call_decided,
            "tool_rejected": self._call_decided,
            "tool_result": self._call_ended,
            **{f"subtask_{ending}": self._subtask_ended for ending in _ENDINGS},
        }

    def observe(self, event: Event) -> None:
        """Count one committed event; events without a counter are ignored."""
        handler = self._on.get(event.get("type", ""))
        if handler:
            handler(event)

    def model_answered(self, model: str, usage: Usage) -> None:
        """Count a request that a model answered, and its tokens."""
        self._requests.labels(model, "completed").inc()
        self._request_seconds.labels(model).observe(usage.duration_ms / 1_000)
        self._tokens.labels(model, "input").inc(usage.input_tokens)
        self._tokens.labels(model, "output").inc(usage.output_tokens)
        self._parts.labels(model, "cached").inc(usage.cached_tokens)
        self._parts.labels(model, "cache_write").inc(usage.cache_write_tokens)
        self._parts.labels(model, "reasoning").inc(usage.reasoning_tokens)
        self._cost.labels(model).inc(usage.cost or 0.0)

    def model_failed(self, model: str) -> None:
        """Count a request that a model did not answer."""
        self._requests.labels(model, "failed").inc()

    def hook_tried(self, hook: str, outcome: str) -> None:
        """Count an attempt to tell a hook something: `sent`, `retried` or `failed`."""
        self._deliveries.labels(hook, outcome).inc()

    def set_pending(self, kind: str, count: int) -> None:
        """Set how many questions were open when the runtime started."""
        self._pending.labels(kind).set(count)

    def set_sharing(
        self, processes: Mapping[tuple[str, str], int], places: Mapping[str, int], owners: int
    ) -> None:
        """Set who shares the work, and the states of workspaces; these metrics exist only then.

        Args:
            processes: By kind and status.
            places: By status.
            owners: How often a workspace was given to a worker so far.
        """
        if self._sharing is None:
            self._sharing = (
                self._gauge("gonogo_processes", "Servers and workers.", "kind", "status"),
                self._gauge("gonogo_workspaces", "Workspaces that are shared.", "status"),
                self._gauge("gonogo_workspace_owners", "Times that a worker got a workspace."),
            )
        kinds, standing, given = self._sharing
        for gauge in (kinds, standing):
            gauge.clear()
        for labels, count in processes.items():
            kinds.labels(*labels).set(count)
        for status, count in places.items():
            standing.labels(status).set(count)
        given.set(owners)

    def render(self) -> bytes:
        """All of it in the Prometheus text format, to be sent as `CONTENT_TYPE`."""
        return generate_latest(self._registry)

    def _make_plans(self) -> None:
        self._plans = self._counter("plan_executions_total", "Plans that ended.", "status")
        self._plan_seconds = self._histogram(
            "plan_execution_duration_seconds", "From the start of plans to their end.", "status"
        )
        # Each counter exists from the first scrape on, so its first plan shows as an increase.
        for status in _PLAN_ENDINGS:
            self._plans.labels(status)
        self._steps = self._counter(
            "plan_steps_total", "Subtasks that ended.", "step_type", "status"
        )
        self._step_seconds = self._histogram(
            "plan_step_duration_seconds", "Run time of subtasks.", "step_type"
        )
        self._replans = self._counter("plan_replans_total", "Plans sent back.", "cause")
        self._rollbacks = self._counter("plan_rollbacks_total", "Rollbacks.", "outcome")

    def _make_approvals(self) -> None:
        self._pending = self._gauge("approvals_pending", "Open questions.", "kind")
        self._outcomes = self._counter("approvals_total", "Questions closed.", "kind", "status")
        self._latency = self._histogram(
            "approval_decision_seconds", "From a question to a person's answer.", "kind"
        )
        self._deliveries = self._counter(
            "webhook_deliveries_total", "Attempts to tell a hook something.", "hook", "outcome"
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
        self._parts = self._counter(
            "model_token_classes_total",
            "Tokens with a price of their own: cached and cache_write are part of the input, "
            "reasoning of the output.", "model", "class",
        )  # fmt: skip
        self._cost = self._counter("model_cost_dollars_total", "Known cost.", "model")

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=self._registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self._registry)

    def _histogram(self, name: str, about: str, *labels: str) -> Histogram:
        return Histogram(name, about, labels, registry=self._registry, buckets=_WORK)

    def _plan_ended(self, event: Event) -> None:
        facts = event["metadata"]
        self._count_plan(facts["status"], facts["duration_seconds"])

    def _plan_cancelled(self, event: Event) -> None:
        took = event["metadata"].get("duration_seconds")
        if took is not None:
            self._count_plan("cancelled", took)

    def _count_plan(self, status: str, took: float) -> None:
        self._plans.labels(status).inc()
        self._plan_seconds.labels(status).observe(took)

    def _plan_replanned(self, event: Event) -> None:
        facts = event["metadata"]
        cause = facts.get("cause") or facts.get("reason")
        self._replans.labels(cause if cause in _CAUSES else _OTHER).inc()

    def _plan_rolled_back(self, event: Event) -> None:
        conflicts = event["metadata"].get("conflicts")
        self._rollbacks.labels("conflicts" if conflicts else "restored").inc()

    def _subtask_ended(self, event: Event) -> None:
        facts = event["metadata"]
        step_type = facts.get("subtask_type") or "action"
        self._steps.labels(step_type, event["type"].removeprefix("subtask_")).inc()
        if facts.get("duration_seconds") is not None:
            self._step_seconds.labels(step_type).observe(facts["duration_seconds"])

    def _approval_opened(self, event: Event) -> None:
        facts = event["metadata"]
        self._pending.labels(facts["kind"]).inc()

    def _approval_closed(self, event: Event) -> None:
        facts = event["metadata"]
        self._pending.labels(facts["kind"]).dec()
        self._outcomes.labels(facts["kind"], facts["status"]).inc()
        if facts.get("waited_seconds") is not None:
            self._latency.labels(facts["kind"]).observe(facts["waited_seconds"])

    def _call_judged(self, event: Event) -> None:
        """A call that a rule or a grant decided; one that asks is counted with its answer."""
        facts = event["metadata"]
        decision = facts.get("decision")
        if decision in {"allow", "deny"} and facts["tool_class"] != "control":
            self._decisions.labels(decision, facts.get("source", "rule")).inc()

    def _call_decided(self, event: Event) -> None:
        facts = event["metadata"]
        self._decisions.labels(facts["decision"], facts["source"]).inc()

    def _call_ended(self, event: Event) -> None:
        facts = event["metadata"]
        name = event["tool_name"]
        tool = name if self._tools is None or name in self._tools else _OTHER
        self._calls.labels(tool, facts["status"]).inc()
        if facts.get("duration_ms") is not None:
            self._call_seconds.labels(tool).observe(facts["duration_ms"] / 1_000)
