"""A recorded session is played in another folder, with its provider gone, and comes to the same."""

import re
import shutil

import pytest

from fakes.openai_server import fake_openai
from fakes.world import call, kinds, run, step, world_of, write
from gonogo.domain.errors import Forbidden
from gonogo.llm.cassette import read_cassette

pytestmark = pytest.mark.anyio

KEY = "sk-story-0123456789abcdef"
PLAN = call(
    "create_plan", goal="Two files",
    subtasks=[
        step("one", scope={"paths": ["one.txt"], "commands": ["pwd"]}),
        step("two", scope={"paths": ["two.txt"]}),
        step("three", "one", "two", agent="ask"),
    ],
)  # fmt: skip
SCRIPT = {
    "rules": [
        {
            "when": {"user": "Your subtask (one)"},
            "replies": [
                {"calls": [write("one.txt"), run("pwd", timeout=30)]},
                {"text": ["Made", " one."]},
            ],
        },
        {
            "when": {"user": "Your subtask (two)"},
            "replies": [{"calls": [write("two.txt")], "delay": 0.05}, {"text": "Made two."}],
        },
        {
            "when": {"user": "Your subtask (three)"},
            "replies": [
                {"calls": [call("read_file", path="one.txt")]},
                {"text": "Both are there."},
            ],
        },
        {
            "when": {"last": "What did you do?"},
            "reply": [{"status": 503, "error": "Overloaded"}, {"text": "Two files."}],
        },
        {
            "when": {"tools": ["create_plan"]},
            "replies": [{"calls": [PLAN]}, {"text": "It is done."}],
        },
    ]
}


async def tell(root, question="What did you do?", **set_):
    """The story: a plan of two subtasks at once and one after them, then a question about it."""
    async with world_of(root, {}, **set_) as world:
        world.open_model = lambda _world: None
        await world.restart()
        plan_id = await world.propose()
        events = await world.decide_plan(plan_id)
        answer = await world.say(question, "architect")
        # Subtasks that run at once come in any order.
        said = sorted((m.role, m.agent or "", m.content) for m in await world.history())
        files = {path: world.read(path) for path in ("one.txt", "two.txt")}
        return plain(str((sorted(kinds(events)), said, files))), answer[-1]


def plain(text):
    return re.sub(r"_[0-9a-f]{24,32}|\"duration_ms\": ?[\d.]+|/\S*/work", "_", text)


async def test_a_recorded_plan_with_parallel_subtasks_is_played_without_its_provider(tmp_path):
    tape = tmp_path / "tape.jsonl"
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with fake_openai(SCRIPT) as server:
        told, last = await tell(
            tmp_path / "first", model="openai:scripted", openai_base_url=server.base_url,
            model_api_key=KEY, record=tape,
        )  # fmt: skip
        asked = len(server.requests)
        assert server.violations == []
    assert last["content"] == "Two files."
    exchanges = read_cassette(tape)
    assert [each.status for each in exchanges].count(503) == 1
    assert len(exchanges) == asked
    assert KEY not in tape.read_text()
    again, answer = await tell(
        tmp_path / "second", model=f"replay:{tape}", record=tmp_path / "again.jsonl"
    )
    print(answer)
    assert answer["content"] == "Two files."
    assert again == told
    # Somebody who says something else is told where the difference is.
    shutil.rmtree(tmp_path / "second")
    (tmp_path / "second").mkdir()
    _, refused = await tell(tmp_path / "second", "What did I do?", model=f"replay:{tape}")
    assert refused["type"] == "error"
    assert "recorded 'What did you do?', now 'What did I do?'" in str(refused)


async def test_only_the_user_of_this_machine_names_a_cassette_for_a_session(make):
    async with make({}) as world:
        sessions = world.runtime.sessions
        with pytest.raises(Forbidden, match="cassette"):
            await sessions.open(world.ann, model="replay:/etc/passwd")
        opened = await sessions.open(world.ann, model="replay:/etc/passwd", anywhere=True)
        assert opened.session_id
