"""Calls that speak to the runtime: plans, switches, questions, completion."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gonogo.agents import Profile, end_call, open_control
from gonogo.domain.errors import GonogoError, InvalidPlan
from gonogo.domain.events import AssistantMessage
from gonogo.domain.plan import Revision
from gonogo.domain.records import MAIN, CallRow, Session, Turn
from gonogo.domain.states import CallStatus, TurnStatus
from gonogo.orchestrator._inbox import next_turn, tell_all_queued
from gonogo.orchestrator._planning import Planning
from gonogo.orchestrator._turn import check, move, restore, tell_switch
from gonogo.store import Connection, Store
from gonogo.store import events as log
from gonogo.store.calls import open_calls
from gonogo.store.sessions import session_of, set_turn_agent, turn_of
from gonogo.texts import say as text

_C = CallStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """Answers the calls of a turn that no tool carries out."""

    store: Store
    planning: Planning
    profiles: Mapping[str, Profile]
    clock: Callable[[], datetime]

    async def answer(self, session: Session, turn: Turn, call: CallRow) -> Turn | None:
        """Answer one. Gives the turn to go on with, or None when it is over or parked."""
        steps = {
            "switch_mode": self._switch,
            "create_plan": self._create_plan,
            "execute_plan": self._execute,
            "ask_followup_question": self._question,
        }
        step = steps.get(call.tool, self._complete)
        return await self.store.write(step, session, turn, call, self.clock())

    def _switch(
        self, conn: Connection, session: Session, turn: Turn, call: CallRow, now: datetime
    ) -> Turn | None:
        target = str(call.arguments.get("mode"))
        if target not in self.profiles or target == turn.agent:
            known = ", ".join(sorted(set(self.profiles) - {turn.agent}))
            self._end(conn, turn, call, now, error=f"unknown_agent: choose one of {known}")
            return turn
        self._end(conn, turn, call, now, result={"agent": target})
        set_turn_agent(conn, turn, target)
        tell_switch(
            conn, turn, turn.agent, target, now,
            reason=call.arguments.get("reason"), confidence=call.arguments.get("confidence"),
        )  # fmt: skip
        return turn_of(conn, turn.id)

    def _create_plan(
        self, conn: Connection, session: Session, turn: Turn, call: CallRow, now: datetime
    ) -> Turn | None:
        current = session_of(conn, session.id)
        if current is not None and current.active_plan_id is not None:
            going = f"plan {current.active_plan_id} was approved and is not over yet"
            self._end(conn, turn, call, now, error=f"conflict: {going}")
            return turn
        try:
            revision = self.planning.draft(call.arguments)
        except InvalidPlan as error:
            self._end(conn, turn, call, now, error=f"invalid_plan: {error}")
            return turn
        self._propose(conn, session, turn, call, revision, now)
        return None

    def _propose(
        self,
        conn: Connection,
        session: Session,
        turn: Turn,
        call: CallRow,
        revision: Revision,
        now: datetime,
    ) -> None:
        result = self.planning.result(revision, session.spoken)
        self._end(conn, turn, call, now, result=result)
        pointing = text("model_plan_undecided", session.spoken, plan_id=revision.plan_id)
        for other in open_calls(conn, session.id, MAIN):
            self._end(conn, turn, other, now, error=f"not_approved: {pointing}")
        move(conn, turn, TurnStatus.DONE, now)
        tell_all_queued(conn, session, now, undecided=True)
        self.planning.propose(conn, session, turn, revision, now)

    def _execute(
        self, conn: Connection, session: Session, turn: Turn, call: CallRow, now: datetime
    ) -> Turn | None:
        check(conn, turn)
        wanted = call.arguments.get("plan_id") or session.active_plan_id
        try:
            found = self.planning.execute(conn, session, wanted, turn, now)
        except GonogoError as error:
            self._end(conn, turn, call, now, error=f"{error.code}: {error}")
            return turn
        if found is not None:
            self._end(conn, turn, call, now, result=found)
            return turn
        # The event names the plan, so that the answer to the user's message covers what it does.
        open_control(conn, replace(call, plan_id=wanted), now)
        move(conn, turn, TurnStatus.PARKED, now)
        self.planning.set_going(conn, str(wanted), now)
        tell_all_queued(conn, session, now)
        return None

    def _question(
        self, conn: Connection, session: Session, turn: Turn, call: CallRow, now: datetime
    ) -> Turn | None:
        check(conn, turn)
        open_control(conn, call, now)
        move(conn, turn, TurnStatus.PARKED, now)
        tell_all_queued(conn, session, now)
        self._say(conn, turn, str(call.arguments.get("question", "")), now)

    def _complete(
        self, conn: Connection, session: Session, turn: Turn, call: CallRow, now: datetime
    ) -> Turn | None:
        self._end(conn, turn, call, now, result={"completed": True})
        for other in open_calls(conn, session.id, MAIN):
            self._end(conn, turn, other, now, error=text("model_not_run", session.spoken))
        move(conn, turn, TurnStatus.DONE, now)
        restore(conn, turn, now)
        self._say(conn, turn, str(call.arguments.get("result", "")), now)
        next_turn(conn, session)

    def _end(
        self,
        conn: Connection,
        turn: Turn,
        call: CallRow,
        now: datetime,
        *,
        result: Any = None,  # noqa: ANN401 - JSON
        error: str | None = None,
    ) -> None:
        """Give a call its one result."""
        check(conn, turn)
        status = _C.COMPLETED if error is None else _C.FAILED
        end_call(conn, open_control(conn, call, now), status, now, result=result, error=error)

    def _say(self, conn: Connection, turn: Turn, content: str, now: datetime) -> None:
        event = AssistantMessage(content=content, turn_id=turn.id, agent=turn.agent, is_final=True)
        log.tell(conn, turn.session_id, now, event)
