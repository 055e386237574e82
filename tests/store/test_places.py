"""Places: one owner at a time, who alone can write there, and to whom others hand work over."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from sqlalchemy import delete, func, select, text, update

from fakes.rows import session
from gonogo.domain.errors import Conflict, NotFound, PlaceLost
from gonogo.domain.events import AssistantMessage
from gonogo.domain.records import Job
from gonogo.store import Hold, Lease, Membership, Outbox, Store, Tx, Whose, go_on, stop, transaction
from gonogo.store import events as log
from gonogo.store.places import (
    COMMON,
    add_place,
    all_nodes,
    appoint,
    ask_to_leave,
    give_away,
    glance,
    hand_over,
    owned_by,
    place_id_of,
    release,
    settle_in,
    take_handoffs,
)
from gonogo.store.rows import put
from gonogo.store.schema import handoffs, nodes, places, sessions
from gonogo.store.sessions import add_session, add_turn, set_session
from gonogo.store.transaction import SharedClock, owning
from plugins.nightly import examples

pytestmark = [pytest.mark.parametrize("kind", ["postgresql"]), pytest.mark.feature(235)]

HOME = "home"
WORKER = Membership(kind="worker", pool="default", home=HOME, capacity=8)
WORKSPACE = session().workspace
PLACE = place_id_of(WORKSPACE)
_NEAR = timedelta(minutes=20)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
_WAITS = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


@contextmanager
def opened(url: str, member: Membership = WORKER) -> Iterator[Store]:
    store = Store(url, drives=True, shared_as=member, patience=30)
    store.routes = {"turn": Whose.TURN, "hook": Whose.NONE}
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def shared(database_url: str) -> Iterator[Store]:
    with opened(database_url) as store:
        yield store


@contextmanager
def joined(store: Store) -> Iterator[Lease]:
    lease = store.join()
    try:
        yield lease
    finally:
        lease.end()


def begin(tx: Tx) -> None:
    log.start_system_chain(tx)
    settle_in(tx, WORKER)
    add_session(tx, session())
    add_place(tx, WORKSPACE, WORKER)
    add_turn(tx, "t1", "s1", "Hello", "")
    go_on(tx, "turn", "t1")


def hold_of(fence: int, lost: Callable[[], None] = lambda: None) -> Hold:
    return Hold(PLACE, fence, lambda: True, lost)


def told(tx: Tx, what: str) -> None:
    log.tell(tx, "s1", AssistantMessage(content=what))


async def appointed(store: Store, lease: Lease) -> Hold:
    await store.write(appoint, lease.node, "default", 8)
    [place] = [each for each in await store.read(owned_by, lease.node) if each.id == PLACE]
    return hold_of(place.fence)


def are_free(tx: Tx, pool: str, room: int = 1) -> bool:
    return glance(tx, "somebody else", pool, room).has_free


def die(tx: Tx, node: str) -> None:
    tx.execute(update(nodes).where(nodes.c.id == node), {"beat_at": tx.now.replace(year=2000)})


@pytest.mark.parametrize(
    "write", [lambda tx: told(tx, "late"), lambda tx: set_session(tx, "s1", title="late")]
)
async def test_a_former_owner_writes_nothing_whether_or_not_it_tells_of_it(
    shared: Store, kind: str, write: Callable[[Tx], None]
) -> None:
    await shared.write(begin)
    with joined(shared) as first, joined(shared) as second:
        old = await appointed(shared, first)
        with owning(old):
            await shared.write(told, "in time")
        assert not await shared.read(are_free, "default")
        await shared.write(die, first.node)
        new = await appointed(shared, second)
        lost: list[str] = []
        late = hold_of(old.fence, lambda: lost.append("lost"))
        with owning(late), pytest.raises(PlaceLost):
            await shared.write(write)
        with owning(new):
            await shared.write(told, "mine")

    assert lost == ["lost"]
    row = await shared.read(lambda tx: tx.execute(select(sessions)).mappings().one())
    assert (row["title"], row["last_seq"], row["fence"]) == (None, 2, new.fence)


async def test_an_owner_whose_lease_may_be_over_writes_nothing(shared: Store, kind: str) -> None:
    await shared.write(begin)
    with joined(shared) as lease:
        found = await appointed(shared, lease)
        stopped = Hold(PLACE, found.fence, lambda: False, lambda: None)
        with owning(stopped), pytest.raises(PlaceLost):
            await shared.write(told, "late")
    assert await shared.read(log.last_seq, "s1") == 0


async def test_what_others_set_going_is_handed_to_the_owner_who_does_its_own_itself(
    shared: Store, kind: str
) -> None:
    boxes: list[Outbox] = []
    shared.deliver = boxes.append

    def more(tx: Tx) -> None:
        stop(tx, "turn", "t1")
        go_on(tx, "turn", "t1", 3)
        go_on(tx, "hook", "mail")

    await shared.write(begin)
    with joined(shared) as lease:
        hold = await appointed(shared, lease)
        await shared.write(more)
        with owning(hold):
            seen = (await shared.write(take_handoffs, hold)).wanted
            await shared.write(more)
    outside, taken, inside = boxes[-3:]
    assert (outside.jobs, outside.stops, outside.wanted) == ([], [], {PLACE, COMMON})
    assert (taken.jobs, [each.key for each in taken.stops]) == ([Job("turn", "t1", 3)], ["t1"])
    assert (inside.jobs, inside.wanted, inside.hold) == ([Job("turn", "t1", 3)], {COMMON}, hold)
    assert seen == 2


async def test_a_place_is_released_only_when_nothing_came_since_its_owner_looked(
    shared: Store, kind: str
) -> None:
    await shared.write(begin)
    with joined(shared) as lease:
        hold = await appointed(shared, lease)
        with owning(hold):
            seen = (await shared.write(take_handoffs, hold)).wanted
            await shared.write(lambda tx: None)
        await shared.write(go_on, "turn", "t1")
        with owning(hold):
            assert not await shared.write(release, hold, seen)
            seen = (await shared.write(take_handoffs, hold)).wanted
            assert await shared.write(release, hold, seen)
        assert [place.id for place in await shared.read(owned_by, lease.node)] == [COMMON]
        assert not await shared.read(are_free, "default")
        await shared.write(go_on, "turn", "t1")
        assert await shared.read(are_free, "default")
        assert not await shared.read(are_free, "another pool")
        again, boxes = await appointed(shared, lease), list[Outbox]()
        shared.deliver = boxes.append
        # By who has it no longer it is not given away.
        await shared.write(give_away, hold)
        assert not await shared.read(are_free, "default")
        with owning(again):
            await shared.write(give_away, again)
        assert await shared.read(are_free, "default")
        # Others are told, and need not find it by looking each second.
        assert boxes[-1].wanted == {PLACE}
        owned = [e for e in await shared.read(log.entries, log.SYSTEM) if e.subject == PLACE]
        assert [(e.actor, e.action, e.details["fence"]) for e in owned] == [
            (f"node:{lease.node}", "place.owned", fence) for fence in (hold.fence, again.fence)
        ]


async def test_what_belongs_to_no_workspace_takes_no_room_of_a_worker(
    shared: Store, kind: str
) -> None:
    await shared.write(begin)
    with joined(shared) as full, joined(shared) as other:
        assert await shared.read(are_free, "default", 0)
        await shared.write(appoint, full.node, "default", 0)
        assert [each.id for each in await shared.read(owned_by, full.node)] == [COMMON]
        assert not await shared.read(are_free, "default", 0)
        await shared.write(die, full.node)
        await shared.write(appoint, other.node, "default", 1)
        assert {each.id for each in await shared.read(owned_by, other.node)} == {COMMON, PLACE}


def begin_with_two(tx: Tx) -> None:
    """The one place that is looked at, which nobody has yet, and nodes that do not beat."""
    begin(tx)
    tx.execute(delete(handoffs))
    tx.execute(delete(places).where(places.c.id == COMMON))
    row = {
        "kind": "worker", "host": "here", "pid": 1, "pool": "default", "capacity": 8,
        "version": "1", "started_at": tx.now, "beat_at": tx.now, "draining": False,
    }  # fmt: skip
    put(tx, nodes, [{"id": node, **row} for node in BOTH])


BOTH = ("first", "second")


def live(tx: Tx, node: str) -> None:
    tx.execute(update(nodes).where(nodes.c.id == node), {"beat_at": tx.now.replace(year=2100)})


async def is_in_reach(store: Store) -> bool:
    """Whether what is handed over is found, by an owner who lives or by who looks for work."""
    count = select(func.count()).select_from(handoffs)
    if await store.read(lambda tx: tx.execute(count).scalar()) == 0:
        return True
    lives = [node.id for node in await store.read(all_nodes) if node.lives]
    owned = [each for node in lives for each in await store.read(owned_by, node)]
    return any(each.has_more for each in owned) or await store.read(are_free, "default")


class Walk:
    """Two workers, one of whom may have the place, and others who hand work over to it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._holds: dict[str, tuple[Hold, int]] = {}
        """Who believes to have the place, and how much each has seen."""
        self.done = Counter[str]()

    async def step(self, chance: random.Random) -> None:
        who = chance.choice(BOTH)
        deed = chance.choice(["hand", "look", "look", "take", "release", "leave", "die", "live"])
        if deed == "hand":
            await self._store.write(go_on, "turn", "t1")
        elif deed in ("die", "live"):
            await self._store.write(die if deed == "die" else live, who)
        elif deed == "look":
            await self._look(who)
        elif who not in self._holds:
            return
        else:
            # Also one who was found dead goes on, until it is refused.
            with suppress(PlaceLost), owning(self._holds[who][0]):
                await getattr(self, f"_{deed}")(who, *self._holds[who])
        self.done[deed] += 1

    async def _look(self, who: str) -> None:
        if await self._store.read(are_free, "default"):
            await self._store.write(appoint, who, "default", 8)
        fences = [place.fence for place in await self._store.read(owned_by, who)]
        if not fences:
            self._holds.pop(who, None)
        elif who not in self._holds or self._holds[who][0].fence != fences[0]:
            self._holds[who] = hold_of(fences[0]), -1

    async def _take(self, who: str, hold: Hold, _seen: int) -> None:
        self._holds[who] = hold, (await self._store.write(take_handoffs, hold)).wanted

    async def _release(self, who: str, hold: Hold, seen: int) -> None:
        if await self._store.write(release, hold, seen):
            del self._holds[who]

    async def _leave(self, who: str, hold: Hold, _seen: int) -> None:
        await self._store.write(give_away, hold)
        del self._holds[who]


