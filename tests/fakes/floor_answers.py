"""What answers to the questions of a shop floor mean, and what comes of a search for a revision.

They do to the store what the orchestrator does, without its conversations.
"""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from gonogo.domain.plan import Subtask
from gonogo.domain.records import Approval, Plan
from gonogo.domain.replanning import next_revision
from gonogo.domain.states import SUBTASK, ApprovalKind, DecisionWord, PlanStatus
from gonogo.execution.approvals import ApprovalService, Question, Ruling
from gonogo.execution.plans import REPLAN_QUESTION, Engine
from gonogo.execution.plans.ending import completed, mint_grants, told_progress
from gonogo.execution.scheduling import REPLAN
from gonogo.store import Tx, go_on
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

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        key = subtask_key(approval.plan_id, approval.revision, approval.subtask_id)
        self.engine.work.resume(tx, key)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        # The runner is told that nobody answered, and goes on.
        key = subtask_key(approval.plan_id, approval.revision, approval.subtask_id)
        self.engine.work.resume(tx, key)


@dataclass(frozen=True, slots=True)
class ToPlan:
    """A revision is approved, held or rejected."""

    engine: Engine

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        plan = plan_of(tx, approval.plan_id)
        if ruling.word is not DecisionWord.REJECT:
            self._approve(tx, plan, held=ruling.word is DecisionWord.HOLD)
        elif plan.started_at is not None:
            self.engine.controls.end_unfinished(tx, plan.id, "rejected")
        else:
            assert move_plan(tx, plan, PlanStatus.REJECTED, finished_at=tx.now)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        plan = plan_of(tx, approval.plan_id)
        if plan.started_at is not None:
            self.engine.controls.end_unfinished(tx, plan.id, "expired")
        else:
            assert move_plan(tx, plan, PlanStatus.EXPIRED, finished_at=tx.now)

    def _approve(self, tx: Tx, plan: Plan, *, held: bool) -> None:
        assert move_plan(tx, plan, PlanStatus.APPROVED, approved_at=tx.now)
        approved = replace(plan, status=PlanStatus.APPROVED)
        _grant(tx, approved)
        if not held:
            self.engine.rounds.begin(tx, approved)


@dataclass(frozen=True, slots=True)
class ToReplan:
    """A plan is changed once more, or ends with what it has reached."""

    engine: Engine

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        plan = plan_of(tx, approval.plan_id)
        if ruling.word is DecisionWord.REJECT:
            self.engine.controls.end_unfinished(tx, plan.id, "declined")
            return
        set_plan(tx, plan, replan={**plan.replan, "asks": False})
        go_on(tx, REPLAN, plan.id)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        plan = plan_of(tx, approval.plan_id)
        if plan.status is PlanStatus.REPLANNING:
            self.engine.controls.end_unfinished(tx, plan.id, "expired")


def question(plan: Plan, kind: ApprovalKind, subtask_id: str | None = None) -> Question:
    """A question about a plan or one of its subtasks."""
    details = {"about": REPLAN_QUESTION} if kind == ApprovalKind.INTERVENTION else {}
    return Question(
        session_id=plan.session_id, kind=kind, subject="?", details=details, reason="asks",
        digest=plan.digest, plan_id=plan.id, revision=plan.revision, subtask_id=subtask_id,
    )  # fmt: skip


def search(
    tx: Tx, engine: Engine, desk: ApprovalService, plan_id: str, rest: Rest | None, free: bool
) -> None:
    """Write what came of a search, where one is wanted and nobody must be asked first."""
    plan = plan_of(tx, plan_id)
    if plan.status is not PlanStatus.REPLANNING:
        return
    if plan.replan["asks"]:
        if not any(each.kind == ApprovalKind.INTERVENTION for each in pending_of_plan(tx, plan_id)):
            desk.open(tx, question(plan, ApprovalKind.INTERVENTION))
    elif rest is None:
        engine.controls.go_without(tx, plan_id, "nothing better was found")
    else:
        _replace(tx, engine, desk, plan, rest, free)


def _replace(
    tx: Tx, engine: Engine, desk: ApprovalService, plan: Plan, rest: Rest, free: bool
) -> None:
    for row in subtask_rows(tx, plan.id, plan.revision):
        if row.status not in SUBTASK.terminal:
            engine.rounds.ending.drop_work(tx, row, "the plan was changed")
    for approval in pending_of_plan(tx, plan.id):
        desk.withdraw(tx, approval)
    end_grants(tx, plan.id, "replanned")
    done = completed(tx, plan)
    current = revision_of(tx, plan.id, plan.revision)
    number = count_revisions(tx, plan.id) + 1
    revision = next_revision(current, set(done), rest(set(done)), number)
    add_revision(tx, revision, "architect", "replanned", kept=done)
    to = {
        "revision": number, "digest": revision.digest, "floor": told_progress(tx, plan),
        "approved_revision": number if free else plan.approved_revision,
    }  # fmt: skip
    status = PlanStatus.RUNNING if free else PlanStatus.AWAITING_APPROVAL
    assert move_plan(tx, plan, status, **to)
    revised = replace(plan, status=status, **to)
    if not free:
        desk.open(tx, question(revised, ApprovalKind.PLAN))
        return
    _grant(tx, revised)
    engine.controls.go_on_revised(tx, plan.id, "needs nothing new")


def _grant(tx: Tx, plan: Plan) -> None:
    revision = revision_of(tx, plan.id, plan.revision)
    mint_grants(tx, plan, revision, completed(tx, plan))
