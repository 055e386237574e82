"""Retry: a person has a failed subtask done again, after its plan has ended."""

from dataclasses import dataclass
from datetime import datetime

from gonogo.domain.errors import Conflict, NotFound
from gonogo.domain.plan import Revision, dependants
from gonogo.domain.plan_state import PlanStatus
from gonogo.domain.records import SubtaskRow
from gonogo.domain.subtask_state import SubtaskStatus
from gonogo.orchestrator._planning import Planning
from gonogo.orchestrator._proposal import ARCHITECT
from gonogo.orchestrator._revising import take_up
from gonogo.store import Connection, log
from gonogo.store.plans import lock_plan, revision_of, subtask_rows
from gonogo.store.sessions import session_of, set_session

_S = SubtaskStatus
_AGAIN = frozenset({_S.FAILED, _S.CANCELLED, _S.SKIPPED})


@dataclass(frozen=True, slots=True)
class Retry:
    """The next revision of an ended plan: the same subtasks, some of them to be done again."""

    planning: Planning

    def subtask(
        self, conn: Connection, plan_id: str, subtask_id: str, by: str, now: datetime
    ) -> None:
        """Do one subtask again, and those that were skipped because of it.

        Rows never leave a terminal state, so the plan gets a new revision; what completed is
        kept. The person who asks for it is the one who approves it.

        Raises:
            NotFound: there is no such plan or subtask.
            Conflict: the plan has not failed, or the subtask did not fail.
        """
        plan = lock_plan(conn, plan_id)
        if plan is None:
            raise NotFound(f"No plan found with id={plan_id}")
        if plan.status not in {PlanStatus.FAILED, PlanStatus.PARTIAL}:
            raise Conflict(f"Plan {plan_id} is {plan.status}; only a failed one is tried again")
        current = revision_of(conn, plan_id, plan.revision)
        assert current is not None  # noqa: S101 - a plan's current revision exists
        rows = {row.subtask_id: row for row in subtask_rows(conn, plan_id, plan.revision)}
        again = _again(current, rows, subtask_id)
        session = session_of(conn, plan.session_id)
        if session is None or session.active_plan_id is not None:
            raise Conflict("The session has another plan; that one comes first")
        revision = current.model_copy(update={"number": plan.revision + 1})
        kept = {key: row for key, row in rows.items() if key not in again}
        revised = take_up(conn, plan, revision, kept, by, f"retry of {subtask_id}", now)
        set_session(conn, session.id, active_plan_id=plan.id, agent=ARCHITECT)
        log.note(
            conn, session.id, now, actor=by, action="plan.retried", subject=plan.id,
            revision=revision.number, digest=revision.digest, subtasks=sorted(again),
        )  # fmt: skip
        self.planning.begin(conn, revised, now)


def _again(revision: Revision, rows: dict[str, SubtaskRow], subtask_id: str) -> frozenset[str]:
    """The subtask, and those dependants that did not complete."""
    row = rows.get(subtask_id)
    if row is None:
        raise NotFound(f"Plan {revision.plan_id} has no subtask {subtask_id}")
    if row.status not in _AGAIN:
        raise Conflict(f"Subtask {subtask_id} is {row.status}; there is nothing to try again")
    waiting = dependants(revision.subtasks, subtask_id)
    return frozenset({subtask_id}) | {key for key in waiting if rows[key].status in _AGAIN}
