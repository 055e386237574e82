"""A model that does not answer pauses its plan: one subtask finds out whether it is back, all
others wait for what that one finds, and when it takes too long a person is asked."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest

from fakes.rows import at
from fakes.workshop import Questions, Workshop, agrees, parks_once
from gonogo.domain.errors import Conflict, GonogoError, ModelFailed, Unwritable
from gonogo.domain.failures import Absence
from gonogo.domain.records import Plan
from gonogo.domain.replanning import BudgetSpent, Excess
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.scheduling import DISK, MODEL, ROLLING_BACK, Completed, Outcome, Work
from gonogo.store import Store
from gonogo.store.jobs import due_timers
from gonogo.store.plans import plan_of, set_plan

_P, _S = PlanStatus, SubtaskStatus
PATIENCE = 600.0


class Provider:
    """A model, or a disk, that is there, or is not."""

    def __init__(
        self,
        shop: Workshop,
        lacks: GonogoError | None = None,
        reason: str = MODEL,
    ) -> None:
        self.shop, self.is_there, self.reason = shop, False, reason
        self.lacks = lacks or ModelFailed("refused", transient=True)
        self.asked: list[str] = []

    async def __call__(self, work: Work) -> Outcome:
        """Ask it, and tell the engine when it has answered what was waited for."""
        self.asked.append(work.subtask.id)
        waited = (await self.shop.plan(work.revision.plan_id)).pause_reason == self.reason
        if not self.is_there:
            raise self.lacks
        if waited:
            engine = self.shop.engine
            plan_id = work.revision.plan_id
            await self.shop.store.write(engine.pauses.end_absence, plan_id)
        return Completed({"output": work.subtask.id})


def shop_of(store: Store, questions: list[Absence] | None, **more: Any) -> Workshop:
    """A workshop with patience; each question about the model is put in a list, if there is one."""

    asked = Questions(about_models=questions is not None)
    asked.models = [] if questions is None else questions
    options = {"patience": PATIENCE, "questions": asked, **more}
    return Workshop(store=store, options=options)


async def told(shop: Workshop, plan_id: str, reason: str = MODEL) -> list[str]:
    """What was told of pauses for the model, or for something else."""
    events = await shop.events(plan_id)
    return [e["type"] for e in events if e.get("metadata", {}).get("reason") == reason]


async def when(shop: Workshop, plan_id: str, holds: Callable[[Plan], object]) -> Plan:
    """Wait until something holds for a plan."""
    with anyio.fail_after(60):
        # Taken before the read, so that a change between read and wait still wakes us.
        changed = shop._changed
        while not holds(plan := await shop.plan(plan_id)):
            await changed.wait()
            changed = shop._changed
    return plan


async def looked(shop: Workshop, plan_id: str, tries: int, *, rest: str = "a") -> None:
    """Wait until the model was asked in vain so often, and who asked it has come to rest."""
    await when(shop, plan_id, lambda plan: (plan.away or {}).get("tries") == tries)
    for subtask_id in rest:
        await shop.until(plan_id, subtask_id, _S.PENDING)


async def wait_on(shop: Workshop, plan_id: str, tries: int) -> None:
    """Let the time come in which the model is asked again, and wait for what comes of it."""
    plan = await shop.plan(plan_id)
    assert plan.paused_until is not None
    await shop.later((plan.paused_until - shop.now).total_seconds())
    await looked(shop, plan_id, tries)


@pytest.mark.feature(230)
async def test_a_model_that_is_away_pauses_the_plan_once_and_costs_no_attempt(store: Store) -> None:
    shop = shop_of(store, [])
    provider = Provider(shop)
    async with shop.open():
        shop.steps |= dict.fromkeys("abc", provider)
        plan_id = await shop.start({"id": "a"}, {"id": "b"}, {"id": "c"})
        plan = await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1, rest="abc")

        assert (plan.pause_reason, plan.paused_until) == (MODEL, shop.now + timedelta(seconds=2))
        assert await told(shop, plan_id) == ["plan_paused"]
        rows = await shop.rows(plan_id)
        assert {row.status for row in rows.values()} == {_S.PENDING}
        provider.is_there = True
        await shop.later(2)
        await shop.end_of(plan_id)

        assert (await shop.plan(plan_id)).status is _P.COMPLETED
        assert {row.attempt for row in (await shop.rows(plan_id)).values()} == {1}
        assert await told(shop, plan_id) == ["plan_paused", "plan_resumed"]
        assert (await shop.plan(plan_id)).away is None


@pytest.mark.feature(230)
async def test_one_of_them_finds_out_and_nothing_new_starts_before_it_has(store: Store) -> None:
    shop = shop_of(store, [])
    provider = Provider(shop)
    async with shop.open():
        shop.steps |= dict.fromkeys("abcd", provider)
        plan_id = await shop.start(*({"id": key} for key in "abcd"))
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1, rest="abc")
        for tries in (2, 3, 4):
            await wait_on(shop, plan_id, tries)

        assert sorted(provider.asked[:3]) == ["a", "b", "c"]
        assert provider.asked[3:] == ["a", "a", "a"]
        assert await told(shop, plan_id) == ["plan_paused"]
        assert (await shop.rows(plan_id))["d"].attempt == 0
        assert await agrees(shop, plan_id)


@pytest.mark.feature(230)
async def test_patience_ends_with_one_question_and_waiting_on_begins_anew(store: Store) -> None:
    questions: list[Absence] = []
    shop = shop_of(store, questions)
    provider = Provider(shop)
    async with shop.open():
        shop.steps |= {"a": provider}
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1)
        await shop.later(PATIENCE)
        await looked(shop, plan_id, 2)

        plan = await shop.plan(plan_id)
        assert (plan.status, plan.pause_reason, plan.paused_until) == (_P.PAUSED, MODEL, None)
        [asked] = questions
        assert (asked.tries, asked.error) == (2, "refused")
        assert (await shop.events(plan_id))[-1]["is_final"]
        for verb in (shop.engine.controls.resume_plan, shop.engine.controls.pause):
            with pytest.raises(Conflict):
                await shop.do(verb, plan_id)
        with pytest.raises(Conflict, match="its model"):
            await shop.do(shop.engine.controls.replan, plan_id, "another way")
        # Somebody whose answer comes late does not answer the question.
        await store.write(shop.engine.pauses.end_absence, plan_id)
        assert (await shop.plan(plan_id)).status is _P.PAUSED

        await shop.do(shop.engine.pauses.wait_on, plan_id)
        assert "plan_resumed" in await told(shop, plan_id)
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1)
        with pytest.raises(Conflict, match="does not wait for this answer"):
            await shop.do(shop.engine.pauses.wait_on, plan_id)


@pytest.mark.feature(230)
async def test_a_plan_whose_model_is_waited_for_no_longer_ends_with_what_it_has(
    store: Store,
) -> None:
    shop = shop_of(store, [])
    provider = Provider(shop)
    async with shop.open():
        shop.steps |= {"b": provider}
        plan_id = await shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]})
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1, rest="b")
        with pytest.raises(Conflict):
            await store.write(shop.engine.pauses.give_up, plan_id, "no", MODEL)
        await shop.later(PATIENCE)
        await looked(shop, plan_id, 2, rest="b")
        await store.write(shop.engine.pauses.give_up, plan_id, "no longer", MODEL)
        await shop.end_of(plan_id)

        plan, rows = await shop.plan(plan_id), await shop.rows(plan_id)
        assert (plan.status, plan.pause_reason, plan.away) == (_P.PARTIAL, None, None)
        assert (rows["b"].status, rows["b"].reason) == (_S.SKIPPED, "no longer")


@pytest.mark.feature(230)
async def test_where_nobody_can_be_asked_the_plan_ends(store: Store) -> None:
    shop = shop_of(store, None)
    provider = Provider(shop)
    async with shop.open():
        shop.steps |= {"a": provider}
        plan_id = await shop.start({"id": "a"}, {"id": "b", "dependencies": ["a"]})
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1)
        await shop.later(PATIENCE)
        await shop.end_of(plan_id)

        rows = await shop.rows(plan_id)
        assert {row.reason for row in rows.values()} == {"the model did not answer: refused"}
        assert (await shop.plan(plan_id)).status is _P.FAILED


async def test_without_patience_who_needs_the_model_fails(store: Store) -> None:
    shop = shop_of(store, [], patience=0)
    async with shop.open():
        shop.steps |= {"a": Provider(shop)}
        plan_id = await shop.carry_out({"id": "a"})

        error = (await shop.rows(plan_id))["a"].error
        assert error is not None
        assert error["category"] == "network"


@pytest.mark.feature(233)
async def test_a_disk_is_waited_for_without_an_end_and_nobody_is_asked(store: Store) -> None:
    questions: list[Absence] = []
    shop = shop_of(store, questions, patience=0)
    provider = Provider(shop, lacks=Unwritable("full"), reason=DISK)
    async with shop.open():
        shop.steps |= dict.fromkeys("ab", provider)
        plan_id = await shop.start({"id": "a"}, {"id": "b"}, {"id": "c", "dependencies": ["b"]})
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1, rest="ab")
        assert (await shop.plan(plan_id)).pause_reason == DISK
        for tries in range(2, 10):
            await wait_on(shop, plan_id, tries)
        plan = await shop.plan(plan_id)
        assert plan.paused_until == shop.now + timedelta(seconds=30)
        assert (questions, provider.asked[2:]) == ([], ["a"] * 8)
        provider.is_there = True
        await shop.later(30)
        await shop.end_of(plan_id)

        assert {row.attempt for row in (await shop.rows(plan_id)).values()} == {1}
        assert await told(shop, plan_id, DISK) == ["plan_paused", "plan_resumed"]


@pytest.mark.feature(233)
async def test_who_finds_something_else_away_has_the_plan_wait_for_that(store: Store) -> None:
    shop = shop_of(store, [])
    provider = Provider(shop, lacks=Unwritable("full"), reason=DISK)
    async with shop.open():
        shop.steps |= {"a": provider}
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1)
        began = shop.now
        await wait_on(shop, plan_id, 2)
        provider.lacks = ModelFailed("refused", transient=True)
        await wait_on(shop, plan_id, 1)

        plan = await shop.plan(plan_id)
        assert plan.pause_reason == MODEL
        # How long the disk was away does not count as the model's.
        assert Absence.of(plan.away or {}).since > began + timedelta(seconds=5)
        assert [await told(shop, plan_id, of) for of in (DISK, MODEL)] == [["plan_paused"]] * 2


async def test_a_persons_pause_is_theirs_and_going_on_asks_the_model_at_once(store: Store) -> None:
    shop = shop_of(store, [])
    provider = Provider(shop)
    async with shop.open():
        shop.steps |= {"a": provider}
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1)
        await shop.do(shop.engine.controls.pause, plan_id)
        plan = await shop.plan(plan_id)
        assert (plan.pause_reason, plan.paused_until, plan.away) == (None, None, None)
        assert await store.read(at(shop.now + timedelta(days=1), due_timers)) == []
        provider.is_there = True
        await shop.do(shop.engine.controls.resume_plan, plan_id)
        await shop.end_of(plan_id)


async def test_a_failure_in_a_pause_of_another_kind_changes_nothing_of_it(store: Store) -> None:
    shop, gate = shop_of(store, []), anyio.Event()
    provider = Provider(shop)

    async def late(work: Work) -> Outcome:
        await gate.wait()
        return await provider(work)

    async with shop.open():
        shop.steps |= {"a": late}
        plan_id = await shop.start({"id": "a"})
        await shop.do(shop.engine.controls.pause, plan_id)
        gate.set()
        await shop.until(plan_id, "a", _S.PENDING)
        assert (await shop.plan(plan_id)).pause_reason is None
        # A timer that was left over does nothing either.
        await store.write(shop.engine.pauses.wake, plan_id)
        assert (await shop.plan(plan_id)).status is _P.PAUSED


@pytest.mark.parametrize("says", [{}, {"http_status": 429, "retry_after": 60.0}])
async def test_who_cannot_go_on_keeps_no_plan_that_is_sent_back(store: Store, says: Any) -> None:
    shop, gate = shop_of(store, []), anyio.Event()

    async def late(work: Work) -> Outcome:
        await gate.wait()
        raise ModelFailed("refused", transient=True, **says)

    async with shop.open():
        shop.steps |= {"a": late}
        plan_id = await shop.start({"id": "a"})
        await shop.do(shop.engine.controls.replan, plan_id, "another way")
        gate.set()
        await shop.until(plan_id, "a", _S.PENDING)

        plan = await shop.plan(plan_id)
        assert (plan.status, plan.pause_reason) == (_P.REPLANNING, None)
        assert await store.read(shop.engine.rounds.is_at_rest, plan_id)


async def test_a_quota_that_comes_instead_of_the_model_is_waited_for(store: Store) -> None:
    shop = shop_of(store, [])
    tries: list[str] = []

    async def step(work: Work) -> Outcome:
        tries.append(work.subtask.id)
        if len(tries) == 1:
            raise ModelFailed("refused", transient=True)
        raise ModelFailed("slow down", http_status=429, retry_after=3_600.0, transient=True)

    async with shop.open():
        shop.steps |= {"a": step}
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
        await shop.later(2)
        plan = await when(shop, plan_id, lambda plan: plan.pause_reason == "quota")
        assert (plan.paused_until, plan.away) == (shop.now + timedelta(hours=1), None)


async def test_when_the_one_that_was_to_find_out_is_gone_another_does_or_the_plan_goes_on(
    store: Store,
) -> None:
    shop = shop_of(store, [])
    provider = Provider(shop)
    async with shop.open():
        shop.steps |= dict.fromkeys("ab", provider)
        plan_id = await shop.start({"id": "a"}, {"id": "b"}, {"id": "c", "dependencies": ["a"]})
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1, rest="ab")
        hangs = anyio.Event()

        async def hanging(work: Work) -> Outcome:
            hangs.set()
            await anyio.sleep_forever()
            raise AssertionError

        shop.steps |= {"a": hanging}
        await shop.later(2)
        await hangs.wait()
        # Whoever looks meanwhile finds that somebody is at it.
        await store.write(shop.engine.rounds.advance, plan_id)
        assert provider.asked.count("b") == 1
        provider.is_there = True
        await shop.do(shop.engine.controls.cancel_subtask, plan_id, "a")
        await shop.end_of(plan_id)
        assert provider.asked.count("b") == 2


async def test_where_nobody_is_left_who_waits_the_plan_goes_on(store: Store) -> None:
    shop = shop_of(store, [])
    provider = Provider(shop)
    async with shop.open():
        shop.steps |= {"a": provider}
        plan_id = await shop.start({"id": "a"}, {"id": "b"}, parallel=1)
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1)
        await shop.do(shop.engine.controls.skip_subtask, plan_id, "a")
        await shop.later(2)
        await shop.end_of(plan_id)
        assert (await shop.plan(plan_id)).status is _P.PARTIAL
        assert await told(shop, plan_id) == ["plan_paused", "plan_resumed"]


async def test_a_full_workspace_is_waited_for_before_the_model_is_asked(store: Store) -> None:
    shop = shop_of(store, [], max_per_workspace=1)
    provider, hold = Provider(shop), anyio.Event()

    async def holds(work: Work) -> Outcome:
        await hold.wait()
        return Completed()

    async with shop.open():
        shop.steps |= {"a": provider, "x": holds}
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1)
        other = await shop.start({"id": "x"})
        await shop.until_run("x")
        await shop.later(2)
        later = shop.now + timedelta(seconds=5)
        await when(shop, plan_id, lambda plan: plan.paused_until == later)
        assert provider.asked == ["a"]
        hold.set()
        await shop.end_of(other)
        provider.is_there = True
        await shop.later(5)
        await shop.end_of(plan_id)


async def test_a_budget_that_is_spent_meanwhile_is_asked_about(store: Store) -> None:
    shop = shop_of(store, [], budget={"seconds": 1})
    provider = Provider(shop)
    async with shop.open():
        shop.steps |= {"a": provider}
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1)
        await shop.later(2)
        plan = await when(shop, plan_id, lambda plan: plan.pause_reason == "budget")
        assert shop.engine.rounds.questions.budgets
        assert plan.paused_until is None
        assert provider.asked == ["a"]


async def test_a_subtask_that_was_answered_meanwhile_finds_out_as_well(store: Store) -> None:
    shop = shop_of(store, [])
    provider, parks = Provider(shop), parks_once(shop)
    async with shop.open():
        shop.steps |= {"a": parks, "b": provider}
        plan_id = await shop.start({"id": "a"}, {"id": "b"})
        await shop.until_paused(plan_id)
        await shop.until(plan_id, "a", _S.WAITING_APPROVAL)
        await looked(shop, plan_id, 1, rest="b")
        await store.write(shop.engine.work.resume, (await shop.rows(plan_id))["a"].key)
        assert (await shop.rows(plan_id))["a"].status is _S.PENDING
        provider.is_there = True
        await shop.later(2)
        await shop.end_of(plan_id)
        assert (await shop.plan(plan_id)).status is _P.COMPLETED


async def test_a_rollback_under_way_is_not_disturbed_and_may_be_given_up_in(store: Store) -> None:
    shop = shop_of(store, [])
    provider = Provider(shop)
    async with shop.open():
        shop.steps |= {"a": provider}
        plan_id = await shop.start({"id": "a"})
        await shop.until_paused(plan_id)
        await looked(shop, plan_id, 1)
        await shop.later(PATIENCE)
        await looked(shop, plan_id, 2)
        plan = await shop.plan(plan_id)
        await store.write(set_plan, plan, pause_reason=ROLLING_BACK, rollback={"pause": MODEL})
        with pytest.raises(Conflict):
            await shop.do(shop.engine.pauses.wait_on, plan_id)
        await store.write(shop.engine.pauses.give_up, plan_id, "no longer", MODEL)
        await shop.end_of(plan_id)


async def test_a_spent_budget_goes_before_a_model_that_is_away(store: Store) -> None:
    shop, meet = shop_of(store, []), anyio.Event()
    here: list[str] = []

    async def step(work: Work) -> Outcome:
        here.append(work.subtask.id)
        if len(here) == 2:
            meet.set()
        await meet.wait()
        if work.subtask.id == "a":
            raise BudgetSpent("spent", Excess(what="tokens", used=90, limit=100))
        raise ModelFailed("refused", transient=True)

    async with shop.open():
        shop.steps |= {"a": step, "b": step}
        plan_id = await shop.start({"id": "a"}, {"id": "b"})
        await shop.until(plan_id, "a", _S.PENDING)
        await shop.until(plan_id, "b", _S.PENDING)
        found = await store.read(plan_of, plan_id)
        assert found is not None
        assert found.pause_reason == "budget"
