"""Subtasks: carries one out by its agent, and writes what it needs to know at its head."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

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
from gonogo.domain.conversation import Reply, UserText
from gonogo.domain.events import AssistantMessage
from gonogo.domain.records import CallRow, Session, SubtaskRow
from gonogo.domain.references import resolve
from gonogo.engine import Completed, Outcome, Parked, Work, result_of
from gonogo.store import Connection, Store, log
from gonogo.store.calls import open_calls, pending_of_plan
from gonogo.store.plans import plan_of, subtask_key, subtask_row, subtask_rows
from gonogo.store.sessions import conversation, say, session_of
from gonogo.texts import say as text

_C = CallStatus
_SHOWN = 4_000
"""Characters of a dependency's result that a subtask is told."""
Check = Callable[[Connection, Work], None]
Park = Callable[[Connection, Work, datetime], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtasks:
    """The engine's runner: subtasks as conversations with agents."""

    store: Store
    loop: Loop
    desk: Desk
    clock: Callable[[], datetime]
    check: Check
    park: Park

    async def run(self, work: Work) -> Outcome:
        """Carry one subtask out as far as it goes without a person.

        Raises:
            Superseded: somebody else holds the subtask.
            ModelFailed: the model did not answer.
        """
        thread = await self.store.write(self._begin, work, self.clock())
        while True:
            match await self.loop.drive(thread):
                case Resting():
                    return Parked()
                case Finished(reply):
                    return Completed(
                        _output(thread, reply.text),
                        also=lambda conn, now, r=reply: keep_reply(conn, thread, r, now),
                    )
                case Handed(call):
                    outcome = await self._control(thread, call)
            if outcome is not None:
                return outcome

    def dropped(self, conn: Connection, row: SubtaskRow, reason: str, now: datetime) -> None:
        """A subtask's work was taken away: its calls and questions end."""
        plan = plan_of(conn, row.plan_id)
        if plan is None:
            return
        for call in open_calls(conn, plan.session_id, _thread_name(row.key, row.attempt)):
            drop_call(conn, self.desk, call, f"cancelled: {reason}", now)
        for approval in pending_of_plan(conn, plan.id):
            if approval.subtask_id == row.subtask_id:
                self.desk.withdraw(conn, approval, now)

    def _begin(self, conn: Connection, work: Work, now: datetime) -> Thread:
        self.check(conn, work)
        plan, row = plan_of(conn, work.revision.plan_id), subtask_row(conn, work.key)
        assert plan is not None and row is not None  # noqa: S101, PT018 - `check` found them
        session = session_of(conn, plan.session_id)
        assert session is not None  # noqa: S101 - the plan names its session
        name = _thread_name(work.key, row.attempt)
        if not conversation(conn, session.id, name):
            brief = _brief(conn, work, session)
            say(conn, session.id, name, UserText(content=brief), now, agent=work.subtask.agent)
        return self._thread(work, session, name, plan.auto_approve_tools)

    def _thread(self, work: Work, session: Session, name: str, auto_approve: bool) -> Thread:
        return Thread(
            session_id=session.id, name=name, script=work.subtask.id,
            agent=work.subtask.agent or "universal", locale=session.spoken,
            workspace=Path(session.workspace), remote=session.tool_host == "client",
            plan_id=work.revision.plan_id, revision=work.revision.number,
            subtask_id=work.subtask.id, auto_approve=auto_approve,
            check=lambda conn: self.check(conn, work),
            park=lambda conn, now: self.park(conn, work, now),
        )  # fmt: skip

    async def _control(self, thread: Thread, call: CallRow) -> Outcome | None:
        match call.tool:
            case "attempt_completion":
                said = str(call.arguments.get("result", ""))
                return Completed(
                    _output(thread, said),
                    also=lambda conn, now: self._complete(conn, thread, call, said, now),
                )
            case "ask_followup_question":
                await self.store.write(self._question, thread, call, self.clock())
                return Parked()
            case _:
                await self.store.write(self._refuse, thread, call, self.clock())
                return None

    def _complete(
        self, conn: Connection, thread: Thread, call: CallRow, said: str, now: datetime
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


def _thread_name(key: str, attempt: int) -> str:
    return f"{key}#{attempt}"


def _output(thread: Thread, said: str) -> dict[str, Any]:
    return {"status": "completed", "output": said, "metadata": {"agent": thread.agent}}


def _brief(conn: Connection, work: Work, session: Session) -> str:
    """The head of a subtask's conversation: what to do, what it may touch, what is known."""
    subtask, locale = work.subtask, session.spoken
    parts = [
        text(
            "model_subtask", locale, goal=work.revision.goal, subtask=subtask.id,
            description=subtask.description,
        )
    ]  # fmt: skip
    if subtask.scope is not None:
        scope = json.dumps(subtask.scope.model_dump(exclude_defaults=True), ensure_ascii=False)
        parts.append(text("model_subtask_scope", locale, scope=scope))
    if subtask.inputs:
        inputs = resolve(subtask.inputs, _results(conn, work))
        parts.append(json.dumps({"inputs": inputs}, ensure_ascii=False))
    if subtask.dependencies:
        parts.append(text("model_subtask_results", locale))
    parts.extend(_result_of(conn, work, dependency, locale) for dependency in subtask.dependencies)
    return "\n\n".join(parts)


def _results(conn: Connection, work: Work) -> dict[str, dict[str, Any]]:
    rows = subtask_rows(conn, work.revision.plan_id, work.revision.number)
    return {row.subtask_id: result_of(row) for row in rows}


def _result_of(conn: Connection, work: Work, dependency: str, locale: str) -> str:
    row = subtask_row(conn, subtask_key(work.revision.plan_id, work.revision.number, dependency))
    done = work.revision.subtask(dependency)
    result = row.result if row else None
    said: Any = cast("dict[str, Any]", result).get("output") if isinstance(result, dict) else result
    shown = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    if len(shown) > _SHOWN:
        rest = text("model_truncated", locale, count=len(shown) - _SHOWN)
        shown = shown[:_SHOWN] + rest
    return text(
        "model_dependency", locale, subtask=dependency, description=done.description,
        agent=done.agent or done.tool, result=shown,
    )  # fmt: skip
