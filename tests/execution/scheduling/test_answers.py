"""What answers about plans, budgets, models and interventions mean, and what each refusal says."""

from datetime import timedelta
from typing import Any

import pytest

from fakes import rows
from fakes.workshop import Workshop
from gonogo.domain.errors import Conflict, InvalidMessage
from gonogo.domain.identity import Principal, Role
from gonogo.domain.records import Approval
from gonogo.domain.states import ApprovalKind, DecisionWord, PlanStatus, SubtaskStatus
from gonogo.execution.approvals import Ruling
from gonogo.execution.plans.approvals import (
    AbsenceKind,
    BudgetKind,
    InterventionKind,
    SubtaskKind,
    _check_named,
    _check_used,
    _limits,
)
from gonogo.execution.scheduling.plan_state import PlanState
from gonogo.store import Store, Tx
from gonogo.store.plans import add_revision, move_plan, plan_of

_P = PlanStatus
ANN = Principal(id="user:ann", name="ann", role=Role.OPERATOR)
SHAPE = 'A budget is edited with modified_arguments {"result": {…limits}}'
WORDS = "cost, requests, seconds, session_cost, session_requests, session_tokens, subtasks, tokens"


@pytest.fixture
def kind() -> str:
    return "sqlite"


def ruled(word: DecisionWord, **more: Any) -> Ruling:
    return Ruling(word=word, by=ANN, **more)


