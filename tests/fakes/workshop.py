"""A workshop: the real engine, dispatcher and store, with plain functions as the runner."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
from msgspec.structs import replace

from fakes import rows
from gonogo.domain.failures import Absence
from gonogo.domain.plan import MAX_SUBTASKS, Subtask, parse_subtasks
from gonogo.domain.records import Job, Plan, SubtaskRow, Timer
from gonogo.domain.replanning import Excess
from gonogo.domain.schedule import outcome
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.execution.jobs import LocalDispatcher
from gonogo.execution.plans import Engine, PlanRules, PlanRunner
from gonogo.execution.scheduling import PLAN_TIMERS, REPLAN, Completed, Outcome, Parked, Work
from gonogo.store import Store, Tx, go_on, new_id
from gonogo.store import events as log
from gonogo.store.jobs import set_timer
from gonogo.store.plans import (
    add_plan,
    add_revision,
    current_revision,
    live_plans,
    move_plan,
    plan_of,
    running_subtasks,
    subtask_key,
    subtask_rows,
)
from gonogo.store.sessions import add_session

LIMIT = 60.0
Step = Callable[[Work], Awaitable[Outcome]]


async def done(work: Work) -> Outcome:
    return Completed({"output": work.subtask.id})


class Questions:
    """The questions of a workshop: they are kept, and nobody answers them."""

    def __init__(self, *, about_models: bool = False) -> None:
        self.about_models = about_models
        self.budgets: list[Excess] = []
        self.models: list[Absence] = []

    def room(self, tx: Tx, plan: Plan) -> int:
        return MAX_SUBTASKS

    def ask_to_start(self, tx: Tx, plan: Plan, *about: Any) -> None:
        raise AssertionError("no subtask of a workshop asks before it starts")

    def ask_about_budget(self, tx: Tx, plan: Plan, spent: Excess) -> None:
        self.budgets.append(spent)

    def ask_about_model(self, tx: Tx, plan: Plan, absence: Absence) -> bool:
        if self.about_models:
            self.models.append(absence)
        return self.about_models


@dataclass(frozen=True, slots=True)
class _Ending:
    """The ends of a workshop's plans: there is nothing else to end."""

    shop: "Workshop"

    def drop_work(self, tx: Tx, row: SubtaskRow, reason: str) -> None:
        self.shop.drops.add((row.subtask_id, row.attempt))

    def end(self, tx: Tx, plan: Plan, status: PlanStatus) -> None:
        go_on(tx, "over", plan.id)


