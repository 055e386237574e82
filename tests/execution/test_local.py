"""The dispatcher of one process: each job once at a time, each timer once, and nothing ends it."""

import asyncio
import logging
import sqlite3
import time
from collections import Counter
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from fakes.rows import NOW, at
from gonogo.domain.errors import Busy
from gonogo.domain.records import Job, JobStop, Timer
from gonogo.execution import jobs
from gonogo.execution.agent.executor import CLIENT_CALL
from gonogo.execution.approvals import DESK_TIMERS
from gonogo.execution.erasures import ERASE, SWEEP
from gonogo.execution.jobs import LocalDispatcher
from gonogo.execution.scheduling import PLAN_TIMERS, REPLAN
from gonogo.store import Outbox, Store, go_on, patiently
from gonogo.store import jobs as timers
from gonogo.store.jobs import drop_timer, due_timers, first_timer, set_timer
from gonogo.store.plans import WATCH
from gonogo.webhooks import HOOK

LIMIT = 60
SECOND = timedelta(seconds=1)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class Bench:
    """A dispatcher with handlers that say what they do, and a clock that a test sets."""

    def __init__(self, store, **more) -> None:
        self.store = store
        self.loop = asyncio.get_running_loop()
        self.now = NOW
        store.clock = lambda: self.now
        self.began: list[Job] = []
        self.ended: list[str] = []
        self.fired: list[tuple[str, str]] = []
        self.gates: dict[str, anyio.Event] = {}
        self.running: Counter[str] = Counter()
        self.most_at_once = 0
        self.news = anyio.Event()
        self.on_timer = lambda tx, timer: None
        self.handlers = {"turn": self.turn, "fails": self.fails}
        self.dispatcher = LocalDispatcher(store, **more)
        store.deliver = self.dispatcher.take

    async def serve(self, **more):
        await self.dispatcher.serve(self.handlers, self._fire, **more)

    async def turn(self, job):
        self.began.append(job)
        self.running[job.key] += 1
        self.most_at_once = max(self.most_at_once, self.running.total())
        assert self.running[job.key] == 1
        self.tell()
        try:
            await self.gates.setdefault(job.key, anyio.Event()).wait()
            self.ended.append(job.key)
        except anyio.get_cancelled_exc_class():
            self.ended.append(f"{job.key} stopped")
            raise
        finally:
            self.running[job.key] -= 1
            self.tell()

    async def fails(self, job):
        self.began.append(job)
        self.tell()
        raise ExceptionGroup("both", [ValueError(job.key), KeyError(job.key)])

    def _fire(self, tx, timer):
        self.fired.append((timer.kind, timer.key))
        # On the store's thread, not on the event loop's.
        self.loop.call_soon_threadsafe(self.tell)
        self.on_timer(tx, timer)

    def tell(self):
        self.news.set()
        self.news = anyio.Event()

    async def until(self, holds):
        with anyio.fail_after(LIMIT):
            while not holds():
                await self.news.wait()

    async def until_first_timer(self, holds):
        """Wait until the earliest timer that is stored is as it should be."""
        with anyio.fail_after(LIMIT):
            while not holds(await self.store.read(first_timer)):
                await anyio.wait_all_tasks_blocked()

    async def until_begun_again(self, caplog):
        """Wait until the dispatcher has said so: what it wrote is there a little earlier."""
        with anyio.fail_after(LIMIT):
            while caplog.text.count("the clock was set back; 1 timers begin again") != 1:
                await anyio.wait_all_tasks_blocked()
        assert await self.store.read(first_timer) == self.now + 60 * SECOND

    def open(self, *keys):
        for key in keys:
            self.gates.setdefault(key, anyio.Event()).set()

    def shut(self, key):
        self.gates[key] = anyio.Event()

    async def later(self, seconds):
        """Let time pass, and have the dispatcher look at its clock."""
        self.now += seconds * SECOND
        # Before every other timer: only an earlier one has the timers read again.
        self.dispatcher.take(Outbox(timers=[Timer(kind="none", key="", run_at=LONG_AGO)]))

    @asynccontextmanager
    async def serving(self):
        async with anyio.create_task_group() as group:
            await group.start(self.serve)
            yield self
            group.cancel_scope.cancel()


