"""Every error that gonogo raises on purpose, grouped by whose fault it is.

    Refused                        the sender's fault; nothing has changed
    ├── InvalidMessage             422  shape or words of a message
    │   ├── UnknownType            422
    │   ├── InvalidPlan            422  any defect of a plan
    │   └── InvalidArguments       422  arguments against a tool's schema
    ├── Unauthorized               401
    │   └── NotValid               401  a signed token; why is for the log
    ├── Forbidden                  403
    │   └── PolicyDenied           403
    ├── NotFound                   404  foreign things look the same
    ├── Conflict                   409  stale revision, wrong state
    │   ├── AlreadyDecided         409  names who and when
    │   ├── IllegalTransition      409
    │   └── Superseded             409  the work is somebody else's now
    │       └── PlaceLost          409  as is all work in its workspace
    ├── Expired                    410
    ├── InvalidCursor              400
    ├── TooLarge                   413
    ├── UnsupportedMedia           415
    └── RateLimited                429
    Failed                         ours, or of what we depend on
    ├── ModelFailed                502
    ├── ModelNotConfigured         503
    ├── Busy                       503  what keeps the state is away; try again
    │   └── IdentityUnknown        503  no identity provider to check a token with
    ├── BudgetSpent                429  in domain/replanning.py, with the limit
    └── Internal                   500
    ToolFailed                     a tool's outcome that the model is told
    └── OutcomeUnknown             begun, and nobody knows what came of it

`code` and `status` are those of the wire (docs/reference/protocol.md, §3).
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Annotated, ClassVar

from pydantic import ValidationError, WrapValidator


class GonogoError(Exception):
    """The root of the tree. `code` is the word on the wire, `status` the HTTP status."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500


class Refused(GonogoError):
    """The sender asked for something that cannot be; nothing has changed."""

    code = "invalid_message"
    status = 422


class InvalidMessage(Refused):
    """A message has the wrong shape or an unknown word."""


class UnknownType(InvalidMessage):
    """A message names a type that clients cannot send."""

    code = "unknown_type"


class InvalidPlan(InvalidMessage):
    """A plan, or an edit of one, has a defect."""

    code = "invalid_plan"
    subtask_id: str | None = None
    """The subtask that has it, if one does."""


@contextmanager
def defects_of(subtask_id: str) -> Generator[None]:
    """Say of every defect that is found inside that it is this subtask's."""
    try:
        yield
    except InvalidPlan as problem:
        problem.subtask_id = subtask_id
        raise


class InvalidArguments(InvalidMessage):
    """Arguments do not fit the tool's schema."""

    code = "invalid_arguments"


class Unauthorized(Refused):
    """The request carries no valid credential."""

    code = "unauthorized"
    status = 401


class NotValid(Unauthorized):
    """A signed token does not count. `reason` is for the log; the sender is told less."""

    def __init__(self, reason: str, told: str = "The token is not valid here") -> None:
        super().__init__(told)
        self.reason = reason


class Forbidden(Refused):
    """The principal's role is not enough."""

    code = "forbidden"
    status = 403


class NoRole(Forbidden):
    """A signed token is valid, and gives whom it names no role here."""

    def __init__(self, principal_id: str) -> None:
        super().__init__("This token gives no role here; ask an admin to map one of its roles")
        self.principal_id = principal_id


class PolicyDenied(Forbidden):
    """The policy denies this, and no approval can allow it."""

    code = "policy_denied"


class NotFound(Refused):
    """There is no such thing for this principal."""

    code = "not_found"
    status = 404


class Conflict(Refused):
    """The thing has changed, or is not in a state that allows this."""

    code = "conflict"
    status = 409


class Superseded(Conflict):
    """Somebody else holds this work now; what the caller would write is refused."""


class PlaceLost(Superseded):
    """Another worker has the workspace, or may have it."""


class AlreadyDecided(Conflict):
    """Somebody decided first."""

    code = "already_decided"

    def __init__(self, subject: str, status: str, decided_by: str, decided_at: str) -> None:
        super().__init__(f"{subject} was already {status} by {decided_by} at {decided_at}")
        self.decision, self.decided_by, self.decided_at = status, decided_by, decided_at


