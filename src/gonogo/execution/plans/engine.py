"""The engine: the state machine of plans, in its parts, and the jobs that drive it."""

import dataclasses
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct, field

from gonogo.domain.base import elapsed
from gonogo.domain.errors import Busy, GonogoError, ModelFailed, Unwritable, because
from gonogo.domain.failures import Category, Failure, Patterns, is_away, quota_pause
from gonogo.domain.plan import SubtaskType
from gonogo.domain.records import Job, Plan
from gonogo.domain.replanning import BudgetSpent
from gonogo.domain.states import SubtaskStatus
from gonogo.domain.text_safety import visible_json
from gonogo.domain.tool_calls import Message, UserText
from gonogo.execution.agent import (
    NextStep,
    Profile,
    ReadyCall,
    Speak,
    Thread,
    fields_from,
    first_record,
    is_unheard,
    taken_up,
)
from gonogo.execution.plans.controls import Pauses, PlanControls
from gonogo.execution.plans.ending import PlanEnding, cut
from gonogo.execution.plans.rounds import PlanQuestions, PlanRules, Rounds
from gonogo.execution.scheduling import (
    MODEL,
    Completed,
    Deferred,
    Failed,
    Outcome,
    Parked,
    Retreat,
    Step,
    SubtaskRunner,
    Superseded,
    Work,
)
from gonogo.execution.scheduling.plan_state import PlanState, read_shape
from gonogo.i18n import say
from gonogo.store import Stopwatch, Store, Tx, go_on, seconds_passed
from gonogo.store.plans import (
    plan_of,
    split_key,
    subtask_key,
    subtask_row,
    take_subtask,
    thread_name,
)
from gonogo.store.sessions import append_message, conversation, said_in, session_of

# The engine: the state machine of plans, in its parts.

_S = SubtaskStatus
Done = tuple[Work, Completed | Failed | Deferred]


class WorkStates(Struct, frozen=True):
    """The state changes of subtasks at work, each a part of its caller's transaction."""

    rounds: Rounds
    pauses: Pauses

    def finish(self, tx: Tx, done: Sequence[Done]) -> list[Done]:
        """Write the outcomes of subtasks of one plan, and the round that follows.

        An outcome from a job that no longer holds the subtask is dropped. Returns the outcomes that
        were not written: their agents go on, to hear what a person has said meanwhile.
        """
        board = PlanState.open(tx, done[0][0].revision.plan_id)
        ours = [each for each in done if _is_ours(board, each[0])]
        left = [(w, o) for w, o in ours if isinstance(o, Completed) and _goes_on(board, w, o)]
        over = [each for each in ours if each not in left]
        for work, outcome in over:
            self.rounds.settle(board, work, outcome)
        if deferred := {w.subtask.id: o for w, o in over if isinstance(o, Deferred)}:
            self.pauses.hold_back(board, deferred)
        if over:
            self.rounds.carry_on(board)
        return [*left]

    def goes_on(self, tx: Tx, work: Work, failed: Failed) -> bool:
        """Whether an attempt that would fail goes on, since a person has said something to it."""
        board = PlanState.open(tx, work.revision.plan_id)
        return _is_ours(board, work) and _goes_on(board, work, failed)

    def park(self, tx: Tx, work: Work) -> None:
        """Have a subtask wait for a person; others may run instead.

        Raises:
            Superseded: somebody else holds the subtask.
        """
        board = PlanState.open(tx, work.revision.plan_id)
        if not _is_ours(board, work):
            raise Superseded(f"Subtask {work.subtask.id} is no longer ours")
        board.move(work.subtask.id, _S.WAITING_APPROVAL, worked_ms=work.watch.worked_ms())
        self.rounds.carry_on(board)

    def resume(self, tx: Tx, key: str) -> None:
        """Make a subtask ready again that waited for an answer and has it."""
        plan_id, number, subtask_id = split_key(key)
        board = PlanState.open(tx, plan_id)
        row = board.rows.get(subtask_id)
        if number != board.plan.revision or row is None:
            return
        if row.status is _S.WAITING_APPROVAL:
            board.move(subtask_id, _S.PENDING)
        self.rounds.carry_on(board)

    def take_over(self, tx: Tx, key: str) -> None:
        """After a crash, take a subtask under a new epoch, so that its old holder is fenced."""
        row = subtask_row(tx, key)
        if row is None or row.status is not _S.RUNNING:
            return
        if take_subtask(tx, row):
            go_on(tx, "subtask", key, row.epoch + 1, since=row.active_since)


