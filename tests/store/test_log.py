"""The event log and the audit chain: gapless places, and no entry changes unseen."""

import anyio
import pytest
from sqlalchemy import text

from fakes.rows import NOW, begin, verify_chain
from gonogo.domain.errors import NotFound
from gonogo.domain.events import AssistantMessage, Done
from gonogo.store import audit as auditing
from gonogo.store import events as log
from gonogo.store.sessions import session_of

LIMIT = 60


def told(tx, content, session_id="s1", times=1):
    log.tell(tx, session_id, *(AssistantMessage(content=content) for _ in range(times)))


def noted(tx, chain, count=1, **details):
    for number in range(count):
        log.note(tx, chain, actor="ann", action="did", subject=f"n{number}", **details)


def seqs(events):
    return [event["seq"] for event in events]


async def test_events_are_numbered_from_one_in_the_order_told(store):
    await store.write(begin)
    await store.write(told, "a", times=2)
    await store.write(told, "b")
    events = await store.read(log.events_after, "s1", 0)

    assert [(event["seq"], event["content"]) for event in events] == [(1, "a"), (2, "a"), (3, "b")]
    assert events[0]["session_id"] == "s1"
    assert events[0]["ts"] == "2026-11-21T12:00:00.000000Z"
    assert await store.read(log.last_seq, "s1") == 3
    assert (await store.read(session_of, "s1")).last_seq == 3


async def test_a_reader_goes_on_from_any_place_page_by_page(store):
    await store.write(begin)
    await store.write(told, "x", times=25)

    assert seqs(await store.read(log.events_after, "s1", 0, 10)) == list(range(1, 11))
    assert seqs(await store.read(log.events_after, "s1", 20, 10)) == list(range(21, 26))
    assert await store.read(log.events_after, "s1", 25) == []
    assert await store.read(log.events_after, "nobody", 0) == []
    assert await store.read(log.last_seq, "nobody") == 0


async def test_a_transaction_knows_the_place_that_its_last_event_will_have(store):
    await store.write(begin)
    await store.write(told, "x", times=2)

    def places(tx):
        before = log.told_seq(tx, "s1")
        told(tx, "y", times=3)
        return before, log.told_seq(tx, "s1")

    assert await store.write(places) == (2, 5)
    assert await store.read(log.last_seq, "s1") == 5


async def test_many_writers_at_once_leave_no_gap_and_no_duplicate(store):
    await store.write(begin, "s1", "s2")
    pushed = {"s1": [], "s2": []}
    store.deliver = lambda box: [pushed[e["session_id"]].append(e["seq"]) for e in box.events]

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for number in range(60):
                group.start_soon(store.write, told, f"{number}", f"s{number % 2 + 1}", 2)
    for session_id in ("s1", "s2"):
        assert seqs(await store.read(log.events_after, session_id, 0)) == list(range(1, 61))
        assert sorted(pushed[session_id]) == list(range(1, 61))


async def test_sessions_and_the_system_have_chains_of_their_own(store):
    def work(tx):
        begin(tx, "s1", "s2")
        noted(tx, "s1", 2)
        noted(tx, log.SYSTEM)
        told(tx, "x", "s2")

    await store.write(work)
    await store.write(noted, "s1")

    assert await store.read(auditing.chain_names) == ["s1", log.SYSTEM]
    found = await store.read(log.entries, "s1")
    assert [(entry.seq, entry.subject) for entry in found] == [(1, "n0"), (2, "n1"), (3, "n0")]
    assert [entry.prev_hash for entry in found] == [log.GENESIS, found[0].hash, found[1].hash]
    assert await store.read(verify_chain, "s1") == (3, [])
    assert await store.read(verify_chain, log.SYSTEM) == (1, [])


@pytest.mark.feature(17)
async def test_the_audit_of_a_session_is_in_order_and_that_of_an_unknown_one_is_empty(store):
    await store.write(begin)
    await store.write(noted, "s1", 5)

    assert [entry.seq for entry in await store.read(log.entries, "s1", 2, 2)] == [3, 4]
    assert await store.read(log.entries, "nobody") == []
    assert await store.read(verify_chain, "nobody") == (0, [])


async def test_many_notes_at_once_make_one_chain(store):
    await store.write(begin)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(store.write, noted, log.SYSTEM if number % 2 else "s1", 2)

    assert await store.read(verify_chain, "s1") == (40, [])
    assert await store.read(verify_chain, log.SYSTEM) == (40, [])