async def test_jobs_of_different_keys_run_side_by_side(store):
    bench = Bench(store)
    async with bench.serving():
        bench.dispatcher.take(Outbox(jobs=[Job("turn", "a"), Job("turn", "b")]))
        await bench.until(lambda: len(bench.began) == 2)
        bench.open("b", "a")
        await bench.until(lambda: len(bench.ended) == 2)
    assert bench.most_at_once == 2


async def test_a_job_that_comes_while_its_twin_runs_runs_after_it_and_once(store):
    bench = Bench(store)
    async with bench.serving():
        bench.dispatcher.submit(Job("turn", "a", 1))
        await bench.until(lambda: len(bench.began) == 1)
        gate = bench.gates["a"]
        for epoch in (2, 3, 4):
            bench.dispatcher.submit(Job("turn", "a", epoch))
        await anyio.wait_all_tasks_blocked()
        assert len(bench.began) == 1
        gate.set()
        await bench.until(lambda: len(bench.ended) == 2)
        await anyio.wait_all_tasks_blocked()
    assert [job.epoch for job in bench.began] == [1, 4]


async def test_what_a_transaction_sets_going_runs_once_it_is_committed(store):
    bench = Bench(store)
    bench.open("a")
    async with bench.serving():
        await store.write(go_on, "turn", "a", 7)
        await bench.until(lambda: bench.ended == ["a"])
    assert bench.began == [Job("turn", "a", 7)]


async def test_what_came_before_the_dispatcher_served_runs_when_it_does(store):
    bench = Bench(store)
    bench.open("a", "b")
    bench.dispatcher.submit(Job("turn", "a"))
    bench.dispatcher.take(Outbox(jobs=[Job("turn", "b")]))
    async with bench.serving():
        await bench.until(lambda: sorted(bench.ended) == ["a", "b"])


async def test_a_stop_ends_the_job_and_what_waits_behind_it(store):
    bench = Bench(store)
    async with bench.serving():
        bench.dispatcher.submit(Job("turn", "a"))
        bench.dispatcher.submit(Job("turn", "b"))
        await bench.until(lambda: len(bench.began) == 2)
        bench.dispatcher.submit(Job("turn", "a", 2))
        bench.dispatcher.take(Outbox(stops=[JobStop("turn", "a"), JobStop("turn", "nothing")]))
        await bench.until(lambda: bench.ended == ["a stopped"])
        await anyio.wait_all_tasks_blocked()
        assert len(bench.began) == 2

        bench.open("b", "a")
        bench.dispatcher.submit(Job("turn", "a", 3))
        await bench.until(lambda: len(bench.ended) == 3)
    assert bench.began[-1].epoch == 3


async def test_a_job_behind_its_own_stop_runs_when_the_stopped_one_has_ended(store):
    bench = Bench(store)
    async with bench.serving():
        bench.dispatcher.submit(Job("turn", "a", 1))
        await bench.until(lambda: len(bench.began) == 1)
        bench.dispatcher.take(Outbox(stops=[JobStop("turn", "a")], jobs=[Job("turn", "a", 2)]))
        await bench.until(lambda: len(bench.began) == 2)
        bench.open("a")
        await bench.until(lambda: bench.ended == ["a stopped", "a"])


async def test_a_job_that_is_stopped_before_it_began_does_not_begin(store):
    bench = Bench(store, capacity=1)
    async with bench.serving():
        bench.dispatcher.take(Outbox(jobs=[Job("turn", "a"), Job("turn", "b"), Job("turn", "c")]))
        bench.dispatcher.take(Outbox(stops=[JobStop("turn", "c")]))
        await bench.until(lambda: len(bench.began) == 1)
        bench.dispatcher.take(Outbox(stops=[JobStop("turn", "b")]))
        await anyio.wait_all_tasks_blocked()
        bench.open("a")
        await bench.until(lambda: bench.ended == ["a"])
        await anyio.wait_all_tasks_blocked()
    assert [job.key for job in bench.began] == ["a"]


async def test_no_more_jobs_run_at_once_than_the_capacity(store):
    bench = Bench(store, capacity=3)
    async with bench.serving():
        for number in range(10):
            bench.dispatcher.submit(Job("turn", f"{number}"))
        await bench.until(lambda: len(bench.began) == 3)
        await anyio.wait_all_tasks_blocked()
        bench.open(*(f"{number}" for number in range(10)))
        await bench.until(lambda: len(bench.ended) == 10)
    assert bench.most_at_once == 3


