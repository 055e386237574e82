"""A shop floor: the real engine over a real database, one step at a time, as a test orders it.

Each step is one transaction on one connection, as a store's `write` makes it. What a committed
transaction sets going lies in lists until the test takes it up, in any order or never; so whatever
a dispatcher, its tasks and its threads could do, a test can do, and can do again.

The runner writes what it carries out into a ledger, a file outside the database. It is not synced:
the processes that die here die in play.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from fakes import rows
from fakes.floor_answers import Rest, ToPlan, ToReplan, ToWork, question, search
from fakes.floor_files import PERSON, Crash, Folder, Past, Shelf
from fakes.floor_undo import LIMIT, Rolling, Target, Undo
from gonogo.domain.base import content_hash
from gonogo.domain.errors import Conflict, NotFound
from gonogo.domain.failures import Category, Failure, Patterns, Severity
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import Subtask
from gonogo.domain.records import Approval, Job, Plan, Timer
from gonogo.domain.states import ApprovalKind, DecisionWord, PlanStatus
from gonogo.execution.agent.file_changes import ChangeTrace
from gonogo.execution.approvals import EXPIRE, WARN, ApprovalService, Ruling
from gonogo.execution.plans import (
    REPLAN_QUESTION,
    BudgetKind,
    Engine,
    InterventionKind,
    PlanEnding,
    PlanQuestions,
    PlanRules,
    PlanRunner,
    SubtaskKind,
    check_held,
)
from gonogo.execution.recovery import recover
from gonogo.execution.scheduling import (
    PLAN_TIMERS,
    REPLAN,
    Completed,
    Deferred,
    Failed,
    Outcome,
    Superseded,
    Work,
    plan_state,
)
from gonogo.store import Outbox, Store, Tx, plans
from gonogo.store import events as log
from gonogo.store.calls import pending_of_plan
from gonogo.store.checkpoints import Doer, Touched
from gonogo.store.jobs import due_timers, first_timer, take_timer
from gonogo.store.plans import (
    add_plan,
    add_revision,
    count_revisions,
    end_grants,
    plan_of,
    subtask_row,
)
from gonogo.store.sessions import add_session
from gonogo.store.transaction import Direct, Recent

ANN = Principal(id="ann", name="Ann", role=Role.OPERATOR)
QUOTA = timedelta(seconds=90)
_FAILURES = {
    "broken": Failure(message="broken"),
    "interrupted": Failure(message="it had failed when gonogo stopped"),
    "network": Failure(message="no route", category=Category.NETWORK),
    "wrong": Failure(message="wrong", severity=Severity.HIGH, category=Category.LOGIC),
    "slow": Failure(message="slow", severity=Severity.CRITICAL, category=Category.TIMEOUT),
}
OUTCOMES = (*["done"] * 6, "network", "network", "slow", "quota", "wrong", "broken")
"""What may come of a subtask."""
_PATTERNS = Patterns()
_OURS = frozenset({"expiry", "retreats"})
"""Options that are not the engine's."""
_TABLES = (
    "timers", "approvals", "grants", "file_changes", "checkpoints", "subtasks", "plan_revisions",
    "plans", "events", "audit", "sessions",
)  # fmt: skip


class _Ending(PlanEnding):
    """The ends of plans of which there is nothing but plans, and questions about them."""

    def end(self, tx: Tx, plan: Plan, status: PlanStatus) -> None:
        for approval in pending_of_plan(tx, plan.id):
            self.desk.withdraw(tx, approval)
        end_grants(tx, plan.id, f"the plan is {status}")


class _Nobody:
    """Who carries subtasks out: the tests do."""

    async def run(self, work: Work) -> Outcome:
        raise AssertionError(work)


