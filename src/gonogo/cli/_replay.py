"""`gonogo policy replay` and `policy suggest`: other rules, tried on what was judged before."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gonogo.cli._analytics import moment
from gonogo.cli._exits import Exit
from gonogo.cli._owner import connected
from gonogo.cli._print import facts, line, plain, table
from gonogo.cli._seen import at, known_tools, seen_by
from gonogo.cli._setup import read_settings
from gonogo.client import Client
from gonogo.domain.errors import ToolFailed
from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, Standing, ToolClass, Verdict, server_of
from gonogo.domain.views import CallView
from gonogo.execution.agent import Profile, load_profiles, remote_access
from gonogo.policy import (
    UNATTENDED,
    Answered,
    Conditions,
    Rules,
    as_toml,
    load_rules,
    suggest,
    verdict,
)
from gonogo.settings import Settings
from gonogo.texts import LOCALES, say, told
from gonogo.workspace import Sandbox

_PAGE = 500
_ELSEWHERE = ("builtin:outside", "builtin:arguments", "builtin:unknown-tool", "builtin:file_")
"""What decided by the disk, or by what the agent wrote, before any rule was asked."""
_SERVERS = ("builtin:server_", "builtin:unknown_tool")
"""What decided because a server was not there, or not with that tool."""
_NOBODY = tuple(told(UNATTENDED, locale) for locale in LOCALES)
"""How the reason of a denial ends that was a question, had there been somebody to ask."""
_UNCOVERED = ("default:", "builtin:changed-tool")


@dataclass(frozen=True, slots=True)
class Changed:
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
    return _told(len(calls), changed, left_out, settings.locale, json=json)


async def suggestions(session: str | None, least: int, *, json: bool) -> Exit:
    """Print rules that would have spared questions; nothing is saved."""
    settings = read_settings()
    answered = [
        Answered(call, view.answer == "approved")
        for view in (await _calls(session, None))[0]
        if view.answer in {"approved", "rejected"} and (call := _call(view)) is not None
    ]
    found = suggest(answered, least)
    if json:
        return facts([rule.model_dump(mode="json", exclude_defaults=True) for rule in found])
    key = "cli_suggested" if found else "cli_nothing_suggested"
    header = say(key, settings.locale, least=least)
    line(as_toml(found, header).rstrip("\n"))
    return Exit.DONE


class Judge:
    """Judges recorded calls by other rules."""

    def __init__(self, settings: Settings, rules: Rules, seen: Mapping[str, Standing]) -> None:
        """Take the rules, and what was seen of the tools of servers."""
        self._settings, self._rules, self._seen = settings, rules, seen
        self._profiles: Mapping[str, Profile] = load_profiles(
            settings.agents, known_tools=known_tools()
        )
        self._sandboxed = settings.sandbox and Sandbox.detect() is not None

    def again(self, view: CallView) -> Verdict | str:
        """The verdict under the other rules, or why there is none."""
        rule, call = view.rule or "", _call(view)
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
        return f"{view.tool_name} had changed since it was accepted"

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
) -> tuple[list[CallView], Mapping[str, Standing]]:
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


def _call(view: CallView) -> Call | None:
    """The call as far as its arguments tell; links and the kinds of files are not looked at."""
    try:
        is_ours = server_of(view.tool_name) is None
        access = remote_access(view.tool_name, view.arguments) if is_ours else Access()
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
    known = view.plan_id and view.revision and view.subtask_id
    if not (view.granted and known) or _is_uncovered(view):
        return None
    return Grant(
        grant_id="", plan_id=view.plan_id or "", revision=view.revision or 0,
        subtask_id=view.subtask_id or "", scope=Scope.model_validate(view.scope or {}),
    )  # fmt: skip


def _told(
    judged: int, changed: list[Changed], left_out: Counter[str], locale: str | None, *, json: bool
) -> Exit:
    moves = Counter(f"{each.call.decision} → {each.now.decision}" for each in changed)
    if json:
        return facts(
            {
                "judged": judged - left_out.total(),
                "changed": [_shown(each) for each in changed],
                "counts": dict(moves),
                "not_judged": {say(why, "en"): count for why, count in left_out.items()},
            }
        )
    rows = [
        (c.call.session_id, c.call.call_id, _what(c.call), c.call.decision, c.now.decision,
         "  ".join([c.now.rule, *c.where]))
        for c in changed
    ]  # fmt: skip
    table(("session", "call", "what", "was", "would be", "by"), rows)
    for move, count in moves.items():
        line(f"{move}: {count}")
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