async def test_a_job_that_fails_harms_nobody_and_is_taken_up_a_little_later(store, caplog):
    bench = Bench(store)
    bench.on_timer = lambda tx, timer: go_on(tx, "turn", timer.key)
    bench.open("a", "x")
    with caplog.at_level(logging.ERROR):
        async with bench.serving():
            bench.dispatcher.submit(Job("fails", "x"))
            await bench.until(lambda: len(bench.began) == 1)
            bench.dispatcher.submit(Job("turn", "a"))
            await bench.until(lambda: bench.ended == ["a"])
            await bench.until_first_timer(lambda first: first is not None)
            await bench.later(60)
            await bench.until(lambda: bench.ended == ["a", "x"])
    # As it stands in databases, where a later process finds it.
    assert bench.fired == [("again_fails", "x")]
    assert "job fails x failed" in caplog.text


def test_the_timers_in_a_database_keep_their_names():
    """What one process has set, a later one of another version finds."""
    names = {f"{jobs.AGAIN}{job}" for job in (REPLAN, HOOK, WATCH, ERASE)}
    assert sorted({*names, *DESK_TIMERS, *PLAN_TIMERS, CLIENT_CALL, SWEEP}) == [
        "again_erase", "again_hook", "again_replan", "again_watch", "approval_escalation",
        "approval_expiry", "approval_warning", "client_call", "plan_advance", "plan_resume",
        "plan_timeout", "sweep",
    ]  # fmt: skip


async def test_timers_fire_in_order_when_they_are_due_and_not_before(store):
    def timers(tx):
        for key, seconds in (("c", 30), ("a", 10), ("b", 20), ("later", 100)):
            set_timer(tx, "expiry", key, NOW + seconds * SECOND)

    bench = Bench(store)
    await store.write(timers)
    async with bench.serving():
        await bench.later(9)
        await anyio.wait_all_tasks_blocked()
        assert bench.fired == []
        await bench.later(21)
        await bench.until_first_timer(lambda first: first == NOW + 100 * SECOND)
    assert [key for _, key in bench.fired] == ["a", "b", "c"]
    assert [timer.key for timer in await store.read(at(NOW + 1000 * SECOND, due_timers))] == [
        "later"
    ]


async def test_a_timer_that_is_set_while_another_is_awaited_comes_first_if_it_is_earlier(store):
    bench = Bench(store)
    await store.write(set_timer, "expiry", "far", NOW + 3600 * SECOND)
    async with bench.serving():
        await anyio.wait_all_tasks_blocked()
        await store.write(set_timer, "expiry", "near", NOW)
        await bench.until(lambda: bench.fired == [("expiry", "near")])


async def test_a_real_clock_wakes_it_without_being_poked(store):
    bench = Bench(store)
    start = time.monotonic()
    store.clock = lambda: NOW + (time.monotonic() - start) * SECOND
    async with bench.serving():
        await store.write(set_timer, "expiry", "a", NOW + 0.15 * SECOND)
        await bench.until(lambda: bench.fired != [])
        assert time.monotonic() - start >= 0.14


async def test_a_clock_that_goes_forward_wakes_it_without_being_poked(store):
    bench = Bench(store)
    await store.write(set_timer, "expiry", "a", NOW + 3000 * SECOND)
    async with bench.serving():
        await anyio.wait_all_tasks_blocked()
        assert bench.fired == []
        # As it is after the machine has slept, too: no second of that was counted.
        bench.now += 3001 * SECOND
        await bench.until(lambda: bench.fired == [("expiry", "a")])


async def test_a_clock_that_goes_back_fires_nothing_early_and_nothing_twice(store):
    bench = Bench(store)
    await store.write(set_timer, "expiry", "a", NOW)
    await store.write(set_timer, "expiry", "b", NOW + 10 * SECOND)
    async with bench.serving():
        await bench.until(lambda: bench.fired == [("expiry", "a")])
        await bench.later(-3600)
        await anyio.wait_all_tasks_blocked()
        assert len(bench.fired) == 1
        await bench.later(3611)
        await bench.until(lambda: len(bench.fired) == 2)
    assert bench.fired == [("expiry", "a"), ("expiry", "b")]


