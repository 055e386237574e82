"""The verdict on a call: one pure function of the call, the rules, the conditions and the grant.

Order: built-in deny, deny rules, built-in ask, ask rules, allow rules, the grant of the approved
plan, readers if the conditions have them, the default of the tool's class. What is not understood
asks; if there is nobody to ask, `ask` becomes `deny`. Rules can also be tried without a session.
"""

import json
import posixpath
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import InvalidMessage, because, together
from gonogo.domain.findings import irreversible
from gonogo.domain.paths import covers, is_literal, is_secret, spoofing, write_guard
from gonogo.domain.plan import COMMAND_TOOL, Scope
from gonogo.domain.text_safety import mixed_letters
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass, Verdict
from gonogo.policy.command_verdict import command_verdict, uncovered
from gonogo.policy.kinds import CommandPlace, leaves
from gonogo.policy.programs import Part, read_command
from gonogo.policy.rules import (
    ALWAYS_ASK,
    Conditions,
    Decision,
    Rule,
    Rules,
    RuleText,
    VerdictStage,
    VerdictTrace,
    make_rule,
    make_rules,
    read_prefix,
)
from gonogo.policy.shell import quote

UNATTENDED = because("there is nobody to ask")
"""The end of a denial's reason, if it was a denial only because there was nobody to ask."""

CONTROL = Verdict(
    decision="allow", reason=because("it only controls the runtime"), rule="default:control"
)
"""The verdict on a call that the runtime itself answers."""

_STAGES: dict[Decision, VerdictStage] = {
    "deny": VerdictStage.DENY,
    "ask": VerdictStage.ASK,
    "allow": VerdictStage.ALLOW,
}


def verdict(call: Call, rules: Rules, conditions: Conditions, grant: Grant | None) -> Verdict:
    """Judge a call before it runs.

    Args:
        call: The call with its final arguments, and what they touch.
        grant: What the approved plan allows the call's subtask; a grant of another plan, revision
            or subtask counts as none.
    """
    return explain(call, rules, conditions, grant)[0]


def explain(
    call: Call, rules: Rules, conditions: Conditions, grant: Grant | None
) -> tuple[Verdict, VerdictTrace]:
    """Judge a call, and also return how the verdict was reached.

    Args:
        call: As for `verdict`.
        grant: As for `verdict`.
    """
    trace = VerdictTrace()
    own = grant if grant is not None and _belongs(grant, call) else None
    usable = own if conditions.auto_approve and call.tool not in conditions.always_ask else None
    found = _builtin_deny(call, conditions, trace)
    if found is None and call.access.command is not None:
        found = command_verdict(call, rules, conditions, usable, trace)
    if found is None:
        found = _file_verdict(call, rules, usable, trace, conditions.changed)
    found = _with_letters(found, call)
    return (found if conditions.attended else _unattended(found, trace)), trace


def _with_letters(found: Verdict, call: Call) -> Verdict:
    """Add a warning to the reason if a word in the call looks like another one (mixed letters)."""
    named = (call.access.command, call.access.cwd, *call.access.reads, *_changes(call))
    said = mixed_letters(" ".join(filter(None, named)))
    if said is None:
        return found
    return found.model_copy(
        update={
            "reason": because(
                "{reason}; look closely: {letters}", reason=found.reason, letters=said
            )
        }
    )


def _unattended(found: Verdict, trace: VerdictTrace) -> Verdict:
    if found.decision != "ask":
        return found
    trace.enter(VerdictStage.UNATTENDED).take("unattended")
    reason = together((found.reason, UNATTENDED))
    return found.model_copy(update={"decision": "deny", "reason": reason})


def _belongs(grant: Grant, call: Call) -> bool:
    return (grant.plan_id, grant.revision, grant.subtask_id) == (
        call.plan_id,
        call.revision,
        call.subtask_id,
    )


