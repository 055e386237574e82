"""The lines of a plan's account: what matters most comes first, however much there is it fits."""

import json
from typing import Any

import pytest

from fakes import rows
from gonogo.domain.checks import DoneCheck
from gonogo.domain.events import PlanEndedFacts
from gonogo.domain.records import SubtaskRow
from gonogo.domain.replanning import Used
from gonogo.domain.states import ApprovalKind, ApprovalStatus, SubtaskStatus
from gonogo.execution.plans.ending import Made, PlanRecord, _text, execution_result, told_refusals
from gonogo.i18n import say
from gonogo.store import Store, Tx
from gonogo.store.calls import RefusedCall
from gonogo.store.plans import Move, move_subtasks, plan_of

_S = SubtaskStatus


@pytest.fixture
def kind() -> str:
    return "sqlite"


def row(key: str, status: SubtaskStatus, **more: Any) -> SubtaskRow:
    given: dict[str, Any] = {
        "key": f"p1/2/{key}", "plan_id": "p1", "revision": 2, "subtask_id": key, "position": 1,
        "status": status, "attempt": 1, "epoch": 1, "not_before": None, "started_at": None,
        "active_since": None, "finished_at": None, "result": None, "error": None, "reason": None,
    }  # fmt: skip
    return SubtaskRow(**{**given, **more})


def refused(number: int, **more: Any) -> RefusedCall:
    given = {"call_id": f"call_{number}", "subtask_id": "a", "tool": "execute_command",
             "arguments": {"command": "git push"}, "error": "rejected: no"}  # fmt: skip
    return RefusedCall(**{**given, **more})


CHECK = DoneCheck(file_exists="out")
FIRST = rows.revision(rows.subtask("a"), rows.subtask("x"))
SECOND = rows.revision(
    rows.subtask("a", done_when=(CHECK,)), rows.subtask("b", "a", agent=None, tool="fetch"),
    rows.subtask("c"), number=2,
)  # fmt: skip
SEEN = [{"check": CHECK.facts, "holds": True, "seen": "'out' exists"}]


def record(**more: Any) -> PlanRecord:
    given: dict[str, Any] = {
        "plan": rows.plan(revision=2),
        "ended": PlanEndedFacts(
            plan_id="p1", status="partial", total=3, completed=1, failed=1, skipped=1,
            duration_seconds=2.5, revision=2,
        ),
        "used": Used(requests=3, input_tokens=20, output_tokens=4, cost_micros=1_500_000,
                     unpriced=1),
        "revisions": [Made(FIRST, "architect", "proposed"), Made(SECOND, "ann", "edited")],
        "rows": [
            row("a", _S.COMPLETED, attempt=2,
                result={"status": "completed", "output": "made", "metadata": {}, "checks": SEEN}),
            row("b", _S.FAILED, error={"message": "no network"}),
            row("c", _S.SKIPPED, attempt=0, reason="b did not complete"),
        ],
        "answers": [
            rows.approval(kind=ApprovalKind.PLAN, subject="A goal", plan_id="p1",
                          status=ApprovalStatus.APPROVED, decision={"decided_name": "ann"}),
            rows.approval(subject="execute_command", subtask_id="a",
                          details={"arguments": {"command": "git push"}},
                          status=ApprovalStatus.REJECTED,
                          decision={"decided_name": "bob", "feedback": "no", "changes": {"a": 1}}),
            rows.approval(status=ApprovalStatus.APPROVED, decision={"decided_name": "bob"}),
            rows.approval(subject="kept", status=ApprovalStatus.APPROVED,
                          decision={"decided_name": "bob", "feedback": "fine"}),
        ],
        "refused": [refused(1), refused(2, subtask_id="b")],
        "changes": [],
    }  # fmt: skip
    return PlanRecord(**{**given, **more})


FILES = {
    "a": [{"path": "out", "status": "added", "lines_added": 1, "lines_removed": 0}],
    "x": [{"path": "old", "status": "removed"}],
}
WHOLE: list[dict[str, Any]] = [
    {
        "plan_id": "p1", "status": "partial", "total": 3, "completed": 1, "failed": 1,
        "skipped": 1, "cancelled": 0, "revision": 2, "goal": "A goal",
        "model_requests": 3, "tokens": 24, "dollars": 1.5, "replies_of_unknown_price": 1,
    },
    {
        "subtask": "b", "status": "failed", "by": "tool:fetch", "task": "Do b", "attempts": 1,
        "error": "no network",
        "refused": [{"tool": "execute_command", "about": "git push", "error": "rejected: no"}],
    },
    {"question": "plan", "about": "A goal", "answer": "approved", "by": "ann"},
    {
        "question": "tool", "subtask": "a", "about": "execute_command", "at": "git push",
        "answer": "rejected", "by": "bob", "feedback": "no", "edited": '{"a": 1}',
    },
    {"question": "tool", "about": "kept", "answer": "approved", "by": "bob", "feedback": "fine"},
    {
        "revision": 2, "made_by": "ann", "because": "edited", "added": "b, c", "removed": "x",
        "changed": "a: done_when",
    },
    {
        "subtask": "a", "status": "completed", "by": "coder", "task": "Do a", "attempts": 2,
        "output": "made",
        "checks": [{"check": '{"file_exists": "out"}', "seen": "'out' exists"}],
        "refused": [{"tool": "execute_command", "about": "git push", "error": "rejected: no"}],
        "files": FILES["a"],
    },
    {
        "subtask": "c", "status": "skipped", "by": "coder", "task": "Do c",
        "reason": "b did not complete",
    },
    {"subtask": "x", "files": FILES["x"]},
]  # fmt: skip


