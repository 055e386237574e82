"""A subtask that an agent carries out, or a model alone: a conversation with an end."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from gonogo.agents import (
    MODEL,
    Finished,
    Handed,
    Loop,
    Resting,
    Thread,
    Traces,
    drop_call,
    end_call,
    keep_reply,
    model_profile,
    open_control,
)
from gonogo.approvals import Desk, Question
from gonogo.domain.errors import InvalidArguments
from gonogo.domain.events import AssistantMessage
from gonogo.domain.failures import Category, Failure, Patterns
from gonogo.domain.plan import SubtaskType
from gonogo.domain.records import CallRow
from gonogo.domain.states import ApprovalKind, CallStatus
from gonogo.domain.tool_calls import Reply, UserText, says_nothing
from gonogo.engine import Completed, Failed, Outcome, Parked, Step
from gonogo.orchestrator._endings import Ending
from gonogo.orchestrator._threads import Opening, Threads
from gonogo.store import Connection
from gonogo.store import events as log
from gonogo.store.calls import open_calls
from gonogo.store.sessions import conversation, say
from gonogo.texts import say as text

_C = CallStatus
_QUOTED = 300
"""Characters of an agent's last word that a failure quotes."""
Write = Callable[[Connection, datetime], None]
COMPLETION = "attempt_completion"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep:
    """Carries out subtasks as conversations with a model."""

    threads: Threads
    loop: Loop
    desk: Desk
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
                    outcome = await self._said(step, thread, reply, ending)
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

        def write(conn: Connection, now: datetime) -> None:
            keep_reply(conn, thread, reply, now)

        if reply.refused:
            words = text("no_work_refused", thread.locale, said=reply.said[:_QUOTED])
            return Failed(Failure(message=words, category=Category.NO_WORK), also=write)
        if ending is None:
            return await self._done(step, thread, reply.said, write)
        if await self.threads.store.write(
            self._remind, thread, reply, ending, self.threads.clock()
        ):
            return None
        said = f"{thread.agent} answered without {ending.tool}: {reply.said[:200]}"
        return Failed(Failure(message=said, category=Category.VALIDATION), also=write)

    async def _done(self, step: Step, thread: Thread, said: str, write: Write) -> Outcome:
        """An agent says that it is done: believed, unless what it was to change is as it was."""
        if await self._owes_work(step, thread):
            words = text("no_work_unchanged", thread.locale, said=said[:_QUOTED])
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

    def _remind(
        self, conn: Connection, thread: Thread, reply: Reply, ending: Ending, now: datetime
    ) -> bool:
        """Ask for the call that is wanted. False if that was done before."""
        thread.check(conn)
        before = conversation(conn, thread.session_id, thread.name)
        if sum(isinstance(message, UserText) for message in before) > 1:
            return False
        keep_reply(conn, thread, reply, now)
        told = UserText(content=text("model_use_tool", thread.locale, tool=ending.tool))
        say(conn, thread.session_id, thread.name, told, now, agent=thread.agent)
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
        error = text("model_bad_arguments", thread.locale, problem=problem)
        await self.threads.store.write(
            self._refuse, thread, call, f"invalid_arguments: {error}", self.threads.clock()
        )

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
                await self.threads.store.write(self._question, thread, call, self.threads.clock())
                return Parked()
            case _:
                error = f"not_here: {call.tool} cannot be used inside a subtask"
                await self.threads.store.write(
                    self._refuse, thread, call, error, self.threads.clock()
                )
                return None

    def _complete(
        self, conn: Connection, now: datetime, *, thread: Thread, call: CallRow, said: str
    ) -> None:
        opened = open_control(conn, call, now)
        end_call(conn, opened, _C.COMPLETED, now, result={"completed": True})
        for other in open_calls(conn, thread.session_id, thread.name):
            drop_call(conn, self.desk, other, text("model_not_run", thread.locale), now)
        event = AssistantMessage(content=said, is_final=False, **thread.place)
        log.tell(conn, thread.session_id, now, event)
        say(conn, thread.session_id, thread.name, Reply(text=said), now, agent=thread.agent)

    def _question(self, conn: Connection, thread: Thread, call: CallRow, now: datetime) -> None:
        thread.check(conn)
        open_control(conn, call, now)
        question = str(call.arguments.get("question", ""))
        reason = text(
            "intervention_question", thread.locale, agent=thread.agent, subtask=thread.subtask_id,
            question=question,
        )  # fmt: skip
        self.desk.open(
            conn,
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
            now,
        )  # fmt: skip
        thread.park(conn, now)

    def _refuse(
        self, conn: Connection, thread: Thread, call: CallRow, error: str, now: datetime
    ) -> None:
        thread.check(conn)
        opened = open_control(conn, call, now)
        end_call(conn, opened, _C.FAILED, now, error=error)
