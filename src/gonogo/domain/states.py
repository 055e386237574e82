"""Where plans, subtasks, calls, questions and turns can stand, and how each may move."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from gonogo.domain.errors import IllegalTransition

# A state machine as a table: which state may follow which, and nothing else.

S = TypeVar("S", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Machine(Generic[S]):
    """The legal moves of one kind of thing."""

    subject: str
    moves: Mapping[S, frozenset[S]]
    terminal: frozenset[S] = field(init=False)
    """The states that nothing follows."""

    def __post_init__(self) -> None:
        """Work out what the table says by leaving it out."""
        last = frozenset(state for state, targets in self.moves.items() if not targets)
        object.__setattr__(self, "terminal", last)

    def check(self, state: S, target: S, name: str = "") -> S:
        """Give `target` back if it may follow `state`.

        Raises:
            IllegalTransition: the table has no such move.
        """
        if target not in self.moves[state]:
            raise IllegalTransition(f"{self.subject} {name}".strip(), state, target)
        return target


class SessionState(StrEnum):
    """How a session stands, in the word by which a person picks one of many."""

    WAITING = "waiting"
    """A question of it is open."""
    RUNNING = "running"
    PAUSED = "paused"
    """A plan of it is held or paused: it goes on when somebody says so."""
    FAILED = "failed"
    """The last of what was asked for did not come about."""
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
# A plan that waits for approval stays so while its planner answers comments on it: an edit and a
# new revision are no moves, they ask anew. `approved` is a plan on hold: decided, not started. A
# failed or partial plan runs again only when a person retries a subtask. What a false condition
# left out was not to be done: a plan of which all else completed is `completed`. A plan that had
# begun and whose next revision is rejected, or not decided in time, is again at the one that was
# approved last, and ends as what was done of that says: `partial` or `failed`; so does one whose
# time or budget is over, be it paused, held or sent back. One of those that has nothing left to do
# is then `completed`.


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


# The life of a subtask's row in one revision of a plan.
#
# pending ──► running ──► completed | failed | cancelled
#    │  ▲        │  ▲
#    │  └─retry──┘  │
#    │   waiting_approval ──► skipped | failed | cancelled
#    ▼
# skipped | cancelled


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
SUBTASK_LETTERS = dict(zip(_S, "prwcfsx", strict=True))
"""The letter that stands for each status where those of a whole plan are one text."""


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
# may not have had its effect. What a person answers moves it out of `unknown`.


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


# The life of an approval: one question, one answer.
#
# pending ──► approved | edited | rejected | expired | cancelled | superseded


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


def wants_words(kind: ApprovalKind | str, details: Mapping[str, object]) -> bool:
    """Whether an agent asks to be told something; it is answered, not approved."""
    return kind == ApprovalKind.INTERVENTION and "question" in details


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


# The life of a turn: the work from one user message until idle, or until a person must decide.
#
# queued ──► running ⇄ parked ──► done | failed | cancelled
#    └──► cancelled


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
