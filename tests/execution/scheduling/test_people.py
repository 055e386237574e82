"""What people do to plans: the verbs change what they name and leave the rest alone, and refuse,
naming the state, what it does not allow."""

from datetime import timedelta

import anyio
import pytest

from fakes import rows
from fakes.rows import at
from fakes.workshop import Workshop, parks_once
from gonogo.domain.errors import Conflict, IllegalTransition, NotFound
from gonogo.domain.failures import Category, Failure
from gonogo.domain.records import JobStop
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.plans import Retry
from gonogo.execution.scheduling import ADVANCE, REPLAN, Completed, Failed, Outcome, Work
from gonogo.store import Outbox, Store, Tx
from gonogo.store.jobs import due_timers
from gonogo.store.plans import (
    active_grant,
    add_grants,
    add_plan,
    add_revision,
    end_grant,
    grant_of,
    move_plan,
)
from gonogo.store.sessions import add_session, set_session

_S = SubtaskStatus


@pytest.fixture
def gate(open_shop: Workshop) -> anyio.Event:
    """Subtasks whose names begin with `slow` wait for this."""
    opened = anyio.Event()

    async def step(work: Work) -> Outcome:
        await opened.wait()
        return Completed()

    open_shop.steps |= {"slow": step, "slow2": step}
    return opened


@pytest.mark.feature(61)
async def test_cancelling_a_plan_stops_what_runs_and_ends_it(
    open_shop: Workshop, gate: anyio.Event
) -> None:
    plan_id = await open_shop.start({"id": "slow"}, {"id": "b", "dependencies": ["slow"]})
    await open_shop.until_run("slow")
    with anyio.fail_after(60):
        await open_shop.do(open_shop.engine.controls.cancel, plan_id)
        await open_shop.end_of(plan_id)
        while open_shop.going:
            await anyio.lowlevel.checkpoint()

    assert await open_shop.statuses(plan_id) == {"slow": _S.CANCELLED, "b": _S.CANCELLED}
    assert (await open_shop.plan(plan_id)).status is PlanStatus.CANCELLED
    assert (await open_shop.events(plan_id))[-1]["type"] == "plan_cancelled"
    assert (await open_shop.events(plan_id))[-1]["is_final"] is True
    assert {subtask for subtask, _ in open_shop.drops} == {"slow", "b"}


@pytest.mark.feature(69)
async def test_a_plan_that_is_over_cannot_be_cancelled(open_shop: Workshop) -> None:
    plan_id = await open_shop.carry_out({"id": "a"})
    before = await open_shop.plan(plan_id)

    with pytest.raises((Conflict, IllegalTransition), match="completed"):
        await open_shop.do(open_shop.engine.controls.cancel, plan_id)

    assert await open_shop.plan(plan_id) == before
    assert before.started_at is not None
    assert before.finished_at is not None


@pytest.mark.feature(89)
async def test_only_an_approved_plan_can_be_started(open_shop: Workshop) -> None:
    def undecided(tx: Tx) -> None:
        revision = rows.revision(rows.subtask("a"), plan_id="draft")
        add_session(tx, rows.session())
        add_plan(tx, rows.plan("draft", digest=revision.digest))
        add_revision(tx, revision, "architect", "first")

    await open_shop.store.write(undecided)

    with pytest.raises(Conflict, match="only an approved plan can be started"):
        await open_shop.do(open_shop.engine.controls.start, "draft")
    assert open_shop.runs == []


async def test_a_paused_plan_starts_nothing_and_goes_on_when_resumed(
    open_shop: Workshop, gate: anyio.Event
) -> None:
    plan_id = await open_shop.start({"id": "slow"}, {"id": "b", "dependencies": ["slow"]})
    await open_shop.until_run("slow")
    await open_shop.do(open_shop.engine.controls.pause, plan_id)
    gate.set()
    await open_shop.until(plan_id, "slow", _S.COMPLETED)

    assert (await open_shop.statuses(plan_id))["b"] is _S.PENDING
    assert (await open_shop.plan(plan_id)).status is PlanStatus.PAUSED
    last = (await open_shop.events(plan_id))[-1]
    assert (last["type"], last["is_final"]) == ("plan_progress", True)

    await open_shop.do(open_shop.engine.controls.resume_plan, plan_id)
    await open_shop.end_of(plan_id)
    assert (await open_shop.plan(plan_id)).status is PlanStatus.COMPLETED


async def test_verbs_that_the_state_does_not_allow_name_it(open_shop: Workshop) -> None:
    plan_id = await open_shop.carry_out({"id": "a"})

    for verb in (
        open_shop.engine.controls.start,
        open_shop.engine.controls.pause,
        open_shop.engine.controls.resume_plan,
    ):
        with pytest.raises(Conflict, match="completed"):
            await open_shop.do(verb, plan_id)
    with pytest.raises(NotFound):
        await open_shop.do(open_shop.engine.controls.pause, "plan_nowhere")


