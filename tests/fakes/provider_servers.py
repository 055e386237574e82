"""Servers that speak the providers' own protocols, and check requests by the providers' own types.

Each answers with what a function of the request's body says: `{text, calls: [{name, arguments}],
status, error, headers}`. What a body has that its provider's library does not know, or lacks, is a
violation; so is what an answer has that the library does not know.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from pydantic import TypeAdapter
from typing_extensions import get_type_hints, is_typeddict

from fakes.openai_server import finish_of, pieces_of, violations_of

Answer = Callable[[dict[str, Any]], dict[str, Any]]
Event = tuple[str | None, dict[str, Any]]


def checked(kind: Any, value: Any) -> None:
    """Check that a value is of a type of a provider's library, and has nothing beyond it.

    Pydantic will not do: it looks into no `Iterable`, and lets a `TypedDict` have more.

    Raises:
        ValueError: it is not, or has.
    """
    if wrong := next(_wrong(kind, value, "the body"), None):
        raise ValueError(wrong)


def _wrong(kind: Any, value: Any, place: str) -> Iterator[str]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Required, NotRequired, Annotated):
        yield from _wrong(arguments[0], value, place)
    elif origin in (Union, UnionType):
        told = [next(_wrong(each, value, place), None) for each in arguments]
        if None not in told:
            yield f"{told[0]}, and is of no other form"
    elif is_typeddict(kind) and isinstance(value, dict):
        yield from _wrong_fields(kind, value, place)
    elif origin in (dict, list, Iterable, Sequence) and isinstance(value, dict | list):
        is_dict = isinstance(value, dict)
        for name, each in value.items() if is_dict else enumerate(value):
            yield from _wrong(arguments[is_dict], each, f"{place}[{name!r}]")
    elif not _is(kind, value):
        yield f"{place} is {value!r}"


def _is(kind: Any, value: Any) -> bool:
    """Whether a value is of a type without parts."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (Any, object):
        return True
    return (
        isinstance(kind or type(None), type)
        and not is_typeddict(kind)
        and isinstance(value, kind or type(None))
    )


def _wrong_fields(kind: Any, value: dict[str, Any], place: str) -> Iterator[str]:
    fields = get_type_hints(kind, include_extras=True)
    if beyond := sorted(value.keys() - fields.keys()):
        yield f"{place} has {', '.join(beyond)}"
    must = kind.__required_keys__ | {
        n for n, each in fields.items() if get_origin(each) is Required
    }
    if missing := sorted(must - value.keys()):
        yield f"{place} lacks {', '.join(missing)}"
    for name in value.keys() & fields.keys():
        yield from _wrong(fields[name], value[name], f"{place}.{name}")