def lines(told: str) -> list[dict[str, Any]]:
    head, *rest = told.splitlines()
    assert head == say("model_account", "en", plan_id="p1")
    return [json.loads(line) for line in rest]


def test_a_short_record_is_told_whole_and_what_failed_comes_before_what_did_not() -> None:
    assert lines(_text(record(), FILES, "en")) == WHOLE
    priced = record(used=Used(requests=1), answers=[], refused=[])
    plan, *_ = lines(_text(priced, {}, "en"))
    assert "replies_of_unknown_price" not in plan
    assert (plan["model_requests"], plan["tokens"], plan["dollars"]) == (1, 0, 0)


@pytest.mark.parametrize(
    ("output", "shown", "files"),
    [(2_000, 2_000, 40), (2_001, 2_000, 40), (20_000, 2_000, 40)],
)
def test_a_text_is_cut_and_says_how_much_is_left_out(output: int, shown: int, files: int) -> None:
    long = [row("a", _S.FAILED, error={"message": "y" * output}, result={"output": 1})]
    many = {"a": [{"path": f"f{n}", "status": "added"} for n in range(files + 2)]}
    ended = PlanEndedFacts(
        plan_id="p1", status="failed", total=1, completed=0, failed=1, skipped=0,
        duration_seconds=0.0,
    )  # fmt: skip
    told = lines(_text(record(rows=long, ended=ended, answers=[], refused=[]), many, "en"))
    found = next(line for line in told if line.get("subtask") == "a")
    left = f"… ({output - shown} more characters)" if output > shown else ""
    assert found["error"] == "y" * shown + left
    assert (len(found["files"]), found["more_files"]) == (files, 2)


def test_the_widest_measure_that_fits_is_taken_and_what_does_not_fit_at_all_is_counted() -> None:
    def told(count: int, letters: int) -> str:
        failed = [row(f"s{n}", _S.FAILED, error={"message": "z" * letters}) for n in range(count)]
        revision = rows.revision(*(rows.subtask(f"s{n}") for n in range(count)), number=2)
        ended = PlanEndedFacts(
            plan_id="p1", status="failed", total=count, completed=0, failed=count, skipped=0,
            duration_seconds=0.0,
        )  # fmt: skip
        many = {"s0": [{"path": f"f{n}", "status": "added"} for n in range(50)]}
        found = record(
            rows=failed, ended=ended, answers=[], refused=[], revisions=[Made(revision, "a", "b")]
        )
        return _text(found, many, "en")

    def measure(text: str) -> tuple[int, int]:
        line = json.loads(text.splitlines()[2])
        return line["error"].count("z"), len(line["files"])

    assert measure(told(4, 3_000)) == (2_000, 40)
    assert measure(told(15, 3_000)) == (600, 20)
    assert measure(told(40, 3_000)) == (200, 8)
    assert measure(told(70, 3_000)) == (80, 3)

    over = told(200, 3_000).splitlines()
    assert over[-1] == say("model_account_left", "en", count=201 - len(over[1:-1]))
    size = sum(len(line) + 1 for line in over[1:-1])
    assert 16_000 - len(over[-2]) - 1 < size <= 16_000


def test_calls_that_were_not_carried_out_are_named_as_far_as_anybody_reads_them() -> None:
    long = refused(0, arguments={"path": "p" * 301}, error="e" * 301)
    assert told_refusals([long]) == [
        {"call_id": "call_0", "tool_name": "execute_command", "about": "p" * 300,
         "error": "e" * 300}
    ]  # fmt: skip
    assert told_refusals([refused(1, arguments={})])[0]["about"] == ""
    assert len(told_refusals([refused(n) for n in range(51)])) == 50


async def test_what_execute_plan_gives_names_the_end_of_each_subtask(store: Store) -> None:
    def over(tx: Tx) -> dict[str, Any]:
        rows.begin(tx)
        rows.begin_plan(tx, *(rows.subtask(key) for key in "abc"))
        ends = {
            "a": (_S.COMPLETED, {"result": {"output": "made"}}),
            "b": (_S.FAILED, {"error": {"message": "no network", "category": "network"}}),
            "c": (_S.SKIPPED, {"reason": "b did not complete"}),
        }
        for key, (status, to) in ends.items():
            if status is not _S.SKIPPED:
                assert move_subtasks(tx, [Move(f"p1/1/{key}", _S.PENDING, 0, _S.RUNNING, {})])
            before = _S.PENDING if status is _S.SKIPPED else _S.RUNNING
            assert move_subtasks(tx, [Move(f"p1/1/{key}", before, 0, status, to)])
        plan = plan_of(tx, "p1")
        assert plan is not None
        return execution_result(tx, plan)

    assert await store.write(over) == {
        "plan_id": "p1", "status": "awaiting_approval", "total": 3, "completed": 1, "failed": 1,
        "skipped": 1, "cancelled": 0, "duration_seconds": 0.0, "revision": 1,
        "success_rate": 0.3333, "errors": [{"subtask_id": "b", "message": "no network"}],
        "subtasks": {
            "a": {"status": "completed", "result": {"output": "made"}},
            "b": {"status": "failed", "error": {"message": "no network", "category": "network"}},
            "c": {"status": "skipped", "reason": "b did not complete"},
        },
    }  # fmt: skip
