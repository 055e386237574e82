"""How often one address may be wrong about a credential, and how much one principal may ask.

A right credential is never held up because others were wrong; after too many wrong ones in a
minute, further wrong ones are told to wait. What a principal asks for counts in one of three
buckets, so that who floods the server with messages can still decide and cancel. What is
remembered is bounded, whatever number of addresses and principals there are.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from time import monotonic

from gonogo.domain.errors import RateLimited

ALLOWED = 20
WINDOW = 60.0
ADDRESSES = 4_096
PRINCIPALS = 4_096
BURST = 4
"""Seconds of requests that may come at once after a pause."""
_NEARLY = 1e-6
"""What sums of fractions may lack of a whole request."""


class Failures:
    """Wrong credentials, counted for each address over a minute."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, address: str) -> None:
        """Count one more.

        Raises:
            RateLimited: it was one too many.
        """
        now = self._clock()
        since, count = self._counts.pop(address, (now, 0))
        if now - since > WINDOW:
            since, count = now, 0
        self._counts[address] = since, count + 1
        if len(self._counts) > ADDRESSES:
            self._counts.popitem(last=False)
        if count >= ALLOWED:
            raise RateLimited("Too many wrong credentials from this address; wait a minute")


class TooFast(RateLimited):
    """A principal asked for more than its share; waiting helps."""

    def __init__(self, what: str, seconds: int) -> None:
        super().__init__(f"Too many {what}; try again in {seconds} s")
        self.seconds = seconds


class Bucket:
    """What each principal may still ask for: it fills steadily, up to a burst."""

    def __init__(
        self, what: str, rate: float, burst: float, clock: Callable[[], float] = monotonic
    ) -> None:
        """Make a bucket for each principal, full at first.

        Args:
            what: What is counted, in the plural.
            rate: How many a second; 0 is no limit.
            burst: How many at once; at least one.
        """
        self._what, self._rate, self._burst, self._clock = what, rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, principal_id: str) -> None:
        """Count one more.

        Raises:
            TooFast: it was one too many, and counts for nothing.
        """
        if self._rate == 0:
            return
        now = self._clock()
        left, since = self._left.pop(principal_id, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        is_enough = left >= 1 - _NEARLY
        self._left[principal_id] = left - is_enough, now
        # Who asked least lately has the fullest bucket, and loses least by being forgotten.
        if len(self._left) > PRINCIPALS:
            self._left.popitem(last=False)
        if not is_enough:
            raise TooFast(self._what, max(1, ceil((1 - left) / self._rate - _NEARLY)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The buckets of a door. Whatever is asked counts in exactly one of them."""

    requests: Bucket
    messages: Bucket
    """What starts work: a user's message, a switch of the agent."""
    decisions: Bucket
    """Decisions, cancels and pauses: a person who wants to stop something is heard."""

    @classmethod
    def of(cls, *, requests: int, messages: int, clock: Callable[[], float] = monotonic) -> "Rates":
        """The buckets for so many requests a second and messages a minute; 0 is no limit."""
        return cls(
            requests=Bucket("requests", requests, BURST * requests, clock),
            messages=Bucket("messages", messages / 60, messages, clock),
            decisions=Bucket("decisions", requests, BURST * requests, clock),
        )
