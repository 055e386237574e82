"""The rows of tool calls, and what answers about calls mean."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.base import digest, elapsed
from gonogo.domain.errors import Conflict, InvalidMessage, ToolFailed, because
from gonogo.domain.events import (
    CallDecision,
    CallFacts,
    ResultFacts,
    ToolApproved,
    ToolCalled,
    ToolRejected,
    ToolResulted,
)
from gonogo.domain.paths import is_secret
from gonogo.domain.records import Approval, CallRow
from gonogo.domain.states import CALL, GUARDED_NAMES, ApprovalStatus, CallStatus, DecisionWord
from gonogo.domain.tool_calls import Reply, ToolAnswer, ToolClass
from gonogo.execution.agent.conversation import Aliases, Thread, aliases_of, explorers_of
from gonogo.execution.agent.gate import Gated, make_session_rule
from gonogo.execution.agent.questions import matter_of, question_of_call, question_of_doubt
from gonogo.execution.approvals import NOBODY, ApprovalService, Matter, Ruling
from gonogo.i18n import DEFAULT, say, told
from gonogo.policy import CONTROL
from gonogo.store import Tx, new_id
from gonogo.store import events as log
from gonogo.store.calls import (
    add_calls,
    approval_of_call,
    call_of,
    move_call,
    next_position,
    open_calls,
    set_call,
)
from gonogo.store.plans import look_later
from gonogo.store.sessions import session_of, spoken_in
from gonogo.tools import EXPLORE, changed_lines

_C = CallStatus
_PATHS = ("path", "source", "destination")
_WIRE = {
    _C.COMPLETED: "completed",
    _C.REJECTED: "rejected",
    _C.EXPIRED: "expired",
    _C.UNKNOWN: "unknown",
}


def propose(tx: Tx, thread: Thread, reply: Reply) -> None:
    """Store the calls of a reply, each under its own id, before any of them runs."""
    first = next_position(tx, thread.session_id, thread.name)
    add_calls(
        tx,
        [
            _proposed(
                thread, request.id, request.name, request.arguments, request.problem, at, tx.now
            )
            for at, request in enumerate(reply.calls, start=first)
        ],
    )


def _proposed(
    thread: Thread,
    call_id: str,
    tool: str,
    arguments: dict[str, Any] | None,
    problem: str | None,
    position: int,
    now: datetime,
) -> CallRow:
    return CallRow(
        id=call_id, session_id=thread.session_id, thread=thread.name, turn_id=thread.turn_id,
        plan_id=thread.plan_id, revision=thread.revision, subtask_id=thread.subtask_id,
        position=position, agent=thread.agent, tool=tool, tool_class=ToolClass.OTHER,
        arguments=arguments or {}, proposed_arguments=None, base_hashes={}, effects=[],
        digest=digest({"tool": tool, "arguments": arguments}), status=_C.PROPOSED,
        verdict={"problem": problem or "no arguments"} if arguments is None else {},
        approval_id=None, retry_of=None, result=None, error=None, created_at=now,
        started_at=None, finished_at=None,
    )  # fmt: skip


def gated_columns(gated: Gated) -> dict[str, Any]:
    """What the gate found out about a call, as columns of its row."""
    return {
        "tool_class": gated.tool_class,
        "arguments": gated.arguments,
        "base_hashes": gated.base_hashes,
        "effects": [effect.model_dump(mode="json") for effect in gated.effects],
        "digest": gated.digest,
        "verdict": gated.verdict.model_dump(mode="json", exclude_none=True),
    }


def pass_through(tx: Tx, call: CallRow, *path: CallStatus, **to: Any) -> bool:  # noqa: ANN401
    """Move a call along several legal moves in one statement."""
    state = call.status
    for step in path:
        state = CALL.check(state, step, call.id)
    return set_call(tx, call, state, **to)


def tell_called(
    tx: Tx,
    call: CallRow,
    gated: Gated,
    approval: Approval | None = None,
    *,
    runs: bool = True,
) -> None:
    """Tell that a call was requested: it runs now, waits for a person, or does not run.

    A client that carries out tools runs every call that requires no approval.
    """
    added, removed = changed_lines(gated.preview) if gated.effects else (None, None)
    facts = CallFacts(
        lines_added=added,
        lines_removed=removed,
        digest=gated.digest,
        reason=gated.verdict.reason,
        tool_class=gated.tool_class,
        decision=gated.verdict.decision,
        source=gated.verdict.source,
        approval_id=approval.id if approval else None,
        expires_at=approval.expires_at if approval else None,
    )
    event = ToolCalled(
        call_id=call.id, tool_name=call.tool, arguments=gated.arguments,
        requires_approval=approval is not None or not runs, metadata=facts, **place_of(call),
    )  # fmt: skip
    log.tell(tx, call.session_id, event)


def note_allowed(tx: Tx, call: CallRow, gated: Gated, locale: str | None = None) -> None:
    """Record in the audit log why a call may run without a person's answer.

    This is part of the transaction that starts the call, so no call runs without its entry.
    """
    reason = gated.verdict.reason
    if gated.verdict.source == "grant":
        granted = because(
            "auto-approved tool {tool}, plan {plan_id}: {why}",
            tool=call.tool, plan_id=call.plan_id, why=reason,
        )  # fmt: skip
        reason = told(granted, locale)
    log.note(
        tx, call.session_id, actor=f"agent:{call.agent}", action="tool.allowed",
        subject=call.tool, call_id=call.id, digest=gated.digest, arguments=gated.arguments,
        reason=reason, rule=gated.verdict.rule, source=gated.verdict.source,
        plan_id=call.plan_id, subtask_id=call.subtask_id,
    )  # fmt: skip


def stop_stale(tx: Tx, call: CallRow, error: str | None) -> None:
    """End a call that a person allowed and that can no longer run as it was allowed.

    If it was to replace another call, that is proposed anew, as it would run now.
    """
    log.note(
        tx, call.session_id, actor=f"agent:{call.agent}", action="tool.stale",
        subject=call.tool, call_id=call.id, digest=call.digest, reason=error,
        plan_id=call.plan_id, subtask_id=call.subtask_id,
    )  # fmt: skip
    # This does not end the call that it was to replace.
    end_call(tx, replace(call, retry_of=None), _C.FAILED, error=error)
    if call.retry_of is not None:
        _in_place_of(tx, call, status=_C.PROPOSED, approval_id=None)


def note_network(tx: Tx, call: CallRow, result: Any) -> None:  # noqa: ANN401 - JSON
    """Record what a command reached and what it was refused, if it had a network."""
    found: dict[str, Any] | None = result and result.get("network")
    if call.tool == "execute_command" and found:
        log.note(
            tx, call.session_id, actor=f"agent:{call.agent}", action="tool.network",
            subject=call.tool, call_id=call.id, digest=call.digest, plan_id=call.plan_id,
            subtask_id=call.subtask_id, **found,
        )  # fmt: skip


def deny(tx: Tx, call: CallRow, gated: Gated) -> None:
    """End a call that may not run, with the reason for the model."""
    tell_called(tx, call, gated, runs=not is_remote(tx, call))
    log.note(
        tx, call.session_id, actor=f"agent:{call.agent}", action="tool.denied",
        subject=call.tool, call_id=call.id, arguments=gated.arguments,
        reason=gated.verdict.reason, rule=gated.verdict.rule,
    )  # fmt: skip
    end_call(tx, call, _C.DENIED, error=gated.error, **gated_columns(gated))


def end_call(
    tx: Tx,
    call: CallRow,
    status: CallStatus,
    *,
    result: Any = None,  # noqa: ANN401 - JSON
    error: str | None = None,
    **to: Any,  # noqa: ANN401 - columns
) -> bool:
    """Write a call's only result; False if it had one already."""
    if not move_call(tx, call, status, result=result, error=error, finished_at=tx.now, **to):
        return False
    tell_end(tx, call, status, result=result, error=error)
    return True