@pytest.mark.parametrize("jump", [3_600, 366 * 86_400])
@pytest.mark.parametrize("lives", [True, False])
async def test_what_waits_as_the_clock_is_set_back_waits_for_as_long_as_it_was_to(
    store, caplog, monkeypatch, jump, lives
):
    caplog.set_level(logging.WARNING)
    bench = Bench(store)
    # PostgreSQL would know by itself what time it is.
    monkeypatch.setattr(timers, "clock_of", lambda tx: bench.now)
    await store.write(set_timer, "expiry", "a", NOW + 60 * SECOND)
    if lives:
        async with bench.serving():
            await bench.later(-jump)
            await bench.until_begun_again(caplog)
    bench.now = NOW - jump * SECOND
    async with bench.serving():
        await bench.until_begun_again(caplog)
        await bench.later(59)
        await store.write(set_timer, "expiry", "late", bench.now + 3_600 * SECOND)
        assert bench.fired == []
        await bench.later(1)
        await bench.until(lambda: bench.fired == [("expiry", "a")])
    assert caplog.text.count("the clock was set back; 1 timers begin again") == 1


async def test_a_timer_is_kept_where_the_clock_is_set_back_as_it_is_about_to_fire(store):
    bench = Bench(store)
    timer = Timer(kind="expiry", key="a", run_at=NOW)
    await store.write(set_timer, "expiry", "a", NOW)
    bench.now = NOW - SECOND
    await store.write(bench.dispatcher._fire, timer)
    assert (bench.fired, await store.read(first_timer)) == ([], NOW)


async def test_a_timer_that_is_dropped_or_set_anew_meanwhile_does_not_fire(store):
    bench = Bench(store)

    def first_decides(tx, timer):
        drop_timer(tx, "expiry", "b")
        set_timer(tx, "expiry", "c", NOW + 500 * SECOND)

    bench.on_timer = first_decides

    def timers(tx):
        for number, key in enumerate("abc"):
            set_timer(tx, "expiry", key, NOW - 3 * SECOND + number * SECOND)

    await store.write(timers)
    async with bench.serving():
        await bench.until_first_timer(lambda first: first == NOW + 500 * SECOND)
        await bench.later(1)
        await bench.until_first_timer(lambda first: first == NOW + 500 * SECOND)
    assert bench.fired == [("expiry", "a")]


@pytest.mark.each_database
async def test_what_a_timer_does_and_its_end_are_one_transaction(store, caplog):
    bench = Bench(store)
    bench.open("x")

    def fails_once(tx, timer):
        go_on(tx, "turn", "x")
        if len(bench.fired) == 1:
            raise ValueError("not yet")

    bench.on_timer = fails_once
    await store.write(set_timer, "expiry", "a", NOW)
    with caplog.at_level(logging.ERROR):
        async with bench.serving():
            await bench.until(lambda: len(bench.fired) == 1)
            await bench.until_first_timer(lambda first: first != NOW)
            assert bench.began == []
            await bench.later(120)
            await bench.until(lambda: bench.ended == ["x"])
            await bench.until_first_timer(lambda first: first is None)
    assert len(bench.fired) == 2
    assert "timer expiry a failed" in caplog.text


async def test_a_timer_that_cannot_even_be_put_off_ends_nothing(store, caplog, monkeypatch):
    bench = Bench(store)
    bench.open("a")
    tried = anyio.Event()

    async def fails(fn, *args):
        tried.set()
        raise OSError("away")

    monkeypatch.setattr(store, "write", fails)
    with caplog.at_level(logging.ERROR):
        async with bench.serving():
            bench.dispatcher.submit(Job("fails", "x"))
            with anyio.fail_after(LIMIT):
                await tried.wait()
            bench.dispatcher.submit(Job("turn", "a"))
            await bench.until(lambda: bench.ended == ["a"])
    assert "is lost until the next start" in caplog.text


@pytest.mark.each_database
async def test_two_dispatchers_of_one_database_fire_a_timer_once(store):
    benches = [Bench(store), Bench(store)]
    await store.write(set_timer, "expiry", "a", NOW)
    async with benches[0].serving(), benches[1].serving():
        await benches[0].until_first_timer(lambda first: first is None)
        for bench in benches:
            await bench.later(1)
        await anyio.wait_all_tasks_blocked()
    assert len(benches[0].fired + benches[1].fired) == 1


