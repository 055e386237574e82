"""A recorded session is played in another folder, with its provider gone: the same requests to the
byte. What is asked otherwise is told, and ends the replay."""

import re
import shutil

import pytest

from fakes.openai_server import fake_openai
from fakes.world import call, kinds, of, run, step, world_of, write
from gonogo.domain.errors import Forbidden
from gonogo.llm.scripted import read_cassette

pytestmark = pytest.mark.anyio

KEY = "sk-story-0123456789abcdef"
ROLES = """
[[role]]
name = "plan"
model = "openai:scripted"

[[role]]
name = "work"
model = "openai:scripted"
fallback = ["openai:other"]
"""
PROGRAMS = ["cat", "pwd", "date", "mktemp", "ls"]
PLAN = call(
    "create_plan", goal="Two files",
    subtasks=[
        step("one", scope={"paths": ["one.txt"], "commands": PROGRAMS}),
        step("two", scope={"paths": ["two.txt"]}),
        step("three", "one", "two", agent="ask"),
    ],
)  # fmt: skip
PRINTS = "pwd && date && mktemp -d && ls -l big.txt"
FULL = {"usage": {"prompt_tokens": 29_000}}
"""So much of a window of 32,000 tokens that the older part has to go."""
ONE = "Your subtask (one)"
SCRIPT = {
    "rules": [
        {"when": {"system": "You sum up"}, "reply": {"text": "It read big.txt."}},
        {"when": {"user": ONE, "last": "A person says"}, "reply": {"text": "Made one."}},
        {"when": {"user": ONE, "last": '"rows"'}, "reply": {"calls": [write("one.txt")]}},
        {
            "when": {"user": ONE, "last": "line of it"},
            "reply": {"calls": [call("read_output", id="call-1", **{"from": 1, "to": 9})], **FULL},
        },
        {
            "when": {"user": ONE, "last": '"path": "one.txt"'},
            "reply": {"calls": [run(PRINTS, timeout=30)]},
        },
        {"when": {"user": ONE, "last": "exit_code"}, "reply": {"calls": [run("touch other.txt")]}},
        {
            "when": {"user": ONE},
            "replies": [{"calls": [run("cat big.txt")]}],
        },
        {
            "when": {"user": "Your subtask (three)", "model": "scripted"},
            "reply": {"status": 503, "error": "Overloaded"},
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
        {"when": {"user": "Which files?"}, "reply": {"text": "One big one."}},
        {"when": {"user": "Which tests?"}, "reply": {"text": "None."}},
        {
            "when": {"last": "What did you do?"},
            "reply": [{"status": 503, "error": "Overloaded"}, {"text": "Two files."}],
        },
        {
            "when": {"tools": ["create_plan"]},
            "replies": [
                {"calls": [call("explore", questions=["Which files?", "Which tests?"])]},
                {"calls": [PLAN]},
                {"calls": [call("execute_plan", plan_id="plan-1")]},
                {"text": "It is done."},
            ],
        },
    ]
}  # fmt: skip


async def tell(root, question="What did you do?", **set_):
    """The story: explorers, a plan of two subtasks at once and one after them, of which the first
    is summed up, asks a person and is told something, and a question about it."""
    root.mkdir(exist_ok=True)
    async with world_of(root, {}, model_window=32_000, **set_) as world:
        (world.folder / "big.txt").write_text("".join(f"{n} line of it\n" for n in range(9_000)))
        world.open_model = lambda _world: None
        await world.restart()
        plan_id = await world.begin()
        await world.until("approval_requested", kind="tool")
        [asks] = await world.pending()
        await world.runtime.plans.steer_subtask(world.ann, plan_id, "one", "Leave other.txt alone")
        await world.send({"type": "hitl_decision", "call_id": asks.call_id, "decision": "reject"})
        await world.until("plan_completed")
        await world.idle()
        answer = await world.say(question, "architect")
        events = await world.log()
        # Subtasks that run at once come in any order.
        said = sorted((m.role, m.agent or "", m.content) for m in await world.history())
        files = {path: world.read(path) for path in ("one.txt", "two.txt")}
        return plain(str((sorted(kinds(events)), said, files))), answer[-1], events


def plain(text):
    return re.sub(r"_[0-9a-f]{24,32}|/\S*/work", "_", text)


def bodies(tape):
    return sorted((each.path, each.body) for each in read_cassette(tape))


async def test_a_recorded_session_is_played_in_another_folder_with_the_same_requests_to_the_byte(
    tmp_path,
):
    tape, again = tmp_path / "tape.jsonl", tmp_path / "again.jsonl"
    (tmp_path / "models.toml").write_text(ROLES)
    with fake_openai(SCRIPT) as server:
        told, last, events = await tell(
            tmp_path / "first", model="openai:scripted", openai_base_url=server.base_url,
            model_api_key=KEY, record=tape, models=tmp_path / "models.toml",
        )  # fmt: skip
        asked = len(server.requests)
        assert server.violations == []
    assert last["content"] == "Two files."
    for kind in ("context_compacted", "model_fallback", "steered"):
        assert of(events, kind), kind
    exchanges = read_cassette(tape)
    assert len(exchanges) == asked
    assert {each.role for each in exchanges} == {"plan", "work", "compact"}
    assert [each.status for each in exchanges].count(503) == 3
    # What is another in each run, or on each machine, is in no request.
    text = tape.read_text()
    for differs in (r"(call|plan|s|turn)_[0-9a-f]{24}", r"20\d\d-\d\d-\d\d", str(tmp_path), KEY):
        assert re.search(differs, text) is None
    assert "call-1" in text
    # The provider is gone, and so is the file of roles.
    played, answer, _ = await tell(tmp_path / "other-name", model=f"replay:{tape}", record=again)
    assert answer["content"] == "Two files."
    assert played == told
    assert bodies(again) == bodies(tape)


async def test_who_says_something_else_is_told_where_the_difference_is(tmp_path):
    tape = tmp_path / "tape.jsonl"
    with fake_openai({"default": {"text": "Hi"}}) as server:
        given = {"model": "openai:scripted", "openai_base_url": server.base_url}
        await chat(tmp_path / "first", ["Hello", "What did you do?"], **given, record=tape)
    told = await chat(
        tmp_path / "second", ["Hello", "What did I do?", "What did you do?"], model=f"replay:{tape}"
    )
    assert [each["type"] for each in told] == ["assistant_message", "error", "error"]
    assert "tape.jsonl, request 2 of this session: it is not the recorded one" in str(told[1])
    assert "recorded 'What did you do?', now 'What did I do?'" in str(told[1])
    assert "The replay ends here" in str(told[2])
    # It is a session that ends: the next one plays the cassette from its beginning.
    shutil.rmtree(tmp_path / "second")
    told = await chat(tmp_path / "second", ["Hello"] * 2, model=f"replay:{tape}", sessions=2)
    assert [each["content"] for each in told] == ["Hi", "Hi"]


async def chat(root, said, *, sessions=1, **set_):
    """Say things to an agent that only answers. Gives the last event of each answer."""
    root.mkdir(exist_ok=True)
    async with world_of(root, {}, **set_) as world:
        world.open_model = lambda _world: None
        await world.restart()
        found = []
        for number, each in enumerate(said):
            if sessions > 1 and number:
                world.session = (await world.runtime.sessions.open(world.ann)).session_id
            found.append((await world.say(each, "ask"))[-1])
        return found


async def test_only_the_user_of_this_machine_names_a_cassette_for_a_session(make):
    async with make({}) as world:
        sessions = world.runtime.sessions
        with pytest.raises(Forbidden, match="recording"):
            await sessions.open(world.ann, model="replay:/etc/passwd")
        opened = await sessions.open(world.ann, model="replay:/etc/passwd", anywhere=True)
        assert opened.session_id
