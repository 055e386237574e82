"""The desk: opens questions, takes decisions, expires them, tells who is waiting for what.

Promises: the first valid decision wins, atomically, and the loser is told who won; a decision, its
event, its audit entry and what it sets going are one transaction; expiry never approves.
"""

from gonogo.approvals._desk import (
    EXPIRE,
    NOBODY,
    WARN,
    Desk,
    Kind,
    Question,
    Refusal,
    Ruling,
    withdraw_all,
)

__all__ = [
    "EXPIRE",
    "NOBODY",
    "WARN",
    "Desk",
    "Kind",
    "Question",
    "Refusal",
    "Ruling",
    "withdraw_all",
]
