"""Budgets of plans: a limit that is reached pauses the plan with one question, at a place where
nothing is lost; more of it goes on there, none ends the plan."""

from datetime import timedelta
from typing import Any

import anyio
import pytest

from fakes.workshop import Questions, Step, Workshop, agrees, key_of, parks_once
from gonogo.domain.errors import Conflict, ModelFailed
from gonogo.domain.replanning import BudgetSpent, Excess
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.scheduling import ROLLING_BACK, Completed, Outcome, Work
from gonogo.store import Store
from gonogo.store.plans import plan_of, set_plan

_S = SubtaskStatus


def shop_of(store: Store, asked: list[Excess], **limits: float) -> Workshop:
    """A workshop with a budget; each question about it is put in `asked`."""

    questions = Questions()
    questions.budgets = asked
    return Workshop(store=store, options={"budget": limits, "questions": questions})


def spends(limit: dict[str, int], meet: int = 1) -> Step:
    """A step whose request is refused until the limit is raised, once so many have met."""
    here = 0
    all_here = anyio.Event()

    async def step(work: Work) -> Outcome:
        nonlocal here
        here += 1
        if here >= meet:
            all_here.set()
        with anyio.fail_after(60):
            await all_here.wait()
        if limit["tokens"] < 200:
            raise BudgetSpent("spent", Excess(what="tokens", used=90, limit=100))
        return Completed()

    return step


async def extend(shop: Workshop, plan_id: str, **limits: float) -> None:
    await shop.store.write(shop.engine.pauses.extend, plan_id, limits, "ann")


@pytest.mark.feature(213)
async def test_a_spent_budget_pauses_the_plan_and_asks_once_however_many_are_refused(
    store: Store,
) -> None:
    asked: list[Excess] = []
    shop, limit = shop_of(store, asked, tokens=100), {"tokens": 100}
    async with shop.open():
        shop.steps |= dict.fromkeys("abc", spends(limit, meet=3))
        plan_id = await shop.start({"id": "a"}, {"id": "b"}, {"id": "c"})
        plan = await shop.until_paused(plan_id)
        for key in "abc":
            await shop.until(plan_id, key, _S.PENDING)
        assert (plan.pause_reason, plan.paused_until) == ("budget", None)
        assert {row.attempt for row in (await shop.rows(plan_id)).values()} == {1}
        assert {spent.what for spent in asked} == {"tokens"}
        paused = [e for e in await shop.events(plan_id) if e["type"] == "plan_paused"]
        assert [e["metadata"]["reason"] for e in paused] == ["budget"]
        with pytest.raises(Conflict, match="budget"):
            await shop.do(shop.engine.controls.resume_plan, plan_id)

        limit["tokens"] = 200
        await extend(shop, plan_id, tokens=200)
        await shop.end_of(plan_id)
        plan = await shop.plan(plan_id)
        assert plan.status == PlanStatus.COMPLETED
        assert plan.budget == {"limits": {"tokens": 200}}


async def test_a_plan_that_gets_no_more_ends_and_says_why(store: Store) -> None:
    asked: list[Excess] = []
    shop, limit = shop_of(store, asked, tokens=100), {"tokens": 100}
    gate = anyio.Event()

    async def runs_on(work: Work) -> Outcome:
        await gate.wait()
        return Completed()

    async with shop.open():
        shop.steps |= {"b": spends(limit), "c": runs_on}
        plan_id = await shop.start(
            {"id": "a"}, {"id": "b", "dependencies": ["a"]}, {"id": "c", "dependencies": ["a"]},
            {"id": "d", "dependencies": ["b"]},
        )  # fmt: skip
        await shop.until_paused(plan_id)
        await shop.store.write(shop.engine.pauses.give_up, plan_id, "no more")
        await shop.end_of(plan_id)

        rows = await shop.rows(plan_id)
        assert {key: (row.status, row.reason) for key, row in rows.items()} == {
            "a": (_S.COMPLETED, None), "b": (_S.SKIPPED, "no more"),
            "c": (_S.CANCELLED, "no more"), "d": (_S.SKIPPED, "no more"),
        }  # fmt: skip
        assert (await shop.plan(plan_id)).status == PlanStatus.PARTIAL
        assert await agrees(shop, plan_id)


