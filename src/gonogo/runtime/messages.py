"""Messages of clients: taken in, and turned into turns, decisions, results and stops."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec

from msgspec import Struct

from gonogo.domain.errors import Conflict, GonogoError, InvalidMessage, NotFound
from gonogo.domain.events import SessionInfo
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import (
    Cancel,
    ClientMessage,
    HitlDecision,
    PlanDecision,
    Steer,
    SwitchAgent,
    ToolResultMessage,
    UserMessage,
)
from gonogo.domain.records import CallRow, Session, Turn
from gonogo.domain.states import ENDED, CallStatus, SubtaskStatus, TurnStatus
from gonogo.domain.tool_calls import ToolClass
from gonogo.domain.views import DecisionAnswer
from gonogo.execution.agent import CLIENT_CALL, end_call
from gonogo.runtime.approvals import Approvals
from gonogo.runtime.services import Parts
from gonogo.runtime.sessions import SessionOpening, Sessions, seen_plan, visible
from gonogo.runtime.streams import Receipt
from gonogo.store import Tx
from gonogo.store import events as log
from gonogo.store.calls import call_of
from gonogo.store.erasing import was_erased
from gonogo.store.jobs import drop_timer
from gonogo.store.people import keep_answer as keep_row
from gonogo.store.people import kept_answer as kept_row
from gonogo.store.plans import plan_of, subtask_key, subtask_row
from gonogo.store.sessions import open_turns, session_of, turn_of

_LOG = logging.getLogger(__name__)
_C = CallStatus
P = ParamSpec("P")


# Requests that may be repeated: the answer to the first one is kept.


class Once(Struct, frozen=True, kw_only=True):
    """A request that may be repeated and is carried out once: its sender's key for it."""

    by: Principal
    key: str
    digest: str
    """Of what is asked; the same key for something else is a mistake."""


def kept_answer(tx: Tx, once: Once) -> Any:  # noqa: ANN401 - JSON
    """The answer to an earlier request with that key, or None.

    Raises:
        Conflict: the key was used for another request.
    """
    row = kept_row(tx, once.by.id, once.key)
    if row is None:
        return None
    if row.request_digest != once.digest:
        raise other_request()
    return row.answer


def keep_answer(tx: Tx, once: Once, answer: Any, about: str = "") -> None:  # noqa: ANN401 - JSON
    """Keep an answer for a repeat of its request.

    Args:
        about: The path that was asked.
    """
    row = {
        "principal_id": once.by.id, "key": once.key, "request_digest": once.digest,
        "answer": answer,
    }  # fmt: skip
    keep_row(tx, row, about)


def other_request() -> Conflict:
    """What is said of a key that stood for something else."""
    return Conflict("This Idempotency-Key was used for another request; use a new key")


class KeptAnswers(Struct, frozen=True):
    """Answers kept for repeated requests, whatever they were about."""

    _parts: Parts

    async def find(self, principal: Principal, key: str, request_digest: str) -> Any:  # noqa: ANN401
        """As `kept_answer`."""
        once = Once(by=principal, key=key, digest=request_digest)
        return await self._parts.store.read(kept_answer, once)

    async def keep(
        self,
        principal: Principal,
        key: str,
        request_digest: str,
        answer: Any,  # noqa: ANN401
        about: str = "",
    ) -> None:
        """As `keep_answer`."""
        once = Once(by=principal, key=key, digest=request_digest)
        await self._parts.store.write(keep_answer, once, answer, about)


