"""Rules at the terminal: calls explained and judged, old ones judged anew, a session's own."""

import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import typer
from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, ValidationError

from gonogo.cli.commands.analytics import moment
from gonogo.cli.daemon import connected, linked
from gonogo.cli.folder import environment, read_settings
from gonogo.cli.support import Exit, Stop, complain, own_locale, own_words, said_of
from gonogo.cli.terminal.output import facts, line, outcome, plain, spoken, table, word
from gonogo.client import Client
from gonogo.domain.base import loads
from gonogo.domain.errors import InvalidMessage, Refused, ToolFailed, because, of_parts
from gonogo.domain.identity import Role
from gonogo.domain.plan import Scope
from gonogo.domain.text_safety import visible, visible_json
from gonogo.domain.tool_calls import (
    Access,
    Call,
    Grant,
    Sighting,
    ToolClass,
    ToolHistory,
    Verdict,
    foreign_name,
    server_of,
)
from gonogo.domain.views import CallView, ServerView, SessionRuleView, ToolView
from gonogo.execution.agent import (
    ConversationGrants,
    Gate,
    Gated,
    Profile,
    Thread,
    explained,
    load_profiles,
)
from gonogo.i18n import LOCALES, say, term, told
from gonogo.policy import (
    UNATTENDED,
    Answered,
    Conditions,
    KnownPeople,
    PolicyContext,
    Rule,
    Rules,
    as_toml,
    check_command,
    kept_rule,
    load_contexts,
    load_reviews,
    load_rules,
    review_findings,
    suggest,
    verdict,
)
from gonogo.runtime import bare_thread, open_gate
from gonogo.settings import Settings
from gonogo.tools import Remembered, ServerConfig, Tool, builtin_tools, ending_tools, touched
from gonogo.workspace import Sandbox

# Tools of MCP servers at the terminal: what is known of them, and accepting what changed.

_SHOWN = 60
"""Characters of a description in a list."""


async def list_tools(*, json: bool) -> Exit:
    """List the tools and the servers."""
    async with connected() as client:
        tools, servers = await client.tools(), await client.servers()
    if json:
        return facts({"tools": tools, "servers": servers})
    table(
        ("tool", "class", "does"),
        [(t.name, word("class", t.tool_class), _beginning(t)) for t in tools],
    )
    if servers:
        line("")
        rows = [
            (s.name, s.place, word("server", s.state), len(s.tools), _remarks(s)) for s in servers
        ]
        table(("server", "at", "state", "tools", "remarks"), rows)
    return Exit.DONE


async def accept_tool(name: str, *, json: bool) -> Exit:
    """Accept a tool as it was seen last."""
    async with linked(read_settings()) as link:
        accepted = await link.client.accept_tool(name)
    said = "{tool} is accepted as it is now." if accepted.news else "{tool} has not changed."
    return outcome(accepted, own_words(said, tool=spoken(name)), json=json)


def _beginning(tool: ToolView) -> str:
    """What a tool does: in the user's language, or as its server or we describe it to models."""
    known = term("tool", tool.name, own_locale())
    words = known if known != tool.name else " ".join(tool.description.split())
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"


def _remarks(server: ServerView) -> str:
    changed = (
        own_words("{tool} has changed: {parts}", tool=name, parts=", ".join(parts))
        for name, parts in server.changed.items()
    )
    refused = (
        own_words("{tool} is left out: {reason}", tool=name, reason=_why(server, why))
        for name, why in server.refused.items()
    )
    return "; ".join(filter(None, (_why(server, server.error or ""), *changed, *refused)))


def _why(server: ServerView, text: str) -> str:
    return told(of_parts(text, server.parts.get(text, {})), own_locale())


# Tools of foreign servers, for commands that judge calls and start no server.


class KnownTools(dict[str, Tool]):
    """Our tools; a profile may name whatever a server may bring besides."""

    def __contains__(self, name: object) -> bool:
        """Whether it is one of ours, or a name of a server's."""
        return super().__contains__(name) or (isinstance(name, str) and server_of(name) is not None)


