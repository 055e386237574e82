"""Limits on what runs at once: one agent's share, and the room of a workspace that several plans
share. Nobody waits for ever, and no plan keeps a workspace to itself."""

from collections import Counter

import anyio
import pytest

from fakes.workshop import Step, Workshop, parks_once
from gonogo.domain.errors import InvalidMessage
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.scheduling import Completed, Outcome, Work
from gonogo.store import Store

_S = SubtaskStatus


def counts(most: Counter[str], key: str) -> Step:
    """A step that keeps in `most[key]` how many of its kind ran at once."""
    going = Counter[str]()

    async def step(work: Work) -> Outcome:
        going[key] += 1
        most[key] = max(most[key], going[key])
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        going[key] -= 1
        return Completed()

    return step


def held(gate: anyio.Event) -> Step:
    async def step(work: Work) -> Outcome:
        with anyio.fail_after(60):
            await gate.wait()
        return Completed()

    return step


async def test_one_agent_carries_out_no_more_subtasks_than_its_limit(store: Store) -> None:
    shop = Workshop(store=store, options={"max_per_agent": 1})
    most = Counter[str]()
    coder, debug = counts(most, "coder"), counts(most, "debug")
    async with shop.open():
        shop.steps |= {"a": coder, "b": coder, "c": coder, "d": debug}
        plan_id = await shop.carry_out(
            {"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d", "agent": "debug"}, parallel=4
        )

        assert (await shop.plan(plan_id)).status == PlanStatus.COMPLETED
    assert most["coder"] == 1


async def test_the_plans_of_a_workspace_share_its_room_and_all_come_to_their_end(
    store: Store,
) -> None:
    shop = Workshop(store=store, options={"max_per_workspace": 2})
    most = Counter[str]()
    names = [f"s{n}" for n in range(4)]
    async with shop.open():
        shop.steps |= dict.fromkeys(names, counts(most, "all"))
        plans = [await shop.start(*({"id": name} for name in names)) for _ in range(3)]
        for plan_id in plans:
            await shop.end_of(plan_id)
            assert (await shop.plan(plan_id)).status == PlanStatus.COMPLETED
    assert 1 <= most["all"] <= 2


@pytest.mark.each_database
async def test_plans_that_start_at_the_same_moment_take_no_more_room_than_there_is(
    store: Store,
) -> None:
    shop = Workshop(store=store, options={"max_per_workspace": 1})
    async with shop.open():
        plans = [await shop.approved({"id": "a"}, {"id": "b"}) for _ in range(4)]
        async with anyio.create_task_group() as group:
            for plan_id in plans:
                group.start_soon(shop.do, shop.engine.controls.start, plan_id)
        for plan_id in plans:
            await shop.end_of(plan_id)
    assert shop.most == 1


async def test_a_plan_does_not_keep_a_full_workspace_to_itself(store: Store) -> None:
    shop = Workshop(store=store, options={"max_per_workspace": 1})
    gate = anyio.Event()
    async with shop.open():
        shop.steps["a0"] = held(gate)
        first = await shop.start(*({"id": f"a{n}"} for n in range(5)))
        await shop.until_run("a0")
        second = await shop.start({"id": "b"})
        gate.set()
        await shop.end_of(first)
        await shop.end_of(second)
    assert shop.runs.index("b") < shop.runs.index("a4")


@pytest.mark.parametrize("verb", ["cancel", "park", "pause"])
async def test_room_that_a_plan_gives_up_goes_to_one_that_waits(store: Store, verb: str) -> None:
    shop = Workshop(store=store, options={"max_per_workspace": 1})
    gate = anyio.Event()
    async with shop.open():
        parks = parks_once(shop)

        async def first(work: Work) -> Outcome:
            await held(gate)(work)
            return await parks(work) if verb == "park" else Completed()

        shop.steps["a"] = first
        plan_id = await shop.start({"id": "a"}, {"id": "rest", "dependencies": ["a"]})
        await shop.until_run("a")
        other = await shop.start({"id": "b"})
        assert await shop.statuses(other) == {"b": _S.PENDING}
        if verb != "park":
            await shop.do(
                getattr(shop.engine.controls, verb if verb == "pause" else "cancel"), plan_id
            )
        gate.set()
        await shop.end_of(other)
        assert (await shop.plan(other)).status == PlanStatus.COMPLETED


async def test_a_plan_that_waits_for_room_goes_on_after_a_restart(store: Store) -> None:
    shop = Workshop(store=store, options={"max_per_workspace": 1})
    shop.steps["a"] = held(anyio.Event())
    async with shop.open():
        first = await shop.start({"id": "a"})
        await shop.until_run("a")
        second = await shop.start({"id": "b"})
    shop.steps.clear()
    async with shop.open():
        await shop.end_of(first)
        await shop.end_of(second)
    assert (await shop.plan(second)).status == PlanStatus.COMPLETED


async def test_the_longest_chain_starts_first(store: Store) -> None:
    shop = Workshop(store=store)
    async with shop.open():
        await shop.carry_out(
            {"id": "short", "estimated_time": "1 min"}, {"id": "long", "estimated_time": "9 min"},
            parallel=1,
        )  # fmt: skip
    assert shop.runs == ["long", "short"]


@pytest.mark.parametrize("broken", [lambda ready, outlook: 1 / 0, lambda ready, outlook: [[], {}]])
async def test_a_strategy_that_fails_leaves_plan_order(
    store: Store, broken: object, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Workshop(store=store, options={"strategies": {"own": broken}, "strategy": "own"})
    async with shop.open():
        await shop.carry_out({"id": "a"}, {"id": "b"}, parallel=1)
    assert shop.runs == ["a", "b"]
    assert "own" in caplog.text


def test_an_unknown_strategy_is_refused_with_the_list_of_those_there_are(store: Store) -> None:
    with pytest.raises(InvalidMessage, match="'fast'; use one of critical_path, plan_order"):
        Workshop(store=store, options={"strategy": "fast"})
