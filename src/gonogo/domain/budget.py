"""Budgets: what a plan, or a session, may take in all.

A limit is a number under a word: `tokens`, `cost` (US dollars), `seconds` (wall time since the
plan's start), `requests` (to models) and `subtasks` (runs begun) of one plan, and with `session_`
before it what all model requests of the session may take.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gonogo.domain.errors import Failed

Limits = Mapping[str, float]
OF_REQUESTS = frozenset({"tokens", "cost", "requests"})
OF_SESSIONS = frozenset(f"session_{word}" for word in OF_REQUESTS)
OF_STARTS = frozenset({"seconds", "subtasks"})
WORDS = OF_REQUESTS | OF_SESSIONS | OF_STARTS
DEFAULT_OUTPUT = 1_000
"""Tokens that a reply is taken to have before there was any."""
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What model requests took so far; one under way counts as what it was estimated to take."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    unpriced: int = 0
    """Replies whose price is not known; they count as nothing."""
    largest_output: int = 0
    largest_cost: int = 0

    def by_word(self, prefix: str = "") -> dict[str, float]:
        """As numbers under the words of limits."""
        return {
            f"{prefix}tokens": self.input_tokens + self.output_tokens,
            f"{prefix}cost": self.cost_micros / 1_000_000,
            f"{prefix}requests": self.requests,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A limit that one more step would pass."""

    what: str
    used: float
    limit: float

    @property
    def setting(self) -> str:
        """The setting that says the limit."""
        of = "" if self.what in OF_SESSIONS else "PLAN_"
        return f"GONOGO_BUDGET_{of}{self.what.upper()}"


class BudgetSpent(Failed):
    """One more request to a model would pass a limit; it was not sent."""

    code = "rate_limited"
    status = 429

    def __init__(self, message: str, excess: Excess) -> None:
        super().__init__(message)
        self.excess = excess


def in_force(settings: Limits, own: Mapping[str, Any] | None) -> Limits:
    """The limits of a plan: those of the settings, with those that people set in their place."""
    if not settings or not own:
        return settings
    return {**settings, **own.get("limits", {})}


def excess(limits: Limits, used: Mapping[str, float], more: Mapping[str, float]) -> Excess | None:
    """The first limit that `more` would pass, if there is one."""
    for what, limit in limits.items():
        if what in more and used.get(what, 0) + more[what] > limit:
            return Excess(what=what, used=used.get(what, 0), limit=limit)
    return None


def tokens_of(text_bytes: int) -> int:
    """An estimate of what a text of so many bytes takes: a quarter, rounded up."""
    return -(-text_bytes // _BYTES_PER_TOKEN)
