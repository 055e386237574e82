"""What people cannot do to a plan or a subtask now is refused in a sentence: it says why."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fakes import rows
from fakes.workshop import Workshop
from gonogo.domain.errors import Conflict, GonogoError, InvalidMessage, NotFound
from gonogo.domain.failures import Category, Failure
from gonogo.domain.identity import Principal, Role
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.plans import Retry
from gonogo.execution.scheduling import Superseded
from gonogo.execution.scheduling.plan_state import PlanState, chosen, result_of
from gonogo.store import Tx
from gonogo.store.jobs import due_timers
from gonogo.store.plans import move_plan, plan_of, set_plan

ANN = Principal(id="user:ann", name="ann", role=Role.OPERATOR)
_P, _S = PlanStatus, SubtaskStatus
FAILURE = Failure(message="no", category=Category.PERMISSION)


@pytest.fixture
def kind() -> str:
    return "sqlite"


async def refusal(shop: Workshop, verb: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(GonogoError) as refused:
        await shop.store.write(verb, *args)
    assert isinstance(refused.value, Conflict | NotFound)
    return str(refused.value)


async def ended(shop: Workshop) -> str:
    """A plan that was cancelled; its subtask too."""
    plan_id = await shop.start({"id": "a"})
    await shop.store.write(shop.engine.controls.cancel, plan_id, "ann")
    return plan_id


async def test_a_plan_that_is_over_takes_no_verb(shop: Workshop) -> None:
    plan_id, controls = await ended(shop), shop.engine.controls
    said = f"Plan {plan_id} is cancelled"
    tries: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
        (controls.start, ("ann",), f"{said}; only an approved plan can be started"),
        (controls.pause, ("ann",), f"{said} and cannot be paused; only a running plan can"),
        (controls.resume_plan, ("ann",), f"{said} and cannot be resumed; only a paused plan can"),
        (controls.replan, ("why", "ann"), (
            f"{said} and cannot be replanned; only a running, paused or failed plan can"
        )),
        (
            Retry(shop.engine.rounds).subtask, ("a", "ann"),
            f"{said}; its subtasks can be retried only while it runs, or after it has failed",
        ),
        (controls.cancel_subtask, ("a", "ann"), (
            "Subtask a is already cancelled; look at the plan again"
        )),
        (controls.skip_subtask, ("x", "ann"), (
            f"Plan {plan_id} has no subtask x; list its subtasks: gonogo plans show {plan_id}"
        )),
        (controls.steer_subtask, ("x", "Hi", ANN), (
            f"Plan {plan_id} has no subtask x; list its subtasks: gonogo plans show {plan_id}"
        )),
        (
            controls.steer_subtask, ("a", "Hi", ANN),
            (
                "Subtask a is cancelled, so no agent can read your message; retry the subtask, or "
                "replan the plan"
            ),
        ),
        (shop.engine.pauses.extend, ({}, "ann"), (
            f"Plan {plan_id} does not wait for this answer (budget): it is cancelled; look at it "
            "again"
        )),
        (shop.engine.pauses.wait_on, ("ann",), (
            f"Plan {plan_id} does not wait for this answer (model): it is cancelled; look at it "
            "again"
        )),
    ]  # fmt: skip
    assert [await refusal(shop, verb, plan_id, *args) for verb, args, _ in tries] == [
        each for _, _, each in tries
    ]
    assert await refusal(shop, controls.pause, "gone", "ann") == "No plan found with id=gone"
    retry = Retry(shop.engine.rounds).subtask
    assert await refusal(shop, retry, "gone", "a", "ann") == "No plan found with id=gone"


async def test_a_subtask_that_runs_is_cancelled_and_one_that_has_not_begun_hears_nothing(
    shop: Workshop,
) -> None:
    plan_id = await shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]})
    controls = shop.engine.controls
    tries: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
        (controls.skip_subtask, ("a", "ann"), "Subtask a is running; cancel it instead"),
        (
            controls.fail_subtask, ("a", FAILURE),
            "Subtask a is running and does not wait for an approval; look at the plan again",
        ),
        (controls.steer_subtask, ("b", "Hi", ANN), (
            "Subtask b has not started; send your message when it is running"
        )),
        (
            Retry(shop.engine.rounds).subtask, ("a", "ann"),
            "Subtask a is running; only a failed, skipped or cancelled subtask can be retried",
        ),
        (Retry(shop.engine.rounds).subtask, ("x", "ann"), (
            f"Plan {plan_id} has no subtask x; list its subtasks: gonogo plans show {plan_id}"
        )),
        (
            controls.start, ("ann",),
            f"Plan {plan_id} is running; only an approved plan can be started",
        ),
        (controls.resume_plan, ("ann",), (
            f"Plan {plan_id} is running and cannot be resumed; only a paused plan can"
        )),
    ]  # fmt: skip
    assert [await refusal(shop, verb, plan_id, *args) for verb, args, _ in tries] == [
        each for _, _, each in tries
    ]


async def test_what_waits_for_an_answer_or_a_rollback_does_not_simply_go_on(
    shop: Workshop,
) -> None:
    plan_id, controls = await shop.start({"id": "a"}), shop.engine.controls

    def stand(tx: Tx, **to: Any) -> None:
        plan = plan_of(tx, plan_id)
        assert plan is not None
        assert set_plan(tx, plan, **to)

    await shop.store.write(controls.pause, plan_id, "ann")
    resume, replan = (controls.resume_plan, plan_id, "ann"), (controls.replan, plan_id, "x", "ann")
    for reason in ("budget", "model"):
        await shop.store.write(stand, pause_reason=reason)
        for verb in (resume, replan):
            said = (
                f"Plan {plan_id} waits for an answer about its {reason}; answer that question first"
            )
            assert await refusal(shop, *verb) == said
    await shop.store.write(stand, pause_reason=None, rollback={"pause": None})
    said = (
        f"A rollback of plan {plan_id} is not finished; wait for it, or run it again if it was "
        "interrupted"
    )
    for verb in (resume, replan):
        assert await refusal(shop, *verb) == said
    retry = Retry(shop.engine.rounds).subtask
    assert await refusal(shop, retry, plan_id, "a", "ann") == said


async def test_a_subtask_that_somebody_else_holds_is_not_parked(shop: Workshop) -> None:
    plan_id = await shop.start({"id": "a"})
    work = await shop.held(plan_id, "a")
    await shop.store.write(shop.engine.work.take_over, work.key)

    with pytest.raises(Superseded) as refused:
        await shop.store.write(shop.engine.work.park, work)
    assert str(refused.value) == "Subtask a is no longer ours"


async def test_a_plan_that_changed_at_this_moment_is_not_written(shop: Workshop) -> None:
    plan_id = await shop.start({"id": "a"})

    def other(tx: Tx, write: Callable[[PlanState], None]) -> None:
        board = PlanState.open(tx, plan_id)
        plan = plan_of(tx, plan_id)
        assert plan is not None
        assert move_plan(tx, plan, _P.PAUSED)
        write(board)

    def moved(tx: Tx) -> None:
        one, two = (PlanState.open(tx, plan_id) for _ in range(2))
        for board in (one, two):
            board.move("a", _S.WAITING_APPROVAL)
            board.write()

    for write in (
        lambda board: board.move_plan(_P.REPLANNING), lambda board: board.set_plan(floor=9),
    ):  # fmt: skip
        said = await refusal(shop, other, write)
        assert said == f"Plan {plan_id} has just changed; look at it again"
    assert await refusal(shop, moved) == (
        f"A subtask of plan {plan_id} has just changed; look at the plan again"
    )


def test_a_strategy_is_known_by_its_name_and_harms_no_plan(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def breaks(*_: object) -> Any:
        raise ValueError("odd")

    with pytest.raises(InvalidMessage) as refused:
        chosen("c", {"b": breaks, "a": breaks})
    assert str(refused.value) == "There is no strategy 'c'; use one of a, b"
    outlook: Any = None
    assert tuple(chosen("b", {"b": breaks})((), outlook)) == ()
    assert [each.getMessage() for each in caplog.records] == ["strategy b failed; plan order it is"]
    twice = chosen("a", {"a": lambda ready, outlook: ["y", "x", "y"]})
    assert [*twice((), outlook)] == ["y", "x"]


async def test_a_result_is_seen_by_others_with_its_status(shop: Workshop) -> None:
    plan_id = await shop.start({"id": "a"})
    row = (await shop.rows(plan_id))["a"]
    assert result_of(row) == {"output": None, "status": "running"}

    def done(tx: Tx) -> dict[str, dict[str, Any]]:
        board = PlanState.open(tx, plan_id)
        board.move("a", _S.COMPLETED, result={"output": 1, "status": "odd", "more": 2})
        return board.results()

    assert await shop.store.write(done) == {"a": {"output": 1, "status": "completed", "more": 2}}


async def test_a_plan_ends_when_its_time_is_over_and_not_before(shop: Workshop) -> None:
    shop.rule(plan_timeout=60.0)
    plan_id = await shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]})
    pauses = shop.engine.pauses
    shop.now += timedelta(seconds=59)
    await shop.store.write(pauses.on_timer, "plan_timeout", plan_id)
    assert (await shop.plan(plan_id)).status is _P.RUNNING
    due = await shop.store.read(rows.at(rows.NOW + timedelta(hours=1), due_timers))
    assert [(each.kind, each.run_at) for each in due] == [
        ("plan_timeout", rows.NOW + timedelta(seconds=60))
    ]

    shop.now += timedelta(seconds=1)
    await shop.store.write(pauses.on_timer, "plan_timeout", plan_id)
    found, said = await shop.rows(plan_id), "The plan's time limit of 60 s is over"
    assert (await shop.plan(plan_id)).status is _P.FAILED
    assert (found["a"].error or {})["message"] == said
    assert (found["a"].error or {})["category"] == "timeout"
    assert (found["b"].status, found["b"].reason) == (_S.SKIPPED, said)
    await shop.store.write(pauses.on_timer, "plan_timeout", plan_id)