class Told:
    """A kind of answers that only writes down what it is given."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def settle(self, tx: object, approval: Approval, ruling: Ruling) -> None:
        self.told.append(("settle", approval, ruling))

    def lapse(self, tx: object, approval: Approval) -> None:
        self.told.append(("lapse", approval))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (None, SHAPE),
        ({"limits": {"requests": 1}}, SHAPE),
        ({"result": {}}, SHAPE),
        ({"result": "lots"}, SHAPE),
        ({"result": {"request": 1}}, f"There is no limit 'request'; use {WORDS}"),
        ({"result": {"requests": True}}, "requests must be a number"),
        ({"result": {"requests": "1"}}, "requests must be a number"),
        ({"result": {"requests": 0}}, "requests must be above zero and at most 1e+15"),
        ({"result": {"cost": 1.1e15}}, "cost must be above zero and at most 1e+15"),
    ],
)
def test_limits_that_cannot_hold_are_refused_in_words(changes: Any, said: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        _limits(changes)
    assert str(refused.value) == said


def test_limits_are_taken_as_they_were_given() -> None:
    given = {"requests": 1, "cost": 0.01, "tokens": 10**15}
    assert _limits({"result": given}) == given


async def paused(shop: Workshop, reason: str, **to: Any) -> str:
    """A plan of two subtasks that is paused until a person answers."""
    plan_id = await shop.approved({"id": "a"}, {"id": "b", "dependencies": ["a"]})

    def pause(tx: Tx) -> None:
        for status, more in ((_P.RUNNING, {"started_at": tx.now}), (_P.PAUSED, to)):
            plan = plan_of(tx, plan_id)
            assert plan is not None
            pause_reason = reason if status is _P.PAUSED else None
            assert move_plan(tx, plan, status, pause_reason=pause_reason, **more)

    await shop.store.write(pause)
    return plan_id


def about(plan_id: str, **details: Any) -> Approval:
    found = {"about": "budget", "what": "requests", "used": 4, "limit": 3, **details}
    return rows.approval(kind=ApprovalKind.INTERVENTION, plan_id=plan_id, details=found)


async def reasons(shop: Workshop, plan_id: str) -> set[str | None]:
    return {row.reason for row in (await shop.rows(plan_id)).values()}


@pytest.mark.parametrize(
    ("asked", "ruling", "limits"),
    [
        ({}, {"word": DecisionWord.APPROVE}, {"requests": 14}),
        ({"used": 2}, {"word": DecisionWord.APPROVE}, {"requests": 13}),
        ({"what": "tokens"}, {"word": DecisionWord.APPROVE}, {"tokens": 7}),
        # Ten minutes have gone by, most of them while the question was open.
        ({"what": "seconds"}, {"word": DecisionWord.APPROVE}, {"seconds": 660}),
        (
            {}, {"word": DecisionWord.EDIT, "changes": {"result": {"requests": 9}}},
            {"requests": 9},
        ),
    ],
    ids=["as used", "as limited", "no setting", "seconds", "edited"],
)  # fmt: skip
async def test_a_budget_is_given_as_much_again_as_the_settings_say_or_what_a_person_says(
    shop: Workshop, asked: dict[str, Any], ruling: dict[str, Any], limits: dict[str, float]
) -> None:
    plan_id = await paused(shop, "budget", budget={"runs": 0, "limits": {"cost": 1}})
    shop.now += timedelta(minutes=10)
    kind = BudgetKind(pauses=shop.engine.pauses, limits={"requests": 10, "seconds": 60})
    await shop.store.write(kind.settle, about(plan_id, **asked), Ruling(by=ANN, **ruling))

    plan = await shop.plan(plan_id)
    assert (plan.status, plan.pause_reason) == (_P.RUNNING, None)
    assert plan.budget == {"runs": 0, "limits": {"cost": 1, **limits}}
    [told] = [e for e in await shop.events(plan_id) if e["type"] == "plan_resumed"]
    assert told["metadata"] == {"plan_id": plan_id, "by": "user:ann", "reason": "budget"}


@pytest.mark.parametrize(
    ("of", "word", "said"),
    [
        ("budget", DecisionWord.REJECT, "the budget is spent, and ann did not extend it"),
        ("budget", None, "the budget is spent, and the question about it expired"),
        ("model", DecisionWord.REJECT, "the model did not answer, and ann waited no longer"),
        ("model", None, "the model did not answer, and the question about it expired"),
    ],
)
async def test_a_plan_ends_that_does_not_get_what_it_waits_for_and_says_why(
    shop: Workshop, of: str, word: DecisionWord | None, said: str
) -> None:
    plan_id = await paused(shop, of)
    pauses = shop.engine.pauses
    kind = BudgetKind(pauses=pauses, limits={}) if of == "budget" else AbsenceKind(pauses=pauses)
    if word is None:
        await shop.store.write(kind.lapse, about(plan_id))
    else:
        await shop.store.write(kind.settle, about(plan_id), ruled(word))

    assert (await shop.plan(plan_id)).status is _P.FAILED
    assert await reasons(shop, plan_id) == {said}
    with pytest.raises(Conflict) as refused:
        await shop.store.write(kind.lapse, about(plan_id))
    assert str(refused.value) == (
        f"Plan {plan_id} does not wait for this answer ({of}): it is failed; look at it again"
    )


async def test_a_model_is_waited_for_as_long_again_and_nothing_is_edited_about_it(
    shop: Workshop,
) -> None:
    plan_id = await paused(shop, "model")
    kind = AbsenceKind(pauses=shop.engine.pauses)
    with pytest.raises(InvalidMessage) as refused:
        await shop.store.write(kind.settle, about(plan_id), ruled(DecisionWord.EDIT))
    assert str(refused.value) == (
        "You can approve or reject more waiting, but you cannot edit it: there is no other model"
    )
    await shop.store.write(kind.settle, about(plan_id), ruled(DecisionWord.APPROVE))

    assert (await shop.plan(plan_id)).status is _P.RUNNING
    [told] = [e for e in await shop.events(plan_id) if e["type"] == "plan_resumed"]
    assert told["metadata"] == {"plan_id": plan_id, "by": "user:ann", "reason": "model"}


async def test_limits_that_are_reached_already_are_refused_with_what_was_used(
    shop: Workshop,
) -> None:
    plan_id = await paused(shop, "budget", budget={"runs": 2})
    shop.now += timedelta(minutes=10)
    low = {"seconds": 600, "subtasks": 2, "requests": 1}
    with pytest.raises(InvalidMessage) as refused:
        await shop.store.read(_check_used, plan_id, low)

    said = "seconds: 600 used, 600 given; subtasks: 2 used, 2 given"
    assert str(refused.value) == f"A limit must be higher than what is already used: {said}"
    high = {"seconds": 601, "subtasks": 3, "session_requests": 1}
    await shop.store.read(_check_used, plan_id, high)
    await shop.store.read(_check_used, "gone", low)


def to_start(plan_id: str, subtask_id: str) -> Approval:
    return rows.approval(plan_id=plan_id, revision=1, subtask_id=subtask_id)


async def test_an_answer_about_a_start_starts_fails_or_leaves_out_just_that(
    shop: Workshop,
) -> None:
    kind = SubtaskKind(shop.engine)
    hard = {"on_reject": "fail"}
    plan_id = await shop.start(*[{"id": key, **hard} if key > "b" else {"id": key}
                                 for key in "abcde"], parallel=9)  # fmt: skip

    def wait(tx: Tx) -> None:
        board = PlanState.open(tx, plan_id)
        for key in "abcde":
            board.move(key, SubtaskStatus.WAITING_APPROVAL)
        board.write()

    def settled(word: DecisionWord, key: str, feedback: str | None = None) -> tuple[Any, ...]:
        return kind.settle, to_start(plan_id, key), ruled(word, feedback=feedback)

    await shop.store.write(wait)
    with pytest.raises(InvalidMessage) as refused:
        await shop.store.write(*settled(DecisionWord.EDIT, "a"))
    assert str(refused.value) == (
        "You can approve or reject the start of a subtask, but you cannot edit it"
    )
    await shop.store.write(*settled(DecisionWord.APPROVE, "a"))
    await shop.store.write(*settled(DecisionWord.REJECT, "b", "no"))
    await shop.store.write(*settled(DecisionWord.REJECT, "c"))
    await shop.store.write(*settled(DecisionWord.REJECT, "d", " too early "))
    await shop.store.write(kind.lapse, to_start(plan_id, "e"))

    found = await shop.rows(plan_id)
    assert {key: (str(row.status), row.reason) for key, row in found.items()} == {
        "a": ("running", None), "b": ("skipped", "skipped by ann"), "c": ("failed", None),
        "d": ("failed", None), "e": ("skipped", "skipped by expiry"),
    }  # fmt: skip
    errors = {key: found[key].error for key in "cd"}
    assert {key: (e or {})["message"] for key, e in errors.items()} == {
        "c": "Its start was rejected by ann", "d": "Its start was rejected by ann: too early",
    }  # fmt: skip
    assert {(e or {})["category"] for e in errors.values()} == {"permission"}


def test_an_intervention_goes_to_what_it_is_about() -> None:
    calls, names = Told(), Told()
    kind: Any = InterventionKind(of_calls=calls, others={"names": names})
    call, other = rows.approval(call_id="c"), rows.approval(details={"about": "names"})
    tx, approve = object(), ruled(DecisionWord.APPROVE)
    kind.settle(tx, call, approve)
    kind.lapse(tx, call)
    kind.settle(tx, other, approve)
    kind.lapse(tx, other)

    assert calls.told == [("settle", call, approve), ("lapse", call)]
    assert names.told == [("settle", other, approve), ("lapse", other)]
    with pytest.raises(
        Conflict,
        match=(
            r"^gonogo cannot carry out an answer about 'other'; update gonogo, or cancel the plan$"
        ),
    ):
        kind.settle(tx, rows.approval(details={"about": "other"}), approve)


async def test_a_decision_names_the_revision_that_was_seen_once_there_are_several(
    store: Store,
) -> None:
    def check(tx: Tx) -> None:
        rows.begin(tx)
        rows.begin_plan(tx)
        plan = plan_of(tx, "p1")
        assert plan is not None
        _check_named(tx, plan, ruled(DecisionWord.APPROVE))
        add_revision(tx, rows.revision(rows.subtask("a"), number=2), "ann", "edited")
        for named in ({"revision": 1}, {"digest": "sha256:1"}):
            _check_named(tx, plan, ruled(DecisionWord.APPROVE, **named))
        with pytest.raises(Conflict) as refused:
            _check_named(tx, plan, ruled(DecisionWord.APPROVE, revision=2))
        assert str(refused.value) == (
            "The plan is at revision 1 (sha256:1), not 2; look at the plan again"
        )
        with pytest.raises(Conflict) as refused:
            _check_named(tx, plan, ruled(DecisionWord.APPROVE))
        said = "The plan has several revisions; name revision 1 or sha256:1"
        assert str(refused.value) == said

    await store.write(check)
