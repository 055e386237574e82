"""Retry: a person has a failed subtask done again, after its plan has ended or while it goes on."""

from dataclasses import dataclass
from typing import Any

from gonogo.domain.errors import Conflict, NotFound
from gonogo.domain.plan import Revision, dependants
from gonogo.domain.records import Plan, SubtaskRow
from gonogo.domain.states import SUBTASK, PlanStatus, SubtaskStatus
from gonogo.execution.plans.lifecycle import ARCHITECT, Planning
from gonogo.execution.plans.revisions import take_up, undone
from gonogo.execution.scheduling import GOING
from gonogo.store import Tx
from gonogo.store import events as log
from gonogo.store.plans import current_revision, lock_plan, set_plan, subtask_rows
from gonogo.store.sessions import session_of, set_session

_S = SubtaskStatus
_AGAIN = frozenset({_S.FAILED, _S.CANCELLED, _S.SKIPPED})
_ENDED = frozenset({PlanStatus.FAILED, PlanStatus.PARTIAL})
Rows = dict[str, SubtaskRow]


@dataclass(frozen=True, slots=True)
class Retry:
    """The next revision of a plan: the same subtasks, some of them to be done again."""

    planning: Planning

    def subtask(self, tx: Tx, plan_id: str, subtask_id: str, by: str) -> None:
        """Do one subtask again, and those that were skipped because of it.

        Rows never leave a terminal state, so the plan gets a new revision; what completed is
        kept, unless its files were taken back. The person who asks for it is the one who approves
        it. In a plan that goes on, what is under way comes to its rest first, and nothing of it is
        disturbed.

        Raises:
            NotFound: there is no such plan or subtask.
            Conflict: the plan neither goes on nor has failed, or the subtask did not fail.
        """
        plan = lock_plan(tx, plan_id)
        if plan is None:
            raise NotFound(f"No plan found with id={plan_id}")
        if plan.status not in GOING | _ENDED:
            raise Conflict(f"Plan {plan_id} is {plan.status}; nothing of it is tried again now")
        if plan.rollback is not None:
            raise Conflict(f"A rollback of plan {plan_id} is not finished")
        current, rows = _stand(tx, plan)
        again = _again(current, rows, subtask_id) | undone(tx, plan, rows.values())
        if plan.status in GOING:
            self._keep(tx, plan, subtask_id, by)
            return
        session = session_of(tx, plan.session_id)
        if session is None or session.active_plan_id is not None:
            raise Conflict("The session has another plan; that one comes first")
        revised = _revise(tx, plan, rows, again, by)
        set_session(tx, session.id, active_plan_id=plan.id, agent=ARCHITECT)
        self.planning.begin(tx, revised)

    def carry_out(self, tx: Tx, plan: Plan) -> None:
        """Go on with a revision in which all is tried again that people asked for.

        Nothing of the plan is under way.
        """
        current, rows = _stand(tx, plan)
        asked = [each for each in plan.again or () if rows[each["subtask_id"]].status in _AGAIN]
        again = frozenset[str]().union(
            undone(tx, plan, rows.values()),
            *(_again(current, rows, each["subtask_id"]) for each in asked),
        )
        if asked:
            _revise(tx, plan, rows, again, asked[-1]["by"])
        else:
            set_plan(tx, plan, again=None)
        self.planning.advance(tx, plan.id)

    def _keep(self, tx: Tx, plan: Plan, subtask_id: str, by: str) -> None:
        asked = plan.again or []
        if any(each["subtask_id"] == subtask_id for each in asked):
            raise Conflict(f"Subtask {subtask_id} is to be tried again already")
        set_plan(tx, plan, again=[*asked, {"subtask_id": subtask_id, "by": by}])
        log.note(
            tx, plan.session_id, actor=by, action="plan.retry_asked", subject=plan.id,
            subtask_id=subtask_id, revision=plan.revision,
        )  # fmt: skip
        self.planning.advance(tx, plan.id)


def _stand(tx: Tx, plan: Plan) -> tuple[Revision, Rows]:
    return current_revision(tx, plan), {
        row.subtask_id: row for row in subtask_rows(tx, plan.id, plan.revision)
    }


def _revise(tx: Tx, plan: Plan, rows: Rows, again: frozenset[str], by: str) -> Plan:
    """The next revision; what has not begun begins in it as it would have."""
    over = {key: row for key, row in rows.items() if row.status in SUBTASK.terminal}
    kept = {key: row for key, row in over.items() if key not in again}
    reason = f"retry of {', '.join(sorted(again))}"
    revised = take_up(tx, plan, kept, by, reason)
    facts: dict[str, Any] = {"revision": revised.revision, "digest": revised.digest}
    log.note(
        tx, plan.session_id, actor=by, action="plan.retried", subject=plan.id,
        subtasks=sorted(again), **facts,
    )  # fmt: skip
    return revised


def _again(revision: Revision, rows: Rows, subtask_id: str) -> frozenset[str]:
    """The subtask, and those dependants that did not complete."""
    row = rows.get(subtask_id)
    if row is None:
        raise NotFound(f"Plan {revision.plan_id} has no subtask {subtask_id}")
    if row.status not in _AGAIN:
        raise Conflict(f"Subtask {subtask_id} is {row.status}; there is nothing to try again")
    waiting = dependants(revision.subtasks, subtask_id)
    return frozenset({subtask_id}) | {key for key in waiting if rows[key].status in _AGAIN}
