"""Of a deleted session nothing stays but that it was, and nobody waits long for that."""

from sqlalchemy import func, select, update

from fakes.rows import NOW, approval, begin, begin_plan, call
from gonogo.domain.audit_chain import SYSTEM
from gonogo.domain.records import Comment
from gonogo.store import calls, erasing, jobs, sessions
from gonogo.store import events as log
from gonogo.store.schema import METADATA, plans
from gonogo.store.sessions import set_session


def told(tx, session_id: str) -> None:
    """Something of nearly everything that a session can have."""
    key = f"p-{session_id}"
    begin_plan_of(tx, session_id, key)
    sessions.add_turn(tx, f"t-{session_id}", session_id, "Do", "orchestrator")
    calls.add_calls(tx, [
        call(f"c{number}-{session_id}", session_id=session_id, arguments={"long": "x" * 300})
        for number in range(3)
    ])  # fmt: skip
    calls.add_approval(tx, approval(f"a-{session_id}", session_id=session_id))
    calls.add_comment(tx, Comment(
        id=f"m-{session_id}", session_id=session_id, plan_id=key, revision=1, subtask_id=None,
        author_id="ann", author="Ann", content="?", created_at=NOW,
    ))  # fmt: skip
    for each in (f"c0-{session_id}", f"t-{session_id}", session_id):
        jobs.set_timer(tx, "kind", each, NOW)
    log.note(tx, session_id, actor="ann", action="did", subject="secret", what="secret")


def begin_plan_of(tx, session_id: str, plan_id: str) -> None:
    begin_plan(tx, plan_id=plan_id)
    tx.execute(update(plans).where(plans.c.id == plan_id).values(session_id=session_id))


def both(tx) -> None:
    begin(tx, "s1", "s2")
    for session_id in ("s1", "s2"):
        told(tx, session_id)


def counts(tx) -> dict[str, int]:
    """How many rows each table has that has any."""
    found = {
        table.name: tx.execute(select(func.count()).select_from(table)).scalar_one()
        for table in METADATA.sorted_tables
    }
    return {name: count for name, count in found.items() if count}


async def test_what_is_taken_away_at_once_is_bounded(store):
    await store.write(both)
    await store.write(set_session, "s1", deleted=True)
    before = sum((await store.read(counts)).values())

    assert not await store.write(erasing.erase_rows, "s1", 3)
    assert before - sum((await store.read(counts)).values()) == 3
    rounds = 1
    while not await store.write(erasing.erase_rows, "s1", 3):
        rounds += 1
    assert rounds > 2
    left = await store.read(counts)
    assert await store.write(erasing.erase_rows, "s1")
    assert await store.read(counts) == left
    of_one = {"tool_calls": 3, "approvals": 1, "comments": 1, "plans": 1, "subtasks": 2,
              "plan_revisions": 1, "turns": 1, "texts": 1}  # fmt: skip
    assert {name: left[name] for name in of_one} == of_one


async def test_of_a_session_that_was_erased_its_end_is_known_and_no_word_of_it(store):
    await store.write(both)
    kept = await store.read(counts)
    assert not await store.read(erasing.was_erased, "s1")
    # One that is not deleted is left alone.
    await store.write(erasing.end_session, "s1")
    assert await store.read(counts) == kept

    await store.write(set_session, "s1", deleted=True)
    end = await store.read(log.extent_of, "s1")
    await store.write(erasing.end_session, "s1")

    assert await store.read(erasing.was_erased, "s1")
    assert not await store.read(erasing.was_erased, "s2")
    assert not await store.read(erasing.was_erased, SYSTEM)
    assert await store.read(log.extent_of, "s1") == end._replace(events=None)
    entries = await store.read(log.entries, "s1")
    assert [(entry.actor, entry.action, entry.subject, entry.details) for entry in entries] == [
        ("ann", "did", "", {})
    ]
    assert (await store.read(log.entries, "s2"))[0].details == {"what": "secret"}
    [said] = await store.read(log.entries, SYSTEM)
    assert (said.actor, said.action, said.subject) == ("gonogo", "session.erased", "s1")
    assert said.details == {"last": end.entries, "hash": end.hash}
    assert await store.read(sessions.session_of, "s1") is None
    # Once more is nothing more.
    await store.write(erasing.end_session, "s1")
    assert len(await store.read(log.entries, SYSTEM)) == 1


async def test_what_is_to_be_erased_is_known_by_its_folder(store):
    await store.write(begin, "s1", "s2", "s3", "s4")
    for session_id, folder in (("s3", "/code"), ("s1", "/code"), ("s2", "/other")):
        await store.write(set_session, session_id, deleted=True, workspace=folder)

    assert await store.read(erasing.deleted_sessions) == [
        ("s1", "/code"), ("s2", "/other"), ("s3", "/code"),
    ]  # fmt: skip
    assert [each.id for each in await store.read(erasing.deleted_sessions, "/code")] == ["s1", "s3"]
    assert await store.read(erasing.deleted_sessions, "/none") == []


async def test_the_jobs_that_a_session_can_have_had_are_known(store):
    await store.write(both)
    keys = await store.read(erasing.keys_of, ["s1"])

    assert keys == {"t-s1", "p-s1", "p-s1/1/a", "p-s1/1/b", "c0-s1", "c1-s1", "c2-s1"}
    both_ = await store.read(erasing.keys_of, ["s1", "s2"])
    assert len(both_) == 2 * len(keys)
    assert await store.read(erasing.keys_of, []) == frozenset()
