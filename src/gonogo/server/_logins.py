"""How a browser gets in: a code that works once becomes a session behind a cookie.

Both live in this process only and are gone with it. Neither is kept as it was given out, so a
look into the process's tables opens no door.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic

from gonogo.domain.errors import Unauthorized
from gonogo.domain.principal import Principal

CODE_SECONDS = 600.0
SESSION_SECONDS = 86_400.0
"""A session that is not used for so long is over."""
KEPT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    principal: Principal
    until: float


class Logins:
    """Login codes and the browser sessions that were opened with them."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._codes: OrderedDict[str, _Entry] = OrderedDict()
        self._sessions: OrderedDict[str, _Entry] = OrderedDict()

    def new_code(self, principal: Principal) -> str:
        """A code that opens one session as `principal` within ten minutes."""
        return self._put(self._codes, principal, CODE_SECONDS)

    def open(self, code: str) -> str:
        """Spend a code and give the secret of a new session.

        Raises:
            Unauthorized: there is no such code, it was used, or it is too old.
        """
        entry = self._codes.pop(_digest(code), None)
        if entry is None or entry.until < self._clock():
            raise Unauthorized("This login code is not valid; each works once, for ten minutes")
        return self._put(self._sessions, entry.principal, SESSION_SECONDS)

    def find(self, secret: str) -> Principal:
        """Whose session a cookie holds.

        Raises:
            Unauthorized: the session ended, or there never was one.
        """
        key = _digest(secret)
        entry = self._sessions.pop(key, None)
        if entry is None or entry.until < self._clock():
            raise Unauthorized("This browser session is over; open the console's link again")
        until = self._clock() + SESSION_SECONDS
        self._sessions[key] = _Entry(principal=entry.principal, until=until)
        return entry.principal

    def close(self, secret: str) -> None:
        """End a session; one that is over already is no error."""
        self._sessions.pop(_digest(secret), None)

    def _put(self, entries: OrderedDict[str, _Entry], principal: Principal, seconds: float) -> str:
        secret = secrets.token_urlsafe(32)
        entries[_digest(secret)] = _Entry(principal=principal, until=self._clock() + seconds)
        if len(entries) > KEPT:
            entries.popitem(last=False)
        return secret


def _digest(secret: str) -> str:
    return sha256(secret.encode(errors="replace")).hexdigest()
