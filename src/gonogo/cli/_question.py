"""A question as a person reads it, and their answer as the wire has it."""

from collections.abc import Iterator
from typing import Any, cast

from gonogo.cli._diff import revision_lines
from gonogo.cli._escape import spoken
from gonogo.cli._exits import Exit, Stop
from gonogo.cli._tree import plan_lines
from gonogo.domain.approval_views import ApprovalView
from gonogo.domain.visible import visible_json

_PREVIEW = 60
"""Lines of a diff that are shown before the person has to ask for the rest."""


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
    lines = str(text).splitlines()
    yield from (f"  {line}" for line in lines[:_PREVIEW])
    if len(lines) > _PREVIEW:
        yield f"  … {len(lines) - _PREVIEW} more lines"
        yield f"  all of it: gonogo approvals show {approval.approval_id} --json"


def _arguments(approval: ApprovalView) -> str:
    if not approval.arguments:
        return ""
    return visible_json(approval.arguments, indent=2)