class Ground:
    """A database, on one connection, for many examples one after the other."""

    def __init__(self, store: Store, ledger: Path, disk: Shelf | Folder) -> None:
        self.ledger = ledger
        self.disk = disk
        self.loop = asyncio.new_event_loop()
        engine = store._backend.engine
        is_sqlite = engine.dialect.name == "sqlite"
        self.conn = Direct(engine) if is_sqlite else engine.connect()
        self.raw: Any = self.conn.connection.driver_connection
        self.is_sqlite = is_sqlite
        if self.is_sqlite:
            # What is tried here is the order of steps, not what a power cut leaves.
            self.raw.execute("PRAGMA synchronous=OFF")

    def clear(self) -> None:
        """Leave no row of an earlier example."""
        self.ledger.write_bytes(b"")
        self.disk.clear()
        self.begin()
        for table in _TABLES:
            self.raw.execute(f"DELETE FROM {table}")  # noqa: S608 - names of tables
        self.commit()

    def begin(self) -> None:
        """Begin a transaction."""
        if self.is_sqlite:
            self.raw.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """End it; all of it is true."""
        self.raw.commit()

    def rollback(self) -> None:
        """End it; none of it is."""
        self.raw.rollback()

    def close(self) -> None:
        """Let go of the database."""
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left, timeout=LIMIT))
        self.loop.close()
        self.conn.close()


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A subtask in the hands of a runner."""

    work: Work
    attempt: int

    @property
    def plan_id(self) -> str:
        return self.work.revision.plan_id

    @property
    def who(self) -> str:
        """Under which name it writes files."""
        return f"{self.plan_id}/{self.work.subtask.id}"


@dataclass(slots=True)
class Floor:
    """One process after another over one database."""

    ground: Ground
    options: dict[str, Any]
    """What the engine is given."""
    now: datetime = rows.NOW
    jobs: list[Job] = field(default_factory=list)
    """Handed over by committed transactions, and not taken up."""
    held: list[Held] = field(default_factory=list)
    """What runners carry out."""
    interrupted: list[Held] = field(default_factory=list)
    """Attempts that had failed before a crash; what they did is to be undone first."""
    searches: list[str] = field(default_factory=list)
    """Plans for which somebody looks for the next revision."""
    ghosts: list[Held] = field(default_factory=list)
    """What runners carried out whose work was taken from them; they may not know it yet."""
    intents: dict[str, str] = field(default_factory=dict)
    """Plan → `paused` or `cancelled`, where a person wants that."""
    failures: Counter[str] = field(default_factory=Counter)
    """Subtask's key → its attempts that failed."""
    let: set[str] = field(default_factory=set)
    """Keys of the subtasks that a person let start."""
    recovered: bool = False
    """The step before this one was a start after a crash."""
    past: Past = field(default_factory=Past)
    stepped: Rolling | None = None
    """The rollback that the step before this one was about."""
    holding: dict[str, Target] = field(default_factory=dict)
    """Plan → the rollback that keeps it where it is, under way or cut off."""
    free: set[tuple[str, int]] = field(default_factory=set)
    """Plan and revision that needed no approval."""
    given: Counter[str] = field(default_factory=Counter)
    """Plan → how often a person gave it more than its budget."""
    undo: Undo = field(init=False)
    engine: Engine = field(init=False)
    runner: PlanRunner = field(init=False)
    desk: ApprovalService = field(init=False)

    def __post_init__(self) -> None:
        self.ground.clear()
        self._open()

    def _open(self) -> None:
        """A process starts, and knows nothing."""
        plan_state._kept.cache_clear()
        plans._kept_revision.cache_clear()
        self.desk = ApprovalService(
            expiry=self.options.get("expiry") or {}, warning=timedelta(seconds=10)
        )
        self.undo = Undo(self, self.ground.loop)
        rules = {name: self.options[name] for name in self.options if name not in _OURS}
        questions = PlanQuestions(desk=self.desk, attended=False)
        self.engine = Engine.of(PlanRules(**rules), questions, _Ending(self.desk))
        self.runner = PlanRunner(
            store=_Reads(self), engine=self.engine, subtasks=_Nobody(), patterns=_PATTERNS
        )
        if self.options.get("retreats"):
            self.runner.retreat = self.undo.retreat(Rolling(Target("")))
        self._register(self.engine)

    def _register(self, engine: Engine) -> None:
        budgets = BudgetKind(pauses=engine.pauses, limits=engine.rounds.rules.budget)
        others = {REPLAN_QUESTION: ToReplan(engine), "budget": budgets}
        self.desk.kinds.update(
            {
                ApprovalKind.SUBTASK: SubtaskKind(engine),
                ApprovalKind.TOOL: ToWork(engine),
                ApprovalKind.PLAN: ToPlan(engine),
                ApprovalKind.INTERVENTION: InterventionKind(of_calls=ToWork(engine), others=others),
            }
        )

    # Transactions -----------------------------------------------------------------------------

    def write(self, fn: Callable[..., Any], *args: Any, dies: bool = False) -> Any:
        """Run a function in a transaction, which is never committed if the process dies in it."""
        self.ground.begin()
        try:
            tx = self._tx()
            found = fn(tx, *args)
            log.flush(tx)
            _live_or_die(dies)
        except BaseException:
            self.ground.rollback()
            raise
        self.ground.commit()
        self._open_box(tx.outbox)
        return found

    def read(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Run a function that changes nothing."""
        self.ground.begin()
        try:
            return fn(self._tx(), *args)
        finally:
            self.ground.rollback()

    def _tx(self) -> Tx:
        return Tx(self.ground.conn, self.now, Recent())

    def _open_box(self, box: Outbox) -> None:
        for stop in box.stops:
            self.jobs = [job for job in self.jobs if (job.kind, job.key) != (stop.kind, stop.key)]
            if stop.kind == REPLAN and stop.key in self.searches:
                self.searches.remove(stop.key)
            self._take_away(lambda held, key=stop.key: held.work.key == key)
        for job in box.jobs:
            self.jobs = [j for j in self.jobs if (j.kind, j.key) != (job.kind, job.key)]
            self.jobs.append(job)

    def _take_away(self, which: Callable[[Held], bool]) -> None:
        self.ghosts += [held for held in self.held if which(held)]
        self.held = [held for held in self.held if not which(held)]
        self.interrupted = [held for held in self.interrupted if not which(held)]

    # Jobs -------------------------------------------------------------------------------------

    def take_up(self, job: Job) -> None:
        """Begin with a job, as the dispatcher would."""
        self.jobs.remove(job)
        if job.kind == "plan":
            self.write(self.engine.rounds.advance, job.key)
        elif job.kind == REPLAN:
            if job.key not in self.searches:
                self.searches.append(job.key)
        else:
            self._run(job)

    def _run(self, job: Job) -> None:
        work = _at_once(self.runner._work(job))
        if work is None:
            return
        try:
            attempt = self.read(self._checked, work)
        except Superseded:
            return
        held = Held(work, attempt)
        failed = _at_once(self.runner._interrupted(work))
        if failed is not None:
            # Undoing it had begun; there is nothing to carry out.
            self.interrupted.append(held)
            return
        line = {"key": work.key, "attempt": attempt, "epoch": work.epoch}
        line["wrote"] = self._write_files(held)
        with self.ground.ledger.open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps(line) + "\n")
        self.held.append(held)

    def _write_files(self, held: Held) -> dict[str, str]:
        """A runner changes files, as a tool does: it says first what it is about to change."""
        work, number = held.work, f"{held.work.key}/{held.attempt}/{held.work.epoch}"
        paths = [f"{work.subtask.id}.txt", "common.txt"][
            : 2 if work.subtask.agent == "debug" else 1
        ]
        wrote = {path: f"{number} wrote {path}\n" for path in paths}
        disk, before = self.ground.disk, {path: self.ground.disk.hold(path) for path in paths}
        doer = Doer(
            f"s_{held.plan_id}", held.plan_id, work.revision.number, work.subtask.id, number,
            str(disk.root),
        )  # fmt: skip
        touched = [
            Touched(
                path, asdict(state) if state else None, {"hash": content_hash(wrote[path].encode())}
            )
            for path, state in before.items()
        ]
        trace = ChangeTrace(doer=doer, touched=touched)
        self.write(trace.begin)
        for path, text in wrote.items():
            disk.write(path, text)
            self.past.wrote(path, held.who, text)
        trace.done = [each._replace(after=asdict(disk.hold(each.path))) for each in touched]
        self.write(trace.end)
        return wrote

    def _checked(self, tx: Tx, work: Work) -> int:
        check_held(tx, work)
        return subtask_row(tx, work.key).attempt

    def finish(self, *done: tuple[Held, str]) -> None:
        """Hand over what came of subtasks of one plan, in one transaction."""
        late = [held for held, _ in done if held in self.ghosts]
        brought = [(held.work, self._outcome(word)) for held, word in done]
        self.write(self.engine.work.finish, brought)
        for held, word in done:
            if held not in late:
                self.failures[held.work.key] += word in _FAILURES
        self._let_go([held for held, _ in done])

    def _let_go(self, done: list[Held]) -> None:
        self.held = [held for held in self.held if held not in done]
        self.interrupted = [held for held in self.interrupted if held not in done]
        self.ghosts = [held for held in self.ghosts if held not in done]

    def _outcome(self, word: str) -> Completed | Failed | Deferred:
        if word == "done":
            return Completed({"output": {"word": word}})
        if word == "quota":
            return Deferred(self.now + QUOTA)
        return Failed(_FAILURES[word])

    def park(self, held: Held) -> None:
        """A runner asks a person, in the transaction in which its subtask gives up its place."""

        def ask(tx: Tx) -> None:
            plan = plan_of(tx, held.plan_id)
            self.engine.work.park(tx, held.work)
            self.desk.open(tx, question(plan, ApprovalKind.TOOL, held.work.subtask.id))

        self._let_go([held])
        self.write(ask)

    # People -----------------------------------------------------------------------------------

    def does(self, verb: str, plan_id: str, *what: str) -> bool:
        """What a person does to a plan. False when that is refused."""
        try:
            self.write(getattr(self.engine.controls, verb), plan_id, *what, ANN.id)
        except (Conflict, NotFound):
            return False
        if verb in {"pause", "cancel"}:
            self.intents[plan_id] = "paused" if verb == "pause" else "cancelled"
        elif verb in {"resume_plan", "replan"}:
            self.intents.pop(plan_id, None)
        return True

    def edit(self, path: str, text: str) -> None:
        """A person writes a file."""
        self.ground.disk.write(path, text)
        self.past.wrote(path, PERSON, text)

    def answer(self, approval: Approval, word: DecisionWord) -> bool:
        """What a person says to a question. False when that is refused."""
        about_budget = approval.details.get("about") == "budget"
        if word is DecisionWord.APPROVE and approval.kind == ApprovalKind.SUBTASK:
            key = plans.subtask_key(approval.plan_id, approval.revision, approval.subtask_id)
            self.let.add(key)
        ruling = Ruling(word=word, by=ANN)
        try:
            self.write(self.desk.decide, approval.id, ruling)
        except Conflict:
            return False
        self.given[approval.plan_id] += about_budget and word is not DecisionWord.REJECT
        return True

    # Rollbacks --------------------------------------------------------------------------------

    def roll(self, target: Target, work: Work | None = None) -> Rolling:
        """Begin with a rollback."""
        self.stepped = self.undo.begin(target, work)
        return self.stepped

    def roll_on(self) -> Rolling:
        """Let the rollback that is under way write once more."""
        self.stepped = self.undo.step()
        return self.stepped

    def wrote_rollback(self, rolling: Rolling) -> None:
        """A transaction of a rollback is committed."""
        plan_id = rolling.target.plan_id
        if rolling.work is not None:
            return
        if rolling.at > 1:
            self.holding.pop(plan_id, None)
            if self.plan(plan_id).pause_reason is not None:
                # Its question, or its quota, comes first again, and lets the plan go on.
                self.intents.pop(plan_id, None)
            return
        rolling.again = plan_id in self.holding
        self.holding[plan_id] = rolling.about
        if self.plan(plan_id).status is PlanStatus.PAUSED:
            # Whatever it was paused for, it now waits for the person who rolls back.
            self.intents[plan_id] = "paused"

    def search(self, plan_id: str, rest: Rest | None, *, free: bool) -> None:
        """What came of a search: a revision with another rest, or none."""
        self.searches.remove(plan_id)
        before = self.read(count_revisions, plan_id)
        self.write(search, self.engine, self.desk, plan_id, rest, free)
        if free and self.read(count_revisions, plan_id) > before:
            self.free.add((plan_id, before + 1))

    def pending(self, plan_id: str) -> list[Approval]:
        """The questions of a plan."""
        return self.read(pending_of_plan, plan_id)

    # Time and death ---------------------------------------------------------------------------

    def first_timer(self) -> datetime | None:
        """When the earliest timer is due."""
        return self.read(first_timer)

    def due(self) -> list[Timer]:
        """The timers that are due."""
        return self.read(due_timers)

    def fire(self, timer: Timer) -> None:
        """Carry out a timer."""
        self.write(self._fire, timer)

    def _fire(self, tx: Tx, timer: Timer) -> None:
        if not take_timer(tx, timer):
            return
        if timer.kind in PLAN_TIMERS:
            self.engine.pauses.on_timer(tx, timer.kind, timer.key)
        elif timer.kind in {EXPIRE, WARN}:
            self.desk.on_timer(tx, timer.kind, timer.key)

    def crash(self, fn: Callable[..., Any] | None = None, *args: Any) -> None:
        """The process dies, maybe in the middle of a transaction, and another one starts."""
        if fn is not None:
            with suppress(Crash, Conflict, NotFound):
                self.write(fn, *args, dies=True)
        self.die()
        self._open()
        self.write(recover, self.engine)
        self.recovered = True

    def die(self) -> None:
        """Nothing is left of the process."""
        self.undo.die()
        self.ground.disk.dies = False
        self.jobs, self.searches = [], []
        self._take_away(lambda held: True)

    # Plans ------------------------------------------------------------------------------------

    def propose(self, plan_id: str, subtasks: tuple[Subtask, ...], parallel: int) -> None:
        """A session with a plan that nobody has approved."""
        revision = rows.revision(*subtasks, plan_id=plan_id)
        session = rows.session(f"s_{plan_id}", workspace=str(self.ground.disk.root))
        plan = rows.plan(
            plan_id, session_id=session.id, digest=revision.digest, max_parallel=parallel
        )

        def write(tx: Tx) -> None:
            add_session(tx, session)
            add_plan(tx, plan)
            add_revision(tx, revision, "architect", "first")
            self.desk.open(tx, question(plan, ApprovalKind.PLAN))

        self.write(write)

    def plan(self, plan_id: str) -> Plan:
        """A plan as it is written."""
        return self.read(plan_of, plan_id)


@dataclass(frozen=True, slots=True)
class _Reads:
    """What the engine's own jobs ask of a store, answered at once."""

    floor: Floor

    def clock(self) -> datetime:
        return self.floor.now

    async def read(self, fn: Callable[..., Any], *args: Any) -> Any:
        return self.floor.read(fn, *args)


def _at_once(job: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives that never waits."""
    try:
        job.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits, and nobody would wake it")


def _live_or_die(dies: bool) -> None:
    if dies:
        raise Crash
