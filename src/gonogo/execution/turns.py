"""Turns: drives the answer to one message, from agent to agent, until done or parked."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import Busy, Conflict, GonogoError, InvalidPlan, ModelFailed, parts_of
from gonogo.domain.events import AssistantMessage, ErrorHappened
from gonogo.domain.failures import Category, is_away
from gonogo.domain.identity import Principal
from gonogo.domain.plan import Revision
from gonogo.domain.records import MAIN, CallRow, Job, Session, Turn
from gonogo.domain.states import TURN, CallStatus, TurnStatus
from gonogo.domain.tool_calls import RUNTIME, Reply, UserText
from gonogo.execution.agent import (
    Finished,
    Handed,
    Loop,
    ModelWait,
    NextStep,
    Profile,
    ReadyCall,
    Resting,
    Thread,
    drop_call,
    end_call,
    fields_from,
    is_unheard,
    keep_reply,
    open_control,
    role_of,
    steer,
    take_up,
)
from gonogo.execution.agent.inbox import (
    check,
    move,
    next_turn,
    restore,
    tell_all_queued,
    tell_switch,
    wake,
)
from gonogo.execution.approvals import ApprovalService
from gonogo.execution.plans import Planning
from gonogo.execution.plans.lifecycle import is_held
from gonogo.execution.scheduling import Superseded
from gonogo.i18n import say
from gonogo.store import Store, Tx, go_on, stop
from gonogo.store import events as log
from gonogo.store.calls import open_calls
from gonogo.store.sessions import (
    append_message,
    lock_turn,
    open_turns,
    session_of,
    set_turn_agent,
    set_turn_away,
    set_turn_steered,
    take_turn,
    turn_of,
)

# Calls that speak to the runtime: plans, switches, questions, completion.

_C = CallStatus


class Controls(Struct, frozen=True, kw_only=True):
    """Answers the calls of a turn that no tool carries out."""

    store: Store
    planning: Planning
    profiles: Mapping[str, Profile]

    async def answer(self, session: Session, turn: Turn, call: CallRow) -> Turn | None:
        """Answer a call; return the turn to go on with, or None when it is over or parked."""
        steps = {
            "switch_mode": self._switch,
            "create_plan": self._create_plan,
            "execute_plan": self._execute,
            "ask_followup_question": self._question,
        }
        step = steps.get(call.tool, self._complete)
        return await self.store.write(step, session, turn, call)

    def _switch(self, tx: Tx, session: Session, turn: Turn, call: CallRow) -> Turn | None:
        check(tx, turn)
        target = str(call.arguments.get("mode"))
        if target not in self.profiles or target == turn.agent:
            known = ", ".join(sorted(set(self.profiles) - {turn.agent}))
            self._end(tx, turn, call, error=f"unknown_agent: choose one of {known}")
            return turn
        self._end(tx, turn, call, result={"agent": target})
        set_turn_agent(tx, turn, target)
        tell_switch(
            tx, turn, turn.agent, target, reason=call.arguments.get("reason"),
            confidence=call.arguments.get("confidence"),
        )  # fmt: skip
        return turn_of(tx, turn.id)

    def _create_plan(self, tx: Tx, session: Session, turn: Turn, call: CallRow) -> Turn | None:
        if self._goes_on(tx, session, turn, call):
            return turn
        session = session_of(tx, session.id) or session
        if session.active_plan_id is not None:
            going = f"plan {session.active_plan_id} was approved and is not over yet"
            self._end(tx, turn, call, error=f"conflict: {going}")
            return turn
        try:
            revision = self.planning.draft(call.arguments)
        except InvalidPlan as error:
            self._end(tx, turn, call, error=f"invalid_plan: {error}")
            return turn
        self._propose(tx, session, turn, call, revision)
        return None

    def _propose(
        self, tx: Tx, session: Session, turn: Turn, call: CallRow, revision: Revision
    ) -> None:
        result = self.planning.result(revision, session.spoken)
        self._end(tx, turn, call, result=result)
        for other in open_calls(tx, session.id, MAIN):
            pointing = say("model_plan_undecided", session.spoken, plan_id=revision.plan_id)
            self._end(tx, turn, other, error=f"not_approved: {pointing}")
        move(tx, turn, TurnStatus.DONE)
        tell_all_queued(tx, session, undecided=True)
        self.planning.propose(tx, session, turn, revision)

    def _execute(self, tx: Tx, session: Session, turn: Turn, call: CallRow) -> Turn | None:
        check(tx, turn)
        wanted = call.arguments.get("plan_id") or session.active_plan_id
        try:
            found = self.planning.execute(tx, session, wanted, turn)
        except GonogoError as error:
            self._end(tx, turn, call, error=f"{error.code}: {error}")
            return turn
        if found is not None:
            self._end(tx, turn, call, result=found)
            return turn
        # The event names the plan, so that the answer to the user's message covers what it does.
        open_control(tx, replace(call, plan_id=wanted))
        move(tx, turn, TurnStatus.PARKED)
        self.planning.set_going(tx, str(wanted))
        tell_all_queued(tx, session)
        return None

    def _question(self, tx: Tx, session: Session, turn: Turn, call: CallRow) -> Turn | None:
        check(tx, turn)
        open_control(tx, call)
        move(tx, turn, TurnStatus.PARKED)
        tell_all_queued(tx, session)
        self._say(tx, turn, str(call.arguments.get("question", "")))

    def _complete(self, tx: Tx, session: Session, turn: Turn, call: CallRow) -> Turn | None:
        if self._goes_on(tx, session, turn, call):
            return turn
        self._end(tx, turn, call, result={"completed": True})
        for other in open_calls(tx, session.id, MAIN):
            self._end(tx, turn, other, error=say("model_not_run", session.spoken))
        move(tx, turn, TurnStatus.DONE)
        restore(tx, turn)
        self._say(tx, turn, str(call.arguments.get("result", "")))
        next_turn(tx, session)
        return None

    def _goes_on(self, tx: Tx, session: Session, turn: Turn, call: CallRow) -> bool:
        """Whether the agent must hear what people said to it before the call may end its turn."""
        if not _is_steered(tx, check(tx, turn, hold=True)):
            return False
        self._end(tx, turn, call, error=f"not_heard: {say('model_not_heard', session.spoken)}")
        return True

    def _end(
        self,
        tx: Tx,
        turn: Turn,
        call: CallRow,
        *,
        result: Any = None,  # noqa: ANN401 - JSON
        error: str | None = None,
    ) -> None:
        """Give a call its one result; the caller has checked that the turn is ours."""
        status = _C.COMPLETED if error is None else _C.FAILED
        end_call(tx, open_control(tx, call), status, result=result, error=error)

    def _say(self, tx: Tx, turn: Turn, content: str) -> None:
        event = AssistantMessage(content=content, turn_id=turn.id, agent=turn.agent, is_final=True)
        log.tell(tx, turn.session_id, event)


_LOG = logging.getLogger(__name__)
_UNDER_WAY = frozenset({TurnStatus.RUNNING, TurnStatus.PARKED})
_Taken = tuple[Session, Turn, list[CallRow], ReadyCall | None]
"""A session, its turn as this job holds it, the open calls, and one call that has started."""


class Turns(Struct, frozen=True, kw_only=True):
    """Drives turns over one store."""

    store: Store
    loop: Loop
    desk: ApprovalService
    controls: Controls
    patience: float
    """Seconds to wait for a model that does not answer."""

    async def job(self, job: Job) -> None:
        """Drive one turn as far as it goes without a person."""
        taken = await self._taken(job)
        if taken is None:
            return
        session, turn, calls, begun = taken
        try:
            await self._drive(session, turn, calls, begun)
        except Superseded:
            return
        except Busy:
            # Not the turn's failure: it goes on once the database is back.
            raise
        except GonogoError as error:
            if not (
                isinstance(error, ModelFailed) and await self.store.write(self._waits, turn, error)
            ):
                await self.store.write(self._fail, turn, error.code, error.said)
        except Exception:
            _LOG.exception("turn %s failed", turn.id)
            said = say("error_internal", session.spoken, reference=turn.id)
            await self.store.write(self._fail, turn, "internal", said)

    def cancel(self, tx: Tx, turn: Turn, by: str, reason: str | None = None) -> None:
        """Stop a turn and whatever it runs or asks."""
        session = session_of(tx, turn.session_id)
        assert session is not None  # noqa: S101 - the turn names its session
        for call in open_calls(tx, turn.session_id, MAIN):
            if call.turn_id == turn.id:
                drop_call(tx, self.desk, call, say("model_cancelled", session.spoken))
        content = say("turn_cancelled", session.spoken)
        move(tx, turn, TurnStatus.CANCELLED)
        stop(tx, "turn", turn.id)
        restore(tx, turn)
        log.tell(
            tx, turn.session_id, AssistantMessage(
                content=content, turn_id=turn.id, agent=turn.agent or session.agent, is_final=True
            ),
        )  # fmt: skip
        log.note(
            tx, turn.session_id, actor=by, action="turn.cancelled", subject=turn.id,
            reason=reason,
        )  # fmt: skip
        next_turn(tx, session)

    def time_out(self, tx: Tx, turn: Turn, said: str) -> None:
        """Fail a turn whose session's time is over, or cancel it if it has not begun."""
        if turn.status is TurnStatus.QUEUED:
            self.cancel(tx, turn, RUNTIME, said)
            return
        stop(tx, "turn", turn.id)
        self._fail(tx, turn, Category.TIMEOUT, said)

    def steer(self, tx: Tx, turn_id: str, content: str, by: Principal) -> None:
        """Say something to the agent that answers; nothing else changes.

        Raises:
            Conflict: the turn has not begun, or is over.
            Refused: it cannot be said; the text says why.
        """
        turn = lock_turn(tx, turn_id)
        if turn is None or turn.status not in _UNDER_WAY:
            status = turn.status if turn else "gone"
            raise Conflict(
                "Turn {turn_id} is {turn_status}, so no agent can read this; send a new message",
                turn_id=turn_id, turn_status=status,
            )  # fmt: skip
        set_turn_steered(tx, turn)
        steer(tx, turn.session_id, MAIN, content, by, turn_id=turn.id, agent=turn.agent)

    def resume(self, tx: Tx, turn_id: str, ready: ReadyCall | None = None) -> None:
        """Go on with a turn if a person's answer was the last thing that it waited for.

        Args:
            ready: The call that was approved, if it can start at once.
        """
        turn = lock_turn(tx, turn_id)
        if turn is None or turn.status in TURN.terminal:
            return
        left = open_calls(tx, turn.session_id, MAIN)
        if self.loop.hands.whose_move(left) != "person":
            self._go_on(tx, turn, left, ready)
        elif turn.status is TurnStatus.PARKED:
            log.tell_final(tx, turn.session_id)
        else:
            _TurnOwner(turn).park(tx)

    def _go_on(self, tx: Tx, turn: Turn, left: Sequence[CallRow], ready: ReadyCall | None) -> None:
        """Go on with a turn; nobody drives a parked turn, so it is taken here for its job."""
        if turn.status is not TurnStatus.PARKED:
            wake(tx, turn)
            return
        taken = take_turn(tx, turn, TurnStatus.RUNNING)
        session = session_of(tx, turn.session_id)
        assert session is not None  # noqa: S101 - the turn names its session
        calls = take_up(tx, left, remote=session.tool_host == "client")
        begun = ready and self.loop.hands.begin(tx, self._thread(session, taken), left, ready)
        go_on(tx, "turn", turn.id, taken.epoch, found=(session, taken, calls, begun))

    # Driving ----------------------------------------------------------------------------------

    async def _taken(self, job: Job) -> _Taken | None:
        """What a job goes on with: as found when the turn was taken for it, or as it is now."""
        # With no call left, the model is asked next, and another job may have done that since.
        if job.found is not None and job.found[2]:
            return job.found
        if job.epoch:
            return await self.store.read(self._claimed, job.key, job.epoch)
        return await self.store.write(self._take, job.key)

    def _take(self, tx: Tx, turn_id: str) -> _Taken | None:
        """Take a turn and its open calls, for the job that calls this."""
        taken = self._held(tx, turn_id)
        if taken is None:
            return None
        session, turn = taken
        left = open_calls(tx, session.id, MAIN)
        return session, turn, take_up(tx, left, remote=session.tool_host == "client"), None

    def _claimed(self, tx: Tx, turn_id: str, epoch: int) -> _Taken | None:
        """Read a turn that was taken for this job; None if somebody else has taken it since."""
        turn = turn_of(tx, turn_id)
        session = session_of(tx, turn.session_id) if turn else None
        if turn is None or session is None or session.deleted:
            return None
        if turn.status is not TurnStatus.RUNNING or turn.epoch != epoch:
            return None
        return session, turn, open_calls(tx, session.id, MAIN), None

    def _held(self, tx: Tx, turn_id: str) -> tuple[Session, Turn] | None:
        turn = turn_of(tx, turn_id)
        session = session_of(tx, turn.session_id) if turn else None
        if turn is None or session is None or session.deleted:
            return None
        if turn.status is TurnStatus.RUNNING:
            return session, take_turn(tx, turn, TurnStatus.RUNNING)
        first = open_turns(tx, session.id)[:1]
        if turn.status is not TurnStatus.QUEUED or first[0].id != turn.id:
            return None
        if session.active_plan_id and not is_held(tx, session.active_plan_id):
            return None
        taken = take_turn(tx, turn, TurnStatus.RUNNING, agent=turn.agent or session.agent)
        append_message(tx, session.id, MAIN, UserText(content=turn.content), turn_id=turn.id)
        if taken.agent != session.agent:
            tell_switch(tx, taken, session.agent, taken.agent)
        return session, taken

    async def _drive(
        self, session: Session, turn: Turn, calls: list[CallRow] | None, begun: ReadyCall | None
    ) -> None:
        while True:
            step = None if calls is None else NextStep(calls=calls)
            match await self.loop.drive(self._thread(session, turn), step, begun):
                case Resting():
                    return
                case Finished(reply):
                    over = await self.store.write(self._finish, session, turn, reply)
                    goes_on = None if over else turn
                case Handed(call):
                    goes_on = await self.controls.answer(session, turn, call)
            if goes_on is None:
                return
            turn, calls, begun = goes_on, None, None

    def _thread(self, session: Session, turn: Turn) -> Thread:
        return Thread(
            **fields_from(session), name=MAIN, script=MAIN, agent=turn.agent, turn_id=turn.id,
            owner=_TurnOwner(turn), role=role_of(turn.agent),
        )  # fmt: skip

    def _waits(self, tx: Tx, turn: Turn, error: ModelFailed) -> bool:
        """Wait for a model that does not answer; False if waiting makes no sense (any more)."""
        current = turn_of(tx, turn.id)
        if not is_away(error) or current is None or current.epoch != turn.epoch:
            return False
        absence = _waiting(turn).begin(tx, current.away, error, self.patience)
        return absence is not None and set_turn_away(tx, turn, absence.as_json())

    def _finish(self, tx: Tx, session: Session, turn: Turn, reply: Reply) -> bool:
        """End a turn with its last reply; False: it goes on, as its agent has words to hear."""
        held = check(tx, turn, hold=True)
        if _is_steered(tx, held, reply.heard or 0):
            keep_reply(tx, self._thread(session, turn), reply)
            return False
        move(tx, turn, TurnStatus.DONE)
        restore(tx, turn, held)
        keep_reply(tx, self._thread(session, turn), reply, final=True)
        next_turn(tx, session)
        return True

    def _fail(self, tx: Tx, turn: Turn, code: str, said: str) -> None:
        current = turn_of(tx, turn.id)
        if current is None or current.epoch != turn.epoch or current.status in TURN.terminal:
            return
        for call in open_calls(tx, turn.session_id, MAIN):
            if call.turn_id == turn.id:
                drop_call(tx, self.desk, call, said)
        move(tx, current, TurnStatus.FAILED)
        restore(tx, turn)
        event = ErrorHappened(
            error=said, content=said, code=code, **parts_of(said), is_final=True,
            turn_id=turn.id, agent=turn.agent,
        )  # fmt: skip
        log.tell(tx, turn.session_id, event)
        session = session_of(tx, turn.session_id)
        if session is not None:
            next_turn(tx, session)


