"""What nobody answers ends the command: whatever a plan asks beyond `--yes`, and however many of
its subtasks come to rest without a word."""

from pathlib import Path

import pytest

from fakes.openai_server import fake_openai
from fakes.world import call, plan, step, write

LOST = {"calls": [call("attempt_completion", result="Agent x not found", success=False)]}
LOOK = {"calls": [call("list_files")]}
DOWN = {"status": 503, "error": "down"}
REVIEW = '[[review]]\nkind = "plan"\napprovals = 2\n'


def asks(question):
    return {"calls": [call("ask_followup_question", question=question)]}


def told(*subtasks, **replies):
    """A provider that proposes these subtasks, and says for each what is named for it."""
    hand_over = {"calls": [call("switch_mode", mode="architect")]}
    rules = [
        {"when": {"system": "You are the orchestrator"}, "reply": hand_over},
        {"when": {"tools": ["create_plan"]}, "reply": plan(*subtasks)},
    ]
    rules += [
        {"when": {"user": f"Your subtask ({key})"}, "replies": said}
        for key, said in replies.items()
    ]
    return {"rules": rules, "default": {"text": "Done."}}


CASES = {
    "a budget": (
        told(step("a"), step("b"), a=[LOOK], b=[{**LOOK, "delay": 1}]),
        {"GONOGO_BUDGET_PLAN_REQUESTS": "2"},
    ),
    "the budget of the session": (
        told(step("a"), step("b"), a=[LOOK], b=[{**LOOK, "delay": 1}]),
        {"GONOGO_BUDGET_SESSION_REQUESTS": "4"},
    ),
    "a subtask's start": (told(step("a", approval_required=True), step("b")), {}),
    "a call": (told(step("a", scope={"paths": ["b.txt"]}), a=[{"calls": [write("a.txt")]}]), {}),
    "an agent, in a subtask": (told(step("a"), step("b"), a=[asks("Which?")]), {}),
    "an agent, in a turn": ({"default": asks("Which?")}, {}),
    "another revision": (
        told(step("a"), a=[LOST]), {"AUTO_REPLANNING_REQUIRE_HUMAN_INTERVENTION_AFTER": "0"},
    ),
    "a model that is away": (
        told(step("a"), step("b"), a=[[DOWN]], b=[[DOWN]]),
        {"GONOGO_MODEL_PATIENCE": "1", "GONOGO_MODEL_MAX_ATTEMPTS": "1"},
    ),
    "a second reviewer": (told(step("a")), {"review": REVIEW}),
}  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with fake_openai() as running:
        yield running


@pytest.mark.parametrize("case", CASES)
def test_what_yes_does_not_answer_is_left_and_the_command_ends(gonogo, server, tmp_path, case):
    script, env = CASES[case]
    server.script(script)
    done = gonogo(
        "run", "Build it", "--yes", "-C", str(folder(tmp_path)), env=at(server, env, tmp_path)
    )

    assert done.returncode == 3, done.stdout + done.stderr
    assert "gonogo approvals decide" in done.stderr or case == "an agent, in a turn"


@pytest.mark.parametrize("case", [name for name in CASES if name != "a second reviewer"])
def test_where_nobody_answers_nothing_is_left_open(gonogo, server, tmp_path, case):
    script, env = CASES[case]
    server.script(script)
    words = ("run", "Build it", "--yes", "--unattended", "-C", str(folder(tmp_path)))
    done = gonogo(*words, env=at(server, env, tmp_path))

    expected = {"an agent, in a turn": 3, "a call": 4, "an agent, in a subtask": 4}
    assert done.returncode == expected.get(case, 1), done.stdout + done.stderr


def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def at(server, env, tmp_path):
    """The environment of a command whose model is the server's."""
    more = dict(env)
    if rules := more.pop("review", None):
        config = tmp_path / "rules"
        config.mkdir()
        (config / "rules.toml").write_text(rules)
        more["GONOGO_CONFIG"] = str(config)
    return {
        "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "sk-x",
        "GONOGO_MODEL": "openai:scripted", **more,
    }  # fmt: skip
