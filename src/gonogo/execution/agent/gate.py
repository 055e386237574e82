"""The gate: finds out what a call would touch, and whether it may run, must ask, or must not."""

import glob
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from gonogo.domain.errors import (
    InvalidArguments,
    InvalidMessage,
    RateLimited,
    ToolFailed,
    because,
    together,
)
from gonogo.domain.identity import Principal
from gonogo.domain.paths import is_secret
from gonogo.domain.plan import Scope
from gonogo.domain.records import CallRow, SessionRule
from gonogo.domain.reviews import deed_of
from gonogo.domain.text_safety import mark_blanks, visible
from gonogo.domain.tool_calls import (
    Access,
    Call,
    FileEffect,
    Grant,
    ToolClass,
    ToolHistory,
    ToolSchema,
    Verdict,
    server_of,
)
from gonogo.execution.agent.conversation import Thread
from gonogo.execution.agent.profiles import Profile
from gonogo.i18n import say, told, told_of
from gonogo.policy import (
    ALWAYS_ASK,
    UNATTENDED,
    Conditions,
    Reviews,
    Rule,
    Rules,
    RuleText,
    VerdictStage,
    VerdictTrace,
    explain,
    kept_rule,
    narrowest,
    programs_of,
    session_rule,
)
from gonogo.store import Store, Tx, new_id
from gonogo.store import events as log
from gonogo.store.calls import Begun, perhaps_done
from gonogo.store.plans import active_grant
from gonogo.store.sessions import active_rules, add_rule, end_rule, next_rule
from gonogo.tools import READ_OUTPUT, Arguments, ServerPool, Tool, difference
from gonogo.workspace import Guarded, Guards, Programs, Sandbox, Workspace

# What a command finds in its workspace, looked up before it is judged.
#
# These are the programs that it names, and the files that it must not change. A program is looked
# up once: the one that was found is judged, shown and run.

_MOST_SHOWN = 20
"""Folders that a question names one by one."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """What one command would meet in its workspace."""

    guarded: Guarded
    programs: Mapping[str, str] = field(default_factory=dict[str, str])
    """The full paths of the programs that it names, as far as there are such."""
    own: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of these, the programs in the workspace, with their paths in it."""

    def seen_in(self, access: Access, *, boxed: bool) -> Access:
        """What a call touches, including what a person has to see of the surroundings.

        Args:
            boxed: It would run in a sandbox, which has to guard names that must not change.
        """
        missed = sorted(self.guarded.missed) if boxed else []
        more = [f"… {len(missed) - _MOST_SHOWN} more"] if len(missed) > _MOST_SHOWN else []
        shown = (*missed[:_MOST_SHOWN], *more)
        own = tuple(dict.fromkeys(self.own.values()))
        return access.model_copy(update={"own_programs": own, "unlooked": shown})

    def preview(self, text: str) -> str:
        """The command as a person sees it, with the names of the workspace's programs."""
        own = ", ".join(dict.fromkeys(self.own.values()))
        return f"# programs of the workspace itself: {own}\n{text}" if own else text


def look_around(command: str, workspace: Path, programs: Programs, guards: Guards) -> Surroundings:
    """Find out what a command would meet. Reads the disk.

    Raises:
        ToolFailed: `io_error`, where the workspace cannot be read.
    """
    found: dict[str, str] = {}
    own: dict[str, str] = {}
    for name, only_reads in programs_of(command).items():
        machine = programs.of_machine(name, workspace)
        ours = programs.of_workspace(name, workspace)
        # A command counts as only reading because of the manual of the machine's program.
        if ours is not None and not (only_reads and machine is not None):
            own[name] = _within(ours, workspace)
        if (path := ours if name in own else machine) is not None:
            found[name] = path
    return Surroundings(guarded=guards.look(workspace), programs=found, own=own)


def _within(path: str, workspace: Path) -> str:
    """A path relative to the workspace, even if a link from elsewhere leads into that."""
    place = path if path.startswith(f"{workspace}/") else os.path.realpath(path)
    return os.path.relpath(place, workspace)


