"""The meter: budgets hold however many ask at once, and after a crash; without one, a request costs
nothing but its row."""

from pathlib import Path

import anyio
import pytest

from fakes import rows
from gonogo.domain.errors import ModelFailed
from gonogo.domain.replanning import BudgetSpent
from gonogo.domain.states import PlanStatus
from gonogo.domain.tool_calls import ModelRequest, Reply, Usage, UserText
from gonogo.execution.agent import NOBODYS, Meter, Thread, keep_reply
from gonogo.store import Store, Tx
from gonogo.store.plans import add_plan, add_revision, plan_of, set_plan
from gonogo.store.reports import used_by_plan, used_by_session
from gonogo.store.sessions import add_session

SIZE = 100
"""Tokens that the request below is estimated to take; the reply as many as the default."""
ANSWER = Usage(
    input_tokens=80, cached_tokens=50, cache_write_tokens=20, output_tokens=1_000,
    reasoning_tokens=300, cost=0.25, duration_ms=7.0,
)  # fmt: skip


def request() -> ModelRequest:
    def sized(content: str) -> ModelRequest:
        message = UserText(content=content)
        return ModelRequest(agent="coder", thread="a", system="", messages=(message,))

    bare = len(str(sized("").messages[0]))
    return sized("x" * (4 * SIZE - bare))


def thread(plan: str | None = "p1") -> Thread:
    return Thread(
        session_id="s1", name="p1/1/a#1", script="a", agent="coder", locale="en",
        workspace=Path("/code"), remote=False, plan_id=plan, subtask_id="a" if plan else None,
        owner=NOBODYS,
    )  # fmt: skip


def meter(store: Store, **limits: float) -> Meter:
    return Meter(store=store, limits=limits)


async def answers() -> Reply:
    return Reply(text="done", model="fake", usage=ANSWER)


async def asked(store: Store, of: Meter, plan: str | None = "p1") -> None:
    """Ask, and keep the reply."""
    reply = await of.ask(thread(plan), request(), answers)
    await store.write(keep_reply, thread(plan), reply)


def _prepare(tx: Tx) -> None:
    first = rows.revision(rows.subtask("a"))
    add_session(tx, rows.session())
    add_plan(tx, rows.plan(digest=first.digest, status=PlanStatus.RUNNING))
    add_revision(tx, first, "architect", "first")


@pytest.fixture
async def ready(store: Store) -> Store:
    await store.write(_prepare)
    return store


async def test_what_a_request_took_is_kept_with_its_reply(ready: Store) -> None:
    of = meter(ready)
    reply = await of.ask(thread(), request(), answers)
    assert (await ready.read(used_by_plan, "p1")).requests == 0
    await ready.write(keep_reply, thread(), reply)

    used = await ready.read(used_by_plan, "p1")
    assert (used.requests, used.input_tokens, used.output_tokens) == (1, 80, 1_000)
    assert (used.cached_tokens, used.cache_write_tokens, used.reasoning_tokens) == (50, 20, 300)
    assert (used.cost_micros, used.unpriced) == (250_000, 0)
    assert await ready.read(used_by_session, "s1") == used


@pytest.mark.feature(213)
@pytest.mark.parametrize(
    ("limits", "fit"),
    [({"tokens": 3_500}, 3), ({"requests": 5}, 5), ({"session_tokens": 3_500}, 3)],
)
async def test_of_eight_that_ask_at_once_only_those_within_the_limit_are_sent(
    ready: Store, limits: dict[str, float], fit: int
) -> None:
    of, gate = meter(ready, **limits), anyio.Event()
    sent, refused = 0, 0

    def look() -> None:
        if refused + sent == 8:
            gate.set()

    async def slow() -> Reply:
        nonlocal sent
        sent += 1
        look()
        with anyio.fail_after(60):
            await gate.wait()
        return await answers()

    async def one() -> None:
        nonlocal refused
        try:
            reply = await of.ask(thread(), request(), slow)
        except BudgetSpent:
            refused += 1
            look()
        else:
            await ready.write(keep_reply, thread(), reply)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(one)
    used = await ready.read(used_by_plan, "p1")
    assert (sent, refused) == (fit, 8 - fit)
    assert used.requests == fit
    assert used.input_tokens + used.output_tokens <= limits.get("tokens", 10_000)


async def test_a_request_whose_process_died_counts_as_its_estimate(ready: Store) -> None:
    async def dies() -> Reply:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await meter(ready, tokens=1_500).ask(thread(), request(), dies)

    with pytest.raises(BudgetSpent) as caught:
        await asked(ready, meter(ready, tokens=1_500))
    assert caught.value.excess.used == SIZE + 1_000


@pytest.mark.parametrize(("status", "counted"), [(503, 0), (None, 1)])
async def test_what_a_provider_refused_took_nothing_and_a_broken_stream_its_estimate(
    ready: Store, status: int | None, counted: int
) -> None:
    async def fails() -> Reply:
        raise ModelFailed("no", http_status=status, transient=True)

    with pytest.raises(ModelFailed):
        await meter(ready, requests=9).ask(thread(), request(), fails)
    used = await ready.read(used_by_plan, "p1")
    assert used.requests == counted
    assert used.input_tokens == counted * SIZE


async def test_later_replies_are_estimated_by_the_largest_and_the_dearest_so_far(
    ready: Store,
) -> None:
    of = meter(ready, cost=0.5)
    await asked(ready, of)
    await asked(ready, of)
    with pytest.raises(BudgetSpent, match=r"US dollars\): 0\.5 of 0\.5.*GONOGO_BUDGET_PLAN_COST"):
        await asked(ready, of)


async def test_a_plans_own_limits_go_before_those_of_the_settings(ready: Store) -> None:
    of = meter(ready, requests=1)
    await asked(ready, of)
    with pytest.raises(BudgetSpent):
        await asked(ready, of)
    plan = await ready.read(plan_of, "p1")
    await ready.write(set_plan, plan, budget={"limits": {"requests": 2}})
    await asked(ready, of)
    with pytest.raises(BudgetSpent):
        await asked(ready, of)


async def test_a_turn_counts_for_the_session_and_for_no_plan(ready: Store) -> None:
    of = meter(ready, session_requests=1, requests=1)
    await asked(ready, of, plan=None)
    assert (await ready.read(used_by_plan, "p1")).requests == 0
    with pytest.raises(BudgetSpent, match="Raise GONOGO_BUDGET_SESSION_REQUESTS to continue"):
        await asked(ready, of, plan=None)
    with pytest.raises(BudgetSpent):
        await asked(ready, of)
