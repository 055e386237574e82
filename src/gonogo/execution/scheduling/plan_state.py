"""A plan as one transaction sees and changes it.

The plan is locked, and its revision and all standings are read once. Moves are applied here as they
come, and are written together as compare-and-sets.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.errors import Conflict, InvalidMessage, NotFound
from gonogo.domain.plan import Subtask, no_subtask
from gonogo.domain.records import Plan, SubtaskRow
from gonogo.domain.schedule import (
    Outlook,
    Round,
    Shape,
    Standings,
    Strategy,
    SubtaskStanding,
    schedule,
)
from gonogo.domain.states import ENDED, SUBTASK, PlanStatus, SubtaskStatus
from gonogo.i18n import told
from gonogo.store import Tx
from gonogo.store.calls import doubted_subtasks
from gonogo.store.plans import (
    Move,
    lock_plan,
    move_plan,
    move_subtasks,
    revision_of,
    set_plan,
    standings,
    subtask_key,
    subtask_row,
    subtask_rows,
)
from gonogo.store.sessions import spoken_in
from gonogo.store.transaction import KnownPlan

# The shape of a revision, as rounds need it; built once.


def shape_of(tx: Tx, plan: Plan) -> Shape:
    """The shape of a plan's current revision."""
    kept = _kept(plan.id, plan.revision)
    # A transaction that is rolled back may leave a revision here that never existed; a later one
    # with the same number has another digest.
    if kept and kept[0][0] == plan.digest:
        return kept[0][1]
    found = read_shape(tx, plan.id, plan.revision)
    assert found is not None  # noqa: S101 - a plan's current revision is a foreign key away
    kept[:] = [(plan.digest, found)]
    return found


def read_shape(tx: Tx, plan_id: str, number: int) -> Shape | None:
    """The shape of any revision."""
    revision = revision_of(tx, plan_id, number)
    return None if revision is None else Shape.of(revision)


@lru_cache(maxsize=256)
def _kept(plan_id: str, number: int) -> list[tuple[str, Shape]]:
    return []


# The pace of plans: which of the ready subtasks go first, and how many run at once.

_LOG = logging.getLogger(__name__)


class Pace(Struct, frozen=True, kw_only=True):
    """What an operator configures about the order and the number of subtasks."""

    strategy: Strategy
    per_agent: int | None = None
    """Subtasks of one plan that one agent carries out at once."""
    per_workspace: int | None = None
    """Subtasks of all plans that run at once in one workspace."""


def chosen(name: str, strategies: Mapping[str, Strategy]) -> Strategy:
    """The strategy of that name, made harmless: if it raises, the plan's order holds.

    Raises:
        InvalidMessage: there is none; the text lists the known ones.
    """
    if name not in strategies:
        known = ", ".join(sorted(strategies))
        raise InvalidMessage(
            "There is no strategy {name!r}; use one of {known}", name=name, known=known
        )
    strategy = strategies[name]

    def ordered(ready: Sequence[Subtask], outlook: Outlook) -> Iterable[str]:
        try:
            return dict.fromkeys(strategy(ready, outlook))
        except Exception:
            _LOG.exception("strategy %s failed; plan order it is", name)
            return ()

    return ordered


def result_of(row: SubtaskRow) -> dict[str, Any]:
    """A subtask's result as conditions and inputs of others see it: `{status, output, …}`."""
    result: dict[str, Any] | Any = row.result
    found = cast("dict[str, Any]", result) if isinstance(result, dict) else {"output": result}
    return {**found, "status": str(row.status)}


def unsettled(tx: Tx, plan: Plan, rows: Mapping[str, SubtaskStanding]) -> frozenset[str]:
    """The subtasks under way that had a call with an unknown outcome.

    If they began anew, they could repeat what they have done. So they come to their end before
    another revision replaces the plan's present one.
    """
    over = SUBTASK.terminal
    begun = frozenset(k for k, row in rows.items() if row.status not in over and goes_on(row))
    return begun & doubted_subtasks(tx, plan.id, plan.revision) if begun else begun


def goes_on(row: SubtaskStanding) -> bool:
    """Whether starting a subtask goes on with its attempt, and begins no new one."""
    return row.attempt > 0 and row.not_before is None


def waits_for_answer(plan: Plan) -> bool:
    """Whether a plan rests until a person answers about its budget or its model."""
    return plan.pause_reason in (BUDGET, MODEL) and plan.paused_until is None


