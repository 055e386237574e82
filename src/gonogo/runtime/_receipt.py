"""What a sender gets back at once: that the message is kept, and where its answer will be."""

from dataclasses import dataclass
from typing import Any

from gonogo.domain.views import DecisionAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """An accepted message. Its answer is what follows `after` in the session's log."""

    session_id: str
    after: int
    turn_id: str | None = None
    plan_id: str | None = None
    answers: tuple[DecisionAnswer, ...] = ()
    """One for each id of a batch."""
    created: bool = False
    """The message made the session."""

    def covers(self, body: dict[str, Any]) -> bool:
        """Whether an event belongs to the answer."""
        if self.turn_id is None and self.plan_id is None:
            return True
        if self.turn_id is not None and body.get("turn_id") == self.turn_id:
            return True
        if self.plan_id is not None and body.get("plan_id") == self.plan_id:
            return True
        return self.created and body["type"] == "session_info"
