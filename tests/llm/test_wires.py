"""What each provider is sent for a conversation with calls fits the provider's own types, and what
it says of tokens is kept by its classes."""

import json

import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk

from fakes.provider_servers import (
    AnthropicWire,
    ChatWire,
    GoogleWire,
    ResponsesWire,
    provider_server,
)
from gonogo.domain.tool_calls import Reply, ToolAnswer, ToolRequest, Usage, UserText
from gonogo.llm import ModelSettings, open_model
from gonogo.llm.choice import read_quickly
from gonogo.tools import builtin_tools

pytestmark = pytest.mark.anyio
WIRES = {
    "anthropic:claude-sonnet-5-5": (AnthropicWire, "ANTHROPIC_BASE_URL", ""),
    "openai-chat:gpt-6.1-sol": (ChatWire, "OPENAI_BASE_URL", "/v1"),
    "openai-responses:gpt-6.1-sol": (ResponsesWire, "OPENAI_BASE_URL", "/v1"),
    "google:gemini-4-carbon": (GoogleWire, "GOOGLE_GEMINI_BASE_URL", ""),
}
CLASSES = {
    "anthropic:claude-sonnet-5-5": (100, 70, 20, 30, 0),
    "openai-chat:gpt-6.1-sol": (100, 70, 0, 30, 12),
    "openai-responses:gpt-6.1-sol": (100, 70, 20, 30, 12),
    "google:gemini-4-carbon": (100, 70, 0, 30, 12),
}
FOREIGN = Reply(
    text="I read it first.", model="openai:other", raw={"kind": "response", "parts": "of theirs"},
    calls=(ToolRequest(id="call_000000000000000000000001", name="read_file",
                       arguments={"path": "a.py"}),),
)  # fmt: skip
READ = ToolAnswer(call_id=FOREIGN.calls[0].id, tool_name="read_file", content="print()")


_UNKNOWN_ROLE = {"model": "m", "stream": True, "messages": [{"role": "nobody", "content": "a"}]}
_TOO_MUCH = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "a", "b": 1}]}


@pytest.mark.parametrize(
    ("wire", "body", "problem"),
    [
        (ChatWire, _UNKNOWN_ROLE, r"messages\[0\]"),
        (ChatWire, _TOO_MUCH, "has b"),
        (AnthropicWire, {**_TOO_MUCH, "max_tokens": 1}, "has b"),
        (AnthropicWire, {"model": "m", "stream": True, "messages": []}, "lacks max_tokens"),
        (ResponsesWire, {"model": "m", "stream": True, "input": [], "reasoning": 1}, "reasoning"),
        (ResponsesWire, {"model": "m", "stream": False}, "stream"),
        (GoogleWire, {"contents": [{"parts": 1}], "systemInstruction": {}}, "parts"),
        (GoogleWire, {"contents": [], "systemInstruction": {}, "b": 1}, "not known"),
    ],
)
def test_what_a_providers_library_does_not_know_is_a_violation(wire, body, problem):
    with pytest.raises(ValueError, match=problem):
        wire().check(body)


@pytest.mark.feature(229)
@pytest.mark.parametrize("name", WIRES)
async def test_a_thread_with_calls_that_another_model_began_is_gone_on_with_in_its_own_protocol(
    name, asked, monkeypatch
):
    wire, variable, end = WIRES[name]
    script = [
        {"text": "Now b.", "calls": [{"name": "read_file", "arguments": {"path": "b.py"}}]},
        {"text": "Done."},
    ]
    with provider_server(wire(), lambda body: script[min(len(server.requests), 2) - 1]) as server:
        monkeypatch.setenv(variable, server.url + end)
        settings = ModelSettings(
            name=name, api_key="k-of-a-test", max_attempts=1, effort="high", timeout=60
        )
        model = open_model(settings, {})
        told = [UserText(content="Begin."), FOREIGN, READ]
        first = await model.request(asked(*told, cache_key="thread_1"), lambda _text: None)
        assert (first.text, [call.arguments for call in first.calls]) == (
            "Now b.", [{"path": "b.py"}],
        )  # fmt: skip
        second = ToolAnswer(call_id=first.calls[0].id, tool_name="read_file", content="2")
        thread = asked(*told, first, second, cache_key="thread_1")
        last = await model.request(thread, lambda _text: None)
        await model.aclose()
    assert (last.text, last.model) == ("Done.", name)
    assert server.violations == []
    said = str(server.requests[-1])
    assert "I read it first." in said
    assert "print()" in said
    assert "of theirs" not in said
    assert {
        "anthropic": "thinking",
        "openai-chat": "reasoning_effort",
        "openai-responses": "reasoning",
        "google": "thinkingConfig",
    }[name.partition(":")[0]] in said
    # What a provider needs to be told of its cache; Google's finds by itself what it has.
    marks = {"anthropic": "cache_control", "google": ""}
    assert marks.get(name.partition(":")[0], "'prompt_cache_key': 'thread_1'") in said
    usage = last.usage
    assert CLASSES[name] == (
        usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens,
        usage.reasoning_tokens,
    )  # fmt: skip
    assert isinstance(usage, Usage)


