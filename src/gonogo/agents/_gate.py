"""The gate: what a call would touch, and whether it may, must ask, or must not."""

import glob
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from gonogo.agents._foreign import allowed_tools, change_of, may_call
from gonogo.agents._given import Given, Giving, nothing_given
from gonogo.agents._profiles import Profile
from gonogo.agents._remote import remote_access
from gonogo.agents._thread import Thread
from gonogo.agents.surroundings import Surroundings, look_around
from gonogo.domain.errors import InvalidArguments, ToolFailed, because, together
from gonogo.domain.paths import is_secret
from gonogo.domain.records import CallRow
from gonogo.domain.text_safety import mark_blanks, visible
from gonogo.domain.tool_calls import (
    Access,
    Call,
    FileEffect,
    Grant,
    Standing,
    ToolClass,
    Verdict,
    server_of,
)
from gonogo.policy import (
    ALWAYS_ASK,
    UNATTENDED,
    Conditions,
    Rule,
    Rules,
    RuleText,
    Stage,
    Trace,
    explain,
    narrowest,
    session_rule,
)
from gonogo.texts import say, told
from gonogo.tools import Servers, Tool, difference
from gonogo.workspace import Guards, Programs, Sandbox, Workspace

_BEGUN_BEFORE = because(
    "the same call has begun before in this plan, and only a person can say whether it is done"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
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
    trace: Trace = field(default_factory=Trace)
    """What the verdict was made of."""
    access: Access = field(default_factory=Access)
    """What the call touches."""
    rules: Rules | None = None
    """The rules that held for it; None: it was refused before any was looked at."""
    around: Surroundings | None = None
    """What a command would meet here."""
    words: str | None = None
    """The words that a person may allow the plan too, where they are asked about them."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A call with what it would do, before it is judged."""

    call: Call
    effects: tuple[FileEffect, ...] = ()
    preview: str = ""
    around: Surroundings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Judges tool calls; changes nothing."""

    tools: Mapping[str, Tool]
    profiles: Mapping[str, Profile]
    rules: Rules
    sandbox: Sandbox | None
    home: Path
    attended: bool = True
    repo_trusted: bool = True
    open_workspace: Callable[[Path], Workspace] = Workspace
    given: Giving = nothing_given
    """Reads what people have given a conversation."""
    reviewed: Callable[[Call], object] = lambda call: None
    """Whether rules of review speak of a call."""
    unforeseen: Callable[[Call], bool] = lambda call: False
    """Whether rules of review speak of a call for what no plan that allows it has shown."""
    servers: Servers | None = None
    """Who brings tools besides."""
    programs: Programs = field(default_factory=Programs)
    """Where commands find theirs."""
    guards: Guards = field(default_factory=Guards)
    """What commands must not change."""
    readers: bool = False
    """Commands that only read run without a question where the sandbox holds them to it."""

    async def judge(
        self,
        thread: Thread,
        name: str,
        arguments: dict[str, Any] | None,
        problem: str | None = None,
    ) -> Gated:
        """Judge one call on the arguments that would run now."""
        if not may_call(self, thread, name):
            tools = ", ".join(allowed_tools(self, thread))
            text = say("model_unknown_tool", thread.locale, tool=name, tools=tools)
            return _refused(name, arguments, f"unknown_tool: {text}", "builtin:unknown-tool")
        if arguments is None:
            text = say("model_bad_arguments", thread.locale, problem=problem or "not an object")
            return _refused(name, {}, f"invalid_arguments: {text}", "builtin:arguments")
        try:
            tool, standing = await self._found(name)
            return await self._judged(thread, tool, arguments, standing)
        except InvalidArguments as error:
            text = say("model_bad_arguments", thread.locale, problem=str(error))
            return _refused(name, arguments, f"invalid_arguments: {text}", "builtin:arguments")
        except ToolFailed as error:
            return _refused(name, arguments, f"{error.kind}: {error}", f"builtin:{error.kind}")

    def given_up(self, thread: Thread, call: CallRow) -> Gated:
        """The verdict on a call that cannot be judged."""
        error = f"internal: {say('model_given_up', thread.locale)}"
        return _refused(call.tool, call.arguments, error, "builtin:given-up")

    async def _found(self, name: str) -> tuple[Tool, Standing | None]:
        """A tool; a server's as that lists it at this moment."""
        if self.servers is None or server_of(name) is None:
            return self.tools[name], None
        return await self.servers.look(name)

    async def narrowest(
        self, thread: Thread, name: str, arguments: dict[str, Any]
    ) -> RuleText | str:
        """The rule that would allow just this call in the session, or why none would."""
        try:
            ready = await self._prepared(thread, self.tools[name], arguments)
        except (InvalidArguments, ToolFailed) as error:
            return str(error)
        return await self._narrowest(thread, ready, await self.given(thread))

    async def _narrowest(self, thread: Thread, ready: _Ready, given: Given) -> RuleText | str:
        call = ready.call
        text = narrowest(call, ALWAYS_ASK)
        rule = text if isinstance(text, str) else session_rule(0, text, "")
        if isinstance(text, str) or isinstance(rule, str):
            return str(rule)
        rules = self.rules_for(call, (*given.rules, rule))
        found, _ = await self._explained(thread, ready, rules, None)
        return text if found.decision == "allow" else f"no rule is enough: {found.reason}"

    async def _judged(
        self, thread: Thread, tool: Tool, arguments: dict[str, Any], standing: Standing | None
    ) -> Gated:
        ready = await self._prepared(thread, tool, arguments)
        given = await self.given(thread)
        if standing is not None:
            ready = await anyio.to_thread.run_sync(_as_it_is, ready, standing)
            given = given.still(standing)
        call, rules = ready.call, self.rules_for(ready.call, given.rules)
        grant = None if self.unforeseen(call) else given.grant
        changed = "" if standing is None else change_of(tool.name, standing)
        ready = replace(ready, call=call)
        found, trace = await self._explained(thread, ready, rules, grant, changed)
        if found.decision == "allow" and given.is_perhaps_done(call):
            found = self._asked_first(trace)
        found = found.model_copy(
            update={"reason": told(found.reason, thread.locale), "definition": call.definition}
        )
        words: RuleText | str = ""
        if found.decision == "ask" and thread.plan_id and call.access.command is not None:
            words = await self._narrowest(thread, ready, given)
        reason = say("model_denied", thread.locale, reason=found.reason)
        return Gated(
            tool=tool.name, tool_class=ToolClass.PURE if found.read_only else tool.tool_class,
            arguments=call.arguments, verdict=found,
            digest=call.digest(rules.version), base_hashes=call.base_hashes,
            effects=ready.effects, preview=mark_blanks(visible(ready.preview)),
            error=f"{_refusal(found)}: {reason}" if found.decision == "deny" else None,
            trace=trace, access=call.access, rules=rules, around=ready.around,
            words=None if isinstance(words, str) else words.command,
        )  # fmt: skip

    async def _prepared(self, thread: Thread, tool: Tool, arguments: dict[str, Any]) -> _Ready:
        parsed = await anyio.to_thread.run_sync(tool.parse, arguments)
        named: dict[str, Any] = {
            "tool": tool.name, "tool_class": tool.tool_class, "agent": thread.agent,
            "plan_id": thread.plan_id, "revision": thread.revision,
            "subtask_id": thread.subtask_id,
        }  # fmt: skip
        if thread.remote and tool.tool_class is not ToolClass.CONTROL:
            access = await anyio.to_thread.run_sync(remote_access, tool.name, arguments)
            return _Ready(Call(arguments=arguments, access=access, **named))
        workspace = self.open_workspace(thread.workspace)
        prepared = await anyio.to_thread.run_sync(tool.prepare, workspace, parsed)
        call = Call(
            arguments=prepared.arguments, access=prepared.access,
            base_hashes=prepared.base_hashes, **named,
        )  # fmt: skip
        if call.access.command is None:
            return _Ready(call, prepared.effects, prepared.preview)
        around = await anyio.to_thread.run_sync(
            look_around, call.access.command, workspace.root, self.programs, self.guards
        )
        access = around.seen_in(call.access, boxed=self.sandbox is not None)
        call = call.model_copy(update={"access": access})
        return _Ready(call, prepared.effects, around.preview(prepared.preview), around)

    async def _explained(
        self, thread: Thread, ready: _Ready, rules: Rules, grant: Grant | None, changed: str = ""
    ) -> tuple[Verdict, Trace]:
        call, conditions = ready.call, self._conditions(thread, ready.call)
        if ready.around is not None:
            conditions = replace(conditions, own_programs=ready.around.own)
        if changed:
            conditions, rules = replace(conditions, changed=changed), rules.strict()
        # What a command names is looked up on the disk, and a patch may be of very many files.
        judge = partial(explain, call, rules, conditions, grant)
        return await anyio.to_thread.run_sync(judge)

    def _asked_first(self, trace: Trace) -> Verdict:
        """The verdict on a call that has begun before with an unknown outcome."""
        rule = "builtin:begun-before"
        trace.enter(Stage.DEFAULT).take(rule)
        if self.attended:
            return Verdict(decision="ask", reason=_BEGUN_BEFORE, rule=rule)
        reason = together((_BEGUN_BEFORE, UNATTENDED))
        return Verdict(decision="deny", reason=reason, rule=rule)

    def _conditions(self, thread: Thread, call: Call) -> Conditions:
        return Conditions(
            attended=self.attended,
            repo_trusted=self.repo_trusted,
            sandboxed=self.sandbox is not None,
            workspace=str(thread.workspace),
            home=str(self.home),
            auto_approve=thread.auto_approve,
            max_write_globs=self.profile(thread).limits,
            readers=self._holds_readers(thread, call),
            writes_barred=self.bars_writes(thread),
            outside=self._outside(thread),
            matching=self._matching(thread),
        )

    def rules_for(self, call: Call, own: Sequence[Rule]) -> Rules:
        """The rules that hold for a call.

        Args:
            own: Those of its session. They allow nothing that a rule of review speaks of: else one
                person could do without the others.
        """
        if own and self.reviewed(call) is not None:
            own = [rule for rule in own if rule.text.decision != "allow"]
        return self.rules.with_session(own)

    def profile(self, thread: Thread) -> Profile:
        """What the agent of a conversation may use, and where it may write."""
        return thread.profile or self.profiles[thread.agent]

    def bars_writes(self, thread: Thread) -> bool:
        """Whether the agent writes nothing, and the sandbox sees to it for its commands."""
        return self.sandbox is not None and self.profile(thread).may_write == ()

    def writes_nothing(self, thread: Thread, found: Verdict, *, asked: bool) -> bool:
        """Whether the sandbox sees to it that a call writes nothing in the workspace.

        Args:
            asked: A person saw the call as it was written.
        """
        return not asked and (found.read_only or self.bars_writes(thread))

    def _holds_readers(self, thread: Thread, call: Call) -> bool:
        """Whether a command that only reads would run where it can do nothing else.

        What rules of review speak of is for those whom they name.
        """
        held = self.readers and self.sandbox is not None and not thread.remote
        return held and call.access.command is not None and self.reviewed(call) is None

    def _outside(self, thread: Thread) -> Callable[[str], bool]:
        """Whether a path that a command names leads out of the workspace, or is no file in it."""
        if thread.remote:
            return lambda path: False
        return partial(leads_out, self.open_workspace(thread.workspace))

    def _matching(self, thread: Thread) -> Callable[[str], Iterable[str]]:
        """What on the disk a pattern of a command matches."""
        if thread.remote:
            return lambda pattern: ()
        return lambda pattern: glob.iglob(pattern, root_dir=thread.workspace)


def leads_out(workspace: Workspace, path: str) -> bool:
    """Whether a path leads out of a workspace, to a secret, or to neither a file nor a folder."""
    try:
        real = workspace.real(path)
        found = workspace.stat(real)
    except ToolFailed:
        return True
    # By its own name a secret is asked about anyway, where the name is a file's.
    if is_secret(real) and not is_secret(path):
        return True
    return found is not None and found.kind not in {"file", "folder"}


def _as_it_is(ready: _Ready, standing: Standing) -> _Ready:
    """A call of a server's tool: what is shown and bound has what the server says of it."""
    call = ready.call.model_copy(update={"definition": standing.now.digest})
    shown = ready.preview if standing.accepted else f"{difference(standing)}\n\n{ready.preview}"
    return replace(ready, call=call, preview=shown)


def _refusal(found: Verdict) -> str:
    """The code of an error, for what would have asked and cannot."""
    return "too_many_files" if found.rule == "builtin:too-many-files" else "policy_denied"


def _refused(name: str, arguments: dict[str, Any] | None, error: str, rule: str) -> Gated:
    kept = arguments or {}
    call = Call(tool=name, tool_class=ToolClass.OTHER, agent="", arguments=kept, access=Access())
    trace = Trace()
    trace.enter(Stage.DENY_BUILT_IN).take(rule)
    return Gated(
        tool=name, tool_class=ToolClass.OTHER, arguments=kept, digest=call.digest(""),
        verdict=Verdict(decision="deny", reason=error, rule=rule), base_hashes={}, error=error,
        trace=trace,
    )  # fmt: skip
