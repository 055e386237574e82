"""The life of a tool call.

    proposed ──► denied | cancelled
       ├──► awaiting_approval ──► rejected | expired | cancelled
       │           ▼
       └──────► allowed ──► failed (stale) | cancelled
                   ▼
                started ──► completed | failed | cancelled | unknown ──► completed | failed

`started` is committed before anything is spawned, so a call found `started` after a crash may or
may not have had its effect. What a person answers moves it out of `unknown`.
"""

from enum import StrEnum

from gonogo.domain._machine import Machine


class CallStatus(StrEnum):
    """Where a tool call stands."""

    PROPOSED = "proposed"
    DENIED = "denied"
    AWAITING_APPROVAL = "awaiting_approval"
    ALLOWED = "allowed"
    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


_C = CallStatus
BARRED = frozenset({"protected_path", "path_outside_workspace", "symlink_escape", "hardlink"})
"""Words that the error of a call begins with whose path is never to be touched."""
REFUSED = BARRED | {"policy_denied", "rejected", "expired"}
"""And those of a call that a rule, a person, or nobody in time, did not allow."""


def was_refused(error: str | None) -> bool:
    """Whether a call was not carried out because it was not to be, going by what it was told."""
    return error is not None and error.partition(":")[0] in REFUSED


CALL: Machine[CallStatus] = Machine(
    "tool call",
    {
        _C.PROPOSED: frozenset({_C.DENIED, _C.AWAITING_APPROVAL, _C.ALLOWED, _C.CANCELLED}),
        _C.AWAITING_APPROVAL: frozenset({_C.ALLOWED, _C.REJECTED, _C.EXPIRED, _C.CANCELLED}),
        _C.ALLOWED: frozenset({_C.STARTED, _C.FAILED, _C.CANCELLED}),
        _C.STARTED: frozenset({_C.COMPLETED, _C.FAILED, _C.CANCELLED, _C.UNKNOWN}),
        _C.UNKNOWN: frozenset({_C.COMPLETED, _C.FAILED}),
        _C.DENIED: frozenset(),
        _C.COMPLETED: frozenset(),
        _C.FAILED: frozenset(),
        _C.REJECTED: frozenset(),
        _C.EXPIRED: frozenset(),
        _C.CANCELLED: frozenset(),
    },
)
