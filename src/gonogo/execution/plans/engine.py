"""The engine: the state machine of plans, in its parts."""

from collections.abc import Sequence

from msgspec import Struct

from gonogo.domain.states import SubtaskStatus
from gonogo.execution.agent import is_unheard
from gonogo.execution.plans.controls import Pauses, PlanControls
from gonogo.execution.plans.ending import PlanEnding
from gonogo.execution.plans.rounds import PlanQuestions, PlanRules, Rounds
from gonogo.execution.scheduling import Completed, Deferred, Failed, Superseded, Work
from gonogo.execution.scheduling.plan_state import PlanState
from gonogo.store import Tx, go_on
from gonogo.store.plans import split_key, subtask_row, take_subtask, thread_name

_S = SubtaskStatus
Done = tuple[Work, Completed | Failed | Deferred]


class WorkStates(Struct, frozen=True):
    """What those who carry subtasks out write, each a part of its caller's transaction."""

    rounds: Rounds
    pauses: Pauses

    def finish(self, tx: Tx, done: Sequence[Done]) -> list[Done]:
        """Write what came of subtasks of one plan, and the round that follows.

        What a superseded holder brings is dropped: somebody else has the subtask. Gives what was
        not to be written: who said so goes on, to hear what a person has said meanwhile.
        """
        board = PlanState.open(tx, done[0][0].revision.plan_id)
        ours = [each for each in done if _is_ours(board, each[0])]
        left = [(w, o) for w, o in ours if isinstance(o, Completed) and _goes_on(board, w, o)]
        over = [each for each in ours if each not in left]
        for work, outcome in over:
            self.rounds.settle(board, work, outcome)
        self.pauses.hold_back(board, {w.subtask.id: o for w, o in over if isinstance(o, Deferred)})
        if over:
            self.rounds.carry_on(board)
        return [*left]

    def goes_on(self, tx: Tx, work: Work, failed: Failed) -> bool:
        """Whether an attempt that would fail goes on, since a person has said something to it."""
        board = PlanState.open(tx, work.revision.plan_id)
        return _is_ours(board, work) and _goes_on(board, work, failed)

    def park(self, tx: Tx, work: Work) -> None:
        """A subtask waits for a person; others may take its place.

        Raises:
            Superseded: somebody else holds the subtask.
        """
        board = PlanState.open(tx, work.revision.plan_id)
        if not _is_ours(board, work):
            raise Superseded(f"Subtask {work.subtask.id} is no longer ours")
        worked = board.worked_ms(work.subtask.id, work.counts_from)
        board.move(work.subtask.id, _S.WAITING_APPROVAL, worked_ms=worked)
        self.rounds.carry_on(board)

    def resume(self, tx: Tx, key: str) -> None:
        """A subtask that waited has its answer: it takes its place among the ready ones."""
        plan_id, number, subtask_id = split_key(key)
        board = PlanState.open(tx, plan_id)
        row = board.rows.get(subtask_id)
        if number != board.plan.revision or row is None:
            return
        if row.status is _S.WAITING_APPROVAL:
            board.move(subtask_id, _S.PENDING)
        self.rounds.carry_on(board)

    def take_over(self, tx: Tx, key: str) -> None:
        """After a crash: hold a subtask anew, so that whoever held it before is fenced."""
        row = subtask_row(tx, key)
        if row is None or row.status is not _S.RUNNING:
            return
        if take_subtask(tx, row):
            go_on(tx, "subtask", key, row.epoch + 1, since=row.active_since)


class Engine(Struct, frozen=True):
    """Every step of a plan that was approved is a part of its caller's transaction."""

    rounds: Rounds
    pauses: Pauses
    controls: PlanControls
    work: WorkStates

    @classmethod
    def of(cls, rules: PlanRules, questions: PlanQuestions, ending: PlanEnding) -> "Engine":
        """Put it together.

        Raises:
            InvalidMessage: there is no strategy of the name in the rules.
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
    """Whether its agent has to hear something yet. What it said last is kept then, and no end."""
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