async def test_nothing_handed_over_is_ever_out_of_reach_whatever_becomes_of_owners(
    shared: Store, kind: str
) -> None:
    await shared.write(begin_with_two)
    chance, walk = random.Random(15), Walk(shared)
    for _ in range(examples(300, nightly=10_000)):
        await walk.step(chance)
        assert await is_in_reach(shared), walk.done
    assert len(walk.done) == 7
    assert min(walk.done.values()) > 3


@pytest.mark.parametrize("deed", ["release", "appoint", "leave"])
async def test_what_is_handed_over_while_a_place_changes_hands_is_in_reach_after_it(
    shared: Store, kind: str, deed: str
) -> None:
    await shared.write(begin_with_two)
    await shared.write(appoint, "first", "default", 8)
    hold, over = hold_of(1), threading.Event()
    with owning(hold):
        seen = (await shared.write(take_handoffs, hold)).wanted
    if deed == "appoint":
        await shared.write(die, "first")
    held, loop = anyio.Event(), asyncio.get_running_loop()

    def slowly(tx: Tx) -> None:
        go_on(tx, "turn", "t1")
        hand_over(tx, shared.routes)
        loop.call_soon_threadsafe(held.set)
        until = time.monotonic() + 60
        while not over.is_set() and not tx.execute(_WAITS).scalar():
            assert time.monotonic() < until
            over.wait(0.01)

    def change(tx: Tx) -> object:
        if deed == "appoint":
            return appoint(tx, "second", "default", 8)
        return give_away(tx, hold) if deed == "leave" else release(tx, hold, seen)

    async with anyio.create_task_group() as group:
        group.start_soon(shared.write, slowly)
        await held.wait()
        with owning(hold) if deed != "appoint" else nullcontext():
            await shared.write(change)
        over.set()
    assert await is_in_reach(shared)


