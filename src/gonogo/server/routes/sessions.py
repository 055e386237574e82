"""Sessions: open, look, change, delete, send a message, and follow what happens in one."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query, Response

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
from gonogo.domain.messages import ClientMessage, Steer, SwitchAgent, UserMessage, parse_message
from gonogo.domain.plan_views import Changes
from gonogo.domain.records import SessionPlace
from gonogo.domain.views import (
    ContextView,
    History,
    PendingApprovals,
    SessionList,
    SessionRules,
    SessionRuleView,
    SessionUsage,
    SessionView,
    SteeredTurn,
    WantedSessions,
)
from gonogo.server.auth import Authenticated, Caller, Known
from gonogo.server.middleware import is_local_socket
from gonogo.server.openapi import (
    NewRule,
    NewSession,
    Sent,
    SessionChange,
    WordsToTurn,
    lists,
    streams,
    takes,
)
from gonogo.server.requests import (
    Name,
    Stored,
    WantedFiles,
    answer,
    counted,
    error_event,
    idempotency_key,
    kept,
    once,
    read_body,
    request_digest,
)
from gonogo.server.streams import EventBody, EventStream, read_cursor

if TYPE_CHECKING:
    from gonogo.runtime import Once


# Sessions: open, look, change, delete, and follow what happens in one.

router = APIRouter(prefix="/sessions", tags=["sessions"])


@router.post(
    "", status_code=201, response_model=SessionView, openapi_extra=takes(NewSession, required=False)
)
async def open_session(caller: Authenticated) -> Response:
    """Open a session."""
    body = await read_body(caller.request, NewSession)
    fields = body.model_dump(exclude_none=True)
    is_here = is_local_socket(caller.request.scope)
    opened = partial(caller.runtime.sessions.open, caller.principal, anywhere=is_here, **fields)
    return await once(caller, body, opened, 201)


@router.get("", response_model=SessionList)
async def list_sessions(
    caller: Authenticated, wanted: Annotated[WantedSessions, Query()]
) -> Response:
    """A page of the sessions, newest first, or of those with `q` in title, folder or id.

    `after` is the `next` of the page before, which holds however many come or go meanwhile.
    """
    place = SessionPlace.read(wanted.after) if wanted.after is not None else None
    return answer(
        await caller.runtime.sessions.page(
            caller.principal, wanted.limit, wanted.offset, wanted.q, state=wanted.state,
            after=place,
        )
    )  # fmt: skip


@router.get("/{session_id}", response_model=SessionView)
async def get_session(caller: Authenticated, session_id: Name) -> Response:
    """One session."""
    return answer(await caller.runtime.sessions.get(caller.principal, session_id))


@router.patch("/{session_id}", response_model=SessionView, openapi_extra=takes(SessionChange))
async def edit_session(caller: Authenticated, session_id: Name) -> Response:
    """Change a session's title or language; without one of its own it is that of what is said."""
    change = await read_body(caller.request, SessionChange)
    fields = change.model_dump(exclude_unset=True)
    return answer(await caller.runtime.sessions.edit(caller.principal, session_id, **fields))


@router.delete("/{session_id}", status_code=204)
async def delete_session(caller: Authenticated, session_id: Name) -> Response:
    """Delete a session; its id never comes back."""
    await caller.runtime.sessions.delete(caller.principal, session_id)
    return answer(None)


@router.post(
    "/{session_id}/steer",
    status_code=202,
    response_model=SteeredTurn,
    openapi_extra=takes(WordsToTurn),
)
async def steer_turn(caller: Authenticated, session_id: Name) -> Response:
    """Say something to the agent that answers; it hears it before its next request."""
    body = await read_body(caller.request, WordsToTurn)
    message = Steer(type="steer", **body.model_dump())

    async def steered() -> SteeredTurn:
        receipt = await caller.runtime.messages.accept(caller.principal, session_id, message)
        return SteeredTurn(session_id=receipt.session_id, turn_id=receipt.turn_id or "")

    return await once(caller, body, steered, 202)


