"""Going back: what a failed attempt did is undone before its failure is written."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from fakes.workshop import Workshop
from gonogo.domain.failures import Failure
from gonogo.domain.states import SubtaskStatus
from gonogo.execution.scheduling import Failed, Outcome, Work
from gonogo.store import Store, Tx


@dataclass(frozen=True)
class Undoes:
    undo: Callable[[Work], Awaitable[None]]
    began: Callable[[Tx, Work], bool]


async def breaks(work: Work) -> Outcome:
    return Failed(Failure(message="broke"))


@pytest.mark.feature(92)
async def test_the_files_go_back_before_the_failure_is_written(store: Store) -> None:
    undone: list[tuple[str, SubtaskStatus]] = []

    async def undo(work: Work) -> None:
        undone.append((work.subtask.id, (await shop.statuses(plan_id))[work.subtask.id]))

    shop = Workshop(store=store, options={"retreat": Undoes(undo, lambda tx, work: False)})
    async with shop.open():
        shop.steps["a"] = breaks
        plan_id = await shop.approved({"id": "a"}, {"id": "b"})
        await shop.do(shop.engine.controls.start, plan_id)
        await shop.end_of(plan_id)

    assert undone == [("a", SubtaskStatus.RUNNING)]


@pytest.mark.feature(92)
async def test_an_attempt_that_was_being_undone_when_the_process_stopped_has_failed(
    store: Store,
) -> None:
    undone: list[str] = []

    async def undo(work: Work) -> None:
        undone.append(work.subtask.id)

    def began(tx: Tx, work: Work) -> bool:
        return work.subtask.id == "a"

    shop = Workshop(store=store, options={"retreat": Undoes(undo, began)})
    async with shop.open():
        plan_id = await shop.carry_out({"id": "a"}, {"id": "b"})

    assert (undone, shop.runs) == (["a"], ["b"])
    row = (await shop.rows(plan_id))["a"]
    assert row.error is not None
    assert "while it undid the changes" in row.error["message"]
