"""Questions about calls: what people are shown, what went stale, and what a crash has left."""

from pathlib import Path
from typing import Any, Literal

from gonogo.domain.errors import ToolFailed
from gonogo.domain.records import Approval, CallRow
from gonogo.domain.reviews import deed_of
from gonogo.domain.states import ApprovalKind
from gonogo.domain.tool_calls import A_FOLDER, Access, ToolClass
from gonogo.execution.agent.gate import Gated
from gonogo.execution.approvals import Matter, Question
from gonogo.i18n import say, told
from gonogo.policy import ParsedCommand, Rule, Rules, TraceStep, VerdictStage, parse_command
from gonogo.tools import touched
from gonogo.workspace import Workspace

# What a verdict is made of, for people: each step, and the parts of a command.


_ASKING = frozenset({VerdictStage.ASK_BUILT_IN, VerdictStage.ASK, VerdictStage.DEFAULT})


def parts_of(gated: Gated) -> list[dict[str, Any]]:
    """The parts of a command as it was understood, and which of them ask; else none."""
    parsed = parse_command(gated.access.command or "")
    if not isinstance(parsed, ParsedCommand):
        return []
    steps = (step for step in gated.trace.steps if step.decided and step.stage in _ASKING)
    asking = {step.part for step in steps}
    return [
        {
            "text": part.render(),
            "joined_by": part.joined_by,
            "asks": " ".join(part.argv) in asking,
        }
        for part in parsed.parts
    ]


def explained(gated: Gated, rules: Rules) -> dict[str, Any]:
    """A verdict with every step that led to it, and what was not considered, as JSON.

    Args:
        rules: All that there are, also those that stood back.
    """
    found = gated.verdict
    return {
        **found.model_dump(mode="json", exclude_none=True),
        "tool": gated.tool,
        "where": list(rules.where(found.rule)),
        "steps": [_shown_step(step, rules) for step in gated.trace.steps],
        "not_considered": [
            _not_considered(gated, rule)
            for rule in rules.all()
            if rule.name not in gated.trace.looked_at
        ],
    }


def _not_considered(gated: Gated, rule: Rule) -> dict[str, Any]:
    told: dict[str, Any] = {"rule": rule.name, "where": rule.where}
    # A session's rule allows nothing that a rule of review speaks of.
    held = gated.rules is None or rule in gated.rules.all()
    return told if held else {**told, "stands_back": True}


def _shown_step(step: TraceStep, rules: Rules) -> dict[str, Any]:
    considered = [
        {
            "rule": look.rule,
            "where": "".join(rules.where(look.rule)),
            "matched": look.misfit is None,
            "why": look.misfit or "",
        }
        for look in step.looks
    ]
    said: dict[str, Any] = {"step": str(step.stage), "considered": considered}
    if step.part is not None:
        said["part"] = step.part
    return said if step.decided is None else {**said, "decided": step.decided}


def question_of_call(
    call: CallRow, gated: Gated, *, edited_by: str | None = None, before: Approval | None = None
) -> Question:
    """What a person is asked about a call that is to run.

    Args:
        edited_by: Who wrote the arguments, where it was not the model.
        before: The question that they were written in answer to.
    """
    details: dict[str, Any] = {
        "arguments": gated.arguments, "preview": gated.preview, "agent": call.agent,
        "rule": gated.verdict.rule,
    }  # fmt: skip
    if parts := parts_of(gated):
        details["parts"] = parts
    if gated.words is not None:
        details["words_for_plan"] = gated.words
    return Question(
        session_id=call.session_id, kind=ApprovalKind.TOOL, subject=call.tool,
        details=details | ({"edited_by": edited_by} if edited_by else {}),
        reason=gated.verdict.reason, digest=gated.digest, turn_id=call.turn_id,
        plan_id=call.plan_id, revision=call.revision, subtask_id=call.subtask_id,
        call_id=call.id, agent=call.agent, matter=matter_of(call, gated.access),
        same=_same(call, gated.arguments, gated.base_hashes), instead_of=before,
    )  # fmt: skip


def matter_of(call: CallRow, access: Access) -> Matter:
    """What a call does, as rules of review look at it."""
    return Matter(deeds=(deed_of(call.agent, call.tool, access),))


def question_of_doubt(call: CallRow, why: str, locale: str) -> Question:
    """What a person is asked about a call whose outcome is unknown."""
    subject = f"{call.tool} {call.arguments.get('command', '')}".strip()
    return Question(
        session_id=call.session_id, kind=ApprovalKind.INTERVENTION, subject=subject,
        details={"arguments": call.arguments, "tool": call.tool, "agent": call.agent},
        reason=say("intervention_unknown", locale, subject=subject, why=told(why, locale)),
        digest=call.digest, turn_id=call.turn_id, plan_id=call.plan_id, revision=call.revision,
        subtask_id=call.subtask_id, call_id=call.id, agent=call.agent,
        matter=matter_of(call, _access(call)), same=_same(call, call.arguments, call.base_hashes),
    )  # fmt: skip


def _access(call: CallRow) -> Access:
    """What a call touches that was judged earlier, by its arguments and its effects."""
    written = tuple(effect["path"] for effect in call.effects)
    try:
        access = touched(call.tool, call.arguments)
    except (ToolFailed, KeyError):
        access = Access()
    return access.model_copy(update={"writes": (*access.writes, *written)})


def _same(call: CallRow, arguments: dict[str, Any], bases: dict[str, str | None]) -> dict[str, Any]:
    return {"tool": call.tool, "arguments": arguments, "base_hashes": bases}


def staleness(call: CallRow, gated: Gated, locale: str) -> str | None:
    """Why a call that a person approved is not the one that would run now, or may not run."""
    if gated.digest == call.digest:
        return gated.error if gated.verdict.decision == "deny" else None
    if gated.rules is None:
        return f"changed_since_approval: {say('model_impossible', locale)} ({gated.error})"
    if (gated.arguments, gated.base_hashes) != (call.arguments, call.base_hashes):
        key = "model_stale"
    elif gated.verdict.definition != call.verdict.get("definition"):
        key = "model_redefined"
    else:
        key = "model_overruled"
    said = f" ({gated.error})" if gated.error else ""
    return f"changed_since_approval: {say(key, locale)}{said}"


def file_outcome(root: Path, call: CallRow) -> Literal["after", "before", "unknown"]:
    """Whether a file tool's effects are all there (`after`), none (`before`), or `unknown`."""
    if not call.effects:
        again = {ToolClass.PURE, ToolClass.IDEMPOTENT}
        return "before" if call.tool_class in again else "unknown"
    try:
        workspace = Workspace(root)
        for effect in call.effects:
            if effect.get("after") != A_FOLDER:
                workspace.clear(effect["path"], before=effect.get("before"))
        now = {effect["path"]: _now(workspace, effect["path"]) for effect in call.effects}
    except (ToolFailed, OSError):
        return "unknown"
    if all(now[effect["path"]] == effect.get("after") for effect in call.effects):
        return "after"
    if all(now[effect["path"]] == effect.get("before") for effect in call.effects):
        return "before"
    return "unknown"


def _now(workspace: Workspace, path: str) -> str | None:
    found = workspace.stat(path)
    return A_FOLDER if found is not None and found.kind == "folder" else workspace.hash(path)