async def test_a_plan_that_gets_no_more_ends_in_the_middle_of_a_rollback_too(store: Store) -> None:
    asked: list[Excess] = []
    shop, limit = shop_of(store, asked, tokens=100), {"tokens": 100}

    def pause_was(tx: Any, plan_id: str, pause: str | None) -> None:
        rollback = {"checkpoint_id": None, "subtask_id": "a", "pause": pause}
        set_plan(tx, plan_of(tx, plan_id), pause_reason=ROLLING_BACK, rollback=rollback)

    async with shop.open():
        shop.steps["b"] = spends(limit)
        plan_id = await shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]})
        await shop.until_paused(plan_id)
        await shop.store.write(pause_was, plan_id, None)
        with pytest.raises(Conflict, match="does not wait for this answer"):
            await shop.store.write(shop.engine.pauses.give_up, plan_id, "no more")
        await shop.store.write(pause_was, plan_id, "budget")
        with pytest.raises(Conflict, match="does not wait for this answer"):
            await extend(shop, plan_id, tokens=200)
        assert (await shop.plan(plan_id)).status == PlanStatus.PAUSED

        await shop.store.write(shop.engine.pauses.give_up, plan_id, "no more")
        await shop.end_of(plan_id)
        plan = await shop.plan(plan_id)
        assert (plan.status, plan.pause_reason) == (PlanStatus.PARTIAL, None)
        assert await agrees(shop, plan_id)


@pytest.mark.feature(213)
async def test_runs_of_subtasks_are_counted_with_retries_and_across_a_restart(
    store: Store,
) -> None:
    asked: list[Excess] = []
    shop = shop_of(store, asked, subtasks=3)

    async def second_time(work: Work) -> Outcome:
        if shop.runs.count("a") == 1:
            raise ModelFailed("away", transient=True)
        return Completed()

    async with shop.open():
        shop.steps["a"] = second_time
        policy = {"max_attempts": 2, "delay": 10}
        plan_id = await shop.start(
            {"id": "a", "retry_policy": policy}, {"id": "b", "dependencies": ["a"]},
            {"id": "c", "dependencies": ["b"]},
        )  # fmt: skip
        await shop.until(plan_id, "a", _S.PENDING)
    async with shop.open():
        await shop.later(10)
        await shop.until_paused(plan_id)
        assert shop.runs == ["a", "a", "b"]
        assert (asked[-1].what, asked[-1].used, asked[-1].limit) == ("subtasks", 3, 3)
        await extend(shop, plan_id, subtasks=4)
        await shop.end_of(plan_id)
    assert shop.runs == ["a", "a", "b", "c"]


async def test_a_subtask_that_goes_on_after_a_question_is_no_new_run(store: Store) -> None:
    asked: list[Excess] = []
    shop = shop_of(store, asked, subtasks=2)
    async with shop.open():
        shop.steps["a"] = parks_once(shop)
        plan_id = await shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]})
        await shop.until(plan_id, "a", _S.WAITING_APPROVAL)
        await shop.store.write(shop.engine.work.resume, key_of(plan_id, "a"))
        await shop.end_of(plan_id)

        assert shop.runs == ["a", "a", "b"]
        assert asked == []
        assert (await shop.plan(plan_id)).budget == {"runs": 2}


async def test_of_those_that_are_ready_as_many_start_as_the_budget_has_runs(store: Store) -> None:
    asked: list[Excess] = []
    shop = shop_of(store, asked, subtasks=2)
    async with shop.open():
        plan_id = await shop.start({"id": "a"}, {"id": "b"}, {"id": "c"})
        await shop.until(plan_id, "b", _S.COMPLETED)
        await shop.until(plan_id, "a", _S.COMPLETED)
        plan = await shop.until_paused(plan_id)
        assert plan.pause_reason == "budget"
        assert sorted(shop.runs) == ["a", "b"]


async def test_wall_time_is_looked_at_before_a_subtask_starts(store: Store) -> None:
    asked: list[Excess] = []
    shop = shop_of(store, asked, seconds=60)

    async def takes_long(work: Work) -> Outcome:
        shop.now += timedelta(seconds=61)
        return Completed()

    async with shop.open():
        shop.steps["a"] = takes_long
        plan_id = await shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]})
        await shop.until_paused(plan_id)
        assert shop.runs == ["a"]
        assert (asked[-1].what, asked[-1].used, asked[-1].limit) == ("seconds", 61, 60)
        await extend(shop, plan_id, seconds=120)
        await shop.end_of(plan_id)