class AnthropicWire:
    """Anthropic's Messages."""

    path = "/v1/messages"

    def check(self, body: dict[str, Any]) -> None:
        from anthropic.types.message_create_params import MessageCreateParamsStreaming

        checked(MessageCreateParamsStreaming, body)

    def check_event(self, event: dict[str, Any]) -> None:
        from anthropic.types import RawMessageStreamEvent

        TypeAdapter(RawMessageStreamEvent).validate_python(event)

    def events(self, reply: dict[str, Any], body: dict[str, Any]) -> Iterator[Event]:
        usage = {
            "input_tokens": 10, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 20,
            "output_tokens": 1,
        }  # fmt: skip
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        yield "message_start", {"message": message}
        for index, (block, delta) in enumerate(self._blocks(reply)):
            yield "content_block_start", {"index": index, "content_block": block}
            yield "content_block_delta", {"index": index, "delta": delta}
            yield "content_block_stop", {"index": index}
        reason = "tool_use" if reply.get("calls") else "end_turn"
        end = {"stop_reason": reason, "stop_sequence": None}
        yield "message_delta", {"delta": end, "usage": {"output_tokens": 30}}
        yield "message_stop", {}

    def _blocks(self, reply: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        if text := reply.get("text"):
            yield {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
        for number, call in enumerate(reply.get("calls", [])):
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": call["name"], "input": {}}
            written = json.dumps(call["arguments"])
            yield block, {"type": "input_json_delta", "partial_json": written}


class ChatWire:
    """OpenAI's Chat Completions."""

    path = "/v1/chat/completions"

    def check(self, body: dict[str, Any]) -> None:
        from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

        checked(CompletionCreateParamsStreaming, body)
        if wrong := violations_of(body):
            raise ValueError("; ".join(wrong))

    def check_event(self, event: dict[str, Any]) -> None:
        from openai.types.chat import ChatCompletionChunk

        ChatCompletionChunk.model_validate(event)

    def events(self, reply: dict[str, Any], body: dict[str, Any]) -> Iterator[Event]:
        frame = {
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
            "model": body["model"],
        }  # fmt: skip
        for piece in pieces_of(reply):
            choice = {"index": 0, "delta": piece, "finish_reason": None}
            yield None, {**frame, "choices": [choice]}
        end = {"index": 0, "delta": {}, "finish_reason": finish_of(reply)}
        yield None, {**frame, "choices": [end]}
        usage = {
            "prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 70},
            "completion_tokens": 30, "completion_tokens_details": {"reasoning_tokens": 12},
            "total_tokens": 130,
        }  # fmt: skip
        yield None, {**frame, "choices": [], "usage": usage}


class ResponsesWire:
    """OpenAI's Responses."""

    path = "/v1/responses"

    def check(self, body: dict[str, Any]) -> None:
        from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

        checked(ResponseCreateParamsStreaming, body)

    def check_event(self, event: dict[str, Any]) -> None:
        from openai.types.responses import ResponseStreamEvent

        TypeAdapter(ResponseStreamEvent).validate_python(event)

    def events(self, reply: dict[str, Any], body: dict[str, Any]) -> Iterator[Event]:
        items = list(self._items(reply))
        whole = {
            "id": "resp_1", "object": "response", "created_at": 1, "model": body["model"],
            "output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "status": "in_progress",
        }  # fmt: skip
        yield "response.created", {"response": whole}
        for index, item in enumerate(items):
            yield "response.output_item.added", {"output_index": index, "item": _opened(item)}
            if item["type"] == "message":
                delta = {
                    "output_index": index, "item_id": item["id"], "content_index": 0,
                    "delta": item["content"][0]["text"], "logprobs": [],
                }  # fmt: skip
                yield "response.output_text.delta", delta
            else:
                delta = {"output_index": index, "item_id": item["id"], "delta": item["arguments"]}
                yield "response.function_call_arguments.delta", delta
            yield "response.output_item.done", {"output_index": index, "item": item}
        usage = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 70, "cache_write_tokens": 20},
            "output_tokens": 30, "output_tokens_details": {"reasoning_tokens": 12},
            "total_tokens": 130,
        }  # fmt: skip
        done = {**whole, "status": "completed", "output": items, "usage": usage}
        yield "response.completed", {"response": done}

    def _items(self, reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if text := reply.get("text"):
            part = {"type": "output_text", "text": text, "annotations": []}
            yield {
                "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [part],
            }  # fmt: skip
        for number, call in enumerate(reply.get("calls", [])):
            yield {
                "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
                "name": call["name"], "arguments": json.dumps(call["arguments"]),
                "status": "completed",
            }  # fmt: skip


def _opened(item: dict[str, Any]) -> dict[str, Any]:
    empty = {"content": []} if item["type"] == "message" else {"arguments": ""}
    return {**item, **empty, "status": "in_progress"}


class GoogleWire:
    """Google's streamed content."""

    path = ":streamGenerateContent"

    def check(self, body: dict[str, Any]) -> None:
        from google.genai import types

        TypeAdapter(list[types.Content]).validate_python(body["contents"])
        TypeAdapter(list[types.Tool]).validate_python(body.get("tools", []))
        TypeAdapter(types.Content).validate_python(body["systemInstruction"])
        TypeAdapter(types.GenerateContentConfig).validate_python(body.get("generationConfig", {}))
        parts = {"contents", "tools", "systemInstruction", "generationConfig", "toolConfig"}
        if beyond := body.keys() - parts:
            raise ValueError(f"not known to the library: {', '.join(sorted(beyond))}")

    def check_event(self, event: dict[str, Any]) -> None:
        from google.genai import types

        types.GenerateContentResponse.model_validate(event)

    def events(self, reply: dict[str, Any], body: dict[str, Any]) -> Iterator[Event]:
        del body
        parts = [{"text": reply["text"]}] if reply.get("text") else []
        parts += [
            {"functionCall": {"name": call["name"], "args": call["arguments"]}}
            for call in reply.get("calls", [])
        ]
        content = {"role": "model", "parts": parts}
        usage = {
            "promptTokenCount": 100, "cachedContentTokenCount": 70, "candidatesTokenCount": 18,
            "thoughtsTokenCount": 12, "totalTokenCount": 130,
        }  # fmt: skip
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        yield None, {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini"}


class ProviderServer:
    """A running one, seen from a test."""

    def __init__(self, wire: Any, answer: Answer) -> None:
        self.wire, self.answer = wire, answer
        self.requests: list[dict[str, Any]] = []
        self.violations: list[str] = []
        self.url = ""

    def take(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Record a request, check it, and find its reply."""
        self.requests.append(body)
        if self.wire.path not in path:
            self.violations.append(f"asked at {path}")
        try:
            self.wire.check(body)
        except (ValueError, KeyError) as error:
            self.violations.append(str(error))
        return self.answer(body)

    def told(self, reply: dict[str, Any], body: dict[str, Any]) -> Iterator[bytes]:
        """The lines of an answer, each checked."""
        for number, (name, data) in enumerate(self.wire.events(reply, body)):
            typed = {"type": name, "sequence_number": number, **data} if name else data
            try:
                self.wire.check_event(typed)
            except ValueError as error:
                self.violations.append(str(error))
            head = f"event: {name}\n" if name else ""
            yield f"{head}data: {json.dumps(typed)}\n\n".encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: ProviderServer

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = self.seen.take(self.path, body)
        if "status" in reply:
            self._whole(reply["status"], {"error": {"message": reply.get("error", "no")}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for lines in self.seen.told(reply, body):
            self.wfile.write(lines)
        self.close_connection = True

    def _whole(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def provider_server(wire: Any, answer: Answer) -> Iterator[ProviderServer]:
    """Run a server until the block ends."""
    seen = ProviderServer(wire, answer)
    handler = type("Handler", (_Handler,), {"seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    seen.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()
