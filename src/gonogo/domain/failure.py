"""Failures as values: what went wrong, how bad it is, and whether trying again makes sense.

A failure is typed where it happens. `classify` turns an exception of the tree in
`gonogo.domain.errors` into a failure; text is looked at nowhere here.
"""

from enum import StrEnum

from gonogo.domain.errors import (
    Failed,
    GonogoError,
    ModelFailed,
    ModelNotConfigured,
    PolicyDenied,
    ToolFailed,
)
from gonogo.domain.plan import Frozen, RetryPolicy


class Severity(StrEnum):
    """How bad."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Category(StrEnum):
    """What kind of thing went wrong."""

    ENVIRONMENT = "environment"
    DEPENDENCY = "dependency"
    VALIDATION = "validation"
    LOGIC = "logic"
    TIMEOUT = "timeout"
    RESOURCE = "resource"
    QUOTA = "quota"
    PERMISSION = "permission"
    POLICY = "policy"
    NETWORK = "network"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


TRANSIENT = frozenset({Category.TIMEOUT, Category.NETWORK, Category.RESOURCE, Category.QUOTA})
"""Categories that go away by themselves often enough to try again."""


MAX_DELAY = 86_400.0
"""Seconds: no retry waits longer than a day, whatever its backoff comes to."""


class Failure(Frozen):
    """Why a subtask did not complete."""

    message: str
    severity: Severity = Severity.MEDIUM
    category: Category = Category.UNKNOWN


class Classified(Failed):
    """An error that says itself which failure it is."""

    def __init__(self, message: str, *, severity: Severity, category: Category) -> None:
        super().__init__(message)
        self.severity, self.category = severity, category


def classify(error: GonogoError) -> Failure:
    """The failure that an error of ours stands for."""
    match error:
        case Classified():
            kind = (error.severity, error.category)
        case ModelFailed(http_status=429):
            kind = (Severity.MEDIUM, Category.QUOTA)
        case ModelFailed(transient=True):
            kind = (Severity.MEDIUM, Category.NETWORK)
        case ModelFailed() | ModelNotConfigured():
            kind = (Severity.HIGH, Category.ENVIRONMENT)
        case PolicyDenied():
            kind = (Severity.MEDIUM, Category.POLICY)
        case ToolFailed(kind="timeout"):
            kind = (Severity.MEDIUM, Category.TIMEOUT)
        case ToolFailed():
            kind = (Severity.MEDIUM, Category.LOGIC)
        case _:
            kind = (Severity.MEDIUM, Category.UNKNOWN)
    return Failure(message=str(error), severity=kind[0], category=kind[1])


def retry_delay(policy: RetryPolicy | None, failure: Failure, attempt: int) -> float | None:
    """Seconds until the next attempt, or None when there is none.

    Args:
        attempt: The number of the attempt that failed, from 1.
    """
    if policy is None or attempt >= policy.max_attempts:
        return None
    wanted = set(policy.on) or set(TRANSIENT)
    if failure.category not in wanted:
        return None
    return min(MAX_DELAY, policy.delay * policy.backoff ** (attempt - 1))
