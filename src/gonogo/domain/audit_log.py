"""Reading the audit log: which entries are wanted, and where a page of them ends.

Over all chains, entries stand by their time, then by their chain and their number in it. A place is
written as text, so that a client can ask for what stands before it; entries that come later change
no page that begins at a place.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from gonogo.domain.errors import InvalidCursor

_MOST = 2**31
_NOT_A_PLACE = "before is no place in the audit log; use the `before` of the page that you have"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries are wanted; what is None does not matter."""

    actor: str | None = None
    """An id as the entries have it, or a person's name."""
    action: str | None = None
    """How it begins: `tool.` is everything about tool calls."""
    since: datetime | None = None
    until: datetime | None = None
    """Not itself included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlace:
    """Where an entry stands among those of all chains."""

    ts: datetime
    chain: str
    seq: int

    def text(self) -> str:
        """The place as clients keep it."""
        return f"{self.ts.isoformat()}~{self.seq}~{self.chain}"

    @classmethod
    def read(cls, text: str) -> Self:
        """The place that a text names.

        Raises:
            InvalidCursor: it names none.
        """
        at, _, rest = text.partition("~")
        seq, _, chain = rest.partition("~")
        try:
            moment = datetime.fromisoformat(at)
            place = cls(ts=moment.astimezone(UTC), chain=chain, seq=int(seq))
        except (ValueError, OverflowError):
            raise InvalidCursor(_NOT_A_PLACE) from None
        if moment.tzinfo is None or not chain or not 0 <= place.seq < _MOST:
            raise InvalidCursor(_NOT_A_PLACE)
        return place
