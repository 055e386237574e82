"""Hands the spans of what is over to a collector, by OTLP.

It reads the record once something has ended, beside the work and never before it. A collector that
is away, or too slow, costs spans and nothing else. The library is loaded only where an operator has
named a collector.
"""

import hashlib
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from msgspec import Struct, field

from gonogo import __version__
from gonogo.domain.base import canonical_json
from gonogo.domain.errors import GonogoError, Refused
from gonogo.domain.plan import Subtask
from gonogo.domain.records import MAIN, CallRow, ModelRequestRow, Plan, SubtaskRow
from gonogo.domain.states import ENDED, TURN, CallStatus, PlanStatus, SubtaskStatus, TurnStatus
from gonogo.domain.tool_calls import Reply
from gonogo.store import Store, Tx
from gonogo.store.calls import calls_of_turn, calls_of_work
from gonogo.store.plans import plan_of, revision_of, runs_of_subtask
from gonogo.store.reports import requests_of_work
from gonogo.store.sessions import conversation, end_of_turn_before, turn_of

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider


# What was done, as spans of traces, told from its records.
#
# A plan is one trace. Its id is the plan's own, and that of each span comes from the id of its
# record, so whoever finishes a plan, after however many restarts, adds to the same trace. An answer
# is a trace of its own. Names and attributes are those of OpenTelemetry's conventions for
# generative AI; what people, models and tools said is left out, unless it is asked for.

_UUID = re.compile(r"[0-9a-f]{32}")
_MOST_TEXT = 8_000
"""Characters of a text in an attribute."""
_PROVIDERS = {
    "google": "gcp.gemini", "google-gla": "gcp.gemini", "google-vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock", "azure": "azure.ai.openai", "mistral": "mistral_ai", "grok": "x_ai",
    "xai": "x_ai",
}  # fmt: skip
"""What the conventions call a provider, where we call it by another name."""
_FAILED = frozenset({CallStatus.FAILED, CallStatus.UNKNOWN})
_BAD = frozenset({PlanStatus.FAILED, PlanStatus.PARTIAL})

Value = str | int | float