def tell_end(
    tx: Tx,
    call: CallRow,
    status: CallStatus,
    *,
    result: Any = None,  # noqa: ANN401 - JSON
    error: str | None = None,
) -> None:
    """Tell a call's outcome; unless it is unknown, a call that it replaced ends the same way."""
    took = elapsed(call.started_at, tx.now) * 1000 if call.started_at else None
    facts = ResultFacts(
        status=_WIRE.get(status, "failed"), duration_ms=took,
        resolution=True if call.status is _C.UNKNOWN else None,
    )  # fmt: skip
    event = ToolResulted(
        call_id=call.id, tool_name=call.tool, result=result, error=error, metadata=facts,
        **place_of(call),
    )  # fmt: skip
    log.tell(tx, call.session_id, event)
    if call.retry_of is not None and status is not _C.UNKNOWN:
        _end_original(tx, call.retry_of, status, result=result, error=error)


def open_control(tx: Tx, call: CallRow) -> CallRow:
    """Start a call that speaks to the runtime; it needs nobody's approval."""
    if call.status is _C.STARTED:
        return call
    gated = Gated(
        tool=call.tool, tool_class=ToolClass.CONTROL, arguments=call.arguments, verdict=CONTROL,
        digest=call.digest, base_hashes={},
    )  # fmt: skip
    pass_through(tx, call, _C.ALLOWED, _C.STARTED, started_at=tx.now, **gated_columns(gated))
    tell_called(tx, call, gated)
    note_allowed(tx, call, gated)
    opened = call_of(tx, call.id)
    assert opened is not None  # noqa: S101 - updated above
    return opened


