"""Time: a subtask's limit counts its work and not its waiting, a plan's limit ends it, and a quota
that is used up pauses a plan until it is there again, at the cost of no attempt."""

from datetime import timedelta

import anyio
import pytest

from fakes import rows
from fakes.rows import at
from fakes.workshop import Step, Workshop, agrees, parks_once
from gonogo.domain.errors import Conflict, ModelFailed
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.scheduling import Completed, Outcome, Work
from gonogo.execution.scheduling.plan_state import PlanState
from gonogo.store import Store, Tx
from gonogo.store.jobs import drop_timer, due_timers
from gonogo.store.plans import add_revision, move_plan, plan_of

_P, _S = PlanStatus, SubtaskStatus
HOUR = 3_600.0


async def hangs(work: Work) -> Outcome:
    await anyio.sleep_forever()
    raise AssertionError


def quota(shop: Workshop, times: int = 1, after: float = HOUR) -> Step:
    """A step whose model answers 429 so many times, and then does its work."""
    asked: dict[str, int] = {}

    async def step(work: Work) -> Outcome:
        asked[work.subtask.id] = asked.get(work.subtask.id, 0) + 1
        if asked[work.subtask.id] <= times:
            raise ModelFailed("slow down", http_status=429, retry_after=after, transient=True)
        return Completed({"output": work.subtask.id})

    return step


async def timers_of(shop: Workshop, plan_id: str) -> list[str]:
    found = await shop.store.read(at(shop.now + timedelta(days=400), due_timers))
    return [timer.kind for timer in found if timer.key == plan_id]


async def told(shop: Workshop, plan_id: str, *kinds: str) -> list[dict]:
    return [event for event in await shop.events(plan_id) if event["type"] in kinds]


# Time limits ------------------------------------------------------------------------------------


async def test_the_limit_of_a_subtask_counts_work_before_a_question_and_not_the_waiting(
    open_shop: Workshop,
) -> None:
    parks = parks_once(open_shop)

    async def works_then_asks(work: Work) -> Outcome:
        if open_shop.runs.count("a") > 1:
            return await hangs(work)
        open_shop.now += timedelta(seconds=99.9)
        return await parks(work)

    open_shop.steps["a"] = works_then_asks
    plan_id = await open_shop.start({"id": "a", "timeout": 100})
    await open_shop.until(plan_id, "a", _S.WAITING_APPROVAL)
    assert (await open_shop.rows(plan_id))["a"].worked_ms == 99_900
    open_shop.now += timedelta(days=3)
    await open_shop.store.write(
        open_shop.engine.work.resume, (await open_shop.rows(plan_id))["a"].key
    )
    await open_shop.end_of(plan_id)

    row = (await open_shop.rows(plan_id))["a"]
    assert (row.status, row.attempt) == (_S.FAILED, 1)
    assert row.error is not None
    assert row.error["category"] == "timeout"


async def test_a_clock_that_is_set_while_a_question_is_asked_takes_no_time_of_a_subtask(
    open_shop: Workshop,
) -> None:
    parks = parks_once(open_shop)

    async def asks(work: Work) -> Outcome:
        open_shop.now += timedelta(seconds=4)
        open_shop.ahead += timedelta(hours=2)
        return await parks(work)

    open_shop.steps["a"] = asks
    plan_id = await open_shop.start({"id": "a", "timeout": 10})
    await open_shop.until(plan_id, "a", _S.WAITING_APPROVAL)
    row = (await open_shop.rows(plan_id))["a"]
    assert row.worked_ms == 4_000
    open_shop.ahead -= timedelta(days=2)
    await open_shop.store.write(open_shop.engine.work.resume, row.key)
    await open_shop.end_of(plan_id)

    assert (await open_shop.statuses(plan_id)) == {"a": _S.COMPLETED}


