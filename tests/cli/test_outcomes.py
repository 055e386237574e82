"""What commands say came of their work: a check of the log, a rollback, a tool that was tried."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gonogo.cli.commands import agents, analytics, changes, maintenance
from gonogo.cli.session.decisions import _told as told_of_group
from gonogo.cli.support import Exit, Stop
from gonogo.domain.plan_views import (
    AuditHead,
    AuditRemoved,
    AuditReport,
    RollbackFile,
    RollbackView,
)
from gonogo.domain.views import DecisionAnswer

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def report(*problems: str, **more: Any) -> AuditReport:
    return AuditReport(
        ok=not problems, chains=2, entries=9, problems=list(problems), **more
    )  # fmt: skip


GONE = {
    "removed": [AuditRemoved(chain="s\x07", seq=4, hash="", removed_at=NOW)],
    "older": [AuditHead(chain="t\x07", seq=7, hash="")],
}


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (report(), Exit.DONE, ["The audit log is intact. Entries: 9, chains: 2."]),
        (
            report("a\x07", "b"), Exit.FAILED, [
                "The audit log is NOT intact. Keep a copy of the database, compare it with "
                "your last export and anchors, and tell your administrator:", "a\\x07", "b"],
        ),
        (
            report("a", **GONE), Exit.FAILED,
            [
                "The audit log is NOT intact. Keep a copy of the database, compare it with "
                "your last export and anchors, and tell your administrator:", "a",
                "s\\x07: entries up to 4 were exported and removed on 2026-03-01.",
                "t\\x07 #7: removed since the anchor; check it with --export FILE.",
            ],
        ),
    ],
)  # fmt: skip
def test_what_a_check_of_the_log_found_is_told(capsys, found, code, said):
    assert analytics._told(found, json=False) is code
    assert capsys.readouterr().out.splitlines() == said
    assert analytics._told(found, json=True) is code
    told = json.loads(capsys.readouterr().out)
    assert told == found.model_dump(mode="json", exclude_none=True)


def test_anchors_are_given_or_the_end_of_a_file_of_them(tmp_path):
    file = tmp_path / "anchors"
    file.write_bytes(b"\xff" + b"x" * 9_000 + b"end")
    assert analytics._text_of(None) is None
    assert analytics._text_of("gonogo-anchor-1 x") == "gonogo-anchor-1 x"
    assert analytics._text_of(str(file)) == "x" * 7_997 + "end"
    with pytest.raises(Stop) as caught:
        analytics._text_of("gonogo-ancho")
    assert str(caught.value) == (
        "gonogo-ancho is neither an anchor nor a file; make an anchor: gonogo audit anchor"
    )
    assert caught.value.code is Exit.USAGE


def rolled_back(*files: RollbackFile, **more: Any) -> RollbackView:
    given = {
        "plan_id": "p", "dry_run": False, "subtasks": [], "files": list(files), "restored": 3,
        "conflicts": 2, "shared": 1,
    }  # fmt: skip
    return RollbackView(**given | more)


COUNTS = [
    "3 files restored.", "2 files kept: somebody changed them since.",
    "1 file kept: it changed while a command ran. Undo it too with --include-shared.",
]  # fmt: skip
FILES = [
    RollbackFile(path="a", action="restore"),
    RollbackFile(path="b", action="conflict", reason="changed since"),
]


@pytest.mark.parametrize(
    ("done", "to_latest", "said"),
    [
        (rolled_back(), False, COUNTS),
        (rolled_back(restored=0, checkpoint_id="c"), False, ["0 files restored.", *COUNTS[1:]]),
        (rolled_back(dry_run=True), False, ["3 files would be restored.", *COUNTS[1:]]),
        (
            rolled_back(), True,
            [
                *COUNTS,
                "Nothing has changed since the latest checkpoint. To go further back, use --to "
                "CHECKPOINT; list the checkpoints: gonogo checkpoints list p",
            ],
        ),
        (
            rolled_back(*FILES, checkpoint_id="c", again=["x", "y"]), True,
            [
                *COUNTS, "These subtasks run again when the plan resumes: x, y",
                "Undo this rollback: gonogo rollback p --to c", "action\tfile\twhy", "restore\ta\t",
                "conflict\tb\tchanged since",
            ],
        ),
    ],
)  # fmt: skip
def test_what_a_rollback_did_is_told_with_the_way_back(capsys, done, to_latest, said):
    assert changes._told(done, to_latest=to_latest) is Exit.DONE
    assert capsys.readouterr().out.splitlines() == said


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"decision": "deny", "reason": "no\x07"}, "Denied: no\\x07"),
        (
            {"decision": "ask", "reason": "why\x07", "preview": "+a"},
            "This call needs an approval: why\\x07\n+a",
        ),
        ({"decision": "ask", "reason": "why"}, "This call needs an approval: why\n"),
        ({"decision": "allow", "error": "it fell\x07"}, "Error: it fell\\x07"),
        ({"decision": "allow", "result": {"content": "c\x07", "output": "o"}}, "c\\x07"),
        ({"decision": "allow", "result": {"content": "", "output": 7}}, "7"),
        ({"decision": "allow", "result": {"names": ["a"]}}, '{\n  "names": [\n    "a"\n  ]\n}'),
        ({"decision": "allow", "result": None}, "{}"),
        ({"decision": "allow"}, "{}"),
    ],
)
def test_what_a_tool_did_is_told_in_words(told, said):
    assert agents._words(told) == said


@pytest.mark.parametrize("text", ["[]", '"a"', "1", "null"])
def test_arguments_that_are_no_object_are_refused(text):
    assert agents._object('{"a": 1}') == {"a": 1}
    with pytest.raises(Stop) as caught:
        agents._object(text)
    assert str(caught.value) == "The arguments must be one JSON object, such as {}"
    assert caught.value.code is Exit.USAGE


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0.0 KiB"), (1_536, "1.5 KiB"), (1_048_575, "1024.0 KiB"), (1_048_576, "1.0 MiB"),
        (5_000_000_000, "4768.4 MiB"),
    ],
)  # fmt: skip
def test_room_is_told_in_units_that_people_read(count, said):
    assert maintenance._size(count) == said


ANSWERS = [
    DecisionAnswer(id="a", ok=True, outcome="decided"),
    DecisionAnswer(id="b", ok=False, detail="it is gone"),
]


def test_what_became_of_each_answer_of_a_group_is_told(capsys):
    assert told_of_group(ANSWERS, Exit.WAITS, json=False) is Exit.FAILED
    assert told_of_group(ANSWERS[:1], Exit.WAITS, json=False) is Exit.WAITS
    assert capsys.readouterr().out.splitlines() == ["a decided", "b it is gone", "a decided"]
    assert told_of_group([], Exit.DONE, json=True) is Exit.DONE
    assert json.loads(capsys.readouterr().out) == {"answers": []}