@pytest.mark.feature(208)
async def test_cancelling_a_subtask_leaves_its_siblings_alone(
    open_shop: Workshop, gate: anyio.Event
) -> None:
    plan_id = await open_shop.start(
        {"id": "slow"}, {"id": "slow2"}, {"id": "after", "dependencies": ["slow"]}
    )
    await open_shop.until_run("slow")
    await open_shop.until_run("slow2")
    await open_shop.do(open_shop.engine.controls.cancel_subtask, plan_id, "slow")
    gate.set()
    await open_shop.end_of(plan_id)

    assert await open_shop.statuses(plan_id) == {
        "slow": _S.CANCELLED, "slow2": _S.COMPLETED, "after": _S.SKIPPED,
    }  # fmt: skip
    assert (await open_shop.plan(plan_id)).status is PlanStatus.PARTIAL


async def test_cancelling_a_subtask_ends_its_grant_and_no_other(
    open_shop: Workshop, gate: anyio.Event
) -> None:
    plan_id = await open_shop.start({"id": "slow"}, {"id": "slow2"})
    session_id = (await open_shop.plan(plan_id)).session_id
    granted = [
        rows.grant(f"of {key}", session_id=session_id, plan_id=plan_id, subtask_id=key)
        for key in ("slow", "slow2")
    ]
    await open_shop.store.write(add_grants, granted)
    await open_shop.do(open_shop.engine.controls.cancel_subtask, plan_id, "slow")

    assert await open_shop.store.read(active_grant, plan_id, 1, "slow") is None
    ended = await open_shop.store.read(grant_of, "of slow")
    assert ended is not None
    assert ended.ended_because == "cancelled by ann"
    assert await open_shop.store.read(active_grant, plan_id, 1, "slow2") == granted[1]
    gate.set()
    await open_shop.end_of(plan_id)


async def test_cancelling_a_plan_that_is_sent_back_ends_the_search_for_another_revision(
    open_shop: Workshop,
) -> None:
    stops: list[JobStop] = []
    deliver = open_shop.store.deliver

    def watched(box: Outbox) -> None:
        stops.extend(box.stops)
        deliver(box)

    open_shop.store.deliver = watched
    open_shop.steps["a"] = parks_once(open_shop)
    plan_id = await open_shop.start({"id": "a"})
    await open_shop.until(plan_id, "a", _S.WAITING_APPROVAL)
    await open_shop.do(open_shop.engine.controls.replan, plan_id, "another way")
    await open_shop.until_searched()
    assert stops == []
    await open_shop.do(open_shop.engine.controls.cancel, plan_id)
    await open_shop.end_of(plan_id)

    assert JobStop(REPLAN, plan_id) in stops


@pytest.mark.feature(208)
async def test_skipping_a_subtask_skips_its_dependants_and_nothing_else(
    open_shop: Workshop, gate: anyio.Event
) -> None:
    plan_id = await open_shop.start(
        {"id": "slow"}, {"id": "b", "dependencies": ["slow"]}, {"id": "c", "dependencies": ["b"]}
    )
    await open_shop.until_run("slow")
    await open_shop.do(open_shop.engine.controls.skip_subtask, plan_id, "b")
    gate.set()
    await open_shop.end_of(plan_id)

    assert await open_shop.statuses(plan_id) == {
        "slow": _S.COMPLETED, "b": _S.SKIPPED, "c": _S.SKIPPED,
    }  # fmt: skip
    assert (await open_shop.rows(plan_id))["b"].reason == "skipped by ann"


async def test_a_subtask_that_runs_is_not_skipped_and_one_that_is_over_not_cancelled(
    open_shop: Workshop, gate: anyio.Event
) -> None:
    plan_id = await open_shop.start({"id": "slow"}, {"id": "b"})
    await open_shop.until(plan_id, "b", _S.COMPLETED)

    with pytest.raises(Conflict, match="cancel it instead"):
        await open_shop.do(open_shop.engine.controls.skip_subtask, plan_id, "slow")
    with pytest.raises(Conflict, match="is already completed"):
        await open_shop.do(open_shop.engine.controls.cancel_subtask, plan_id, "b")
    with pytest.raises(NotFound, match="no subtask nothing"):
        await open_shop.do(open_shop.engine.controls.skip_subtask, plan_id, "nothing")


async def test_the_log_rests_when_all_that_is_left_waits_for_a_person(
    open_shop: Workshop, gate: anyio.Event
) -> None:
    open_shop.steps["asks"] = parks_once(open_shop)
    plan_id = await open_shop.start({"id": "asks"}, {"id": "slow"})
    await open_shop.until(plan_id, "asks", _S.WAITING_APPROVAL)
    gate.set()
    await open_shop.until(plan_id, "slow", _S.COMPLETED)

    last = (await open_shop.events(plan_id))[-1]
    assert (last["type"], last["is_final"]) == ("plan_progress", True)


