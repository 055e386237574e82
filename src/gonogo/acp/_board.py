"""A plan as the list of entries that editors show, kept up to date with its graph.

The protocol's entries are a list, and know three states. The graph is in `_meta`: `id`,
`dependencies`, and the exact `status`. An entry that failed, was skipped or was cancelled is not
shown as completed: it stays `pending`, and its text says what came of it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from acp import schema

from gonogo.domain.text_safety import guarded

_STATES: Mapping[str, schema.PlanEntryStatus] = {
    "running": "in_progress",
    "in_progress": "in_progress",
    "waiting_approval": "in_progress",
    "completed": "completed",
}
_ENDS = {
    "subtask_started": "running",
    "subtask_completed": "completed",
    "subtask_failed": "failed",
    "subtask_skipped": "skipped",
    "subtask_cancelled": "cancelled",
    "subtask_retrying": "pending",
}
_SAID = frozenset({"failed", "skipped", "cancelled"})
_META = ("id", "dependencies", "agent", "tool", "type", "estimated_time")


class Board:
    """The plan that a session shows now."""

    def __init__(self) -> None:
        self.plan_id: str | None = None
        self.revision = 0
        self._subtasks: list[Mapping[str, Any]] = []
        self._critical: frozenset[str] = frozenset()
        self._states: dict[str, str] = {}

    def show(
        self,
        plan_id: str,
        revision: int,
        subtasks: Iterable[Mapping[str, Any]],
        critical: Iterable[str] | None = None,
    ) -> schema.AgentPlanUpdate:
        """Show a revision; what is known of subtasks that it keeps stays known."""
        if plan_id != self.plan_id:
            self._states = {}
        if critical is not None:
            self._critical = frozenset(critical)
        self.plan_id, self.revision, self._subtasks = plan_id, revision, list(subtasks)
        for subtask in self._subtasks:
            if "status" in subtask:
                self._states[subtask["id"]] = str(subtask["status"])
        return self._entries()

    def hear(self, event: Mapping[str, Any]) -> schema.AgentPlanUpdate | None:
        """Take in an event of a subtask; the list, if that has changed it."""
        state = _ENDS.get(event["type"])
        if state is None or event.get("plan_id") != self.plan_id:
            return None
        subtask_id = event["metadata"]["subtask_id"]
        if self._states.get(subtask_id) == state:
            return None
        self._states[subtask_id] = state
        return self._entries()

    def clear(self) -> schema.AgentPlanUpdate:
        """There is no plan any more."""
        self.plan_id, self._subtasks = None, []
        return self._entries()

    def _entries(self) -> schema.AgentPlanUpdate:
        entries = [self._entry(subtask) for subtask in self._subtasks]
        return schema.AgentPlanUpdate(session_update="plan", entries=entries)

    def _entry(self, subtask: Mapping[str, Any]) -> schema.PlanEntry:
        state = self._states.get(subtask["id"], "pending")
        said = f"{state}: " if state in _SAID else ""
        meta = {name: subtask[name] for name in _META if subtask.get(name) is not None}
        meta |= {"status": state, "plan_id": self.plan_id, "revision": self.revision}
        return schema.PlanEntry(
            content=said + guarded(str(subtask["description"])),
            priority="high" if subtask["id"] in self._critical else "medium",
            status=_STATES.get(state, "pending"),
            field_meta=meta,
        )