def drop_call(tx: Tx, desk: ApprovalService, call: CallRow, error: str) -> None:
    """End a call whose owner goes away, and the question about it."""
    approval = approval_of_call(tx, call.id)
    # Files that a command has left are there even if its owner goes away: that question stays.
    ends = approval is not None and approval.details.get("about") != GUARDED_NAMES
    if approval is not None and ends and approval.status is ApprovalStatus.PENDING:
        desk.withdraw(tx, approval)
    look_later(tx, call.id)
    if call.tool == EXPLORE:
        for thread in explorers_of(call.thread, call.id):
            for each in open_calls(tx, call.session_id, thread):
                drop_call(tx, desk, each, error)
    if call.status is _C.PROPOSED:
        _tell_bare(tx, call, error, runs=not is_remote(tx, call))
    ended = _C.FAILED if call.status is _C.UNKNOWN else _C.CANCELLED
    end_call(tx, call, ended, error=error)


def doubt(tx: Tx, desk: ApprovalService, call: CallRow, why: str, locale: str) -> None:
    """Record that the outcome of a call is unknown, and ask a person."""
    pass_through(tx, call, _C.UNKNOWN, result=None, error=None)
    unknown = say("model_unknown", locale, why=told(why, locale))
    tell_end(tx, call, _C.UNKNOWN, error=unknown)
    desk.open(tx, question_of_doubt(call, why, locale))


def run_again(tx: Tx, call: CallRow) -> CallRow:
    """Add a call that replaces one whose outcome is unknown."""
    again = _in_place_of(tx, call, status=_C.ALLOWED, retry_of=call.id)
    _tell_bare(tx, again, f"in the place of {call.id}")
    return again


def _in_place_of(tx: Tx, call: CallRow, **to: Any) -> CallRow:  # noqa: ANN401 - columns
    position = next_position(tx, call.session_id, call.thread)
    other = replace(
        call, id=new_id("call"), position=position, judgings=0, created_at=tx.now,
        started_at=None, finished_at=None, **to,
    )  # fmt: skip
    add_calls(tx, [other])
    return other


_NO_NAMES = Aliases()


def answer_of(call: CallRow, locale: str, aliases: Aliases = _NO_NAMES) -> ToolAnswer:
    """A call's result as the model gets it."""
    if call.error is not None:
        said = aliases.told(call.error)
        return ToolAnswer(call_id=call.id, tool_name=call.tool, content=said, is_error=True)
    if call.finished_at is None:
        lost = say("model_lost", locale)
        return ToolAnswer(call_id=call.id, tool_name=call.tool, content=lost, is_error=True)
    return ToolAnswer(
        call_id=call.id,
        tool_name=call.tool,
        content=json.dumps(aliases.told_result(call, came_of(call)), ensure_ascii=False),
    )


def came_of(call: CallRow) -> Any:  # noqa: ANN401 - JSON
    """A call's result for the model, without its duration, which differs each time."""
    result: object = call.result if call.error is None else call.error
    if not isinstance(result, dict):
        return result
    fields = cast("dict[str, Any]", result)
    return {name: value for name, value in fields.items() if name != "duration_seconds"}


def is_remote(tx: Tx, call: CallRow) -> bool:
    """Whether a client carries out the tools of the call's session."""
    session = session_of(tx, call.session_id)
    return session is not None and session.tool_host == "client"