async def test_nodes_are_listed_and_say_whether_they_live(shared: Store, kind: str) -> None:
    await shared.write(begin)
    with joined(shared) as first, joined(shared) as second:
        await appointed(shared, first)
        await shared.write(die, second.node)
        found = {node.id: node for node in await shared.read(all_nodes)}
        assert (found[first.node].lives, found[first.node].places) == (True, 1)
        assert (found[second.node].lives, found[second.node].places) == (False, 0)
    assert await shared.read(all_nodes) == []


async def test_the_time_of_all_who_share_is_the_databases_whatever_a_machine_says(
    shared: Store, database_url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(tx: Tx) -> datetime:
        return tx.now

    for hours in (-1, 1):
        wrong = timedelta(hours=hours)
        monkeypatch.setattr(transaction, "utc_now", lambda by=wrong: datetime.now(UTC) + by)
        assert abs(SharedClock()() - datetime.now(UTC) - wrong) < _NEAR
        with joined(shared):
            assert abs(await shared.write(written) - datetime.now(UTC)) < _NEAR
    given = Store(database_url, drives=True, shared_as=WORKER, clock=lambda: NOON)
    with closing(given), joined(given):
        assert given.clock() == NOON


def test_all_processes_of_a_machine_whose_clock_is_right_have_the_same_time(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed, waits = 100.0, [0.03, 0.0, 0.02]

    def now() -> datetime:
        nonlocal passed
        passed += waits.pop() if waits else 0.01
        return NOON + timedelta(seconds=passed)

    monkeypatch.setattr(transaction, "seconds_passed", lambda: passed)
    monkeypatch.setattr(transaction, "utc_now", now)
    clock = SharedClock()
    clock.set(clock() - timedelta(seconds=0.5))
    assert clock() == NOON + timedelta(seconds=passed)


@pytest.mark.parametrize("told", [timedelta(seconds=0.9), timedelta(hours=-3)])
def test_a_look_that_took_long_sets_no_shared_clock(
    told: timedelta, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 5.0
    monkeypatch.setattr(transaction, "seconds_passed", lambda: passed)
    clock, later = SharedClock(), NOON + timedelta(minutes=1)
    clock.set(NOON)
    passed += 60
    assert clock() == later
    clock.set(later + told)
    assert clock() == later + (told if abs(told) > timedelta(seconds=1) else timedelta())


async def test_snapshots_in_another_state_folder_are_refused(shared: Store, kind: str) -> None:
    await shared.write(settle_in, WORKER)
    elsewhere = Membership(kind="server", pool="default", home="another")
    with pytest.raises(Conflict, match="another state folder"):
        await shared.write(settle_in, elsewhere)


async def test_one_alone_and_several_keep_each_other_out_and_what_was_left_is_free(
    database_url: str, kind: str
) -> None:
    with opened(database_url) as several, opened(database_url):
        await several.write(begin)
        with pytest.raises(Conflict, match="Several gonogo"):
            Store(database_url, drives=True, patience=0.1)
        lease = several.join()
        await appointed(several, lease)
        lease.end()
        fence = await fence_of(several)
    alone = Store(database_url, drives=True)
    try:
        with pytest.raises(Conflict, match="already used"):
            Store(database_url, drives=True, shared_as=WORKER, patience=0.1)
        await alone.write(told, "alone")
    finally:
        alone.close()
    with opened(database_url) as several:
        assert await fence_of(several) == fence + 1
        assert await several.read(are_free, "default")


async def fence_of(store: Store) -> Any:
    found = select(places.c.fence).where(places.c.id == PLACE)
    return await store.read(lambda tx: tx.execute(found).scalar())


async def test_sessions_from_before_get_a_place_when_the_first_of_several_starts(
    database_url: str, kind: str
) -> None:
    alone = Store(database_url, drives=True)
    await alone.write(add_session, session())
    alone.close()
    with opened(database_url) as several:
        await several.write(settle_in, WORKER)
        found = await several.read(
            lambda tx: tx.execute(select(sessions.c.place_id, sessions.c.fence)).one()
        )
        assert tuple(found) == (PLACE, 0)
        assert await several.read(are_free, "default")


async def test_only_an_owner_that_is_alive_is_asked_to_leave(shared):
    await shared.write(begin)
    assert not await shared.write(ask_to_leave, PLACE)
    with joined(shared) as lease:
        await appointed(shared, lease)
        assert await shared.write(ask_to_leave, WORKSPACE)
        await shared.write(die, lease.node)
        assert not await shared.write(ask_to_leave, PLACE)
    with pytest.raises(NotFound):
        await shared.write(ask_to_leave, "nowhere")