def known_tools() -> KnownTools:
    """All of ours."""
    return KnownTools({**builtin_tools(), **ending_tools()})


async def remembered() -> Remembered:
    """The servers with what was seen of their tools, by whoever owns the state folder."""
    async with connected() as client:
        tools, servers = await client.tools(), await client.servers()
    by_name = {tool.name: tool for tool in tools}
    configs = {server.name: _config(server, by_name) for server in servers}
    return Remembered(configs, _standings(servers, by_name))


async def seen_by(client: Client) -> Mapping[str, ToolHistory]:
    """What was seen of every tool that a server has, by its name."""
    by_name = {tool.name: tool for tool in await client.tools()}
    return _standings(await client.servers(), by_name)


def at(standing: ToolHistory, moment: datetime) -> ToolHistory | None:
    """What had been seen and accepted of a tool at a moment; None: nothing yet."""
    seen = [
        s if s.accepted_at and s.accepted_at <= moment else _unaccepted(s)
        for s in standing.sightings
        if s.seen_at <= moment
    ]
    return ToolHistory(seen) if seen else None


def _unaccepted(seen: Sighting) -> Sighting:
    return replace(seen, accepted_at=None)


def _config(server: ServerView, tools: Mapping[str, ToolView]) -> ServerConfig:
    before = foreign_name(server.name, "")
    classes = {
        name.removeprefix(before): ToolClass(tools[name].tool_class)
        for name in server.sightings
        if name in tools
    }
    return ServerConfig(name=server.name, agents=tuple(server.agents), classes=classes)


def _standings(
    servers: list[ServerView], tools: Mapping[str, ToolView]
) -> Mapping[str, ToolHistory]:
    return {
        name: _standing(tools[name], server)
        for server in servers
        for name in server.sightings
        if name in tools
    }


def _standing(tool: ToolView, server: ServerView) -> ToolHistory:
    now = {
        "name": tool.name.removeprefix(foreign_name(server.name, "")),
        "description": tool.description, "parameters": tool.parameters,
    }  # fmt: skip
    # Of what it was before, no more is told than which part of it was another.
    before = {part: now[part] for part in now if part not in server.changed.get(tool.name, ())}
    *old, last = server.sightings[tool.name]
    return ToolHistory([
        Sighting(
            name=tool.name, position=position, digest=seen.digest, seen_at=seen.seen_at,
            definition=now if seen is last else before, accepted_at=seen.accepted_at,
            accepted_by=None,
        )
        for position, seen in enumerate((*old, last), start=1)
    ])  # fmt: skip


async def list_rules(session_id: str, *, json: bool) -> Exit:
    """List what holds in a session besides the rules of files."""
    async with connected() as client:
        found = await client.session_rules(session_id)
        if json:
            return facts(found)
        rows = [(r.name, r.rule_id, r.made_by, r.created_at, _written(r)) for r in found]
        return table(("name", "rule", "made by", "made", "says"), rows)


async def add_rule(session_id: str, rule: dict[str, object], *, json: bool) -> Exit:
    """Make a rule."""
    async with linked(read_settings()) as link:
        made = await link.client.add_session_rule(session_id, rule)
    return outcome(made, f"{made.name} {made.rule_id} {_written(made)}", json=json)


async def remove_rule(session_id: str, rule: str, *, json: bool) -> Exit:
    """End a rule."""
    async with linked(read_settings()) as link:
        await link.client.remove_session_rule(session_id, rule)
    said = own_words("Rule {rule} is removed.", rule=spoken(rule))
    return outcome({"session_id": session_id, "rule": rule, "removed": True}, said, json=json)


def _written(rule: SessionRuleView) -> str:
    written = visible_json(rule.rule)
    if rule.plan_id is None:
        return written
    return own_words("{rule} in {plan_id}", rule=written, plan_id=rule.plan_id)


# Trying commands against the policy.

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