# Tools of foreign servers in the hands of agents: who has which, and what models are told.

PROPOSE = "create_plan"
_SHOWN, _MOST = 200, 100
"""Characters of a description that planners get, and how many tools they get."""


def allowed_tools(gate: "Gate", thread: Thread) -> tuple[str, ...]:
    """The tools that the agent of a conversation may call, as far as they are known."""
    own = _own_tools(gate, thread)
    if gate.servers is None:
        return tuple(name for name in own if name in gate.tools)
    if thread.remote:
        # The client that carries out the calls of such a session does not have our servers.
        return tuple(name for name in own if name in gate.tools and server_of(name) is None)
    lent = gate.servers.lent(thread.agent) if thread.profile is None else ()
    known = (name for name in own if name in gate.tools or name in gate.servers)
    return tuple(dict.fromkeys((*known, *lent)))


def _own_tools(gate: "Gate", thread: Thread) -> tuple[str, ...]:
    """The tools that its profile names and that work here, and one to read results again."""
    named = tuple(name for name in gate.profile(thread).tools if not _is_away(gate, thread, name))
    known = (gate.tools[name] for name in named if name in gate.tools)
    if all(tool.tool_class is ToolClass.CONTROL for tool in known) or READ_OUTPUT in named:
        return named
    return (*named, READ_OUTPUT)


def _is_away(gate: "Gate", thread: Thread, name: str) -> bool:
    """Whether a tool needs a workspace that is on another machine."""
    return thread.remote and name in gate.tools and gate.tools[name].here


def may_call(gate: "Gate", thread: Thread, name: str) -> bool:
    """Whether an agent may call a tool; for a tool not seen yet, its server's setting decides."""
    if name in allowed_tools(gate, thread):
        return True
    if gate.servers is None or thread.remote or thread.profile is not None:
        return False
    return gate.servers.lends(name, thread.agent)


async def offered_schemas(gate: "Gate", thread: Thread) -> tuple[ToolSchema, ...]:
    """The schemas of the tools that a model may call; this starts the servers that have some."""
    own = _own_tools(gate, thread)
    ours = [gate.tools[n].schema() for n in own if n in gate.tools and server_of(n) is None]
    if gate.servers is None or thread.remote:
        return _sorted(ours)
    named = {server_of(name) for name in own}
    listed = await gate.servers.offered(
        lambda config: (
            PROPOSE in own
            or config.name in named
            or (thread.profile is None and thread.agent in config.agents)
        )
    )
    allowed = set(allowed_tools(gate, thread))
    theirs = [gate.tools[name].schema() for name in listed if name in allowed]
    if PROPOSE in own and listed:
        ours = [_with_tools(gate, schema, listed) for schema in ours]
    return _sorted([*ours, *theirs])


def _sorted(schemas: Iterable[ToolSchema]) -> tuple[ToolSchema, ...]:
    """The schemas in an order that does not depend on who brought them, and when."""
    return tuple(sorted(schemas, key=lambda schema: schema.name))


def change_of(name: str, standing: ToolHistory) -> str:
    """What has changed since the tool was accepted, as text; empty if nothing has."""
    if standing.accepted:
        return ""
    what = " and ".join(standing.changed)
    return because("{name} has changed since it was accepted: its {what}", name=name, what=what)


def _with_tools(gate: "Gate", schema: ToolSchema, listed: tuple[str, ...]) -> ToolSchema:
    """The schema for proposing plans, with the tools of servers that subtasks may use."""
    if schema.name != PROPOSE:
        return schema
    assert gate.servers is not None  # noqa: S101 - somebody listed them
    told = [schema.description, _ABOUT]
    for name in listed[:_MOST]:
        agents = ", ".join(gate.servers.borrowers(name))
        line = " ".join(gate.tools[name].description.split())[:_SHOWN]
        told.append(f"- `{name}` (agents: {agents}): {visible(line)}")
    return schema.model_copy(update={"description": "\n".join(told)})


