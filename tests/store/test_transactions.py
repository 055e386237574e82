"""One write is one transaction: committed before it returns, alone in what it undoes.

What a transaction sets going is handed over after its commit, never without one.
"""

import asyncio
import sqlite3
import threading
from contextlib import contextmanager, suppress

import anyio
import psycopg
import pytest
from sqlalchemy import text

from fakes.rows import NOW, begin, session
from gonogo.domain.errors import Busy, Conflict, Internal
from gonogo.domain.events import AssistantMessage, Done
from gonogo.domain.records import Job, JobStop, Timer
from gonogo.store import Outbox, Store, go_on, part, patiently, stop
from gonogo.store import events as log
from gonogo.store.jobs import first_timer, set_timer
from gonogo.store.sessions import add_session, session_of, set_session
from gonogo.store.transaction import Recent

LIMIT = 60


@pytest.fixture
def boxes(store):
    taken: list[Outbox] = []
    store.deliver = taken.append
    return taken


def count_events(tx, session_id):
    return len(log.events_after(tx, session_id, 0, 100_000))


def set_going(tx, name="x"):
    go_on(tx, "turn", name, 3, NOW)
    stop(tx, "subtask", name)
    set_timer(tx, "expiry", name, NOW)
    log.tell(tx, "s1", AssistantMessage(content=name))


def fails(tx, error):
    set_session(tx, "s1", title="never")
    set_going(tx, "never")
    raise error


async def test_what_is_set_going_is_handed_over_after_the_commit(store, boxes):
    await store.write(begin)
    boxes.clear()
    seen_inside = []

    def work(tx):
        set_going(tx)
        seen_inside.append(list(boxes))
        return "done"

    with anyio.fail_after(LIMIT):
        assert await store.write(work) == "done"
    assert seen_inside == [[]]
    (box,) = boxes
    assert box.jobs == [Job("turn", "x", 3, NOW)]
    assert box.stops == [JobStop("subtask", "x")]
    assert box.timers == [Timer(kind="expiry", key="x", run_at=NOW)]
    assert [(event["seq"], event["content"]) for event in box.events] == [(1, "x")]


async def test_when_it_is_handed_over_another_reader_already_sees_it(store, engine):
    await store.write(begin)
    seen = []

    def look(box):
        with engine.connect() as conn:
            seen.append(conn.execute(text("SELECT count(*) FROM events")).scalar())

    store.deliver = look
    await store.write(set_going)
    assert seen == [1]


@pytest.mark.parametrize("error", [Conflict("no"), ValueError("no"), KeyError("no")])
async def test_a_function_that_fails_changes_nothing_and_sets_nothing_going(store, boxes, error):
    await store.write(begin)
    boxes.clear()

    with pytest.raises(type(error), match="no"):
        await store.write(fails, error)
    assert boxes == []
    assert (await store.read(session_of, "s1")).title is None
    assert await store.read(count_events, "s1") == 0
    assert await store.read(first_timer) is None


async def test_a_part_that_fails_is_undone_with_all_that_it_told_and_the_rest_stays(store, boxes):
    await store.write(begin)
    boxes.clear()

    def work(tx):
        set_going(tx, "one")
        with suppress(Conflict), part(tx):
            log.tell(tx, "s1", AssistantMessage(content="of the part"))
            log.note(tx, log.SYSTEM, actor="a", action="b", subject="c")
            fails(tx, Conflict("no"))
        with part(tx):
            set_going(tx, "two")
        return session_of(tx, "s1").title

    assert await store.write(work) != "never"
    (box,) = boxes
    assert [each.key for each in box.jobs + box.stops] == ["one", "two"] * 2
    assert [(event["seq"], event["content"]) for event in box.events] == [(1, "one"), (2, "two")]
    assert await store.read(log.entries, log.SYSTEM) == []
    assert [each.key for each in box.timers] == ["one", "two"]


