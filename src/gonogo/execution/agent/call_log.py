"""Writing tool calls down: each function is a part of one transaction."""

import json
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from gonogo.domain.events import CallFacts, ResultFacts, ToolCalled, ToolResulted
from gonogo.domain.records import Approval, CallRow
from gonogo.domain.schedule import elapsed
from gonogo.domain.states import CALL, GUARDED_NAMES, ApprovalStatus, CallStatus
from gonogo.domain.strict_json import digest
from gonogo.domain.tool_calls import Reply, ToolAnswer, ToolClass
from gonogo.execution.agent.conversation import Thread
from gonogo.execution.agent.gate import Gated
from gonogo.execution.agent.questions import question_of_doubt
from gonogo.execution.approvals import ApprovalService
from gonogo.i18n import say, told
from gonogo.policy import CONTROL
from gonogo.store import Tx, new_id
from gonogo.store import events as log
from gonogo.store.calls import (
    add_calls,
    approval_of_call,
    call_of,
    move_call,
    next_position,
    set_call,
)
from gonogo.store.plans import look_later
from gonogo.store.sessions import session_of

_C = CallStatus
_WIRE = {
    _C.COMPLETED: "completed",
    _C.REJECTED: "rejected",
    _C.EXPIRED: "expired",
    _C.UNKNOWN: "unknown",
}


def propose(tx: Tx, thread: Thread, reply: Reply) -> None:
    """Keep the calls of a reply, each under an id of our own, before any of them runs."""
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
    """A call was requested: runs now, waits for a person, or does not run.

    A client that carries out tools runs whatever requires no approval.
    """
    facts = CallFacts(
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


def note_allowed(tx: Tx, call: CallRow, gated: Gated) -> None:
    """Why a call may run without a person's answer.

    In the transaction that starts the call, so that none has run without its entry.
    """
    reason = gated.verdict.reason
    if gated.verdict.source == "grant":
        reason = f"auto-approved tool {call.tool}, plan {call.plan_id}: {reason}"
    log.note(
        tx, call.session_id, actor=f"agent:{call.agent}", action="tool.allowed",
        subject=call.tool, call_id=call.id, digest=gated.digest, arguments=gated.arguments,
        reason=reason, rule=gated.verdict.rule, source=gated.verdict.source,
        plan_id=call.plan_id, subtask_id=call.subtask_id,
    )  # fmt: skip


def note_stale(tx: Tx, call: CallRow, reason: str | None) -> None:
    """Why a call that a person allowed does not run."""
    log.note(
        tx, call.session_id, actor=f"agent:{call.agent}", action="tool.stale",
        subject=call.tool, call_id=call.id, digest=call.digest, reason=reason,
        plan_id=call.plan_id, subtask_id=call.subtask_id,
    )  # fmt: skip


def note_network(tx: Tx, call: CallRow, result: Any) -> None:  # noqa: ANN401 - JSON
    """What a command reached and what it was refused, if it had a network."""
    found: dict[str, Any] | None = result and result.get("network")
    if call.tool == "execute_command" and found:
        log.note(
            tx, call.session_id, actor=f"agent:{call.agent}", action="tool.network",
            subject=call.tool, call_id=call.id, digest=call.digest, plan_id=call.plan_id,
            subtask_id=call.subtask_id, **found,
        )  # fmt: skip


def deny(tx: Tx, call: CallRow, gated: Gated) -> None:
    """A call may not run, and the model is told why."""
    tell_called(tx, call, gated, runs=not is_remote(tx, call))
    move_call(tx, call, _C.DENIED, error=gated.error, finished_at=tx.now, **gated_columns(gated))
    log.note(
        tx, call.session_id, actor=f"agent:{call.agent}", action="tool.denied",
        subject=call.tool, call_id=call.id, arguments=gated.arguments,
        reason=gated.verdict.reason, rule=gated.verdict.rule,
    )  # fmt: skip
    tell_result(tx, call, _C.DENIED, error=gated.error)


def end_call(
    tx: Tx,
    call: CallRow,
    status: CallStatus,
    *,
    result: Any = None,  # noqa: ANN401 - JSON
    error: str | None = None,
    **to: Any,  # noqa: ANN401 - columns
) -> bool:
    """Write a call's one result. False when it had one already."""
    if not move_call(tx, call, status, result=result, error=error, finished_at=tx.now, **to):
        return False
    tell_result(tx, call, status, result=result, error=error)
    if call.retry_of is not None:
        _end_original(tx, call.retry_of, status, result=result, error=error)
    return True


def tell_result(
    tx: Tx,
    call: CallRow,
    status: CallStatus,
    *,
    result: Any = None,  # noqa: ANN401 - JSON
    error: str | None = None,
) -> None:
    """A call has its result."""
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


def open_control(tx: Tx, call: CallRow) -> CallRow:
    """A call that speaks to the runtime is being answered; it needs nobody's approval."""
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
    # What a command has left is there, whatever becomes of who ran it.
    ends = approval is not None and approval.details.get("about") != GUARDED_NAMES
    if approval is not None and ends and approval.status is ApprovalStatus.PENDING:
        desk.withdraw(tx, approval)
    look_later(tx, call.id)
    if call.status is _C.PROPOSED:
        _tell_bare(tx, call, error, runs=not is_remote(tx, call))
    ended = _C.FAILED if call.status is _C.UNKNOWN else _C.CANCELLED
    end_call(tx, call, ended, error=error)


def doubt(tx: Tx, desk: ApprovalService, call: CallRow, why: str, locale: str) -> None:
    """Write down that nobody knows what came of a call, and ask a person."""
    pass_through(tx, call, _C.UNKNOWN, result=None, error=None)
    unknown = say("model_unknown", locale, why=told(why, locale))
    tell_result(tx, call, _C.UNKNOWN, error=unknown)
    desk.open(tx, question_of_doubt(call, why, locale))


def run_again(tx: Tx, call: CallRow) -> CallRow:
    """A new call in the place of one whose outcome is not known."""
    position = next_position(tx, call.session_id, call.thread)
    again = replace(
        call, id=new_id("call"), position=position, status=_C.ALLOWED, retry_of=call.id, judgings=0,
        created_at=tx.now, started_at=None, finished_at=None,
    )  # fmt: skip
    add_calls(tx, [again])
    _tell_bare(tx, again, f"in the place of {call.id}")
    return again


def answer_of(call: CallRow, locale: str) -> ToolAnswer:
    """A call's result as the model is told."""
    if call.error is not None:
        return ToolAnswer(call_id=call.id, tool_name=call.tool, content=call.error, is_error=True)
    if call.finished_at is None:
        lost = say("model_lost", locale)
        return ToolAnswer(call_id=call.id, tool_name=call.tool, content=lost, is_error=True)
    return ToolAnswer(
        call_id=call.id,
        tool_name=call.tool,
        content=json.dumps(call.result, ensure_ascii=False),
    )


def is_remote(tx: Tx, call: CallRow) -> bool:
    """Whether a client carries out the tools of the call's session."""
    session = session_of(tx, call.session_id)
    return session is not None and session.tool_host == "client"


def _tell_bare(tx: Tx, call: CallRow, reason: str, *, runs: bool = True) -> None:
    """A call was requested that the gate is not asked about, so that its result has a request."""
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
