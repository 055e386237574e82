"""The gate: what a plan was approved for goes only as far as its reviewers could see."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Grant
from gonogo.execution.agent import ConversationGrants, Thread, load_profiles
from gonogo.policy import load_reviews
from gonogo.runtime import bare_thread, open_gate
from gonogo.settings import Settings
from gonogo.tools import builtin_tools
from gonogo.workspace import Sandbox

REVIEW = '[[review]]\npath = "db/**"\nreviewers = ["bob"]\n'
SCOPE = Scope(commands=("touch",), paths=("db/**", "src/**"))


async def granted(thread: Thread) -> ConversationGrants:
    del thread
    return ConversationGrants(
        grant=Grant(grant_id="g", plan_id="p", revision=1, subtask_id="s", scope=SCOPE)
    )


@pytest.mark.parametrize(
    ("reviewed", "command", "decision", "rule"),
    [
        ("", "touch db/x", "allow", "grant:p#s"),
        (REVIEW, "touch db/x", "ask", "default:other"),
        (REVIEW, "touch src/x", "allow", "grant:p#s"),
    ],
)
async def test_a_grant_lets_no_command_touch_a_path_that_others_review(
    tmp_path: Path, reviewed: str, command: str, decision: str, rule: str
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(reviewed)
    (tmp_path / "ws").mkdir()
    tools = builtin_tools()
    settings = Settings(home=tmp_path / "home", config=tmp_path, workspace=tmp_path / "ws")
    gate = open_gate(
        settings, tools, load_profiles(None, known_tools=tools), load_reviews(None, rules), granted
    )
    thread = replace(bare_thread(tmp_path / "ws", "coder"), plan_id="p", revision=1, subtask_id="s")

    found = await gate.judge(thread, "execute_command", {"command": command})

    assert (found.verdict.decision, found.verdict.rule) == (decision, rule)


@pytest.mark.parametrize(
    ("agent", "reviewed", "more", "remote", "rule"),
    [
        ("coder", "", {}, False, "builtin:readers"),
        ("coder", "", {"readers": False}, False, "default:other"),
        ("coder", "", {"sandbox": False}, False, "default:other"),
        ("coder", "", {}, True, "default:other"),
        ("coder", '[[review]]\ncommand = "cat"\napprovals = 2\n', {}, False, "default:other"),
        ("coder", '[[review]]\npath = "src/**"\napprovals = 2\n', {}, False, "default:other"),
        ("coder", '[[review]]\npath = "db/**"\napprovals = 2\n', {}, False, "builtin:readers"),
        ("architect", "", {}, False, "builtin:unknown-tool"),
    ],
)
@pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
async def test_readers_are_held_to_reading_by_the_sandbox_and_by_nothing_else(
    tmp_path: Path, agent: str, reviewed: str, more: dict[str, bool], remote: bool, rule: str
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(reviewed)
    (tmp_path / "ws").mkdir()
    tools = builtin_tools()
    settings = Settings(home=tmp_path / "home", config=tmp_path, workspace=tmp_path / "ws", **more)
    profiles = load_profiles(None, known_tools=tools)
    gate = open_gate(settings, tools, profiles, load_reviews(None, rules))
    thread = bare_thread(tmp_path / "ws", agent, remote=remote)

    found = await gate.judge(thread, "execute_command", {"command": "cat src/a"})

    assert found.verdict.rule == rule
    held = rule == "builtin:readers"
    assert found.verdict.read_only is held
    assert found.tool_class == ("pure" if held else "other")
    assert gate.writes_nothing(thread, found.verdict, asked=False) is held
    assert not gate.writes_nothing(thread, found.verdict, asked=True)


async def test_a_call_that_cannot_be_prepared_is_refused_for_what_stands_in_its_way(
    tmp_path: Path,
) -> None:
    (tmp_path / "ws").mkdir()
    tools = builtin_tools()
    settings = Settings(home=tmp_path / "home", config=tmp_path, workspace=tmp_path / "ws")
    reviews = load_reviews(None, None)
    gate = open_gate(settings, tools, load_profiles(None, known_tools=tools), reviews)

    found = await gate.judge(bare_thread(tmp_path / "ws", "coder"), "read_file", {"path": "none"})

    assert (found.verdict.decision, found.verdict.rule) == ("deny", "builtin:file_not_found")
    assert (found.arguments, (found.error or "").split(":")[0]) == (
        {"path": "none"},
        "file_not_found",
    )
