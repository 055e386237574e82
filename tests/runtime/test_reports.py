"""What came of the work, put together from what was counted: every number in its place."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.rows import NOW
from fakes.world import world_of
from gonogo.domain.errors import Forbidden
from gonogo.domain.tool_calls import ToolClass
from gonogo.runtime.reports import _call_view, _summary
from gonogo.store.calls import JudgedCall
from gonogo.store.reports import Counted

SECOND = timedelta(seconds=1)
TIMES = {"count": 1, "p50": 2.0, "p90": 2.0, "p99": 2.0}


def row(**given: Any) -> Any:
    return SimpleNamespace(**given)


def counted(**more: Any) -> Counted:
    nothing = {name: [] for name in Counted.__struct_fields__} | {"rollbacks": 0}
    return Counted(**{**nothing, **more})


def shown(**more: Any) -> dict[str, Any]:
    found = _summary(counted(**more), "s", NOW - SECOND, NOW)
    return found.model_dump(mode="python", exclude_none=True)


def test_plans_are_summed_up_by_how_they_ended() -> None:
    found = shown(
        plans=[("completed", 3, 1), ("failed", 1, 4)], rollbacks=5,
        plan_times=[(NOW, NOW + 2 * SECOND)],
    )  # fmt: skip

    assert (found["session_id"], found["since"], found["until"]) == ("s", NOW - SECOND, NOW)
    assert found["plans"] == {
        "ended": 4, "completed": 3, "partial": 0, "failed": 1, "cancelled": 0,
        "success_rate": 0.75, "replans": 5, "rollbacks": 5, "duration_seconds": TIMES,
    }  # fmt: skip
    nothing = {"ended": 0, "completed": 0, "partial": 0, "failed": 0, "cancelled": 0}
    assert shown()["plans"] == {**nothing, "replans": 0, "rollbacks": 0}
    assert shown(plans=[("failed", 1, 0)])["plans"]["success_rate"] == 0


def ended(worker: str, type_: str, status: str, many: int, retries: int = 0) -> Any:
    return row(worker=worker, type=type_, status=status, many=many, retries=retries)


def test_subtasks_are_summed_up_in_all_and_by_worker_and_type() -> None:
    time = {"started_at": NOW, "finished_at": NOW + 2 * SECOND}
    found = shown(
        subtasks=[
            ended("debug", "action", "failed", 1, 2), ended("coder", "action", "completed", 2, 1),
            ended("coder", "validation", "completed", 1), ended("coder", "action", "skipped", 4),
        ],
        subtask_times=[row(worker="coder", type="action", **time)],
        failures=[row(category="network", worker="debug", type="action", many=1)],
    )  # fmt: skip
    every = {
        "name": "all", "ended": 8, "completed": 3, "failed": 1, "skipped": 4, "cancelled": 0,
        "retries": 3, "success_rate": 0.75, "duration_seconds": TIMES,
    }  # fmt: skip
    coder = {**every, "name": "coder", "ended": 7, "failed": 0, "retries": 1, "success_rate": 1.0}
    debug = {
        "name": "debug", "ended": 1, "completed": 0, "failed": 1, "skipped": 0, "cancelled": 0,
        "retries": 2, "success_rate": 0.0,
    }  # fmt: skip

    assert found["subtasks"] == every
    assert found["by_worker"] == [coder, debug]
    assert [(each["name"], each["ended"]) for each in found["by_type"]] == [
        ("action", 7), ("validation", 1),
    ]  # fmt: skip
    assert found["failures"] == [
        {"category": "network", "worker": "debug", "type": "action", "count": 1}
    ]
    assert "success_rate" not in shown(subtasks=[ended("a", "b", "skipped", 1)])["subtasks"]


def test_questions_are_summed_up_by_kind_with_how_long_people_took() -> None:
    asked = [
        row(kind="tool", status="approved", many=2), row(kind="tool", status="pending", many=3),
        row(kind="plan", status="rejected", many=1),
    ]  # fmt: skip
    answers = [row(kind="tool", created_at=NOW, decided_at=NOW + 2 * SECOND)]

    assert shown(approvals=asked, answers=answers)["approvals"] == [
        {"kind": "plan", "asked": 1, "pending": 0, "answers": {"rejected": 1}},
        {"kind": "tool", "asked": 5, "pending": 3, "answers": {"approved": 2},
         "latency_seconds": TIMES},
    ]  # fmt: skip


def test_calls_are_summed_up_by_what_let_them_run_and_by_how_they_ended() -> None:
    ends = ("completed", "failed", "denied", "rejected", "expired", "cancelled", "unknown")
    calls = [row(source="rule", status=end, many=number) for number, end in enumerate(ends, 1)]
    calls += [row(source="nobody", status="proposed", many=9)]
    calls += [row(source="grant", status="completed", many=1)]

    assert shown(calls=calls)["tool_calls"] == {
        "asked": 38, "started": {"grant": 1, "rule": 28},
        "ended": {"cancelled": 6, "completed": 2, "denied": 3, "expired": 5, "failed": 2,
                  "rejected": 4, "unknown": 7},
    }  # fmt: skip


def test_models_are_told_with_their_tokens_and_their_cost_in_dollars() -> None:
    tokens = {
        "input_tokens": 1, "cached_tokens": 2, "cache_write_tokens": 3, "output_tokens": 4,
        "reasoning_tokens": 5,
    }  # fmt: skip
    used = row(model="demo", requests=6, failed=7, cost_micros=1_500_000, **tokens)

    assert shown(models=[used])["models"] == [
        {"model": "demo", "requests": 6, "failed": 7, "cost_dollars": 1.5, **tokens}
    ]


def test_a_call_is_shown_as_it_was_judged_with_what_says_what_it_touches() -> None:
    given = {
        "path": "a", "source": "b", "destination": "c", "patch": "d", "command": "e", "cwd": "f",
    }  # fmt: skip
    call = JudgedCall(
        id="c1", session_id="s", agent="coder", tool="edit", tool_class=ToolClass.IDEMPOTENT,
        plan_id="p", revision=2, subtask_id="a", created_at=NOW, answer="approved", granted=True,
        scope={"paths": ["x"]}, arguments={**given, "content": "no"},
        verdict={"decision": "ask", "rule": "r", "reason": "why", "more": 1},
    )  # fmt: skip

    assert _call_view(call).model_dump() == {
        "call_id": "c1", "session_id": "s", "agent": "coder", "tool_name": "edit",
        "tool_class": "idempotent", "plan_id": "p", "revision": 2, "subtask_id": "a",
        "created_at": NOW, "answer": "approved", "granted": True, "scope": {"paths": ["x"]},
        "arguments": given, "decision": "ask", "rule": "r", "reason": "why",
    }  # fmt: skip


RULES = """
[[rule]]
tool = "write_file"
path = "docs/**"
decision = "allow"
reason = "they are words"

