"""Subtasks: the engine's runner, which carries out each subtask as its kind says."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.checks import CHECKS
from gonogo.domain.conditions import references, resolve
from gonogo.domain.errors import GonogoError, InvalidArguments, because
from gonogo.domain.events import AssistantMessage
from gonogo.domain.failures import Category, Failure, Patterns, Severity
from gonogo.domain.plan import BUILT_IN, COMMAND_TOOL, READ_TOOL, SubtaskType, own_tool
from gonogo.domain.records import CallRow, FileChange
from gonogo.domain.states import ApprovalKind, CallStatus
from gonogo.domain.text_safety import visible_json
from gonogo.domain.tool_calls import (
    RUNTIME,
    Reply,
    UserText,
    count_unheard,
    says_nothing,
    unfinished,
)
from gonogo.execution.agent import (
    MODEL,
    Finished,
    Handed,
    Loop,
    NextStep,
    Resting,
    Thread,
    Traces,
    drop_call,
    end_call,
    keep_reply,
    model_profile,
    open_control,
)
from gonogo.execution.approvals import ApprovalService, Question
from gonogo.execution.plans.checks import (
    VERDICT_TOOL,
    Checks,
    CheckSeen,
    ToolStep,
    Write,
    contradiction,
    invalid,
    validate_command,
    validate_file,
)
from gonogo.execution.plans.ending import shaped, told_refusals
from gonogo.execution.plans.engine import Opening, Threads, begun_in, check_held
from gonogo.execution.scheduling import (
    Completed,
    Failed,
    Kind,
    Outcome,
    Parked,
    Step,
    Work,
    result_of,
)
from gonogo.i18n import say
from gonogo.store import Store, Tx
from gonogo.store import events as log
from gonogo.store.calls import open_calls, refused_calls, thread_calls
from gonogo.store.checkpoints import changes_of_subtask
from gonogo.store.plans import plan_of, subtask_key, subtask_row
from gonogo.store.sessions import append_message, conversation

_LOG = logging.getLogger(__name__)


class Subtasks(Struct, frozen=True, kw_only=True):
    """Carries out subtasks by their kinds."""

    store: Store
    desk: ApprovalService
    kinds: Mapping[str, Kind]
    patterns: Patterns

    async def run(self, work: Work) -> Outcome:
        """Carry out one subtask as far as it goes without a person.

        Raises:
            Superseded: somebody else holds the subtask.
            UnmetReference: its inputs name a result that does not exist.
            ModelFailed: the model did not answer.
        """
        kind = self.kinds.get(work.subtask.type)
        if kind is None:
            said = because("The kind {kind!r} is not installed here", kind=work.subtask.type)
            return Failed(
                Failure(message=said, severity=Severity.HIGH, category=Category.ENVIRONMENT)
            )
        step = await self.store.read(self._step, work)
        outcome = await self._carried_out(kind, step)
        if isinstance(outcome, Completed):
            result, refused = shaped(outcome.result, "completed"), outcome.refused
            if refused is None:
                refused = await self.store.read(_refused, work)
            return replace(outcome, result=result | ({"refused": refused} if refused else {}))
        return outcome

    async def _carried_out(self, kind: Kind, step: Step) -> Outcome:
        try:
            outcome = await kind.run(step)
            return outcome if kind.name in BUILT_IN else _usable(outcome)
        except GonogoError:
            raise
        except Exception as error:
            # Errors inside gonogo go to the log; what a registered kind says is shown as it is.
            if kind.name in BUILT_IN:
                raise
            _LOG.exception("subtask %s failed", step.work.key)
            said = f"{type(error).__name__}: {error}"
            return Failed(self.patterns.classify_text(said))

    def _step(self, tx: Tx, work: Work) -> Step:
        check_held(tx, work)
        row = subtask_row(tx, work.key)
        assert row is not None  # noqa: S101 - `check` found it
        subtask = work.subtask
        named = {reference.subtask_id for reference in references(subtask.inputs)}
        results = _results(tx, work, named.union(subtask.dependencies))
        return Step(
            work=work, attempt=row.attempt, inputs=resolve(subtask.inputs or {}, results),
            results={key: results[key] for key in subtask.dependencies}, now=self.store.clock,
            failed=(row.error or {}).get("message") if row.attempt > 1 else None,
        )  # fmt: skip


def _changed(tx: Tx, work: Work) -> tuple[Sequence[FileChange], list[dict[str, str]]]:
    """What a subtask has changed, and which of its calls were refused."""
    changes = changes_of_subtask(tx, work.revision.plan_id, work.subtask.id)
    return changes, _refused(tx, work)


def _refused(tx: Tx, work: Work) -> list[dict[str, str]]:
    """The subtask's refused calls: readers of its result have to know them."""
    plan = plan_of(tx, work.revision.plan_id)
    assert plan is not None  # noqa: S101 - the work is a part of it
    return told_refusals(refused_calls(tx, plan.session_id, plan.id, work.subtask.id))