@pytest.mark.parametrize("name", WIRES)
async def test_what_each_provider_streamed_is_played_from_a_cassette_without_it(
    name, asked, monkeypatch, tmp_path
):
    wire, variable, end = WIRES[name]
    tape = tmp_path / "tape.jsonl"
    script = {"text": "Now b.", "calls": [{"name": "read_file", "arguments": {"path": "b.py"}}]}
    told = (UserText(content="Begin."), FOREIGN, READ)
    with provider_server(wire(), lambda _body: script) as server:
        monkeypatch.setenv(variable, server.url + end)
        recorded = await _asked(asked(*told), name=name, api_key="k-of-a-test", record=tape)
        times = len(server.requests)
        played = await _asked(asked(*told), name=f"replay:{tape}")
        assert len(server.requests) == times == 1
    before, now = (each.usage.model_dump(exclude={"duration_ms"}) for each in (recorded, played))
    assert (played.text, now) == (recorded.text, before)
    assert [call.arguments for call in played.calls] == [{"path": "b.py"}]


async def _asked(request, **given):
    model = open_model(ModelSettings(**given, max_attempts=1, timeout=60), {})
    reply = await model.request(request, lambda _text: None)
    await model.aclose()
    return reply


@pytest.mark.parametrize(
    "name", ["openai:scripted", "openai-chat:gpt-6.1-sol", "openai-responses:gpt-6.1-sol"]
)
async def test_openai_is_sent_byte_for_byte_what_its_library_would_make_of_the_request(
    name, asked, monkeypatch, tmp_path
):
    wire = ResponsesWire if name.startswith("openai-responses") else ChatWire
    script = {"text": "Now b.", "calls": [{"name": "read_file", "arguments": {"path": "b.py"}}]}
    tools = tuple(tool.schema() for tool in builtin_tools().values())
    with provider_server(wire(), lambda _body: script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        base_url = f"{server.url}/v1" if name == "openai:scripted" else None

        async def sent(tape):
            told = [UserText(content='Bégin \u2028 "here".'), FOREIGN, READ]
            given = {"name": name, "base_url": base_url, "api_key": "k-of-a-test", "record": tape}
            reply = await _asked(asked(*told, tools=tools), **given)
            again = ToolAnswer(call_id=reply.calls[0].id, tool_name="read_file", content="2")
            await _asked(asked(*told, reply, again, tools=()), **given)
            ids = {reply.calls[0].id: "ID"}
            return [_body(line, ids) for line in tape.read_bytes().splitlines()]

        ours = await sent(tmp_path / "ours.jsonl")
        monkeypatch.setattr("gonogo.llm.choice.send_as_built", lambda _client: None)
        assert ours == await sent(tmp_path / "theirs.jsonl")
    assert all(f'"name":"{tool.name}"' in ours[0] for tool in tools)
    assert '"tools"' not in ours[1]


def _body(line, ids):
    body = json.loads(line)["body"]
    for known, word in ids.items():
        body = body.replace(known, word)
    return body


PIECES = [
    {"delta": {"content": "word "}},
    {"delta": {"role": "assistant", "content": "", "reasoning_content": "why"}, "logprobs": None},
    {"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]}, "more": [1]},
    {"delta": {"content": 5}, "finish_reason": "none that is known"},
    {"index": "0", "delta": None},
    {},
]


@pytest.mark.parametrize("piece", PIECES)
def test_each_piece_of_an_answer_is_read_as_openais_library_reads_it(piece):
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    for data in (chunk | {"choices": [{"index": 0, **piece}]}, chunk | piece, piece):
        theirs, ours = (AsyncOpenAI(api_key="k-of-a-test") for _ in range(2))
        read_quickly(ours)
        first, second = (
            client._process_response_data(data=data, cast_to=ChatCompletionChunk, response=None)
            for client in (theirs, ours)
        )
        assert (second, repr(second), second.model_extra) == (first, repr(first), first.model_extra)