def _is_steered(tx: Tx, turn: Turn, heard: int = 0) -> bool:
    """Whether people have said something to a turn that its agent has not heard.

    Args:
        heard: How many such messages it knew when it gave a reply that is not stored yet.
    """
    return turn.steered and is_unheard(tx, turn.session_id, MAIN, heard)


def _waiting(turn: Turn) -> ModelWait:
    place = {"turn_id": turn.id, "agent": turn.agent}
    return ModelWait(session_id=turn.session_id, kind="turn", key=turn.id, place=place)


class _TurnOwner(Struct, frozen=True):
    """A turn as the owner of its conversation."""

    turn: Turn

    def check(self, tx: Tx) -> None:
        check(tx, self.turn)

    def park(self, tx: Tx) -> None:
        move(tx, self.turn, TurnStatus.PARKED)
        log.tell_final(tx, self.turn.session_id)
        session = session_of(tx, self.turn.session_id)
        if session is not None:
            tell_all_queued(tx, session)

    def is_waiting(self, tx: Tx) -> bool:
        current = turn_of(tx, self.turn.id)
        return current is not None and current.away is not None

    def answered(self, tx: Tx) -> None:
        check(tx, self.turn)
        set_turn_away(tx, self.turn, None)
        _waiting(self.turn).end(tx)