class TracedSpan(Struct, frozen=True, kw_only=True):
    """Something that was done, from when until when, and what it was part of."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None = None
    began: datetime
    ended: datetime
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    is_request: bool = False
    """Somebody else was asked, and not something of ours done."""
    error: str | None = None
    """What kind of failure it ended with, if it did."""
    led_to_by: tuple[int, int] | None = None
    """The trace and the span of what it came of."""


def trace_id_of(record_id: str) -> int:
    """The id of a plan's or a turn's trace: the number in its own id."""
    number = record_id.rpartition("_")[2]
    return int(number, 16) if _UUID.fullmatch(number) else _hashed(record_id, 16)


def span_id_of(*names: str) -> int:
    """The id of the span of a record."""
    return _hashed("/".join(names), 8)


def spans_of_plan(tx: Tx, plan_id: str, *, content: bool) -> list[TracedSpan]:
    """A plan that is over, and what no subtask did of it: the search for its revisions."""
    plan = plan_of(tx, plan_id)
    if plan is None or plan.status not in ENDED or plan.finished_at is None:
        return []
    place = _TracePlace(plan.session_id, trace_id_of(plan.id), span_id_of(plan.id), content)
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "plan",
        "gen_ai.conversation.id": plan.session_id, "gonogo.plan.id": plan.id,
        "gonogo.plan.status": plan.status, "gonogo.plan.revision": plan.revision,
        "gonogo.plan.replans": plan.replans,
    }  # fmt: skip
    if content:
        attributes["gonogo.plan.goal"] = plan.goal[:_MOST_TEXT]
    turn = plan.turn_id
    root = TracedSpan(
        name="invoke_workflow plan", trace_id=place.trace_id, span_id=place.span_id,
        began=plan.started_at or plan.created_at, ended=plan.finished_at, attributes=attributes,
        error=plan.status.value if plan.status in _BAD else None,
        led_to_by=(trace_id_of(turn), span_id_of(turn)) if turn else None,
    )  # fmt: skip
    requests = requests_of_work(tx, plan.session_id, plan.id)
    calls = calls_of_work(tx, plan.session_id, plan.id)
    return [root, *_children(tx, place, requests, calls)]


def spans_of_subtask(tx: Tx, plan_id: str, subtask_id: str, *, content: bool) -> list[TracedSpan]:
    """The run of a subtask that ended last, with all its attempts, and what was done in it."""
    plan, row = plan_of(tx, plan_id), _last(runs_of_subtask(tx, plan_id, subtask_id))
    if plan is None or row is None or row.started_at is None or row.finished_at is None:
        return []
    own = span_id_of(row.key, row.started_at.isoformat())
    place = _TracePlace(plan.session_id, trace_id_of(plan.id), own, content)
    run = _Run(row.key, row.started_at, row.finished_at)
    requests = requests_of_work(tx, plan.session_id, plan.id, subtask_id)
    calls = calls_of_work(tx, plan.session_id, plan.id, subtask_id)
    return [
        _of_subtask(tx, plan, row, place, run),
        *_children(tx, place, filter(run.has, requests), filter(run.has, calls)),
    ]


def spans_of_turn(tx: Tx, turn_id: str, *, content: bool) -> list[TracedSpan]:
    """An answer that is over, and what was done for it."""
    turn = turn_of(tx, turn_id)
    if turn is None or turn.status not in TURN.terminal or turn.finished_at is None:
        return []
    place = _TracePlace(turn.session_id, trace_id_of(turn.id), span_id_of(turn.id), content)
    since = max(turn.created_at, end_of_turn_before(tx, turn) or turn.created_at)
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": turn.agent,
        "gen_ai.conversation.id": turn.session_id, "gonogo.turn.id": turn.id,
        "gonogo.turn.status": turn.status,
    }  # fmt: skip
    failed = turn.status is TurnStatus.FAILED
    root = TracedSpan(
        name=f"invoke_agent {turn.agent}".rstrip(), trace_id=place.trace_id,
        span_id=place.span_id, began=since, ended=turn.finished_at, attributes=attributes,
        error="failed" if failed else None,
    )  # fmt: skip
    run = _Run(MAIN, since, turn.finished_at)
    requests = filter(run.has, requests_of_work(tx, turn.session_id, None))
    calls = calls_of_turn(tx, turn.session_id, turn.id)
    return [root, *_children(tx, place, requests, calls)]


class _TracePlace(Struct, frozen=True):
    """Where spans belong."""

    session_id: str
    trace_id: int
    span_id: int
    content: bool


class _Run(Struct, frozen=True):
    """One time that a conversation, or its attempts, were under way."""

    thread: str
    began: datetime
    ended: datetime

    def has(self, row: CallRow | ModelRequestRow) -> bool:
        """Whether something was done in it."""
        within = row.thread == self.thread or row.thread.startswith(f"{self.thread}#")
        return within and self.began <= row.created_at <= self.ended


def _last(runs: Sequence[SubtaskRow]) -> SubtaskRow | None:
    """The run that ended last; a later revision has a copy of what stands as it did."""
    ended = [row for row in runs if row.finished_at is not None]
    return max(ended, key=lambda row: (row.finished_at, -row.revision), default=None)


def _of_subtask(tx: Tx, plan: Plan, row: SubtaskRow, place: _TracePlace, run: _Run) -> TracedSpan:
    revision = revision_of(tx, plan.id, row.revision)
    subtask = revision.by_id.get(row.subtask_id) if revision else None
    attributes: dict[str, Value] = {
        "gen_ai.conversation.id": plan.session_id, "gonogo.plan.id": plan.id,
        "gonogo.subtask.id": row.subtask_id, "gonogo.subtask.status": row.status,
        "gonogo.subtask.attempts": row.attempt, "gonogo.plan.revision": row.revision,
        **_worker(subtask),
    }  # fmt: skip
    if place.content and subtask is not None:
        attributes["gonogo.subtask.description"] = subtask.description[:_MOST_TEXT]
    failed = row.status is SubtaskStatus.FAILED
    category = str((row.error or {}).get("category", "unknown"))
    agent = attributes.get("gen_ai.agent.name")
    return TracedSpan(
        name=f"invoke_agent {agent}" if agent else "subtask", trace_id=place.trace_id,
        span_id=place.span_id, parent_id=span_id_of(plan.id), began=run.began,
        ended=run.ended, attributes=attributes, error=category if failed else None,
    )  # fmt: skip


def _worker(subtask: Subtask | None) -> dict[str, Value]:
    if subtask is None or subtask.agent is None:
        return {}
    return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": subtask.agent}


def _children(
    tx: Tx, place: _TracePlace, requests: Iterable[ModelRequestRow], calls: Iterable[CallRow]
) -> Iterator[TracedSpan]:
    asked = list(requests)
    said = _replies(tx, place.session_id, asked) if place.content else {}
    for request in asked:
        yield _of_request(place, request, said.get(request.id))
    for call in calls:
        if call.finished_at is not None:
            yield _of_call(place, call, call.finished_at)


def _replies(tx: Tx, session_id: str, asked: Iterable[ModelRequestRow]) -> dict[str, Reply]:
    threads = dict.fromkeys(request.thread for request in asked)
    messages = (each for name in threads for each in conversation(tx, session_id, name))
    return {m.request_id: m for m in messages if isinstance(m, Reply) and m.request_id}


def _of_request(place: _TracePlace, row: ModelRequestRow, reply: Reply | None) -> TracedSpan:
    provider, _, model = row.model.rpartition(":")
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": model,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider or "gonogo"),
        "gen_ai.agent.name": row.agent, "gen_ai.conversation.id": place.session_id,
        "gen_ai.usage.input_tokens": row.input_tokens,
        "gen_ai.usage.output_tokens": row.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": row.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": row.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": row.reasoning_tokens,
        "gonogo.cost_dollars": row.cost_micros / 1_000_000,
    }  # fmt: skip
    if reply is not None:
        attributes["gen_ai.output.messages"] = _output(reply)
    return TracedSpan(
        name=f"chat {model}", trace_id=place.trace_id, span_id=span_id_of(row.id),
        parent_id=place.span_id, began=row.created_at, is_request=True, attributes=attributes,
        ended=row.created_at + timedelta(milliseconds=row.duration_ms or 0),
        error=None if row.status == "done" else "no_reply",
    )  # fmt: skip


def _output(reply: Reply) -> str:
    parts = [{"type": "text", "content": reply.text[:_MOST_TEXT]}] if reply.text else []
    called = [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in reply.calls
    ]
    finish = "length" if reply.cut else "tool_call" if called else "stop"
    message = {"role": "assistant", "parts": [*parts, *called], "finish_reason": finish}
    return canonical_json([message])


def _of_call(place: _TracePlace, call: CallRow, ended: datetime) -> TracedSpan:
    began = call.started_at or call.created_at
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.id, "gen_ai.tool.type": "function",
        "gen_ai.agent.name": call.agent, "gen_ai.conversation.id": place.session_id,
        "gonogo.tool.status": call.status, "gonogo.tool.class": call.tool_class,
        "gonogo.tool.waited_seconds": (began - call.created_at).total_seconds(),
    }  # fmt: skip
    if place.content:
        attributes["gen_ai.tool.call.arguments"] = canonical_json(call.arguments)[:_MOST_TEXT]
        if call.result is not None:
            attributes["gen_ai.tool.call.result"] = canonical_json(call.result)[:_MOST_TEXT]
    kind = (call.error or "").partition(":")[0]
    named = kind if kind.isidentifier() else call.status.value
    return TracedSpan(
        name=f"execute_tool {call.tool}", trace_id=place.trace_id, span_id=span_id_of(call.id),
        parent_id=place.span_id, began=began, ended=ended, attributes=attributes,
        error=named if call.status in _FAILED else None,
    )  # fmt: skip


def _hashed(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size], "big") or 1


_LOG = logging.getLogger(__name__)
_BACKLOG = 1_000
"""Things that ended and are not read yet; more are left out."""
_FAREWELL = 2.0
"""Seconds that the last spans may take to go out."""
_RECENT = 1_000
_SUBTASK_ENDS = frozenset({"subtask_completed", "subtask_failed", "subtask_cancelled"})
_PLAN_ENDS = frozenset({"plan_completed", "plan_cancelled", "plan_rejected"})

Event = Mapping[str, Any]
_Read = Callable[[Tx], list[TracedSpan]]


class Tracing:
    """The way of spans to one collector."""

    def __init__(self, store: Store, endpoint: str, *, content: bool) -> None:
        """Make it ready.

        Args:
            endpoint: The collector's address, without `/v1/traces`.
            content: Spans also tell what people, models and tools said.

        Raises:
            Refused: the library is not installed.
        """
        self._store, self._content = store, content
        self._sender = _Sender(endpoint)
        self._send, self._receive = anyio.create_memory_object_stream[_Read](_BACKLOG)
        self._told: OrderedDict[str, None] = OrderedDict()
        """The turns whose spans are on their way."""
        self._is_full = False

    def observe(self, event: Event) -> None:
        """Look whether an event says that something is over."""
        wanted = self._reading(event)
        if wanted is None:
            return
        try:
            self._send.send_nowait(wanted)
            self._is_full = False
        except anyio.WouldBlock:
            if not self._is_full:
                _LOG.warning("more has ended than can be traced; some spans are left out")
            self._is_full = True

    async def serve(self, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401
        """Hand over spans until cancelled."""
        task_status.started()
        while True:
            await self._hand_over(await self._receive.receive())

    async def close(self) -> None:
        """Hand over what is left, for as long as that may take."""
        with anyio.move_on_after(_FAREWELL) as limit:
            while self._receive.statistics().current_buffer_used:
                await self._hand_over(self._receive.receive_nowait())
            await anyio.to_thread.run_sync(self._sender.end, abandon_on_cancel=True)
        if limit.cancelled_caught:
            self._sender.cut()
        self._send.close()
        self._receive.close()

    def _reading(self, event: Event) -> _Read | None:
        kind, plan_id = event.get("type"), event.get("plan_id", "")
        if kind in _SUBTASK_ENDS:
            subtask = event["metadata"]["subtask_id"]
            return lambda tx: spans_of_subtask(tx, plan_id, subtask, content=self._content)
        if kind in _PLAN_ENDS:
            return lambda tx: spans_of_plan(tx, plan_id, content=self._content)
        turn_id = event.get("turn_id") if event.get("is_final") else None
        return None if turn_id is None else partial(self._read_turn, turn_id)

    def _read_turn(self, turn_id: str, tx: Tx) -> list[TracedSpan]:
        # Several final events may be of one turn, as those of what it asked and of its plan.
        if turn_id in self._told:
            return []
        found = spans_of_turn(tx, turn_id, content=self._content)
        if found:
            self._told[turn_id] = None
            while len(self._told) > _RECENT:
                self._told.popitem(last=False)
        return found

    async def _hand_over(self, read: _Read) -> None:
        found = list[TracedSpan]()
        try:
            # What was taken from the queue is nowhere else.
            with anyio.CancelScope(shield=True):
                found = await self._store.read(read)
            for span in found:
                self._sender.send(span)
        except GonogoError:
            _LOG.warning("the record cannot be read now; some spans are left out")
        except Exception:
            # Whoever only tells what was done must not end what is being done.
            _LOG.exception("spans could not be made")


class _Sender:
    """Gives spans to the library, which sends them in a thread of its own."""

    def __init__(self, endpoint: str) -> None:
        try:
            self._provider, self._exporter, self._ids = _provider(endpoint)
        except ImportError as missing:
            raise Refused(
                "GONOGO_OTLP_ENDPOINT needs a library ({library}): pip install 'gonogo[otel]'",
                library=missing.name,
            ) from None
        self._tracer = self._provider.get_tracer("gonogo", __version__)

    def send(self, span: TracedSpan) -> None:
        """Give one span, as it is."""
        from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode, TraceFlags
        from opentelemetry.trace import NonRecordingSpan as Known
        from opentelemetry.trace import set_span_in_context as under

        def known(trace_id: int, span_id: int) -> SpanContext:
            return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(1))

        above = span.parent_id and under(Known(known(span.trace_id, span.parent_id)))
        links = [Link(known(*span.led_to_by))] if span.led_to_by else []
        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        made = self._tracer.start_span(
            span.name, context=above or None, links=links, attributes=span.attributes,
            kind=SpanKind.CLIENT if span.is_request else SpanKind.INTERNAL,
            start_time=_nanoseconds(span.began),
        )  # fmt: skip
        if span.error is not None:
            made.set_attribute("error.type", span.error)
            made.set_status(StatusCode.ERROR)
        made.end(_nanoseconds(max(span.began, span.ended)))

    def end(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    def cut(self) -> None:
        """Try no longer to send it, so that the process may end."""
        # The end that is under way ends it once more, which the library finds worth a warning.
        logging.getLogger(type(self._exporter).__module__).disabled = True
        self._exporter.shutdown()


def _provider(endpoint: str) -> tuple["TracerProvider", "OTLPSpanExporter", Any]:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import IdGenerator

    class Ids(IdGenerator):
        """Gives the ids that the records have."""

        trace_id = span_id = 1

        def generate_trace_id(self) -> int:
            return self.trace_id

        def generate_span_id(self) -> int:
            return self.span_id

    ids = Ids()
    resource = Resource.create({"service.name": "gonogo", "service.version": __version__})
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider, exporter, ids


def _nanoseconds(when: datetime) -> int:
    return round(when.timestamp() * 1_000_000) * 1_000