@pytest.mark.each_database
async def test_a_database_that_is_away_for_a_while_ends_nothing(store, caplog, monkeypatch):
    monkeypatch.setattr(jobs, "_PAUSE", 0.01)
    bench = Bench(store)
    bench.open("a")
    away, read = True, store.read

    async def sometimes(fn, *args):
        if away:
            raise OSError("away")
        return await read(fn, *args)

    monkeypatch.setattr(store, "read", sometimes)
    with caplog.at_level(logging.ERROR):
        async with bench.serving():
            bench.dispatcher.submit(Job("turn", "a"))
            await bench.until(lambda: bench.ended == ["a"])
            away = False
            await store.write(set_timer, "expiry", "a", NOW)
            await bench.until(lambda: bench.fired == [("expiry", "a")])
    assert "timers could not be read" in caplog.text


async def test_the_end_of_the_dispatcher_ends_what_runs_and_it_can_serve_again(store):
    bench = Bench(store)
    async with bench.serving():
        bench.dispatcher.submit(Job("turn", "a", 1))
        await bench.until(lambda: len(bench.began) == 1)
    assert bench.ended == ["a stopped"]

    bench.dispatcher.submit(Job("turn", "a", 2))
    bench.open("a")
    async with bench.serving():
        await bench.until(lambda: bench.ended == ["a stopped", "a"])


async def test_what_was_left_when_it_ended_is_not_run_by_the_next_one(store):
    bench = Bench(store, capacity=1)
    async with bench.serving():
        for key in ("a", "b"):
            bench.dispatcher.submit(Job("turn", key, 1))
        await bench.until(lambda: len(bench.began) == 1)
        bench.dispatcher.submit(Job("turn", "a", 2))
        bench.dispatcher.take(Outbox(jobs=[Job("turn", "c", 1)]))
    assert bench.dispatcher.is_idle

    bench.open("a", "b", "c", "d")
    async with bench.serving():
        bench.dispatcher.submit(Job("turn", "d"))
        await bench.until(lambda: bench.ended[-1] == "d")
        await anyio.wait_all_tasks_blocked()
    assert [job.key for job in bench.began] == ["a", "d"]


async def test_jobs_and_timers_wait_for_a_database_that_others_would_not_wait_for(tmp_path, caplog):
    path = tmp_path / "gonogo.db"
    store = Store(f"sqlite:///{path}", patience=0.2)
    bench = Bench(store)
    written = []

    async def writes(job):
        written.append(await store.write(lambda tx: job.key))
        bench.tell()

    bench.handlers["turn"] = writes
    with patiently():
        await store.write(set_timer, "expiry", "a", NOW)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with caplog.at_level(logging.WARNING):
        async with bench.serving():
            for key in "xyz":
                bench.dispatcher.submit(Job("turn", key))
            for _ in range(2):
                with pytest.raises(Busy):
                    await store.write(lambda tx: None)
            assert (bench.fired, written) == ([], [])
            other.execute("ROLLBACK")
            await bench.until(lambda: bench.fired and len(written) == 3)
    other.close()
    store.close()

    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert sorted(written) == ["x", "y", "z"]


async def test_a_job_that_gave_up_waiting_is_taken_up_later_and_is_no_defect(store, caplog):
    bench = Bench(store)
    bench.on_timer = lambda tx, timer: go_on(tx, "turn", timer.key)
    bench.open("x")

    async def gives_up(job):
        raise Busy(reason="not now")

    bench.handlers["fails"] = gives_up
    with caplog.at_level(logging.WARNING):
        async with bench.serving():
            bench.dispatcher.submit(Job("fails", "x"))
            await bench.until_first_timer(lambda first: first is not None)
            await bench.later(60)
            await bench.until(lambda: bench.ended == ["x"])

    assert caplog.records == []


async def test_ten_thousand_timers_are_one_sleeping_task(store):
    def timers(tx):
        from gonogo.store.rows import put
        from gonogo.store.schema import timers as table

        rows = [
            {"kind": "expiry", "key": f"{n}", "run_at": NOW + 3600 * SECOND} for n in range(10_000)
        ]
        put(tx, table, rows)

    await store.write(timers)
    bench = Bench(store)
    before = len(anyio.get_running_tasks())
    async with bench.serving():
        await anyio.wait_all_tasks_blocked()
        assert len(anyio.get_running_tasks()) - before == 1
    assert bench.fired == []
