"""The places of one process among several: what others set is done in time."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import timedelta
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.abc import TaskGroup
from sqlalchemy import text

from fakes.rows import session
from fakes.until import LIMIT
from gonogo.domain.errors import Busy
from gonogo.domain.events import AssistantMessage
from gonogo.domain.records import Job, Timer
from gonogo.execution import jobs
from gonogo.execution import places as whole
from gonogo.execution.event_bus import Hub, LiveText
from gonogo.execution.places import Places, Recovery
from gonogo.store import Membership, Store, Tx, Whose, go_on, stop
from gonogo.store import events as log
from gonogo.store.driver import Lease
from gonogo.store.jobs import set_timer
from gonogo.store.places import add_place, settle_in
from gonogo.store.sessions import add_session, add_turn

pytestmark = [
    pytest.mark.parametrize("kind", ["postgresql"]), pytest.mark.feature(235),
    pytest.mark.each_database,
]  # fmt: skip
SERVER = Membership(kind="server", pool="default", home="here")
WORKER = Membership(kind="worker", pool="default", home="here", capacity=4)
SOON = timedelta(seconds=0.05)


@contextmanager
def opened(url: str, member: Membership) -> Iterator[tuple[Store, Places]]:
    with closing(Store(url, drives=True, shared_as=member)) as store:
        store.routes = {"turn": Whose.TURN, "sweep": Whose.NONE}
        hub = Hub()
        places = Places(store, hub, LiveText(store, hub))
        places.recovery = Recovery(take_up, nothing, nothing)
        store.deliver = places.take
        yield store, places


def take_up(tx: Tx, *about: Any) -> None:
    go_on(tx, "turn", "t1")


def nothing(tx: Tx, *about: Any) -> None:
    """Nothing was left undone."""


def begin(tx: Tx) -> None:
    """A workspace in which there is a turn to do."""
    log.start_system_chain(tx)
    settle_in(tx, WORKER)
    add_session(tx, session())
    add_place(tx, session().workspace, WORKER)
    add_turn(tx, "t1", "s1", "Hello", "")
    take_up(tx)


@asynccontextmanager
async def both(
    url: str,
) -> AsyncIterator[tuple[tuple[Store, Places], tuple[Store, Places], TaskGroup]]:
    """A worker and a server, with a turn to do, and where they run."""
    with opened(url, WORKER) as worker, opened(url, SERVER) as server:
        await server[0].write(begin)
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as group:
                yield worker, server, group
                group.cancel_scope.cancel()


@pytest.mark.parametrize("setter", ["a server", "the owner of a workspace"])
async def test_a_timer_that_is_due_soon_fires_in_time_whoever_set_it(
    database_url: str, kind: str, setter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody finds one because they look from time to time.
    monkeypatch.setattr(jobs, "SHARED_LOOK", timedelta(hours=1))
    early, ends = list[bool](), anyio.Event()
    by_owner = setter == "the owner of a workspace"

    def on_timer(tx: Tx, timer: Timer) -> None:
        early.append(tx.now < timer.run_at)
        loop.call_soon_threadsafe(ends.set)

    async def set_one(store: Store) -> None:
        await store.write(set_timer, "alarm", "one", store.clock() + SOON)

    async def turn(job: Job) -> None:
        if by_owner:
            await set_one(worker)

    loop = asyncio.get_running_loop()

    async with both(database_url) as ((worker, places), (server, _), group):
        await group.start(places.serve, {"turn": turn}, on_timer)
        if not by_owner:
            await set_one(server)
        await ends.wait()
    assert early == [False]


def sweep(tx: Tx) -> None:
    go_on(tx, "sweep", "all")


@pytest.mark.parametrize("setter", ["a server", "a timer", "the owner of a workspace"])
async def test_what_belongs_to_no_workspace_is_done_once_and_leaves_nothing_behind(
    database_url: str, kind: str, setter: str
) -> None:
    swept, begun, done = list[str](), anyio.Event(), anyio.Event()

    async def sweep_job(job: Job) -> None:
        swept.append(job.key)
        done.set()

    async def turn(job: Job) -> None:
        begun.set()
        if setter == "the owner of a workspace":
            await worker.write(sweep)

    async with both(database_url) as ((worker, places), (server, _), group):
        handlers = {"turn": turn, "sweep": sweep_job}
        await group.start(places.serve, handlers, lambda tx, timer: sweep(tx))
        # Whoever gets a place drops what was handed to it, and reads what is left to do.
        await begun.wait()
        if setter == "a server":
            await server.write(sweep)
        elif setter == "a timer":
            await server.write(set_timer, "alarm", "all", server.clock())
        await done.wait()
        found = text("SELECT kind FROM handoffs")
        while await server.read(lambda tx: list(tx.execute(found))):  # noqa: ASYNC110 - it tells nobody
            await anyio.sleep(SOON.total_seconds())
        assert swept == ["all"]


async def test_nobody_counts_as_one_of_the_nodes_before_the_database_knows_it(
    database_url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    join, is_back, refused = Store.join, list[bool](), threading.Event()

    def joined(store: Store) -> Lease:
        if not is_back:
            refused.set()
            raise Busy(reason="it is away")
        return join(store)

    monkeypatch.setattr(Store, "join", joined)
    async with both(database_url) as ((_, places), (server, _), group):
        await group.start(places.serve, {"turn": nothing_to_do}, lambda tx, timer: None)
        await anyio.to_thread.run_sync(refused.wait, LIMIT)
        assert not places.joined.is_set()
        is_back.append(True)
        await places.joined.wait()
        nodes = await server.read(lambda tx: tx.execute(text("SELECT kind FROM nodes")))
        assert [row.kind for row in nodes] == ["worker"]


async def test_what_is_told_in_a_session_that_is_followed_elsewhere_comes_without_a_read(
    database_url: str, kind: str
) -> None:
    async with both(database_url) as ((worker, ours), (server, theirs), group):
        follower, quiet = theirs._hub.follow("s1"), theirs._hub.follow("s2")
        await group.start(theirs.serve, {}, lambda tx, timer: None)
        await group.start(ours.serve, {"turn": nothing_to_do}, lambda tx, timer: None)
        while not follower.items:
            # Until the worker has heard that somebody follows.
            theirs._hub.on_follow("s1")
            await worker.write(log.tell, "s1", AssistantMessage(content="Hello"))
            await anyio.sleep(SOON.total_seconds())
        found = await server.read(log.events_after, "s1", 0)
    body = follower.items[0]
    assert body in found
    assert not quiet.items


@pytest.mark.feature(237)
async def test_a_stop_of_another_process_ends_a_job_without_a_look_for_it(
    database_url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker looks once when it begins, and then only where it is told to.
    monkeypatch.setattr(whole, "_LOOK", 10.0 * LIMIT)
    begun, ended = anyio.Event(), anyio.Event()

    async def turn(job: Job) -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with both(database_url) as ((_, ours), (server, _), group):
        await group.start(ours.serve, {"turn": turn}, lambda tx, timer: None)
        await begun.wait()
        await server.write(stop, "turn", "t1")
        await ended.wait()


async def nothing_to_do(job: Job) -> None:
    """A turn that is over at once."""