def _usable(outcome: object) -> Outcome:
    """Check that what a registered kind returned can be stored.

    Raises:
        TypeError, ValueError: it is no outcome, or its result is no JSON.
    """
    if not isinstance(outcome, Outcome):
        raise TypeError(f"a kind gives an outcome, not {type(outcome).__name__}")
    if isinstance(outcome, Completed):
        json.dumps(outcome.result, allow_nan=False)
    return outcome


def _results(tx: Tx, work: Work, of: set[str]) -> dict[str, dict[str, Any]]:
    keys = {key: subtask_key(work.revision.plan_id, work.revision.number, key) for key in of}
    rows = {key: subtask_row(tx, at) for key, at in keys.items()}
    return {
        key: shaped(result_of(row), str(row.status)) for key, row in rows.items() if row is not None
    }


# How decisions and validations end: by a call that contains the whole answer.


class Ending(Struct, frozen=True, kw_only=True):
    """The call that ends a conversation, and how it becomes the subtask's outcome."""

    tool: str
    brief: str
    """Key of the text that asks for it."""
    take: Callable[[Step, Mapping[str, Any], str], Completed | Failed]
    """Gets the arguments and who answered; raises `InvalidArguments` if that is no answer."""


def decided(step: Step, arguments: Mapping[str, Any], by: str) -> Completed:
    """A decision's result is its choice.

    Raises:
        InvalidArguments: the choice is none of the options.
    """
    given = step.inputs.get("options")
    options = list(given or arguments["options"])
    choice = arguments["choice"]
    if choice not in options:
        raise InvalidArguments(
            "choice: {choice!r} is not one of {options}", choice=choice, options=options
        )
    return step.done(choice, options=options, reasoning=arguments["reasoning"], agent=by)


def judged(step: Step, arguments: Mapping[str, Any], by: str) -> Completed | Failed:
    """A validation that does not hold is a failure: trying the same again would not help."""
    reasons = list(arguments["reasons"])
    if arguments["valid"]:
        return step.done({"valid": True, "reasons": reasons}, agent=by)
    return Failed(invalid("; ".join(reasons)))


DECISION = Ending(tool="give_decision", brief="model_decide", take=decided)
VERDICT = Ending(tool=VERDICT_TOOL, brief="model_judge", take=judged)


# A subtask that an agent carries out, or a model alone: a conversation with an end.

_C = CallStatus
_TOLD = 1_000
"""Characters of what a check has shown that a failure contains."""
_MOST_TOLD = 4_000
_QUOTED = 300
"""Characters of an agent's last reply that a failure quotes."""
COMPLETION = "attempt_completion"
_MOST_SENT_BACK = 2
"""How often an agent is told that its work is not done, in one attempt."""
_CONTRADICTED = "not_shown"
"""The beginning of the error for a verdict that contradicts the record."""
_RUN_IT = "Run the command by itself and judge by what it shows, or say that it does not hold"
_Doubt = tuple[Failure | None, int]
"""Why a verdict is not accepted, and how often its agent was told so before."""
_NOT_DONE = "not_done: checks of the approved plan do not hold; they are named below"


