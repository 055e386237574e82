"""One client message in, and the events that it causes out, as a stream.

What cannot be read, is not allowed, names no session or cannot be kept now has an HTTP status;
every later refusal is an answer like any other: one `error` event, and `done`.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response

from gonogo.domain.errors import (
    Busy,
    Forbidden,
    GonogoError,
    InvalidMessage,
    NotFound,
    PolicyDenied,
    Unauthorized,
)
from gonogo.domain.identity import Role
from gonogo.domain.messages import ClientMessage, SwitchAgent, UserMessage, parse_message
from gonogo.server.auth import Caller, Known
from gonogo.server.bodies import Sent
from gonogo.server.openapi import streams, takes
from gonogo.server.problems import error_event
from gonogo.server.requests import Stored, counted, idempotency_key, kept, read_body, request_digest
from gonogo.server.sse import EventBody, EventStream

if TYPE_CHECKING:
    from gonogo.runtime import Once


router = APIRouter(tags=["messages"])


@router.post(
    "/agent/message/stream",
    summary="Send one client message",
    responses=streams("The events that the message causes, until `is_final`, then `done`"),
    openapi_extra=takes(Sent),
)
async def send_message(caller: Known) -> Response:
    """Send one client message and stream the events it causes until `is_final`."""
    sent, message = await _read(caller)
    if not isinstance(message, (UserMessage, SwitchAgent)):
        await _check_session(caller, sent.session_id)

    async def outcome() -> Stored:
        return await _outcome(caller, sent, message)

    stored = await kept(caller, sent, outcome)
    return EventStream(caller, lambda: _events(caller, stored), ends=True)


async def _read(caller: Caller) -> tuple[Sent, ClientMessage]:
    # What is read decides in which bucket the request counts; a repeat counts again.
    with counted(caller.door.rates, caller.principal) as count:
        # Before anything is read or looked up: who may not speak learns nothing by speaking.
        caller.principal.require(Role.OPERATOR)
        sent = await read_body(caller.request, Sent)
        return sent, count(parse_message(sent.message))


async def _check_session(caller: Caller, session_id: str | None) -> None:
    if session_id is None:
        raise InvalidMessage("session_id: this message needs a session")
    await caller.runtime.sessions.get(caller.principal, session_id)


async def _outcome(caller: Caller, sent: Sent, message: ClientMessage) -> Stored:
    """What came of a message, as it is kept for a repeat of the same request."""
    try:
        receipt = await caller.runtime.messages.accept(
            caller.principal, sent.session_id, message, once=_once(caller, sent)
        )
    except GonogoError as error:
        if _has_status(error, message):
            raise
        return {"refusal": error_event(error)}
    return {"receipt": receipt.as_json()}


def _once(caller: Caller, sent: Sent) -> "Once | None":
    # Imported late: the runtime brings every room with it, and a door must not wait for them.
    from gonogo.runtime import Once

    key = idempotency_key(caller.request)
    if key is None:
        return None
    return Once(by=caller.principal, key=key, digest=request_digest(caller.request, sent))


def _has_status(error: GonogoError, message: ClientMessage) -> bool:
    match error:
        case PolicyDenied():
            return False
        case Unauthorized() | Forbidden() | Busy():
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
        conflict = error_event(
            InvalidMessage(
                "This Idempotency-Key was used for another kind of request; use a new key"
            )
        )
        yield _these([conflict])
        return
    from gonogo.runtime import Receipt

    async with caller.runtime.streams.answer(Receipt.of_json(stored["receipt"])) as events:
        yield events


async def _these(events: list[dict[str, Any]]) -> AsyncIterator[EventBody]:
    for event in events:
        yield event
