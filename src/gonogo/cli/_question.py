"""A question as a person reads it, and their answer as the wire has it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from gonogo.cli._diff import revision_lines
from gonogo.cli._escape import json_line, spoken
from gonogo.cli._exits import Exit, Stop
from gonogo.cli._tree import plan_lines
from gonogo.domain.text_safety import guarded, visible_json
from gonogo.domain.views import ApprovalView

if TYPE_CHECKING:
    from rich.text import Text

_DIFFERS = re.compile(r"^(--- |\+\+\+ |@@ )", re.MULTILINE)
_CALL = 300
"""Letters of a call that are shown in the form in which it is judged."""
_PAGE = 60
"""Lines that are shown at once; who wants to approve has the rest shown first."""
_WIDTH = 80
"""Letters that count as one line of a page."""


def pages(lines: Iterable[str]) -> list[list[str]]:
    """The lines of a question, as many at a time as a person can take in; at least one page."""
    found: list[list[str]] = [[]]
    room = _PAGE
    for line in lines:
        rows = 1 + len(line) // _WIDTH
        if rows > room and found[-1]:
            found.append([])
            room = _PAGE
        found[-1].append(line)
        room -= rows
    return found


def question_lines(approval: ApprovalView) -> Iterator[str]:
    """What would happen, and why a person is asked; the text is as strangers wrote it."""
    yield _headline(approval)
    yield from _preview(approval)
    if approval.reason:
        yield f"reason: {spoken(approval.reason)}"
    if approval.open_comments:
        yield f"comments without an answer: {approval.open_comments}"
    if approval.subtask_id:
        yield f"subtask: {approval.subtask_id}"
    if approval.expires_at:
        yield f"expires: {approval.expires_at:%Y-%m-%d %H:%M}Z"


def decision(
    approval: ApprovalView, word: str, feedback: str | None = None, edited: object = None
) -> dict[str, Any]:
    """The message that answers a question, bound to what was shown.

    Raises:
        Stop: a plan's word for what is no plan, or an edit of another shape.
    """
    message: dict[str, Any] = {"decision": word, "digest": approval.digest}
    if feedback:
        message["feedback"] = feedback
    if approval.kind != "plan":
        return message | _of_call(approval, word, edited)
    message |= {"type": "plan_decision", "plan_id": approval.plan_id}
    if approval.revision is not None:
        message["revision"] = approval.revision
    if edited is not None:
        message["modified_subtasks"] = edited["subtasks"] if isinstance(edited, dict) else edited
    return message


def _headline(approval: ApprovalView) -> str:
    if approval.kind != "tool":
        return spoken(approval.subject)
    agent = approval.details.get("agent", "agent")
    return f"{agent} asks to use {spoken(approval.tool_name or approval.subject)}:"


def _of_call(approval: ApprovalView, word: str, edited: object) -> dict[str, Any]:
    if word == "hold":
        raise Stop("hold is for plans only; answer approve, edit or reject", Exit.USAGE)
    message: dict[str, Any] = {"type": "hitl_decision", "approval_id": approval.approval_id}
    if edited is not None:
        if not isinstance(edited, dict):
            raise Stop("The new arguments must be a JSON object", Exit.USAGE)
        message["modified_arguments"] = edited
    return message


def _preview(approval: ApprovalView) -> Iterator[str]:
    subtasks = approval.details.get("subtasks")
    if isinstance(subtasks, list):
        yield from plan_lines(cast("list[dict[str, Any]]", subtasks))
        yield from revision_lines(approval.details)
        return
    text = approval.details.get("preview") or _arguments(approval)
    yield from (f"  {line}" for line in str(text).removesuffix("\n").split("\n"))


def _arguments(approval: ApprovalView) -> str:
    if not approval.arguments:
        return ""
    return visible_json(approval.arguments, indent=2)


def question_texts(approval: ApprovalView, page: Sequence[str], *, first: bool) -> Iterator["Text"]:
    """A page of a question; the first has its head."""
    from rich.text import Text

    if first:
        yield Text("")
        yield Text(guarded(page[0]), style="bold")
        if approval.tool_name and approval.arguments is not None:
            call = json_line(approval.arguments, _CALL)
            yield Text(guarded(f"  {approval.tool_name} {call}"), style="cyan")
    differs = _DIFFERS.search(str(approval.details.get("preview"))) is not None
    for line in page[1:] if first else page:
        yield Text(guarded(line), style=_style(line) if differs else "")


def _style(line: str) -> str:
    match line[:3]:
        case "  +":
            return "bold" if line.startswith("  +++ ") else "green"
        case "  -":
            return "bold" if line.startswith("  --- ") else "red"
        case "  @":
            return "cyan"
        case _:
            return ""
