"""Subtasks: the engine's runner. Carries each one out as its kind says."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.conditions import references, resolve
from gonogo.domain.errors import GonogoError, InvalidArguments
from gonogo.domain.events import AssistantMessage
from gonogo.domain.failures import Category, Failure, Patterns, Severity
from gonogo.domain.plan import BUILT_IN, COMMAND_TOOL, READ_TOOL, SubtaskType, own_tool
from gonogo.domain.records import CallRow
from gonogo.domain.states import BARRED, ApprovalKind, CallStatus
from gonogo.domain.tool_calls import Reply, ToolRequest, UserText, says_nothing
from gonogo.execution.agent import (
    MODEL,
    RUNTIME,
    Finished,
    Handed,
    Loop,
    Resting,
    Speak,
    Thread,
    Traces,
    drop_call,
    end_call,
    keep_reply,
    model_profile,
    open_control,
    runtime_profile,
)
from gonogo.execution.approvals import ApprovalService, Question
from gonogo.execution.plans.brief import shaped
from gonogo.execution.plans.ending import told_refusals
from gonogo.execution.plans.engine import check_held
from gonogo.execution.plans.runner import Opening, Threads
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
from gonogo.store import Store, Tx, new_id
from gonogo.store import events as log
from gonogo.store.calls import open_calls, refused_calls, thread_calls
from gonogo.store.plans import plan_of, subtask_key, subtask_row
from gonogo.store.sessions import append_message, conversation

_LOG = logging.getLogger(__name__)


class Subtasks(Struct, frozen=True, kw_only=True):
    """Carries subtasks out by their kinds."""

    store: Store
    desk: ApprovalService
    kinds: Mapping[str, Kind]
    patterns: Patterns

    async def run(self, work: Work) -> Outcome:
        """Carry one subtask out as far as it goes without a person.

        Raises:
            Superseded: somebody else holds the subtask.
            UnmetReference: its inputs name a result that is not there.
            ModelFailed: the model did not answer.
        """
        kind = self.kinds.get(work.subtask.type)
        if kind is None:
            said = f"The kind {work.subtask.type!r} is not installed here"
            return Failed(
                Failure(message=said, severity=Severity.HIGH, category=Category.ENVIRONMENT)
            )
        step = await self.store.read(self._step, work)
        outcome = await self._carried_out(kind, step)
        if isinstance(outcome, Completed):
            result = shaped(outcome.result, "completed")
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
            # What goes wrong inside is the log's; what a registered kind says, its author's.
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
        )  # fmt: skip


def _refused(tx: Tx, work: Work) -> list[dict[str, str]]:
    """What the subtask asked for and did not get: whoever reads its result has to know."""
    plan = plan_of(tx, work.revision.plan_id)
    assert plan is not None  # noqa: S101 - the work is a part of it
    return told_refusals(refused_calls(tx, plan.session_id, plan.id, work.subtask.id))


def _usable(outcome: object) -> Outcome:
    """What a registered kind gave, if it can be kept.

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


# A subtask that is one tool call: the runtime itself asks for it, and nobody speaks.
#
# The call is gated, recorded, asked about and recovered as an agent's is. What comes of it is the
# subtask's result, or its failure.

_TAIL = 2_000
"""Characters of a command's output that its failure is told with."""
_CATEGORY, _SEVERITY = Category, Severity
_TYPED = {
    "policy_denied": (_SEVERITY.MEDIUM, _CATEGORY.POLICY),
    "rejected": (_SEVERITY.MEDIUM, _CATEGORY.PERMISSION),
    "expired": (_SEVERITY.MEDIUM, _CATEGORY.PERMISSION),
    "invalid_arguments": (_SEVERITY.HIGH, _CATEGORY.VALIDATION),
    "unknown_tool": (_SEVERITY.HIGH, _CATEGORY.DEPENDENCY),
    "timeout": (_SEVERITY.MEDIUM, _CATEGORY.TIMEOUT),
    "cancelled": (_SEVERITY.LOW, _CATEGORY.CANCELLED),
    "unknown": (_SEVERITY.MEDIUM, _CATEGORY.UNKNOWN),
    **dict.fromkeys((*BARRED, "bad_path"), (_SEVERITY.MEDIUM, _CATEGORY.POLICY)),
}
"""What a call's error stands for, by the word that it begins with."""


