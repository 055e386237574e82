"""The desk: opens questions, takes decisions, expires them, tells who is waiting for what.

Promises: the first valid decision wins, atomically, and the loser is told who won; a decision, its
event, its audit entry and what it sets going are one transaction; expiry never approves; where
several have to approve, so many different people who may have done so, for just what then runs.
"""

from gonogo.execution.approvals.service import (
    DESK_TIMERS,
    ESCALATE,
    EXPIRE,
    WARN,
    ApprovalService,
    withdraw_all,
)
from gonogo.execution.approvals.types import (
    NOBODY,
    ApprovalType,
    Matter,
    Question,
    Refusal,
    Revisable,
    Ruling,
    is_reviewer,
    objection,
    review_of,
)

__all__ = [
    "DESK_TIMERS",
    "ESCALATE",
    "EXPIRE",
    "NOBODY",
    "WARN",
    "ApprovalService",
    "ApprovalType",
    "Matter",
    "Question",
    "Refusal",
    "Revisable",
    "Ruling",
    "is_reviewer",
    "objection",
    "review_of",
    "withdraw_all",
]
