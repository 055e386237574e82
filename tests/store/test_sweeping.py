"""Snapshots are given up plan by plan, and what somebody may still ask for is known."""

from datetime import timedelta

from fakes import rows
from gonogo.domain.plan_state import PlanStatus
from gonogo.domain.records import Checkpoint
from gonogo.store import Connection, Store
from gonogo.store.checkpoints import (
    Doer,
    Touched,
    add_changes,
    add_checkpoints,
    checkpoint_of,
    set_tree,
)
from gonogo.store.plans import plan_of, set_plan
from gonogo.store.sweeping import give_up_snapshots, given_up, kept_objects

DAY = timedelta(days=1)


def checkpoint(conn: Connection, name: str, plan_id: str, days: int) -> None:
    """A checkpoint, and a change after it, that are so many days old."""
    made = rows.NOW - days * DAY
    found = Checkpoint(
        id=name, session_id="s1", plan_id=plan_id, revision=1, subtask_id="a", attempt=1,
        reason="", standings="p", event_seq=1, last_change=0, tree=None, hash="", created_at=made,
    )  # fmt: skip
    add_checkpoints(conn, [found])
    set_tree(conn, found, f"tree of {name}")
    doer = Doer("s1", plan_id, 1, "a", None, "/w")
    before, after = {"hash": "x", "blob": f"blob of {name}"}, {"hash": "y"}
    add_changes(conn, doer, "tool", [Touched("f", before, after), Touched("g", None, after)], made)


def ended(conn: Connection, plan_id: str, days: int) -> None:
    plan = plan_of(conn, plan_id)
    assert plan is not None
    when = rows.NOW - days * DAY
    set_plan(conn, plan, status=PlanStatus.PARTIAL, finished_at=when)


async def test_only_what_ended_and_was_rolled_back_before_a_time_is_given_up(store: Store) -> None:
    def tell(conn: Connection) -> None:
        rows.begin(conn, "s1")
        for plan_id in ("old", "undone", "live", "young"):
            rows.begin_plan(conn, rows.subtask("a"), plan_id=plan_id)
            checkpoint(conn, f"c-{plan_id}", plan_id, 50)
        checkpoint(conn, "c-again", "undone", 5)
        for plan_id, days in (("old", 40), ("undone", 40), ("young", 5)):
            ended(conn, plan_id, days)

    await store.write(tell)
    assert len(await store.read(kept_objects)) == 10
    marked = await store.write(give_up_snapshots, rows.NOW - 30 * DAY, rows.NOW)
    assert marked == 1
    assert await store.write(give_up_snapshots, rows.NOW - 30 * DAY, rows.NOW) == 0

    found = await store.read(checkpoint_of, "c-old")
    assert found is not None
    assert (found.swept_at, found.tree) == (rows.NOW, "tree of c-old")
    assert await store.read(given_up, "old") == rows.NOW
    assert await store.read(given_up, "undone") is None
    names = ("c-undone", "c-live", "c-young", "c-again")
    assert await store.read(kept_objects) == {
        f"{of} of {n}" for n in names for of in ("tree", "blob")
    }
