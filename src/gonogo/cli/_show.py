"""Events as a person reads them while they happen."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from rich.console import Console
from rich.text import Text

from gonogo.cli._diff import revision_lines
from gonogo.cli._escape import one_line, spoken
from gonogo.cli._tree import plan_lines
from gonogo.domain.text_safety import guarded

Event = Mapping[str, Any]
_SPOKEN = frozenset(
    {"create_plan", "execute_plan", "switch_mode", "ask_followup_question", "attempt_completion"}
)
"""Tools whose result other events tell."""
_OUTPUT = 12
"""Lines of a command's output that are shown; the last ones say how it ended."""


class Screen(Protocol):
    """Where events are shown."""

    def show(self, event: Event) -> None:
        """Show one event."""
        ...

    def glance(self, event: Event) -> None:
        """See an event that is not to be shown yet."""
        ...

    def look_at(self, plan_id: str) -> None:
        """A plan is of interest of which nothing has been shown."""
        ...

    async def stay(self) -> None:
        """Show what changes by itself, until cancelled."""
        ...


class Written:
    """A screen on which nothing changes that is there."""

    def glance(self, event: Event) -> None:
        """Nothing is shown of it."""

    def look_at(self, plan_id: str) -> None:
        """Nothing is shown of it."""

    async def stay(self) -> None:
        """Nothing changes."""


