"""Recorded calls of servers' tools, judged again by other rules."""

from datetime import UTC, datetime, timedelta

import pytest

from gonogo.cli.rules import Judge
from gonogo.domain.tool_calls import Sighting, ToolHistory
from gonogo.domain.views import CallView
from gonogo.policy import load_rules
from gonogo.settings import Settings
from gonogo.workspace import Sandbox

TOOL = "mcp__docs__search"
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def sighting(position, day, accepted=None):
    return Sighting(
        name=TOOL, position=position, digest=f"d{position}", definition={"name": "search"},
        seen_at=START + day * DAY, accepted_by=None,
        accepted_at=None if accepted is None else START + accepted * DAY,
    )  # fmt: skip


@pytest.fixture
def judge(tmp_path):
    """By a rule that allows the tool, which changed on the second day; accepted on the fourth."""
    rules = tmp_path / "rules.toml"
    rules.write_text(f'[[rule]]\ntool = "{TOOL}"\ndecision = "allow"\n')
    settings = Settings(home=tmp_path / "home", config=tmp_path / "config")
    seen = {TOOL: ToolHistory([sighting(1, 0, 0), sighting(2, 2, 4)])}
    return Judge(settings, load_rules(None, rules), seen)


def called(day, rule="default:other", **more):
    return CallView(
        call_id="c", session_id="s", agent="coder", tool_name=TOOL, tool_class="other",
        arguments={"path": "../elsewhere"}, decision="ask", rule=rule,
        created_at=START + day * DAY, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("day", "decided"),
    [(1, "user:1"), (3, "builtin:changed-tool"), (5, "user:1")],
)
def test_a_rule_counts_for_a_tool_as_that_was_when_it_was_called(judge, day, decided):
    assert judge.again(called(day)).rule == decided


def test_a_plan_that_did_not_cover_a_changed_tool_does_not_now(judge):
    granted = {
        "plan_id": "p", "revision": 1, "subtask_id": "a", "granted": True,
        "scope": {"tools": [TOOL]},
    }  # fmt: skip
    assert judge.again(called(3, "builtin:changed-tool", **granted)).decision == "ask"


@pytest.mark.parametrize("rule", ["builtin:server_unavailable", "builtin:unknown_tool"])
def test_what_a_server_decided_by_not_being_there_is_not_judged_again(judge, rule):
    assert judge.again(called(1, rule)) == "cli_replay_server"


@pytest.mark.parametrize("said", ["it asks; nobody can be asked", "спрашивает; спросить некого"])
def test_a_question_that_nobody_was_there_for_is_denied_again_whatever_language_said_so(
    judge, said
):
    assert judge.again(called(3, reason=said)).decision == "deny"
    assert judge.again(called(3, reason="it asks")).decision == "ask"


def listed(rule, decision):
    return CallView(
        call_id="c", session_id="s", agent="coder", tool_name="execute_command",
        tool_class="pure" if decision == "allow" else "other", arguments={"command": "ls"},
        decision=decision, rule=rule, created_at=START,
    )  # fmt: skip


@pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
def test_what_only_read_reads_again_and_what_asked_although_it_reads_asks_again(judge, tmp_path):
    found = judge.again(listed("builtin:readers", "allow"))
    assert (found.decision, found.rule) == ("allow", "builtin:readers")
    asked = judge.again(listed("default:other", "ask"))
    assert (asked.decision, asked.rule) == ("ask", "default:other")

    off = Settings(home=tmp_path / "home", config=tmp_path / "config", readers=False)
    bare = Judge(off, load_rules(None, None), {}).again(listed("builtin:readers", "allow"))
    assert (bare.decision, bare.rule) == ("ask", "default:other")