[[review]]
kind = "plan"
approvals = 2
reviewers = ["ann", "bob"]
"""


async def test_an_admin_reads_the_rules_in_force_and_what_they_make_of_a_call(
    tmp_path: Path,
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "rules.toml").write_text(RULES)
    (tmp_path / "admin.toml").write_text('[[rule]]\ntool = "web"\ndecision = "deny"\n')
    async with world_of(tmp_path, {}, admin_rules=tmp_path / "admin.toml") as world:
        policies, owner = world.runtime.policies, world.runtime.owner
        found = policies.in_force(owner)
        with pytest.raises(Forbidden):
            policies.in_force(world.ann)
        path = {"path": "docs/a.md", "content": "x\n"}
        judged = await policies.judge(owner, "write_file", path, "coder")
        version = world.runtime.parts.gate.rules.version

    file = tmp_path / "config" / "rules.toml"
    assert found.version == version
    assert [each.model_dump() for each in found.rules] == [
        {"name": "admin:1", "tier": "admin", "where": f"{tmp_path}/admin.toml:1",
         "rule": {"tool": "web", "decision": "deny"}},
        {"name": "user:1", "tier": "user", "where": f"{file}:2",
         "rule": {"tool": "write_file", "path": "docs/**", "decision": "allow",
                  "reason": "they are words"}},
    ]  # fmt: skip
    [review] = found.reviews
    assert (review.name, review.tier, review.where) == ("user:review:1", "user", f"{file}:8")
    assert (review.rule["kind"], review.rule["approvals"]) == ("plan", 2)
    assert (judged.decision, judged.rule, judged.tool) == ("allow", "user:1", "write_file")
    assert judged.where == [f"{file}:2"]
    assert "+x" in judged.preview
