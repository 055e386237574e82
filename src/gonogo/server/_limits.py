"""How often one address may be wrong about a credential.

A right credential is never held up; after too many wrong ones in a minute, further wrong ones are
told to wait. What is remembered is bounded, whatever number of addresses try.
"""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from gonogo.domain.errors import RateLimited

ALLOWED = 20
WINDOW = 60.0
ADDRESSES = 4_096


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
