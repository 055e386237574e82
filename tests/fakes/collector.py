"""A collector of traces: takes OTLP over HTTP, and keeps the spans that it was sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Received(NamedTuple):
    """One span as it came over the wire."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    began: int
    ended: int
    failed: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]
    links: list[tuple[str, str]]


class Collector:
    """What was received, and where."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.paths: list[str] = []
        self.refuses = False
        self.endpoint = ""
        self._news = threading.Condition()

    def until(self, number: int, seconds: float = 30) -> list[Received]:
        """Wait until there are so many spans."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.spans) >= number, seconds), self.spans
            return list(self.spans)

    def take(self, path: str, body: bytes) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        with self._news:
            self.paths.append(path)
            for of in request.resource_spans:
                resource = _values(of.resource.attributes)
                for scope in of.scope_spans:
                    self.spans += [_received(span, resource) for span in scope.spans]
            self._news.notify_all()


def _received(span: Any, resource: dict[str, Any]) -> Received:
    return Received(
        span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.kind,
        span.start_time_unix_nano, span.end_time_unix_nano, span.status.code == 2,
        _values(span.attributes), resource,
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    )  # fmt: skip


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector until the block ends, on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not collector.refuses:
                collector.take(self.path, body)
            self.send_response(400 if collector.refuses else 200)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    collector.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