def _tell_bare(tx: Tx, call: CallRow, reason: str, *, runs: bool = True) -> None:
    """Tell that a call was requested that the gate does not judge, before its result is told."""
    facts = CallFacts(digest=call.digest, reason=reason, tool_class=call.tool_class)
    event = ToolCalled(
        call_id=call.id, tool_name=call.tool, arguments=call.arguments,
        requires_approval=not runs, metadata=facts, **place_of(call),
    )  # fmt: skip
    log.tell(tx, call.session_id, event)


def _end_original(
    tx: Tx,
    call_id: str,
    status: CallStatus,
    *,
    result: Any,  # noqa: ANN401
    error: str | None,
) -> None:
    original = call_of(tx, call_id)
    if original is None or original.status is not _C.UNKNOWN:
        return
    ended = _C.COMPLETED if status is _C.COMPLETED else _C.FAILED
    move_call(tx, original, ended, result=result, error=error, finished_at=tx.now)
    if original.retry_of is not None:
        _end_original(tx, original.retry_of, status, result=result, error=error)


def place_of(call: CallRow) -> dict[str, Any]:
    """The fields by which events name where a call belongs."""
    return {
        "turn_id": call.turn_id,
        "plan_id": call.plan_id,
        "subtask_id": call.subtask_id,
        "agent": call.agent,
    }


# What answers about tool calls mean: the kinds `tool` and `intervention` of the desk.
Resume = Callable[[Tx, CallRow], None]
"""Goes on with the conversation of a call that was answered."""
ResumeReady = Callable[[Tx, CallRow, Any], None]
"""The same; also gets the call that is ready to start, or None."""


