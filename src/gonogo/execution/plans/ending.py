"""The end of a plan, and of what was begun for it."""

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.events import AgentSwitched, PlanEnded, SwitchFacts
from gonogo.domain.records import MAIN, Plan, Session, SubtaskRow
from gonogo.domain.states import CallStatus, PlanStatus
from gonogo.domain.tool_calls import PlanAccount, Reply
from gonogo.execution.agent import drop_call, end_call
from gonogo.execution.approvals import ApprovalService
from gonogo.execution.inbox import ORCHESTRATOR, next_turn, wake
from gonogo.execution.plans.account import account_of, execution_result
from gonogo.execution.scheduling import REPLAN
from gonogo.i18n import account
from gonogo.store import Tx, stop
from gonogo.store import events as log
from gonogo.store.approvals import end_revising
from gonogo.store.calls import open_calls, pending_of_plan
from gonogo.store.plans import end_grants, keep_account, plan_of, thread_name
from gonogo.store.sessions import append_message, session_of, set_session, turn_of

ARCHITECT = "architect"


def replan_thread(plan: Plan) -> str:
    """The name of the conversation in which a plan that was sent back is planned anew."""
    return f"{plan.id}/replan/{plan.replans}"


def revise_thread(plan: Plan) -> str:
    """The name of the conversation in which a plan's planner answers comments on it."""
    return f"{plan.id}/revise/{(plan.revising or {}).get('id')}"


class PlanEnding(Struct, frozen=True):
    """Ends plans, and what was begun for them, each a part of its caller's transaction."""

    desk: ApprovalService

    def drop_work(self, tx: Tx, row: SubtaskRow, reason: str) -> None:
        """A subtask's work was taken away: its calls and questions end."""
        plan = plan_of(tx, row.plan_id)
        if plan is None:
            return
        for call in open_calls(tx, plan.session_id, thread_name(row.key, row.attempt)):
            drop_call(tx, self.desk, call, f"cancelled: {reason}")
        for approval in pending_of_plan(tx, plan.id):
            if approval.subtask_id == row.subtask_id:
                self.desk.withdraw(tx, approval)

    def end(self, tx: Tx, plan: Plan, status: PlanStatus) -> None:
        """Write down that a plan is over: its grants end, the orchestrator answers again."""
        session = session_of(tx, plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        ended = replace(plan, status=status, finished_at=tx.now)
        self.close(tx, session, ended, f"the plan is {status}")
        facts = account_of(tx, ended)
        content = account(facts, session.spoken)
        if status is not PlanStatus.CANCELLED:
            event = PlanEnded(
                content=content, metadata=facts, plan_id=plan.id, agent=ARCHITECT, is_final=True
            )
            log.tell(tx, session.id, event)
        keep_account(tx, plan.id, None)
        append_message(tx, session.id, MAIN, Reply(text=content), agent=ARCHITECT)
        append_message(tx, session.id, MAIN, PlanAccount(plan_id=plan.id), agent=ARCHITECT)
        self._answer_executors(tx, session, ended)
        next_turn(tx, replace(session, active_plan_id=None))

    def close(self, tx: Tx, session: Session, plan: Plan, because: str) -> None:
        """Let go of a plan that is over: nothing of it is asked or allowed any more."""
        self.drop_searches(tx, plan)
        for approval in pending_of_plan(tx, plan.id):
            self.desk.withdraw(tx, approval)
        ended = end_grants(tx, plan.id, because)
        set_session(tx, session.id, active_plan_id=None, agent=ORCHESTRATOR)
        switch = SwitchFacts(from_agent=ARCHITECT, to_agent=ORCHESTRATOR, reason=because)
        event = AgentSwitched(metadata=switch, plan_id=plan.id, agent=ORCHESTRATOR)
        log.tell(tx, session.id, event)
        log.note(
            tx, session.id, actor="gonogo", action="plan.closed", subject=plan.id,
            reason=because, grants_ended=ended,
        )  # fmt: skip

    def drop_searches(self, tx: Tx, plan: Plan) -> None:
        """End what searches for another revision asked for and have no answer to."""
        if plan.replans:
            self.drop_search(tx, plan, replan_thread(plan))
        if plan.revising is None:
            return
        self.drop_search(tx, plan, revise_thread(plan))
        end_revising(tx, plan.id)
        stop(tx, REPLAN, plan.id)
        log.note(
            tx, plan.session_id, actor="gonogo", action="plan.revising_ended",
            subject=plan.id, revision=plan.revision, reason="the plan was decided meanwhile",
        )  # fmt: skip

    def drop_search(self, tx: Tx, plan: Plan, thread: str) -> None:
        """End what one search asked for and has no answer to."""
        for call in open_calls(tx, plan.session_id, thread):
            drop_call(tx, self.desk, call, "cancelled: the search has ended")

    def _answer_executors(self, tx: Tx, session: Session, plan: Plan) -> None:
        """Turns that called `execute_plan` and waited have their result."""
        for call in open_calls(tx, session.id, MAIN):
            if call.tool != "execute_plan" or call.status is not CallStatus.STARTED:
                continue
            found = execution_result(tx, plan)
            end_call(tx, call, CallStatus.COMPLETED, result=found)
            turn = turn_of(tx, call.turn_id or "")
            if turn is not None:
                wake(tx, turn)
