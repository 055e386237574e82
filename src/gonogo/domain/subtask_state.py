"""The life of a subtask's row in one revision of a plan.

pending ──► running ──► completed | failed | cancelled
   │  ▲        │  ▲
   │  └─retry──┘  │
   │   waiting_approval ──► skipped | failed | cancelled
   ▼
skipped | cancelled
"""

from enum import StrEnum

from gonogo.domain._machine import Machine


class SubtaskStatus(StrEnum):
    """Where a subtask stands."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING_APPROVAL = "waiting_approval"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    # A round counts the words of a whole plan, and the hash that Enum gives is not made for that.
    __hash__ = str.__hash__


_S = SubtaskStatus

SUBTASK: Machine[SubtaskStatus] = Machine(
    "subtask",
    {
        _S.PENDING: frozenset({_S.RUNNING, _S.WAITING_APPROVAL, _S.SKIPPED, _S.CANCELLED}),
        _S.RUNNING: frozenset(
            {_S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.WAITING_APPROVAL, _S.PENDING}
        ),
        _S.WAITING_APPROVAL: frozenset(
            {_S.PENDING, _S.RUNNING, _S.SKIPPED, _S.FAILED, _S.CANCELLED}
        ),
        _S.COMPLETED: frozenset(),
        _S.FAILED: frozenset(),
        _S.SKIPPED: frozenset(),
        _S.CANCELLED: frozenset(),
    },
)