_ABOUT = """
There are tools of other servers too. A subtask uses one without asking a person each time only if
its `scope.tools` names it; it can also be a subtask's `tool`. What servers say of their tools:"""


# The rules of a session: made by its owner, obeyed by the gate, written in the audit log.

_MOST_RULES = 256


def rules_of(tx: Tx, session_id: str, plan_id: str | None) -> list[tuple[Rule, datetime]]:
    """The rules that hold in a session now, or in a plan of it, and when each was made."""
    found = [r for r in active_rules(tx, session_id) if r.plan_id in {None, plan_id}]
    kept = ((kept_rule(r.position, r.rule, r.made_by), r.created_at) for r in found)
    return [(rule, made_at) for rule, made_at in kept if rule is not None]


def make_session_rule(
    tx: Tx,
    session_id: str,
    text: RuleText,
    by: Principal,
    plan_id: str | None = None,
    **about: Any,  # noqa: ANN401 - JSON values
) -> SessionRule:
    """Make a rule that holds in a session from now on.

    Args:
        plan_id: The only plan in which it holds; None: it holds in the whole session.
        about: What else the audit log says about it.

    Raises:
        InvalidMessage: the rule has a defect.
        RateLimited: the session has too many rules.
    """
    if len(active_rules(tx, session_id)) >= _MOST_RULES:
        raise RateLimited(
            "A session can have at most {most} rules; remove some of them first", most=_MOST_RULES
        )
    position = next_rule(tx, session_id)
    checked = session_rule(position, text, by.name)
    if isinstance(checked, str):
        raise InvalidMessage("rule: {checked}", checked=checked)
    written = text.model_dump(mode="json", exclude_defaults=True)
    made = SessionRule(
        id=new_id("rule"), session_id=session_id, position=position, rule=written,
        made_by=by.name, created_at=tx.now, ended_at=None, plan_id=plan_id,
    )  # fmt: skip
    add_rule(tx, made)
    log.note(
        tx, session_id, actor=by.id, action="rule.made", subject=checked.name,
        rule_id=made.id, text=written, reason=checked.reason, plan_id=plan_id, **about,
    )  # fmt: skip
    return made


def remove_session_rule(tx: Tx, rule: SessionRule, by: Principal) -> None:
    """End a rule; gonogo asks again about what it allowed."""
    if end_rule(tx, rule.id):
        log.note(
            tx, rule.session_id, actor=by.id, action="rule.removed",
            subject=f"session:{rule.position}", rule_id=rule.id, text=rule.rule,
        )  # fmt: skip


# What people gave a conversation besides the operator's rules: the session's, and a grant.


class ConversationGrants(Struct, frozen=True, kw_only=True):
    """What holds in one conversation, read at one moment."""

    rules: tuple[Rule, ...] = ()
    """The session's rules."""
    grant: Grant | None = None
    """What the approved plan allows the subtask."""
    since: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """When each of them was given, by its name."""
    perhaps_done: Sequence[Begun] = ()
    """Calls of the plan that must not simply run again."""

    def is_perhaps_done(self, call: Call) -> bool:
        """Whether the same call has begun before, and only a person can know its outcome."""
        return any(
            (begun.tool, begun.arguments) == (call.tool, call.arguments)
            for begun in self.perhaps_done
        )

    def still(self, standing: ToolHistory) -> "ConversationGrants":
        """The grants that cover a foreign tool as it is now, and all rules that deny or ask."""
        covers = {name for name, at in self.since.items() if standing.covers(at)}
        kept = (r for r in self.rules if r.text.decision != "allow" or r.name in covers)
        grant = self.grant if self.grant is not None and self.grant.name in covers else None
        return replace(self, rules=tuple(kept), grant=grant)


Giving = Callable[[Thread], Awaitable[ConversationGrants]]


