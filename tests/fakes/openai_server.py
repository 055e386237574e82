"""An OpenAI-compatible server that answers from a script and checks what it is asked.

It speaks streaming and plain Chat Completions under `/v1`, in a process of its own. A script is
JSON, given as a file or by `POST /script` (which also forgets what was recorded):

    {"rules": [{"when": {...}, "replies": [REPLY, ...]}], "replies": [REPLY, ...], "default": REPLY}

The first rule whose `when` fits answers with `replies[n]`, n being the number of assistant messages
in the request, so that a whole conversation is one rule, restarts and parallel subtasks included.
Without a rule the next of the top `replies` answers, in order, then `default`.

`when`: `system`, `last`, `user` (text contained in the system prompt, the last message, any user
message), `tools` (names that are all offered), `assistants` (a number of assistant messages),
`results` (a number of tool results), `model`.

REPLY: `text` (a string, or a list of pieces), `calls` ([{name, arguments, id?}]; a string of
arguments is sent raw), `reasoning`, `finish_reason`, `usage`, `delay` and `pause` (seconds before
the answer, and between pieces), `held` and `held_at` (the answer, or its piece of that number,
waits for `POST /go`), `status` with `error` and `headers`, `cut` (the connection breaks after so
many pieces), `end` (the stream ends properly after so many pieces, unfinished), `chunks` (the
deltas themselves; a string is sent raw). A list of replies in the place of one answers the same
request when it is asked again; its last item answers all the rest.

`GET /violations` and `GET /requests` tell what was wrong and what was asked, `GET /requests/NUMBER`
as soon as that is not the number of requests, or after a second; `GET /v1/models` lists one model.
`python openai_server.py --port 0 --script FILE` prints the base URL.
"""

import argparse
import atexit
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def violations_of(body: dict) -> list[str]:
    """What a strict provider would refuse in a request."""
    messages = body.get("messages", [])
    found = [] if body.get("model") else ["no model"]
    if not messages or all(message["role"] in ("system", "developer") for message in messages):
        found.append("nothing is said")
    elif messages[-1]["role"] == "assistant":
        found.append("the last message is the assistant's")
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    if len(names) != len(set(names)):
        found.append(f"a tool is offered twice: {names}")
    return found + list(_order(messages))


def _order(messages: list[dict]) -> Iterator[str]:
    begun = False
    waiting: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            yield from _result(index, message, waiting, seen)
            continue
        if waiting:
            yield f"message {index} ({role}) comes before the results of {waiting}"
        yield from _said(index, message, begun)
        begun = begun or role not in ("system", "developer")
        waiting = [call["id"] for call in message.get("tool_calls") or []]
        yield from _calls(index, message, seen)
    if waiting:
        yield f"no results of {waiting}"


def _said(index: int, message: dict, begun: bool) -> Iterator[str]:
    role = message["role"]
    if role not in ("system", "developer", "user", "assistant"):
        yield f"message {index} has the role {role!r}"
    if begun and role in ("system", "developer"):
        yield f"message {index} is a {role} message in the middle"
    if not message.get("content") and not message.get("tool_calls"):
        yield f"message {index} ({role}) says nothing"


def _result(index: int, message: dict, waiting: list[str], seen: set[str]) -> Iterator[str]:
    call_id = message.get("tool_call_id")
    if call_id in waiting:
        waiting.remove(call_id)
    else:
        twice = "a second" if call_id in seen else "an orphan"
        yield f"message {index} is {twice} result of {call_id!r}"
    if not isinstance(message.get("content"), (str, list)):
        yield f"message {index} is a result without content"


def _calls(index: int, message: dict, seen: set[str]) -> Iterator[str]:
    for call in message.get("tool_calls") or []:
        if call["id"] in seen:
            yield f"message {index} uses the call id {call['id']!r} again"
        seen.add(call["id"])
        if not TOOL_NAME.fullmatch(call["function"]["name"]):
            yield f"message {index} has the tool name {call['function']['name']!r}"
        try:
            arguments = json.loads(call["function"]["arguments"])
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            yield f"message {index} has arguments that are no JSON object"


def _text(message: dict) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def fits(when: dict, body: dict) -> bool:
    """Whether a rule's condition holds for a request."""
    messages = body["messages"]
    said = {
        role: [message for message in messages if message["role"] == role]
        for role in ("system", "developer", "user", "assistant", "tool")
    }
    offered = {tool["function"]["name"] for tool in body.get("tools", [])}
    standing = "\n".join(map(_text, said["system"] + said["developer"]))
    checks = {
        "system": lambda wanted: wanted in standing,
        "last": lambda wanted: wanted in _text(messages[-1]),
        "user": lambda wanted: any(wanted in _text(message) for message in said["user"]),
        "tools": lambda wanted: set(wanted) <= offered,
        "assistants": lambda wanted: len(said["assistant"]) == wanted,
        "results": lambda wanted: len(said["tool"]) == wanted,
        "model": lambda wanted: body.get("model") == wanted,
    }
    return all(checks[name](wanted) for name, wanted in when.items())