async def test_the_log_does_not_rest_while_anything_of_the_plan_runs(
    open_shop: Workshop, gate: anyio.Event
) -> None:
    open_shop.steps["asks"] = parks_once(open_shop)
    plan_id = await open_shop.start({"id": "slow"}, {"id": "asks"}, {"id": "quick"})
    await open_shop.until(plan_id, "asks", _S.WAITING_APPROVAL)
    await open_shop.until(plan_id, "quick", _S.COMPLETED)
    await open_shop.until_run("slow")
    await open_shop.do(open_shop.engine.controls.pause, plan_id)

    events = await open_shop.events(plan_id)
    assert events[-1]["type"] == "plan_paused"
    assert [event["type"] for event in events if event.get("is_final")] == []
    gate.set()
    await open_shop.until(plan_id, "slow", _S.COMPLETED)
    assert (await open_shop.events(plan_id))[-1]["is_final"] is True


async def test_an_answer_for_a_cancelled_subtask_starts_nothing(open_shop: Workshop) -> None:
    open_shop.steps["asks"] = parks_once(open_shop)
    plan_id = await open_shop.start({"id": "asks"})
    await open_shop.until(plan_id, "asks", _S.WAITING_APPROVAL)
    key = (await open_shop.rows(plan_id))["asks"].key
    await open_shop.do(open_shop.engine.controls.cancel, plan_id)
    await open_shop.store.write(open_shop.engine.work.resume, key)

    assert open_shop.runs == ["asks"]
    assert (await open_shop.statuses(plan_id))["asks"] is _S.CANCELLED


async def test_a_plan_that_changed_since_it_was_seen_is_not_begun(open_shop: Workshop) -> None:
    plan_id = await open_shop.approved({"id": "a"})
    seen = await open_shop.plan(plan_id)
    await open_shop.store.write(move_plan, seen, PlanStatus.CANCELLED)

    with pytest.raises((Conflict, IllegalTransition)):
        await open_shop.store.write(open_shop.engine.rounds.begin, seen)


async def test_a_plan_that_is_cancelled_before_a_retry_leaves_no_timer(
    open_shop: Workshop,
) -> None:
    async def fails(work: Work) -> Outcome:
        return Failed(Failure(message="no route", category=Category.NETWORK))

    open_shop.steps["a"] = fails
    policy = {"max_attempts": 2, "delay": 60}
    plan_id = await open_shop.start({"id": "a", "retry_policy": policy})
    await open_shop.until(plan_id, "a", _S.PENDING)
    later = open_shop.now + timedelta(days=1)
    assert [timer.kind for timer in await open_shop.store.read(at(later, due_timers))] == [ADVANCE]

    await open_shop.do(open_shop.engine.controls.cancel, plan_id)

    assert await open_shop.store.read(at(later, due_timers)) == []


async def test_only_a_subtask_that_waits_to_start_can_be_failed_by_a_no(
    open_shop: Workshop, gate: anyio.Event
) -> None:
    plan_id = await open_shop.start({"id": "slow"})
    await open_shop.until_run("slow")

    def fail(tx: Tx) -> None:
        no = Failure(message="a person said no")
        open_shop.engine.controls.fail_subtask(tx, plan_id, "slow", no)

    with pytest.raises(Conflict, match="is running and does not wait"):
        await open_shop.store.write(fail)
    gate.set()
    await open_shop.end_of(plan_id)


@pytest.mark.feature(208)
async def test_what_another_plan_of_the_session_stands_before_is_not_tried_again(
    open_shop: Workshop,
) -> None:
    async def fails(work: Work) -> Outcome:
        return Failed(Failure(message="no", category=Category.LOGIC))

    open_shop.steps["a"] = fails
    plan_id = await open_shop.carry_out({"id": "a"})
    retry, plan = Retry(open_shop.engine.rounds).subtask, await open_shop.plan(plan_id)
    with pytest.raises(NotFound, match="id=none"):
        await open_shop.do(retry, "none", "a")
    await open_shop.store.write(set_session, plan.session_id, active_plan_id=plan_id)
    with pytest.raises(Conflict, match="another plan"):
        await open_shop.do(retry, plan_id, "a")

    await open_shop.store.write(set_session, plan.session_id, active_plan_id=None)
    await open_shop.do(retry, plan_id, "a")
    assert (await open_shop.plan(plan_id)).revision == 2
    await open_shop.end_of(plan_id)


async def test_the_end_of_one_grant_is_said_with_why_and_leaves_the_others(store: Store) -> None:
    def granted(tx: Tx) -> None:
        rows.begin(tx)
        add_plan(tx, rows.plan())
        add_revision(tx, rows.revision(rows.subtask("a"), rows.subtask("b")), "architect", "first")
        add_grants(tx, [rows.grant("g1"), rows.grant("g2", subtask_id="b")])

    await store.write(granted)
    await store.write(end_grant, "p1", "a", "it was cancelled")

    ended = await store.read(grant_of, "g1")
    assert ended is not None
    assert (ended.status, ended.ended_at, ended.ended_because) == (
        "ended", rows.NOW, "it was cancelled",
    )  # fmt: skip
    assert await store.read(active_grant, "p1", 1, "b") is not None