def _nothing(tx: Tx) -> None:
    del tx


class LastWord(Struct, frozen=True):
    """What an agent says when it is done, and what to write then."""

    said: str
    keep: Write = _nothing
    """Written together with the subtask's outcome."""
    turn_down: Write = _nothing
    """Written if the agent has to go on."""


class AgentStep(Struct, frozen=True, kw_only=True):
    """Carries out subtasks as conversations with a model."""

    threads: Threads
    loop: Loop
    desk: ApprovalService
    patterns: Patterns
    """How an agent's own words about its failure are read."""
    checks: Checks

    async def run(self, step: Step, ending: Ending | None = None) -> Outcome:
        """Have the subtask's agent carry it out, as far as it goes without a person.

        Args:
            ending: The call that ends it; None: any last reply does, if the checks hold.

        Raises:
            Superseded: somebody else holds the subtask.
            ModelFailed: the model did not answer.
        """
        thread, begins = await self.threads.open(step, self._opening(step, ending))
        if step.subtask.done_when:
            said = await self.threads.store.read(_last_word, thread)
            if said is not None and (outcome := await self._done(step, thread, LastWord(said))):
                return outcome
        return await self._talk(step, thread, begins, ending)

    async def _judged(self, step: Step, opening: Opening) -> Outcome:
        """Have a model judge something, in a conversation that ends with a verdict."""
        return await self._talk(step, *await self.threads.open(step, opening), VERDICT)

    async def _talk(
        self, step: Step, thread: Thread, begins: NextStep | None, ending: Ending | None
    ) -> Outcome:
        begun = begun_in(step, thread)
        while True:
            match await self.loop.drive(thread, begins, begun):
                case Resting():
                    return Parked()
                case Finished(reply):
                    outcome = _heard(await self._said(step, thread, reply, ending), reply)
                case Handed(call) if ending is not None and call.tool == ending.tool:
                    outcome = await self._answered(step, thread, call, ending)
                case Handed(call):
                    outcome = await self._control(step, thread, call)
            if outcome is not None:
                return outcome
            begins = begun = None

    def _opening(self, step: Step, ending: Ending | None) -> Opening:
        agent, brief = step.subtask.agent, ending.brief if ending else None
        if agent is None:
            profile = model_profile(ending.tool if ending else COMPLETION)
            return Opening(agent=MODEL, profile=profile, ending=brief)
        if ending is None:
            return Opening(agent=agent)
        own = self.loop.gate.profiles[agent]
        tools = tuple(tool for tool in own.tools if tool != COMPLETION)
        servers = self.loop.gate.servers
        lent = servers.lent(agent) if servers is not None else ()
        profile = replace(own, tools=(*tools, *lent, ending.tool))
        return Opening(agent=agent, profile=profile, ending=brief)

    async def _said(
        self, step: Step, thread: Thread, reply: Reply, ending: Ending | None
    ) -> Outcome | None:
        """Handle a last reply: it is the result, unless a call must end it; ask for that once."""

        def write(tx: Tx) -> None:
            keep_reply(tx, thread, reply)

        if reply.refused:
            words = say("no_work_refused", thread.locale, said=reply.said[:_QUOTED])
            return Failed(Failure(message=words, category=Category.NO_WORK), also=write)
        if ending is None:
            return await self._spoken(step, thread, reply, write)
        if await self.threads.store.write(self._remind, thread, reply, ending):
            return None
        said = because(
            "{agent} answered without {tool}: {said}",
            agent=thread.agent, tool=ending.tool, said=reply.said[:200],
        )  # fmt: skip
        return Failed(Failure(message=said, category=Category.VALIDATION), also=write)

    async def _spoken(
        self, step: Step, thread: Thread, reply: Reply, write: Write
    ) -> Outcome | None:
        """Handle a last reply; if it must be checked, store it first, so that no crash loses it."""
        if not step.subtask.done_when:
            return await self._done(step, thread, LastWord(reply.said, keep=write))
        await self.threads.store.write(self._hold, thread, write)
        return await self._done(step, thread, LastWord(reply.said))

    def _hold(self, tx: Tx, thread: Thread, write: Write) -> None:
        thread.owner.check(tx)
        write(tx)

    async def _done(self, step: Step, thread: Thread, word: LastWord) -> Outcome | None:
        """The outcome when an agent says that it is done; None: it was sent back, and goes on.

        gonogo accepts that, unless the files that it should change are unchanged, or a check does
        not hold.
        """
        refused = None
        if self._owes_work(step, thread):
            changes, refused = await self.threads.store.read(_changed, step.work)
            if not await self.checks.traces.has_worked(thread, _own_paths(step), changes):
                words = say("no_work_unchanged", thread.locale, said=word.said[:_QUOTED])
                return Failed(Failure(message=words, category=Category.NO_WORK), also=word.keep)
        result = step.done(word.said, agent=thread.agent).result
        if not step.subtask.done_when:
            return Completed(result, also=word.keep, refused=refused)
        told = await self.threads.store.read(_sent_back, thread)
        seen = await self.checks.look(step, thread, told + 1, self._judged)
        if isinstance(seen, Parked):
            return seen
        also = partial(_write_all, [word.keep, *(each.also for each in seen)])
        if all(each.holds for each in seen):
            return Completed({**result, "checks": [each.facts for each in seen]}, also=also)
        failure = _unmet(seen)
        if told >= _MOST_SENT_BACK or failure.category != Category.VALIDATION:
            return Failed(failure, also=also)
        await self.threads.store.write(self._send_back, thread, word, seen)
        return None

    def _send_back(self, tx: Tx, thread: Thread, word: LastWord, seen: Sequence[CheckSeen]) -> None:
        """Tell an agent what does not hold, in the conversation in which it said otherwise."""
        thread.owner.check(tx)
        _write_all([word.turn_down, *(each.also for each in seen)], tx)
        lacking = [each.facts for each in seen if not each.holds]
        shown = "\n".join(map(visible_json, lacking))
        told = UserText(content=say("model_not_done", thread.locale, checks=shown), about=CHECKS)
        append_message(tx, thread.session_id, thread.name, told, agent=thread.agent)
        log.note(
            tx, thread.session_id, actor=RUNTIME, action="subtask.sent_back",
            subject=thread.subtask_id or "", plan_id=thread.plan_id, checks=lacking,
        )  # fmt: skip

    def _owes_work(self, step: Step, thread: Thread) -> bool:
        """Whether the subtask is an action that should change files."""
        subtask = step.subtask
        owes = bool(_own_paths(step)) if subtask.must_change is None else subtask.must_change
        if subtask.type != SubtaskType.ACTION or not owes:
            return False
        return self.loop.gate.profile(thread).may_write != ()

    def _remind(self, tx: Tx, thread: Thread, reply: Reply, ending: Ending) -> bool:
        """Ask for the call that must end the conversation; False if that was done before."""
        thread.owner.check(tx)
        before = conversation(tx, thread.session_id, thread.name)
        if sum(isinstance(message, UserText) for message in before) > 1:
            return False
        keep_reply(tx, thread, reply)
        told = UserText(content=say("model_use_tool", thread.locale, tool=ending.tool))
        append_message(tx, thread.session_id, thread.name, told, agent=thread.agent)
        return True

    async def _answered(
        self, step: Step, thread: Thread, call: CallRow, ending: Ending
    ) -> Outcome | None:
        try:
            outcome = ending.take(step, call.arguments, thread.agent)
        except InvalidArguments as problem:
            await self._turn_down(thread, call, str(problem))
            return None
        if isinstance(outcome, Completed) and (doubt := self._doubt(step, thread)) is not None:
            failure, told = await self.threads.store.read(doubt)
            if failure is not None and told < _MOST_SENT_BACK:
                error = f"{_CONTRADICTED}: {failure.message}. {_RUN_IT}"
                await self.threads.store.write(self._refuse, thread, call, error)
                return None
            outcome = outcome if failure is None else Failed(failure)
        said = str(call.arguments.get("reasoning") or "; ".join(call.arguments["reasons"]))
        return replace(outcome, also=partial(self._complete, thread=thread, call=call, said=said))

    def _doubt(self, step: Step, thread: Thread) -> Callable[[Tx], _Doubt] | None:
        """What checks that an agent with a verdict ran its commands; None: it has none to run."""
        subtask = step.subtask
        commands = subtask.scope.commands if subtask.scope else None
        if subtask.type != SubtaskType.VALIDATION or not commands:
            return None
        runs = COMMAND_TOOL in self.loop.gate.profile(thread).tools
        tools = subtask.scope.tools if subtask.scope else None
        if not runs or not (tools is None or COMMAND_TOOL in tools):
            return None
        return partial(_contradicted, thread=thread, commands=commands)

    async def _turn_down(self, thread: Thread, call: CallRow, problem: str) -> None:
        """Tell the model that its call is not valid as it is."""
        error = say("model_bad_arguments", thread.locale, problem=problem)
        await self.threads.store.write(self._refuse, thread, call, f"invalid_arguments: {error}")

    async def _control(self, step: Step, thread: Thread, call: CallRow) -> Outcome | None:
        match call.tool:
            case name if name == COMPLETION:
                said = str(call.arguments.get("result", ""))
                write = partial(self._complete, thread=thread, call=call, said=said)
                if call.arguments.get("success") is False:
                    return Failed(self.patterns.classify_text(said), also=write)
                if says_nothing(said):
                    await self._turn_down(thread, call, "result: say what was reached")
                    return None
                no = partial(self._refuse, thread=thread, call=call, error=_NOT_DONE)
                return await self._done(step, thread, LastWord(said, keep=write, turn_down=no))
            case "ask_followup_question":
                await self.threads.store.write(self._question, thread, call)
                return Parked()
            case _:
                error = f"not_here: {call.tool} cannot be used inside a subtask"
                await self.threads.store.write(self._refuse, thread, call, error)
                return None

    def _complete(self, tx: Tx, *, thread: Thread, call: CallRow, said: str) -> None:
        opened = open_control(tx, call)
        end_call(tx, opened, _C.COMPLETED, result={"completed": True})
        for other in open_calls(tx, thread.session_id, thread.name):
            drop_call(tx, self.desk, other, say("model_not_run", thread.locale))
        event = AssistantMessage(content=said, is_final=False, **thread.place)
        log.tell(tx, thread.session_id, event)
        append_message(tx, thread.session_id, thread.name, Reply(text=said), agent=thread.agent)

    def _question(self, tx: Tx, thread: Thread, call: CallRow) -> None:
        thread.owner.check(tx)
        open_control(tx, call)
        question = str(call.arguments.get("question", ""))
        reason = say(
            "intervention_question", thread.locale, agent=thread.agent, subtask=thread.subtask_id,
            question=question,
        )  # fmt: skip
        self.desk.open(
            tx,
            Question(
                session_id=thread.session_id, kind=ApprovalKind.INTERVENTION, subject=question,
                details={
                    "tool": call.tool, "question": question,
                    "suggestions": call.arguments.get("suggestions"),
                },
                reason=reason, digest=call.digest, plan_id=thread.plan_id,
                revision=thread.revision, subtask_id=thread.subtask_id, call_id=call.id,
                agent=thread.agent,
            ),
        )  # fmt: skip
        thread.owner.park(tx)

    def _refuse(self, tx: Tx, thread: Thread, call: CallRow, error: str) -> None:
        thread.owner.check(tx)
        opened = open_control(tx, call)
        end_call(tx, opened, _C.FAILED, error=error)


