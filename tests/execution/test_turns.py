"""Turns: who was replaced writes nothing more, and each message begins anew."""

import sqlite3
from pathlib import Path

import pytest

from fakes import rows
from fakes.world import call, calls, of, says, world_of
from gonogo.domain.errors import ModelFailed
from gonogo.domain.records import Job, Turn
from gonogo.domain.states import TurnStatus
from gonogo.domain.tool_calls import ModelRequest
from gonogo.execution.agent.inbox import check, move
from gonogo.execution.scheduling import Superseded
from gonogo.store import Store, Tx
from gonogo.store.sessions import add_turn, move_turn, session_of, take_turn, turn_of


@pytest.fixture
def kind() -> str:
    return "sqlite"


def begun(tx: Tx) -> Turn:
    rows.begin(tx)
    queued = add_turn(tx, "t1", "s1", "Hi", "ask")
    return take_turn(tx, queued, TurnStatus.RUNNING)


async def test_who_held_a_turn_before_is_fenced_although_it_still_runs(store: Store) -> None:
    before = await store.write(begun)
    await store.write(check, before)
    now = await store.write(take_turn, before, TurnStatus.RUNNING)

    with pytest.raises(Superseded, match="t1 is no longer ours"):
        await store.write(check, before)
    with pytest.raises(Superseded, match="t1 is no longer ours"):
        await store.write(move, before, TurnStatus.DONE)
    await store.write(check, now)
    assert (await store.read(turn_of, "t1")).status is TurnStatus.RUNNING


@pytest.mark.parametrize("status", [TurnStatus.PARKED, TurnStatus.DONE])
async def test_a_turn_that_does_not_run_is_nobodys(store: Store, status: TurnStatus) -> None:
    held = await store.write(begun)
    await store.write(move_turn, held, status)

    with pytest.raises(Superseded):
        await store.write(check, held)


async def test_a_job_that_another_has_overtaken_asks_no_model(tmp_path: Path) -> None:
    async with world_of(tmp_path, {"main/ask": [says("one"), says("two")]}) as world:
        [*_, last] = await world.say("Go", "ask")
        parts = world.runtime.parts
        turn = await parts.store.read(turn_of, last["turn_id"])
        found = await parts.store.read(session_of, world.session), turn, [], None

        await parts.turns.job(Job("turn", turn.id, turn.epoch, found=found))

        assert len(world.model.asked("main")) == 1


async def test_what_fails_one_who_was_replaced_fails_no_turn(tmp_path: Path) -> None:
    def replaced(request: ModelRequest) -> None:
        with sqlite3.connect(tmp_path / "home" / "gonogo.db") as taken:
            taken.execute("UPDATE turns SET epoch = epoch + 1")
        taken.close()
        raise ModelFailed("away")

    async with world_of(tmp_path, {"main/ask": [replaced, says("again")]}) as world:
        receipt = await world.send({"type": "user_message", "content": "Hi", "agent_type": "ask"})
        await world.asked_model("main")
        await world.idle()

        assert of(await world.log(), "error") == []
        turn = await world.runtime.parts.store.read(turn_of, receipt.turn_id)
        assert turn.status is TurnStatus.RUNNING


async def test_each_message_has_the_whole_limit_of_steps_again(tmp_path: Path) -> None:
    lines = {"main/ask": [calls(call("list_files")), says("one"), calls(call("list_files")),
                          says("two")]}  # fmt: skip
    async with world_of(tmp_path, lines, max_steps=2) as world:
        said = [(await world.say("Look", "ask"))[-1]["content"] for _ in range(2)]

        assert said == ["one", "two"]


async def test_what_a_model_says_is_kept_with_the_turn_that_it_belongs_to(tmp_path: Path) -> None:
    async with world_of(tmp_path, {"main/ask": [says("one")]}) as world:
        receipt = await world.send({"type": "user_message", "content": "Hi", "agent_type": "ask"})
        await world.answer(receipt)
        with sqlite3.connect(tmp_path / "home" / "gonogo.db") as database:
            kept = database.execute("SELECT turn_id FROM messages").fetchall()
        database.close()

    assert kept == [(receipt.turn_id,), (receipt.turn_id,)]