@dataclass(slots=True)
class Workshop:
    """What a test holds: what to do for each subtask, and what has been done."""

    store: Store
    steps: dict[str, Step] = field(default_factory=dict)
    now: datetime = rows.NOW
    ahead: timedelta = timedelta()
    """By how much the clock was set, while no time went by."""
    timeout: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """The rules of plans, and what else the engine is given: `questions`, `retreat`."""
    runs: list[str] = field(default_factory=list)
    """The subtasks in the order in which their runs began."""
    drops: set[tuple[str, int]] = field(default_factory=set)
    """Subtask and attempt whose work was taken away. A set: a transaction may be run again."""
    most: int = 0
    going: int = 0
    engine: Engine = field(init=False)
    runner: PlanRunner = field(init=False)
    searches: int = 0
    """How often another revision was to be looked for."""
    _over: dict[str, anyio.Event] = field(default_factory=dict)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self.store.clock = lambda: self.now + self.ahead
        given = dict(self.options)
        retreat, questions = given.pop("retreat", None), given.pop("questions", Questions())
        self.engine = Engine.of(PlanRules(**given), questions, _Ending(self))
        self.runner = PlanRunner(
            store=self.store, engine=self.engine, subtasks=self, timeout=self.timeout,
            retreat=retreat, seconds=lambda: self.now.timestamp(),
        )  # fmt: skip

    def rule(self, **rules: Any) -> None:
        """Have the operator set something else."""
        self.engine.rounds.rules = replace(self.engine.rounds.rules, **rules)

    async def run(self, work: Work) -> Outcome:
        self.runs.append(work.subtask.id)
        self.going += 1
        self.most = max(self.most, self.going)
        self._tell_changed()
        try:
            return await self.steps.get(work.subtask.id, done)(work)
        finally:
            self.going -= 1

    def _tell_changed(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # Plans ------------------------------------------------------------------------------------

    async def approved(self, *subtasks: dict[str, Any], parallel: int = 3) -> str:
        """A plan that a person has approved and nobody has started."""
        items = [{"description": item["id"], "agent": "coder", **item} for item in subtasks]
        parsed = parse_subtasks(items, agents={"coder", "debug"})
        return await self.store.write(_approve, parsed, parallel)

    async def start(self, *subtasks: dict[str, Any], parallel: int = 3) -> str:
        """A plan that runs."""
        plan_id = await self.approved(*subtasks, parallel=parallel)
        await self.do(self.engine.controls.start, plan_id)
        return plan_id

    async def carry_out(self, *subtasks: dict[str, Any], parallel: int = 3) -> str:
        """A plan from its start to its end."""
        plan_id = await self.start(*subtasks, parallel=parallel)
        await self.end_of(plan_id)
        return plan_id

    async def do(self, verb: Callable[..., None], plan_id: str, *what: str) -> None:
        """What a person does."""
        await self.store.write(verb, plan_id, *what, "ann")

    async def end_of(self, plan_id: str) -> None:
        with anyio.fail_after(LIMIT):
            await self._over.setdefault(plan_id, anyio.Event()).wait()

    async def until_run(self, subtask_id: str, times: int = 1) -> None:
        """Wait until a subtask has begun to run so many times."""
        with anyio.fail_after(LIMIT):
            while self.runs.count(subtask_id) < times:
                await self._changed.wait()

    async def until(self, plan_id: str, subtask_id: str, status: SubtaskStatus) -> None:
        """Wait until a subtask stands so."""
        with anyio.fail_after(LIMIT):
            # Taken before the read, so that a change between read and wait still wakes us.
            changed = self._changed
            while (await self.statuses(plan_id))[subtask_id] != status:
                await changed.wait()
                changed = self._changed

    async def plan(self, plan_id: str) -> Plan:
        found = await self.store.read(plan_of, plan_id)
        assert found is not None
        return found

    async def rows(self, plan_id: str) -> dict[str, SubtaskRow]:
        plan = await self.plan(plan_id)
        found = await self.store.read(subtask_rows, plan_id, plan.revision)
        return {row.subtask_id: row for row in found}

    async def statuses(self, plan_id: str) -> dict[str, SubtaskStatus]:
        return {key: row.status for key, row in (await self.rows(plan_id)).items()}

    async def events(self, plan_id: str) -> list[dict[str, Any]]:
        plan = await self.plan(plan_id)
        return [{**each} for each in await self.store.read(log.events_after, plan.session_id, 0)]

    async def held(self, plan_id: str, subtask_id: str) -> Work:
        """A subtask that runs, as its holder knows it."""
        row, plan = (await self.rows(plan_id))[subtask_id], await self.plan(plan_id)
        revision = await self.store.read(current_revision, plan)
        return Work(
            key=row.key, revision=revision, subtask=revision.subtask(subtask_id), epoch=row.epoch
        )

    # The process ------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The life of a process: what was left undone goes on, then what comes is done."""
        dispatcher = LocalDispatcher(self.store)
        handlers = {
            "plan": self.runner.plan_job,
            "subtask": self.runner.subtask_job,
            "over": self._end,
            REPLAN: self._search,
        }

        def deliver(box: Any) -> None:
            dispatcher.take(box)
            self._tell_changed()

        self.store.deliver = deliver
        async with anyio.create_task_group() as group:
            await group.start(dispatcher.serve, handlers, self._on_timer)
            await self.store.write(self._recover)
            yield
            group.cancel_scope.cancel()

    async def fire(self, plan_id: str, later: float) -> None:
        """Have the plan's timer fire so many seconds later."""
        self.now += timedelta(seconds=later)
        await self.store.write(self.engine.rounds.advance, plan_id)

    async def later(self, seconds: float) -> None:
        """Move the clock, and have the timers looked at."""
        self.now += timedelta(seconds=seconds)
        await self.store.write(set_timer, "nudge", "test", datetime(2000, 1, 1, tzinfo=UTC))

    async def until_paused(self, plan_id: str) -> Plan:
        """Wait until a plan is paused."""
        with anyio.fail_after(LIMIT):
            changed = self._changed
            while (plan := await self.plan(plan_id)).status != PlanStatus.PAUSED:
                await changed.wait()
                changed = self._changed
        return plan

    async def until_searched(self, times: int = 1) -> None:
        """Wait until another revision is to be looked for, so many times in all."""
        with anyio.fail_after(LIMIT):
            while self.searches < times:
                await self._changed.wait()

    async def _search(self, job: Job) -> None:
        self.searches += 1
        self._tell_changed()

    async def _end(self, job: Job) -> None:
        self._over.setdefault(job.key, anyio.Event()).set()

    def _on_timer(self, tx: Tx, timer: Timer) -> None:
        if timer.kind in PLAN_TIMERS:
            self.engine.pauses.on_timer(tx, timer.kind, timer.key)

    def _recover(self, tx: Tx) -> None:
        for key in running_subtasks(tx):
            self.engine.work.take_over(tx, key)
        for plan_id in live_plans(tx):
            self.engine.rounds.advance(tx, plan_id)


def key_of(plan_id: str, subtask_id: str) -> str:
    return subtask_key(plan_id, 1, subtask_id)


def parks_once(shop: Workshop) -> Step:
    """A step that asks a person the first time, and is done the second."""
    asked: set[str] = set()

    async def step(work: Work) -> Outcome:
        if work.subtask.id in asked:
            return Completed({"output": "answered"})
        asked.add(work.subtask.id)
        await shop.store.write(shop.engine.work.park, work)
        return Parked()

    return step


async def agrees(shop: Workshop, plan_id: str) -> bool:
    """Whether the plan's status is what its subtasks' statuses say, where they say one."""
    plan, rows = await shop.plan(plan_id), await shop.rows(plan_id)
    revision = await shop.store.read(current_revision, plan)
    statuses = {key: row.status for key, row in rows.items()}
    declined = {key for key, row in rows.items() if row.declined}
    said = outcome(revision.subtasks, statuses, declined)
    return said is None or said == plan.status


def _approve(tx: Tx, subtasks: tuple[Subtask, ...], parallel: int) -> str:
    revision = rows.revision(*subtasks, plan_id=new_id("plan"))
    session = rows.session(new_id("sess"))
    plan = rows.plan(
        revision.plan_id, session_id=session.id, digest=revision.digest, max_parallel=parallel
    )
    add_session(tx, session)
    add_plan(tx, plan)
    add_revision(tx, revision, "architect", "first")
    move_plan(tx, plan, PlanStatus.APPROVED, approved_at=tx.now)
    return plan.id
