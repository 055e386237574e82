"""Checkpoints of plans and what was done to files: found by plan, attempt and moment."""

from datetime import timedelta

from msgspec.structs import replace

from fakes.rows import NOW, at, begin, begin_plan
from gonogo.domain.events import Done
from gonogo.domain.records import Checkpoint
from gonogo.domain.undo import is_unchanged
from gonogo.store import checkpoints, events
from gonogo.store.checkpoints import Doer, Touched

SECOND = timedelta(seconds=1)


def checkpoint(name: str, after: int = 0, **more) -> Checkpoint:
    given = {
        "session_id": "s1", "plan_id": "p1", "revision": 1, "subtask_id": "a", "attempt": 1,
        "reason": "attempt", "standings": "p", "event_seq": 1, "last_change": 0, "tree": None,
        "hash": "h", "created_at": NOW + after * SECOND,
    }  # fmt: skip
    return Checkpoint(id=name, **{**given, **more})


def several(tx) -> None:
    begin(tx)
    begin_plan(tx)
    begin_plan(tx, plan_id="p2")
    checkpoints.add_checkpoints(tx, [
        checkpoint("c4", 2), checkpoint("c2", attempt=3), checkpoint("c1", attempt=2),
        checkpoint("c3", 1, attempt=3), checkpoint("c5", 2, subtask_id="b", attempt=9),
        checkpoint("c6", 1, revision=2, attempt=9), checkpoint("c7", 9, plan_id="p2", attempt=9),
    ])  # fmt: skip


async def test_checkpoints_of_a_plan_come_oldest_first_page_by_page(store):
    await store.write(several)

    async def page(*where):
        return [each.id for each in await store.read(checkpoints.list_checkpoints, "p1", *where)]

    assert await page(10) == ["c1", "c2", "c3", "c6", "c4", "c5"]
    assert await page(2) == ["c1", "c2"]
    assert await page(2, 3) == ["c6", "c4"]
    assert await store.read(checkpoints.count_checkpoints, "p1") == 6
    assert (await store.read(checkpoints.latest_checkpoint, "p1")).id == "c5"
    assert await store.read(checkpoints.latest_checkpoint, "p9") is None
    assert await store.read(checkpoints.checkpoint_of, "c2") == checkpoint("c2", attempt=3)


async def test_the_checkpoint_before_the_latest_attempt_is_found_and_that_for_its_undoing(store):
    await store.write(several)
    found = await store.read(checkpoints.attempt_checkpoint, "p1", 1, "a")

    assert found == checkpoint("c2", attempt=3)
    assert await store.read(checkpoints.attempt_checkpoint, "p1", 3, "a") is None
    assert (await store.read(checkpoints.attempt_checkpoint, "p1", 2, "a")).id == "c6"
    assert await store.read(checkpoints.is_being_undone, found)
    for other in ("c1", "c4", "c5", "c6", "c7"):
        alone = await store.read(checkpoints.checkpoint_of, other)
        assert not await store.read(checkpoints.is_being_undone, alone)


async def test_a_checkpoint_is_given_its_snapshot_once(store):
    await store.write(several)
    seen = await store.read(checkpoints.checkpoint_of, "c1")

    assert await store.write(checkpoints.set_tree, seen, "t1")
    assert not await store.write(checkpoints.set_tree, seen, "t2")
    whole = await store.read(checkpoints.checkpoint_of, "c1")
    assert whole == replace(seen, tree="t1", hash=whole.hash)
    assert is_unchanged(whole)


DOER = Doer("s1", "p1", 1, "a", "call_1", "/w")
OTHER = DOER._replace(subtask_id="b", call_id="call_2")
BESIDES = DOER._replace(plan_id=None, revision=None, subtask_id=None, call_id="call_3")


def touching(tx) -> None:
    begin(tx)
    begin_plan(tx)
    checkpoints.add_changes(tx, DOER, "tool", [
        Touched("f", None, {"hash": "1"}), Touched("g", {"hash": "0"}, None),
    ])  # fmt: skip
    checkpoints.add_changes(tx, OTHER, "command", [Touched("f", {"hash": "1"}, {"hash": "2"})])
    checkpoints.add_changes(tx, BESIDES, "tool", [Touched("h", None, {"hash": "3"})])


async def test_changes_are_found_by_plan_subtask_and_session_oldest_first(store):
    await store.write(touching)
    of_plan = await store.read(checkpoints.changes_after, "p1", 0)
    first = of_plan[0]

    assert (first.session_id, first.plan_id, first.revision, first.subtask_id, first.call_id) == (
        "s1", "p1", 1, "a", "call_1",
    )  # fmt: skip
    assert (first.workspace, first.path, first.origin, first.before, first.after) == (
        "/w", "f", "tool", None, {"hash": "1"},
    )  # fmt: skip
    assert first.created_at == NOW
    assert [each.path for each in of_plan] == ["f", "g", "f"]
    later = await store.read(checkpoints.changes_after, "p1", of_plan[1].id)
    assert later == of_plan[2:]
    assert await store.read(checkpoints.changes_of_subtask, "p1", "a") == of_plan[:2]
    in_session = await store.read(checkpoints.changes_of_session, "s1")
    assert [each.path for each in in_session] == ["f", "g", "f", "h"]
    assert await store.read(checkpoints.changes_of_session, "s2") == []


async def test_what_a_call_left_is_completed_at_its_own_paths_alone(store):
    await store.write(touching)
    left = [Touched("f", {"hash": "unlike"}, {"hash": "9"}), Touched("g", None, {"hash": "8"})]
    await store.write(checkpoints.set_after, DOER, left)

    found = await store.read(checkpoints.changes_of_session, "s1")
    assert [each.after for each in found] == [
        {"hash": "9"}, {"hash": "8"}, {"hash": "2"}, {"hash": "3"},
    ]  # fmt: skip
    assert [each.before for each in found] == [None, {"hash": "0"}, {"hash": "1"}, None]


async def test_a_subtask_is_undone_while_its_last_change_is_a_rollbacks(store):
    undone, again = DOER._replace(call_id=None), OTHER._replace(call_id=None)
    whole = BESIDES._replace(plan_id="p1", call_id=None)
    other = undone._replace(plan_id="p2", subtask_id="c")
    path = [Touched("f", None, None)]

    await store.write(touching)
    for doer in (undone, again, whole, other):
        await store.write(at(NOW + SECOND, checkpoints.add_changes), doer, "rollback", path)
    await store.write(checkpoints.add_changes, again, "tool", path)
    assert await store.read(checkpoints.undone_subtasks, "p1") == {"a": NOW + SECOND}


async def test_a_moment_of_a_plan_counts_what_this_transaction_has_told(store):
    def now(tx):
        before = checkpoints.head_of(tx, "s1", "p1")
        events.tell(tx, "s1", Done(), Done())
        return before, checkpoints.head_of(tx, "s1", "p1")

    await store.write(touching)
    last = (await store.read(checkpoints.changes_after, "p1", 0))[-1].id
    before, after = await store.write(now)
    assert before == (0, "en", "server", last)
    assert after == (2, "en", "server", last)
    assert (await store.read(checkpoints.head_of, "s1", "p9")).last_change == 0
