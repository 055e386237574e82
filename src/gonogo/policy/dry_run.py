"""Named sets of rules and conditions, for trying commands without a session."""

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

from gonogo.domain.errors import InvalidMessage
from gonogo.domain.findings import irreversible
from gonogo.domain.paths import is_literal, spoofing
from gonogo.domain.tool_calls import Access, Call, ToolClass, Verdict
from gonogo.policy.kinds import CommandPlace
from gonogo.policy.programs import read_command
from gonogo.policy.rules import COMMAND_TOOL, Rule, Rules, RuleText, make_rule, make_rules
from gonogo.policy.trace import ALWAYS_ASK, Conditions
from gonogo.policy.verdict import verdict

_HOLE = re.compile(r"\s+\S*<\w+>.*$")


class PolicyContext(Struct, frozen=True, kw_only=True):
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
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidMessage(
            "{path}: not a file of policy contexts: {error}; correct the file",
            path=path,
            error=error,
        ) from error


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


# Rules that would have spared people the questions to which they always said yes.
#
# A suggestion is the narrowest rule that covers enough approved calls; it covers none that was
# rejected, and it loads as it is written, with the real calls as its examples.

_EXAMPLES = 5
_FOLDERS, _WHOLE = 2, 1_000
"""How many words of a beginning are compared at most, and all of them."""
_HERE = Conditions(workspace="/")
_FIELDS = ("tool", "agent", "command", "exact", "path", "decision", "reason", "match", "not_match")


class Answered(Struct, frozen=True):
    """A call that a person was asked about."""

    call: Call
    approved: bool

    @property
    def subject(self) -> str:
        """Its command, or the one path that it touches; empty where it is neither."""
        access = self.call.access
        if access.command is not None:
            return access.command
        paths = {*access.reads, *access.writes, *access.deletes}
        return paths.pop() if len(paths) == 1 else ""


Group = Sequence[Answered]


def suggest(answered: Sequence[Answered], least: int) -> list[RuleText]:
    """The rules that cover calls which people approved at least so often and never rejected."""
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
    """The rules as a file has them, below a comment."""
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
    """What is the very same, or begins with so many words or folders that are the same."""
    whole = length == _WHOLE
    for covered in _grouped(group, length).values():
        call, words = covered[0].call, _words(covered[0]) if whole else _common(covered)
        if call.access.command is not None:
            yield _text(call, command=shlex.join(words), exact=whole), covered
        elif whole:
            yield _text(call, path=covered[0].subject, exact=True), covered
        elif is_literal(folder := "/".join(words)):
            yield _text(call, path=f"{folder}/**"), covered


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
    """The words of a command that is one simple one, or the folders and the name of a path."""
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


def _text(call: Call, **fields: object) -> RuleText:
    named = {"decision": "allow", "tool": call.tool, "agent": call.agent}
    return RuleText.model_validate({**named, **fields})


def _holds(text: RuleText, covered: Group, rejected: Group) -> bool:
    """Whether the rule is one, allows what was approved, and nothing that was rejected."""
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