def _builtin_deny(call: Call, conditions: Conditions, trace: VerdictTrace) -> Verdict | None:
    step = trace.enter(VerdictStage.DENY_BUILT_IN)
    found = _never(call, conditions)
    if found is not None:
        step.take(found.rule)
    return found


def _never(call: Call, conditions: Conditions) -> Verdict | None:
    if conditions.tools is not None and call.tool not in conditions.tools:
        return _deny("unknown-tool", because("there is no tool {tool!r}", tool=call.tool))
    for path in (*call.access.reads, *_changes(call), *filter(None, [call.access.cwd])):
        if odd := spoofing(path):
            return _deny("spoofing", because("a path contains {odd}", odd=odd))
    cwd = call.access.cwd
    if cwd and leaves(posixpath.normpath(cwd)):
        return _deny("outside", because("{cwd!r} is outside the workspace", cwd=cwd))
    for path in _changes(call):
        if write_guard(path) == "deny":
            return _deny("protected-path", because("{path!r} is protected", path=path))
        if not _may_write(conditions, path):
            return _deny(
                "profile",
                because("the agent {agent!r} may not write {path!r}", agent=call.agent, path=path),
            )
    return None


def _may_write(conditions: Conditions, path: str) -> bool:
    return conditions.max_write_globs is None or covers(conditions.max_write_globs, path)


def _file_verdict(
    call: Call, rules: Rules, grant: Grant | None, trace: VerdictTrace, changed: str | None
) -> Verdict:
    return (
        _by_rule(call, rules, "deny", trace)
        or _guarded(call, rules, grant, trace)
        or _by_rule(call, rules, "ask", trace)
        or _by_rule(call, rules, "allow", trace)
        or _by_grant(call, grant, trace)
        or _changed(changed, trace)
        or _default(call, grant, trace)
    )


def _by_rule(call: Call, rules: Rules, decision: Decision, trace: VerdictTrace) -> Verdict | None:
    step = trace.enter(_STAGES[decision])
    for rule in rules.of(decision):
        if step.take(rule.name, _misfit(rule, call)):
            return Verdict(decision=decision, reason=rule.reason, rule=rule.name)
    return None


def _misfit(rule: Rule, call: Call) -> str | None:
    """Why a rule does not apply to a call that is not a command; None if it applies."""
    if rule.words:
        return because("it is about commands")
    if other := rule.unconcerned(call.tool, call.agent):
        return other
    if rule.text.path is None:
        return None
    touched = (*call.access.reads, *_changes(call))
    missed = [path for path in touched if not rule.covers_path(path)]
    if rule.text.decision == "allow":
        return (
            because("it does not cover {path!r}", path=missed[0]) if missed else _untouched(touched)
        )
    return (
        None
        if len(missed) < len(touched)
        else because("it covers none of {paths}", paths=", ".join(touched) or "-")
    )


def _untouched(touched: Sequence[str]) -> str | None:
    return None if touched else because("the call touches no path")


def _guarded(call: Call, rules: Rules, grant: Grant | None, trace: VerdictTrace) -> Verdict | None:
    """Ask for secrets and guarded names, unless a rule or the plan names exactly this path."""
    step = trace.enter(VerdictStage.ASK_BUILT_IN)
    found = _sensitive(call, rules, grant)
    if found is not None:
        step.take(found.rule)
    return found


def _sensitive(call: Call, rules: Rules, grant: Grant | None) -> Verdict | None:
    for path in call.access.reads:
        if is_secret(path) and not _named(path, call, rules):
            return _ask(
                "secret",
                because("{path!r} may contain secrets, and a model would see them", path=path),
            )
    declared = (grant.scope.paths if grant else None) or ()
    for path in _changes(call):
        if write_guard(path) is None or _named(path, call, rules):
            continue
        if is_secret(path) or not (path in declared and is_literal(path)):
            return _ask(
                "protected-path",
                because(
                    "{path!r} is run or read by other programs, or contains secrets", path=path
                ),
            )
    return None


