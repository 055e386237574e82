"""The states of plans, subtasks, calls, approvals and turns, and their legal transitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from gonogo.domain.errors import IllegalTransition

# A state machine is a table that says which states may follow which.

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Machine(Generic[S]):
    """The legal transitions of one kind of thing."""

    subject: str
    moves: Mapping[S, frozenset[S]]
    terminal: frozenset[S] = field(init=False)
    """The states that nothing follows."""

    def __post_init__(self) -> None:
        """Derive the terminal states: those with no transition in the table."""
        last = frozenset(state for state, targets in self.moves.items() if not targets)
        object.__setattr__(self, "terminal", last)

    def check(self, state: S, target: S, name: str = "") -> S:
        """Return `target` if it may follow `state`.

        Raises:
            IllegalTransition: the table has no such transition.
        """
        if target not in self.moves[state]:
            raise IllegalTransition(f"{self.subject} {name}".strip(), state, target)
        return target


class SessionState(StrEnum):
    """The state of a session, by which people filter the list of sessions."""

    WAITING = "waiting"
    """It has an open question."""
    RUNNING = "running"
    PAUSED = "paused"
    """One of its plans is on hold or paused and continues when somebody says so."""
    FAILED = "failed"
    """Its last task failed."""
    DONE = "done"
    NEW = "new"
    """Nothing was asked for yet."""


# The life of a plan.
#
#     draft ──► awaiting_approval ──► approved ──► running ──► completed | failed | partial
#                   │    ▲               │           ⇅  ⇅
#                   ▼    │               │        paused replanning
#       rejected | expired | cancelled ◄─┴───────────┴───────┘
#
# A plan that waits for approval keeps this state while its planner answers comments on it: an edit
# or a new revision is no transition, it only asks again. `approved` is a plan on hold: approved,
# but not started. A failed or partial plan runs again only when a person retries a subtask.
# Subtasks that a false condition left out do not count: if all others completed, the plan is
# `completed`. If the next revision of a plan that has begun is rejected or expires, the plan
# returns to the revision that was approved last, and ends as the work on that one says: `partial`,
# `failed`, or `completed` if nothing of it is left. The same holds for a plan that runs out of time
# or budget while it is paused, on hold or sent back.


class PlanStatus(StrEnum):
    """The status of a plan."""

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
"""The plan is under way or about to start, always in the revision that was approved last."""


# The life of a subtask's row in one revision of a plan.
#
# pending ──► running ──► completed | failed | cancelled
#    │  ▲        │  ▲
#    │  └─retry──┘  │
#    │   waiting_approval ──► skipped | failed | cancelled
#    ▼
# skipped | cancelled


class SubtaskStatus(StrEnum):
    """The status of a subtask."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING_APPROVAL = "waiting_approval"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    # Each round counts the statuses of the whole plan, and the hash of Enum is slow.
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
SUBTASK_LETTERS = dict(zip(_S, "prwcfsx", strict=True))
"""The letter of each status, where the statuses of a whole plan are kept as one string."""


# The life of a tool call.
#
#     proposed ──► denied | cancelled
#        ├──► awaiting_approval ──► rejected | expired | cancelled
#        │           ▼
#        └──────► allowed ──► failed (stale) | cancelled
#                    ▼
#                 started ──► completed | failed | cancelled | unknown ──► completed | failed
#
# `started` is committed before anything is spawned, so a call found `started` after a crash may or
# may not have had its effect. Only a person's answer moves it out of `unknown`.


class CallStatus(StrEnum):
    """The status of a tool call."""

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
"""First words of errors of calls whose path nobody may touch."""
REFUSED = BARRED | {"policy_denied", "rejected", "expired"}
"""First words of errors of calls that were not allowed: by a rule, by a person, or in time."""


def was_refused(error: str | None) -> bool:
    """Whether a call with this error was not carried out because it was not allowed."""
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


# The life of an approval: one question, one answer.
#
# pending ──► approved | edited | rejected | expired | cancelled | superseded


class ApprovalStatus(StrEnum):
    """The status of an approval."""

    PENDING = "pending"
    APPROVED = "approved"
    EDITED = "edited"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class ApprovalKind(StrEnum):
    """The kinds of questions that gonogo asks; others can be registered under their own names."""

    PLAN = "plan"
    TOOL = "tool"
    SUBTASK = "subtask"
    INTERVENTION = "intervention"


def wants_words(kind: ApprovalKind | str, details: Mapping[str, object]) -> bool:
    """Whether it is an agent's question in words, which is answered and not approved."""
    return kind == ApprovalKind.INTERVENTION and "question" in details


GUARDED_NAMES = "guarded_names"
"""The subject of an intervention that outlives the call, the subtask and the plan it came from."""


class DecisionWord(StrEnum):
    """A person's answer to a question. `hold` is for plans only: approve now, start later."""

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


# The life of a turn: the work from one user message until idle, or until a person must decide.
#
# queued ──► running ⇄ parked ──► done | failed | cancelled
#    └──► cancelled


class TurnStatus(StrEnum):
    """The status of a turn."""

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
