"""Hands the spans of what is over to a collector, by OTLP.

It reads the record once something has ended, beside the work and never before it. A collector that
is away, or too slow, costs spans and nothing else. The library is loaded only where an operator has
named a collector.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from gonogo import __version__
from gonogo.domain.errors import GonogoError, Refused
from gonogo.store import Store, Tx
from gonogo.telemetry.spans import TracedSpan, spans_of_plan, spans_of_subtask, spans_of_turn

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider

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
        kind = event.get("type")
        if kind in _SUBTASK_ENDS:
            subtask = event["metadata"]["subtask_id"]
            return partial(_read_subtask, event["plan_id"], subtask, self._content)
        if kind in _PLAN_ENDS:
            return partial(_read_plan, event["plan_id"], self._content)
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


def _read_subtask(plan_id: str, subtask_id: str, content: bool, tx: Tx) -> list[TracedSpan]:
    return spans_of_subtask(tx, plan_id, subtask_id, content=content)


def _read_plan(plan_id: str, content: bool, tx: Tx) -> list[TracedSpan]:
    return spans_of_plan(tx, plan_id, content=content)


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
