"""Places: one owner at a time, who alone can write there, and to whom others hand work over."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import select, update

from fakes.rows import session
from gonogo.domain.errors import Conflict, NotFound, PlaceLost
from gonogo.domain.events import AssistantMessage
from gonogo.domain.records import Job
from gonogo.store import Hold, Lease, Membership, Outbox, Store, Tx, Whose, go_on, stop
from gonogo.store import events as log
from gonogo.store.places import (
    COMMON,
    add_place,
    all_nodes,
    appoint,
    are_free,
    ask_to_leave,
    give_away,
    owned_by,
    owning,
    place_id_of,
    release,
    settle_in,
    take_handoffs,
)
from gonogo.store.schema import nodes, places, sessions
from gonogo.store.sessions import add_session, add_turn, set_session

pytestmark = [pytest.mark.parametrize("kind", ["postgresql"]), pytest.mark.feature(235)]

HOME = "home"
WORKER = Membership(kind="worker", pool="default", home=HOME, capacity=8)
WORKSPACE = session().workspace
PLACE = place_id_of(WORKSPACE)


@contextmanager
def opened(url: str, member: Membership = WORKER) -> Iterator[Store]:
    store = Store(url, drives=True, shared_as=member, patience=0.5)
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
    row = (await shared.read(lambda tx: tx.execute(select(sessions)).one()))._mapping
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
        again = await appointed(shared, lease)
        with owning(again):
            await shared.write(give_away, again)
        assert await shared.read(are_free, "default")


async def test_nodes_are_listed_and_say_whether_they_live(shared: Store, kind: str) -> None:
    await shared.write(begin)
    with joined(shared) as first, joined(shared) as second:
        await appointed(shared, first)
        await shared.write(die, second.node)
        found = {node.id: node for node in await shared.read(all_nodes)}
        assert (found[first.node].lives, found[first.node].places) == (True, 1)
        assert (found[second.node].lives, found[second.node].places) == (False, 0)
    assert await shared.read(all_nodes) == []


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
        with pytest.raises(Conflict, match="already used"):
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
