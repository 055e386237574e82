"""The life of a plan.

    draft ──► awaiting_approval ──► approved ──► running ──► completed | failed | partial
                  │    ▲               │           ⇅  ⇅
                  ▼    │               │        paused replanning
      rejected | expired | cancelled ◄─┴───────────┴───────┘

A plan that waits for approval stays so while its planner answers comments on it: an edit and a new
revision are no moves, they ask anew. `approved` is a plan on hold: decided, not started. A failed
or partial plan runs again only when a person retries a subtask. What a false condition left out was
not to be done: a plan of which all else completed is `completed`. A plan that had begun and whose
next revision is rejected, or not decided in time, is again at the one that was approved last, and
ends as what was done of that says: `partial` or `failed`; so does one whose time or budget is over,
be it paused, held or sent back. One of those that has nothing left to do is then `completed`.
"""

from enum import StrEnum

from gonogo.domain._machine import Machine


class PlanStatus(StrEnum):
    """Where a plan stands."""

    DRAFT = "draft"
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    RUNNING = "running"
    PAUSED = "paused"
    REPLANNING = "replanning"
    COMPLETED = "completed"
    FAILED = "failed"
    PARTIAL = "partial"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"


_P = PlanStatus

PLAN: Machine[PlanStatus] = Machine(
    "plan",
    {
        _P.DRAFT: frozenset({_P.AWAITING_APPROVAL, _P.CANCELLED}),
        _P.AWAITING_APPROVAL: frozenset(
            {
                _P.APPROVED,
                _P.REJECTED,
                _P.EXPIRED,
                _P.CANCELLED,
                _P.COMPLETED,
                _P.PARTIAL,
                _P.FAILED,
            }
        ),
        _P.APPROVED: frozenset({_P.RUNNING, _P.CANCELLED, _P.PARTIAL, _P.FAILED}),
        _P.RUNNING: frozenset(
            {_P.COMPLETED, _P.FAILED, _P.PARTIAL, _P.CANCELLED, _P.PAUSED, _P.REPLANNING}
        ),
        _P.PAUSED: frozenset({_P.RUNNING, _P.CANCELLED, _P.COMPLETED, _P.PARTIAL, _P.FAILED}),
        _P.REPLANNING: frozenset(
            {
                _P.AWAITING_APPROVAL,
                _P.RUNNING,
                _P.COMPLETED,
                _P.PARTIAL,
                _P.FAILED,
                _P.CANCELLED,
            }
        ),
        _P.FAILED: frozenset({_P.RUNNING}),
        _P.PARTIAL: frozenset({_P.RUNNING}),
        _P.COMPLETED: frozenset(),
        _P.CANCELLED: frozenset(),
        _P.REJECTED: frozenset(),
        _P.EXPIRED: frozenset(),
    },
)

ENDED = frozenset({_P.COMPLETED, _P.FAILED, _P.PARTIAL, _P.CANCELLED, _P.REJECTED, _P.EXPIRED})
"""The plan is over: its grants have ended and the session may have another plan."""
BOUND = frozenset({_P.APPROVED, _P.RUNNING, _P.PAUSED, _P.REPLANNING})
"""The plan goes on, or is about to: in the revision that was approved last, and in no other."""