async def _known(settings: Settings) -> KnownPeople:
    """Who has a token now, and who works at this machine."""
    from gonogo.cli.daemon import TOKEN_NAME, connected

    async with connected() as client:
        tokens = await client.tokens()
    roles = {"local": Role.ADMIN}
    for token in tokens:
        if token.revoked_at is None and token.name != TOKEN_NAME:
            role, who = Role[token.role.upper()], f"user:{token.name}"
            roles[who] = max(role, roles.get(who, role))
    return KnownPeople(people=roles, others=settings.oidc_issuer is not None)


def check_batch(rules: Path | None, contexts: Path | None, name: str) -> Exit:
    """Write a verdict for each line of standard input, in order.

    A line that cannot be read is denied, and the others are judged all the same.
    """
    named, own = _contexts(contexts), _own(rules)
    code = Exit.DONE
    for number, given in enumerate(sys.stdin.buffer, start=1):
        if not given.strip():
            continue
        try:
            item = _item(given)
            context = _context(named, item.policy_context or name, own=own)
            _write(check_command(item.cmd, context))
        except (Refused, Stop) as error:
            _write(Verdict(decision="deny", reason=f"line {number}: {error}", rule=_UNREADABLE))
            said = str(error) if isinstance(error, Stop) else said_of(error)
            complain(own_words("line {number}: {problem}", number=number, problem=said))
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
        raise Stop(
            "There is no context {name!r}; with --name, give one of: {known}",
            Exit.USAGE,
            name=name,
            known=known,
        )
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


# `gonogo policy explain`: what a verdict is made of, step by step.


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
    gate, place = _gate(settings, rules), _CallPlace(workspace=settings.workspace)
    if session is not None:
        place = await _in_session(session)
        gate = replace(gate, given=place.given)
    if agent not in gate.profiles:
        raise Stop(
            "There is no agent {agent!r}; the agents are: {known}",
            Exit.USAGE,
            agent=agent,
            known=", ".join(sorted(gate.profiles)),
        )
    name, arguments = _call_of_words(words, gate.tools)
    if server_of(name) is not None:
        gate = replace(gate, servers=await remembered())
    locale = "en" if json else own_locale()
    gated = await gate.judge(place.thread(agent, locale), name, arguments)
    everything = gate.rules.with_session(place.rules)
    if json:
        return facts(explained(gated, everything))
    for text in _lines(gated, everything, locale):
        line(text)
    return Exit.DONE


class _CallPlace(Struct, frozen=True, kw_only=True):
    """Where the call would run."""

    workspace: Path
    rules: tuple[Rule, ...] = ()
    """The session's."""
    since: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """When each of them was made."""
    remote: bool = False

    async def given(self, thread: Thread) -> ConversationGrants:
        """What the gate would find in the session; it says itself what of that holds."""
        del thread
        return ConversationGrants(rules=self.rules, since=self.since)

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


async def _in_session(session_id: str) -> _CallPlace:
    async with connected() as client:
        session = await client.session(session_id)
        found = await client.session_rules(session_id)
    everywhere = [rule for rule in found if rule.plan_id is None]
    kept = [kept_rule(int(r.name.split(":")[1]), r.rule, r.made_by) for r in everywhere]
    return _CallPlace(
        workspace=Path(session.workspace), remote=session.tool_host == "client",
        rules=tuple(rule for rule in kept if rule is not None),
        since={rule.name: rule.created_at for rule in found},
    )  # fmt: skip


def _call_of_words(words: Sequence[str], tools: Mapping[str, Tool]) -> tuple[str, dict[str, Any]]:
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
    decided = term("decision", shown["decision"], locale)
    yield visible(f"{decided}: {told(shown['reason'], locale)}", lines=False)
    yield f"  {shown['rule']}{where}"
    for step in shown["steps"]:
        part = f" ({visible(step['part'], lines=False)})" if "part" in step else ""
        decided = term("decision", step.get("decided", "-"), locale)
        yield f"{told(step['step'], locale)}{part}: {decided}"
        yield from (_look_line(look, locale) for look in step["considered"])
    for rule in shown["not_considered"]:
        why = say("cli_stands_back" if rule.get("stands_back") else "cli_not_considered", locale)
        yield f"    {rule['rule']}  {rule['where']}  {why}"


