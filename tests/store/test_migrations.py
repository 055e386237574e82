"""Migrations: a database of an older version keeps what it holds."""

import json
from typing import Any

import pytest
from sqlalchemy import inspect, text

from gonogo.domain.errors import Conflict
from gonogo.domain.states import PlanStatus
from gonogo.store import Store, Tx
from gonogo.store.calls import open_calls
from gonogo.store.migrate import HEAD, version_of
from gonogo.store.people import standing_of
from gonogo.store.plans import check_approved, plan_of, standings
from gonogo.store.reports import used_by_plan
from store.older import make
from store.test_schema import differences, engine_of

AT = "2026-01-02T03:04:05.000000Z"
PLAN = """
INSERT INTO sessions (id, principal_id, workspace, spoken, tool_host, agent, last_seq, audit_seq,
    audit_hash, deleted, created_at, updated_at)
VALUES ('s', 'ann', '/w', 'en', 'server', 'orchestrator', 0, 0, '', 0, :at, :at);
INSERT INTO plans (id, session_id, goal, original_task, status, revision, digest,
    auto_approve_tools, max_parallel, created_at)
VALUES ('p', 's', 'g', 't', 'running', 1, 'd', 1, 3, :at);
INSERT INTO subtasks (key, plan_id, revision, subtask_id, position, status, attempt, epoch)
VALUES ('p/1/a', 'p', 1, 'a', 1, 'completed', 1, 4)
"""


def older(url, engine, statements):
    """A database as an older gonogo has left it."""
    make(url)
    with engine.connect() as conn:
        for statement in statements.split(";"):
            conn.execute(text(statement), {"at": AT})
        conn.commit()
    assert version_of(engine) == "0003"


async def test_a_plan_of_an_older_version_is_read_by_this_one(empty_url):
    engine = engine_of(empty_url)
    older(empty_url, engine, PLAN)

    store = Store(empty_url)
    plan = await store.read(plan_of, "p")
    found = await store.read(standings, "p", 1)
    store.close()

    assert plan is not None
    assert (plan.status, plan.replans, plan.paused_until) == (PlanStatus.RUNNING, 0, None)
    assert (found["a"].epoch, found["a"].attempt) == (4, 1)
    assert differences(engine) == []
    assert version_of(engine) == HEAD
    engine.dispose()


def columns(engine):
    """The columns of each table, as they are in the database."""
    found = inspect(engine)
    return {name: [c["name"] for c in found.get_columns(name)] for name in found.get_table_names()}


@pytest.mark.parametrize("version", ["0001", "0002"])
def test_a_database_that_is_too_old_is_refused_and_left_alone(empty_url, version):
    make(empty_url, f"UPDATE alembic_version SET version_num = '{version}'")  # noqa: S608
    engine = engine_of(empty_url)
    before = columns(engine)

    with pytest.raises(
        Conflict,
        match=f"^The database has the schema {version}, older than 0003, which this gonogo cannot "
        "read; use another database$",
    ):
        Store(empty_url)
    assert version_of(engine) == version
    assert columns(engine) == before
    engine.dispose()


def test_a_step_that_fails_leaves_the_older_database_as_it_was(empty_url):
    make(empty_url, "DROP TABLE session_rules")
    engine = engine_of(empty_url)
    before = columns(engine)

    with pytest.raises(Exception, match="session_rules"):
        Store(empty_url)
    assert version_of(engine) == "0003"
    assert columns(engine) == before
    engine.dispose()


CALL = """
INSERT INTO sessions (id, principal_id, workspace, spoken, tool_host, agent, last_seq, audit_seq,
    audit_hash, deleted, created_at, updated_at)
VALUES ('s', 'ann', '/w', 'en', 'server', 'orchestrator', 0, 0, '', 0, :at, :at);
INSERT INTO tool_calls (id, session_id, thread, position, agent, tool, tool_class, arguments,
    base_hashes, effects, digest, status, verdict, created_at)
VALUES ('c', 's', 'main', 1, 'coder', 'read_file', 'pure', '{}', '{}', '[]', 'd', 'proposed', '{}',
    :at)
"""
SEEN = """
INSERT INTO sightings (name, position, digest, definition, seen_at, accepted_at)
VALUES ('mcp__a__x', {position}, 'd{position}', '{{"name":"x"}}', :at, {accepted})
"""


async def test_a_call_that_waits_is_taken_over_as_never_judged_in_vain(empty_url):
    engine = engine_of(empty_url)
    older(empty_url, engine, CALL)
    store = Store(empty_url)
    [call] = await store.read(open_calls, "s", "main")
    store.close()
    assert (call.id, call.judgings) == ("c", 0)
    assert differences(engine) == []
    engine.dispose()


ASKED = """
INSERT INTO sessions (id, principal_id, workspace, spoken, tool_host, agent, last_seq, audit_seq,
    audit_hash, deleted, created_at, updated_at)
VALUES ('s', 'ann', '/w', 'en', 'server', 'orchestrator', 0, 0, '', 0, :at, :at);
INSERT INTO model_requests (id, session_id, plan_id, thread, agent, model, status, input_tokens,
    output_tokens, cost_micros, created_at)
VALUES ('r', 's', 'p', 'main', 'coder', 'm', 'done', 70, 9, 5, :at)
"""