class ToolStep(Struct, frozen=True, kw_only=True):
    """Carries out subtasks that are one call."""

    threads: Threads
    loop: Loop
    patterns: Patterns

    async def run(self, step: Step) -> Outcome:
        """Call the subtask's own tool with its inputs."""
        ended = await self.call(step, step.subtask.tool or "", step.inputs)
        if isinstance(ended, Parked):
            return ended
        failure = self.failure_of(ended)
        if failure is not None:
            return Failed(failure)
        return step.done(ended.result, tool=ended.tool)

    async def call(self, step: Step, tool: str, arguments: Mapping[str, Any]) -> CallRow | Parked:
        """Have one call made, however often the subtask is taken up again. Gives its end.

        Raises:
            Superseded: somebody else holds the subtask.
        """
        opening = Opening(
            agent=RUNTIME, profile=runtime_profile(tool), speak=_asks_once(tool, arguments)
        )
        thread = await self.threads.open(step, opening)
        if isinstance(await self.loop.drive(thread), Resting):
            return Parked()
        calls = await self.threads.store.read(thread_calls, thread.session_id, thread.name)
        return next(call for call in calls if call.retry_of is None)

    def failure_of(self, call: CallRow) -> Failure | None:
        """Why a subtask fails whose call ended so; None if it does not."""
        if call.status is CallStatus.COMPLETED:
            return self._of_command(call) if call.tool == COMMAND_TOOL else None
        error = call.error or str(call.status)
        message, word = f"{call.tool}: {error}", error.partition(":")[0]
        if word in _TYPED:
            severity, category = _TYPED[word]
            return Failure(message=message, severity=severity, category=category)
        return self._by_words(message)

    def _of_command(self, call: CallRow) -> Failure | None:
        given: Any = call.result
        result = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        code, output = result.get("exit_code"), tail_of(result)
        command = call.arguments.get("command")
        if result.get("timed_out"):
            spent = f"{command!r} was ended at its time limit:\n{output}"
            return Failure(message=spent, category=Category.TIMEOUT)
        if code in (0, None):
            return None
        return self._by_words(f"{command!r} ended with the exit code {code}:\n{output}")

    def _by_words(self, message: str) -> Failure:
        """What the words of a failure stand for; a call that no rule knows was wrong in itself."""
        found = self.patterns.classify_text(message)
        if found.rule is not None:
            return found
        return Failure(message=found.message, category=Category.LOGIC)


def tail_of(result: Mapping[str, Any]) -> str:
    """The end of a command's output, where it says what went wrong."""
    return str(result.get("output", ""))[-_TAIL:]


def _asks_once(tool: str, arguments: Mapping[str, Any]) -> Speak:
    def speak(calls: Sequence[CallRow]) -> Reply:
        if calls:
            return Reply()
        return Reply(calls=(ToolRequest(id=new_id("call"), name=tool, arguments=dict(arguments)),))

    return speak


# How decisions and validations end: by a call that holds the whole answer.


class Ending(Struct, frozen=True, kw_only=True):
    """The call that ends a conversation, and what it makes of the subtask."""

    tool: str
    brief: str
    """Key of the text that asks for it."""
    take: Callable[[Step, Mapping[str, Any], str], Completed | Failed]
    """Is given the arguments and who answered; raises `InvalidArguments` for no answer."""


def decided(step: Step, arguments: Mapping[str, Any], by: str) -> Completed:
    """A decision's result is its choice.

    Raises:
        InvalidArguments: the choice is none of the options.
    """
    given = step.inputs.get("options")
    options = list(given or arguments["options"])
    choice = arguments["choice"]
    if choice not in options:
        raise InvalidArguments(f"choice: {choice!r} is none of {options}")
    return step.done(choice, options=options, reasoning=arguments["reasoning"], agent=by)


def judged(step: Step, arguments: Mapping[str, Any], by: str) -> Completed | Failed:
    """A validation that does not hold is a failure: trying the same again would not help."""
    reasons = list(arguments["reasons"])
    if arguments["valid"]:
        return step.done({"valid": True, "reasons": reasons}, agent=by)
    return Failed(invalid("; ".join(reasons)))


def invalid(why: str) -> Failure:
    """What a validation that does not hold fails with."""
    return Failure(
        message=f"Validation failed: {why}", severity=Severity.HIGH, category=Category.VALIDATION
    )


DECISION = Ending(tool="give_decision", brief="model_decide", take=decided)
VERDICT = Ending(tool="give_verdict", brief="model_judge", take=judged)


# A subtask that an agent carries out, or a model alone: a conversation with an end.

_C = CallStatus
_QUOTED = 300
"""Characters of an agent's last word that a failure quotes."""
Write = Callable[[Tx], None]
COMPLETION = "attempt_completion"