class IllegalTransition(Conflict):
    """A thing was asked for a move that its table lacks."""

    def __init__(self, subject: str, state: str, target: str) -> None:
        super().__init__(f"{subject} is {state} and cannot become {target}")
        self.subject, self.state, self.target = subject, state, target


class Expired(Refused):
    """The question expired before this decision."""

    code = "expired"
    status = 410


class InvalidCursor(Refused):
    """`after` or `Last-Event-ID` is not a place in this session's log."""

    code = "invalid_cursor"
    status = 400


class TooLarge(Refused):
    """A message is larger, deeper or longer than the limits."""

    code = "too_large"
    status = 413


class UnsupportedMedia(Refused):
    """The request's media type is not JSON."""

    status = 415


class RateLimited(Refused):
    """Too many requests, or too many open questions."""

    code = "rate_limited"
    status = 429


class InternalFailure(GonogoError):
    """Something of ours, or of what we depend on, did not work."""


class ModelFailed(InternalFailure):
    """The model's provider failed, after the retries that make sense.

    `retry_after` is the number of seconds that the provider asked us to wait, if it did. A request
    that was not `sent` did not reach the provider, so that it cannot have cost anything.
    """

    code = "model_error"
    status = 502

    def __init__(
        self,
        message: str,
        *,
        http_status: int | None = None,
        retry_after: float | None = None,
        transient: bool = False,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.http_status, self.retry_after, self.transient = http_status, retry_after, transient
        self.sent = sent


class PromptTooLong(ModelFailed):
    """The provider refused a request because it holds more than the model's window."""


class ModelNotConfigured(InternalFailure):
    """No model is configured, or its credentials are missing."""

    code = "model_not_configured"
    status = 503


class Busy(InternalFailure):
    """What this depends on is away, such as a database that restarts or whose disk is full.

    Nothing is half done; the same may succeed later. `reason` is for the log: it may name hosts.
    """

    code = "unavailable"
    status = 503
    retry_after: ClassVar[int] = 2
    """Seconds after which it is worth trying again."""

    def __init__(
        self,
        told: str = "The database cannot be used now; try again in a moment",
        *,
        reason: str | None = None,
    ) -> None:
        super().__init__(told)
        self.reason = told if reason is None else reason


class IdentityUnknown(Busy):
    """The identity provider does not answer, so nobody can say whose token this is."""


class Internal(InternalFailure):
    """A defect of gonogo; the log has the details."""


class ToolFailed(GonogoError):
    """A tool did not do what was asked; the model is told `kind` and the message.

    `kind` is one of the error codes of docs/reference/tools.md, such as `file_not_found`,
    `path_outside_workspace`, `changed_since_read`, `timeout`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class OutcomeUnknown(ToolFailed):
    """A tool was begun, and nobody knows what came of it: a person is asked, and told why."""

    def __init__(self, why: str) -> None:
        super().__init__("unknown", why)
        self.why = why


# What is wrong with something that a stranger wrote, in a few words.


def defect_of(error: ValidationError, whole: str = "") -> str:
    """The first thing that does not fit a model: the field, and what is wrong with it.

    Args:
        whole: What to name where it is no field of it; by default nothing is named.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or whole
    said = in_words(first["msg"])
    return f"{field}: {said}" if field else said


def in_words(message: str) -> str:
    """What a check of ours said, without pydantic's own word before it."""
    return message.removeprefix("Value error, ")


# Why something is so: a sentence in English that can still be said in another language.


class Reason(str):
    """A sentence that knows what it was made of (`texts.told` says it in another language)."""

    __slots__ = ("fields", "template")

    template: str
    fields: dict[str, object]


def because(template: str, /, **fields: object) -> Reason:
    """Make a reason.

    Args:
        template: In English, as `str.format` reads it.
        fields: What it names; reasons among them are said in the other language, too.
    """
    made = Reason(template.format(**fields))
    made.template, made.fields = template, fields
    return made


def together(reasons: Iterable[str]) -> str:
    """Several reasons, at least one, as one."""
    whole, *others = reasons
    for other in others:
        whole = because("{first}; {then}", first=whole, then=other)
    return whole


def _kept(value: object, read: Callable[[object], str]) -> str:
    return value if isinstance(value, Reason) else read(value)


Said = Annotated[str, WrapValidator(_kept)]
"""A field of a model that keeps a reason as it is; what was stored is read as plain text."""