async def test_a_new_attempt_has_the_whole_time_again(open_shop: Workshop) -> None:
    parks = parks_once(open_shop)

    async def asks_then_breaks(work: Work) -> Outcome:
        match open_shop.runs.count("a"):
            case 1:
                open_shop.now += timedelta(seconds=90)
                return await parks(work)
            case 2:
                raise ModelFailed("away", transient=True)
            case _:
                return Completed()

    open_shop.steps["a"] = asks_then_breaks
    policy = {"max_attempts": 2, "delay": 10}
    plan_id = await open_shop.start({"id": "a", "timeout": 100, "retry_policy": policy})
    await open_shop.until(plan_id, "a", _S.WAITING_APPROVAL)
    await open_shop.store.write(
        open_shop.engine.work.resume, (await open_shop.rows(plan_id))["a"].key
    )
    await open_shop.until_run("a", 2)
    await open_shop.until(plan_id, "a", _S.PENDING)
    await open_shop.later(10)
    await open_shop.end_of(plan_id)

    row = (await open_shop.rows(plan_id))["a"]
    assert (row.status, row.attempt) == (_S.COMPLETED, 2)
    assert row.active_since == open_shop.now


@pytest.mark.feature(60)
async def test_when_a_plans_time_is_over_what_runs_fails_and_the_rest_is_skipped(
    store: Store,
) -> None:
    shop = Workshop(store=store, options={"plan_timeout": 600.0})
    async with shop.open():
        shop.steps |= {"b": hangs, "c": parks_once(shop)}
        plan_id = await shop.start(
            {"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d", "dependencies": ["b"]}
        )
        await shop.until(plan_id, "a", _S.COMPLETED)
        await shop.until(plan_id, "c", _S.WAITING_APPROVAL)
        await shop.until_run("b")
        await shop.later(599)
        assert (await shop.plan(plan_id)).status == PlanStatus.RUNNING
        await shop.later(1)
        await shop.end_of(plan_id)

        rows = await shop.rows(plan_id)
        assert {key: row.status for key, row in rows.items()} == {
            "a": _S.COMPLETED, "b": _S.FAILED, "c": _S.SKIPPED, "d": _S.SKIPPED,
        }  # fmt: skip
        assert rows["b"].error is not None
        assert rows["b"].error["category"] == "timeout"
        assert (await shop.plan(plan_id)).status == PlanStatus.PARTIAL
        assert await agrees(shop, plan_id)
        events = await told(shop, plan_id, "subtask_failed", "subtask_skipped")
        said = "The plan's time limit of 600 s is over"
        assert {e["subtask_id"]: e["metadata"].get("reason") for e in events} == {
            "b": None, "c": said, "d": said,
        }  # fmt: skip
        assert events[0]["metadata"]["error"]["message"] == said
        assert shop.going == 0


async def test_a_plans_time_goes_on_while_the_runtime_is_down(store: Store) -> None:
    shop = Workshop(store=store, options={"plan_timeout": 600.0}, steps={"a": hangs})
    async with shop.open():
        plan_id = await shop.start({"id": "a"})
        await shop.until_run("a")
    shop.now += timedelta(hours=1)
    async with shop.open():
        await shop.end_of(plan_id)
    assert (await shop.plan(plan_id)).status == PlanStatus.FAILED


async def test_a_plan_that_ended_in_time_leaves_no_timer(store: Store) -> None:
    shop = Workshop(store=store, options={"plan_timeout": 600.0})
    async with shop.open():
        plan_id = await shop.carry_out({"id": "a"})
        assert await timers_of(shop, plan_id) == []


# Quotas -----------------------------------------------------------------------------------------


