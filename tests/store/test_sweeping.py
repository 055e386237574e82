"""Snapshots are given up plan by plan, and what somebody may still ask for is known."""

from datetime import timedelta
from threading import Event

import anyio

from fakes import rows
from gonogo.domain.records import Checkpoint
from gonogo.domain.states import PlanStatus
from gonogo.store import Store, Tx
from gonogo.store.checkpoints import (
    Doer,
    Touched,
    add_changes,
    add_checkpoints,
    changes_after,
    checkpoint_of,
    clear_changes,
    drop_changes,
    set_tree,
)
from gonogo.store.jobs import give_up_snapshots, given_up, kept_objects
from gonogo.store.plans import lock_plan, plan_of, set_plan

DAY = timedelta(days=1)


def checkpoint(tx: Tx, name: str, plan_id: str, days: int) -> None:
    """A checkpoint, and a change after it, that are so many days old."""
    made = tx.now = rows.NOW - days * DAY
    found = Checkpoint(
        id=name, session_id="s1", plan_id=plan_id, revision=1, subtask_id="a", attempt=1,
        reason="", standings="p", event_seq=1, last_change=0, tree=None, hash="", created_at=made,
    )  # fmt: skip
    add_checkpoints(tx, [found])
    set_tree(tx, found, f"tree of {name}")
    doer = Doer("s1", plan_id, 1, "a", None, "/w")
    before, after = {"hash": "x", "blob": f"blob of {name}"}, {"hash": "y"}
    add_changes(tx, doer, "tool", [Touched("f", before, after), Touched("g", None, after)])


async def test_what_was_written_down_of_a_call_is_taken_back_and_nothing_of_others(
    store: Store,
) -> None:
    one, two = Doer("s1", "p1", 1, "a", "call_1", "/w"), Doer("s1", "p1", 1, "a", "call_2", "/w")
    other = Doer("s1", "p2", 1, "a", "call_3", "/w")

    def write(tx: Tx) -> None:
        rows.begin(tx)
        for plan_id in ("p1", "p2"):
            rows.begin_plan(tx, plan_id=plan_id)
        for doer in (one, two, other):
            made = [Touched(path, None, {"hash": "y"}) for path in ("f", "g", "h")]
            add_changes(tx, doer, "tool", made)

    async def left() -> list[str]:
        found = [each for plan in ("p1", "p2") for each in await store.read(changes_after, plan, 0)]
        return [f"{each.plan_id} {each.call_id} {each.path}" for each in found]

    await store.write(write)
    everything = await left()
    await store.write(drop_changes, one, ["f", "h"])
    gone = {"p1 call_1 f", "p1 call_1 h"}
    assert await left() == [each for each in everything if each not in gone]
    await store.write(drop_changes, one, [])
    await store.write(clear_changes, two)
    assert await left() == ["p1 call_1 g", *everything[-3:]]


def ended(tx: Tx, plan_id: str, days: int) -> None:
    plan = plan_of(tx, plan_id)
    assert plan is not None
    when = rows.NOW - days * DAY
    set_plan(tx, plan, status=PlanStatus.PARTIAL, finished_at=when)


async def test_only_what_ended_and_was_rolled_back_before_a_time_is_given_up(store: Store) -> None:
    def tell(tx: Tx) -> None:
        rows.begin(tx, "s1")
        for plan_id in ("old", "undone", "live", "young"):
            rows.begin_plan(tx, rows.subtask("a"), plan_id=plan_id)
            checkpoint(tx, f"c-{plan_id}", plan_id, 50)
        checkpoint(tx, "c-again", "undone", 5)
        for plan_id, days in (("old", 40), ("undone", 40), ("young", 5)):
            ended(tx, plan_id, days)

    await store.write(tell)
    assert len(await store.read(kept_objects)) == 10
    marked = await store.write(give_up_snapshots, rows.NOW - 30 * DAY)
    assert marked == 1
    assert await store.write(give_up_snapshots, rows.NOW - 30 * DAY) == 0

    found = await store.read(checkpoint_of, "c-old")
    assert found is not None
    assert (found.swept_at, found.tree) == (rows.NOW, "tree of c-old")
    assert await store.read(given_up, "old") == rows.NOW
    assert await store.read(given_up, "undone") is None
    names = ("c-undone", "c-live", "c-young", "c-again")
    assert await store.read(kept_objects) == {
        f"{of} of {n}" for n in names for of in ("tree", "blob")
    }


async def test_a_rollback_that_begins_while_snapshots_are_given_up_keeps_its_own(
    store: Store,
) -> None:
    began, swept = Event(), Event()

    def tell(tx: Tx) -> None:
        rows.begin(tx, "s1")
        rows.begin_plan(tx, rows.subtask("a"), plan_id="old")
        checkpoint(tx, "c-old", "old", 50)
        ended(tx, "old", 40)

    def roll_back(tx: Tx) -> None:
        plan = lock_plan(tx, "old")
        assert plan is not None
        set_plan(tx, plan, rollback={"checkpoint_id": "c-old"})
        began.set()
        # Where two write at once, a sweep that does not wait is over before this is committed.
        swept.wait(0.5)

    async def sweep() -> None:
        await anyio.to_thread.run_sync(began.wait, 30)
        marked.append(await store.write(give_up_snapshots, rows.NOW - 30 * DAY))
        swept.set()

    await store.write(tell)
    marked: list[int] = []
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(sweep)
            await store.write(roll_back)
    assert marked == [0]
    assert await store.read(given_up, "old") is None