class CallKind(Struct, frozen=True):
    """Answers about tool calls that wait for approval."""

    resume: ResumeReady
    start: Resume
    """Starts the call if a client carries it out."""
    desk: ApprovalService
    """Opens a new question about an edit that its author may not decide alone."""

    def check(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Check that the call still waits, and is the one that was asked about."""
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
            before=lambda opened: tell_called(tx, call, gated, opened),
        )
        set_call(
            tx, call, call.status, **gated_columns(gated), approval_id=opened.id,
            proposed_arguments=_as_proposed(call),
        )  # fmt: skip
        return opened

    def settle(self, tx: Tx, approval: Approval, ruling: Ruling) -> None:
        """Allow the call as shown, allow it as edited, or reject it."""
        call = _waiting(tx, approval)
        match ruling.word:
            case DecisionWord.APPROVE:
                pass_through(tx, call, _C.ALLOWED)
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
        self.resume(tx, call, ruling.prepared if ruling.word is DecisionWord.APPROVE else None)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """End the call as expired: the model learns that nobody answered, not that they refused."""
        call = _call(tx, approval)
        locale = _locale(tx, call)
        facts = CallDecision(decision="expired", source="expiry")
        content = say("approval_expired", locale, subject=approval.subject)
        place = place_of(call)
        log.tell(
            tx,
            call.session_id,
            ToolRejected(call_id=call.id, content=content, metadata=facts, **place),
        )
        end_call(tx, call, _C.EXPIRED, error=f"expired: {say('model_expired', locale)}")
        self.resume(tx, call, None)

    def _edit(self, tx: Tx, call: CallRow, ruling: Ruling) -> None:
        gated: Gated = ruling.prepared
        pass_through(
            tx, call, _C.ALLOWED,
            **gated_columns(gated),
            proposed_arguments=_as_proposed(call),
        )  # fmt: skip
        self._tell_allowed(tx, call, ruling, gated.digest, gated.arguments)

    def _tell_allowed(
        self, tx: Tx, call: CallRow, ruling: Ruling, digest: str, arguments: dict[str, Any]
    ) -> None:
        # Also if somebody else's edit was approved: a client runs the arguments of this event.
        edited = ruling.word is DecisionWord.EDIT or call.proposed_arguments is not None
        facts = CallDecision(
            decision=str(ruling.word), source="person", decided_by=ruling.by.name,
            feedback=ruling.feedback, modified_arguments=arguments if edited else None,
        )  # fmt: skip
        event = ToolApproved(call_id=call.id, metadata=facts, **place_of(call))
        log.tell(tx, call.session_id, event)
        log.note(
            tx, call.session_id, actor=ruling.by.id, action="tool.allowed",
            subject=call.tool, call_id=call.id, digest=digest, arguments=arguments,
            proposed_arguments=_as_proposed(call) if edited else None,
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
        event = ToolRejected(call_id=call.id, content=said, metadata=facts, **place_of(call))
        log.tell(tx, call.session_id, event)
        told = _said("model_rejected", locale, ruling.feedback)
        end_call(tx, call, _C.REJECTED, error=f"rejected: {told}")


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
            raise Conflict(
                "Call {call_id} is already {call_status}; there is nothing left to decide",
                call_id=call.id,
                call_status=call.status,
            )
        self.resume(tx, call)

    def lapse(self, tx: Tx, approval: Approval) -> None:
        """End the call as failed, as nobody answered."""
        call = _call(tx, approval)
        locale = _locale(tx, call)
        end_call(tx, call, _C.FAILED, error=f"expired: {say('model_expired', locale)}")
        self.resume(tx, call)

    def _clear(self, tx: Tx, call: CallRow, ruling: Ruling) -> None:
        match ruling.word:
            case DecisionWord.APPROVE:
                again = run_again(tx, call)
                log.note(
                    tx, call.session_id, actor=ruling.by.id, action="tool.allowed",
                    subject=call.tool, call_id=again.id, retry_of=call.id, digest=again.digest,
                    arguments=again.arguments, source="person", plan_id=call.plan_id,
                    reason=f"run again, as {ruling.by.name} decided",
                )  # fmt: skip
            case DecisionWord.EDIT:
                end_call(tx, call, _C.COMPLETED, result=_result(ruling))
            case _:
                told = _said("model_rejected", _locale(tx, call), ruling.feedback)
                end_call(tx, call, _C.FAILED, error=f"unknown: {told}")

    def _answer(self, tx: Tx, call: CallRow, ruling: Ruling) -> None:
        if ruling.word is DecisionWord.REJECT:
            told = _said("model_rejected", _locale(tx, call), ruling.feedback)
            end_call(tx, call, _C.FAILED, error=f"rejected: {told}")
            return
        edited = ruling.word is DecisionWord.EDIT
        answer = _result(ruling) if edited else {"answer": ruling.feedback or "yes"}
        end_call(tx, call, _C.COMPLETED, result=answer)


def _result(ruling: Ruling) -> Any:  # noqa: ANN401 - what the person says came of it
    changes: dict[str, Any] = ruling.changes or {}
    if set(changes) != {"result"}:
        raise InvalidMessage(
            "An intervention is edited with modified_arguments {shape}", shape='{"result": …}'
        )
    return changes["result"]


def _waiting(tx: Tx, approval: Approval) -> CallRow:
    call = _call(tx, approval)
    if call.status is not _C.AWAITING_APPROVAL or call.digest != approval.digest:
        raise Conflict(
            "Call {call_id} has changed since the question was asked ({call_status}); open the "
            "question again",
            call_id=call.id, call_status=call.status,
        )  # fmt: skip
    return call


def _as_proposed(call: CallRow) -> dict[str, Any]:
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


def result_again(tx: Tx, thread: Thread, call_id: str) -> Any:  # noqa: ANN401 - JSON
    """The result of a call of the same conversation, as its model gets it.

    Raises:
        ToolFailed: there is none, or the call named a file that may contain secrets.
    """
    call = _readable(tx, thread, call_id)
    if call is None:
        raise ToolFailed(
            "not_found", "This conversation has no result of {call_id!r}", call_id=call_id
        )
    secrets = [path for path in _named_paths(call) if is_secret(path)]
    if secrets:
        raise ToolFailed(
            "secret",
            "{path!r} may contain secrets: use {tool} again",
            path=secrets[0],
            tool=call.tool,
        )
    return aliases_of(tx, thread).told_result(call, came_of(call))


def _readable(tx: Tx, thread: Thread, call_id: str) -> CallRow | None:
    """A finished call of this conversation, if its session is not deleted."""
    call, session = call_of(tx, call_id), session_of(tx, thread.session_id)
    if call is None or session is None or session.deleted or call.finished_at is None:
        return None
    same = (call.session_id, call.thread) == (thread.session_id, thread.name)
    return call if same else None


def _named_paths(call: CallRow) -> list[str]:
    return [str(call.arguments[n]) for n in _PATHS if isinstance(call.arguments.get(n), str)]
