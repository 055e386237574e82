"""What answers to the questions of a shop floor mean, and what comes of a search for a revision.

They do to the store what the orchestrator does, without its conversations.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from gonogo.domain.plan import Subtask
from gonogo.domain.records import Approval, Plan
from gonogo.domain.replanning import next_revision
from gonogo.domain.states import SUBTASK, ApprovalKind, DecisionWord, PlanStatus
from gonogo.execution.approvals import ApprovalService, Question, Ruling
from gonogo.execution.plans import REPLAN_QUESTION, Engine
from gonogo.execution.plans.revisions import completed, mint_grants, told_progress
from gonogo.execution.scheduling import REPLAN
from gonogo.store import Connection, go_on
from gonogo.store.calls import pending_of_plan
from gonogo.store.plans import (
    add_revision,
    count_revisions,
    end_grants,
    move_plan,
    plan_of,
    revision_of,
    set_plan,
    subtask_key,
    subtask_rows,
)

Rest = Callable[[set[str]], tuple[Subtask, ...]]
"""Given what is kept, what is left to do otherwise."""


@dataclass(frozen=True, slots=True)
class ToWork:
    """A runner has its answer: its subtask goes on, whatever it was."""

    engine: Engine

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        key = subtask_key(approval.plan_id, approval.revision, approval.subtask_id)
        self.engine.resume(conn, key, now)

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        # The runner is told that nobody answered, and goes on.
        key = subtask_key(approval.plan_id, approval.revision, approval.subtask_id)
        self.engine.resume(conn, key, now)


@dataclass(frozen=True, slots=True)
class ToPlan:
    """A revision is approved, held or rejected."""

    engine: Engine

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        plan = plan_of(conn, approval.plan_id)
        if ruling.word is not DecisionWord.REJECT:
            self._approve(conn, plan, now, held=ruling.word is DecisionWord.HOLD)
        elif plan.started_at is not None:
            self.engine.end_unfinished(conn, plan.id, "rejected", now)
        else:
            assert move_plan(conn, plan, PlanStatus.REJECTED, finished_at=now)

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        plan = plan_of(conn, approval.plan_id)
        if plan.started_at is not None:
            self.engine.end_unfinished(conn, plan.id, "expired", now)
        else:
            assert move_plan(conn, plan, PlanStatus.EXPIRED, finished_at=now)

    def _approve(self, conn: Connection, plan: Plan, now: datetime, *, held: bool) -> None:
        assert move_plan(conn, plan, PlanStatus.APPROVED, approved_at=now)
        approved = replace(plan, status=PlanStatus.APPROVED)
        _grant(conn, approved, now)
        if not held:
            self.engine.begin(conn, approved, now)


@dataclass(frozen=True, slots=True)
class ToReplan:
    """A plan is changed once more, or ends with what it has reached."""

    engine: Engine

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        plan = plan_of(conn, approval.plan_id)
        if ruling.word is DecisionWord.REJECT:
            self.engine.end_unfinished(conn, plan.id, "declined", now)
            return
        set_plan(conn, plan, replan={**plan.replan, "asks": False})
        go_on(conn, REPLAN, plan.id)

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        plan = plan_of(conn, approval.plan_id)
        if plan.status is PlanStatus.REPLANNING:
            self.engine.end_unfinished(conn, plan.id, "expired", now)


def question(plan: Plan, kind: ApprovalKind, subtask_id: str | None = None) -> Question:
    """A question about a plan or one of its subtasks."""
    details = {"about": REPLAN_QUESTION} if kind == ApprovalKind.INTERVENTION else {}
    return Question(
        session_id=plan.session_id, kind=kind, subject="?", details=details, reason="asks",
        digest=plan.digest, plan_id=plan.id, revision=plan.revision, subtask_id=subtask_id,
    )  # fmt: skip


def search(
    conn: Connection,
    engine: Engine,
    desk: ApprovalService,
    plan_id: str,
    rest: Rest | None,
    free: bool,
    now: datetime,
) -> None:
    """Write what came of a search, where one is wanted and nobody must be asked first."""
    plan = plan_of(conn, plan_id)
    if plan.status is not PlanStatus.REPLANNING:
        return
    if plan.replan["asks"]:
        if not any(
            each.kind == ApprovalKind.INTERVENTION for each in pending_of_plan(conn, plan_id)
        ):
            desk.open(conn, question(plan, ApprovalKind.INTERVENTION), now)
    elif rest is None:
        engine.go_without(conn, plan_id, "nothing better was found", now)
    else:
        _replace(conn, engine, desk, plan, rest, free, now)


def _replace(
    conn: Connection,
    engine: Engine,
    desk: ApprovalService,
    plan: Plan,
    rest: Rest,
    free: bool,
    now: datetime,
) -> None:
    for row in subtask_rows(conn, plan.id, plan.revision):
        if row.status not in SUBTASK.terminal:
            engine.dropped(conn, row, "the plan was changed", now)
    for approval in pending_of_plan(conn, plan.id):
        desk.withdraw(conn, approval, now)
    end_grants(conn, plan.id, now, "replanned")
    done = completed(conn, plan)
    current = revision_of(conn, plan.id, plan.revision)
    number = count_revisions(conn, plan.id) + 1
    revision = next_revision(current, set(done), rest(set(done)), number)
    add_revision(conn, revision, now, "architect", "replanned", kept=done)
    to = {
        "revision": number, "digest": revision.digest, "floor": told_progress(conn, plan),
        "approved_revision": number if free else plan.approved_revision,
    }  # fmt: skip
    status = PlanStatus.RUNNING if free else PlanStatus.AWAITING_APPROVAL
    assert move_plan(conn, plan, status, **to)
    revised = replace(plan, status=status, **to)
    if not free:
        desk.open(conn, question(revised, ApprovalKind.PLAN), now)
        return
    _grant(conn, revised, now)
    engine.go_on_revised(conn, plan.id, "needs nothing new", now)


def _grant(conn: Connection, plan: Plan, now: datetime) -> None:
    revision = revision_of(conn, plan.id, plan.revision)
    mint_grants(conn, plan, revision, completed(conn, plan), now)