async def nothing_given(thread: Thread) -> ConversationGrants:
    """No grants: for a call that belongs to no session and no plan."""
    del thread
    return ConversationGrants()


def given_in(store: Store) -> Giving:
    """Make a function that reads what people have given, as it is now."""

    async def given(thread: Thread) -> ConversationGrants:
        return await store.read(given_to, thread)

    return given


def given_to(tx: Tx, thread: Thread) -> ConversationGrants:
    """What people have given a conversation."""
    rules = rules_of(tx, thread.session_id, thread.plan_id)
    grant, granted_at = _grant(tx, thread)
    since = {rule.name: made_at for rule, made_at in rules}
    if grant is not None and granted_at is not None:
        since[grant.name] = granted_at
    begun = perhaps_done(tx, thread.plan_id) if thread.plan_id is not None else ()
    return ConversationGrants(
        rules=tuple(rule for rule, _ in rules), grant=grant, since=since, perhaps_done=begun
    )


def _grant(tx: Tx, thread: Thread) -> tuple[Grant | None, datetime | None]:
    if thread.plan_id is None or thread.subtask_id is None or thread.revision is None:
        return None, None
    row = active_grant(tx, thread.plan_id, thread.revision, thread.subtask_id)
    if row is None:
        return None, None
    grant = Grant(
        grant_id=row.id, plan_id=row.plan_id, revision=row.revision, subtask_id=row.subtask_id,
        scope=Scope.model_validate(row.scope or {}), words=thread.words,
    )  # fmt: skip
    return grant, row.created_at


_BEGUN_BEFORE = because(
    "the same call has begun before in this plan, and only a person can say whether it is done"
)


class Gated(Struct, frozen=True, kw_only=True):
    """A tool call as it would run, and the gate's verdict."""

    tool: str
    tool_class: ToolClass
    arguments: dict[str, Any]
    verdict: Verdict
    digest: str
    base_hashes: dict[str, str | None]
    effects: tuple[FileEffect, ...] = ()
    preview: str = ""
    error: str | None = None
    """What the model is told when the call is denied."""
    trace: VerdictTrace = field(default_factory=VerdictTrace)
    """How the verdict was reached."""
    access: Access = field(default_factory=Access)
    """What the call touches."""
    rules: Rules | None = None
    """The rules that held for it; None: it was refused before any rule was checked."""
    around: Surroundings | None = None
    """What a command would meet here."""
    words: str | None = None
    """The beginning of the command that a person may also allow for the whole plan."""
    parsed: Arguments | None = None
    """The arguments as the tool's body takes them."""


class _Ready(Struct, frozen=True):
    """A call with what it would do, before it is judged."""

    call: Call
    parsed: Arguments
    effects: tuple[FileEffect, ...] = ()
    preview: str = ""
    around: Surroundings | None = None