async def test_one_that_fails_undoes_only_its_own_among_those_committed_together(store, boxes):
    await store.write(begin)
    boxes.clear()
    gate, running = threading.Event(), threading.Event()

    def first(tx):
        running.set()
        assert gate.wait(LIMIT)

    outcomes = {}

    async def ask(name, fn, *args):
        try:
            outcomes[name] = await store.write(fn, *args)
        except Conflict as refused:
            outcomes[name] = str(refused)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "gate", first)
            await anyio.to_thread.run_sync(running.wait, LIMIT)
            for number in range(20):
                if number % 3 == 1:
                    group.start_soon(ask, number, fails, Conflict(f"no {number}"))
                else:
                    group.start_soon(ask, number, set_going, f"n{number}")
            await anyio.wait_all_tasks_blocked()
            gate.set()

    good = {f"n{number}" for number in range(20) if number % 3 != 1}
    assert {n: said for n, said in outcomes.items() if said} == {
        n: f"no {n}" for n in range(20) if n % 3 == 1
    }
    events = await store.read(log.events_after, "s1", 0)
    assert [event["seq"] for event in events] == list(range(1, len(good) + 1))
    assert {event["content"] for event in events} == good
    assert {job.key for box in boxes for job in box.jobs} == good
    assert (await store.read(session_of, "s1")).title is None


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_caller_who_is_cancelled_loses_nothing_that_was_committed(store, kind):
    await store.write(begin)
    gate, running, handed_over = threading.Event(), threading.Event(), anyio.Event()

    def slow(tx):
        running.set()
        assert gate.wait(LIMIT)
        set_going(tx)

    def deliver(box):
        boxes.append(box)
        handed_over.set()

    store.deliver, boxes = deliver, []
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(store.write, slow)
            await anyio.to_thread.run_sync(running.wait, LIMIT)
            gate.set()
            group.cancel_scope.cancel()
        await handed_over.wait()
    assert [job.key for job in boxes[0].jobs] == ["x"]
    assert await store.read(count_events, "s1") == 1


_WAITS_AT_COMMIT = """
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION wait();
"""


@pytest.mark.parametrize("kind", ["postgresql"])
async def test_a_caller_who_is_cancelled_while_it_commits_loses_nothing(database_url, kind):
    boxes, handed_over = [], anyio.Event()

    def deliver(box):
        boxes.append(box)
        handed_over.set()

    def waiting(tx):
        waits = text("SELECT count(*) FROM pg_locks WHERE objid = 7 AND NOT granted")
        return tx.execute(waits).scalar()

    store = Store(database_url, patience=LIMIT)
    await store.write(begin)
    store.deliver = deliver
    with psycopg.connect(database_url, autocommit=True) as other, anyio.fail_after(LIMIT):
        other.execute(_WAITS_AT_COMMIT)
        other.execute("SELECT pg_advisory_lock(7)")
        async with anyio.create_task_group() as group:
            group.start_soon(store.write, set_going)
            while not await store.read(waiting):  # noqa: ASYNC110 - a server tells nobody
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        other.execute("SELECT pg_advisory_unlock(7)")
        await handed_over.wait()
    assert await store.read(count_events, "s1") == 1
    assert [job.key for job in boxes[0].jobs] == ["x"]
    store.close()


@pytest.mark.parametrize("kind", ["postgresql"])
async def test_what_nobody_waits_for_any_more_is_not_committed(store, boxes, kind):
    await store.write(begin)
    boxes.clear()
    gate, running = threading.Event(), threading.Event()

    def slow(tx):
        set_going(tx)
        running.set()
        assert gate.wait(LIMIT)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(store.write, slow)
            await anyio.to_thread.run_sync(running.wait, LIMIT)
            group.cancel_scope.cancel()
        gate.set()
        # It waits for whatever runs in the session.
        await store.write(set_session, "s1", title="later")
    assert await store.read(count_events, "s1") == 0
    assert boxes[0].jobs == []


async def test_a_receiver_that_fails_keeps_nobody_waiting(store):
    await store.write(begin)
    reported = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    store.deliver = lambda box: 1 / 0

    with anyio.fail_after(LIMIT):
        assert await store.write(lambda tx: "kept") == "kept"
        assert await store.write(lambda tx: "and again") == "and again"
    loop.set_exception_handler(None)
    assert [type(error) for error in reported] == [ZeroDivisionError, ZeroDivisionError]


async def test_a_read_sees_one_moment_however_long_it_takes(store):
    await store.write(begin)
    began, go = threading.Event(), threading.Event()

    def twice(tx):
        before = session_of(tx, "s1").title
        began.set()
        assert go.wait(LIMIT)
        return before, session_of(tx, "s1").title

    seen = []

    async def reads():
        seen.append(await store.read(twice))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(reads)
            await anyio.to_thread.run_sync(began.wait, LIMIT)
            await store.write(set_session, "s1", title="new")
            go.set()
    assert seen == [(None, None)]
    assert (await store.read(session_of, "s1")).title == "new"


async def test_nobody_waits_for_a_read_to_end(store):
    await store.write(begin)
    go = threading.Event()

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(store.read, lambda tx: go.wait(LIMIT))
            await store.write(set_session, "s1", title="new")
            go.set()


