"""Migrations: a database of an older version keeps what it holds."""

from sqlalchemy import text

from gonogo.domain.plan_state import PlanStatus
from gonogo.store import Store
from gonogo.store._migrate import version_of
from gonogo.store._schema import METADATA
from gonogo.store.plans import plan_of, standings
from store.older import upgrade
from store.test_schema import differences, engine_of

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


async def test_a_plan_of_the_first_version_is_read_by_this_one(empty_url):
    engine = engine_of(empty_url)
    upgrade(engine, "0001")
    with engine.connect() as conn:
        for statement in PLAN.split(";"):
            conn.execute(text(statement), {"at": "2026-01-02T03:04:05.000000Z"})
        conn.commit()
    assert version_of(engine) == "0001"

    store = Store(empty_url)
    plan = await store.read(plan_of, "p")
    found = await store.read(standings, "p", 1)
    store.close()

    assert plan is not None
    assert (plan.status, plan.replans, plan.paused_until) == (PlanStatus.RUNNING, 0, None)
    assert (found["a"].epoch, found["a"].attempt) == (4, 1)
    assert differences(engine) == []
    assert {"checkpoints", "file_changes", "model_requests"} <= set(METADATA.tables)
    engine.dispose()