class PlanState(Struct):
    """One plan, for the time of one transaction."""

    tx: Tx
    plan: Plan
    shape: Shape
    stand: Standings
    taken: KnownPlan
    """The plan as it was read, or as the writer knew it; its standings are `stand`."""
    freed: int = 0
    """How many subtasks have stopped running in this transaction."""
    later: set[str] = field(default_factory=set[str])
    """Subtasks about which a person is asked once there is room for their questions."""
    _over: bool = False

    @property
    def now(self) -> datetime:
        """The time of the transaction."""
        return self.tx.now

    @property
    def rows(self) -> Mapping[str, SubtaskStanding]:
        """The state of each of the plan's subtasks."""
        return self.stand.rows

    @classmethod
    def open(cls, tx: Tx, plan_id: str) -> "PlanState":
        """Lock a plan and look at it.

        Raises:
            NotFound: there is none with that id.
        """
        read = partial(_read, tx, plan_id)
        known = tx.known.take(plan_id, read) if tx.known else read()
        return cls(tx, known.plan, known.shape, known.stand, known)

    def at_approved(self) -> "PlanState":
        """Put the plan back to the revision approved last: what was proposed since never runs.

        A plan that was never approved stays as it is.
        """
        plan, number = self.plan, self.plan.approved_revision
        if number is None or number == plan.revision:
            return self
        approved = revision_of(self.tx, plan.id, number)
        assert approved is not None  # noqa: S101 - it was the plan's own
        self.set_plan(revision=approved.number, digest=approved.digest)
        return PlanState.open(self.tx, plan.id)

    def told(self, reason: str) -> str:
        """A reason in the language of the plan's session."""
        return told(reason, spoken_in(self.tx, self.plan.session_id))

    def key(self, subtask_id: str) -> str:
        """The key of a subtask's row."""
        return subtask_key(self.plan.id, self.plan.revision, subtask_id)

    def is_held(self, subtask_id: str, epoch: int) -> bool:
        """Whether a subtask runs, and under that epoch."""
        row = self.rows.get(subtask_id)
        return row is not None and row.status is SubtaskStatus.RUNNING and row.epoch == epoch

    def open_row(self, subtask_id: str) -> SubtaskStanding:
        """The state of a subtask that is not over.

        Raises:
            NotFound: the plan has no such subtask.
            Conflict: the subtask or the plan is over.
        """
        row = self.rows.get(subtask_id)
        if row is None:
            raise no_subtask(self.plan.id, subtask_id)
        if row.status in SUBTASK.terminal:
            raise Conflict(
                "Subtask {subtask_id} is already {subtask_status}; look at the plan again",
                subtask_id=subtask_id, subtask_status=row.status,
            )  # fmt: skip
        if self.plan.status in ENDED:
            raise Conflict(
                "This is not possible while plan {plan_id} is {plan_status}; look at the plan "
                "again",
                plan_id=self.plan.id, plan_status=self.plan.status,
            )  # fmt: skip
        return row

    def whole_row(self, subtask_id: str) -> SubtaskRow:
        """The whole row of a subtask, as the database has it."""
        row = subtask_row(self.tx, self.key(subtask_id))
        assert row is not None  # noqa: S101 - it has a standing
        return row

    def results(self) -> dict[str, dict[str, Any]]:
        """The results of the plan's subtasks so far, for conditions."""
        self.write()
        rows = subtask_rows(self.tx, self.plan.id, self.plan.revision)
        return {row.subtask_id: result_of(row) for row in rows}

    def move(self, subtask_id: str, status: SubtaskStatus, **to: Any) -> None:  # noqa: ANN401
        """Change the state of a subtask, and other columns of its row.

        Raises:
            IllegalTransition: a subtask's state machine has no such move.
        """
        row = self.rows[subtask_id]
        SUBTASK.check(row.status, status, subtask_id)
        self.taken.moves.append(Move(self.key(subtask_id), row.status, row.epoch, status, to))
        self.stand.put(subtask_id, row.moved(status, to))
        self._over = self._over or status in SUBTASK.terminal
        self.freed += row.status is SubtaskStatus.RUNNING

    def count_running(self) -> int:
        """How many of the plan's subtasks run."""
        return len(self.stand.running)

    def is_quiet(self) -> bool:
        """Whether no subtask is under way: each is over, or has not begun."""
        idle = (row.status in SUBTASK.terminal or _is_new(row) for row in self.rows.values())
        return all(idle)

    def unsettled(self) -> frozenset[str]:
        """The subtasks under way that had a call with an unknown outcome."""
        return unsettled(self.tx, self.plan, self.rows)

    def next_round(
        self, pace: Pace, room: int | None = None, only: Collection[str] | None = None
    ) -> Round:
        """What the scheduler would do now.

        Args:
            room: How many of the plan's subtasks may run in its workspace; None: no limit.
            only: The subtasks that may start; None: all.
        """
        held = set(self.later)
        if only is not None:
            held |= {key for key, row in self.rows.items() if _is_pending(row) and key not in only}
        most = self.plan.max_parallel
        return schedule(
            self.stand,
            max_parallel=most if room is None else min(most, room),
            now=self.now,
            max_per_agent=pace.per_agent,
            strategy=pace.strategy,
            held=held,
        )

    def has_news(self) -> bool:
        """Whether a subtask ended since this was asked for the last time."""
        over, self._over = self._over, False
        return over

    def count_over(self) -> int:
        """How many of the plan's subtasks are over."""
        return self.stand.count_ended()

    def count_settled(self) -> int:
        """How many are over and did not fail; the next revision tries failed ones again."""
        return self.stand.count_ended() - self.stand.counts[SubtaskStatus.FAILED]

    def write(self) -> None:
        """Write the moves that were made.

        Raises:
            Conflict: a row has changed since it was read.
        """
        moves = self.taken.moves
        is_done = move_subtasks(self.tx, moves, self.taken)
        moves.clear()
        if not is_done:
            raise Conflict(
                "A subtask of plan {plan_id} has just changed; look at the plan again",
                plan_id=self.plan.id,
            )

    def move_plan(self, status: PlanStatus, **to: Any) -> None:  # noqa: ANN401
        """Change the plan's status.

        Raises:
            Conflict: the plan has changed since it was read.
        """
        self._changed(move_plan(self.tx, self.plan, status, **to), status=status, **to)

    def set_plan(self, **to: Any) -> None:  # noqa: ANN401
        """Change other columns of the plan.

        Raises:
            Conflict: the plan has changed since it was read.
        """
        self._changed(set_plan(self.tx, self.plan, **to), **to)

    def _changed(self, is_done: bool, **to: Any) -> None:  # noqa: ANN401
        if not is_done:
            raise Conflict(
                "Plan {plan_id} has just changed; look at it again", plan_id=self.plan.id
            )
        self.plan = replace(self.plan, **to)

    def may_rest(self) -> bool:
        """Whether the plan runs or is being replanned, and has no pause yet."""
        going = self.plan.status in (PlanStatus.RUNNING, PlanStatus.REPLANNING)
        return going and self.plan.pause_reason is None

    def rest(self, **to: Any) -> None:  # noqa: ANN401
        """Pause the plan, or change why it is paused.

        A plan that is being replanned keeps its status; its search and its running subtasks rest.

        Raises:
            Conflict: the plan has changed since it was read.
        """
        if self.plan.status is PlanStatus.RUNNING:
            self.move_plan(PlanStatus.PAUSED, **to)
        else:
            self.set_plan(**to)