class AgentStep(Struct, frozen=True, kw_only=True):
    """Carries out subtasks as conversations with a model."""

    threads: Threads
    loop: Loop
    desk: ApprovalService
    patterns: Patterns
    """How an agent's own words about its failure are read."""
    traces: Traces
    """What it did to files."""

    async def run(self, step: Step, ending: Ending | None = None) -> Outcome:
        """Have the subtask's agent carry it out, as far as it goes without a person.

        Args:
            ending: The call that ends it; without one any last word does.

        Raises:
            Superseded: somebody else holds the subtask.
            ModelFailed: the model did not answer.
        """
        thread = await self.threads.open(step, self._opening(step, ending))
        while True:
            match await self.loop.drive(thread):
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
        """A last word is the result; where a call is wanted it is asked for, once."""

        def write(tx: Tx) -> None:
            keep_reply(tx, thread, reply)

        if reply.refused:
            words = say("no_work_refused", thread.locale, said=reply.said[:_QUOTED])
            return Failed(Failure(message=words, category=Category.NO_WORK), also=write)
        if ending is None:
            return await self._done(step, thread, reply.said, write)
        if await self.threads.store.write(self._remind, thread, reply, ending):
            return None
        said = f"{thread.agent} answered without {ending.tool}: {reply.said[:200]}"
        return Failed(Failure(message=said, category=Category.VALIDATION), also=write)

    async def _done(self, step: Step, thread: Thread, said: str, write: Write) -> Outcome:
        """An agent says that it is done: believed, unless what it was to change is as it was."""
        if await self._owes_work(step, thread):
            words = say("no_work_unchanged", thread.locale, said=said[:_QUOTED])
            return Failed(Failure(message=words, category=Category.NO_WORK), also=write)
        return Completed(step.done(said, agent=thread.agent).result, also=write)

    async def _owes_work(self, step: Step, thread: Thread) -> bool:
        """Whether an action that declares files ends with all of them as they were."""
        scope = step.subtask.scope
        if step.subtask.type != SubtaskType.ACTION or scope is None or not scope.paths:
            return False
        if self.loop.gate.profile(thread).may_write == ():
            return False
        return not await self.traces.has_worked(thread, scope.paths)

    def _remind(self, tx: Tx, thread: Thread, reply: Reply, ending: Ending) -> bool:
        """Ask for the call that is wanted. False if that was done before."""
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
        said = str(call.arguments.get("reasoning") or "; ".join(call.arguments["reasons"]))
        return replace(outcome, also=partial(self._complete, thread=thread, call=call, said=said))

    async def _turn_down(self, thread: Thread, call: CallRow, problem: str) -> None:
        """Tell the model that a call of its does not do as it is."""
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
                return await self._done(step, thread, said, write)
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
    """What comes of a last word, with what of the words of people its agent knew of."""
    if isinstance(outcome, Completed | Failed):
        return replace(outcome, heard=reply.heard or 0)
    return outcome


# Validations that need no judgement: a command's exit code, or what a file holds.

_ABSENT = ("file_not_found", "not_found")


async def check_command(tools: ToolStep, step: Step) -> Outcome:
    """Run a command through the gate, and compare its exit code."""
    inputs = dict(step.inputs)
    wanted = inputs.pop("exit_code", 0)
    if not isinstance(wanted, int):
        raise InvalidArguments(f"exit_code: a number is needed, not {wanted!r}")
    ended = await tools.call(step, COMMAND_TOOL, inputs)
    if isinstance(ended, Parked):
        return ended
    result = _fields(ended)
    failure = None if _exited(ended, result) else tools.failure_of(ended)
    if failure is not None:
        return Failed(failure)
    command, code = inputs.get("command"), result.get("exit_code")
    said = f"{command!r} ended with the exit code {code}"
    if code != wanted:
        return Failed(invalid(f"{said}, not {wanted}:\n{tail_of(result)}"))
    return _valid(step, said, ended)


async def check_file(tools: ToolStep, step: Step) -> Outcome:
    """Read a file through the gate, and compare what it holds."""
    path, exists = step.inputs["file"], step.inputs.get("exists", True)
    ended = await tools.call(step, READ_TOOL, {"path": path})
    if isinstance(ended, Parked):
        return ended
    absent = (ended.error or "").partition(":")[0] in _ABSENT
    if absent or not exists:
        there = ended.status is CallStatus.COMPLETED
        failure = None if there or absent else tools.failure_of(ended)
        if failure is not None:
            return Failed(failure)
        word = "exists" if there else "does not exist"
        said = f"{path!r} {word}"
        return _valid(step, said, ended) if there is exists else Failed(invalid(said))
    failure = tools.failure_of(ended) or _lacking(step, ended)
    return Failed(failure) if failure else _valid(step, f"{path!r} is as it should be", ended)


def _lacking(step: Step, ended: CallRow) -> Failure | None:
    wanted, result = step.inputs.get("contains"), _fields(ended)
    if wanted is None or str(wanted) in str(result.get("content", "")):
        return None
    more = ", in so far as it was read" if result.get("truncated") else ""
    return invalid(f"{step.inputs['file']!r} does not contain {wanted!r}{more}")


def _exited(ended: CallRow, result: dict[str, Any]) -> bool:
    """Whether a command came to an end of its own."""
    return ended.status is CallStatus.COMPLETED and not result.get("timed_out")


def _valid(step: Step, said: str, ended: CallRow) -> Completed:
    return step.done({"valid": True, "reasons": [said]}, tool=ended.tool, result=ended.result)


def _fields(ended: CallRow) -> dict[str, Any]:
    given: Any = ended.result
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


# The kinds that are built in, registered as any other is.


class BuiltInKinds(Struct, frozen=True, kw_only=True):
    """How subtasks of the built-in kinds are carried out."""

    agents: AgentStep
    tools: ToolStep

    def all(self) -> tuple[Kind, ...]:
        """Each of them."""
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
            return await check_command(self.tools, step)
        if step.subtask.tool is not None:
            return await self.tools.run(step)
        if tool == READ_TOOL:
            return await check_file(self.tools, step)
        return await self.agents.run(step, VERDICT)