def _named(path: str, call: Call, rules: Rules) -> bool:
    allowing = rules.of("allow")
    return any(rule.names_path(path) and _misfit(rule, call) is None for rule in allowing)


def _by_grant(call: Call, grant: Grant | None, trace: VerdictTrace) -> Verdict | None:
    step = trace.enter(VerdictStage.GRANT)
    if grant is None or not step.take(grant.name, _outside_grant(call, grant)):
        return None
    reason = because("the approved plan allows it to subtask {subtask!r}", subtask=grant.subtask_id)
    return Verdict(decision="allow", reason=reason, rule=grant.name, source="grant")


def _outside_grant(call: Call, grant: Grant) -> str | None:
    """Why the approved plan does not allow a call; None if it allows it."""
    if call.tool_class in (ToolClass.CONTROL, ToolClass.PURE):
        return because("it needs no grant")
    scope, changes = grant.scope, _changes(call)
    # A scope without tools means all tools that change files; without paths they may change any.
    if not changes if scope.tools is None else call.tool not in scope.tools:
        return because("the plan does not declare {tool!r}", tool=call.tool)
    missed = [] if scope.paths is None else [p for p in changes if not covers(scope.paths, p)]
    return because("the plan does not declare {path!r}", path=missed[0]) if missed else None


def _changed(changed: str | None, trace: VerdictTrace) -> Verdict | None:
    if changed is None:
        return None
    trace.enter(VerdictStage.DEFAULT).take("builtin:changed-tool")
    return _ask("changed-tool", changed)


def _default(call: Call, grant: Grant | None, trace: VerdictTrace) -> Verdict:
    name = f"default:{call.tool_class}"
    trace.enter(VerdictStage.DEFAULT).take(name)
    if call.tool_class is ToolClass.PURE:
        return Verdict(decision="allow", reason=because("it changes nothing"), rule=name)
    if call.tool_class is ToolClass.CONTROL:
        return CONTROL
    return Verdict(decision="ask", reason=uncovered(call, call.tool, grant), rule=name)


def _changes(call: Call) -> tuple[str, ...]:
    return (*call.access.writes, *call.access.deletes)


def _ask(name: str, reason: str) -> Verdict:
    return Verdict(decision="ask", reason=reason, rule=f"builtin:{name}")


def _deny(name: str, reason: str) -> Verdict:
    return Verdict(decision="deny", reason=reason, rule=f"builtin:{name}")


# Checks before a plan is approved: which of its declared commands will ask all the same.

_PLAN, _SUBTASK = "plan", "subtask"


def asks_anyway(written: str, agent: str, rules: Rules, conditions: Conditions) -> Verdict | None:
    """The verdict on a command that a scope declares, if it asks or denies all the same.

    None also for a command that is incomplete without more words, and for one with absolute paths,
    as the place of the workspace is unknown here.
    """
    words = read_prefix(written)
    if isinstance(words, str) or _is_unfinished(words) or any(map(_is_somewhere, words)):
        return None
    call = Call(
        tool=COMMAND_TOOL, tool_class=ToolClass.OTHER, agent=agent, arguments={},
        access=Access(command=_text(words)), plan_id=_PLAN, revision=1, subtask_id=_SUBTASK,
    )  # fmt: skip
    grant = Grant(
        grant_id="", plan_id=_PLAN, revision=1, subtask_id=_SUBTASK,
        scope=Scope(commands=(written,)),
    )  # fmt: skip
    found = verdict(call, rules, conditions, grant)
    return None if found.decision == "allow" else found


def _is_somewhere(word: str) -> bool:
    # An absolute path below the root: it may be in the workspace.
    return word.startswith("/") and word.strip("/") != ""


