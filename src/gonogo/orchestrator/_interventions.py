"""Interventions: the kind `intervention` of the desk, by what each is about.

One about a tool call names the call. One about a plan names no call, and says in its details under
`about` which matter of the plan it is.
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
    of_plans: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    """By the word under `about`."""

    def settle(self, conn: Connection, approval: Approval, ruling: Ruling, now: datetime) -> None:
        """Go on or run again, take a person's result, or fail it."""
        self._kind_of(approval).settle(conn, approval, ruling, now)

    def lapse(self, conn: Connection, approval: Approval, now: datetime) -> None:
        """Nobody answered in time."""
        self._kind_of(approval).lapse(conn, approval, now)

    def _kind_of(self, approval: Approval) -> Kind:
        if approval.call_id is not None:
            return self.of_calls
        about = str(approval.details.get("about"))
        if about not in self.of_plans:
            raise Conflict(f"Nobody can carry out an answer about {about!r}")
        return self.of_plans[about]
