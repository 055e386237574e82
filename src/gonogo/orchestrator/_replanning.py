"""Replanning: from a failure to the next revision of a plan, or to its end without one.

    running ── a failure, or a person ──► replanning: what runs finishes
      ▲                                       │ a person is asked first, after so many times
      │ no new revision                       ▼
      └────────────────────────── the architect is told what failed and why
                                              │ a revision that keeps what completed
                                              ▼
                                      awaiting_approval, or running inside the old grant

How the search goes is in `_search`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gonogo.approvals import Desk, Question, Ruling
from gonogo.domain.errors import Conflict, InvalidMessage, InvalidPlan
from gonogo.domain.plan import Revision
from gonogo.domain.plan_views import plan_changes
from gonogo.domain.records import Approval, Plan
from gonogo.domain.replanning import BudgetSpent, is_progress, next_revision, stays_within
from gonogo.domain.states import SUBTASK, ApprovalKind, DecisionWord, PlanStatus, SubtaskStatus
from gonogo.engine import REPLAN, Engine, Superseded
from gonogo.orchestrator._planning import Planning
from gonogo.orchestrator._proposal import ARCHITECT
from gonogo.orchestrator._replan_brief import brief, reflection
from gonogo.orchestrator._revising import also_asked, completed, mint_grants, told_progress
from gonogo.orchestrator._search import Talk
from gonogo.store import Connection, go_on
from gonogo.store import events as log
from gonogo.store.calls import pending_of_plan
from gonogo.store.plans import (
    add_revision,
    current_revision,
    end_grants,
    granted_subtasks,
    move_plan,
    plan_of,
    revisions_of,
    revoked_subtasks,
    set_plan,
    subtask_rows,
)
from gonogo.store.sessions import session_of, set_session, spoken_in
from gonogo.texts import DEFAULT
from gonogo.texts import say as text

ABOUT = "replan"
"""What an intervention is about that asks whether to replan once more."""


def _check(conn: Connection, plan: Plan) -> None:
    current = plan_of(conn, plan.id)
    if current is None or current.status is not PlanStatus.REPLANNING:
        raise Superseded(f"Plan {plan.id} is no longer replanned")
    if (current.revision, current.replans) != (plan.revision, plan.replans):
        raise Superseded(f"Plan {plan.id} is no longer replanned")


_TALK = Talk(
    column="replan",
    name=lambda plan: f"{plan.id}/replan/{plan.replans}",
    script=lambda plan: f"replan-{plan.replans}",
    brief=brief,
    check=_check,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanning:
    """Looks for the next revision of plans that were sent back."""

    desk: Desk
    engine: Engine
    planning: Planning
    talk: Talk = _TALK
    within_grant: bool = False
    """Carry out without a question what needs nothing new."""

    def start(self, conn: Connection, plan_id: str, reason: str, by: str, now: datetime) -> None:
        """A person has a plan changed.

        Raises:
            Conflict: the plan cannot be, or the session has another one.
        """
        plan = plan_of(conn, plan_id)
        session = session_of(conn, plan.session_id) if plan else None
        if session is not None and session.active_plan_id not in (None, plan_id):
            raise Conflict("The session has another plan; that one comes first")
        self.engine.replan(conn, plan_id, reason, by, now)
        if session is not None:
            set_session(conn, session.id, active_plan_id=plan_id, agent=ARCHITECT)

    # The search -------------------------------------------------------------------------------

    def ready(self, conn: Connection, plan: Plan, now: datetime) -> bool:
        """Whether nothing of the plan runs, and no person is to be asked first."""
        if plan.replan is None or plan.pause_reason is not None:
            return False
        if not self.engine.is_at_rest(conn, plan.id, now):
            return False
        if plan.replan.get("asks"):
            self._ask_person(conn, plan, now)
            return False
        return True

    def revision(
        self, conn: Connection, plan: Plan, arguments: Mapping[str, Any], locale: str
    ) -> Revision:
        """The revision that is proposed: what completed, and another rest.

        Raises:
            InvalidPlan: it is not valid, or nothing else than what was tried.
        """
        kept, current = set(completed(conn, plan)), current_revision(conn, plan)
        others = [each for each, _ in revisions_of(conn, plan.id) if each != current]
        rest = self.planning.proposed(arguments, kept)
        found = next_revision(current, kept, rest, number=len(others) + 2)
        revision = self.planning.proposals.in_order(found)
        rows = subtask_rows(conn, plan.id, plan.revision)
        failed = {row.subtask_id for row in rows if row.status is SubtaskStatus.FAILED}
        if not is_progress([*others, current], kept, failed, revision):
            raise InvalidPlan(text("model_no_progress", locale))
        return revision

    # What comes of it -------------------------------------------------------------------------

    def adopt(
        self,
        conn: Connection,
        plan: Plan,
        revision: Revision,
        arguments: Mapping[str, Any],
        now: datetime,
    ) -> None:
        """Put the revision before a person, or go on with it where that needs nobody."""
        done = completed(conn, plan)
        session = session_of(conn, plan.session_id)
        current = current_revision(conn, plan)
        assert session is not None  # noqa: S101 - the plan names its session
        granted = granted_subtasks(conn, plan.id, plan.revision)
        self._drop_unfinished(conn, plan, now)
        end_grants(conn, plan.id, now, f"revision {revision.number} took its place")
        add_revision(conn, revision, now, f"agent:{ARCHITECT}", "replanned", kept=done)
        left = {subtask.id for subtask in revision.subtasks} - done.keys()
        # Not what stands in a revision that was rejected, nor what a person has taken out since.
        free = self.within_grant and plan.auto_approve_tools and left <= granted
        free = free and left.isdisjoint(revoked_subtasks(conn, plan.id))
        free = free and stays_within(current, set(done), revision)
        status = PlanStatus.RUNNING if free else PlanStatus.AWAITING_APPROVAL
        to = {
            "revision": revision.number, "digest": revision.digest,
            "approved_revision": revision.number if free else plan.approved_revision,
            "floor": told_progress(conn, plan), "again": None,
            "asked_by": also_asked(plan, (plan.replan or {}).get("by")),
        }  # fmt: skip
        if not move_plan(conn, plan, status, **to):
            raise Superseded(f"Plan {plan.id} changed at this moment")
        revised = replace(plan, status=status, **to)
        if free:
            self._go(conn, revised, revision, set(done), now)
            return
        self.planning.proposals.put_before_person(
            conn, session, revised, revision, now, changes=plan_changes(current, revision),
            replan=_public(plan, session.spoken),
        )  # fmt: skip

    def _go(
        self, conn: Connection, plan: Plan, revision: Revision, done: set[str], now: datetime
    ) -> None:
        """Carry out at once what needs nothing that was not approved."""
        mint_grants(conn, plan, revision, done, now)
        log.note(
            conn, plan.session_id, now, actor="gonogo", action="plan.replanned_within_grant",
            subject=plan.id, revision=revision.number, digest=revision.digest,
            reason="the new revision needs nothing that was not approved", source="grant",
        )  # fmt: skip
        self.engine.go_on_revised(conn, plan.id, "needs nothing that was not approved", now)

    def _drop_unfinished(self, conn: Connection, plan: Plan, now: datetime) -> None:
        """What waited for a person in the old revision waits no more."""
        for row in subtask_rows(conn, plan.id, plan.revision):
            if row.status not in SUBTASK.terminal:
                self.engine.dropped(conn, row, "the plan was changed", now)
        for approval in pending_of_plan(conn, plan.id):
            self.desk.withdraw(conn, approval, now)

    def spent(self, conn: Connection, plan: Plan, error: BudgetSpent, now: datetime) -> None:
        """A budget is spent: search on when a person gives more."""
        self.talk.rest(conn, plan)
        self.engine.pause_search(conn, plan.id, error.excess, now)

    def give_up(self, conn: Connection, plan: Plan, reason: str, now: datetime) -> None:
        """There is no other plan: the old one goes on as far as it can."""
        self.drop(conn, plan, now)
        self.engine.go_without(conn, plan.id, reason, now)

    def drop(self, conn: Connection, plan: Plan, now: datetime) -> None:
        """End what the search asked for and has no answer to."""
        if plan.replans:
            self.talk.drop_calls(conn, self.desk, plan, now)

    # A person is asked first ------------------------------------------------------------------

    def _ask_person(self, conn: Connection, plan: Plan, now: datetime) -> None:
        for approval in pending_of_plan(conn, plan.id):
            if approval.details.get("about") == ABOUT:
                return
        about: dict[str, Any] = plan.replan or {}
        locale = spoken_in(conn, plan.session_id) or DEFAULT
        reason = text("replan_question", locale, count=plan.replans - 1, reason=about["reason"])
        self.desk.open(
            conn,
            Question(
                session_id=plan.session_id, kind=ApprovalKind.INTERVENTION, subject=plan.goal,
                details={"about": ABOUT, "replans": plan.replans - 1, **_public(plan, locale)},
                reason=reason, digest=plan.digest, plan_id=plan.id, revision=plan.revision,
                agent=ARCHITECT,
            ),
            now,
        )  # fmt: skip
        log.tell_final(conn, plan.session_id)

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        """A person answers whether the plan is changed once more."""
        plan = plan_of(conn, approval.plan_id or "")
        if plan is None or plan.status is not PlanStatus.REPLANNING or plan.replan is None:
            raise Conflict("The plan is not being changed any more")
        match ruling.word:
            case DecisionWord.APPROVE:
                set_plan(conn, plan, replan={**plan.replan, "asks": False})
                go_on(conn, REPLAN, plan.id)
            case DecisionWord.REJECT:
                self._end(conn, plan, "replan_declined", now, by=ruling.by.name)
            case _:
                raise InvalidMessage("Whether to replan is approved or rejected, not edited")

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        """Nobody answered in time: the plan ends with what it has reached."""
        plan = plan_of(conn, approval.plan_id or "")
        if plan is not None and plan.status is PlanStatus.REPLANNING:
            self._end(conn, plan, "replan_lapsed", now)

    def _end(self, conn: Connection, plan: Plan, key: str, now: datetime, **fields: str) -> None:
        reason = text(key, spoken_in(conn, plan.session_id), **fields)
        self.engine.end_unfinished(conn, plan.id, reason, now)


def _public(plan: Plan, locale: str) -> dict[str, Any]:
    """Why a plan is changed, as people and clients are told."""
    about: dict[str, Any] = plan.replan or {}
    root_cause, suggestion = reflection(about, locale)
    found = {
        "cause": about.get("cause"), "reason": about.get("reason"), "root_cause": root_cause,
        "suggestion": suggestion, "subtask_id": about.get("subtask_id"), "by": about.get("by"),
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}
