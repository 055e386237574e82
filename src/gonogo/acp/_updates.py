"""Events of a session as the updates that editors are sent, one after the other.

What streams in comes as it is written; of a subtask, which writes beside others, when it is whole.
"""

from collections.abc import Callable, Mapping
from typing import Any

from acp import schema
from acp.helpers import start_tool_call, text_block, update_current_mode, update_tool_call

from gonogo.acp._board import Board
from gonogo.acp._calls import (
    TOLD,
    Content,
    changes_of,
    created,
    kind_of,
    locations_of,
    output_of,
    text_content,
    title_of,
)

Event = Mapping[str, Any]
Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.AvailableCommandsUpdate
    | schema.CurrentModeUpdate
    | schema.SessionInfoUpdate
)
_NOTICES = frozenset(
    {
        "plan_approved", "plan_rejected", "plan_completed", "plan_paused", "plan_resumed",
        "plan_cancelled", "plan_replanning", "plan_sent_back", "plan_not_revised",
        "plan_commented", "plan_rolled_back", "approval_warning", "approval_voted",
        "approval_escalated", "model_away", "model_back",
    }
)  # fmt: skip
_TROUBLES = {"subtask_failed": "✗", "subtask_skipped": "↷", "subtask_retrying": "↻"}


def said(text: str) -> schema.AgentMessageChunk:
    """Something that an agent says, or that is said in its place."""
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=text_block(text))


def asked(text: str) -> schema.UserMessageChunk:
    """Something that the user has said."""
    return schema.UserMessageChunk(session_update="user_message_chunk", content=text_block(text))


class Updates:
    """What a session's events look like in an editor; knows what it has shown so far."""

    def __init__(self, root: str, board: Board) -> None:
        self._root, self.board = root, board
        self._written: dict[str, str] = {}
        """Message → what of it has come already."""
        self._speaking: str | None = None
        """The message that was shown last, if nothing else was shown since."""
        self._calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._shows: dict[str, Callable[[Event], list[Update]]] = {
            "assistant_message": self._spoken,
            "agent_switched": self._switched,
            "plan_notification": self._planned,
            "tool_call": self._called,
            "tool_approved": self._allowed,
            "tool_rejected": self._refused,
            "tool_result": self._resulted,
            **dict.fromkeys(_NOTICES, self._noticed),
        }

    def of(self, event: Event) -> list[Update]:
        """What is to be shown of an event."""
        kind = str(event["type"])
        if kind.startswith("subtask_"):
            found = self._progressed(event)
        else:
            show = self._shows.get(kind)
            found = show(event) if show else []
        if found and kind != "assistant_message":
            self._speaking = None
        return found

    def call(
        self, call_id: str, tool: str, arguments: Mapping[str, Any], subtask_id: str | None
    ) -> schema.ToolCallStart:
        """A call that begins."""
        self._calls[call_id] = tool, arguments
        return start_tool_call(
            call_id,
            title_of(tool, arguments, subtask_id),
            kind=kind_of(tool),
            status="pending",
            content=changes_of(tool, arguments, self._root) or None,
            locations=locations_of(tool, arguments, self._root) or None,
            raw_input=dict(arguments),
        )

    def ended(
        self, call_id: str, tool: str, result: object, error: str | None
    ) -> schema.ToolCallProgress:
        """A call that is over."""
        _, arguments = self._calls.pop(call_id, (tool, {}))
        content: list[Content]
        if error is not None:
            content = [text_content(error)]
        else:
            content = output_of(tool, result) or created(arguments, result, self._root)
        return update_tool_call(
            call_id,
            status="completed" if error is None else "failed",
            content=content or None,
            raw_output=result if error is None else {"error": error},
        )

    def _spoken(self, event: Event) -> list[Update]:
        key = f"{event.get('turn_id')}/{event.get('subtask_id')}/{event.get('agent')}"
        if "token" in event:
            if "subtask_id" in event:
                return []
            self._written[key] = self._written.get(key, "") + event["token"]
            return self._say(key, event["token"])
        before = self._written.pop(key, "")
        text = str(event.get("content") or "")
        if before and text.startswith(before):
            text = text[len(before) :]
        elif before.endswith(text):
            # It was cut off, and written once more from its beginning.
            text = ""
        if not text:
            return []
        updates = self._say(key, _where(event) + text if not before else text)
        self._speaking = None if before else self._speaking
        return updates

    def _say(self, key: str, text: str) -> list[Update]:
        new = self._speaking != key
        apart = "\n\n" if new and self._speaking is not None else ""
        self._speaking = key
        return [said(apart + text)]

    def _switched(self, event: Event) -> list[Update]:
        if "subtask_id" in event:
            return []
        return [update_current_mode(event["metadata"]["to_agent"])]

    def _planned(self, event: Event) -> list[Update]:
        facts = event["metadata"]
        return [
            self.board.show(
                facts["plan_id"], facts["revision"], facts["subtasks"], facts.get("critical_path")
            )
        ]

    def _called(self, event: Event) -> list[Update]:
        if event["tool_name"] in TOLD:
            return []
        start = self.call(
            event["call_id"], event["tool_name"], event["arguments"], event.get("subtask_id")
        )
        if not event["requires_approval"]:
            start.status = "in_progress"
        start.field_meta = _meta(event)
        return [start]

    def _allowed(self, event: Event) -> list[Update]:
        changed = event["metadata"].get("modified_arguments")
        call_id = event["call_id"]
        if changed and call_id in self._calls:
            tool, _ = self._calls[call_id]
            start = self.call(call_id, tool, changed, event.get("subtask_id"))
            return [
                update_tool_call(
                    call_id, title=start.title, status="in_progress", content=start.content,
                    locations=start.locations, raw_input=start.raw_input,
                )
            ]  # fmt: skip
        return [update_tool_call(call_id, status="in_progress")]

    def _refused(self, event: Event) -> list[Update]:
        text = event.get("content") or event["metadata"].get("feedback") or "rejected"
        self._calls.pop(event["call_id"], None)
        return [update_tool_call(event["call_id"], status="failed", content=[text_content(text)])]

    def _resulted(self, event: Event) -> list[Update]:
        if event["tool_name"] in TOLD or event["call_id"] not in self._calls:
            return []
        return [
            self.ended(
                event["call_id"], event["tool_name"], event.get("result"), event.get("error")
            )
        ]

    def _progressed(self, event: Event) -> list[Update]:
        update = self.board.hear(event)
        updates: list[Update] = [update] if update else []
        mark = _TROUBLES.get(event["type"])
        if mark is None:
            return updates
        facts = event["metadata"]
        error: Event = facts.get("error") or {}
        text = error.get("message") or facts.get("reason") or event.get("content") or ""
        return [*updates, said(f"\n\n{mark} {facts['subtask_id']}: {text}\n\n")]

    def _noticed(self, event: Event) -> list[Update]:
        text = event.get("content")
        updates: list[Update] = [said(f"\n\n{text}\n\n")] if text else []
        if event["type"] == "plan_rejected":
            updates.append(self.board.clear())
        return updates


def _where(event: Event) -> str:
    return f"[{event['subtask_id']}] " if "subtask_id" in event else ""


def _meta(event: Event) -> dict[str, Any] | None:
    names = ("plan_id", "subtask_id", "agent")
    return {name: event[name] for name in names if name in event} or None
