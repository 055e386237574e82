"""Analytics: the database counts what ended in a time, in the sessions that are asked about."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, text

from fakes import rows
from gonogo.domain.plan import Subtask
from gonogo.domain.states import ApprovalStatus, CallStatus, PlanStatus
from gonogo.domain.tool_calls import ToolClass
from gonogo.store import Store, Tx
from gonogo.store.calls import add_approval, add_calls
from gonogo.store.plans import add_plan, add_revision, subtask_rows
from gonogo.store.reports import Counted, count
from gonogo.store.schema import checkpoints, model_requests, subtasks
from gonogo.store.sessions import add_session, set_session

NOW = rows.NOW
SINCE, UNTIL = NOW - timedelta(days=30), NOW + timedelta(days=1)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def ended_plan(tx: Tx, plan_id: str, session_id: str = "s1", **more: Any) -> None:
    given = {
        "session_id": session_id, "status": PlanStatus.COMPLETED, "started_at": NOW,
        "finished_at": after(10),
    }  # fmt: skip
    add_plan(tx, rows.plan(plan_id, **{**given, **more}))


def with_subtasks(tx: Tx, plan_id: str, *given: tuple[Subtask, dict[str, Any]]) -> None:
    revision = rows.revision(*(subtask for subtask, _ in given), plan_id=plan_id)
    add_revision(tx, revision, "architect", "first")
    for subtask, to in given:
        where = (subtasks.c.plan_id == plan_id) & (subtasks.c.subtask_id == subtask.id)
        tx.execute(subtasks.update().where(where).values(**to))


def ran(status: str, seconds: float = 2, **more: Any) -> dict[str, Any]:
    return {
        "status": status, "attempt": 1, "started_at": NOW, "finished_at": after(seconds), **more
    }  # fmt: skip


async def counted(store: Store, **given: Any) -> Counted:
    wanted = {"principal_id": None, "session_id": None, "since": SINCE, "until": UNTIL, **given}
    return await store.read(lambda tx: count(tx, **wanted))


def table(found: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(tuple(str(value) for value in row) for row in found)


async def test_of_an_empty_database_everything_is_nothing(store: Store) -> None:
    found = await counted(store)

    assert found == Counted(
        plans=[], plan_times=[], rollbacks=0, subtasks=[], subtask_times=[], failures=[],
        approvals=[], answers=[], calls=[], models=[],
    )  # fmt: skip


async def test_plans_that_ended_in_the_time_are_counted_by_status(store: Store) -> None:
    def fill(tx: Tx) -> None:
        rows.begin(tx)
        ended_plan(tx, "p1")
        ended_plan(tx, "p2", replans=2)
        ended_plan(tx, "p3", status=PlanStatus.FAILED, replans=1)
        ended_plan(tx, "rejected", status=PlanStatus.REJECTED, started_at=None)
        ended_plan(tx, "running", status=PlanStatus.RUNNING, finished_at=None)
        ended_plan(tx, "long ago", finished_at=SINCE - timedelta(seconds=1))
        ended_plan(tx, "later", finished_at=UNTIL)

    await store.write(fill)
    found = await counted(store)

    assert table(found.plans) == [("completed", "2", "2"), ("failed", "1", "1")]
    assert {tuple(row) for row in found.plan_times} == {(NOW, after(10))}
    assert len(found.plan_times) == 3


async def test_subtasks_are_counted_by_worker_type_and_status_with_their_retries(
    store: Store,
) -> None:
    made = rows.subtask("by tool".replace(" ", "_"), agent=None, tool="read_file")

    def fill(tx: Tx) -> None:
        rows.begin(tx)
        ended_plan(tx, "p1")
        with_subtasks(
            tx, "p1",
            (rows.subtask("a"), ran("completed")),
            (rows.subtask("b"), ran("completed", attempt=3)),
            (rows.subtask("c", type="validation"), ran("failed", error={"category": "logic"})),
            (rows.subtask("d"), ran("skipped", attempt=0, started_at=None)),
            (rows.subtask("e"), {"status": "running", "started_at": NOW}),
            (made, ran("cancelled")),
        )  # fmt: skip

    await store.write(fill)
    found = await counted(store)

    assert table(found.subtasks) == [
        ("coder", "action", "completed", "2", "2"),
        ("coder", "action", "skipped", "1", "0"),
        ("coder", "validation", "failed", "1", "0"),
        ("tool:read_file", "action", "cancelled", "1", "0"),
    ]
    assert len(found.subtask_times) == 4


async def test_a_subtask_that_a_later_revision_keeps_is_counted_once(store: Store) -> None:
    def fill(tx: Tx) -> None:
        rows.begin(tx)
        ended_plan(tx, "p1", revision=2)
        with_subtasks(
            tx, "p1", (rows.subtask("a"), ran("completed")), (rows.subtask("b"), ran("failed"))
        )
        kept = {row.subtask_id: row for row in subtask_rows(tx, "p1", 1)}
        again = rows.revision(rows.subtask("a"), rows.subtask("b"), plan_id="p1", number=2)
        add_revision(tx, again, "ann", "retry of b", kept={"a": kept["a"]})
        second = (subtasks.c.revision == 2) & (subtasks.c.subtask_id == "b")
        tx.execute(subtasks.update().where(second).values(**ran("completed", 9)))

    await store.write(fill)
    found = await counted(store)

    assert table(found.subtasks) == [
        ("coder", "action", "completed", "2", "0"),
        ("coder", "action", "failed", "1", "0"),
    ]
    assert len(found.subtask_times) == 3


async def test_failures_are_counted_by_their_category_whatever_their_message_says(
    store: Store,
) -> None:
    deceives = {
        "message": 'odd: "category": "quota"', "severity": "medium", "category": "network"
    }  # fmt: skip

    def fill(tx: Tx) -> None:
        rows.begin(tx)
        ended_plan(tx, "p1")
        with_subtasks(
            tx, "p1",
            (rows.subtask("a"), ran("failed", error=deceives)),
            (rows.subtask("b"), ran("failed", error={**deceives, "message": "plain"})),
            (rows.subtask("c", agent="debug"), ran("failed", error={"category": "timeout"})),
            (rows.subtask("d"), ran("failed", error={"message": "from another time"})),
            (rows.subtask("e"), ran("completed", error={"category": "logic"})),
        )  # fmt: skip

    await store.write(fill)
    # As an earlier version wrote it, with a blank before each value.
    older = "UPDATE subtasks SET error = replace(error, '\":\"', '\": \"') WHERE subtask_id = 'b'"
    await store.write(lambda tx: tx.execute(text(older)))
    found = await counted(store)

    assert [tuple(row) for row in found.failures] == [
        ("network", "coder", "action", 2),
        ("timeout", "debug", "action", 1),
        ("unknown", "coder", "action", 1),
    ]


async def test_questions_are_counted_by_their_end_and_timed_where_a_person_answered(
    store: Store,
) -> None:
    def asked(tx: Tx, approval_id: str, status: ApprovalStatus, **more: Any) -> None:
        add_approval(tx, rows.approval(approval_id, status=status, **more))

    answered = {"decided_by": "user:ann", "decided_at": after(5)}

    def fill(tx: Tx) -> None:
        rows.begin(tx)
        asked(tx, "1", ApprovalStatus.APPROVED, **answered)
        asked(tx, "2", ApprovalStatus.REJECTED, decided_by="gonogo", decided_at=after(9))
        asked(tx, "3", ApprovalStatus.EXPIRED, decided_at=after(9))
        asked(tx, "4", ApprovalStatus.PENDING, kind="plan")
        asked(tx, "5", ApprovalStatus.APPROVED, created_at=SINCE - timedelta(1), **answered)

    await store.write(fill)
    found = await counted(store)

    assert table(found.approvals) == [
        ("plan", "pending", "1"),
        ("tool", "approved", "1"),
        ("tool", "expired", "1"),
        ("tool", "rejected", "1"),
    ]
    assert [tuple(row) for row in found.answers] == [("tool", NOW, after(5))]


async def test_calls_are_counted_by_what_let_them_run(store: Store) -> None:
    granted = {"decision": "allow", "reason": "in scope", "rule": "grant:p#a", "source": "grant"}
    ruled = {"decision": "allow", "reason": 'says "source": "grant"', "source": "rule"}
    done = {"status": CallStatus.COMPLETED, "started_at": NOW, "finished_at": after(1)}

    def fill(tx: Tx) -> None:
        rows.begin(tx)
        found = [
            rows.call("1", verdict=granted, **done),
            rows.call("2", verdict=ruled, **done),
            rows.call("3", verdict={"decision": "ask"}, approval_id="appr_1", **done),
            rows.call("4", status=CallStatus.DENIED, verdict={"decision": "deny"}),
            rows.call("5", tool_class=ToolClass.CONTROL, verdict=ruled, **done),
        ]
        add_calls(tx, found)

    await store.write(fill)
    found = await counted(store)

    assert table(found.calls) == [
        ("grant", "completed", "1"),
        ("nobody", "denied", "1"),
        ("person", "completed", "1"),
        ("rule", "completed", "1"),
    ]


async def test_requests_to_models_are_added_up(store: Store) -> None:
    def request(request_id: str, status: str) -> dict[str, Any]:
        return {
            "id": request_id, "session_id": "s1", "thread": "main", "agent": "coder",
            "model": "demo", "status": status, "input_tokens": 100, "output_tokens": 10,
            "cached_tokens": 60, "cache_write_tokens": 5, "reasoning_tokens": 7,
            "cost_micros": 3_000_000_000, "created_at": NOW,
        }  # fmt: skip

    def fill(tx: Tx) -> None:
        rows.begin(tx)
        tx.execute(insert(model_requests), [request("1", "done"), request("2", "failed")])

    await store.write(fill)
    found = await counted(store)

    assert [tuple(map(str, row)) for row in found.models] == [
        ("demo", "2", "1", "200", "120", "10", "20", "14", "6000000000")
    ]


@pytest.mark.parametrize(
    ("asked", "plans"),
    [
        ({}, 3),
        ({"principal_id": "ann"}, 2),
        ({"session_id": "s1"}, 1),
        ({"session_id": "no such"}, 0),
        ({"principal_id": "ann", "session_id": "s2"}, 1),
        ({"principal_id": "bob", "session_id": "s2"}, 0),
        ({"principal_id": "nobody"}, 0),
    ],
)
async def test_only_the_sessions_that_are_asked_about_count(
    store: Store, asked: dict[str, str], plans: int
) -> None:
    def fill(tx: Tx) -> None:
        rows.begin(tx, "s1", "s2", "gone")
        add_session(tx, rows.session("s3", principal_id="bob"))
        set_session(tx, "gone", deleted=True)
        for number, session_id in enumerate(("s1", "s2", "s3", "gone")):
            ended_plan(tx, f"p{number}", session_id)

    await store.write(fill)
    found = await counted(store, **asked)

    assert sum(row[1] for row in found.plans) == plans


async def test_of_one_session_nothing_counts_that_happened_in_another(store: Store) -> None:
    done = {"started_at": NOW, "finished_at": after(1), "verdict": {"decision": "ask"}}
    answered = {"status": ApprovalStatus.APPROVED, "decided_by": "user:ann", "decided_at": after(5)}
    asked = {
        "id": "1", "session_id": "s1", "thread": "main", "agent": "coder", "model": "demo",
        "status": "done", "input_tokens": 1, "output_tokens": 1, "cost_micros": 1,
        "created_at": NOW,
    }  # fmt: skip
    kept = {
        "id": "k", "plan_id": "p1", "session_id": "s1", "reason": "rollback", "revision": 1,
        "standings": "", "hash": "h", "attempt": 0, "event_seq": 0, "last_change": 0,
        "created_at": NOW,
    }  # fmt: skip

    def fill(tx: Tx) -> None:
        rows.begin(tx, "s1", "s2")
        ended_plan(tx, "p1")
        failed = ran("failed", error={"category": "logic"})
        with_subtasks(tx, "p1", (rows.subtask("a"), failed))
        add_approval(tx, rows.approval("1", **answered))
        add_calls(tx, [rows.call("1", status=CallStatus.COMPLETED, **done)])
        tx.execute(insert(model_requests), [asked])
        tx.execute(insert(checkpoints), [kept])

    await store.write(fill)
    every, own, other = [
        await counted(store, **of) for of in ({}, {"session_id": "s1"}, {"session_id": "s2"})
    ]

    assert own == every
    assert all(getattr(own, name) for name in Counted.__struct_fields__)
    assert not any(getattr(other, name) for name in Counted.__struct_fields__)