async def test_what_earlier_requests_took_still_counts_with_no_classes_of_tokens(empty_url):
    engine = engine_of(empty_url)
    older(empty_url, engine, ASKED)
    store = Store(empty_url)
    used = await store.read(used_by_plan, "p")
    store.close()
    assert (used.requests, used.input_tokens, used.output_tokens) == (1, 70, 9)
    assert (used.cached_tokens, used.cache_write_tokens, used.reasoning_tokens) == (0, 0, 0)
    engine.dispose()


async def test_texts_of_tools_that_nobody_reads_any_more_are_let_go(empty_url):
    engine = engine_of(empty_url)
    rows = [(1, ":at"), (2, "NULL"), (3, ":at"), (4, "NULL"), (5, "NULL")]
    statements = [SEEN.format(position=at, accepted=accepted) for at, accepted in rows]
    older(empty_url, engine, ";".join(statements))
    store = Store(empty_url)
    standing = await store.read(standing_of, "mcp__a__x")
    store.close()
    assert [bool(seen.definition) for seen in standing.sightings] == [False] * 2 + [
        True, False, True,
    ]  # fmt: skip
    engine.dispose()


def _insert(tx: Tx, table: str, **row: Any) -> None:
    names = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    tx.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)  # noqa: S608


def _plan(tx: Tx, name: str, status: str, *revisions: str) -> None:
    """A plan whose revisions came about so: `reason`, or `reason answer` where it was asked."""
    _insert(
        tx, "plans", id=name, session_id="s", goal="g", original_task="t", status=status,
        revision=len(revisions), digest=f"d{len(revisions)}", auto_approve_tools=1, max_parallel=3,
        created_at=AT, started_at=AT, finished_at=AT if status == "partial" else None,
    )  # fmt: skip
    subtasks: list[dict[str, str]] = []
    for number, said in enumerate(revisions, 1):
        reason, _, answer = said.rpartition(":")
        if reason in {"proposed", "replanned", "edited"}:
            subtasks = [{"id": "a", "description": f"Do {number}"}]
        _insert(
            tx, "plan_revisions", plan_id=name, number=number, digest=f"d{number}", goal="g",
            subtasks=json.dumps(subtasks), created_at=AT, created_by="ann", reason=reason,
        )  # fmt: skip
        _insert(
            tx, "subtasks", key=f"{name}/{number}/a", plan_id=name, revision=number,
            subtask_id="a", position=1, status="pending", attempt=0, epoch=0,
        )  # fmt: skip
        if answer:
            _insert(
                tx, "approvals", id=f"{name}{number}", session_id="s", kind="plan", subject="g",
                details="{}", reason="r", digest=f"d{number}", status=answer, plan_id=name,
                revision=number, created_at=AT,
            )  # fmt: skip


PLANS = {
    "approved": ("running", ("proposed:approved",), 1, 1),
    "never": ("rejected", ("proposed:rejected",), None, 1),
    "waits": ("awaiting_approval", ("proposed:pending",), None, 1),
    "edited": ("running", ("proposed:edited", "edited:"), 2, 2),
    "agreed on": ("running", ("proposed:superseded", "edited:approved"), 2, 2),
    "replanned": ("running", ("proposed:approved", "replanned:approved"), 2, 2),
    "within the grant": ("running", ("proposed:approved", "replanned:"), 2, 2),
    "waits again": ("awaiting_approval", ("proposed:approved", "replanned:pending"), 1, 2),
    "retried": ("partial", ("proposed:approved", "retry of a:", "rollback:"), 3, 3),
    "rejected": ("partial", ("proposed:approved", "replanned:rejected"), 1, 1),
    "expired": ("partial", ("proposed:approved", "replanned:expired"), 1, 1),
    "by a retry": ("partial", ("proposed:approved", "replanned:rejected", "retry of a:"), 1, 1),
    "under way": ("running", ("proposed:approved", "replanned:rejected", "retry of a:"), 1, 1),
}
"""Status and revisions of each, which of them was approved last, and at which the plan then is."""


async def test_each_plan_is_at_the_revision_that_was_approved_last(empty_url):
    engine = engine_of(empty_url)

    older(empty_url, engine, PLAN.split(";")[0])
    with engine.connect() as conn:
        for name, (status, revisions, *_) in PLANS.items():
            _plan(conn, name, status, *revisions)
        conn.commit()
    store = Store(empty_url)
    found = {name: await store.read(plan_of, name) for name in PLANS}
    rows = {name: await store.read(standings, name, plan.revision) for name, plan in found.items()}
    dropped = await store.read(standings, "under way", 3)
    store.close()
    engine.dispose()

    assert {n: (p.approved_revision, p.revision) for n, p in found.items()} == {
        name: (approved, at) for name, (_, _, approved, at) in PLANS.items()
    }
    assert {p.digest == f"d{p.revision}" for p in found.values()} == {True}
    assert {rows[name]["a"].status for name in ("rejected", "expired", "by a retry")} == {"skipped"}
    assert (rows["under way"]["a"].status, dropped["a"].status) == ("pending", "cancelled")
    check_approved(found["approved"])
    with pytest.raises(
        Conflict,
        match=(r"^Revision 2 of plan waits again was never approved; name an approved revision$"),
    ):
        check_approved(found["waits again"])