class Script:
    """What is answered, and what has been asked."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self.load({})

    def load(self, script: dict) -> None:
        with self._lock:
            self._script = script
            self._in_order = 0
            self._asked: dict[tuple, int] = {}
            self.requests: list[dict] = []
            self.violations: list[dict] = []
            self._goes = False
            self._lock.notify_all()

    def news(self, known: int) -> list[dict]:
        """The requests, once there are not as many as are known; or after a second."""
        with self._lock:
            self._lock.wait_for(lambda: len(self.requests) != known, timeout=1)
            return list(self.requests)

    def go(self) -> None:
        """Let what is held be answered."""
        with self._lock:
            self._goes = True
            self._lock.notify_all()

    def hold(self) -> None:
        """Wait for `go`, or a minute."""
        with self._lock:
            self._lock.wait_for(lambda: self._goes, timeout=60)

    def answer(self, body: dict, headers: dict) -> dict:
        """Record a request and find its reply."""
        with self._lock:
            number = len(self.requests)
            self.requests.append({"number": number, "headers": headers, "body": body})
            self._lock.notify_all()
            found = violations_of(body)
            place, reply = self._find(body)
            if reply is None:
                found.append("the script has no reply")
                reply = {"status": 500, "error": "The script has no reply"}
            self.violations += [{"request": number, "violation": text} for text in found]
            if not isinstance(reply, list):
                return reply
            asked = self._asked.get(place, 0)
            self._asked[place] = asked + 1
            return reply[min(asked, len(reply) - 1)]

    def _find(self, body: dict) -> tuple[tuple, dict | list | None]:
        turn = sum(message["role"] == "assistant" for message in body.get("messages", []))
        for index, rule in enumerate(self._script.get("rules", [])):
            if not fits(rule.get("when", {}), body):
                continue
            if "reply" in rule:
                return (index, json.dumps(body["messages"])), rule["reply"]
            if turn < len(rule["replies"]):
                return (index, json.dumps(body["messages"])), rule["replies"][turn]
        replies = self._script.get("replies", [])
        if self._in_order < len(replies):
            self._in_order += 1
            return (), replies[self._in_order - 1]
        return ("default",), self._script.get("default")


def pieces_of(reply: dict) -> list[dict | str]:
    """The deltas of a streamed reply."""
    if "chunks" in reply:
        return reply["chunks"]
    text = reply.get("text", [])
    if isinstance(text, str):
        text = [text[start : start + 12] for start in range(0, len(text), 12)]
    pieces: list[dict] = [{"role": "assistant", "content": ""}]
    if "reasoning" in reply:
        pieces.append({"reasoning_content": reply["reasoning"]})
    pieces += [{"content": piece} for piece in text]
    for index, call in enumerate(calls_of(reply)):
        function = call["function"]
        arguments = function["arguments"]
        half = len(arguments) // 2
        first = {**call, "index": index, "function": {**function, "arguments": ""}}
        pieces.append({"tool_calls": [first]})
        for piece in (arguments[:half], arguments[half:]):
            pieces.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    return pieces


def calls_of(reply: dict) -> list[dict]:
    """The tool calls of a reply as OpenAI writes them."""
    return [
        {
            "id": call.get("id", f"raw_{index}"),
            "type": "function",
            "function": {
                "name": call["name"],
                "arguments": call["arguments"]
                if isinstance(call.get("arguments"), str)
                else json.dumps(call.get("arguments", {})),
            },
        }
        for index, call in enumerate(reply.get("calls", []))
    ]


def finish_of(reply: dict) -> str:
    """Why a reply ended."""
    return reply.get("finish_reason", "tool_calls" if reply.get("calls") else "stop")


def usage_of(reply: dict) -> dict:
    """What a reply cost."""
    usage = {"prompt_tokens": 100, "completion_tokens": 20, **reply.get("usage", {})}
    return {**usage, "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"]}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        script = self.server.script
        match self.path:
            case "/violations":
                self._json(200, script.violations)
            case "/requests":
                self._json(200, script.requests)
            case path if path.startswith("/requests/"):
                self._json(200, script.news(int(path.removeprefix("/requests/"))))
            case "/v1/models":
                self._json(200, {"object": "list", "data": [{"id": "scripted"}]})
            case _:
                self._json(404, {"error": {"message": f"no {self.path}"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/script":
            self.server.script.load(body)
            self._json(200, {})
            return
        if self.path == "/go":
            self.server.script.go()
            self._json(200, {})
            return
        if self.path != "/v1/chat/completions":
            self._json(404, {"error": {"message": f"no {self.path}"}})
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.script.answer(body, headers)
        if reply.get("held"):
            self.server.script.hold()
        time.sleep(reply.get("delay", 0))
        if "status" in reply:
            self._fail(reply)
        elif body.get("stream"):
            self._stream(reply, body)
        else:
            self._whole(reply, body)

    def _fail(self, reply: dict) -> None:
        error = reply.get("error", "scripted failure")
        if isinstance(error, str):
            error = {"message": error, "type": "scripted", "code": None}
        self._json(reply["status"], {"error": error}, reply.get("headers", {}))

    def _whole(self, reply: dict, body: dict) -> None:
        text = reply.get("text")
        message = {
            "role": "assistant",
            "content": "".join(text) if isinstance(text, list) else text,
            "tool_calls": calls_of(reply) or None,
        }
        choice = {"index": 0, "message": message, "finish_reason": finish_of(reply)}
        answer = {**self._frame(body, "chat.completion"), "choices": [choice]}
        self._json(200, {**answer, "usage": usage_of(reply)})

    def _stream(self, reply: dict, body: dict) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        frame = self._frame(body, "chat.completion.chunk")
        pieces = pieces_of(reply)
        for number, piece in enumerate(pieces[: reply.get("cut", reply.get("end", len(pieces)))]):
            if number == reply.get("held_at"):
                self.server.script.hold()
            if isinstance(piece, str):
                self._chunk(f"data: {piece}\n\n".encode())
            else:
                self._event({**frame, "choices": [{"index": 0, "delta": piece}]})
            time.sleep(reply.get("pause", 0))
        if "cut" in reply:
            self.close_connection = True
            return
        if "end" not in reply:
            last = {"index": 0, "delta": {}, "finish_reason": finish_of(reply)}
            self._event({**frame, "choices": [last]})
            self._event({**frame, "choices": [], "usage": usage_of(reply)})
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _frame(self, body: dict, kind: str) -> dict:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": body.get("model")}

    def _event(self, value: dict) -> None:
        self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _json(self, status: int, value: object, headers: dict | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """All connections, and the one script."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script = Script()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, *_args: object) -> None:
        """A client that goes away is no news."""