@pytest.mark.feature(214)
async def test_a_quota_pauses_the_plan_until_its_reset_and_counts_no_attempt(
    open_shop: Workshop,
) -> None:
    open_shop.steps["a"] = quota(open_shop)
    plan_id = await open_shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]})
    plan = await open_shop.until_paused(plan_id)
    reset = open_shop.now + timedelta(hours=1)
    assert (plan.pause_reason, plan.paused_until) == ("quota", reset)
    row = (await open_shop.rows(plan_id))["a"]
    assert (row.status, row.attempt, row.not_before) == (_S.PENDING, 1, None)
    await open_shop.later(HOUR - 1)
    assert (await open_shop.plan(plan_id)).status == PlanStatus.PAUSED
    await open_shop.later(1)
    await open_shop.end_of(plan_id)

    plan = await open_shop.plan(plan_id)
    assert (plan.status, plan.pause_reason, plan.paused_until) == (PlanStatus.COMPLETED, None, None)
    assert (await open_shop.rows(plan_id))["a"].attempt == 1
    assert open_shop.drops == set()
    _, paused, resumed = await told(open_shop, plan_id, "plan_paused", "plan_resumed")
    assert paused["metadata"]["reason"] == "quota"
    assert paused["metadata"]["until"].startswith(f"{reset:%Y-%m-%dT%H:%M:%S}")
    assert not paused.get("is_final")
    assert "The plan resumes automatically" in paused["content"]
    assert resumed["metadata"]["by"] == "gonogo"
    assert await told(open_shop, plan_id, "subtask_failed", "subtask_retrying", "error") == []


@pytest.mark.feature(214)
async def test_siblings_share_the_pause_and_what_runs_may_finish(open_shop: Workshop) -> None:
    gate = anyio.Event()

    async def runs_on(work: Work) -> Outcome:
        await gate.wait()
        return Completed()

    step = quota(open_shop)
    open_shop.steps |= {"a": step, "b": step, "c": runs_on, "d": step}
    plan_id = await open_shop.start(
        {"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d", "dependencies": ["c"]}
    )
    await open_shop.until_paused(plan_id)
    await open_shop.until(plan_id, "b", _S.PENDING)
    gate.set()
    await open_shop.until(plan_id, "c", _S.COMPLETED)
    assert "d" not in open_shop.runs
    assert len(await told(open_shop, plan_id, "plan_paused")) == 1
    await open_shop.later(HOUR)
    await open_shop.until_run("d")
    await open_shop.until_paused(plan_id)
    await open_shop.later(HOUR)
    await open_shop.end_of(plan_id)

    assert (await open_shop.plan(plan_id)).status == PlanStatus.COMPLETED


@pytest.mark.feature(214)
async def test_the_pause_for_a_quota_holds_over_a_restart(shop: Workshop) -> None:
    shop.steps["a"] = quota(shop)
    async with shop.open():
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
    async with shop.open():
        assert shop.runs == ["a"]
        await shop.later(HOUR)
        await shop.end_of(plan_id)
    assert (await shop.plan(plan_id)).status == PlanStatus.COMPLETED


async def test_a_reset_that_passed_while_the_runtime_was_down_is_noticed_at_its_start(
    shop: Workshop,
) -> None:
    shop.steps["a"] = quota(shop)
    async with shop.open():
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
    shop.now += timedelta(hours=2)
    async with shop.open():
        await shop.end_of(plan_id)


async def test_a_person_may_go_on_earlier(open_shop: Workshop) -> None:
    open_shop.steps["a"] = quota(open_shop)
    plan_id = await open_shop.start({"id": "a"})
    await open_shop.until_paused(plan_id)
    await open_shop.do(open_shop.engine.controls.resume_plan, plan_id)
    await open_shop.end_of(plan_id)

    assert await timers_of(open_shop, plan_id) == []


async def test_replanning_ends_the_pause_for_a_quota_and_leaves_no_timer(
    open_shop: Workshop,
) -> None:
    open_shop.steps["a"] = quota(open_shop)
    plan_id = await open_shop.start({"id": "a"})
    await open_shop.until_paused(plan_id)
    await open_shop.do(open_shop.engine.controls.replan, plan_id, "another way")

    plan = await open_shop.plan(plan_id)
    assert (plan.status, plan.pause_reason) == (PlanStatus.REPLANNING, None)
    assert "plan_resume" not in await timers_of(open_shop, plan_id)


