"""The engine's rounds: a subtask starts when its dependencies are done and there is room for it,
what ends a subtask starts what follows, and a plan's status is what its subtasks say."""

import anyio
import pytest

from fakes.workshop import Workshop, agrees, done, parks_once
from gonogo.domain.failures import Category, Failure
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.scheduling import Completed, Failed, Outcome, Work

_S = SubtaskStatus


def meets(*others: str) -> tuple[dict[str, anyio.Event], object]:
    """A step that ends only once all of the others run too."""
    here = {name: anyio.Event() for name in others}

    async def step(work: Work) -> Outcome:
        here[work.subtask.id].set()
        with anyio.fail_after(60):
            for event in here.values():
                await event.wait()
        return Completed()

    return here, step


async def hangs(work: Work) -> Outcome:
    await anyio.sleep_forever()
    raise AssertionError


async def fails(work: Work) -> Outcome:
    return Failed(Failure(message="no", category=Category.LOGIC))


@pytest.mark.feature(51, 112)
async def test_subtasks_without_dependencies_run_at_the_same_time(open_shop: Workshop) -> None:
    _, step = meets("a", "b")
    open_shop.steps |= {"a": step, "b": step}

    plan_id = await open_shop.carry_out({"id": "a"}, {"id": "b"})

    assert (await open_shop.plan(plan_id)).status == PlanStatus.COMPLETED


@pytest.mark.feature(52, 112)
async def test_a_join_starts_only_after_both_of_its_parents(open_shop: Workshop) -> None:
    gate = anyio.Event()

    async def late(work: Work) -> Outcome:
        await gate.wait()
        return Completed()

    open_shop.steps["b"] = late
    plan_id = await open_shop.start(
        {"id": "a"}, {"id": "b"}, {"id": "join", "dependencies": ["a", "b"]}
    )
    await open_shop.until(plan_id, "a", _S.COMPLETED)
    assert "join" not in open_shop.runs
    gate.set()
    await open_shop.end_of(plan_id)

    assert open_shop.runs[-1] == "join"


async def test_a_subtask_starts_as_soon_as_its_own_dependencies_are_done(
    open_shop: Workshop,
) -> None:
    gate = anyio.Event()

    async def late(work: Work) -> Outcome:
        await gate.wait()
        return Completed()

    open_shop.steps["slow"] = late
    plan_id = await open_shop.start({"id": "slow"}, {"id": "a"}, {"id": "b", "dependencies": ["a"]})
    await open_shop.until(plan_id, "b", _S.COMPLETED)
    gate.set()
    await open_shop.end_of(plan_id)


@pytest.mark.feature(53, 112)
async def test_no_more_subtasks_run_at_once_than_the_limit(open_shop: Workshop) -> None:
    async def yields(work: Work) -> Outcome:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return Completed()

    names = ["a", "b", "c", "d", "e"]
    open_shop.steps |= dict.fromkeys(names, yields)

    await open_shop.carry_out(*({"id": name} for name in names), parallel=2)

    assert open_shop.most == 2
    assert open_shop.runs == names


async def test_a_parked_subtask_gives_its_place_to_another(open_shop: Workshop) -> None:
    open_shop.steps["asks"] = parks_once(open_shop)
    plan_id = await open_shop.start({"id": "asks"}, {"id": "b"}, parallel=1)
    await open_shop.until(plan_id, "b", _S.COMPLETED)

    assert (await open_shop.statuses(plan_id))["asks"] is _S.WAITING_APPROVAL
    assert (await open_shop.plan(plan_id)).status is PlanStatus.RUNNING
    key = (await open_shop.rows(plan_id))["asks"].key
    await open_shop.store.write(open_shop.engine.work.resume, key)
    await open_shop.end_of(plan_id)

    assert open_shop.runs == ["asks", "b", "asks"]
    assert (await open_shop.rows(plan_id))["asks"].attempt == 1
    started = [e for e in await open_shop.events(plan_id) if e["type"] == "subtask_started"]
    assert [event["subtask_id"] for event in started] == ["asks", "b"]


@pytest.mark.feature(59)
async def test_dependants_of_a_failed_subtask_are_skipped_and_independents_go_on(
    open_shop: Workshop,
) -> None:
    open_shop.steps["a"] = fails
    plan_id = await open_shop.carry_out(
        {"id": "a"}, {"id": "b", "dependencies": ["a"]}, {"id": "c", "dependencies": ["b"]},
        {"id": "free"},
    )  # fmt: skip

    assert await open_shop.statuses(plan_id) == {
        "a": _S.FAILED, "b": _S.SKIPPED, "c": _S.SKIPPED, "free": _S.COMPLETED,
    }  # fmt: skip
    assert (await open_shop.plan(plan_id)).status is PlanStatus.PARTIAL
    assert (await open_shop.rows(plan_id))["c"].reason == "b did not complete"
    assert set(open_shop.runs) == {"a", "free"}


@pytest.mark.feature(59)
async def test_a_plan_of_which_nothing_completed_has_failed(open_shop: Workshop) -> None:
    open_shop.steps["a"] = fails
    plan_id = await open_shop.carry_out({"id": "a"}, {"id": "b", "dependencies": ["a"]})

    assert (await open_shop.plan(plan_id)).status is PlanStatus.FAILED
    assert await agrees(open_shop, plan_id)


@pytest.mark.feature(56)
async def test_the_results_of_subtasks_and_their_errors_are_kept(open_shop: Workshop) -> None:
    open_shop.steps["a"] = fails
    plan_id = await open_shop.carry_out({"id": "a"}, {"id": "b"})
    rows = await open_shop.rows(plan_id)

    assert rows["b"].result == {"output": "b"}
    assert rows["a"].error == {"message": "no", "severity": "medium", "category": "logic"}
    assert all(row.finished_at is not None for row in rows.values())