def _heard(outcome: Outcome | None, reply: Reply) -> Outcome | None:
    """The outcome of a last reply, with the number of people's messages that its agent knew."""
    if isinstance(outcome, Completed | Failed):
        return replace(outcome, heard=reply.heard or 0)
    return outcome


def _own_paths(step: Step) -> Sequence[str]:
    """The globs of what a subtask may change."""
    scope = step.subtask.scope
    return (scope.paths if scope else None) or ()


def _last_word(tx: Tx, thread: Thread) -> str | None:
    """The last reply of an agent that has ended its conversation: it is not checked yet."""
    messages = conversation(tx, thread.session_id, thread.name)
    last = messages[-1]
    if not isinstance(last, Reply) or last.calls or last.is_unfinished or count_unheard(messages):
        return None
    return "".join(part.text for part in (*unfinished(messages[:-1]), last))


def _sent_back(tx: Tx, thread: Thread) -> int:
    """How often an agent was told that its work is not done."""
    messages = conversation(tx, thread.session_id, thread.name)
    return sum(isinstance(message, UserText) and message.about == CHECKS for message in messages)


def _contradicted(tx: Tx, *, thread: Thread, commands: Sequence[str]) -> _Doubt:
    calls = thread_calls(tx, thread.session_id, thread.name)
    told = sum((call.error or "").startswith(f"{_CONTRADICTED}:") for call in calls)
    return contradiction(commands, calls), told


