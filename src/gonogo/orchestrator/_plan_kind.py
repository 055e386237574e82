"""Answers about plans: the kind `plan` of the desk."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gonogo.approvals import Matter, Ruling
from gonogo.domain.errors import Conflict
from gonogo.domain.plan import Revision, dependants
from gonogo.domain.plan_views import plan_changes
from gonogo.domain.records import Approval, Plan, SubtaskRow
from gonogo.domain.states import DecisionWord
from gonogo.orchestrator._planning import Planning
from gonogo.orchestrator._revising import also_asked, completed
from gonogo.store import Connection
from gonogo.store.plans import (
    add_revision,
    count_revisions,
    current_revision,
    plan_of,
    revise_plan,
    set_plan,
)
from gonogo.store.sessions import session_of


@dataclass(frozen=True, slots=True)
class PlanKind:
    """What a person's answer to a plan means."""

    planning: Planning

    def check(self, conn: Connection, approval: Approval, ruling: Ruling) -> None:
        """The answer is about the revision that the person saw."""
        _check_named(conn, _plan(conn, approval), ruling)

    def matter(self, conn: Connection, approval: Approval, ruling: Ruling) -> Matter:
        """What the plan's subtasks would be."""
        plan = _plan(conn, approval)
        revision = self.planning.edit(plan, current_revision(conn, plan), ruling.changes)
        return Matter(subtasks=revision.subtasks)

    def ask_again(
        self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime
    ) -> Approval:
        """Make the edit the plan's next revision, and put it before people."""
        plan = _plan(conn, approval)
        current, session = current_revision(conn, plan), session_of(conn, plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        revision = self._take_over(conn, plan, current, ruling, now)
        self.planning.closing(conn, plan, now)
        if not revise_plan(conn, plan, revision, plan.floor):
            raise Conflict(f"Plan {plan.id} changed at this moment")
        revised = replace(plan, revision=revision.number, digest=revision.digest)
        return self.planning.proposals.put_before_person(
            conn, session, revised, revision, now, changes=plan_changes(current, revision),
            edited_by=ruling.by.name, instead_of=approval,
        )  # fmt: skip

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        """Approve, approve as edited, hold, or reject."""
        plan = _plan(conn, approval)
        current = current_revision(conn, plan)
        _check_named(conn, plan, ruling)
        match ruling.word:
            case DecisionWord.REJECT:
                self.planning.reject(conn, plan, ruling, now)
            case DecisionWord.EDIT:
                revision = self._take_over(conn, plan, current, ruling, now)
                self.planning.approve(conn, plan, revision, ruling, now, edited=True)
            case _:
                edited = "edited_by" in approval.details
                self.planning.approve(conn, plan, current, ruling, now, edited=edited)

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        """Nobody decided in time."""
        self.planning.expire(conn, _plan(conn, approval), now)

    def _take_over(
        self, conn: Connection, plan: Plan, current: Revision, ruling: Ruling, now: datetime
    ) -> Revision:
        """Keep what a person wrote as the next revision."""
        revision = self.planning.edit(plan, current, ruling.changes)
        kept = _untouched(completed(conn, plan), current, revision)
        add_revision(conn, revision, now, ruling.by.id, "edited", kept=kept)
        set_plan(conn, plan, asked_by=also_asked(plan, ruling.by.id))
        return revision


def _plan(conn: Connection, approval: Approval) -> Plan:
    plan = plan_of(conn, approval.plan_id or "")
    assert plan is not None  # noqa: S101 - approvals of this kind always name a plan
    return plan


def _untouched(
    done: Mapping[str, SubtaskRow], current: Revision, revision: Revision
) -> dict[str, SubtaskRow]:
    """What is done and stands in the edited revision as it was, with all that it built on."""
    before, after = current.by_id, revision.by_id
    other = {key for key in before if after.get(key) != before[key]}
    stale = other.union(*(dependants(current.subtasks, key) for key in other))
    return {key: row for key, row in done.items() if key not in stale}


def _check_named(conn: Connection, plan: Plan, ruling: Ruling) -> None:
    """Check that the decision is about the revision that the person saw."""
    if ruling.revision is not None and ruling.revision != plan.revision:
        raise Conflict(
            f"The plan is at revision {plan.revision} ({plan.digest}), not {ruling.revision}"
        )
    unnamed = ruling.revision is None and ruling.digest is None
    if unnamed and count_revisions(conn, plan.id) > 1:
        raise Conflict(
            f"The plan has several revisions; name revision {plan.revision} or {plan.digest}"
        )
