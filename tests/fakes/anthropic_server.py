"""A server that speaks Anthropic's Messages, streamed: it answers the same, and keeps what it got.

With `limit` it refuses a request of more characters in the words of Anthropic.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

START = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
    "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1},
}  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": START},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Well."}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 3},
    },
    {"type": "message_stop"},
]  # fmt: skip


class FakeAnthropic:
    """What was asked, and where."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.bodies: list[dict[str, Any]] = []
        self.limit: int | None = None


@contextmanager
def fake_anthropic() -> Iterator[FakeAnthropic]:
    """The server, while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.bodies.append(body)
            if fake.limit is not None and len(json.dumps(body)) > fake.limit:
                said = "prompt is too long: 210000 tokens > 200000 maximum"
                error = {"type": "invalid_request_error", "message": said}
                self._answer(400, "application/json", json.dumps({"type": "error", "error": error}))
                return
            lines = (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in EVENTS)
            self._answer(200, "text/event-stream", "".join(lines))

        def _answer(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = FakeAnthropic(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
