"""The demo is a cassette: its requests are the recorded ones, and who goes another way is answered
by its story. A demo as people run it is in tests/cli/test_demo_command.py."""

from importlib.resources import files

import pytest

from gonogo.demo import TASKS, recording
from gonogo.domain.tool_calls import ModelRequest, Reply, ToolAnswer, ToolRequest, UserText
from gonogo.llm import DemoModel, ScriptedModel
from gonogo.llm.scripted import body_of, exchange_of, line_of, open_demo, packed, unpacked

pytestmark = pytest.mark.anyio

RENEW = "PYTHONPATH=src .venv/bin/python scripts/demo_cassettes.py renews the demo's cassettes"
ASKED = ModelRequest(
    agent="coder", thread="main", system="You.", session="s1", cache_key="k",
    messages=(
        UserText(content="Go"),
        Reply(calls=(ToolRequest(id="call-1", name="list_files", arguments={}),), raw={"x": 1}),
        ToolAnswer(call_id="call-1", tool_name="list_files", content="[]"),
    ),
)  # fmt: skip


async def answer(model, request):
    return (await model.request(request, lambda _text: None)).text


@pytest.mark.parametrize("locale", TASKS)
def test_a_cassette_holds_the_story_as_it_is_told_now(locale):
    held = unpacked(files("gonogo.demo").joinpath(f"{locale}.jsonl.gz").read_bytes())
    story = [line for lines in recording(locale).values() for line in lines]
    told = [line_of(each) for each in held]
    assert [line for line in told if line not in story] == [], RENEW
    # What the story says when the plan is over is for people who ask about it.
    assert len(told) == len(story) - len({"main/orchestrator", "main/architect"}) - 1, RENEW


async def test_what_was_recorded_is_played_and_all_else_is_told_by_the_story():
    story = ScriptedModel({"main/coder": [{"text": "old"}, {"text": "story"}]}, "demo")
    model = DemoModel([exchange_of(ASKED, {"text": "recorded"})], story)
    assert await answer(model, ASKED) == "recorded"
    assert (model.played, model.differences) == (1, [])
    # Neither the session nor what a provider has noted is told to a model.
    other = ASKED.model_copy(update={"session": "s2", "cache_key": "", "earlier": ("x",)})
    assert await answer(model, other) == "recorded"
    changed = ASKED.model_copy(update={"messages": (UserText(content="Stop"), *ASKED.messages[1:])})
    assert (await model.request(changed, lambda _text: None)).model == "demo/coder"
    assert model.differences == [
        "messages[0].content differs at character 0: recorded 'Go', now 'Stop'"
    ]
    assert model.played == 2
    await model.aclose()


def test_a_cassette_is_packed_the_same_each_time():
    exchanges = [exchange_of(ASKED, {"text": "Привет"})]
    assert packed(exchanges) == packed(exchanges)
    assert unpacked(packed(exchanges)) == exchanges
    assert '"content":"Go"' in body_of(ASKED)


def test_the_demo_of_this_installation_is_opened():
    assert (open_demo().name, open_demo().window) == ("demo", 200_000)
