"""Trying commands against the policy."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import typer
from pydantic import BaseModel, ConfigDict, ValidationError

from gonogo.cli._exits import Exit, Stop
from gonogo.cli._setup import read_settings
from gonogo.domain.errors import InvalidMessage
from gonogo.domain.gate import Verdict
from gonogo.domain.strict_json import loads
from gonogo.domain.visible import visible_json
from gonogo.policy import Conditions, PolicyContext, check_command, load_contexts, load_rules

Contexts = Mapping[str, PolicyContext]


class Item(BaseModel):
    """One line of a batch; what else it holds is somebody else's."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    cmd: str
    policy_context: str | None = None


def check_one(command: list[str], rules: Path | None, contexts: Path | None, name: str) -> Exit:
    """Write the verdict on one command, given as one text or as its words."""
    if not command:
        raise Stop("Say which command: gonogo policy check -- git push", Exit.USAGE)
    text = command[0] if len(command) == 1 else shlex.join(command)
    _write(check_command(text, _context(_contexts(contexts), name, own=_own(rules))))
    return Exit.DONE


def check_batch(rules: Path | None, contexts: Path | None, name: str) -> Exit:
    """Write a verdict for each line of standard input, in order."""
    named, own = _contexts(contexts), _own(rules)
    for number, line in enumerate(sys.stdin, start=1):
        if not line.strip():
            continue
        try:
            item = _item(line)
            context = _context(named, item.policy_context or name, own=own)
        except (InvalidMessage, Stop) as error:
            raise Stop(f"line {number}: {error}", Exit.USAGE) from None
        _write(check_command(item.cmd, context))
    return Exit.DONE


def _item(line: str) -> Item:
    try:
        return Item.model_validate(loads(line))
    except ValidationError:
        raise InvalidMessage('expected {"cmd": "…", "policy_context": "…"}') from None


def _contexts(path: Path | None) -> Contexts:
    return load_contexts(path) if path else {}


def _context(named: Contexts, name: str, *, own: PolicyContext) -> PolicyContext:
    if not named:
        return own
    if not name and len(named) == 1:
        return next(iter(named.values()))
    if name not in named:
        known = ", ".join(named)
        raise Stop(f"there is no context {name!r}; name one of {known} with --name", Exit.USAGE)
    return named[name]


def _own(rules: Path | None) -> PolicyContext:
    from gonogo.workspace import Sandbox

    settings = read_settings()
    loaded = load_rules(settings.admin_rules, rules or settings.rules)
    conditions = Conditions(
        workspace=str(settings.workspace),
        home=str(settings.home),
        attended=not settings.unattended,
        repo_trusted=settings.repo_trusted,
        sandboxed=settings.sandbox and Sandbox.detect() is not None,
    )
    return PolicyContext(rules=loaded, conditions=conditions)


def _write(verdict: Verdict) -> None:
    said = {"decision": verdict.decision, "reason": verdict.reason, "rule": verdict.rule}
    typer.echo(visible_json(said))
