"""Named sets of rules and conditions, for trying commands without a session."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gonogo.domain.errors import InvalidMessage
from gonogo.domain.tool_calls import Access, Call, ToolClass, Verdict
from gonogo.policy.conditions import Conditions
from gonogo.policy.rules import COMMAND_TOOL, Rule, Rules, RuleText, make_rule, make_rules
from gonogo.policy.verdict import verdict

_HOLE = re.compile(r"\s+\S*<\w+>.*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyContext:
    """Rules and the conditions to try them under."""

    rules: Rules
    conditions: Conditions
    refused: tuple[str, ...] = ()
    """Rules that were left out because they are too broad, with the reason."""


def check_command(command: str, context: PolicyContext) -> Verdict:
    """The verdict on a command that an agent would run at the top of the workspace."""
    call = Call(
        tool=COMMAND_TOOL,
        tool_class=ToolClass.OTHER,
        agent="coder",
        arguments={"command": command},
        access=Access(command=command),
    )
    return verdict(call, context.rules, context.conditions, None)


def load_contexts(
    path: Path, outside: Callable[[str], bool] | None = None
) -> dict[str, PolicyContext]:
    """Read a file of contexts, by id.

    Args:
        outside: `Conditions.outside`, from a caller that can look at the disk.

    Raises:
        InvalidMessage: it is not JSON of that form.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
        return read_contexts(document, outside)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidMessage(f"{path}: not a file of policy contexts: {error}") from error


def read_contexts(
    document: Mapping[str, Any], outside: Callable[[str], bool] | None = None
) -> dict[str, PolicyContext]:
    """Make contexts of a decoded document: `defaults`, and by id what differs from them."""
    defaults = document.get("defaults", {})
    found: dict[str, PolicyContext] = {}
    for name, fields in document.items():
        if name != "defaults" and isinstance(fields, Mapping):
            context = _context({**defaults, **_inherited(document, name)})
            if outside is not None:
                context = replace(context, conditions=replace(context.conditions, outside=outside))
            found[name] = context
    return found


def _inherited(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    fields: dict[str, Any] = dict(document[name])
    if "extends" not in fields:
        return fields
    base = _inherited(document, fields.pop("extends"))
    for key in ("allow", "allow_exact", "ask", "deny"):
        fields[key] = [*base.get(key, ()), *fields.get(key, ())]
    return {**base, **fields}


def _context(fields: Mapping[str, Any]) -> PolicyContext:
    rules: list[Rule] = []
    refused: list[str] = []
    for key in ("allow", "allow_exact", "ask", "deny"):
        for written in fields.get(key, ()):
            rule = _rule(f"user:{len(rules) + 1}", key, written)
            if isinstance(rule, str):
                refused.append(rule)
            else:
                rules.append(rule)
    conditions = Conditions(
        workspace=fields.get("workspace", "/ws"),
        attended=fields.get("attended", True),
        repo_trusted=fields.get("repo_trusted", True),
        sandboxed=fields.get("sandbox", "on") != "off",
    )
    return PolicyContext(rules=make_rules((), rules), conditions=conditions, refused=tuple(refused))


def _rule(name: str, key: str, written: str) -> Rule | str:
    decision = key.removesuffix("_exact")
    command = _HOLE.sub("", written)
    text = RuleText.model_validate(
        {"decision": decision, "command": command, "exact": key.endswith("_exact")}
    )
    rule = make_rule(name, text)
    return f"{written}: {rule}" if isinstance(rule, str) else rule