def _look_line(look: dict[str, Any], locale: str) -> str:
    said = say("cli_matched", locale) if look["matched"] else told(look["why"], locale)
    said = visible(said, lines=False)
    return "  ".join(["   ", look["rule"], *filter(None, [look["where"]]), said])


# `gonogo policy replay` and `policy suggest`: other rules, tried on what was judged before.

_PAGE = 500
_ELSEWHERE = ("builtin:outside", "builtin:arguments", "builtin:unknown-tool", "builtin:file_")
"""What decided by the disk, or by what the agent wrote, before any rule was asked."""
_SERVERS = ("builtin:server_", "builtin:unknown_tool")
"""What decided because a server was not there, or not with that tool."""
_NOBODY = tuple(told(UNATTENDED, locale) for locale in LOCALES)
"""How the reason of a denial ends that was a question, had there been somebody to ask."""
_UNCOVERED = ("default:", "builtin:changed-tool")


class Changed(Struct, frozen=True):
    """A call on which other rules say something else."""

    call: CallView
    now: Verdict
    where: tuple[str, ...]


async def replay(file: Path, session: str | None, since: str | None, *, json: bool) -> Exit:
    """Say what would have been decided with a file in the place of the user's rules."""
    settings = read_settings()
    rules = load_rules(settings.admin_rules, file)
    changed: list[Changed] = []
    left_out: Counter[str] = Counter()
    calls, seen = await _calls(session, since)
    judge = Judge(settings, rules, seen)
    for call in calls:
        now = judge.again(call)
        if isinstance(now, str):
            left_out[now] += 1
        elif now.decision != call.decision:
            changed.append(Changed(call, now, rules.where(now.rule)))
    return _told(len(calls), changed, left_out, own_locale(), json=json)


async def suggestions(session: str | None, least: int, *, json: bool) -> Exit:
    """Print rules that would have spared questions; nothing is saved."""
    answered = [
        Answered(call, view.answer == "approved")
        for view in (await _calls(session, None))[0]
        if view.answer in {"approved", "rejected"} and (call := _call_of_view(view)) is not None
    ]
    found = suggest(answered, least)
    if json:
        return facts([rule.model_dump(mode="json", exclude_defaults=True) for rule in found])
    key = "cli_suggested" if found else "cli_nothing_suggested"
    header = say(key, own_locale(), count=least)
    line(as_toml(found, header).rstrip("\n"))
    return Exit.DONE


class Judge:
    """Judges recorded calls by other rules."""

    def __init__(self, settings: Settings, rules: Rules, seen: Mapping[str, ToolHistory]) -> None:
        """Take the rules, and what was seen of the tools of servers."""
        self._settings, self._rules, self._seen = settings, rules, seen
        self._profiles: Mapping[str, Profile] = load_profiles(
            settings.agents, known_tools=known_tools()
        )
        self._sandboxed = settings.sandbox and Sandbox.detect() is not None

    def again(self, view: CallView) -> Verdict | str:
        """The verdict under the other rules, or why there is none."""
        rule, call = view.rule or "", _call_of_view(view)
        if rule.startswith(_SERVERS):
            return "cli_replay_server"
        if view.decision is None or rule.startswith(_ELSEWHERE) or call is None:
            return "cli_replay_disk"
        if rule.startswith("session:"):
            return "cli_replay_session"
        changed = self._changed(view)
        rules = self._rules.strict() if changed else self._rules
        return verdict(call, rules, self._conditions(view, changed), _grant(view))

    def _changed(self, view: CallView) -> str | None:
        """What is said of a server's tool that was not as it had been accepted."""
        standing = self._seen.get(view.tool_name)
        then = at(standing, view.created_at) if standing else None
        if then is None or then.accepted:
            return None
        return because("{tool} had changed since it was accepted", tool=view.tool_name)

    def _conditions(self, view: CallView, changed: str | None) -> Conditions:
        profile = self._profiles.get(view.agent)
        limits = profile.limits if profile else None
        return Conditions(
            workspace="/", home=str(self._settings.home), sandboxed=self._sandboxed,
            readers=self._settings.readers and self._sandboxed and not _is_uncovered(view),
            repo_trusted=self._settings.repo_trusted, max_write_globs=limits,
            writes_barred=self._sandboxed and limits == (),
            attended=not (view.reason or "").endswith(_NOBODY), changed=changed,
        )  # fmt: skip


