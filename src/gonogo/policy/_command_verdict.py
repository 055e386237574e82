"""The verdict on a command: its strictest part decides.

Denying looks at everything that the command might do; allowing only at what was understood
completely, part by part, and then what runs is the canonical form.
"""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from gonogo.domain.gate import Call, Grant, Verdict
from gonogo.policy._commands import Command, Part, read_command
from gonogo.policy._deny import refusal, words_of
from gonogo.policy._globs import covers
from gonogo.policy._kinds import Place
from gonogo.policy._prefix import read_prefix
from gonogo.policy._shell import Unparsed
from gonogo.policy._text import spoofing
from gonogo.policy.conditions import Conditions
from gonogo.policy.rules import Rule, Rules

_MAX_READ = 250_000


@dataclass(frozen=True, slots=True)
class Cover:
    """Who allows a part: a rule or the plan."""

    rule: str
    reason: str
    by_grant: bool = False


def command_verdict(
    call: Call, rules: Rules, conditions: Conditions, grant: Grant | None
) -> Verdict:
    """Judge a call that runs a command."""
    text = call.access.command or ""
    if odd := spoofing(text):
        return _builtin("deny", "spoofing", f"the command contains {odd}")
    if not text.strip():
        return _builtin("deny", "empty", "the command is empty")
    if len(text) > _MAX_READ:
        return _builtin("deny", "too-long", "the command is longer than any command")
    place = Place(workspace=conditions.workspace, cwd=call.access.cwd or ".")
    command = read_command(text, place)
    return (
        _denied(command, call, rules, conditions)
        or _asked(command, call, rules, conditions)
        or _allowed(command, call, rules, grant, place)
    )


def _denied(command: Command, call: Call, rules: Rules, conditions: Conditions) -> Verdict | None:
    if reason := refusal(command.text, command.suspicion, conditions.workspace, conditions.home):
        return _builtin("deny", "never", reason)
    for rule in rules.of("deny"):
        if _concerns(rule, call, command):
            return Verdict(decision="deny", reason=rule.reason, rule=rule.name)
    return None


def _asked(command: Command, call: Call, rules: Rules, conditions: Conditions) -> Verdict | None:
    if isinstance(command.parsed, Unparsed):
        return _builtin("ask", "unparsed", f"not understood: {command.parsed.reason}")
    if not command.parts:
        return _builtin("ask", "unparsed", "there is no command in it")
    for rule in rules.of("ask"):
        if _concerns(rule, call, command):
            return Verdict(decision="ask", reason=rule.reason, rule=rule.name)
    for part in command.parts:
        if doubt := _doubt(part, call, conditions):
            return _builtin("ask", doubt[0], doubt[1])
    return None


def _concerns(rule: Rule, call: Call, command: Command) -> bool:
    """Whether a rule that forbids or asks speaks of anything that the command might do."""
    if not rule.concerns(call.tool, call.agent):
        return False
    if rule.words:
        understood = (part.argv for part in command.parts)
        return any(map(rule.covers_argv, (*command.suspicion.commands, *understood)))
    if rule.text.path is None:
        return True
    cwd = call.access.cwd or "."
    named = (posixpath.normpath(posixpath.join(cwd, w)) for w in words_of(command.suspicion))
    return any(covers((rule.text.path,), path) for path in named)


def _doubt(part: Part, call: Call, conditions: Conditions) -> tuple[str, str] | None:
    program = part.argv[0]
    if part.is_git and not conditions.repo_trusted:
        return "untrusted-repository", "git would obey the settings of a repository not vetted"
    if part.is_git and (call.access.cwd or ".") != ".":
        return "git-folder", "git in a subfolder may find another repository's settings"
    if part.runs_code and not conditions.sandboxed:
        return "no-sandbox", f"{program!r} runs the repository's code, and there is no sandbox"
    bound = conditions.max_write_globs is not None and not conditions.writes_barred
    if part.runs_code and bound:
        return "profile", f"{program!r} may write where the agent {call.agent!r} may not"
    for word in part.simple.words[1:]:
        if conditions.outside(posixpath.join(call.access.cwd or "", word.text)):
            return "outside", f"{word.text!r} is not a file or folder inside the workspace"
    return None


def _allowed(
    command: Command, call: Call, rules: Rules, grant: Grant | None, place: Place
) -> Verdict:
    found: list[Cover] = []
    for part in command.parts:
        cover = _cover(part, call, rules, grant, place)
        if isinstance(cover, str):
            return Verdict(decision="ask", reason=cover, rule=f"default:{call.tool_class}")
        found.append(cover)
    by_grant = any(cover.by_grant for cover in found)
    return Verdict(
        decision="allow",
        reason="; ".join(dict.fromkeys(cover.reason for cover in found)),
        rule="+".join(dict.fromkeys(cover.rule for cover in found)),
        source="grant" if by_grant else "rule",
        run_as=command.render(),
    )


def _cover(part: Part, call: Call, rules: Rules, grant: Grant | None, place: Place) -> Cover | str:
    """Who allows this part; else why it asks."""
    why: str | None = None
    for words, cover in (*_rule_covers(part, call, rules), *_grant_covers(part, call, grant)):
        problem = part.unknown(words, place)
        if problem is None:
            return cover
        why = why or problem
    return why or uncovered(call, repr(part.argv[0]), grant)


def uncovered(call: Call, subject: str, grant: Grant | None) -> str:
    """Why something asks that neither a rule nor the plan allows."""
    if grant is not None:
        return f"{subject} is outside the scope of subtask {grant.subtask_id!r}"
    if call.plan_id is not None:
        return f"{subject} asks each time, whatever the plan allows"
    return f"no rule allows {subject}"


def _rule_covers(part: Part, call: Call, rules: Rules) -> Iterator[tuple[int, Cover]]:
    for rule in rules.of("allow"):
        fits = rule.words and rule.concerns(call.tool, call.agent) and rule.covers_argv(part.argv)
        if fits:
            yield len(rule.words), Cover(rule.name, rule.reason)


def _grant_covers(part: Part, call: Call, grant: Grant | None) -> Iterator[tuple[int, Cover]]:
    if grant is None or grant.scope is None:
        return
    if grant.scope.tools and call.tool not in grant.scope.tools:
        return
    for written in grant.scope.commands:
        words = read_prefix(written)
        if not isinstance(words, str) and part.argv[: len(words)] == words:
            name = f"grant:{grant.plan_id}#{grant.subtask_id}"
            reason = f"the approved plan allows {written!r} to subtask {grant.subtask_id!r}"
            yield len(words), Cover(name, reason, by_grant=True)


def _builtin(decision: str, name: str, reason: str) -> Verdict:
    return Verdict.model_validate(
        {"decision": decision, "reason": reason, "rule": f"builtin:{name}"}
    )