@pytest.mark.feature(63)
async def test_progress_never_falls_and_ends_at_the_whole(open_shop: Workshop) -> None:
    open_shop.steps["c"] = fails
    plan_id = await open_shop.carry_out(
        {"id": "a"}, {"id": "b", "dependencies": ["a"]}, {"id": "c", "dependencies": ["b"]},
        {"id": "d", "dependencies": ["c"]},
    )  # fmt: skip
    told = [e["metadata"] for e in await open_shop.events(plan_id) if e["type"] == "plan_progress"]

    assert [facts["done"] for facts in told] == [1, 2, 4]
    assert [facts["percentage"] for facts in told] == [25.0, 50.0, 100.0]
    assert {facts["total"] for facts in told} == {4}


@pytest.mark.feature(63)
async def test_an_end_is_told_though_an_attempt_that_comes_with_it_is_none(
    open_shop: Workshop,
) -> None:
    open_shop.steps |= {"a": hangs, "b": hangs}
    again = {"max_attempts": 2, "delay": 60, "on": ["logic"]}
    plan_id = await open_shop.start({"id": "a"}, {"id": "b", "retry_policy": again}, {"id": "c"})
    await open_shop.until(plan_id, "c", _S.COMPLETED)
    for each in "ab":
        await open_shop.until_run(each)
    works = [await open_shop.held(plan_id, each) for each in "ab"]
    outcomes = [Completed({}), await fails(works[1])]
    await open_shop.store.write(open_shop.engine.work.finish, [*zip(works, outcomes, strict=True)])

    told = [e["metadata"] for e in await open_shop.events(plan_id) if e["type"] == "plan_progress"]
    assert [facts["done"] for facts in told] == [1, 2]
    assert (await open_shop.statuses(plan_id))["b"] is _S.PENDING


async def test_an_event_tells_of_each_start_and_each_end_in_order(open_shop: Workshop) -> None:
    plan_id = await open_shop.carry_out({"id": "a"}, {"id": "b", "dependencies": ["a"]})
    told = [
        (event["type"], event.get("subtask_id"))
        for event in await open_shop.events(plan_id)
        if event["type"].startswith("subtask_")
    ]

    assert told == [
        ("subtask_started", "a"), ("subtask_completed", "a"),
        ("subtask_started", "b"), ("subtask_completed", "b"),
    ]  # fmt: skip


async def test_an_end_and_the_start_of_what_follows_are_one_transaction(
    open_shop: Workshop,
) -> None:
    boxes: list[list[str]] = []
    deliver = open_shop.store.deliver

    def watched(box):
        boxes.append([body["type"] for body in box.events])
        deliver(box)

    open_shop.store.deliver = watched
    await open_shop.carry_out({"id": "a"}, {"id": "b", "dependencies": ["a"]})

    assert [
        "subtask_completed", "plan_progress", "checkpoint_created", "agent_switched",
        "subtask_started",
    ] in boxes  # fmt: skip


async def test_many_that_end_together_are_one_transaction_and_none_is_lost(
    open_shop: Workshop,
) -> None:
    names = [f"s{n}" for n in range(30)]
    _, step = meets(*names)
    open_shop.steps |= dict.fromkeys(names, step)
    boxes: list[int] = []
    deliver = open_shop.store.deliver

    def watched(box):
        boxes.append(sum(body["type"] == "subtask_completed" for body in box.events))
        deliver(box)

    open_shop.store.deliver = watched
    plan_id = await open_shop.carry_out(*({"id": name} for name in names), parallel=30)

    assert sum(boxes) == 30
    assert max(boxes) > 1
    assert set((await open_shop.statuses(plan_id)).values()) == {_S.COMPLETED}


async def test_what_cannot_be_written_for_one_subtask_harms_no_other(open_shop: Workshop) -> None:
    names = ["a", "b", "c"]
    _, meet = meets(*names)

    def breaks(tx) -> None:
        raise RuntimeError("this one's own")

    async def bad(work: Work) -> Outcome:
        await meet(work)
        return Completed(also=breaks)

    open_shop.steps |= {"a": meet, "b": bad, "c": meet}
    plan_id = await open_shop.start(*({"id": name} for name in names))
    await open_shop.until(plan_id, "a", _S.COMPLETED)
    await open_shop.until(plan_id, "c", _S.COMPLETED)

    assert (await open_shop.statuses(plan_id))["b"] is _S.RUNNING


async def test_an_error_of_a_runner_fails_its_subtask_alone(
    open_shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    async def raises(work: Work) -> Outcome:
        raise RuntimeError("a bug")

    open_shop.steps["a"] = raises
    plan_id = await open_shop.carry_out({"id": "a"}, {"id": "b"})

    assert await open_shop.statuses(plan_id) == {"a": _S.FAILED, "b": _S.COMPLETED}
    error = next(e for e in await open_shop.events(plan_id) if e["type"] == "error")
    assert (error["subtask_id"], error["code"]) == ("a", "internal")
    assert "a bug" in caplog.text


@pytest.mark.parametrize("parallel", [1, 3])
async def test_the_status_of_a_plan_is_what_its_subtasks_say(
    open_shop: Workshop, parallel: int
) -> None:
    open_shop.steps |= {"b": fails, "c": done}
    plan_id = await open_shop.carry_out(
        {"id": "a"}, {"id": "b"}, {"id": "c", "dependencies": ["a"]},
        {"id": "d", "dependencies": ["b", "c"]}, parallel=parallel,
    )  # fmt: skip

    assert await agrees(open_shop, plan_id)