def _write_all(writes: Iterable[Write | None], tx: Tx) -> None:
    for write in filter(None, writes):
        write(tx)


def _unmet(seen: Iterable[CheckSeen]) -> Failure:
    """The failure of an attempt whose checks do not hold."""
    lacking = [each for each in seen if not each.holds]
    barred = (each.failure for each in lacking if each.failure is not None)
    said = "; ".join(f"{each.check.text}: {each.seen[:_TOLD]}" for each in lacking)
    return next(barred, invalid(said[:_MOST_TOLD]))


# The built-in kinds, registered like any other.


class BuiltInKinds(Struct, frozen=True, kw_only=True):
    """How subtasks of the built-in kinds are carried out."""

    agents: AgentStep
    tools: ToolStep

    @classmethod
    def of(cls, threads: Threads, loop: Loop, patterns: Patterns, traces: Traces) -> "BuiltInKinds":
        """Put them together."""
        tools = ToolStep(threads=threads, loop=loop, patterns=patterns)
        agents = AgentStep(
            threads=threads, loop=loop, desk=loop.desk, patterns=patterns,
            checks=Checks(tools=tools, traces=traces),
        )  # fmt: skip
        return cls(agents=agents, tools=tools)

    def all(self) -> tuple[Kind, ...]:
        """All built-in kinds."""
        runs = {
            SubtaskType.ACTION: self.act,
            SubtaskType.DECISION: self.decide,
            SubtaskType.VALIDATION: self.validate,
        }
        return tuple(
            Kind(
                name=rule.name, workers=rule.workers, check=rule.check, run=runs[SubtaskType(name)]
            )
            for name, rule in BUILT_IN.items()
        )

    async def act(self, step: Step) -> Outcome:
        """An effect, by an agent or by a tool directly; or what a model alone can say."""
        if step.subtask.tool is not None:
            return await self.tools.run(step)
        return await self.agents.run(step)

    async def decide(self, step: Step) -> Outcome:
        """A choice among options, by an agent or by a model alone."""
        return await self.agents.run(step, DECISION)

    async def validate(self, step: Step) -> Outcome:
        """A verdict: by an agent, a tool, a command's exit code, a file, or a model alone."""
        tool = own_tool(step.subtask)
        if tool == COMMAND_TOOL:
            return await validate_command(self.tools, step)
        if step.subtask.tool is not None:
            return await self.tools.run(step)
        if tool == READ_TOOL:
            return await validate_file(self.tools, step)
        return await self.agents.run(step, VERDICT)
