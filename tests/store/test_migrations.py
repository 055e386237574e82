"""Migrations: a database of an older version keeps what it holds."""

from sqlalchemy import text

from gonogo.domain.plan_state import PlanStatus
from gonogo.store import Store
from gonogo.store._migrate import version_of
from gonogo.store._schema import METADATA
from gonogo.store.calls import open_calls
from gonogo.store.plans import plan_of, standings
from gonogo.store.sightings import standing_of
from store.older import upgrade
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


def of_version(engine, version, statements):
    """A database as an older gonogo has left it."""
    upgrade(engine, version)
    with engine.connect() as conn:
        for statement in statements.split(";"):
            conn.execute(text(statement), {"at": AT})
        conn.commit()
    assert version_of(engine) == version


async def test_a_plan_of_the_first_version_is_read_by_this_one(empty_url):
    engine = engine_of(empty_url)
    of_version(engine, "0001", PLAN)

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
    of_version(engine, "0003", CALL)
    store = Store(empty_url)
    [call] = await store.read(open_calls, "s", "main")
    store.close()
    assert (call.id, call.judgings) == ("c", 0)
    assert differences(engine) == []
    engine.dispose()


async def test_texts_of_tools_that_nobody_reads_any_more_are_let_go(empty_url):
    engine = engine_of(empty_url)
    rows = [(1, ":at"), (2, "NULL"), (3, ":at"), (4, "NULL"), (5, "NULL")]
    statements = [SEEN.format(position=at, accepted=accepted) for at, accepted in rows]
    of_version(engine, "0003", ";".join(statements))
    store = Store(empty_url)
    standing = await store.read(standing_of, "mcp__a__x")
    store.close()
    assert [bool(seen.definition) for seen in standing.sightings] == [False] * 2 + [
        True, False, True,
    ]  # fmt: skip
    engine.dispose()
