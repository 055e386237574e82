"""Rules of one session: what its owner decided while it goes on, below all rules of files.

The narrowest rule for a call covers just this call in the hands of just this agent; where there is
none so narrow, there is none.
"""

import shlex
from collections.abc import Mapping
from typing import Any

from gonogo.domain.findings import irreversible
from gonogo.domain.tool_calls import Call, ToolClass
from gonogo.policy._commands import read_command
from gonogo.policy._globs import is_literal
from gonogo.policy._kinds import Place
from gonogo.policy._shell import Unparsed
from gonogo.policy.rules import Rule, RuleText, make_rule


def session_rule(position: int, text: RuleText, made_by: str) -> Rule | str:
    """Check a new rule of a session, as one in a file is checked; the defect if it has one."""
    return make_rule(f"session:{position}", text, f"of the session, made by {made_by}")


def kept_rule(position: int, fields: Mapping[str, Any], made_by: str) -> Rule | None:
    """A rule that was checked when it was made.

    One that would not be taken any more allows nothing; where it forbids or asks, it does so for
    everything that it may have meant.
    """
    text = RuleText.model_validate({**fields, "match": (), "not_match": ()})
    rule = session_rule(position, text, made_by)
    if isinstance(rule, Rule):
        return rule
    if text.decision == "allow":
        return None
    wider = text.model_copy(update={"command": None, "exact": False})
    return Rule(name=f"session:{position}", text=wider, where=rule)


def narrowest(call: Call, always_ask: frozenset[str]) -> RuleText | str:
    """The rule that allows just this call, or why there is none."""
    if call.tool in always_ask or call.tool_class is ToolClass.IRREVERSIBLE:
        return f"{call.tool} asks each time"
    if call.access.command is not None:
        return _of_command(call, call.access.command)
    paths = {*call.access.reads, *call.access.writes, *call.access.deletes}
    if len(paths) != 1:
        return "only a call that touches one path has a rule of its own"
    (path,) = paths
    if not is_literal(path):
        return f"{path!r} would be read as a pattern"
    return RuleText(decision="allow", tool=call.tool, agent=call.agent, path=path, exact=True)


def _of_command(call: Call, text: str) -> RuleText | str:
    if final := irreversible(text):
        return f"{final!r} cannot be taken back: it asks each time"
    command = read_command(text, Place(workspace="/"))
    if isinstance(command.parsed, Unparsed) or len(command.parts) != 1:
        return "only one simple command has a rule of its own"
    (part,) = command.parts
    words = shlex.join(part.argv)
    return RuleText(decision="allow", tool=call.tool, agent=call.agent, command=words, exact=True)