@contextmanager
def held(url):
    """Somebody else holds what a write to the session needs."""
    if url.startswith("sqlite"):
        other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
        other.close()
        return
    with psycopg.connect(url) as other:
        other.execute("SELECT * FROM sessions FOR UPDATE")
        yield
        other.rollback()


async def test_a_database_that_stays_locked_is_busy_and_nothing_is_half_done(database_url):
    store = Store(database_url, patience=0.5)
    with patiently():
        await store.write(begin)
    with held(database_url), anyio.fail_after(LIMIT):
        with pytest.raises(Busy):
            await store.write(set_going)
        with patiently():
            assert await store.read(count_events, "s1") == 0
    with patiently():
        await store.write(set_going)
        assert await store.read(count_events, "s1") == 1
    store.close()


async def test_a_closed_store_takes_no_writes_and_finishes_those_it_has(database_url):
    store = Store(database_url)
    await store.write(begin)
    written = []

    async def writes():
        written.append(await store.write(lambda tx: count_events(tx, "s1")))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(writes)
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(store.close)
    assert written == [0]
    with pytest.raises(Internal, match=r"^The database is closed; start gonogo again$"):
        await store.write(lambda tx: None)


def test_a_store_outlives_the_event_loop_of_one_who_asked(store):
    gate = threading.Event()

    async def gone():
        await store.write(begin)
        with anyio.move_on_after(0.01):
            await store.write(lambda tx: gate.wait(0.2))

    anyio.run(gone)
    gate.set()

    async def later():
        with anyio.fail_after(LIMIT):
            return await store.write(lambda tx: session_of(tx, "s1").id)

    assert anyio.run(later) == "s1"


async def test_telling_nothing_writes_nothing(store, boxes):
    await store.write(begin)

    def silent(tx):
        log.tell(tx, "s1")
        log.tell_final(tx, "s1")

    await store.write(silent)
    assert await store.read(count_events, "s1") == 0


async def test_the_last_event_of_a_transaction_can_be_marked_as_final(store):
    await store.write(begin)

    def told(tx):
        log.tell(tx, "s1", AssistantMessage(content="a"), AssistantMessage(content="b"))
        log.tell_final(tx, "s1")

    await store.write(told)
    events = await store.read(log.events_after, "s1", 0)
    assert [event.get("is_final") for event in events] == [None, True]


async def test_a_row_that_came_between_the_look_and_the_insert_is_seen_the_second_time(store):
    """On PostgreSQL two transactions run at once; on SQLite one comes after the other."""
    both = threading.Barrier(2)

    def open_it(tx):
        if session_of(tx, "s1") is not None:
            raise Conflict("taken")
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)
        add_session(tx, session("s1"))
        return "made"

    said = []

    async def ask():
        try:
            said.append(await store.write(open_it))
        except Conflict as refused:
            said.append(str(refused))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(ask)
    assert sorted(said) == ["made", "taken"]


async def test_a_row_that_is_there_for_good_is_an_error_after_some_tries(store):
    await store.write(begin)
    with anyio.fail_after(LIMIT), pytest.raises(Exception, match=r"(?i)unique"):
        await store.write(add_session, session("s1"))


@pytest.mark.parametrize("kind", ["postgresql"])
async def test_a_transaction_that_never_comes_through_is_tried_some_times_and_then_busy(
    store, boxes, kind
):
    tries = []
    store.stop_waiting()

    def collides(tx):
        tries.append(1)
        go_on(tx, "turn", "x")
        tx.conn.exec_driver_sql("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$")

    with anyio.fail_after(LIMIT), pytest.raises(Busy):
        await store.write(collides)
    assert len(tries) == 5
    assert boxes == []


async def test_two_that_wait_for_each_other_both_come_through(store, boxes):
    await store.write(begin, "s1", "s2")
    both = threading.Barrier(2)

    def cross(tx, one, other):
        set_session(tx, one, title="mine")
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)
        set_session(tx, other, title="mine")
        log.tell(tx, one, Done())

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(store.write, cross, "s1", "s2")
            group.start_soon(store.write, cross, "s2", "s1")
    assert await store.read(count_events, "s1") == 1
    assert await store.read(count_events, "s2") == 1


def test_of_long_texts_those_are_remembered_that_were_wanted_last():
    recent = Recent(room=10)
    recent.add({"a": "12345", "b": "12345"})
    assert recent.get("a") == "12345"
    recent.add({"a": "another of that name", "c": "1"})

    assert [recent.get(name) for name in "abc"] == ["12345", None, "1"]
    recent.add({"d": "1234"})
    assert [recent.get(name) for name in "acd"] == ["12345", "1", "1234"]
    recent.add({"e": "x" * 11})
    assert [recent.get(name) for name in "acde"] == [None] * 4
