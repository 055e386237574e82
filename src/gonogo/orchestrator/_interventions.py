"""Interventions: the kind `intervention` of the desk, by what each is about.

One that says in its details under `about` what matter it is has a kind of its own. Any other names
the call whose outcome, or whose question, it is about.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gonogo.approvals import Kind, Ruling
from gonogo.domain.errors import Conflict
from gonogo.domain.records import Approval
from gonogo.store import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class InterventionKind:
    """Hands each answer to what it is about."""

    of_calls: Kind
    others: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    """By the word under `about`."""

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        """Go on or run again, take a person's result, or fail it."""
        self._kind_of(approval).settle(conn, approval, ruling, now)

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        """Nobody answered in time."""
        self._kind_of(approval).lapse(conn, approval, now)

    def _kind_of(self, approval: Approval) -> Kind:
        about = str(approval.details.get("about"))
        if about in self.others:
            return self.others[about]
        if approval.call_id is None:
            raise Conflict(f"Nobody can carry out an answer about {about!r}")
        return self.of_calls