class FakeOpenAI:
    """The running server, seen from a test."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.root = base_url.removesuffix("/v1")

    def script(self, script: dict) -> None:
        """Answer by this script from now on, and forget what was recorded."""
        self._call("/script", json.dumps(script).encode())

    def go(self) -> None:
        """Have it give the answers that it holds."""
        self._call("/go", b"{}")

    def replies(self, *replies: dict) -> None:
        """Answer with these, in order."""
        self.script({"replies": list(replies)})

    @property
    def requests(self) -> list[dict]:
        """The bodies of the requests so far."""
        return [request["body"] for request in self._call("/requests")]

    def news(self, known: int) -> list[dict]:
        """The bodies of the requests, once they are not as many as are known."""
        return [request["body"] for request in self._call(f"/requests/{known}")]

    @property
    def headers(self) -> list[dict]:
        """The headers of the requests so far, their names in lower case."""
        return [request["headers"] for request in self._call("/requests")]

    @property
    def violations(self) -> list[dict]:
        """What was wrong with them: `{request, violation}` each."""
        return self._call("/violations")

    def _call(self, path: str, data: bytes | None = None) -> list:
        with urllib.request.urlopen(self.root + path, data, timeout=60) as answer:  # noqa: S310
            return json.load(answer)


@contextmanager
def fake_openai(script: dict | None = None, port: int = 0) -> Iterator[FakeOpenAI]:
    """Run the server until the block ends, on a free port unless one is named."""
    orders, births = _nest()
    orders.write(f"{port}\n")
    pid, url = births.readline().split()
    life = os.pidfd_open(int(pid))
    try:
        server = FakeOpenAI(url)
        server.script(script or {})
        yield server
    finally:
        signal.pidfd_send_signal(life, signal.SIGKILL)
        select.select([life], [], [], 60)
        os.close(life)


@cache
def _nest() -> tuple[IO[str], IO[str]]:
    """A process that forks a server for each line with a port; to start a Python takes longer."""
    command = [sys.executable, "-I", str(Path(__file__).resolve()), "--nest"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdin is not None
    assert process.stdout is not None
    atexit.register(process.__exit__, None, None, None)
    return process.stdin, process.stdout


def _bear() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that ended leave nothing behind
    while order := sys.stdin.readline():
        if os.fork() == 0:
            server = Server(int(order))
            say(f"{os.getpid()} {server.url}")
            server.serve_forever()


def say(line: str) -> None:
    """Tell whoever started this process."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until killed."""
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--script", type=Path)
    options.add_argument("--nest", action="store_true")
    chosen = options.parse_args()
    if chosen.nest:
        _bear()
    else:
        _serve(Server(chosen.port), chosen.script)


def _serve(server: Server, script: Path | None) -> None:
    if script:
        server.script.load(json.loads(script.read_text()))
    say(server.url)
    server.serve_forever()


if __name__ == "__main__":
    main()
