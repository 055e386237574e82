"""What a verdict is made of, for people: each step, and the parts of a command."""

from typing import Any

from gonogo.agents._gate import Gated
from gonogo.policy import ParsedCommand, Rule, Rules, Step, parse_command


def parts_of(gated: Gated) -> list[dict[str, Any]]:
    """The parts of a command as it was understood, and which one asks first; else none."""
    parsed = parse_command(gated.access.command or "")
    if not isinstance(parsed, ParsedCommand):
        return []
    steps = (step for step in gated.trace.steps if step.decided == gated.verdict.rule)
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


def _shown_step(step: Step, rules: Rules) -> dict[str, Any]:
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
