"""Shapes: a revision is looked at once, and never mistaken for another one of the same number."""

import pytest

from fakes import rows
from gonogo.execution.scheduling.plan_state import shape_of
from gonogo.store import Store, Tx
from gonogo.store.plans import add_plan, add_revision
from gonogo.store.sessions import add_session


def _first(tx: Tx) -> None:
    add_session(tx, rows.session())
    first = rows.revision(rows.subtask("a"))
    add_plan(tx, rows.plan(digest=first.digest))
    add_revision(tx, first, "architect", "first")


def _second(tx: Tx, subtask_id: str, *, fail: bool) -> list[str]:
    revision = rows.revision(rows.subtask(subtask_id), number=2)
    add_revision(tx, revision, "ann", "edited")
    plan = rows.plan(revision=2, digest=revision.digest)
    found = list(shape_of(tx, plan).graph.subtasks)
    if fail:
        raise RuntimeError("rolled back")
    return found


async def test_a_revision_that_was_rolled_back_is_not_taken_for_the_one_that_was_kept(
    store: Store,
) -> None:
    await store.write(_first)
    with pytest.raises(RuntimeError):
        await store.write(_second, "wrong", fail=True)

    assert await store.write(_second, "right", fail=False) == ["right"]


async def test_places_count_from_one_in_the_order_of_the_plan(store: Store) -> None:
    def read(tx: Tx) -> dict[str, int]:
        add_session(tx, rows.session())
        revision = rows.revision(rows.subtask("b"), rows.subtask("a", "b"))
        plan = rows.plan(digest=revision.digest)
        add_plan(tx, plan)
        add_revision(tx, revision, "architect", "first")
        return dict(shape_of(tx, plan).graph.places)

    assert await store.write(read) == {"b": 1, "a": 2}