class Messages(Struct, frozen=True):
    """The verb `accept`: any message that a client may send."""

    _parts: Parts
    _sessions: Sessions
    _approvals: Approvals

    async def accept(
        self,
        principal: Principal,
        session_id: str | None,
        message: ClientMessage,
        *,
        connection: str | None = None,
        once: Once | None = None,
    ) -> Receipt:
        """Take a message in. What it causes goes on whether or not anybody listens.

        Args:
            connection: Names the client's connection, where it has one that lasts.
            once: Makes a repeat give the first receipt again, also when the process ended
                between them. Decisions need none: a repeated one is the same decision.

        Raises:
            Refused: it cannot be; nothing has changed.
        """
        principal.require(Role.OPERATOR)
        match message:
            case UserMessage() | SwitchAgent():
                return await self._write(once, self._said, principal, session_id, message)
            case PlanDecision():
                return await self._approvals.decide(principal, message, session_id)
            case HitlDecision():
                return await self._decide_calls(principal, message, session_id)
            case ToolResultMessage():
                return await self._result(principal, session_id, message, connection, once)
            case Cancel():
                return await self._write(once, self._cancel, principal, session_id, message)
            case Steer():
                return await self._write(once, self._steer, principal, session_id, message)

    async def _write(
        self,
        once: Once | None,
        fn: Callable[Concatenate[Tx, P], Receipt],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Receipt:
        def written(tx: Tx) -> Receipt:
            known = _kept(tx, once) if once else None
            if known is not None:
                return known
            receipt = fn(tx, *args, **kwargs)
            if once is not None:
                keep_answer(tx, once, {"receipt": receipt.as_json()})
            return receipt

        return await self._parts.store.write(written)

    # What the user says -----------------------------------------------------------------------

    def _said(
        self,
        tx: Tx,
        principal: Principal,
        session_id: str | None,
        message: UserMessage | SwitchAgent,
    ) -> Receipt:
        self._check_agent(message.agent_type)
        session, created = self._session_for(tx, principal, session_id)
        if session_id is None:
            log.tell(tx, session.id, SessionInfo(session_id=session.id))
        agent = message.agent_type
        if isinstance(message, SwitchAgent):
            self._parts.inbox.switch(
                tx, session, message.agent_type, message.reason, message.confidence,
                final=not message.content,
            )  # fmt: skip
        if not message.content:
            after = log.begin_seq(tx, session.id)
            return Receipt(session_id=session.id, after=after, created=created)
        kept = self._parts.inbox.receive(tx, session, message.content, agent, principal.id)
        after = log.begin_seq(tx, session.id)
        return Receipt(
            session_id=session.id, after=after, created=created, turn_id=kept.turn_id,
            told=after + len(log.told_in(tx, session.id)),
        )  # fmt: skip

    def _session_for(
        self, tx: Tx, principal: Principal, session_id: str | None
    ) -> tuple[Session, bool]:
        if session_id and (session_of(tx, session_id) or was_erased(tx, session_id)):
            return visible(tx, principal, session_id), False
        return self._sessions.create(tx, principal, SessionOpening(session_id=session_id)), True

    def _check_agent(self, agent: str | None) -> None:
        if agent is not None and agent not in self._parts.profiles:
            known = ", ".join(sorted(self._parts.profiles))
            raise InvalidMessage(
                "agent_type: there is no agent {agent!r}; use one of {known}",
                agent=agent, known=known,
            )  # fmt: skip

    # Decisions --------------------------------------------------------------------------------

    async def _decide_calls(
        self, principal: Principal, message: HitlDecision, session_id: str | None
    ) -> Receipt:
        if message.call_ids is None:
            return await self._approvals.decide(principal, message, session_id)
        answers: list[DecisionAnswer] = []
        receipts: list[Receipt] = []
        for call_id in dict.fromkeys(message.call_ids):
            single = message.model_copy(update={"call_ids": None, "call_id": call_id})
            try:
                receipt = await self._approvals.decide(principal, single, session_id)
                receipts.append(receipt)
                answers.append(
                    DecisionAnswer(
                        id=call_id, ok=True, status=message.word, outcome=receipt.outcome
                    )
                )
            except GonogoError as error:
                answers.append(DecisionAnswer.refused(call_id, error))
        if not receipts:
            return Receipt(session_id=session_id or "", after=0, answers=tuple(answers))
        settled = max(receipt.after for receipt in receipts)
        ends = [receipt.ends for receipt in receipts]
        return replace(
            receipts[0], answers=tuple(answers), settled=settled,
            ends=max(ends) if all(ends) else 0,
        )  # fmt: skip

    # Results of clients -----------------------------------------------------------------------

    async def _result(
        self,
        principal: Principal,
        session_id: str | None,
        message: ToolResultMessage,
        connection: str | None,
        once: Once | None,
    ) -> Receipt:
        session, call = await self._parts.store.read(
            _call_in, principal, session_id, message.call_id
        )
        legacy = self._parts.settings.legacy_text_rejection and message.is_legacy_rejection
        if call.status is _C.AWAITING_APPROVAL and legacy:
            _LOG.warning("call %s was rejected by text: deprecated, use hitl_decision", call.id)
            return await self._reject_by_text(principal, call, message)
        host = await self._parts.hosts.holder(session.id)
        if host is not None and connection is not None and host != connection:
            raise Conflict("Another connection runs this session's tools; close it first")
        return await self._write(once, self._take_result, session.id, message)

    async def _reject_by_text(
        self, principal: Principal, call: CallRow, message: ToolResultMessage
    ) -> Receipt:
        _, _, feedback = (message.error or "").partition(":")
        decision = HitlDecision(
            call_id=call.id, decision="reject", feedback=feedback.strip() or None
        )
        return await self._approvals.decide(principal, decision, call.session_id)

    def _take_result(self, tx: Tx, session_id: str, message: ToolResultMessage) -> Receipt:
        session, call = session_of(tx, session_id), call_of(tx, message.call_id)
        assert session is not None and call is not None  # noqa: S101, PT018 - found just before
        _check_expects_result(session, call)
        error = message.error
        status = _C.COMPLETED if error is None else _C.FAILED
        end_call(tx, call, status, result=message.result, error=error)
        drop_timer(tx, CLIENT_CALL, call.id)
        self._parts.went_on.of_call(tx, call)
        return Receipt(
            session_id=session_id, after=log.begin_seq(tx, session_id), turn_id=call.turn_id,
            plan_id=call.plan_id,
        )  # fmt: skip

    # Stops ------------------------------------------------------------------------------------

    def _cancel(
        self, tx: Tx, principal: Principal, session_id: str | None, message: Cancel
    ) -> Receipt:
        session = visible(tx, principal, session_id or "")
        turn = _named_turn(tx, session, message.turn_id)
        if turn is not None:
            self._parts.turns.cancel(tx, turn, principal.id, message.reason)
            after = log.begin_seq(tx, session.id)
            return Receipt(session_id=session.id, after=after, turn_id=turn.id)
        plan = plan_of(tx, session.active_plan_id) if session.active_plan_id else None
        if plan is None or plan.status in ENDED:
            raise Conflict("Nothing is running in this session; there is nothing to cancel")
        self._parts.engine.controls.cancel(tx, plan.id, principal.id, message.reason)
        after = log.begin_seq(tx, session.id)
        return Receipt(session_id=session.id, after=after, plan_id=plan.id)

    # Words to who is at work ------------------------------------------------------------------

    def _steer(
        self, tx: Tx, principal: Principal, session_id: str | None, message: Steer
    ) -> Receipt:
        session = visible(tx, principal, session_id or "")
        turn = None
        if message.plan_id is not None:
            plan = seen_plan(tx, principal, message.plan_id, session.id)
            subtask = message.subtask_id or ""
            self._parts.engine.controls.steer_subtask(
                tx, plan.id, subtask, message.content, principal
            )
            row = subtask_row(tx, subtask_key(plan.id, plan.revision, subtask))
            waits = row is not None and row.status is SubtaskStatus.WAITING_APPROVAL
        else:
            turn = _named_turn(tx, session, message.turn_id)
            if turn is None:
                raise Conflict(
                    "No agent is answering now; send a message, or name a running subtask"
                )
            self._parts.turns.steer(tx, turn.id, message.content, principal)
            waits = turn.status is TurnStatus.PARKED
        after = log.begin_seq(tx, session.id)
        # Where a person has to decide first, what it told is the whole answer.
        ends = after + len(log.told_in(tx, session.id)) if waits else 0
        return Receipt(
            session_id=session.id, after=after, turn_id=turn.id if turn else None,
            plan_id=message.plan_id, ends=ends,
        )  # fmt: skip


def _named_turn(tx: Tx, session: Session, turn_id: str | None) -> Turn | None:
    """A turn of the session: the named one, or else the one that is under way, if there is one.

    Raises:
        NotFound: it has none of that id.
    """
    if turn_id is None:
        going = (t for t in open_turns(tx, session.id) if t.status is not TurnStatus.QUEUED)
        return next(going, None)
    turn = turn_of(tx, turn_id)
    if turn is None or turn.session_id != session.id:
        raise NotFound(
            "No turn found with id={turn_id}", see="gonogo sessions show SESSION", turn_id=turn_id
        )
    return turn


def _kept(tx: Tx, once: Once) -> Receipt | None:
    answer = kept_answer(tx, once)
    if answer is None:
        return None
    if "receipt" not in answer:
        raise other_request()
    return Receipt.of_json(answer["receipt"])


def _check_expects_result(session: Session, call: CallRow) -> None:
    if call.status is _C.STARTED and call.tool_class is ToolClass.CONTROL:
        raise Conflict(
            "gonogo answers call {call_id} itself; do not send a result for it", call_id=call.id
        )
    if call.status is _C.STARTED and session.tool_host == "client":
        return
    if call.status is _C.STARTED:
        raise Conflict("The server runs this session's tools; do not send results")
    if call.status in {_C.PROPOSED, _C.AWAITING_APPROVAL, _C.ALLOWED}:
        raise Conflict(
            "Call {call_id} is not approved ({call_status}); send results only for approved calls",
            call_id=call.id, call_status=call.status,
        )  # fmt: skip
    raise Conflict(
        "Call {call_id} already has a result ({call_status}); do not send another one",
        call_id=call.id, call_status=call.status,
    )  # fmt: skip


def _call_in(
    tx: Tx, principal: Principal, session_id: str | None, call_id: str
) -> tuple[Session, CallRow]:
    session = visible(tx, principal, session_id or "")
    call = call_of(tx, call_id)
    if call is None or call.session_id != session.id:
        raise NotFound(
            "No call found with id={call_id}", see="gonogo sessions show SESSION", call_id=call_id
        )
    return session, call
