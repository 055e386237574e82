"""The log as people read it: the newest of all chains, page by page, and what is wanted of it."""

from datetime import timedelta
from itertools import chain

import pytest
from sqlalchemy import event

from fakes.rows import NOW, begin
from gonogo.domain.audit_chain import SYSTEM, AuditFilter, AuditPlace
from gonogo.domain.errors import InvalidCursor
from gonogo.store import audit as audit_log
from gonogo.store import events as log
from gonogo.store.people import keep_principal
from gonogo.store.sessions import set_session

ALL = audit_log.Sieve()


def note(tx, of, number, actor="ann", action="tool.allowed", after=0):
    tx.now = NOW + timedelta(seconds=after)
    log.note(tx, of, actor=actor, action=action, subject=f"n{number}")


async def told(store, count=9):
    """Entries of two sessions and of the system in turn, three at each moment."""
    await store.write(begin, "s1", "s2")
    for number in range(count):
        of = ("s1", "s2", SYSTEM)[number % 3]
        await store.write(note, of, number, "ann", "tool.allowed", number // 3)


async def walked(store, limit, owner=None, wanted=ALL):
    """Every page, the newest first."""
    pages, before = [], None
    while True:
        page, before = await store.read(audit_log.newest_entries, owner, before, limit, wanted)
        pages.append([int(entry.subject[1:]) for entry in page])
        if before is None:
            return pages


async def test_pages_hold_every_entry_once_and_the_newest_are_first(store):
    await told(store)

    for limit in (1, 2, 4, 9, 100):
        pages = await walked(store, limit)
        assert list(chain.from_iterable(reversed(pages))) == list(range(9))
        assert all(len(page) == limit for page in pages[:-1])


async def test_what_is_added_meanwhile_changes_no_later_page(store):
    await told(store)
    first, before = await store.read(audit_log.newest_entries, None, None, 4, ALL)
    await store.write(note, "s1", 100, "ann", "tool.allowed", 60)
    second, _ = await store.read(audit_log.newest_entries, None, before, 100, ALL)

    assert sorted(e.subject for e in first + second) == [f"n{number}" for number in range(9)]


async def test_a_page_looks_at_no_more_than_it_may_and_says_where_to_go_on(store, monkeypatch):
    monkeypatch.setattr(audit_log, "LOOKED_AT", 4)
    await told(store)
    await store.write(note, "s2", 50, "eve", "plan.approved", -60)
    rare = audit_log.Sieve(actors=["eve"])

    assert await walked(store, 10, wanted=rare) == [[], [], [50]]
    assert sorted(chain.from_iterable(await walked(store, 10))) == [*range(9), 50]


async def test_somebody_sees_the_entries_of_their_own_sessions_only(store):
    await told(store)
    await store.write(set_session, "s2", principal_id="user:eve")

    assert await walked(store, 100, "user:eve") == [[1, 4, 7]]
    assert await walked(store, 100, "user:nobody") == [[]]
    await store.write(set_session, "s2", deleted=True)
    assert await walked(store, 100, "user:eve") == [[]]


async def test_entries_are_found_by_who_what_and_when(store):
    await told(store, 3)
    await store.write(keep_principal, "user:eve", "eve")
    await store.write(note, "s1", 10, "user:eve", "plan.approved", 100)
    await store.write(note, "s2", 11, "user:eve", "tool.approved", 200)

    async def found(**wanted):
        sought = await store.read(audit_log.sieve, AuditFilter(**wanted))
        (page,) = await walked(store, 100, wanted=sought)
        own = await store.read(audit_log.chain_entries, "s1", 0, 100, sought)
        assert [int(e.subject[1:]) for e in own] == [n for n in page if n in {0, 10}]
        return page

    assert await found(actor="eve") == await found(actor="user:eve") == [10, 11]
    assert await found(action="plan.") == [10]
    assert await found(action="tool.a", actor="eve") == [11]
    assert await found(since=NOW + timedelta(seconds=100)) == [10, 11]
    assert await found(until=NOW + timedelta(seconds=200), actor="eve") == [10]
    assert await found(action="%") == []


async def test_a_page_is_read_by_the_index_of_times(store, engine):
    if engine.dialect.name != "sqlite":
        pytest.skip("the planner of PostgreSQL goes by the size of the tables")
    place = {"at": NOW, "of": "s", "nth": 0, "since": NOW, "from_of": "", "from_nth": 0}
    asked = {**place, "actors": ["ann"], "action": "t", "length": 1, "owner": "ann", "limit": 9}
    for mine in (False, True):
        steps = explained(engine, audit_log._newest(True, True, mine), asked)
        assert "SEARCH audit USING INDEX ix_audit_ts_chain_seq" in steps, steps
        assert "TEMP B-TREE" not in steps, steps
    edge = explained(engine, audit_log._EDGE, {**place, "looked_at": 9})
    assert "USING COVERING INDEX ix_audit_ts_chain_seq" in edge


def explained(engine, statement, asked):
    """How SQLite carries a statement out."""
    sent = []
    event.listen(engine, "before_cursor_execute", lambda *args: sent.append(args[2:4]))
    with engine.connect() as conn:
        conn.execute(statement, asked)
        written, given = sent[0]
        plan = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {written}", given)
        return " / ".join(row[3] for row in plan)


def test_a_place_is_read_as_it_was_written_and_nothing_else_is():
    for seq in (0, 1, 7, 2**31 - 1):
        place = AuditPlace(ts=NOW, chain="s~1", seq=seq)
        assert AuditPlace.read(place.text()) == place
    for wrong in ("", "x", "2026-01-01~1~s1", f"{NOW.isoformat()}~x~s1", f"{NOW.isoformat()}~1~",
                  f"{NOW.isoformat()}~-1~s", f"{NOW.isoformat()}~{2**40}~s"):  # fmt: skip
        with pytest.raises(InvalidCursor):
            AuditPlace.read(wrong)
