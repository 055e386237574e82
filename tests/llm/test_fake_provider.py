"""The scripted provider: it notices every fault of a request, and whole scenarios fit in rules."""

import json
import urllib.request

import pytest

from fakes.openai_server import violations_of

SYSTEM = {"role": "system", "content": "s"}
USER = {"role": "user", "content": "u"}


def calling(*ids, arguments="{}"):
    calls = [
        {"id": i, "type": "function", "function": {"name": "t", "arguments": arguments}}
        for i in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id):
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([SYSTEM], "nothing is said"),
        ([USER, {"role": "assistant", "content": "a"}], "the last message"),
        ([USER, SYSTEM], "in the middle"),
        ([USER, calling("a"), USER], "before the results"),
        ([USER, calling("a")], "no results"),
        ([USER, calling("a", "b"), result("a")], "no results"),
        ([USER, result("a")], "orphan"),
        ([USER, calling("a"), result("a"), result("a")], "second"),
        ([USER, calling("a"), result("a"), calling("a"), result("a")], "again"),
        ([USER, calling("a", arguments='{"x'), result("a")], "no JSON object"),
        ([USER, {"role": "assistant", "content": ""}, USER], "says nothing"),
        ([{"role": "robot", "content": "x"}], "role"),
    ],
)
def test_a_fault_of_a_request_is_noticed(messages, fault):
    found = violations_of({"model": "x", "messages": messages})
    assert any(fault in violation for violation in found)


def test_a_good_conversation_has_no_faults():
    messages = [SYSTEM, USER, calling("a", "b"), result("b"), result("a"), USER]
    assert violations_of({"model": "x", "messages": messages}) == []


def ask(provider, *messages, **fields):
    body = {"model": "x", "messages": list(messages), **fields}
    request = urllib.request.Request(  # noqa: S310
        f"{provider.base_url}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)["choices"][0]["message"]


def test_a_request_without_streaming_gets_a_whole_answer(provider):
    provider.replies({"text": "Hi", "calls": [{"name": "t", "arguments": {"a": 1}}]})
    message = ask(provider, USER)
    assert message["content"] == "Hi"
    assert message["tool_calls"][0]["function"] == {"name": "t", "arguments": '{"a": 1}'}


def test_a_rule_is_a_conversation_and_subtasks_have_their_own(provider):
    provider.script(
        {
            "rules": [
                {"when": {"user": "build"}, "replies": [{"text": "b1"}, {"text": "b2"}]},
                {"when": {"user": "check", "assistants": 0}, "reply": {"text": "c1"}},
            ],
            "default": {"text": "else"},
        }
    )
    build, check = ({"role": "user", "content": text} for text in ("build it", "check it"))
    answered = {"role": "assistant", "content": "b1"}
    assert ask(provider, check)["content"] == "c1"
    assert ask(provider, build)["content"] == "b1"
    assert ask(provider, build, answered, USER)["content"] == "b2"
    assert ask(provider, check, answered, USER)["content"] == "else"


def test_a_list_in_the_place_of_a_reply_answers_the_same_request_asked_again(provider):
    provider.script({"rules": [{"replies": [[{"text": "first"}, {"text": "then"}]]}]})
    said = [ask(provider, USER)["content"] for _ in range(3)]
    assert said == ["first", "then", "then"]


def test_a_request_that_the_script_does_not_know_is_a_violation(provider):
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(provider, USER)
    caught.value.close()
    assert provider.violations == [{"request": 0, "violation": "the script has no reply"}]
