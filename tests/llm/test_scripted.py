"""A script has no state of its own: the conversation tells which line comes next."""

import json

import anyio
import pytest

from gonogo.domain.errors import ModelFailed
from gonogo.domain.tool_calls import ModelRequest, UserText
from gonogo.llm import ModelSettings, ScriptedModel, demo_model, open_model

pytestmark = pytest.mark.anyio


@pytest.fixture
def say():
    async def run(model, *messages, agent="coder", thread="main", on_text=lambda _text: None):
        request = ModelRequest(agent=agent, thread=thread, system="", messages=messages)
        with anyio.fail_after(60):
            return await model.request(request, on_text)

    return run


async def test_the_next_line_follows_from_the_conversation_also_after_a_restart(say):
    script = {"main/coder": [{"text": "one"}, {"text": "two"}]}
    first = await say(ScriptedModel(script), UserText(content="?"))
    second = await say(ScriptedModel(script), UserText(content="?"), first, UserText(content="?"))
    assert (first.text, second.text) == ("one", "two")


async def test_an_agent_counts_only_its_own_replies(say):
    model = ScriptedModel({"main/architect": [{"text": "plan"}], "main/coder": [{"text": "code"}]})
    plan = await say(model, UserText(content="?"), agent="architect")
    code = await say(model, UserText(content="?"), plan, agent="coder")
    assert (plan.model, code.model) == ("scripted/architect", "scripted/coder")
    assert code.text == "code"


async def test_subtasks_that_run_at_once_have_their_own_lines(say):
    model = ScriptedModel({"a": [{"text": "A1"}, {"text": "A2"}], "b": [{"text": "B1"}]})
    first = await say(model, UserText(content="?"), thread="a")
    assert (await say(model, UserText(content="?"), thread="b")).text == "B1"
    assert (await say(model, UserText(content="?"), first, thread="a")).text == "A2"


async def test_text_comes_in_small_pieces(say):
    pieces = []
    await say(ScriptedModel({"main/coder": [{"text": "x" * 100}]}), on_text=pieces.append)
    assert pieces == ["x" * 24] * 4 + ["x" * 4]


async def test_calls_are_given_under_our_ids(say):
    calls = [{"name": "a", "arguments": {"n": 1}}, {"name": "b"}, {"name": "c", "arguments": "{"}]
    reply = await say(ScriptedModel({"main/coder": [{"calls": calls}]}))
    a, b, c = reply.calls
    assert (a.arguments, b.arguments, c.arguments) == ({"n": 1}, {}, None)
    assert c.problem
    assert len({a.id, b.id, c.id}) == 3


async def test_a_line_may_be_made_from_the_request(say):
    def echo(request):
        return {"text": request.messages[-1].content.upper()}

    assert (await say(ScriptedModel({"t": [echo]}), UserText(content="ab"), thread="t")).text == (
        "AB"
    )


async def test_a_script_without_more_lines_is_a_failure_that_names_the_line(say):
    with pytest.raises(ModelFailed) as failure:
        await say(ScriptedModel({}))
    assert str(failure.value) == "The script 'scripted' has no line 0 for 'main/coder'; add one"


async def test_a_last_line_that_is_no_answer_is_given_again_and_others_are_not(say):
    model = ScriptedModel({"a": [{"text": "One"}, {"text": "Half", "cut": True}]}, "mine")
    first = await say(model, thread="a")
    half = await say(model, first, thread="a")
    again = await say(model, first, half, thread="a")
    assert [(r.text, r.cut, r.model) for r in (first, half, again)] == [
        ("One", False, "mine/coder"), ("Half", True, "mine/coder"), ("Half", True, "mine/coder"),
    ]  # fmt: skip
    with pytest.raises(ModelFailed, match=r"^The script 'mine' has no line 2 for 'a'; add one$"):
        await say(model, first, first, thread="a")


async def test_replies_that_are_no_longer_shown_are_counted(say):
    model = ScriptedModel({"main/coder": [{"text": str(n)} for n in range(4)]})
    earlier = ("scripted/coder", "scripted/other", "scripted/coder")
    request = ModelRequest(agent="coder", thread="main", system="", messages=(), earlier=earlier)
    assert (await model.request(request, lambda _text: None)).text == "2"
    other = ScriptedModel({"t": [{"text": str(n)} for n in range(4)]})
    request = ModelRequest(agent="coder", thread="t", system="", messages=(), earlier=earlier)
    assert (await other.request(request, lambda _text: None)).text == "3"


async def test_what_a_line_took_is_told_by_its_length(say):
    said = UserText(content="x" * 100)
    reply = await say(ScriptedModel({"main/coder": [{"text": "y" * 100}]}), said, said)
    assert reply.usage.input_tokens == 2 * 100 // 4
    assert reply.usage.output_tokens == len('{"text": ""}' + "y" * 100) // 4
    assert 0 < reply.usage.duration_ms < 60_000
    assert ScriptedModel({}).window == 200_000


async def test_a_delay_can_be_cancelled(say):
    with anyio.move_on_after(0.01) as scope:
        await say(ScriptedModel({"main/coder": [{"text": "late", "delay": 60}]}))
    assert scope.cancelled_caught


async def test_the_demo_replays_its_recording_and_says_when_it_ends(say):
    model = demo_model()
    assert model.name == open_model(ModelSettings(name="demo"), {}).name == "demo"
    plan = await say(model, UserText(content="Go"), agent="architect")
    assert plan.calls or plan.text
    ended = (await say(model, thread="no such subtask")).text
    assert ended == "The recorded demo ends here."
    await model.aclose()
    json.dumps(plan.model_dump(mode="json"))