def _read(tx: Tx, plan_id: str) -> KnownPlan:
    plan = lock_plan(tx, plan_id)
    if plan is None:
        raise NotFound("No plan found with id={plan_id}", see="gonogo plans list", plan_id=plan_id)
    shape = shape_of(tx, plan)
    return KnownPlan(plan, shape, Standings(shape.graph, standings(tx, plan_id, plan.revision)))


def _is_pending(row: SubtaskStanding) -> bool:
    return row.status is SubtaskStatus.PENDING


def _is_new(row: SubtaskStanding) -> bool:
    return _is_pending(row) and row.attempt == 0


# The names of a plan's timers, of its job and of its pauses.

ADVANCE = "plan_advance"
"""The timer that asks for a round when a retry is due, although nothing has changed."""
RESUME = "plan_resume"
"""The timer that ends a pause for a quota."""
PLAN_TIMEOUT = "plan_timeout"
"""The timer that ends a plan, whatever is left to do."""
PLAN_TIMERS = frozenset({ADVANCE, RESUME, PLAN_TIMEOUT})
REPLAN = "replan"
"""The job that looks for the next revision of a plan once nothing of it runs any more."""
BUDGET, QUOTA, MODEL, DISK = "budget", "quota", "model", "disk"
AWAY = frozenset({MODEL, DISK})
"""What is away when a plan pauses for it; one of the plan's subtasks finds out if it is back."""
BY_ITSELF = AWAY | {QUOTA}
"""Reasons for a pause that ends by itself, if it has an end time."""
ROLLING_BACK = "rollback"
"""Why a paused plan cannot go on: its files are being put back. If its pause had an end time, the
plan keeps that, and gets its timer again once the files are back."""
NO_PAUSE: dict[str, Any] = {"pause_reason": None, "paused_until": None, "away": None}
"""The columns of a plan that has no pause."""
GOING = frozenset({PlanStatus.RUNNING, PlanStatus.PAUSED})
"""A plan in which something can be tried again although it has not ended."""
