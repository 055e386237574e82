"""A question to a person as a request for permission, and their choice as the wire has it.

An answer of the protocol is the id of an option and nothing more; what else there is to say is
asked for in a form, where the editor has forms, or said in the next message.
"""

from collections.abc import Mapping
from typing import Any, cast

from acp import schema
from acp.helpers import start_tool_call

from gonogo.acp._calls import (
    Content,
    differences,
    kind_of,
    locations_of,
    one_line,
    text_content,
    title_of,
)
from gonogo.domain.messages import HitlDecision, PlanDecision
from gonogo.domain.states import ApprovalKind
from gonogo.domain.text_safety import visible_json
from gonogo.domain.views import ApprovalView
from gonogo.texts import say

REVISE, EDIT, FOR_PLAN = "revise", "edit", "approve_plan"
CHANGES = "changes"
"""The field of a form that says what is to be different in a plan."""
# A client that nobody sits at takes the first option of a kind: what it declines is rejected.
_PLAN: tuple[tuple[str, schema.PermissionOptionKind], ...] = (
    ("approve", "allow_once"), ("hold", "allow_once"), ("reject", "reject_once"),
    (REVISE, "reject_once"),
)  # fmt: skip
_TOOL: tuple[tuple[str, schema.PermissionOptionKind], ...] = (
    ("approve", "allow_once"), (FOR_PLAN, "allow_always"), ("approve_session", "allow_always"),
    (EDIT, "allow_once"),
    ("reject", "reject_once"),
)  # fmt: skip
_OTHER: tuple[tuple[str, schema.PermissionOptionKind], ...] = (
    ("approve", "allow_once"), ("reject", "reject_once"),
)  # fmt: skip
_OPTIONS = {ApprovalKind.PLAN: _PLAN, ApprovalKind.TOOL: _TOOL}


def is_plan(approval: ApprovalView) -> bool:
    """Whether a plan is asked about."""
    return approval.kind == ApprovalKind.PLAN


def shown_as(approval: ApprovalView) -> str:
    """The id under which a question stands among the tool calls of its session."""
    if approval.kind == ApprovalKind.TOOL and approval.call_id:
        return approval.call_id
    return approval.approval_id


def options_of(
    approval: ApprovalView, locale: str, *, forms: bool
) -> list[schema.PermissionOption]:
    """What a person may choose.

    Args:
        forms: Whether the editor can ask for more than a choice.
    """
    given = _OPTIONS.get(cast("ApprovalKind", approval.kind), _OTHER)
    return [
        schema.PermissionOption(option_id=word, kind=kind, name=say(f"editor_{word}", locale))
        for word, kind in given
        if (forms or word != EDIT) and (word != FOR_PLAN or "words_for_plan" in approval.details)
    ]


def start_of(approval: ApprovalView, root: str) -> schema.ToolCallStart:
    """A question that is not about a tool call, as an entry of its own."""
    return start_tool_call(
        shown_as(approval),
        one_line(approval.subject),
        kind="think",
        status="pending",
        content=content_of(approval, root),
    )


def call_of(approval: ApprovalView, root: str) -> schema.ToolCallUpdate:
    """What is asked about, as it would run."""
    is_call = approval.kind == ApprovalKind.TOOL
    tool, arguments = approval.tool_name or "", approval.arguments or {}
    return schema.ToolCallUpdate(
        tool_call_id=shown_as(approval),
        title=(
            title_of(tool, arguments, approval.subtask_id)
            if is_call
            else one_line(approval.subject)
        ),
        kind=kind_of(tool) if is_call else "think",
        status="pending",
        content=content_of(approval, root),
        locations=(locations_of(tool, arguments, root) or None) if is_call else None,
        raw_input=arguments or None,
        field_meta={
            "approval_id": approval.approval_id, "digest": approval.digest,
            "reason": approval.reason,
        },
    )  # fmt: skip


def content_of(approval: ApprovalView, root: str) -> list[Content]:
    """What a person reads before they choose."""
    preview = approval.details.get("preview")
    if isinstance(preview, str) and (pieces := differences(preview, root)):
        return [*pieces, text_content(approval.reason)]
    subtasks = approval.details.get("subtasks")
    if isinstance(subtasks, list):
        summary = approval.details.get("summary") or _listed(cast("list[Any]", subtasks))
        return [text_content(f"{summary}\n\n{approval.reason}".strip())]
    text = preview or (visible_json(approval.arguments, indent=2) if approval.arguments else "")
    block = f"```\n{text}\n```\n" if text else ""
    return [text_content(f"{block}{approval.reason}".strip() or approval.subject)]


def decided(approval: ApprovalView, word: str) -> dict[str, Any]:
    """The message that carries a choice, bound to what was shown."""
    if is_plan(approval):
        decision = PlanDecision(
            plan_id=approval.plan_id or "", decision=word, digest=approval.digest,
            revision=approval.revision,
        )  # fmt: skip
    else:
        decision = HitlDecision(
            approval_id=approval.approval_id, decision=word.split("_")[0],
            digest=approval.digest, for_session=word.endswith("_session"),
            for_plan=word == FOR_PLAN,
        )  # fmt: skip
    return decision.model_dump(mode="json", exclude_none=True)


def edited(approval: ApprovalView, answers: Mapping[str, Any]) -> dict[str, Any]:
    """The message that carries other arguments."""
    fields = {**(approval.arguments or {}), **answers}
    return {**decided(approval, EDIT), "modified_arguments": fields}


def form_of(approval: ApprovalView, word: str, locale: str) -> schema.ElicitationSchema:
    """What is asked for beyond a choice: what to change in a plan, or a call's arguments."""
    if word == REVISE:
        field = schema.ElicitationStringPropertySchema(
            type="string", title=say("editor_changes", locale), min_length=1
        )
        return schema.ElicitationSchema(properties={CHANGES: field}, required=[CHANGES])
    properties = {
        name: schema.ElicitationStringPropertySchema(type="string", title=name, default=value)
        for name, value in (approval.arguments or {}).items()
        if isinstance(value, str)
    }
    return schema.ElicitationSchema(properties=cast("dict[str, Any]", properties))


def _listed(subtasks: list[Any]) -> str:
    return "\n".join(
        f"- {subtask.get('id')}: {subtask.get('description')}"
        for subtask in cast("list[dict[str, Any]]", subtasks)
    )