class JsonLines(Written):
    """One event a line, as it came."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def show(self, event: Event) -> None:
        """Write the event."""
        self._write(json.dumps(event, ensure_ascii=True) + "\n")


class Lines(Written):
    """Lines in the order things happen; colours and nothing more where there is a terminal.

    Text streams in as it is written, but for that of subtasks, which run side by side: theirs is
    shown when it is whole.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._streaming = False
        self._streamed = ""
        """What has been shown of a text that is not closed yet."""
        self._calls: dict[str, str] = {}
        self._shows: dict[str, Callable[[Event], None]] = {
            "assistant_message": self._said,
            "agent_switched": self._switched,
            "plan_notification": self._planned,
            "tool_call": self._called,
            "tool_rejected": self._rejected,
            "tool_result": self._resulted,
            "subtask_started": self._started,
            "subtask_completed": self._ended("✓", "green"),
            "subtask_failed": self._ended("✗", "red"),
            "subtask_skipped": self._ended("↷", "yellow"),
            "subtask_retrying": self._ended("↻", "yellow"),
            "subtask_cancelled": self._ended("■", "yellow"),
            "plan_commented": self._content("yellow"),
            "plan_sent_back": self._content("yellow"),
            "plan_not_revised": self._content("bold yellow"),
            "plan_approved": self._content("bold green"),
            "plan_rejected": self._content("bold yellow"),
            "plan_completed": self._content("bold"),
            "plan_paused": self._content("yellow"),
            "plan_resumed": self._content("green"),
            "plan_cancelled": self._content("bold yellow"),
            "model_away": self._content("yellow"),
            "model_back": self._content("green"),
            "approval_warning": self._content("yellow"),
            "approval_voted": self._content("yellow"),
            "approval_escalated": self._content("yellow"),
            "plan_progress": self._progressed,
            "error": self._failed,
        }

    def show(self, event: Event) -> None:
        """Show one event; those that tell a person nothing are left out."""
        shower = self._shows.get(str(event.get("type")))
        if shower is None:
            return
        if "token" not in event and self._streaming and event["type"] != "assistant_message":
            self._line("")
        shower(event)

    def _line(self, text: str, style: str = "") -> None:
        if self._streaming:
            self._streaming = False
            self._console.print()
            if not text:
                return
        self._console.print(Text(guarded(text), style=style), soft_wrap=True)

    def _said(self, event: Event) -> None:
        if "subtask_id" in event:
            if "token" not in event and event.get("content"):
                self._line(_where(event) + spoken(event["content"]), "dim")
        elif "token" in event:
            self._streaming = True
            self._streamed += event["token"]
            self._console.print(Text(spoken(event["token"])), end="", soft_wrap=True)
        elif not self._was_streamed(event):
            self._line(spoken(event["content"]))
        elif self._streaming:
            self._line("")

    def _was_streamed(self, event: Event) -> bool:
        """Whether the text that this event closes was shown while it was written.

        Other events may stand between: the switch back to who answered before comes first.
        """
        streamed, self._streamed = self._streamed, ""
        whole = (event.get("content") or "").strip()
        return self._streaming or streamed.rstrip().endswith(whole)

    def _switched(self, event: Event) -> None:
        facts = event["metadata"]
        if facts["from_agent"] != facts["to_agent"] and "subtask_id" not in event:
            reason = f": {one_line(facts['reason'], 300)}" if facts.get("reason") else ""
            self._line(f"→ {facts['to_agent']}{reason}", "cyan")

    def _planned(self, event: Event) -> None:
        facts = event["metadata"]
        title = one_line(facts.get("goal") or event["content"], 1000)
        self._line(f"\nPlan: {title}", "bold")
        self._line(f"{facts['plan_id']} · revision {facts['revision']}", "dim")
        for text in plan_lines(facts["subtasks"]):
            self._line(text)
        for text in revision_lines(facts):
            self._line(text, "yellow" * text.startswith(("!", "?")))

    def _called(self, event: Event) -> None:
        subject = _subject(event["arguments"])
        self._calls[event["call_id"]] = f"{event['tool_name']} {subject}".rstrip()
        if event.get("requires_approval"):
            reason = one_line(event["metadata"].get("reason", ""), 300)
            self._line(f"{_where(event)}? {self._calls[event['call_id']]} ({reason})", "yellow")

    def _rejected(self, event: Event) -> None:
        text = event.get("content") or event["metadata"].get("feedback") or "rejected"
        self._line(f"{_where(event)}✗ {spoken(text)}", "yellow")

    def _resulted(self, event: Event) -> None:
        name = self._calls.pop(event["call_id"], event["tool_name"])
        if event["tool_name"] in _SPOKEN and "error" not in event:
            return
        if "error" in event:
            self._line(f"{_where(event)}✗ {name}: {one_line(event['error'], 300)}", "red")
            return
        self._line(f"{_where(event)}{name} {_outcome(event.get('result'))}".rstrip(), "dim")
        for text in _output(event.get("result")):
            self._line(f"    {spoken(text)}", "dim")

    def _started(self, event: Event) -> None:
        self._line(f"▶ {spoken(event['content'])}", "bold")

    def _ended(self, mark: str, style: str) -> Callable[[Event], None]:
        def show(event: Event) -> None:
            facts = event["metadata"]
            error: Event = facts.get("error") or {}
            said = error.get("message") or facts.get("reason") or event.get("content") or ""
            took = facts.get("duration_seconds")
            time = f" ({took:.1f} s)" if took is not None else ""
            self._line(f"{mark} {facts['subtask_id']}{time} {one_line(said, 300)}".rstrip(), style)

        return show

    def _progressed(self, event: Event) -> None:
        facts = event["metadata"]
        self._line(f"  {facts['done']}/{facts['total']} · {facts['percentage']:.0f} %", "dim")

    def _content(self, style: str) -> Callable[[Event], None]:
        return lambda event: self._line(spoken(event.get("content") or event["type"]), style)

    def _failed(self, event: Event) -> None:
        self._line(f"error: {spoken(event.get('content') or event.get('error') or '')}", "bold red")


def _where(event: Event) -> str:
    return f"[{event['subtask_id']}] " if "subtask_id" in event else ""


def _subject(arguments: Mapping[str, Any]) -> str:
    for name in ("command", "path", "source", "pattern", "question", "mode"):
        if isinstance(arguments.get(name), str):
            return one_line(arguments[name], 120)
    return ""


def _outcome(result: Any) -> str:  # noqa: ANN401 - as the tool gave it
    if not isinstance(result, dict) or "exit_code" not in result:
        return ""
    return f"→ exit code {result['exit_code']}"


def _output(result: Any) -> list[str]:  # noqa: ANN401 - as the tool gave it
    if not isinstance(result, dict):
        return []
    fields = cast("dict[str, Any]", result)
    lines = str(fields.get("output", "")).strip().splitlines()
    return lines if len(lines) <= _OUTPUT else ["…", *lines[-_OUTPUT:]]