async def test_a_persons_pause_is_never_lifted_by_the_quotas_timer(open_shop: Workshop) -> None:
    open_shop.steps["a"] = quota(open_shop)
    plan_id = await open_shop.start({"id": "a"})
    await open_shop.until_paused(plan_id)
    await open_shop.do(open_shop.engine.controls.pause, plan_id)
    await open_shop.later(2 * HOUR)
    await open_shop.store.write(open_shop.engine.pauses.wake, plan_id)

    plan = await open_shop.plan(plan_id)
    assert (plan.status, plan.pause_reason) == (PlanStatus.PAUSED, None)
    assert open_shop.runs == ["a"]


async def test_a_quota_met_during_a_persons_pause_leaves_it_the_persons(
    open_shop: Workshop,
) -> None:
    gate = anyio.Event()

    async def later_quota(work: Work) -> Outcome:
        await gate.wait()
        raise ModelFailed("slow down", http_status=429, retry_after=HOUR)

    open_shop.steps["a"] = later_quota
    plan_id = await open_shop.start({"id": "a"})
    await open_shop.until_run("a")
    await open_shop.do(open_shop.engine.controls.pause, plan_id)
    gate.set()
    await open_shop.until(plan_id, "a", _S.PENDING)

    plan = await open_shop.plan(plan_id)
    assert (plan.status, plan.pause_reason, plan.paused_until) == (PlanStatus.PAUSED, None, None)


@pytest.mark.parametrize("after", [None, 0.0, float("inf"), float("nan")])
async def test_a_429_without_a_reset_takes_the_way_of_every_failure(
    open_shop: Workshop, after: float | None
) -> None:
    async def refused(work: Work) -> Outcome:
        raise ModelFailed("slow down", http_status=429, retry_after=after, transient=True)

    open_shop.steps["a"] = refused
    plan_id = await open_shop.carry_out({"id": "a"})

    row = (await open_shop.rows(plan_id))["a"]
    assert row.error is not None
    assert (row.status, row.error["category"]) == (_S.FAILED, "quota")


async def test_a_plan_whose_time_is_over_ends_in_its_pause_too(store: Store) -> None:
    shop = Workshop(store=store, options={"plan_timeout": 600.0})
    async with shop.open():
        shop.steps["a"] = quota(shop)
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
        await shop.later(600)
        await shop.end_of(plan_id)
        assert (await shop.plan(plan_id)).status == PlanStatus.FAILED
        assert await timers_of(shop, plan_id) == []


async def test_a_plan_that_is_replanned_in_a_pause_for_a_quota_can_be_paused_again(
    open_shop: Workshop,
) -> None:
    open_shop.steps |= {"a": quota(open_shop), "runs": hangs}
    plan_id = await open_shop.start({"id": "runs"}, {"id": "a"})
    await open_shop.until_run("runs")
    await open_shop.until_paused(plan_id)

    def replan_in_vain(tx: Tx) -> None:
        open_shop.engine.controls.replan(tx, plan_id, "another way", "ann")
        plan = plan_of(tx, plan_id)
        assert plan is not None
        assert (plan.pause_reason, plan.paused_until) == (None, None)
        open_shop.engine.controls.go_without(tx, plan_id, "there is none")
        open_shop.engine.controls.pause(tx, plan_id, "ann")

    await open_shop.store.write(replan_in_vain)

    assert (await open_shop.plan(plan_id)).status is PlanStatus.PAUSED
    assert await timers_of(open_shop, plan_id) == []


async def test_a_paused_plan_of_which_all_is_done_is_completed_when_its_time_is_over(
    store: Store,
) -> None:
    shop = Workshop(store=store, options={"plan_timeout": 600.0})
    go = anyio.Event()

    async def waits(work: Work) -> Outcome:
        await go.wait()
        return Completed()

    async with shop.open():
        shop.steps["a"] = waits
        plan_id = await shop.start({"id": "a"})
        await shop.do(shop.engine.controls.pause, plan_id)
        go.set()
        await shop.until(plan_id, "a", _S.COMPLETED)
        await shop.later(600)
        await shop.end_of(plan_id)
        assert (await shop.plan(plan_id)).status is PlanStatus.COMPLETED
        assert await timers_of(shop, plan_id) == []