def check_asks(text: str, agent: str, rules: Rules, conditions: Conditions) -> Verdict | None:
    """The verdict on a command with which a plan checks a subtask, if it asks or denies.

    Args:
        agent: The agent that calls it.
    """
    call = Call(
        tool=COMMAND_TOOL, tool_class=ToolClass.OTHER, agent=agent, arguments={},
        access=Access(command=text), plan_id=_PLAN, revision=1, subtask_id=_SUBTASK,
    )  # fmt: skip
    grant = Grant(
        grant_id="", plan_id=_PLAN, revision=1, subtask_id=_SUBTASK,
        words=text if conditions.sandboxed else None,
    )  # fmt: skip
    found = verdict(call, rules, conditions, grant)
    return None if found.decision == "allow" else found


def takes_no_more(written: str) -> bool:
    """Whether any word that is added to a declared command asks."""
    words = read_prefix(written)
    if isinstance(words, str) or _is_unfinished(words):
        return False
    return all(
        part.known is not None and not part.known.table.options and bool(part.reading.problems)
        for part in _read((*words, "x"))
    )


def _is_unfinished(words: Sequence[str]) -> bool:
    """Whether a command is incomplete, so that only more words can make it known."""
    places = [place for part in _read(words) for place, _ in part.reading.problems]
    return bool(places) and all(place < 0 for place in places)


def _read(words: Sequence[str]) -> Sequence[Part]:
    return read_command(_text(words), CommandPlace(workspace="/")).parts


def _text(words: Sequence[str]) -> str:
    return " ".join(map(quote, words))


# Named sets of rules and conditions, for trying commands without a session.

_HOLE = re.compile(r"\s+\S*<\w+>.*$")


class PolicyContext(Struct, frozen=True, kw_only=True):
    """Rules and the conditions to try them under."""

    rules: Rules
    conditions: Conditions
    refused: tuple[str, ...] = ()
    """Rules that were left out because they are too broad, with the reasons."""


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
        InvalidMessage: the file is not JSON of that form.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
        return read_contexts(document, outside)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidMessage(
            "{path}: not a file of policy contexts: {error}; correct the file",
            path=path,
            error=error,
        ) from error


def read_contexts(
    document: Mapping[str, Any], outside: Callable[[str], bool] | None = None
) -> dict[str, PolicyContext]:
    """Make contexts from a decoded document: `defaults`, and by id the differences from them."""
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


# Suggestions: rules that would have saved people the questions to which they always said yes.
#
# A suggestion is the narrowest rule that covers enough approved calls, and no rejected one. It can
# be put into a rules file as it is, with the real calls as its examples.

_EXAMPLES = 5
_FOLDERS, _WHOLE = 2, 1_000
"""How many first words are compared at most; a number that means all words."""
_HERE = Conditions(workspace="/")
_FIELDS = ("tool", "agent", "command", "exact", "path", "decision", "reason", "match", "not_match")


class Answered(Struct, frozen=True):
    """A call that a person was asked about."""

    call: Call
    approved: bool

    @property
    def subject(self) -> str:
        """Its command, or the one path that it touches; empty if it has neither."""
        access = self.call.access
        if access.command is not None:
            return access.command
        paths = {*access.reads, *access.writes, *access.deletes}
        return paths.pop() if len(paths) == 1 else ""


Group = Sequence[Answered]


def suggest(answered: Sequence[Answered], least: int) -> list[RuleText]:
    """The rules that cover calls that people approved at least `least` times, never rejected."""
    found: list[RuleText] = []
    for group in _by_tool(answered):
        rejected = [one for one in group if not one.approved]
        left = [one for one in group if one.approved]
        for length in (_WHOLE, _FOLDERS, 1):
            for text, covered in list(_candidates(left, length)):
                fits = len(covered) >= least and _holds(text, covered, rejected)
                if fits:
                    found.append(_with_examples(text, covered, rejected))
                    left = [one for one in left if one not in covered]
    return found


