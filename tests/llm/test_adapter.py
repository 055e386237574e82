"""Our messages and pydantic-ai's: nothing is lost or added on the way there and back."""

import json
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as some
from pydantic_ai import messages as theirs
from pydantic_ai.usage import RequestUsage

from gonogo.domain.tool_calls import (
    Instructions,
    ModelRequest,
    Reply,
    Steering,
    ToolAnswer,
    ToolRequest,
    ToolSchema,
    UserText,
    repaired,
)
from gonogo.llm.model import CUT_OFF, TokenPrice
from gonogo.llm.provider import Converter, ProviderTraits, from_provider, parameters

TEXT = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
SAID = TEXT.filter(str.strip)
NAME = some.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
ID = some.from_regex(r"call_[0-9a-f]{24}", fullmatch=True)
NUMBER = some.integers(-(2**60), 2**60) | some.floats(allow_nan=False, allow_infinity=False)
JSON = some.recursive(
    some.none() | some.booleans() | NUMBER | TEXT,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALL = some.builds(
    ToolRequest,
    id=ID,
    name=NAME,
    arguments=some.dictionaries(TEXT, JSON, max_size=3),
    problem=some.none(),
)
REPLY = some.builds(
    Reply,
    text=SAID | some.just(""),
    calls=some.lists(CALL, max_size=3, unique_by=lambda call: call.id).map(tuple),
    model=some.just("openai:x"),
    raw=some.none(),
)
CONVERSATION = some.lists(some.builds(UserText, content=SAID) | REPLY, max_size=6).map(
    lambda messages: repaired(messages, "no answer")
)


def back(messages):
    for message in messages:
        if isinstance(message, theirs.ModelResponse):
            yield their_reply(message)
            continue
        for part in message.parts:
            if isinstance(part, theirs.UserPromptPart):
                yield UserText(content=part.content)
            else:
                yield ToolAnswer(
                    call_id=part.tool_call_id,
                    tool_name=part.tool_name,
                    content=part.content,
                    is_error=part.outcome == "failed",
                )


def their_reply(response):
    calls = [part for part in response.parts if isinstance(part, theirs.ToolCallPart)]
    return Reply(
        text="".join(part.content for part in response.parts if hasattr(part, "content")),
        calls=tuple(
            ToolRequest(id=call.tool_call_id, name=call.tool_name, arguments=call.args)
            for call in calls
        ),
        model="openai:x",
    )


@given(CONVERSATION)
def test_a_conversation_comes_back_as_it_went(messages):
    assert (
        tuple(back(Converter("anthropic:y", ProviderTraits(marks_errors=True)).of(messages)))
        == messages
    )


PART = (
    some.builds(theirs.TextPart, content=some.text(max_size=40))
    | some.builds(theirs.ThinkingPart, content=some.text(max_size=40))
    | some.builds(
        theirs.ToolCallPart,
        tool_name=some.text(max_size=20),
        args=some.text(max_size=40) | some.dictionaries(TEXT, JSON, max_size=3).map(json.dumps),
        tool_call_id=some.text(max_size=5),
    )
)
RESPONSE = some.builds(
    theirs.ModelResponse,
    parts=some.lists(PART, max_size=5),
    finish_reason=some.sampled_from(["stop", "length", "tool_call", None]),
    usage=some.builds(RequestUsage, input_tokens=some.integers(0, 9)),
)


@given(
    some.builds(
        RequestUsage,
        **{
            name: some.integers(-(10**20), 10**20)
            for name in (
                "input_tokens",
                "cache_read_tokens",
                "cache_write_tokens",
                "output_tokens",
                "output_reasoning_tokens",
            )
        },
    )
)
def test_what_a_provider_says_of_tokens_can_be_stored_and_no_part_is_more_than_the_whole(said):
    response = theirs.ModelResponse(parts=[theirs.TextPart("Hi")], usage=said)
    usage = from_provider(response, "openai:x", 1.0).usage
    assert 0 <= usage.cached_tokens <= usage.input_tokens < 2**31
    assert 0 <= usage.cache_write_tokens <= usage.input_tokens
    assert 0 <= usage.reasoning_tokens <= usage.output_tokens < 2**31
    if 0 <= said.cache_read_tokens <= said.input_tokens < 10**9:
        assert (usage.input_tokens, usage.cached_tokens) == (
            said.input_tokens, said.cache_read_tokens,
        )  # fmt: skip


@given(RESPONSE)
def test_every_reply_can_be_stored_and_sent_back_in_its_own_form(response):
    reply = from_provider(response, "openai:x", 1.0)
    stored = Reply.model_validate_json(reply.model_dump_json())
    (sent,) = Converter("openai:x").of([stored])
    calls = [part for part in sent.parts if isinstance(part, theirs.ToolCallPart)]
    assert stored == reply
    assert [type(part) for part in sent.parts] == [type(part) for part in response.parts]
    assert [call.tool_call_id for call in calls] == [call.id for call in reply.calls]
    assert all(isinstance(json.loads(call.args_as_json_str()), dict) for call in calls)


@given(RESPONSE)
def test_a_call_has_arguments_or_a_problem_and_an_id_of_its_own(response):
    calls = from_provider(response, "openai:x", 1.0).calls
    assert all((call.arguments is None) != (call.problem is None) for call in calls)
    assert len({call.id for call in calls}) == len(calls)


@given(CONVERSATION)
def test_shortened_ids_still_join_each_answer_to_its_call(messages):
    found = list(back(Converter("mistral:x", ProviderTraits(id_length=9)).of(messages)))
    calls = [call.id for message in found if isinstance(message, Reply) for call in message.calls]
    answers = [message.call_id for message in found if isinstance(message, ToolAnswer)]
    assert calls == answers
    assert all(len(call_id) == 9 for call_id in calls)


def test_an_error_is_marked_where_that_can_be_done_and_else_its_text_is_left_alone():
    answer = ToolAnswer(call_id="call_1", tool_name="t", content="No", is_error=True)
    (marked,) = Converter("anthropic:y", ProviderTraits(marks_errors=True)).of([answer])
    (plain,) = Converter("openai:x").of([answer])
    assert (marked.parts[0].outcome, plain.parts[0].outcome) == ("failed", "success")
    assert plain.parts[0].content == "No"


def test_blank_text_is_said_to_be_empty():
    blank = [UserText(content=" "), ToolAnswer(call_id="call_1", tool_name="t", content="")]
    (request,) = Converter("openai:x").of(blank)
    assert [part.content for part in request.parts] == ["(empty)", "(empty)"]


def test_arguments_that_somebody_has_put_together_may_lack_their_end_when_a_reply_was_cut_off():
    part = theirs.ToolCallPart(tool_name="t", args={"path": "a", "content": "ha"}, tool_call_id="1")
    for reason, problem in (("stop", None), ("length", CUT_OFF)):
        response = theirs.ModelResponse(parts=[part], finish_reason=reason)
        [call] = from_provider(response, "openai:x", 1.0).calls
        assert call.problem == problem


def test_a_name_and_an_id_are_sent_as_providers_want_them():
    answer = ToolAnswer(call_id="call_" + "1" * 24, tool_name="a b/" + "c" * 99, content="x")
    (request,) = Converter("m", ProviderTraits(id_length=9)).of([answer])
    [part] = request.parts
    assert (part.tool_name, part.tool_call_id) == ("a_b_" + "c" * 60, "1" * 9)
    (request,) = Converter("m").of([answer.model_copy(update={"tool_name": ""})])
    assert (request.parts[0].tool_name, request.parts[0].tool_call_id) == (
        "unnamed",
        answer.call_id,
    )
    assert ProviderTraits() == ProviderTraits(id_length=None, marks_errors=False)


def test_what_cannot_be_read_goes_back_with_its_beginning_alone():
    part = theirs.ToolCallPart(tool_name="t\0", args="{" + "x" * 3_000, tool_call_id="1")
    reply = from_provider(theirs.ModelResponse(parts=[part], finish_reason="tool_call"), "m", 1.5)
    [call] = reply.calls
    assert call.name == "t\ufffd"
    [kept] = reply.raw["parts"]
    assert kept["args"] == {"INVALID_JSON": "{" + "x" * 1_999}
    assert kept["tool_call_id"] == call.id
    assert (reply.model, reply.usage.duration_ms, reply.cut, reply.refused) == (
        "m", 1.5, False, False,
    )  # fmt: skip


def test_a_refusal_is_told_where_there_is_no_text():
    def told(*parts, **details):
        response = theirs.ModelResponse(
            parts=parts, finish_reason="content_filter", provider_details=details
        )
        reply = from_provider(response, "m", 1.0)
        return reply.text, reply.refused, reply.cut

    assert told(refusal="No\0") == ("No\ufffd", True, False)
    assert told(theirs.TextPart("Half"), refusal="No") == ("Half", True, False)
    assert told() == ("", True, False)


def test_a_price_that_a_provider_tells_goes_before_what_is_known():
    def cost(model, **used):
        said = theirs.ModelResponse(
            parts=[theirs.TextPart("Hi")], usage=RequestUsage(**used), model_name=model
        )
        return from_provider(said, "m", 1.0).usage.cost

    assert cost("gpt-4o", input_tokens=1_000, cost=Decimal("0.5")) == 0.5
    assert cost(None, input_tokens=1_000) is None
    assert cost("gpt-4o") is None
    assert cost("nobody-knows-this-one", input_tokens=1_000) is None


def test_what_a_request_took_is_told_by_its_classes():
    used = RequestUsage(
        input_tokens=10, cache_read_tokens=20, cache_write_tokens=3, output_tokens=5,
        output_reasoning_tokens=9,
    )  # fmt: skip
    response = theirs.ModelResponse(parts=[theirs.TextPart("Hi")], usage=used)
    assert from_provider(response, "m", 2.5).usage.model_dump() == {
        "input_tokens": 10, "cached_tokens": 10, "cache_write_tokens": 3, "output_tokens": 5,
        "reasoning_tokens": 5, "cost": None, "duration_ms": 2.5,
    }  # fmt: skip
    price = TokenPrice(input=100_000, output=200_000)
    assert from_provider(response, "m", 2.5, price).usage.cost == 2.0


def test_what_a_request_is_made_of_is_sent_whole():
    tool = ToolSchema(name="t", description="d", parameters={"type": "object"})
    request = ModelRequest(
        agent="a", thread="main", system="Be\0 good.", messages=(), tools=(tool,)
    )
    sent = parameters(request)
    [made] = sent.function_tools
    assert (made.name, made.description, made.parameters_json_schema, made.strict) == (
        "t", "d", {"type": "object"}, False,
    )  # fmt: skip
    assert [part.content for part in sent.instruction_parts] == ["Be\ufffd good."]
    assert sent.allow_text_output is True


def test_texts_between_replies_are_one_message_and_what_is_ours_alone_is_not_sent():
    told = Instructions(content="Rules", files=())
    said = [told, UserText(content="a"), Reply(text="b"), Steering(content="c"),
            UserText(content="d"), UserText(content="e")]  # fmt: skip
    first, reply, last = Converter("m").of(said)
    assert [part.content for part in first.parts] == ["Rules", "a"]
    assert [part.content for part in reply.parts] == ["b"]
    assert [part.content for part in last.parts] == ["d", "e"]
