"""What came of the work, told from its events: the exit code, and what still asks."""

from collections.abc import Mapping
from typing import Any

from gonogo.cli._exits import Exit
from gonogo.cli._paused import BY_ITSELF
from gonogo.domain.states import was_refused

_ENDS = {"completed": Exit.DONE, "rejected": Exit.DENIED}


class Outcome:
    """How the last message that was sent has ended, so far."""

    def __init__(self) -> None:
        self.plan_id: str | None = None
        """The plan that was put before the person, while it is not over."""
        self.is_paused = False
        """A person has paused it."""
        self.is_held = False
        """A person has approved it, to be started later."""
        self._exit = Exit.DONE
        self._denied = False
        self._asked: tuple[str, str] | None = None

    @property
    def exit(self) -> Exit:
        """The exit code, if this was all. What was denied or rejected comes before how it ended."""
        return Exit.DENIED if self._denied else self._exit

    @property
    def question(self) -> str | None:
        """What the agent asked the user and nobody has answered."""
        return self._asked[1] if self._asked else None

    def fresh(self) -> None:
        """Another message was sent: what came of earlier ones does not count."""
        self._exit, self._asked = Exit.DONE, None

    def note(self, event: Mapping[str, Any]) -> None:
        """Take in one event."""
        facts: Mapping[str, Any] = event.get("metadata") or {}
        match event["type"]:
            case "plan_notification":
                self.plan_id = facts["plan_id"]
            case "plan_paused" | "plan_resumed":
                by_itself = facts.get("reason") in BY_ITSELF
                self.is_paused = event["type"] == "plan_paused" and not by_itself
            case "plan_approved":
                self.is_held = bool(facts.get("held"))
            case "plan_completed":
                self._end(_ENDS.get(facts["status"], Exit.FAILED))
            case "plan_rejected" | "plan_cancelled":
                rejected = event["type"] == "plan_rejected"
                self._end(Exit.DENIED if rejected else Exit.FAILED)
            case "error" if "subtask_id" not in event:
                denied = event.get("code") == "policy_denied"
                self._exit = Exit.DENIED if denied else Exit.FAILED
            case "tool_call" | "tool_rejected" | "tool_result":
                self._note_call(event)
            case _:
                pass

    def _end(self, how: Exit) -> None:
        self.plan_id, self.is_paused, self._exit = None, False, how

    def _note_call(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "tool_rejected" or was_refused(event.get("error")):
            self._denied = True
        if event["type"] == "tool_result" and self._asked and event["call_id"] == self._asked[0]:
            self._asked = None
        elif event["type"] == "tool_call" and _is_question(event):
            self._asked = event["call_id"], str(event["arguments"].get("question", ""))


def _is_question(event: Mapping[str, Any]) -> bool:
    """Whether an agent asks the user; in a subtask that is a question like any other."""
    return event["tool_name"] == "ask_followup_question" and "subtask_id" not in event