class Gate(Struct, frozen=True, kw_only=True):
    """Judges tool calls; changes nothing."""

    tools: Mapping[str, Tool]
    profiles: Mapping[str, Profile]
    rules: Rules
    sandbox: Sandbox | None
    home: Path
    attended: bool
    """Somebody can be asked, unless a session says otherwise."""
    repo_trusted: bool
    given: Giving
    """Reads what people have given a conversation."""
    reviews: Reviews
    servers: ServerPool | None
    """The servers that bring more tools."""
    programs: Programs
    """Where commands find their programs."""
    readers: bool
    """Commands that only read run without a question if the sandbox keeps them from writing."""
    guards: Guards = field(default_factory=Guards)
    """What commands must not change."""

    async def judge(
        self,
        thread: Thread,
        name: str,
        arguments: dict[str, Any] | None,
        problem: str | None = None,
        given: ConversationGrants | None = None,
    ) -> Gated:
        """Judge one call on the arguments that would run now.

        Args:
            given: The grants, if they were just read; None: they are read here.
        """
        if not may_call(self, thread, name):
            tools = ", ".join(allowed_tools(self, thread))
            text = say("model_unknown_tool", thread.locale, tool=name, tools=tools)
            return _refused(name, arguments, f"unknown_tool: {text}", "builtin:unknown-tool")
        if arguments is None:
            text = say("model_bad_arguments", thread.locale, problem=problem or "not an object")
            return _refused(name, {}, f"invalid_arguments: {text}", "builtin:arguments")
        try:
            tool, standing = await self._found(name)
            # Asking a server may take long, and people may revoke grants meanwhile.
            if given is None or standing is not None:
                given = await self.given(thread)
            judge = partial(self.verdict, thread, tool, arguments, standing, given)
            return await anyio.to_thread.run_sync(judge)
        except InvalidArguments as error:
            text = say(
                "model_bad_arguments", thread.locale, problem=told(error.said, thread.locale)
            )
            return _refused(name, arguments, f"invalid_arguments: {text}", "builtin:arguments")
        except ToolFailed as error:
            return _refused(name, arguments, told_of(error, thread.locale), f"builtin:{error.kind}")

    def given_up(self, thread: Thread, call: CallRow) -> Gated:
        """The verdict on a call that cannot be judged."""
        error = f"internal: {say('model_given_up', thread.locale)}"
        return _refused(call.tool, call.arguments, error, "builtin:given-up")

    async def _found(self, name: str) -> tuple[Tool, ToolHistory | None]:
        """A tool; one of a server as that lists it at this moment."""
        if self.servers is None or server_of(name) is None:
            return self.tools[name], None
        return await self.servers.look(name)

    async def narrowest(
        self, thread: Thread, name: str, arguments: dict[str, Any]
    ) -> RuleText | str:
        """The rule that would allow just this call in the session, or why none would."""
        given = await self.given(thread)
        narrow = partial(self._narrowest, thread, self.tools[name], arguments, given)
        return await anyio.to_thread.run_sync(narrow)

    async def with_words(self, thread: Thread, gated: Gated) -> Gated:
        """Add to a call, before a person is asked about it, the words to allow for its plan."""
        if thread.plan_id is None or gated.access.command is None:
            return gated
        found = await self.narrowest(thread, gated.tool, gated.arguments)
        return gated if isinstance(found, str) else replace(gated, words=found.command)

    # In a worker thread: arguments may be large, names are looked up on the disk, and a patch may
    # change very many files.

    def verdict(
        self,
        thread: Thread,
        tool: Tool,
        arguments: dict[str, Any],
        standing: ToolHistory | None,
        given: ConversationGrants,
    ) -> Gated:
        """Judge a call; raises `InvalidArguments` or `ToolFailed` if that is not possible."""
        ready = self._prepared(thread, tool, arguments)
        if standing is not None:
            ready, given = _as_it_is(ready, standing), given.still(standing)
        call, rules = ready.call, self.rules_for(ready.call, given.rules)
        grant = None if self._is_unforeseen(call) else self._held(thread, given.grant)
        changed = "" if standing is None else change_of(tool.name, standing)
        found, trace = self._explained(thread, ready, rules, grant, changed)
        # A call that changes nothing may always run again.
        if found.decision == "allow" and not found.read_only and given.is_perhaps_done(call):
            found = self._asked_first(trace, attended=self._is_attended(thread))
        found = found.model_copy(
            update={"reason": told(found.reason, thread.locale), "definition": call.definition}
        )
        reason = say("model_denied", thread.locale, reason=found.reason)
        return Gated(
            tool=tool.name, tool_class=ToolClass.PURE if found.read_only else tool.tool_class,
            arguments=call.arguments, verdict=found,
            digest=call.digest(rules.version), base_hashes=call.base_hashes,
            effects=ready.effects, preview=mark_blanks(visible(ready.preview)),
            error=f"{_refusal(found)}: {reason}" if found.decision == "deny" else None,
            trace=trace, access=call.access, rules=rules, around=ready.around, parsed=ready.parsed,
        )  # fmt: skip

    def _narrowest(
        self, thread: Thread, tool: Tool, arguments: dict[str, Any], given: ConversationGrants
    ) -> RuleText | str:
        try:
            ready = self._prepared(thread, tool, arguments)
        except (InvalidArguments, ToolFailed) as error:
            return error.said
        call = ready.call
        text = narrowest(call, ALWAYS_ASK)
        rule = text if isinstance(text, str) else session_rule(0, text, "")
        if isinstance(text, str) or isinstance(rule, str):
            return str(rule)
        rules = self.rules_for(call, (*given.rules, rule))
        found, _ = self._explained(thread, ready, rules, None)
        return text if found.decision == "allow" else f"no rule is enough: {found.reason}"

    def _prepared(self, thread: Thread, tool: Tool, arguments: dict[str, Any]) -> _Ready:
        parsed = tool.parse(arguments)
        named: dict[str, Any] = {
            "tool": tool.name, "tool_class": tool.tool_class, "agent": thread.agent,
            "plan_id": thread.plan_id, "revision": thread.revision,
            "subtask_id": thread.subtask_id,
        }  # fmt: skip
        if thread.remote and tool.tool_class is not ToolClass.CONTROL:
            call = Call(arguments=arguments, access=tool.touches(arguments), **named)
            return _Ready(call, parsed)
        workspace = Workspace(thread.workspace)
        prepared = tool.prepare(workspace, parsed)
        call = Call(
            arguments=prepared.arguments, access=prepared.access,
            base_hashes=prepared.base_hashes, **named,
        )  # fmt: skip
        if call.arguments != arguments:
            parsed = tool.parse(call.arguments)
        if call.access.command is None:
            return _Ready(call, parsed, prepared.effects, prepared.preview)
        around = look_around(call.access.command, workspace.root, self.programs, self.guards)
        access = around.seen_in(call.access, boxed=self.sandbox is not None)
        call = call.model_copy(update={"access": access})
        return _Ready(call, parsed, prepared.effects, around.preview(prepared.preview), around)

    def _explained(
        self, thread: Thread, ready: _Ready, rules: Rules, grant: Grant | None, changed: str = ""
    ) -> tuple[Verdict, VerdictTrace]:
        call, conditions = ready.call, self._conditions(thread, ready.call)
        if ready.around is not None:
            conditions = replace(conditions, own_programs=ready.around.own)
        if changed:
            conditions, rules = replace(conditions, changed=changed), rules.strict()
        return explain(call, rules, conditions, grant)

    def _asked_first(self, trace: VerdictTrace, *, attended: bool) -> Verdict:
        """The verdict on a call that has begun before with an unknown outcome."""
        rule = "builtin:begun-before"
        trace.enter(VerdictStage.DEFAULT).take(rule)
        if attended:
            return Verdict(decision="ask", reason=_BEGUN_BEFORE, rule=rule)
        reason = together((_BEGUN_BEFORE, UNATTENDED))
        return Verdict(decision="deny", reason=reason, rule=rule)

    def _is_attended(self, thread: Thread) -> bool:
        """Whether somebody can be asked, here and in the conversation's session."""
        return self.attended and thread.attended

    def _conditions(self, thread: Thread, call: Call) -> Conditions:
        return Conditions(
            attended=self._is_attended(thread),
            repo_trusted=self.repo_trusted,
            sandboxed=self.sandbox is not None,
            workspace=str(thread.workspace),
            home=str(self.home),
            auto_approve=thread.auto_approve,
            max_write_globs=self.profile(thread).limits,
            readers=self._holds_readers(thread, call),
            writes_barred=self.bars_writes(thread),
            **_on_disk(thread, call),
        )

    def rules_for(self, call: Call, own: Sequence[Rule]) -> Rules:
        """The rules that hold for a call.

        Args:
            own: The rules of its session. They allow nothing that a rule of review covers:
                otherwise one person could do without the others.
        """
        if own and self._is_reviewed(call):
            own = [rule for rule in own if rule.text.decision != "allow"]
        return self.rules.with_session(own)

    def _is_reviewed(self, call: Call) -> bool:
        """Whether rules of review cover a call."""
        return _speaks_of(self.reviews, call)

    def _is_unforeseen(self, call: Call) -> bool:
        """Whether rules of review cover a call because of something that its plan did not show.

        A plan declares how a command begins; what it would touch shows only when it is called.
        """
        return call.access.command is not None and _speaks_of(self.reviews.of_places, call)

    def profile(self, thread: Thread) -> Profile:
        """What the agent of a conversation may use, and where it may write."""
        return thread.profile or self.profiles[thread.agent]

    def bars_writes(self, thread: Thread) -> bool:
        """Whether the agent may write nothing, and the sandbox enforces that for its commands."""
        return self.sandbox is not None and self.profile(thread).may_write == ()

    def writes_nothing(self, thread: Thread, found: Verdict, *, asked: bool) -> bool:
        """Whether the sandbox ensures that a call writes nothing in the workspace.

        Args:
            asked: A person saw the call as it was written.
        """
        return not asked and (found.read_only or self.bars_writes(thread))

    def _held(self, thread: Thread, grant: Grant | None) -> Grant | None:
        """The grant; it allows a check's command only if a sandbox keeps that from writing."""
        if grant is None or grant.words is None or (self.sandbox and not thread.remote):
            return grant
        return grant.model_copy(update={"words": None})

    def _holds_readers(self, thread: Thread, call: Call) -> bool:
        """Whether the sandbox keeps a command that only reads from doing anything else.

        What rules of review cover is left to the people whom they name.
        """
        held = self.readers and self.sandbox is not None and not thread.remote
        return held and call.access.command is not None and not self._is_reviewed(call)


