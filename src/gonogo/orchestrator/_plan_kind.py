"""Answers about plans: the kind `plan` of the desk."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gonogo.approvals import Ruling
from gonogo.domain.approval_state import DecisionWord
from gonogo.domain.errors import Conflict
from gonogo.domain.plan import Revision, dependants
from gonogo.domain.records import Approval, Plan, SubtaskRow
from gonogo.orchestrator._planning import Planning
from gonogo.orchestrator._revising import completed
from gonogo.store import Connection
from gonogo.store.plans import add_revision, count_revisions, plan_of, revision_of


@dataclass(frozen=True, slots=True)
class PlanKind:
    """What a person's answer to a plan means."""

    planning: Planning

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        """Approve, approve as edited, hold, or reject."""
        plan = _plan(conn, approval)
        current = revision_of(conn, plan.id, plan.revision)
        assert current is not None  # noqa: S101 - a plan's current revision exists
        _check_named(conn, plan, ruling)
        match ruling.word:
            case DecisionWord.REJECT:
                self.planning.reject(conn, plan, ruling, now)
            case DecisionWord.EDIT:
                revision = self.planning.edit(plan, current, ruling.changes)
                kept = _untouched(completed(conn, plan), current, revision)
                add_revision(conn, revision, now, ruling.by.id, "edited", kept=kept)
                self.planning.approve(conn, plan, revision, ruling, now)
            case _:
                self.planning.approve(conn, plan, current, ruling, now)

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        """Nobody decided in time."""
        self.planning.expire(conn, _plan(conn, approval), now)


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