class Engine(Struct, frozen=True):
    """The steps of an approved plan, each a part of its caller's transaction."""

    rounds: Rounds
    pauses: Pauses
    controls: PlanControls
    work: WorkStates

    @classmethod
    def of(cls, rules: PlanRules, questions: PlanQuestions, ending: PlanEnding) -> "Engine":
        """Put it together.

        Raises:
            InvalidMessage: there is no strategy with the name in the rules.
        """
        rounds = Rounds(rules, questions, ending)
        pauses = Pauses(rounds)
        return cls(rounds, pauses, PlanControls(rounds, pauses), WorkStates(rounds, pauses))


def check_held(tx: Tx, work: Work) -> None:
    """Check that a subtask is still ours, before writing anything for it.

    Raises:
        Superseded: somebody else holds it.
    """
    row = subtask_row(tx, work.key)
    if row is None or row.epoch != work.epoch or row.status is not _S.RUNNING:
        raise Superseded(f"Subtask {work.subtask.id} is no longer ours")


def _goes_on(board: PlanState, work: Work, said: Completed | Failed) -> bool:
    """Whether its agent still has something to hear; then its last reply is stored as no end."""
    if said.also is None or work.subtask.id not in (board.plan.steered or ()):
        return False
    thread = thread_name(work.key, board.rows[work.subtask.id].attempt)
    if not is_unheard(board.tx, board.plan.session_id, thread, said.heard):
        return False
    said.also(board.tx)
    return True


def _is_ours(board: PlanState, work: Work) -> bool:
    same = work.revision.number == board.plan.revision
    return same and board.is_held(work.subtask.id, work.epoch)


# The jobs of plans and subtasks.

# Batches: values that arrive together are written together.
#
# Promises: `put` returns when its value is written or turned down, and raises if that value cannot
# be written; an error of one value affects no other. While one batch of a key is written, the next
# one gathers: so many values at once share a transaction, and a single value does not wait.

T = TypeVar("T")


class _Batch(Struct, Generic[T]):
    items: list[T]
    left: Sequence[T] = ()
    written: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None


class Batches(Generic[T]):
    """Gathers values by key and gives them to a function that writes several at once.

    That function returns the values that it turned down.
    """

    def __init__(self, write: Callable[[Sequence[T]], Awaitable[Sequence[T]]]) -> None:
        self._write = write
        self._open: dict[str, _Batch[T]] = {}
        self._last: dict[str, _Batch[T]] = {}
        """The batches that are being written."""

    async def put(self, key: str, item: T) -> bool:
        """Have a value written, together with those that arrive at the same time.

        False if it was turned down.
        """
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _Batch([item])
            await self._lead(key, batch)
        else:
            batch.items.append(item)
            await batch.written.wait()
        if batch.error is None:
            return item not in batch.left
        if len(batch.items) == 1:
            raise batch.error
        return not await self._write([item])

    async def _lead(self, key: str, batch: _Batch[T]) -> None:
        # If the first one of a batch is stopped, the others must not suffer from it.
        with anyio.CancelScope(shield=True):
            if (before := self._last.get(key)) is not None:
                await before.written.wait()
            else:
                # Tasks that are ready to put a value do so first.
                await checkpoint()
            self._last[key] = batch
            del self._open[key]
            # If a batch fails, its values are written one by one, so that each gets its own error.
            try:
                batch.left = await self._write(batch.items)
            except Exception as error:
                batch.error = error
            finally:
                del self._last[key]
                batch.written.set()


