"""Recorded calls of servers' tools, judged again by other rules."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from gonogo.cli.rules import Changed, Judge, _call_of_words, _told
from gonogo.domain.tool_calls import Sighting, ToolHistory, Verdict
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


@pytest.mark.parametrize("said", ["it asks; there is nobody to ask", "спрашивает; спросить некого"])
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


def again(tmp_path, view, rules="", **set_):
    """The decision and the rule by which a call is judged now, or why it is not."""
    file = tmp_path / "rules.toml"
    file.write_text(rules)
    settings = Settings(home=tmp_path / "home", config=tmp_path / "config", **set_)
    found = Judge(settings, load_rules(None, file), {}).again(view)
    return found if isinstance(found, str) else (found.decision, found.rule)


def wrote(tool="write_file", **more):
    return CallView(**{
        "call_id": "c", "session_id": "s", "agent": "coder", "tool_name": tool,
        "tool_class": "idempotent", "arguments": {"path": "a.txt"}, "decision": "allow",
        "rule": "user:1", "created_at": START, **more,
    })  # fmt: skip


GRANTED = {"plan_id": "p", "revision": 1, "subtask_id": "a", "granted": True}
ASKS = ("ask", "default:idempotent")
BY_PLAN = ("allow", "grant:p#a")


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, ASKS),
        ({"rule": None}, ASKS),
        ({"agent": "nobody"}, ASKS),
        ({"agent": "architect"}, ("deny", "builtin:profile")),
        ({"agent": "architect", "arguments": {"path": "a.md"}}, ASKS),
        ({"decision": None}, "cli_replay_disk"),
        ({"rule": "builtin:outside"}, "cli_replay_disk"),
        ({"rule": "builtin:arguments"}, "cli_replay_disk"),
        ({"rule": "builtin:unknown-tool"}, "cli_replay_disk"),
        ({"rule": "builtin:file_not_found"}, "cli_replay_disk"),
        ({"rule": "builtin:file_not_found", "decision": "deny"}, "cli_replay_disk"),
        ({"arguments": {"path": "/elsewhere/x"}}, "cli_replay_disk"),
        ({"rule": "session:1"}, "cli_replay_session"),
        ({"rule": "session:1", "tool_class": "pure"}, "cli_replay_session"),
        (GRANTED, BY_PLAN),
        (GRANTED | {"scope": {"paths": ["a.txt"]}}, BY_PLAN),
        (GRANTED | {"scope": {"paths": ["b.txt"]}}, ASKS),
        (GRANTED | {"granted": False}, ASKS),
        (GRANTED | {"plan_id": None}, ASKS),
        (GRANTED | {"revision": None}, ASKS),
        (GRANTED | {"subtask_id": None}, ASKS),
        (GRANTED | {"rule": "default:idempotent"}, ASKS),
        (GRANTED | {"rule": "builtin:changed-tool"}, ASKS),
    ],
)
def test_a_recorded_call_is_judged_by_what_is_known_of_it(tmp_path, more, found):
    assert again(tmp_path, wrote(**more)) == found


@pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
def test_a_command_is_judged_as_it_would_run_by_the_settings_of_now(tmp_path):
    def command(text, agent="coder"):
        return wrote("execute_command", agent=agent, tool_class="pure", arguments={"command": text})

    allowed = '[[rule]]\ncommand = "pytest"\ndecision = "allow"\n'
    assert again(tmp_path, command("pytest -q"), allowed) == ("allow", "user:1")
    assert again(tmp_path, command("pytest -q"), allowed, sandbox=False) == (
        "ask", "builtin:no-sandbox",
    )  # fmt: skip
    assert again(tmp_path, command("ls")) == ("allow", "builtin:readers")
    assert again(tmp_path, command("ls"), sandbox=False) == ("ask", "default:other")
    assert again(tmp_path, command("pytest -q", "architect")) == ("ask", "builtin:profile")


CHANGED = [
    Changed(wrote(), Verdict(decision="deny", reason="r\x07", rule="user:1"), ("f:1", "g:2")),
    Changed(
        wrote("run", arguments={"command": "", "source": "b"}, decision="ask"),
        Verdict(decision="allow", reason="s", rule="user:2"), (),
    ),
    Changed(
        wrote("look", arguments={"pattern": "x"}, decision="ask"),
        Verdict(decision="allow", reason="s", rule="user:2"), (),
    ),
]  # fmt: skip
LEFT_OUT = Counter({"cli_replay_disk": 2, "cli_replay_session": 1})


def test_what_would_be_otherwise_is_told_call_by_call_and_summed_up(capsys):
    _told(9, CHANGED, LEFT_OUT, "ru", json=False)

    assert capsys.readouterr().out.splitlines() == [
        "session\tcall\twhat\twas\twould be\tby",
        "s\tc\twrite_file a.txt\tallow\tdeny\tuser:1  f:1  g:2",
        "s\tc\trun b\task\tallow\tuser:2",
        "s\tc\tlook \task\tallow\tuser:2",
        "разрешить → запретить: 1",
        "спросить → разрешить: 2",
        "не проверено заново: результат зависит от файлов на диске, или аргументы агента "
        "не читаются: 2",
        "не проверено заново: решило правило сессии: 1",
        "Проверено заново вызовов: 6, по тому, что в них названо. Символические ссылки, виды "
        "файлов и песочница того времени неизвестны.",
    ]


def test_what_would_be_otherwise_is_json_in_english_for_programs(capsys):
    _told(9, CHANGED[:1], LEFT_OUT, "ru", json=True)

    assert json.loads(capsys.readouterr().out) == {
        "judged": 6,
        "changed": [
            {
                "call": wrote().model_dump(mode="json", exclude_none=True), "would_be": "deny",
                "rule": "user:1", "reason": "r\x07", "where": ["f:1", "g:2"],
            }
        ],
        "counts": {"allow → deny": 1},
        "not_judged": {
            "not evaluated again: the result depends on files on disk, or the agent's "
            "arguments cannot be read": 2,
            "not evaluated again: a rule of the session decided": 1,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["write_file", ' {"path": "a"}'], ("write_file", {"path": "a"})),
        (["list_files"], ("list_files", {})),
        (["ls -la"], ("execute_command", {"command": "ls -la"})),
        (["git", "a b"], ("execute_command", {"command": "git 'a b'"})),
        (["list_files", "x"], ("execute_command", {"command": "list_files x"})),
        (["a", "b", "{"], ("execute_command", {"command": "a b '{'"})),
    ],
)
def test_a_tool_with_its_arguments_is_meant_or_a_command(words, meant):
    known: dict = {"list_files": None}
    assert _call_of_words(words, known) == meant