def _speaks_of(reviews: Reviews, call: Call) -> bool:
    return reviews.of("tool", (deed_of(call.agent, call.tool, call.access),)) is not None


def _on_disk(thread: Thread, call: Call) -> dict[str, Any]:
    """Functions that look up a command's names on the disk; other calls name what they touch."""
    if thread.remote or call.access.command is None:
        return {}
    return {
        "outside": partial(leads_out, Workspace(thread.workspace)),
        "matching": partial(glob.iglob, root_dir=thread.workspace),
    }


def leads_out(workspace: Workspace, path: str) -> bool:
    """Whether a path leads out of a workspace, to a secret, or to neither a file nor a folder."""
    try:
        real = workspace.real(path)
        found = workspace.stat(real)
    except ToolFailed:
        return True
    # If the path itself is the name of a secret, gonogo asks about it anyway.
    if is_secret(real) and not is_secret(path):
        return True
    return found is not None and found.kind not in {"file", "folder"}


def _as_it_is(ready: _Ready, standing: ToolHistory) -> _Ready:
    """A call of a server's tool, with the tool's present definition in its digest and preview."""
    call = ready.call.model_copy(update={"definition": standing.now.digest})
    shown = ready.preview if standing.accepted else f"{difference(standing)}\n\n{ready.preview}"
    return replace(ready, call=call, preview=shown)


def _refusal(found: Verdict) -> str:
    """The error code of a denied call."""
    return "too_many_files" if found.rule == "builtin:too-many-files" else "policy_denied"


def _refused(name: str, arguments: dict[str, Any] | None, error: str, rule: str) -> Gated:
    kept = arguments or {}
    call = Call(tool=name, tool_class=ToolClass.OTHER, agent="", arguments=kept, access=Access())
    trace = VerdictTrace()
    trace.enter(VerdictStage.DENY_BUILT_IN).take(rule)
    return Gated(
        tool=name, tool_class=ToolClass.OTHER, arguments=kept, digest=call.digest(""),
        verdict=Verdict(decision="deny", reason=error, rule=rule), base_hashes={}, error=error,
        trace=trace,
    )  # fmt: skip