_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True, kw_only=True)
class PlanRunner:
    """Runs plans over one store: the jobs of plans and subtasks."""

    store: Store
    engine: Engine
    subtasks: SubtaskRunner
    timeout: float | None = None
    """Seconds of work for a subtask that names no timeout of its own."""
    retreat: Retreat | None = None
    """Puts back the files of a failed attempt; None: they stay."""
    patterns: Patterns = dataclasses.field(default_factory=Patterns)
    """How failures are classified that have no type."""
    seconds: Callable[[], float] = seconds_passed
    """A monotonic clock, in seconds."""
    _done: Batches[Done] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Write outcomes together that come at the same time."""
        self._done = Batches(self._write_done)

    # Jobs -------------------------------------------------------------------------------------

    async def plan_job(self, job: Job) -> None:
        """Give a running plan its next round."""
        await self.store.write(self.engine.rounds.advance, job.key)

    async def subtask_job(self, job: Job) -> None:
        """Carry out one subtask as far as it goes, and write its outcome."""
        work = await self._work(job)
        if work is None:
            return
        outcome = await self._interrupted(work) or await self._carried_out(work)
        while not await self._is_over(work, outcome):
            # The call that had started with the job has run by now.
            work = dataclasses.replace(work, begun=None)
            outcome = await self._carried_out(work)

    async def _is_over(self, work: Work, outcome: Outcome) -> bool:
        """Write the outcome of a subtask; False: it goes on, as a person has said something."""
        if isinstance(outcome, Parked):
            return True
        if isinstance(outcome, Failed):
            # Once its files are back where they were, its agent cannot go on.
            if outcome.also and await self.store.write(self.engine.work.goes_on, work, outcome):
                return False
            if self.retreat is not None:
                await self.retreat.undo(work)
        return await self._done.put(work.revision.plan_id, (work, outcome))

    async def _work(self, job: Job) -> Work | None:
        plan_id, number, subtask_id = split_key(job.key)
        shape = job.found or await self.store.read(read_shape, plan_id, number)
        if shape is None:
            return None
        since = job.since or await self.store.read(_active_since, job.key)
        worked = elapsed(since, self.store.clock()) if since else 0.0
        return Work(
            key=job.key, revision=shape.revision, subtask=shape.graph.subtasks[subtask_id],
            epoch=job.epoch, since=since, begun=job.begun, watch=Stopwatch(worked, self.seconds),
        )  # fmt: skip

    async def _interrupted(self, work: Work) -> Failed | None:
        if self.retreat is None or not await self.store.read(self.retreat.began, work):
            return None
        # Its files may be back already, so its agent cannot go on from where it was.
        told = because("the attempt had failed; gonogo stopped while it undid the changes")
        return Failed(Failure(message=told))

    async def _carried_out(self, work: Work) -> Outcome:
        with anyio.move_on_after(self._seconds_left(work)) as scope, work.watch.holding(scope):
            try:
                return await self.subtasks.run(work)
            except Superseded:
                return Parked()
            except Busy:
                # Not the subtask's failure: it goes on once the database is back.
                raise
            except GonogoError as error:
                return self._deferred(error) or Failed(self.patterns.diagnose(error))
            except Exception:
                _LOG.exception("subtask %s failed", work.key)
                return Failed(
                    Failure(message=because("an internal error; the log has the details"))
                )
        assert scope.cancelled_caught  # noqa: S101 - the only way here
        seconds = work.subtask.timeout or self.timeout
        spent = because("Timed out after {seconds:g} s", seconds=seconds)
        return Failed(Failure(message=spent, category=Category.TIMEOUT))

    def _deferred(self, error: GonogoError) -> Deferred | None:
        """The outcome if a quota, a budget, a model or a disk is away: no failure of the work."""
        if isinstance(error, BudgetSpent):
            return Deferred(spent=error.excess)
        if isinstance(error, Unwritable):
            return Deferred(away=error)
        if isinstance(error, ModelFailed) and is_away(error) and self.engine.rounds.rules.patience:
            return Deferred(away=error)
        if (seconds := quota_pause(error)) is None:
            return None
        return Deferred(self.store.clock() + timedelta(seconds=seconds))

    def _seconds_left(self, work: Work) -> float | None:
        limit = work.subtask.timeout or self.timeout
        return None if limit is None else max(0.0, limit - work.watch.worked())

    async def _write_done(self, done: Sequence[Done]) -> Sequence[Done]:
        return await self.store.write(self.engine.work.finish, done)


def _active_since(tx: Tx, key: str) -> datetime | None:
    row = subtask_row(tx, key)
    return row.active_since if row else None


# The conversations in which subtasks are carried out.


class Opening(Struct, frozen=True, kw_only=True):
    """How to open a conversation for a subtask, and with whom."""

    agent: str
    profile: Profile | None = None
    """The profile to use instead of the one of the agent's name."""
    speak: Speak | None = None
    """What replies instead of a model; it needs no brief."""
    ending: str | None = None
    """Key of the text that says how the conversation ends."""
    told: str | None = None
    """The first message, instead of the subtask's brief."""
    part: str = ""
    """The end of its name, if it is one of several conversations of the same attempt."""
    words: str | None = None
    """The command of the check for which the conversation is opened."""
    attended: bool = True
    """Somebody may be asked."""


