"""What is measured: a real engine over a real store, with a plain function as its runner."""

import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import process_time

import anyio

from gonogo.domain.events import AssistantMessage
from gonogo.domain.plan import Revision, Scope, Subtask
from gonogo.domain.records import GrantRow, Job, Plan, Session
from gonogo.domain.states import PlanStatus
from gonogo.execution.approvals import ApprovalService
from gonogo.execution.jobs import LocalDispatcher
from gonogo.execution.plans import Engine, PlanEnding, PlanQuestions, PlanRules, PlanRunner
from gonogo.execution.scheduling import Outcome, Work
from gonogo.store import Store, Tx, go_on, new_id, utc_now
from gonogo.store import events as log
from gonogo.store.plans import add_grants, add_plan, add_revision, move_plan, plan_of
from gonogo.store.sessions import add_session

LIMIT = 120.0


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def percentile(values: Sequence[float], part: float) -> float:
    """The value that `part` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def chain(length: int) -> tuple[Subtask, ...]:
    """Subtasks one after the other."""
    return tuple(_subtask(n, (f"s{n - 1}",) if n else ()) for n in range(length))


def layers(depth: int, width: int) -> tuple[Subtask, ...]:
    """Layers of subtasks; each depends on two of the layer before, so that layers may overlap."""
    found: list[Subtask] = []
    for n in range(depth * width):
        level, place = divmod(n, width)
        before = (level - 1) * width
        parents = (f"s{before + place}", f"s{before + (place + 1) % width}") if level else ()
        found.append(_subtask(n, tuple(dict.fromkeys(parents))))
    return tuple(found)


def _subtask(number: int, dependencies: tuple[str, ...]) -> Subtask:
    return Subtask(
        id=f"s{number}", description=f"Do nothing, number {number}", agent="coder",
        dependencies=dependencies, scope=Scope(paths=("out/*.txt",)),
    )  # fmt: skip


Runner = Callable[[Work], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """An open store, an engine and the dispatcher that drives it."""

    store: Store
    engine: Engine
    over: dict[str, anyio.Event]

    async def carry_out(
        self, subtasks: Sequence[Subtask], *, max_parallel: int, events_before: int = 0
    ) -> float:
        """Run a plan of its own session to its end; gives the seconds from the go."""
        plan_id = await self.ready(subtasks, max_parallel=max_parallel, events_before=events_before)
        began = anyio.current_time()
        with anyio.fail_after(LIMIT):
            await self.go(plan_id)
            await self.over[plan_id].wait()
        took = anyio.current_time() - began
        await self.store.read(_check, plan_id)
        return took

    async def cpu(self, subtasks: Sequence[Subtask], *, events_before: int = 0) -> float:
        """Run a plan of its own session to its end; gives the milliseconds of processor."""
        plan_id = await self.ready(subtasks, max_parallel=3, events_before=events_before)
        began = process_time()
        with anyio.fail_after(LIMIT):
            await self.go(plan_id)
            await self.over[plan_id].wait()
        took = process_time() - began
        await self.store.read(_check, plan_id)
        return took * 1000

    async def begin(self, subtasks: Sequence[Subtask], *, max_parallel: int) -> str:
        """Start a plan of its own session; gives its id."""
        plan_id = await self.ready(subtasks, max_parallel=max_parallel)
        await self.go(plan_id)
        return plan_id

    async def ready(
        self, subtasks: Sequence[Subtask], *, max_parallel: int, events_before: int = 0
    ) -> str:
        """Make a plan of its own session that is approved and does not run yet; gives its id."""
        plan_id = await self.store.write(_prepare, subtasks, max_parallel, events_before)
        self.over[plan_id] = anyio.Event()
        return plan_id

    async def go(self, plan_id: str) -> None:
        """Start a plan that is ready."""
        await self.store.write(self._go, plan_id)

    def _go(self, tx: Tx, plan_id: str) -> None:
        plan = plan_of(tx, plan_id)
        if plan is None:
            raise LookupError(plan_id)
        self.engine.rounds.begin(tx, plan)


class _Ending(PlanEnding):
    """The ends of plans that belong to nobody."""

    def end(self, tx: Tx, plan: Plan, status: PlanStatus) -> None:
        go_on(tx, "over", plan.id)


@dataclass(frozen=True, slots=True)
class _Subtasks:
    runner: Runner

    async def run(self, work: Work) -> Outcome:
        return await self.runner(work)


@asynccontextmanager
async def rig(folder: Path, run: Runner, url: str | None = None) -> AsyncIterator[Rig]:
    """A rig over a fresh database in a folder, or at an address."""
    over: dict[str, anyio.Event] = {}
    store = Store(url or f"sqlite:///{folder / 'bench.db'}")
    desk = ApprovalService()
    engine = Engine.of(PlanRules(), PlanQuestions(desk=desk), _Ending(desk))
    runner = PlanRunner(store=store, engine=engine, subtasks=_Subtasks(run), timeout=1_800.0)

    async def tell_over(job: Job) -> None:
        over[job.key].set()

    dispatcher = LocalDispatcher(store)
    handlers = {"plan": runner.plan_job, "subtask": runner.subtask_job, "over": tell_over}
    store.deliver = dispatcher.take
    try:
        async with anyio.create_task_group() as group:
            await group.start(dispatcher.serve, handlers, lambda tx, timer: None)
            yield Rig(store=store, engine=engine, over=over)
            group.cancel_scope.cancel()
    finally:
        store.close()


def new_session(now: datetime, workspace: str = "bench") -> Session:
    """A session's row."""
    return Session(
        id=new_id("sess"), principal_id="local", title=None, workspace=workspace, locale="en",
        spoken="en", tool_host="server", agent="orchestrator", active_plan_id=None, last_seq=0,
        deleted=False, created_at=now, updated_at=now,
    )  # fmt: skip


def _prepare(tx: Tx, subtasks: Sequence[Subtask], max_parallel: int, events_before: int) -> str:
    """A session with a plan that a person has approved."""
    now = utc_now()
    session = new_session(now)
    add_session(tx, session)
    for n in range(events_before):
        log.tell(tx, session.id, AssistantMessage(content=f"said before, {n}"))
    revision = Revision(plan_id=new_id("plan"), number=1, goal="measure", subtasks=tuple(subtasks))
    plan = Plan(
        id=revision.plan_id, session_id=session.id, turn_id=None, goal="measure",
        original_task="measure", status=PlanStatus.AWAITING_APPROVAL, revision=1,
        digest=revision.digest, auto_approve_tools=True, max_parallel=max_parallel,
        created_at=now, approved_at=None, started_at=None, finished_at=None, feedback=None,
    )  # fmt: skip
    add_plan(tx, plan)
    add_revision(tx, revision, "architect", "first")
    add_grants(tx, [_grant(plan, subtask, now) for subtask in subtasks])
    move_plan(tx, plan, PlanStatus.APPROVED, approved_at=now)
    return plan.id


def _grant(plan: Plan, subtask: Subtask, now: datetime) -> GrantRow:
    return GrantRow(
        id=new_id("grant"), session_id=plan.session_id, plan_id=plan.id, revision=1,
        subtask_id=subtask.id, scope=None, status="active", created_at=now, ended_at=None,
        ended_because=None,
    )  # fmt: skip


def _check(tx: Tx, plan_id: str) -> None:
    plan = plan_of(tx, plan_id)
    if plan is None or plan.status is not PlanStatus.COMPLETED:
        raise RuntimeError(f"the plan did not complete: {plan}")