async def test_a_chain_can_be_verified_while_it_grows(store):
    await store.write(begin)

    async def verifies():
        for _ in range(10):
            _, problems = await store.read(verify_chain, "s1")
            assert problems == []

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(verifies)
            for _ in range(20):
                group.start_soon(store.write, noted, "s1")


@pytest.mark.feature(210)
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("UPDATE audit SET actor = 'bob' WHERE seq = 3", "s1 #3: its content was changed"),
        ("UPDATE audit SET details = '{}' WHERE seq = 3", "s1 #3: its content was changed"),
        ("UPDATE audit SET ts = '2026-11-21T12:00:00.000001Z' WHERE seq = 1", "s1 #1: its content"),
        ("DELETE FROM audit WHERE seq = 3", "s1 #4: expected entry 3; one is missing"),
        ("DELETE FROM audit WHERE seq = 1", "s1 #2: it does not follow the entry before it"),
        (
            "DELETE FROM audit WHERE seq = 5",
            "s1: the chain ends at entry 4, and should end at entry 5",
        ),
        ("DELETE FROM audit", "s1: the chain ends at entry 0, and should end at entry 5"),
        (
            "UPDATE audit SET seq = 6 - seq WHERE seq IN (2, 4)",
            "s1 #2: it does not follow the entry before it",
        ),
        ("UPDATE audit SET prev_hash = hash WHERE seq = 2", "s1 #2: it does not follow"),
        (
            "UPDATE sessions SET audit_seq = 4",
            "s1: the chain ends at entry 5, and should end at entry 4",
        ),
    ],
)
async def test_what_was_changed_removed_or_moved_is_found(store, engine, harm, said):
    await store.write(begin)
    await store.write(noted, "s1", 5, why={"rule": "default:pure"})
    assert await store.read(verify_chain, "s1") == (5, [])

    with engine.begin() as conn:
        for statement in _in_steps(harm):
            conn.execute(text(statement))
    _, problems = await store.read(verify_chain, "s1")
    assert any(problem.startswith(said) for problem in problems), problems
    assert await store.read(auditing.chain_names) == ["s1"]


def _in_steps(harm):
    """Places are unique at every moment, so a swap goes by way of a third place."""
    if "6 - seq" not in harm:
        return [harm]
    move = "UPDATE audit SET seq = {} WHERE seq = {}"
    return [move.format(to, was) for was, to in ((2, 99), (4, 2), (99, 4))]


@pytest.mark.feature(210)
async def test_a_rewritten_entry_breaks_the_link_of_the_next_one(store, engine):
    await store.write(begin)
    await store.write(noted, "s1", 3)
    second = (await store.read(log.entries, "s1"))[1]
    forged = log.sealed(
        "s1", 2, "2026-11-21T12:00:00.000000Z", "bob", second.action, "", second.seal
    )
    with engine.begin() as conn:
        conn.execute(
            text("UPDATE audit SET actor = 'bob', hash = :hash WHERE seq = 2"),
            {"hash": log.entry_hash(second.prev_hash, forged)},
        )

    assert await store.read(verify_chain, "s1") == (
        3, ["s1 #3: it does not follow the entry before it"],
    )  # fmt: skip


async def test_what_is_not_said_is_not_in_an_entry(store):
    await store.write(begin)
    await store.write(noted, "s1", plan_id=None, rule="x", edits={"a": None})
    (entry,) = await store.read(log.entries, "s1")

    assert entry.details == {"rule": "x", "edits": {"a": None}}
    assert (entry.actor, entry.action, entry.ts) == ("ann", "did", NOW)


async def test_an_event_of_no_session_is_refused(store):
    await store.write(begin)
    with pytest.raises(NotFound, match=r"^No session found with id=nobody$"):
        await store.write(log.tell, "nobody", Done())


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_page_has_so_many_where_nobody_says_how_many(store):
    def write(tx):
        log.tell(tx, "s1", *(AssistantMessage(content=f"{n}") for n in range(501)))
        for number in range(1_001):
            log.note(tx, "s1", actor="ann", action="did", subject=f"{number}")

    await store.write(begin)
    await store.write(write)
    assert [event["seq"] for event in await store.read(log.events_after, "s1", 0)] == [
        *range(1, 501)
    ]
    assert [entry.seq for entry in await store.read(log.entries, "s1")] == [*range(1, 1_001)]
    assert [link.seq for link in await store.read(auditing.links, "s1")] == [*range(1, 101)]
    assert (await store.read(verify_chain, "s1"))[0] == 1_001
