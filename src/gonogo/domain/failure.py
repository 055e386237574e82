"""Failures as values: what went wrong, how bad it is, and whether trying again makes sense.

A failure is typed where it happens. `classify` turns an exception of the tree in
`gonogo.domain.errors` into a failure; text is looked at nowhere here.
"""

from enum import StrEnum
from typing import Any

from gonogo.domain.base import Frozen
from gonogo.domain.errors import (
    Failed,
    GonogoError,
    ModelFailed,
    ModelNotConfigured,
    PolicyDenied,
    ToolFailed,
)
from gonogo.domain.plan import RetryPolicy


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
    NO_WORK = "no_work"
    """An agent said that it was done, or said nothing, and had not done what there was to do."""
    UNKNOWN = "unknown"


TRANSIENT = frozenset(
    {Category.TIMEOUT, Category.NETWORK, Category.RESOURCE, Category.QUOTA, Category.NO_WORK}
)
"""Categories that go away by themselves often enough to try again."""


TOO_MANY = 429
"""The status with which a provider says that its limit is reached (RFC 6585, section 4)."""
_LONGEST_PAUSE = 366 * 86_400.0
"""Seconds; a provider that asks for more than a year means something else."""
_SHORTEST_PAUSE = 1.0
MAX_DELAY = 86_400.0
"""Seconds: no retry waits longer than a day, whatever its backoff comes to."""


class Failure(Frozen):
    """Why a subtask did not complete."""

    message: str
    severity: Severity = Severity.MEDIUM
    category: Category = Category.UNKNOWN

    @property
    def facts(self) -> dict[str, Any]:
        """What is kept with the subtask that failed: `message`, `severity`, `category`."""
        return self.model_dump(mode="json", include={"message", "severity", "category"})


class Classified(Failed):
    """An error that says itself which failure it is."""

    def __init__(self, message: str, *, severity: Severity, category: Category) -> None:
        super().__init__(message)
        self.severity, self.category = severity, category


class NoWork(Classified):
    """A model ended what it was to do, and did nothing of it."""

    code = "model_error"
    status = 502

    def __init__(self, message: str) -> None:
        super().__init__(message, severity=Severity.MEDIUM, category=Category.NO_WORK)


def classify(error: GonogoError) -> Failure:
    """The failure that an error of ours stands for."""
    match error:
        case Classified():
            kind = (error.severity, error.category)
        case ModelFailed() if error.http_status == TOO_MANY:
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


def is_away(error: GonogoError) -> bool:
    """Whether a model did not answer for reasons of its own: it may answer the same later."""
    return isinstance(error, ModelFailed) and error.transient and error.http_status != TOO_MANY


def quota_pause(error: GonogoError) -> float | None:
    """Seconds until a model's quota is there again; None when that is not what an error says."""
    if not isinstance(error, ModelFailed) or error.http_status != TOO_MANY:
        return None
    seconds = error.retry_after
    if seconds is None or not 0 < seconds <= _LONGEST_PAUSE:
        return None
    return max(seconds, _SHORTEST_PAUSE)


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
