"""A subtask that an agent carries out, or a model alone: a conversation with an end."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from gonogo.agents import (
    Finished,
    Handed,
    Loop,
    Resting,
    Thread,
    drop_call,
    end_call,
    keep_reply,
    open_control,
)
from gonogo.approvals import Desk, Question
from gonogo.domain.approval_state import ApprovalKind
from gonogo.domain.call_state import CallStatus
from gonogo.domain.conversation import Reply
from gonogo.domain.events import AssistantMessage
from gonogo.domain.failure_patterns import Patterns
from gonogo.domain.records import CallRow
from gonogo.engine import Completed, Failed, Outcome, Parked, Step
from gonogo.orchestrator._threads import Opening, Threads
from gonogo.store import Connection, log
from gonogo.store.calls import open_calls
from gonogo.store.sessions import say
from gonogo.texts import say as text

_C = CallStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep:
    """Carries out subtasks as conversations with a model."""

    threads: Threads
    loop: Loop
    desk: Desk
    patterns: Patterns
    """How an agent's own words about its failure are read."""

    async def run(self, step: Step) -> Outcome:
        """Have the subtask's agent carry it out, as far as it goes without a person.

        Raises:
            Superseded: somebody else holds the subtask.
            ModelFailed: the model did not answer.
        """
        thread = await self.threads.open(step, Opening(agent=step.subtask.agent or ""))
        while True:
            match await self.loop.drive(thread):
                case Resting():
                    return Parked()
                case Finished(reply):
                    return Completed(
                        step.done(reply.text, agent=thread.agent).result,
                        also=lambda conn, now, r=reply: keep_reply(conn, thread, r, now),
                    )
                case Handed(call):
                    outcome = await self._control(step, thread, call)
            if outcome is not None:
                return outcome

    async def _control(self, step: Step, thread: Thread, call: CallRow) -> Outcome | None:
        match call.tool:
            case "attempt_completion":
                said = str(call.arguments.get("result", ""))
                write = partial(self._complete, thread=thread, call=call, said=said)
                if call.arguments.get("success") is False:
                    return Failed(self.patterns.classify_text(said), also=write)
                return Completed(step.done(said, agent=thread.agent).result, also=write)
            case "ask_followup_question":
                await self.threads.store.write(self._question, thread, call, self.threads.clock())
                return Parked()
            case _:
                await self.threads.store.write(self._refuse, thread, call, self.threads.clock())
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

    def _refuse(self, conn: Connection, thread: Thread, call: CallRow, now: datetime) -> None:
        thread.check(conn)
        opened = open_control(conn, call, now)
        error = f"not_here: {call.tool} cannot be used inside a subtask"
        end_call(conn, opened, _C.FAILED, now, error=error)
