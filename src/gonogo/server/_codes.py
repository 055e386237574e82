"""How a browser gets in: a code that works once.

Codes live in this process only and are gone with it; what they are exchanged for does not. They are
not kept as they were given out, so a look into the process's memory opens no door.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic

from gonogo.domain.errors import Unauthorized
from gonogo.domain.identity import Principal

CODE_SECONDS = 600.0
KEPT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    principal: Principal
    until: float


class Codes:
    """Login codes that were not spent yet."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def new(self, principal: Principal) -> str:
        """A code that lets one browser in as `principal` within ten minutes."""
        code = secrets.token_urlsafe(32)
        entry = _Entry(principal=principal, until=self._clock() + CODE_SECONDS)
        self._entries[_digest(code)] = entry
        if len(self._entries) > KEPT:
            self._entries.popitem(last=False)
        return code

    def spend(self, code: str) -> Principal:
        """Whom a code lets in, this once.

        Raises:
            Unauthorized: there is no such code, it was used, or it is too old.
        """
        entry = self._entries.pop(_digest(code), None)
        if entry is None or entry.until < self._clock():
            raise Unauthorized("This login code is not valid; each works once, for ten minutes")
        return entry.principal


def _digest(secret: str) -> str:
    return sha256(secret.encode(errors="replace")).hexdigest()
