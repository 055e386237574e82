"""The life of an approval: one question, one answer.

pending ──► approved | edited | rejected | expired | cancelled | superseded
"""

from enum import StrEnum

from gonogo.domain._machine import Machine


class ApprovalStatus(StrEnum):
    """Where an approval stands."""

    PENDING = "pending"
    APPROVED = "approved"
    EDITED = "edited"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class ApprovalKind(StrEnum):
    """What gonogo itself asks about. A room may register a kind with a word of its own."""

    PLAN = "plan"
    TOOL = "tool"
    SUBTASK = "subtask"
    INTERVENTION = "intervention"


GUARDED_NAMES = "guarded_names"
"""What an intervention is about that outlives the call, the subtask and the plan it came from."""


class DecisionWord(StrEnum):
    """What a person may answer. `hold` is for plans only: approve, and start later."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    HOLD = "hold"


_A = ApprovalStatus

APPROVAL: Machine[ApprovalStatus] = Machine(
    "approval",
    {
        _A.PENDING: frozenset(_A) - {_A.PENDING},
        **{state: frozenset() for state in _A if state is not _A.PENDING},
    },
)