async def _calls(
    session: str | None, since: str | None
) -> tuple[list[CallView], Mapping[str, ToolHistory]]:
    first = moment(since, datetime.now(UTC))
    found: list[CallView] = []
    async with connected() as client:
        while page := await _page(client, session, first, len(found)):
            found += page
        foreign = any(server_of(call.tool_name) for call in found)
        return found, await seen_by(client) if foreign else {}


async def _page(
    client: Client, session: str | None, since: datetime | None, offset: int
) -> list[CallView]:
    return await client.calls(session_id=session, since=since, limit=_PAGE, offset=offset)


def _call_of_view(view: CallView) -> Call | None:
    """The call as far as its arguments tell; links and the kinds of files are not looked at."""
    try:
        access = touched(view.tool_name, view.arguments)
    except (ToolFailed, KeyError):
        return None
    return Call(
        tool=view.tool_name, tool_class=_class(view, access), agent=view.agent,
        arguments=view.arguments, access=access, plan_id=view.plan_id, revision=view.revision,
        subtask_id=view.subtask_id,
    )  # fmt: skip


def _class(view: CallView, access: Access) -> ToolClass:
    # A command was pure where it could only read.
    return ToolClass.OTHER if access.command is not None else ToolClass(view.tool_class)


def _is_uncovered(view: CallView) -> bool:
    """A default decided: what else would allow the call did not cover it, or was not in use."""
    return (view.rule or "").startswith(_UNCOVERED)


def _grant(view: CallView) -> Grant | None:
    if not (view.granted and view.plan_id and view.revision and view.subtask_id):
        return None
    if _is_uncovered(view):
        return None
    return Grant(
        grant_id="", plan_id=view.plan_id, revision=view.revision, subtask_id=view.subtask_id,
        scope=Scope.model_validate(view.scope or {}),
    )  # fmt: skip


def _told(
    judged: int, changed: list[Changed], left_out: Counter[str], locale: str | None, *, json: bool
) -> Exit:
    moves = Counter((str(each.call.decision), str(each.now.decision)) for each in changed)
    if json:
        return facts(
            {
                "judged": judged - left_out.total(),
                "changed": [_shown(each) for each in changed],
                "counts": {" → ".join(move): count for move, count in moves.items()},
                "not_judged": {say(why, "en"): count for why, count in left_out.items()},
            }
        )
    rows = [
        (c.call.session_id, c.call.call_id, _what(c.call),
         word("decision", c.call.decision or "-"), word("decision", c.now.decision),
         "  ".join([c.now.rule, *c.where]))
        for c in changed
    ]  # fmt: skip
    table(("session", "call", "what", "was", "would be", "by"), rows)
    for move, count in moves.items():
        line(f"{' → '.join(term('decision', each, locale) for each in move)}: {count}")
    for why, count in left_out.items():
        line(f"{say(why, locale)}: {count}")
    line(say("cli_replay_limits", locale, judged=judged - left_out.total()))
    return Exit.DONE


def _shown(each: Changed) -> dict[str, Any]:
    return {
        "call": plain(each.call), "would_be": each.now.decision, "rule": each.now.rule,
        "reason": each.now.reason, "where": list(each.where),
    }  # fmt: skip


def _what(view: CallView) -> str:
    named = (view.arguments.get(name) for name in ("command", "path", "source"))
    return f"{view.tool_name} {next((text for text in named if text), '')}"
