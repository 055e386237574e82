"""Retry: a person has a failed subtask done again, after its plan has ended or while it goes on."""

from msgspec import Struct

from gonogo.domain.errors import Conflict, NotFound
from gonogo.domain.records import Plan
from gonogo.domain.states import PlanStatus
from gonogo.execution.plans.ending import ARCHITECT
from gonogo.execution.plans.revisions import revised_by, stand, tried_again, undone
from gonogo.execution.plans.rounds import Rounds
from gonogo.execution.scheduling import GOING
from gonogo.store import Tx
from gonogo.store import events as log
from gonogo.store.plans import lock_plan, set_plan
from gonogo.store.sessions import session_of, set_session

_ENDED = frozenset({PlanStatus.FAILED, PlanStatus.PARTIAL})


class Retry(Struct, frozen=True):
    """The next revision of a plan: the same subtasks, some of them to be done again."""

    rounds: Rounds

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
        current, rows = stand(tx, plan)
        again = tried_again(current, rows, subtask_id) | undone(tx, plan, rows.values())
        if plan.status in GOING:
            self._keep(tx, plan, subtask_id, by)
            return
        session = session_of(tx, plan.session_id)
        if session is None or session.active_plan_id is not None:
            raise Conflict("The session has another plan; that one comes first")
        revised = revised_by(tx, plan, rows, again, by)
        set_session(tx, session.id, active_plan_id=plan.id, agent=ARCHITECT)
        self.rounds.begin(tx, revised)

    def _keep(self, tx: Tx, plan: Plan, subtask_id: str, by: str) -> None:
        asked = plan.again or []
        if any(each["subtask_id"] == subtask_id for each in asked):
            raise Conflict(f"Subtask {subtask_id} is to be tried again already")
        set_plan(tx, plan, again=[*asked, {"subtask_id": subtask_id, "by": by}])
        log.note(
            tx, plan.session_id, actor=by, action="plan.retry_asked", subject=plan.id,
            subtask_id=subtask_id, revision=plan.revision,
        )  # fmt: skip
        self.rounds.advance(tx, plan.id)