@router.get("/{session_id}/history", response_model=History)
async def get_history(caller: Authenticated, session_id: Name, by_people: bool = False) -> Response:
    """A session's messages, or only what people said in it."""
    return answer(
        await caller.runtime.sessions.history(caller.principal, session_id, by_people=by_people)
    )


@router.get("/{session_id}/context", response_model=ContextView)
async def get_context(caller: Authenticated, session_id: Name) -> Response:
    """What the next request to the model would hold, by part and tokens."""
    return answer(await caller.runtime.sessions.context(caller.principal, session_id))


@router.get("/{session_id}/usage", response_model=SessionUsage)
async def get_usage(caller: Authenticated, session_id: Name) -> Response:
    """What the model requests of a session took so far."""
    return answer(await caller.runtime.sessions.usage(caller.principal, session_id))


@router.get("/{session_id}/pending-approvals", response_model=PendingApprovals)
async def get_pending(caller: Authenticated, session_id: Name) -> Response:
    """What a session waits for."""
    return answer(await caller.runtime.sessions.pending(caller.principal, session_id))


@router.post(
    "/{session_id}/rules",
    status_code=201,
    response_model=SessionRuleView,
    openapi_extra=takes(NewRule),
)
async def add_rule(caller: Authenticated, session_id: Name) -> Response:
    """Make a rule that holds in the session from now on."""
    caller.principal.require(Role.OPERATOR)
    body = await read_body(caller.request, NewRule)
    added = partial(caller.runtime.sessions.add_rule, caller.principal, session_id, body.rule)
    return await once(caller, body, added, 201)


@router.get("/{session_id}/rules", response_model=SessionRules)
async def list_rules(caller: Authenticated, session_id: Name) -> Response:
    """The rules that hold in the session."""
    rules = await caller.runtime.sessions.rules(caller.principal, session_id)
    return answer(SessionRules(rules=rules))


@router.delete("/{session_id}/rules/{rule_id}", status_code=204)
async def remove_rule(caller: Authenticated, session_id: Name, rule_id: Name) -> Response:
    """End a rule of the session; what it allowed asks again."""
    await caller.runtime.sessions.remove_rule(caller.principal, session_id, rule_id)
    return answer(None)


@router.get(
    "/{session_id}/log",
    responses=lists("A page of the session's events, oldest first"),
    response_class=Response,
)
async def get_log(
    caller: Authenticated,
    session_id: Name,
    before: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 500,
) -> Response:
    """The latest events of a session before a seq, or at its end; oldest first."""
    events = await caller.runtime.sessions.log_page(caller.principal, session_id, before, limit)
    page = ",".join(event.written for event in events)
    return Response(f'{{"events":[{page}]}}', media_type="application/json")


@router.get("/{session_id}/changes", response_model=Changes)
async def get_session_changes(
    caller: Authenticated, session_id: Name, wanted: Annotated[WantedFiles, Query()]
) -> Response:
    """What all plans of a session, and agents outside of plans, did to files."""
    changes = caller.runtime.changes
    return answer(await changes.of_session(caller.principal, session_id, **wanted.model_dump()))


@router.get(
    "/{session_id}/events",
    responses=streams("Every event of the session after a cursor, then live"),
    response_class=Response,
)
async def follow_events(
    caller: Authenticated,
    session_id: Name,
    after: str | None = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Every event of a session: what the reader missed, then live."""
    view = await caller.runtime.sessions.get(caller.principal, session_id)
    cursor = read_cursor(last_event_id or after or "0", view)
    follow = partial(caller.runtime.streams.follow, again=bool(last_event_id))
    return EventStream(caller, lambda: follow(caller.principal, session_id, cursor), ends=False)


# One client message in, and the events that it causes out, as a stream.
#
# What cannot be read, is not allowed, names no session or cannot be kept now has an HTTP status;
# every later refusal is an answer like any other: one `error` event, and `done`.

messages = APIRouter(tags=["messages"])


@messages.post(
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