async def test_a_plan_whose_next_revision_is_held_ends_when_its_time_is_over(store: Store) -> None:
    shop = Workshop(store=store, options={"plan_timeout": 600.0})

    def hold_another(tx: Tx, plan_id: str) -> None:
        revision = rows.revision(rows.subtask("b"), plan_id=plan_id, number=2)
        add_revision(tx, revision, "architect", "replanned")
        to = {"revision": 2, "digest": revision.digest}
        for status in (_P.RUNNING, _P.REPLANNING, _P.AWAITING_APPROVAL, _P.APPROVED):
            plan = plan_of(tx, plan_id)
            assert plan is not None
            proposed = to if status is _P.AWAITING_APPROVAL else {}
            assert move_plan(tx, plan, status, **proposed)

    async with shop.open():
        shop.steps["a"] = quota(shop)
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
        await shop.store.write(hold_another, plan_id)
        await shop.later(600)
        await shop.end_of(plan_id)
        assert (await shop.plan(plan_id)).status is PlanStatus.FAILED
        assert await shop.statuses(plan_id) == {"b": _S.SKIPPED}


async def test_a_sibling_that_is_told_of_a_later_reset_makes_the_pause_longer(
    open_shop: Workshop,
) -> None:
    gate = anyio.Event()

    async def later_quota(work: Work) -> Outcome:
        await gate.wait()
        raise ModelFailed("slow down", http_status=429, retry_after=2 * HOUR)

    open_shop.steps |= {"a": quota(open_shop), "b": later_quota}
    plan_id = await open_shop.start({"id": "a"}, {"id": "b"})
    first = await open_shop.until_paused(plan_id)
    gate.set()
    await open_shop.until(plan_id, "b", _S.PENDING)

    plan = await open_shop.plan(plan_id)
    assert plan.paused_until is not None
    assert first.paused_until is not None
    assert plan.paused_until - first.paused_until == timedelta(seconds=HOUR)
    # A timer that comes too early, as after a change of the clock, is set anew.
    await open_shop.store.write(drop_timer, "plan_resume", plan_id)
    await open_shop.store.write(at(first.paused_until, open_shop.engine.pauses.wake), plan_id)
    assert (await open_shop.plan(plan_id)).status is PlanStatus.PAUSED
    assert "plan_resume" in await timers_of(open_shop, plan_id)


async def test_resets_a_second_apart_are_one_pause(open_shop: Workshop) -> None:
    gate = anyio.Event()

    async def later_quota(work: Work) -> Outcome:
        await gate.wait()
        raise ModelFailed("slow down", http_status=429, retry_after=HOUR + 1)

    open_shop.steps |= {"a": quota(open_shop), "b": later_quota}
    plan_id = await open_shop.start({"id": "a"}, {"id": "b"})
    first = await open_shop.until_paused(plan_id)
    gate.set()
    await open_shop.until(plan_id, "b", _S.PENDING)

    assert (await open_shop.plan(plan_id)).paused_until == first.paused_until
    assert len(await told(open_shop, plan_id, "plan_paused")) == 1


async def test_a_longer_pause_is_not_written_over_what_happened_in_the_same_moment(
    open_shop: Workshop,
) -> None:
    open_shop.steps["a"] = quota(open_shop)
    plan_id = await open_shop.start({"id": "a"})
    plan = await open_shop.until_paused(plan_id)
    until = (plan.paused_until or open_shop.now) + timedelta(seconds=HOUR)

    def lengthen(tx: Tx) -> None:
        board = PlanState.open(tx, plan_id)
        assert move_plan(tx, board.plan, PlanStatus.RUNNING)
        open_shop.engine.pauses.pause_for_quota(board, until)

    with pytest.raises(Conflict, match="has just changed"):
        await open_shop.store.write(lengthen)
