"""Where calls stand that are not over: who has to act, what a crash left, what is stale."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fakes import rows
from gonogo.domain.base import content_hash
from gonogo.domain.records import CallRow
from gonogo.domain.states import CallStatus
from gonogo.domain.tool_calls import Access, ToolClass, Verdict
from gonogo.execution.agent.gate import Gated
from gonogo.execution.agent.questions import (
    explained,
    file_outcome,
    parts_of,
    question_of_call,
    staleness,
)
from gonogo.policy import Rule, Rules, RuleText, VerdictStage, VerdictTrace

_C = CallStatus
NO_RULES = Rules()
STALE = (
    "changed_since_approval: A file changed after this operation was approved, so it was not"
    " carried out. Read the file again, then ask again."
)
REDEFINED = (
    "changed_since_approval: The server of this tool now describes it differently than when"
    " the operation was approved, so it was not carried out. Read what the tool does now, then ask"
    " again."
)
OVERRULED = (
    "changed_since_approval: The rules about this operation have changed since it was approved,"
    " so it was not carried out. Ask again."
)
IMPOSSIBLE = (
    "changed_since_approval: This operation was approved, but it can no longer be carried out."
    " Find another way."
)


def gated(**more: Any) -> Gated:
    given: dict[str, Any] = {
        "tool": "write_file", "tool_class": ToolClass.IDEMPOTENT, "arguments": {"path": "a.txt"},
        "verdict": Verdict(decision="ask", reason="asks", rule="default:other"),
        "digest": "sha256:now", "base_hashes": {"a.txt": None}, "rules": NO_RULES,
    }  # fmt: skip
    return Gated(**{**given, **more})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, OVERRULED),
        ({"error": "denied: no"}, f"{OVERRULED} (denied: no)"),
        ({"base_hashes": {"a.txt": "1"}}, STALE),
        ({"arguments": {"path": "b.txt"}, "error": "x: y"}, f"{STALE} (x: y)"),
        ({"verdict": Verdict(decision="ask", reason="", rule="", definition="2")}, REDEFINED),
        ({"rules": None, "error": "io_error: gone"}, f"{IMPOSSIBLE} (io_error: gone)"),
    ],
    ids=["rules", "rules and why", "file", "arguments", "definition", "nothing to judge"],
)
def test_why_an_approved_call_is_not_the_one_that_would_run_is_said(
    more: dict[str, Any], said: str
) -> None:
    assert staleness(rows.call(), gated(**more), "en") == said


@pytest.mark.parametrize(
    ("more", "works", "waits"),
    [
        ({"status": _C.STARTED}, True, False),
        ({"status": _C.STARTED, "tool_class": ToolClass.CONTROL}, False, True),
        ({"status": _C.STARTED, "held": True}, False, False),
        ({"status": _C.UNKNOWN}, False, True),
        ({"status": _C.UNKNOWN, "id": "again"}, False, False),
        ({"status": _C.AWAITING_APPROVAL}, False, True),
        ({"status": _C.PROPOSED}, False, False),
        ({"status": _C.ALLOWED, "tool_class": ToolClass.CONTROL}, False, False),
    ],
)
def test_a_call_is_carried_out_or_waits_for_a_person_or_neither(
    more: dict[str, Any], works: bool, waits: bool
) -> None:
    held = more.pop("held", False)
    call = rows.call(**more)
    if held:
        # What a command left is looked at by a person, and its result is kept back meanwhile.
        call = replace(call, result={"exit_code": 0})
        assert call.is_held

    assert (call.is_at_work, call.waits_for_person({None, "again"})) == (works, waits)


def effect(path: str, before: str | None, after: str | None) -> dict[str, Any]:
    return {"path": path, "before": before, "after": after}


@pytest.mark.parametrize(
    ("texts", "outcome"),
    [
        (("new", None), "after"),
        (("old", "b"), "before"),
        (("new", "b"), "unknown"),
        (("other", None), "unknown"),
    ],
)
def test_what_a_file_tool_has_done_is_read_off_all_of_its_files(
    tmp_path: Path, texts: tuple[str, str | None], outcome: str
) -> None:
    old, new, b = (content_hash(text.encode()) for text in ("old", "new", "b"))
    call = rows.call(effects=[effect("a.txt", old, new), effect("b.txt", b, None)])
    for name, text in zip(("a.txt", "b.txt"), texts, strict=True):
        if text is not None:
            (tmp_path / name).write_text(text)

    assert file_outcome(tmp_path, call) == outcome


def test_a_folder_that_was_to_be_made_is_there_or_is_not(tmp_path: Path) -> None:
    call = rows.call(effects=[effect("new", None, "folder")])
    assert file_outcome(tmp_path, call) == "before"
    (tmp_path / "new").mkdir()
    assert file_outcome(tmp_path, call) == "after"
    other = rows.call(effects=[effect("new", None, content_hash(b""))])
    assert file_outcome(tmp_path, other) == "unknown"


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (ToolClass.PURE, "before"),
        (ToolClass.IDEMPOTENT, "before"),
        (ToolClass.OTHER, "unknown"),
        (ToolClass.CONTROL, "unknown"),
    ],
)
def test_a_call_without_effects_runs_again_only_where_that_does_no_harm(
    tmp_path: Path, kind: ToolClass, outcome: str
) -> None:
    assert file_outcome(tmp_path, rows.call(tool_class=kind)) == outcome


def test_of_files_that_cannot_be_looked_at_nobody_knows_what_came(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("../out", "pipe"):
        assert file_outcome(tmp_path, rows.call(effects=[effect(path, None, "x")])) == "unknown"
    assert file_outcome(tmp_path / "gone", rows.call(effects=[effect("a", "1", "x")])) == "unknown"


def test_a_question_shows_the_parts_of_a_command_and_the_one_that_asks() -> None:
    trace = VerdictTrace()
    trace.enter(VerdictStage.DEFAULT, "git push").take("default:other")
    found = gated(
        tool="execute_command", access=Access(command="ls 'a b' && git push"), trace=trace,
        arguments={"command": "ls 'a b' && git push"}, words="git push",
    )  # fmt: skip
    call: CallRow = rows.call(
        tool="execute_command", plan_id="p1", revision=2, subtask_id="s", turn_id="t",
    )  # fmt: skip
    before = rows.approval("appr_0")

    assert parts_of(gated()) == []
    asked = question_of_call(call, found, edited_by="bob", before=before)
    assert asked.details == {
        "arguments": found.arguments, "preview": "", "agent": "coder", "rule": "default:other",
        "parts": [
            {"text": "ls 'a b'", "joined_by": "", "asks": False},
            {"text": "git push", "joined_by": "&&", "asks": True},
        ],
        "words_for_plan": "git push", "edited_by": "bob",
    }  # fmt: skip
    assert (asked.session_id, asked.kind, asked.subject, asked.reason, asked.digest) == (
        "s1", "tool", "execute_command", "asks", "sha256:now",
    )  # fmt: skip
    assert (asked.turn_id, asked.plan_id, asked.revision, asked.subtask_id) == ("t", "p1", 2, "s")
    assert (asked.call_id, asked.agent, asked.instead_of) == ("call_1", "coder", before)
    assert asked.same == {
        "tool": "execute_command", "arguments": found.arguments, "base_hashes": {"a.txt": None},
    }  # fmt: skip
    plain = question_of_call(rows.call(), gated())
    assert plain.details == {
        "arguments": {"path": "a.txt"}, "preview": "", "agent": "coder", "rule": "default:other",
    }  # fmt: skip
    assert plain.instead_of is None


def test_a_verdict_is_explained_with_each_step_and_with_what_was_not_looked_at() -> None:
    def rule(number: int, where: str) -> Rule:
        text = RuleText(tool="write_file", decision="allow")
        return Rule(name=f"user:{number}", text=text, where=where)

    looked, other, stands_back = rule(1, "rules.toml:1"), rule(2, "rules.toml:5"), rule(3, "ann")
    held = Rules(user=(looked, other))
    trace = VerdictTrace()
    step = trace.enter(VerdictStage.ALLOW, "ls")
    step.take("user:9", "the path is another")
    step.take("user:1")
    trace.enter(VerdictStage.DEFAULT)
    verdict = Verdict(decision="allow", reason="r", rule="user:1")
    found = gated(verdict=verdict, trace=trace, rules=held)

    assert explained(found, Rules(user=(looked, other, stands_back))) == {
        "decision": "allow", "reason": "r", "rule": "user:1", "source": "rule", "network": False,
        "read_only": False, "expects": [], "tool": "write_file", "where": ["rules.toml:1"],
        "steps": [
            {
                "step": "allow rules", "part": "ls", "decided": "user:1",
                "considered": [
                    {
                        "rule": "user:9", "where": "", "matched": False,
                        "why": "the path is another",
                    },
                    {"rule": "user:1", "where": "rules.toml:1", "matched": True, "why": ""},
                ],
            },
            {"step": "default", "considered": []},
        ],
        "not_considered": [
            {"rule": "user:2", "where": "rules.toml:5"},
            {"rule": "user:3", "where": "ann", "stands_back": True},
        ],
    }  # fmt: skip
