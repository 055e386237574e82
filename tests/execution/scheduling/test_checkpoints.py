"""Checkpoints: a row before every attempt of a subtask, in the transaction that starts it, which
says where the whole plan stood and carries a hash over what it says."""

import pytest
from msgspec.structs import replace

from fakes.workshop import Workshop, done, key_of, parks_once
from gonogo.domain.failures import Category, Failure
from gonogo.domain.records import Checkpoint
from gonogo.domain.states import SubtaskStatus
from gonogo.domain.undo import is_unchanged, read_standings, write_standings
from gonogo.execution.scheduling import Failed, Outcome, Work
from gonogo.store import Tx
from gonogo.store.checkpoints import (
    attempt_checkpoint,
    checkpoint_of,
    latest_checkpoint,
    list_checkpoints,
    set_tree,
)
from gonogo.store.sessions import set_session

_S = SubtaskStatus


def _host_at_client(tx: Tx, session_id: str) -> None:
    set_session(tx, session_id, tool_host="client")


async def kept(shop: Workshop, plan_id: str) -> list[Checkpoint]:
    return await shop.store.read(list_checkpoints, plan_id, 100)


@pytest.mark.feature(90)
async def test_n_subtasks_have_n_checkpoints_each_with_its_reason_and_hash(
    open_shop: Workshop,
) -> None:
    plan_id = await open_shop.carry_out(
        {"id": "a"}, {"id": "b"}, {"id": "c", "dependencies": ["a", "b"]}
    )

    found = await kept(open_shop, plan_id)
    assert [(c.subtask_id, c.attempt) for c in found] == [("a", 1), ("b", 1), ("c", 1)]
    assert [c.reason for c in found] == [f"before the subtask {key}, attempt 1" for key in "abc"]
    assert all(is_unchanged(c) for c in found)
    assert len({c.hash for c in found}) == 3


async def test_a_checkpoint_says_where_every_subtask_stood(open_shop: Workshop) -> None:
    plan_id = await open_shop.carry_out(
        {"id": "a"}, {"id": "b", "dependencies": ["a"]}, {"id": "c", "dependencies": ["b"]}
    )

    stood = [read_standings(c.standings) for c in await kept(open_shop, plan_id)]
    assert stood == [
        [_S.PENDING, _S.PENDING, _S.PENDING],
        [_S.COMPLETED, _S.PENDING, _S.PENDING],
        [_S.COMPLETED, _S.COMPLETED, _S.PENDING],
    ]


def test_every_status_is_read_again_as_it_was_written() -> None:
    assert read_standings(write_standings(SubtaskStatus)) == list(SubtaskStatus)


@pytest.mark.feature(90)
async def test_each_attempt_has_a_checkpoint_of_its_own(open_shop: Workshop) -> None:
    runs: list[str] = []

    async def fails_once(work: Work) -> Outcome:
        runs.append(work.key)
        if len(runs) == 1:
            return Failed(Failure(message="no", category=Category.NETWORK))
        return await done(work)

    open_shop.steps["a"] = fails_once
    plan_id = await open_shop.start({"id": "a", "retry_policy": {"max_attempts": 2}})
    await open_shop.until(plan_id, "a", _S.PENDING)
    await open_shop.fire(plan_id, 3600)
    await open_shop.end_of(plan_id)

    assert [(c.subtask_id, c.attempt) for c in await kept(open_shop, plan_id)] == [
        ("a", 1), ("a", 2),
    ]  # fmt: skip


async def test_going_on_after_a_question_is_no_new_attempt(open_shop: Workshop) -> None:
    open_shop.steps["a"] = parks_once(open_shop)
    plan_id = await open_shop.start({"id": "a"})
    await open_shop.until(plan_id, "a", _S.WAITING_APPROVAL)

    await open_shop.store.write(open_shop.engine.work.resume, key_of(plan_id, "a"))
    await open_shop.end_of(plan_id)

    assert len(await kept(open_shop, plan_id)) == 1


async def test_a_checkpoint_is_told_before_its_subtask_starts(open_shop: Workshop) -> None:
    plan_id = await open_shop.carry_out({"id": "a"}, {"id": "b", "dependencies": ["a"]})

    told = await open_shop.events(plan_id)
    for checkpoint in await kept(open_shop, plan_id):
        about = [event for event in told if event.get("subtask_id") == checkpoint.subtask_id]
        first = about[0]
        assert first["type"] == "checkpoint_created"
        assert first["metadata"] == {
            "checkpoint_id": checkpoint.id,
            "reason": checkpoint.reason,
            "subtask_id": checkpoint.subtask_id,
        }
        assert checkpoint.event_seq == first["seq"] - 1


async def test_a_plan_whose_client_carries_out_the_tools_has_none(open_shop: Workshop) -> None:
    plan_id = await open_shop.approved({"id": "a"})
    session_id = (await open_shop.plan(plan_id)).session_id
    await open_shop.store.write(_host_at_client, session_id)
    await open_shop.do(open_shop.engine.controls.start, plan_id)
    await open_shop.end_of(plan_id)

    assert await kept(open_shop, plan_id) == []


async def test_a_snapshot_is_set_once_and_the_hash_covers_it(open_shop: Workshop) -> None:
    plan_id = await open_shop.carry_out({"id": "a"})
    (bare,) = await kept(open_shop, plan_id)

    assert await open_shop.store.write(set_tree, bare, "1" * 40)
    assert not await open_shop.store.write(set_tree, bare, "2" * 40)

    whole = await open_shop.store.read(checkpoint_of, bare.id)
    assert whole is not None
    assert whole.tree == "1" * 40
    assert whole.hash != bare.hash
    assert is_unchanged(whole)
    assert not is_unchanged(replace(whole, tree="2" * 40))


async def test_the_latest_checkpoint_and_that_of_a_subtask_are_found(open_shop: Workshop) -> None:
    plan_id = await open_shop.carry_out({"id": "a"}, {"id": "b", "dependencies": ["a"]})

    latest = await open_shop.store.read(latest_checkpoint, plan_id)
    of_a = await open_shop.store.read(attempt_checkpoint, plan_id, 1, "a")
    assert latest is not None
    assert latest.subtask_id == "b"
    assert of_a is not None
    assert of_a.subtask_id == "a"
    assert await open_shop.store.read(checkpoint_of, "checkpoint_none") is None


async def test_sixty_subtasks_that_start_together_share_one_event_seq(
    open_shop: Workshop,
) -> None:
    plan_id = await open_shop.carry_out(*({"id": f"s{n}"} for n in range(60)), parallel=64)

    found = await kept(open_shop, plan_id)
    assert len(found) == 60
    assert len({c.event_seq for c in found}) == 1
