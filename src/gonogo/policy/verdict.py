"""The verdict on a call: one pure function of the call, the rules, the conditions and the grant.

Order: built-in deny, deny rules, what always asks, ask rules, allow rules, the approved plan's
grant, the default of the tool's class. What is not understood asks; when nobody can be asked,
asking is denying.
"""

import posixpath
from collections.abc import Iterable, Sequence
from typing import Literal

from gonogo.domain.gate import Call, Grant, ToolClass, Verdict
from gonogo.domain.paths import is_secret, write_guard
from gonogo.policy._command_verdict import command_verdict, uncovered
from gonogo.policy._globs import covers, is_literal
from gonogo.policy._kinds import leaves
from gonogo.policy._text import spoofing
from gonogo.policy.conditions import Conditions
from gonogo.policy.rules import Rule, Rules


def verdict(call: Call, rules: Rules, conditions: Conditions, grant: Grant | None) -> Verdict:
    """Judge a call before it runs.

    Args:
        call: With its final arguments and what they touch.
        grant: What the approved plan allows the call's subtask; one of another plan, revision
            or subtask counts as none.
    """
    own = grant if grant is not None and _belongs(grant, call) else None
    usable = own if conditions.auto_approve and call.tool not in conditions.always_ask else None
    found = _builtin_deny(call, conditions)
    if found is None and call.access.command is not None:
        found = command_verdict(call, rules, conditions, usable)
    if found is None:
        found = _file_verdict(call, rules, usable)
    if found.decision != "ask" or conditions.attended:
        return found
    return found.model_copy(
        update={"decision": "deny", "reason": f"{found.reason}; nobody can be asked"}
    )


def _belongs(grant: Grant, call: Call) -> bool:
    return (grant.plan_id, grant.revision, grant.subtask_id) == (
        call.plan_id,
        call.revision,
        call.subtask_id,
    )


def _builtin_deny(call: Call, conditions: Conditions) -> Verdict | None:
    if conditions.tools is not None and call.tool not in conditions.tools:
        return _deny("unknown-tool", f"there is no tool {call.tool!r}")
    for path in (*call.access.reads, *_changes(call), *filter(None, [call.access.cwd])):
        if odd := spoofing(path):
            return _deny("spoofing", f"a path contains {odd}")
    if leaves(posixpath.normpath(call.access.cwd or ".")):
        return _deny("outside", f"{call.access.cwd!r} is outside the workspace")
    for path in _changes(call):
        if write_guard(path) == "deny":
            return _deny("protected-path", f"{path!r} is protected")
        if not _may_write(conditions, path):
            return _deny("profile", f"the agent {call.agent!r} may not write {path!r}")
    return None


def _may_write(conditions: Conditions, path: str) -> bool:
    return conditions.max_write_globs is None or covers(conditions.max_write_globs, path)


def _file_verdict(call: Call, rules: Rules, grant: Grant | None) -> Verdict:
    return (
        _by_rule(call, rules, "deny")
        or _guarded(call, rules, grant)
        or _by_rule(call, rules, "ask")
        or _by_rule(call, rules, "allow")
        or _by_grant(call, grant)
        or _default(call, grant)
    )


def _by_rule(call: Call, rules: Rules, decision: Literal["allow", "ask", "deny"]) -> Verdict | None:
    for rule in rules.of(decision):
        if _applies(rule, call):
            return Verdict(decision=decision, reason=rule.reason, rule=rule.name)
    return None


def _applies(rule: Rule, call: Call) -> bool:
    if rule.words or not rule.concerns(call.tool, call.agent):
        return False
    if rule.text.path is None:
        return True
    touched = (*call.access.reads, *_changes(call))
    some = any if rule.text.decision != "allow" else all
    return bool(touched) and some(rule.covers_path(path) for path in touched)


def _guarded(call: Call, rules: Rules, grant: Grant | None) -> Verdict | None:
    """What asks each time, unless a rule or the plan names the very path."""
    allowing = [rule for rule in rules.of("allow") if _applies(rule, call)]
    for path in call.access.reads:
        if is_secret(path) and not _named(path, allowing):
            return _ask("secret", f"{path!r} may hold secrets, and a model would see them")
    declared = grant.scope.paths if grant is not None and grant.scope is not None else ()
    for path in _changes(call):
        if write_guard(path) is None or _named(path, allowing):
            continue
        if is_secret(path) or not (path in declared and is_literal(path)):
            return _ask("protected-path", f"{path!r} is run or read by others, or holds secrets")
    return None


def _named(path: str, rules: Iterable[Rule]) -> bool:
    return any(rule.names_path(path) for rule in rules)


def _by_grant(call: Call, grant: Grant | None) -> Verdict | None:
    if grant is None or call.tool_class in (ToolClass.CONTROL, ToolClass.PURE):
        return None
    scope = grant.scope
    declared: Sequence[str] = scope.tools if scope is not None else ()
    changes = _changes(call)
    if declared and call.tool not in declared:
        return None
    if not changes and call.tool not in declared:
        return None
    if scope is not None and scope.paths and not all(covers(scope.paths, p) for p in changes):
        return None
    name = f"grant:{grant.plan_id}#{grant.subtask_id}"
    reason = f"the approved plan allows it to subtask {grant.subtask_id!r}"
    return Verdict(decision="allow", reason=reason, rule=name, source="grant")


def _default(call: Call, grant: Grant | None) -> Verdict:
    name = f"default:{call.tool_class}"
    if call.tool_class is ToolClass.PURE:
        return Verdict(decision="allow", reason="it changes nothing", rule=name)
    if call.tool_class is ToolClass.CONTROL:
        return Verdict(decision="allow", reason="it only speaks to the runtime", rule=name)
    return Verdict(decision="ask", reason=uncovered(call, call.tool, grant), rule=name)


def _changes(call: Call) -> tuple[str, ...]:
    return (*call.access.writes, *call.access.deletes)


def _ask(name: str, reason: str) -> Verdict:
    return Verdict(decision="ask", reason=reason, rule=f"builtin:{name}")


def _deny(name: str, reason: str) -> Verdict:
    return Verdict(decision="deny", reason=reason, rule=f"builtin:{name}")
