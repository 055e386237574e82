"""`gonogo policy explain`: what a verdict is made of, step by step."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from gonogo.agents import Gate, Gated, Thread, load_profiles
from gonogo.cli._exits import Exit, Stop
from gonogo.cli._owner import connected
from gonogo.cli._print import facts, line
from gonogo.cli._setup import read_settings
from gonogo.domain.strict_json import loads
from gonogo.domain.visible import visible
from gonogo.policy import Rules, Step, kept_rule, load_reviews, load_rules
from gonogo.runtime import open_gate
from gonogo.settings import Settings
from gonogo.texts import say
from gonogo.tools import Tool, builtin_tools, ending_tools


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
    gate, workspace = _gate(settings, rules), settings.workspace
    if session is not None:
        gate, workspace = await _in_session(gate, session)
    if agent not in gate.profiles:
        raise Stop(f"There is no agent {agent!r}", Exit.USAGE)
    name, arguments = _call(words, gate.tools)
    gated = await gate.judge(_thread(workspace, agent), name, arguments)
    if json:
        return facts(_shown(gated, gate.rules))
    for text in _lines(gated, gate.rules, settings.locale or "en"):
        line(text)
    return Exit.DONE


def _gate(settings: Settings, rules: Path | None) -> Gate:
    tools = {**builtin_tools(), **ending_tools()}
    profiles = load_profiles(settings.agents, known_tools=tools)
    reviews = load_reviews(settings.admin_rules, settings.rules)
    gate = open_gate(settings, tools, profiles, reviews)
    return replace(gate, rules=load_rules(settings.admin_rules, rules)) if rules else gate


async def _in_session(gate: Gate, session_id: str) -> tuple[Gate, Path]:
    """The gate with the rules of a session, and the session's workspace."""
    async with connected() as client:
        session = await client.session(session_id)
        found = await client.session_rules(session_id)
    kept = [kept_rule(int(r.name.split(":")[1]), r.rule, r.made_by) for r in found]
    rules = gate.rules.with_session([rule for rule in kept if rule is not None])
    return replace(gate, rules=rules), Path(session.workspace)


def _call(words: Sequence[str], tools: Mapping[str, Tool]) -> tuple[str, dict[str, Any]]:
    """The tool and arguments that are meant: named as such, or a command's text or words."""
    if len(words) == 2 and words[1].lstrip().startswith("{"):
        return words[0], cast("dict[str, Any]", loads(words[1]))
    if len(words) == 1 and words[0] in tools:
        return words[0], {}
    text = words[0] if len(words) == 1 else shlex.join(words)
    return "execute_command", {"command": text}


def _thread(workspace: Path, agent: str) -> Thread:
    return Thread(
        session_id="", name="explain", script="", agent=agent, locale="en", workspace=workspace,
        remote=False, check=lambda conn: None, park=lambda conn, now: None,
    )  # fmt: skip


def _shown(gated: Gated, rules: Rules) -> dict[str, Any]:
    found = gated.verdict
    return {
        **found.model_dump(mode="json", exclude_none=True),
        "tool": gated.tool,
        "where": list(rules.where(found.rule)),
        "steps": [_shown_step(step, rules) for step in gated.trace.steps],
        "not_considered": [
            {"rule": rule.name, "where": rule.where}
            for rule in rules.all()
            if rule.name not in gated.trace.looked_at
        ],
    }


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


def _lines(gated: Gated, rules: Rules, locale: str) -> Iterator[str]:
    shown = _shown(gated, rules)
    where = "".join(f"  {place}" for place in shown["where"])
    yield visible(f"{shown['decision']}: {shown['reason']}", lines=False)
    yield f"  {shown['rule']}{where}"
    for step in shown["steps"]:
        part = f" ({visible(step['part'], lines=False)})" if "part" in step else ""
        yield f"{step['step']}{part}: {step.get('decided', '-')}"
        yield from (_look_line(look, locale) for look in step["considered"])
    for rule in shown["not_considered"]:
        yield f"    {rule['rule']}  {rule['where']}  {say('cli_not_considered', locale)}"


def _look_line(look: dict[str, Any], locale: str) -> str:
    said = say("cli_matched", locale) if look["matched"] else visible(look["why"], lines=False)
    return "  ".join(["   ", look["rule"], *filter(None, [look["where"]]), said])
