"""One client message in, and the events that it causes out, as a stream.

What cannot be read, is not allowed or names no session has an HTTP status; every later refusal is
an answer like any other: one `error` event, and `done`.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response

from gonogo.domain.errors import (
    Forbidden,
    GonogoError,
    InvalidMessage,
    NotFound,
    PolicyDenied,
    Unauthorized,
)
from gonogo.domain.messages import ClientMessage, SwitchAgent, UserMessage, parse_message
from gonogo.domain.views import DecisionAnswer
from gonogo.server._answers import Stored, kept
from gonogo.server._bodies import Sent
from gonogo.server._body import read_body
from gonogo.server._caller import Authenticated, Caller
from gonogo.server._problems import error_event
from gonogo.server._schema import streams, takes
from gonogo.server._sse import EventBody, EventStream

if TYPE_CHECKING:
    from gonogo.runtime import Receipt

router = APIRouter(tags=["messages"])


@router.post(
    "/agent/message/stream",
    summary="Send one client message",
    responses=streams("The events that the message causes, until `is_final`, then `done`"),
    openapi_extra=takes(Sent),
)
async def send_message(caller: Authenticated) -> Response:
    """Send one client message and stream the events it causes until `is_final`."""
    sent = await read_body(caller.request, Sent)
    message = parse_message(sent.message)
    if not isinstance(message, (UserMessage, SwitchAgent)):
        await _check_session(caller, sent.session_id)

    async def outcome() -> Stored:
        return await _outcome(caller, sent.session_id, message)

    stored = await kept(caller, sent, outcome)
    return EventStream(caller, lambda: _events(caller, stored), ends=True)


async def _check_session(caller: Caller, session_id: str | None) -> None:
    if session_id is None:
        raise InvalidMessage("session_id: this message needs a session")
    await caller.runtime.session(caller.principal, session_id)


async def _outcome(caller: Caller, session_id: str | None, message: ClientMessage) -> Stored:
    """What came of a message, as it is kept for a repeat of the same request."""
    try:
        receipt = await caller.runtime.accept(caller.principal, session_id, message)
    except GonogoError as error:
        if _has_status(error, message):
            raise
        return {"refusal": error_event(error)}
    return {"receipt": _as_json(receipt)}


def _has_status(error: GonogoError, message: ClientMessage) -> bool:
    match error:
        case PolicyDenied():
            return False
        case Unauthorized() | Forbidden():
            return True
        case NotFound():
            # For the other types the session is known by now: it is the plan or the call.
            return isinstance(message, (UserMessage, SwitchAgent))
        case _:
            return False


@asynccontextmanager
async def _events(caller: Caller, stored: Stored) -> AsyncGenerator[AsyncIterator[EventBody]]:
    if "refusal" in stored:
        yield _these([stored["refusal"]])
        return
    if "receipt" not in stored:
        conflict = error_event(InvalidMessage("This key was used for another kind of request"))
        yield _these([conflict])
        return
    receipt = _receipt(stored["receipt"])
    async with caller.runtime.answer(receipt) as events:
        yield events


async def _these(events: list[dict[str, Any]]) -> AsyncIterator[EventBody]:
    for event in events:
        yield event


def _as_json(receipt: "Receipt") -> dict[str, Any]:
    return {
        "session_id": receipt.session_id,
        "after": receipt.after,
        "turn_id": receipt.turn_id,
        "plan_id": receipt.plan_id,
        "answers": [answer.model_dump(mode="json") for answer in receipt.answers],
        "created": receipt.created,
    }


def _receipt(fields: dict[str, Any]) -> "Receipt":
    # Imported late: the runtime brings every room with it, and a door must not wait for them.
    from gonogo.runtime import Receipt

    return Receipt(
        session_id=fields["session_id"],
        after=fields["after"],
        turn_id=fields["turn_id"],
        plan_id=fields["plan_id"],
        answers=tuple(DecisionAnswer.model_validate(answer) for answer in fields["answers"]),
        created=fields["created"],
    )