async def test_a_budget_that_is_spent_during_a_quota_pause_asks_and_no_timer_ends_it(
    store: Store,
) -> None:
    asked: list[Excess] = []
    shop, limit = shop_of(store, asked, tokens=100), {"tokens": 100}
    gate = anyio.Event()

    async def quota(work: Work) -> Outcome:
        raise ModelFailed("slow down", http_status=429, retry_after=60)

    async def later(work: Work) -> Outcome:
        await gate.wait()
        return await spends(limit)(work)

    async with shop.open():
        shop.steps |= {"a": quota, "b": later}
        plan_id = await shop.start({"id": "a"}, {"id": "b"})
        assert (await shop.until_paused(plan_id)).pause_reason == "quota"
        gate.set()
        await shop.until(plan_id, "b", _S.PENDING)
        await shop.later(120)
        plan = await shop.plan(plan_id)
        assert (plan.status, plan.pause_reason) == (PlanStatus.PAUSED, "budget")
        assert asked


async def test_a_budget_that_is_spent_during_a_persons_pause_leaves_it_the_persons(
    store: Store,
) -> None:
    asked: list[Excess] = []
    shop, gate = shop_of(store, asked, tokens=100), anyio.Event()

    async def spends_later(work: Work) -> Outcome:
        await gate.wait()
        raise BudgetSpent("spent", Excess(what="tokens", used=90, limit=100))

    async with shop.open():
        shop.steps["a"] = spends_later
        plan_id = await shop.start({"id": "a"})
        await shop.until_run("a")
        await shop.do(shop.engine.controls.pause, plan_id)
        gate.set()
        await shop.until(plan_id, "a", _S.PENDING)

        plan = await shop.plan(plan_id)
        assert (plan.status, plan.pause_reason, asked) == (PlanStatus.PAUSED, None, [])


async def test_only_a_plan_that_waits_for_its_budget_gets_more_or_is_given_up(
    store: Store,
) -> None:
    async with (shop := shop_of(store, [], tokens=100)).open():
        plan_id = await shop.approved({"id": "a"})

        with pytest.raises(Conflict, match="does not wait for this answer"):
            await extend(shop, plan_id, tokens=200)
        with pytest.raises(Conflict, match="does not wait for this answer"):
            await shop.store.write(shop.engine.pauses.give_up, plan_id, "enough")


async def test_a_search_for_another_revision_that_spends_a_budget_asks_once_and_goes_on(
    store: Store,
) -> None:
    asked: list[Excess] = []
    shop = shop_of(store, asked, tokens=100)
    spent = Excess(what="tokens", used=90, limit=100)
    async with shop.open():
        gate = anyio.Event()

        async def waits(work: Work) -> Outcome:
            await gate.wait()
            return Completed()

        shop.steps["a"] = waits
        plan_id = await shop.start({"id": "a"})
        await shop.store.write(shop.engine.rounds.pause_search, plan_id, spent)
        assert asked == []
        await shop.do(shop.engine.controls.replan, plan_id, "think again")
        gate.set()
        await shop.until_searched()
        for _ in range(2):
            await shop.store.write(shop.engine.rounds.pause_search, plan_id, spent)
        plan = await shop.plan(plan_id)
        assert (plan.status, plan.pause_reason) == (PlanStatus.REPLANNING, "budget")
        assert asked == [spent]
        before = shop.searches
        await extend(shop, plan_id, tokens=200)
        await shop.until_searched(before + 1)
        assert (await shop.plan(plan_id)).pause_reason is None


@pytest.mark.feature(63, 213)
async def test_the_last_that_is_refused_without_a_word_ends_what_is_told_of_the_plan(
    store: Store,
) -> None:
    shop, gate = shop_of(store, [], tokens=100), anyio.Event()

    async def refused(work: Work) -> Outcome:
        if work.subtask.id == "b":
            await gate.wait()
        raise BudgetSpent("spent", Excess(what="tokens", used=90, limit=100))

    async with shop.open():
        shop.steps |= {"a": refused, "b": refused}
        plan_id = await shop.start({"id": "a"}, {"id": "b"})
        plan = await shop.until_paused(plan_id)
        # Of an earlier revision more had been told than is done now.
        await store.write(set_plan, plan, floor=500)
        told = len(await shop.events(plan_id))
        gate.set()
        await shop.until(plan_id, "b", _S.PENDING)

        [last] = (await shop.events(plan_id))[told:]
        assert (last["type"], last["is_final"]) == ("plan_progress", True)
        assert last["metadata"] == {"done": 0, "total": 2, "percentage": 50.0}
        # Nothing more is told of a plan that only rests.
        await store.write(shop.engine.rounds.advance, plan_id)
        assert len(await shop.events(plan_id)) == told + 1