def as_toml(rules: Sequence[RuleText], header: str) -> str:
    """The rules as the text of a rules file, below a comment."""
    lines = [f"# {line}" for line in header.splitlines()]
    for rule in rules:
        fields = rule.model_dump(mode="json", exclude_defaults=True)
        written = [f"{name} = {_toml(fields[name])}" for name in _FIELDS if name in fields]
        lines += ["", "[[rule]]", *written]
    return "\n".join(lines) + "\n"


def _by_tool(answered: Sequence[Answered]) -> Iterator[Group]:
    groups: dict[tuple[str, str], list[Answered]] = defaultdict(list)
    for one in answered:
        odd = spoofing(one.subject) or "\n" in one.subject or "\t" in one.subject
        if one.subject and not odd and one.call.tool not in ALWAYS_ASK:
            groups[one.call.tool, one.call.agent].append(one)
    yield from groups.values()


def _candidates(group: Group, length: int) -> Iterator[tuple[RuleText, Group]]:
    """Rules for calls that are exactly the same, or that have so many first words or folders."""
    whole = length == _WHOLE
    for covered in _grouped(group, length).values():
        call, words = covered[0].call, _words(covered[0]) if whole else _common(covered)
        if call.access.command is not None:
            yield _rule_text(call, command=shlex.join(words), exact=whole), covered
        elif whole:
            yield _rule_text(call, path=covered[0].subject, exact=True), covered
        elif is_literal(folder := "/".join(words)):
            yield _rule_text(call, path=f"{folder}/**"), covered


def _grouped(group: Group, length: int) -> dict[tuple[str, ...], list[Answered]]:
    groups: dict[tuple[str, ...], list[Answered]] = defaultdict(list)
    for one in group:
        words = _words(one)
        if one.call.access.command is None and length <= _FOLDERS:
            words = words[:-1]
        if words and (length > _FOLDERS or len(words) >= length):
            groups[words[:length]].append(one)
    return groups


def _words(one: Answered) -> tuple[str, ...]:
    """The words of a simple command, or the folders and the name of a path."""
    if one.call.access.command is None:
        return tuple(one.subject.split("/"))
    if irreversible(one.subject):
        return ()
    parts = read_command(one.subject, CommandPlace(workspace="/")).parts
    return parts[0].argv if len(parts) == 1 else ()


def _common(group: Group) -> tuple[str, ...]:
    if group[0].call.access.command is None:
        common = posixpath.commonpath([posixpath.dirname(one.subject) for one in group])
        return tuple(common.split("/"))
    words = [_words(one) for one in group]
    same = 0
    while all(len(each) > same and each[same] == words[0][same] for each in words):
        same += 1
    return words[0][:same]


def _rule_text(call: Call, **fields: object) -> RuleText:
    named = {"decision": "allow", "tool": call.tool, "agent": call.agent}
    return RuleText.model_validate({**named, **fields})


def _holds(text: RuleText, covered: Group, rejected: Group) -> bool:
    """Whether the rule is valid, allows every approved call, and no rejected one."""
    allowed = [_judged(text, one) for one in covered]
    refused = [_judged(text, one) for one in rejected]
    return all(v is not None and v.decision == "allow" for v in allowed) and all(
        v is not None and v.decision != "allow" for v in refused
    )


def _judged(text: RuleText, one: Answered) -> Verdict | None:
    rule = make_rule("user:1", text)
    if isinstance(rule, str):
        return None
    return verdict(one.call, make_rules((), (rule,)), _HERE, None)


def _with_examples(text: RuleText, covered: Group, rejected: Group) -> RuleText:
    yes = list(dict.fromkeys(one.subject for one in covered))[:_EXAMPLES]
    no = list(dict.fromkeys(one.subject for one in rejected))[:_EXAMPLES]
    reason = f"approved {len(covered)} times, never rejected"
    return text.model_copy(update={"reason": reason, "match": tuple(yes), "not_match": tuple(no)})


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
