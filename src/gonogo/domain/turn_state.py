"""The life of a turn: the work from one user message until idle, or until a person must decide.

queued ──► running ⇄ parked ──► done | failed | cancelled
   └──► cancelled
"""

from enum import StrEnum

from gonogo.domain._machine import Machine


class TurnStatus(StrEnum):
    """Where a turn stands."""

    QUEUED = "queued"
    RUNNING = "running"
    PARKED = "parked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


_T = TurnStatus

TURN: Machine[TurnStatus] = Machine(
    "turn",
    {
        _T.QUEUED: frozenset({_T.RUNNING, _T.CANCELLED}),
        _T.RUNNING: frozenset({_T.PARKED, _T.DONE, _T.FAILED, _T.CANCELLED}),
        _T.PARKED: frozenset({_T.RUNNING, _T.DONE, _T.FAILED, _T.CANCELLED}),
        _T.DONE: frozenset(),
        _T.FAILED: frozenset(),
        _T.CANCELLED: frozenset(),
    },
)