class Threads(Struct, frozen=True, kw_only=True):
    """The conversations of subtasks."""

    store: Store
    engine: Engine

    async def open(self, step: Step, opening: Opening) -> tuple[Thread, NextStep]:
        """Begin the conversation of an attempt, or go on with it; return it and its state.

        Its open calls are taken up: the caller drives it.

        Raises:
            Superseded: somebody else holds the subtask.
        """
        return await self.store.write(self._open, step, opening)

    def _open(self, tx: Tx, step: Step, opening: Opening) -> tuple[Thread, NextStep]:
        work = step.work
        check_held(tx, work)
        plan = plan_of(tx, work.revision.plan_id)
        assert plan is not None  # noqa: S101 - `check` found its subtask
        session = session_of(tx, plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        name = thread_name(work.key, step.attempt) + opening.part
        stored = None
        if opening.speak is None and not _is_begun(said := conversation(tx, session.id, name)):
            before = _said_before(tx, plan, work, name)
            told = opening.told or brief(step, session.spoken, opening.ending, before)
            task = UserText(content=told)
            append_message(tx, session.id, name, task, agent=opening.agent)
            stored = first_record(tx, session.id, [*said, task], waited=plan.pause_reason == MODEL)
        is_review = work.subtask.type == SubtaskType.VALIDATION or bool(opening.part)
        shared = fields_from(session)
        shared["attended"] &= opening.attended
        thread = Thread(
            **shared, name=name, script=work.subtask.id + opening.part, agent=opening.agent,
            plan_id=plan.id, revision=work.revision.number, subtask_id=work.subtask.id,
            auto_approve=plan.auto_approve_tools, profile=opening.profile, speak=opening.speak,
            words=opening.words, owner=_SubtaskOwner(self.engine, work),
            role="review" if is_review else "work",
        )  # fmt: skip
        return thread, NextStep(stored=stored) if stored else taken_up(tx, thread)


def begun_in(step: Step, thread: Thread) -> ReadyCall | None:
    """The call that has started with the job, if it belongs to this conversation."""
    begun: ReadyCall | None = step.work.begun
    return begun if begun is not None and begun.call.thread == thread.name else None


def _is_begun(messages: Sequence[Message]) -> bool:
    """Whether the conversation has its brief already; people may say something before it."""
    return any(isinstance(message, UserText) for message in messages)


def _said_before(tx: Tx, plan: Plan, work: Work, thread: str) -> list[str]:
    """What people said to earlier attempts at a subtask, in every revision of its plan."""
    if work.subtask.id not in (plan.steered or ()):
        return []
    numbers = range(1, work.revision.number + 1)
    keys = [subtask_key(plan.id, number, work.subtask.id) for number in numbers]
    attempts = {key: row.attempt for key in keys if (row := subtask_row(tx, key)) is not None}
    threads = {thread_name(k, n) for k, most in attempts.items() for n in range(1, most + 1)}
    return [said.content for said in said_in(tx, plan.session_id, threads - {thread})]


class _SubtaskOwner(Struct, frozen=True):
    """A subtask as the owner of its attempt's conversation; its plan waits for what is away."""

    engine: Engine
    work: Work

    def check(self, tx: Tx) -> None:
        check_held(tx, self.work)

    def park(self, tx: Tx) -> None:
        self.engine.work.park(tx, self.work)

    def is_waiting(self, tx: Tx) -> bool:
        plan = plan_of(tx, self.work.revision.plan_id)
        return plan is not None and plan.pause_reason == MODEL

    def answered(self, tx: Tx) -> None:
        self.engine.pauses.end_absence(tx, self.work.revision.plan_id)


# The brief of a subtask: the first message of its conversation.

_SHOWN = 4_000
"""Characters of each part of a dependency's result in a brief."""
_MOST_SAID = 20
"""How many messages of people to earlier attempts a new attempt gets: the newest."""


def brief(step: Step, locale: str, ending: str | None = None, said: Sequence[str] = ()) -> str:
    """What to do, what it may touch, what is known, and how it ends.

    Args:
        ending: Key of the text that says how it ends.
        said: What people said to earlier attempts at it.
    """
    subtask = step.subtask
    parts = [
        say(
            "model_subtask", locale, goal=step.work.revision.goal, subtask=subtask.id,
            description=subtask.description,
        )
    ]  # fmt: skip
    if subtask.scope is not None:
        scope = json.dumps(subtask.scope.model_dump(exclude_defaults=True), ensure_ascii=False)
        parts.append(say("model_subtask_scope", locale, scope=scope))
    if subtask.done_when:
        parts.extend(_checks(step, locale))
    if step.inputs:
        parts.append(json.dumps({"inputs": step.inputs}, ensure_ascii=False))
    if subtask.dependencies:
        parts.append(say("model_subtask_results", locale))
    parts.extend(_result_of(step, dependency, locale) for dependency in subtask.dependencies)
    if said:
        parts.append(say("model_subtask_steered", locale))
        parts.extend(said[-_MOST_SAID:])
    if ending is not None:
        parts.append(say(ending, locale))
    return "\n\n".join(parts)


def _checks(step: Step, locale: str) -> Iterator[str]:
    """The checks of the subtask, and the failure of an earlier attempt."""
    checks = "\n".join(f"- {check.text}" for check in step.subtask.done_when or ())
    yield say("model_subtask_checks", locale, checks=checks)
    if step.failed is not None:
        said = visible_json({"failure": cut(step.failed, _SHOWN, locale)})
        yield say("model_subtask_again", locale, said=said)


def _result_of(step: Step, dependency: str, locale: str) -> str:
    done, result = step.work.revision.subtask(dependency), step.results[dependency]
    return say(
        "model_dependency", locale, subtask=dependency, description=done.description,
        agent=done.agent or done.tool or done.type, status=result["status"],
        metadata=cut(result["metadata"], _SHOWN, locale),
        output=cut(result["output"], _SHOWN, locale),
    )  # fmt: skip
