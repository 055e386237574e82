"""`gonogo policy explain`: what a verdict is made of, step by step."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from gonogo.cli._exits import Exit, Stop
from gonogo.cli._owner import connected
from gonogo.cli._print import facts, line
from gonogo.cli._seen import known_tools, remembered
from gonogo.cli._setup import environment, read_settings
from gonogo.domain.strict_json import loads
from gonogo.domain.text_safety import visible
from gonogo.domain.tool_calls import server_of
from gonogo.execution.agent import Gate, Gated, Given, Thread, explained, load_profiles
from gonogo.policy import Rule, Rules, kept_rule, load_reviews, load_rules
from gonogo.runtime import bare_thread, open_gate
from gonogo.settings import Settings
from gonogo.texts import say, told
from gonogo.tools import Tool


async def explain_call(
    words: Sequence[str],
    directory: Path | None,
    agent: str,
    rules: Path | None,
    session: str | None,
    *,
    json: bool,
) -> Exit:
    """Judge one call as the gate would, and show every step; nothing runs."""
    settings = read_settings({"workspace": directory})
    gate, place = _gate(settings, rules), _Place(workspace=settings.workspace)
    if session is not None:
        place = await _in_session(session)
        gate = replace(gate, given=place.given)
    if agent not in gate.profiles:
        raise Stop(f"There is no agent {agent!r}", Exit.USAGE)
    name, arguments = _call(words, gate.tools)
    if server_of(name) is not None:
        gate = replace(gate, servers=await remembered())
    locale = "en" if json or settings.locale is None else settings.locale
    gated = await gate.judge(place.thread(agent, locale), name, arguments)
    everything = gate.rules.with_session(place.rules)
    if json:
        return facts(explained(gated, everything))
    for text in _lines(gated, everything, locale):
        line(text)
    return Exit.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the call would run."""

    workspace: Path
    rules: tuple[Rule, ...] = ()
    """The session's."""
    since: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """When each of them was made."""
    remote: bool = False

    async def given(self, thread: Thread) -> Given:
        """What the gate would find in the session; it says itself what of that holds."""
        del thread
        return Given(rules=self.rules, since=self.since)

    def thread(self, agent: str, locale: str) -> Thread:
        """A conversation there that nobody leads."""
        return bare_thread(self.workspace, agent, locale=locale, remote=self.remote)


def _gate(settings: Settings, rules: Path | None) -> Gate:
    tools = known_tools()
    profiles = load_profiles(settings.agents, known_tools=tools)
    reviews = load_reviews(settings.admin_rules, rules or settings.rules)
    path = environment().get("PATH")
    gate = open_gate(settings, tools, profiles, reviews, path=path)
    return replace(gate, rules=load_rules(settings.admin_rules, rules)) if rules else gate


async def _in_session(session_id: str) -> _Place:
    async with connected() as client:
        session = await client.session(session_id)
        found = await client.session_rules(session_id)
    everywhere = [rule for rule in found if rule.plan_id is None]
    kept = [kept_rule(int(r.name.split(":")[1]), r.rule, r.made_by) for r in everywhere]
    return _Place(
        workspace=Path(session.workspace), remote=session.tool_host == "client",
        rules=tuple(rule for rule in kept if rule is not None),
        since={rule.name: rule.created_at for rule in found},
    )  # fmt: skip


def _call(words: Sequence[str], tools: Mapping[str, Tool]) -> tuple[str, dict[str, Any]]:
    """The tool and arguments that are meant: named as such, or a command's text or words."""
    if len(words) == 2 and words[1].lstrip().startswith("{"):
        return words[0], cast("dict[str, Any]", loads(words[1]))
    if len(words) == 1 and words[0] in tools:
        return words[0], {}
    text = words[0] if len(words) == 1 else shlex.join(words)
    return "execute_command", {"command": text}


def _lines(gated: Gated, rules: Rules, locale: str) -> Iterator[str]:
    shown = explained(gated, rules)
    where = "".join(f"  {place}" for place in shown["where"])
    yield visible(f"{shown['decision']}: {shown['reason']}", lines=False)
    yield f"  {shown['rule']}{where}"
    for step in shown["steps"]:
        part = f" ({visible(step['part'], lines=False)})" if "part" in step else ""
        yield f"{told(step['step'], locale)}{part}: {step.get('decided', '-')}"
        yield from (_look_line(look, locale) for look in step["considered"])
    for rule in shown["not_considered"]:
        why = say("cli_stands_back" if rule.get("stands_back") else "cli_not_considered", locale)
        yield f"    {rule['rule']}  {rule['where']}  {why}"


def _look_line(look: dict[str, Any], locale: str) -> str:
    said = say("cli_matched", locale) if look["matched"] else told(look["why"], locale)
    said = visible(said, lines=False)
    return "  ".join(["   ", look["rule"], *filter(None, [look["where"]]), said])
