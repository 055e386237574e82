"""Trying commands against the policy."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import typer
from pydantic import BaseModel, ConfigDict, ValidationError

from gonogo.cli._exits import Exit, Stop, complain
from gonogo.cli._setup import own_locale, read_settings
from gonogo.domain.errors import InvalidMessage, Refused
from gonogo.domain.identity import Role
from gonogo.domain.strict_json import loads
from gonogo.domain.text_safety import visible_json
from gonogo.domain.tool_calls import Verdict
from gonogo.policy import (
    Conditions,
    Known,
    PolicyContext,
    check_command,
    load_contexts,
    load_reviews,
    load_rules,
    review_findings,
)
from gonogo.settings import Settings
from gonogo.texts import say

Contexts = Mapping[str, PolicyContext]
_UNREADABLE = "builtin:unreadable-line"


class Item(BaseModel):
    """One line of a batch; what else it holds is somebody else's."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    cmd: str
    policy_context: str | None = None


def check_one(command: list[str], rules: Path | None, contexts: Path | None, name: str) -> Exit:
    """Write the verdict on one command, given as one text or as its words."""
    text = command[0] if len(command) == 1 else shlex.join(command)
    _write(check_command(text, _context(_contexts(contexts), name, own=_own(rules))))
    return Exit.DONE


async def check_files(rules: Path | None) -> Exit:
    """Read the rules files, and write what is to be known of them."""
    settings = read_settings()
    admin, user = settings.admin_rules, rules or settings.rules
    files = [path for path in (admin, user) if path is not None]
    loaded, reviews = load_rules(admin, user), load_reviews(admin, user)
    found = review_findings(reviews, await _known(settings)) if reviews.rules else []
    locale = own_locale()
    said = {
        "files": [str(path) for path in files if path.exists()],
        "rules": len(loaded.all()),
        "reviews": len(reviews.rules),
        "findings": [
            {
                "severity": each.severity, "code": each.code, "rule": each.fields["rule"],
                "where": each.fields["where"], "text": say(each.key, locale, **each.fields),
            }
            for each in found
        ],
    }  # fmt: skip
    typer.echo(visible_json(said))
    return Exit.DONE


async def _known(settings: Settings) -> Known:
    """Who has a token now, and who works at this machine."""
    from gonogo.cli._owner import TOKEN_NAME, connected

    async with connected() as client:
        tokens = await client.tokens()
    roles = {"local": Role.ADMIN}
    for token in tokens:
        if token.revoked_at is None and token.name != TOKEN_NAME:
            role, who = Role[token.role.upper()], f"user:{token.name}"
            roles[who] = max(role, roles.get(who, role))
    return Known(people=roles, others=settings.oidc_issuer is not None)


def check_batch(rules: Path | None, contexts: Path | None, name: str) -> Exit:
    """Write a verdict for each line of standard input, in order.

    A line that cannot be read is denied, and the others are judged all the same.
    """
    named, own = _contexts(contexts), _own(rules)
    code = Exit.DONE
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if not line.strip():
            continue
        try:
            item = _item(line)
            context = _context(named, item.policy_context or name, own=own)
            _write(check_command(item.cmd, context))
        except (Refused, Stop) as error:
            reason = f"line {number}: {error}"
            _write(Verdict(decision="deny", reason=reason, rule=_UNREADABLE))
            complain(reason)
            code = Exit.USAGE
    return code


def _item(line: bytes) -> Item:
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
