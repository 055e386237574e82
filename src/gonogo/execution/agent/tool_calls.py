"""What answers about tool calls mean: the kinds `tool` and `intervention` of the desk."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from gonogo.domain.errors import Conflict, InvalidMessage
from gonogo.domain.events import CallDecision, ToolApproved, ToolRejected
from gonogo.domain.records import Approval, CallRow
from gonogo.domain.states import CallStatus, DecisionWord
from gonogo.execution.agent import call_log as record
from gonogo.execution.agent.gate import Gated, make_session_rule
from gonogo.execution.agent.questions import matter_of, question_of_call
from gonogo.execution.approvals import NOBODY, ApprovalService, Matter, Ruling
from gonogo.i18n import DEFAULT, say
from gonogo.store import Tx
from gonogo.store import events as log
from gonogo.store.calls import call_of
from gonogo.store.sessions import spoken_in

_C = CallStatus
Resume = Callable[[Tx, CallRow], None]
"""Goes on with the conversation of a call that was answered."""


class CallKind(Struct, frozen=True):
    """Answers about tool calls that wait for approval."""

    resume: Resume
    start: Resume
    """Starts the call if a client carries it out."""
    desk: ApprovalService
    """Where an edit is asked about anew that its author may not decide alone."""

    def check(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """The call still waits, and is what was asked about."""
        _waiting(tx, approval)

    def matter(self, tx: Tx, approval: Approval, ruling: Ruling) -> Matter:
        """What the call would do with its new arguments."""
        gated: Gated = ruling.prepared
        return matter_of(_call(tx, approval), gated.access)

    def ask_again(self, tx: Tx, approval: Approval, ruling: Ruling) -> Approval:
        """Ask whether the call may run with its new arguments."""
        call, gated = _call(tx, approval), ruling.prepared
        opened = self.desk.open(
            tx,
            question_of_call(call, gated, edited_by=ruling.by.name, before=approval),
            before=lambda opened: record.tell_called(tx, call, gated, opened),
        )
        record.set_call(
            tx, call, call.status, **record.gated_columns(gated), approval_id=opened.id,
            proposed_arguments=_proposed(call),
        )  # fmt: skip
        return opened

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Allow the call as shown, allow it as edited, or reject it."""
        call = _waiting(tx, approval)
        match ruling.word:
            case DecisionWord.APPROVE:
                record.pass_through(tx, call, _C.ALLOWED)
                self._tell_allowed(tx, call, ruling, call.digest, call.arguments)
                if ruling.rule is not None:
                    of_plan = call.plan_id if ruling.for_plan else None
                    make_session_rule(
                        tx, call.session_id, ruling.rule, ruling.by, of_plan, call_id=call.id
                    )
            case DecisionWord.EDIT:
                self._edit(tx, call, ruling)
            case _:
                self._reject(tx, call, ruling)
        if ruling.word is not DecisionWord.REJECT:
            self.start(tx, call)
        self.resume(tx, call)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Nobody answered: the model is told so, and not that it was rejected."""
        call = _call(tx, approval)
        locale = _locale(tx, call)
        facts = CallDecision(decision="expired", source="expiry")
        content = say("approval_expired", locale, subject=approval.subject)
        place = record.place_of(call)
        log.tell(
            tx,
            call.session_id,
            ToolRejected(call_id=call.id, content=content, metadata=facts, **place),
        )
        record.end_call(tx, call, _C.EXPIRED, error=f"expired: {say('model_expired', locale)}")
        self.resume(tx, call)

    def _edit(self, tx: Tx, call: CallRow, ruling: Ruling) -> None:
        gated: Gated = ruling.prepared
        record.pass_through(
            tx, call, _C.ALLOWED,
            **record.gated_columns(gated),
            proposed_arguments=_proposed(call),
        )  # fmt: skip
        self._tell_allowed(tx, call, ruling, gated.digest, gated.arguments)

    def _tell_allowed(
        self, tx: Tx, call: CallRow, ruling: Ruling, digest: str, arguments: dict[str, Any]
    ) -> None:
        # Also where somebody else's edit was approved: a client runs what it is told here.
        edited = ruling.word is DecisionWord.EDIT or call.proposed_arguments is not None
        facts = CallDecision(
            decision=str(ruling.word), source="person", decided_by=ruling.by.name,
            feedback=ruling.feedback, modified_arguments=arguments if edited else None,
        )  # fmt: skip
        event = ToolApproved(call_id=call.id, metadata=facts, **record.place_of(call))
        log.tell(tx, call.session_id, event)
        log.note(
            tx, call.session_id, actor=ruling.by.id, action="tool.allowed",
            subject=call.tool, call_id=call.id, digest=digest, arguments=arguments,
            proposed_arguments=_proposed(call) if edited else None,
            reason=f"approved by {ruling.by.name}", source="person", plan_id=call.plan_id,
            subtask_id=call.subtask_id,
        )  # fmt: skip

    def _reject(self, tx: Tx, call: CallRow, ruling: Ruling) -> None:
        locale = _locale(tx, call)
        facts = CallDecision(
            decision="reject", source="expiry" if ruling.by == NOBODY else "person",
            decided_by=ruling.by.name, feedback=ruling.feedback,
        )  # fmt: skip
        said = _said("tool_rejected", locale, ruling.feedback)
        event = ToolRejected(call_id=call.id, content=said, metadata=facts, **record.place_of(call))
        log.tell(tx, call.session_id, event)
        told = _said("model_rejected", locale, ruling.feedback)
        record.end_call(tx, call, _C.REJECTED, error=f"rejected: {told}")


class Interventions(Struct, frozen=True):
    """Answers about calls whose outcome is unknown, and to questions of agents in subtasks."""

    resume: Resume

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Run it again, mark it done with a result, or fail it."""
        call = _call(tx, approval)
        if call.status is _C.STARTED:
            self._answer(tx, call, ruling)
        elif call.status is _C.UNKNOWN:
            self._clear(tx, call, ruling)
        else:
            raise Conflict(f"Call {call.id} is {call.status} already")
        self.resume(tx, call)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """Nobody answered: the call failed."""
        call = _call(tx, approval)
        locale = _locale(tx, call)
        record.end_call(tx, call, _C.FAILED, error=f"expired: {say('model_expired', locale)}")
        self.resume(tx, call)

    def _clear(self, tx: Tx, call: CallRow, ruling: Ruling) -> None:
        match ruling.word:
            case DecisionWord.APPROVE:
                again = record.run_again(tx, call)
                log.note(
                    tx, call.session_id, actor=ruling.by.id, action="tool.allowed",
                    subject=call.tool, call_id=again.id, retry_of=call.id, digest=again.digest,
                    arguments=again.arguments, source="person", plan_id=call.plan_id,
                    reason=f"run again, as {ruling.by.name} decided",
                )  # fmt: skip
            case DecisionWord.EDIT:
                record.end_call(tx, call, _C.COMPLETED, result=_result(ruling))
            case _:
                told = _said("model_rejected", _locale(tx, call), ruling.feedback)
                record.end_call(tx, call, _C.FAILED, error=f"unknown: {told}")

    def _answer(self, tx: Tx, call: CallRow, ruling: Ruling) -> None:
        if ruling.word is DecisionWord.REJECT:
            told = _said("model_rejected", _locale(tx, call), ruling.feedback)
            record.end_call(tx, call, _C.FAILED, error=f"rejected: {told}")
            return
        edited = ruling.word is DecisionWord.EDIT
        answer = _result(ruling) if edited else {"answer": ruling.feedback or "yes"}
        record.end_call(tx, call, _C.COMPLETED, result=answer)


def _result(ruling: Ruling) -> Any:  # noqa: ANN401 - what the person says came of it
    changes: dict[str, Any] = ruling.changes or {}
    if set(changes) != {"result"}:
        raise InvalidMessage('An intervention is edited with modified_arguments {"result": …}')
    return changes["result"]


def _waiting(tx: Tx, approval: Approval) -> CallRow:
    call = _call(tx, approval)
    if call.status is not _C.AWAITING_APPROVAL or call.digest != approval.digest:
        raise Conflict(f"Call {call.id} is {call.status} and has changed since the question")
    return call


def _proposed(call: CallRow) -> dict[str, Any]:
    """What the model asked for."""
    return call.arguments if call.proposed_arguments is None else call.proposed_arguments


def _call(tx: Tx, approval: Approval) -> CallRow:
    call = call_of(tx, approval.call_id or "")
    assert call is not None  # noqa: S101 - approvals of these kinds always name a call
    return call


def _locale(tx: Tx, call: CallRow) -> str:
    return spoken_in(tx, call.session_id) or DEFAULT


def _said(key: str, locale: str, feedback: str | None) -> str:
    if feedback and feedback.strip():
        return say(key, locale, feedback=feedback.strip())
    return say(f"{key}_default", locale)
