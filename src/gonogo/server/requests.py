"""A request's body: JSON, strictly, within a limit of bytes and of seconds.

The limit is checked while reading, so an endless body is never kept.
"""

import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, StringConstraints
from starlette.exceptions import HTTPException

from gonogo.domain.base import MAX_BYTES, digest, loads
from gonogo.domain.errors import (
    AlreadyDecided,
    Busy,
    Conflict,
    GonogoError,
    InvalidMessage,
    InvalidPlan,
    NotFound,
    Reason,
    Refused,
    TooLarge,
    UnsupportedMedia,
    because,
    mistake_of,
    parts_of,
)
from gonogo.domain.identity import Principal
from gonogo.domain.messages import (
    Cancel,
    ClientMessage,
    HitlDecision,
    PlanDecision,
    SwitchAgent,
    UserMessage,
    possible,
    validated,
)
from gonogo.server.auth import Bucket, Caller, Rates, TooFast, door_of

# Errors as `application/problem+json`: one shape for every status, and no traceback.
#
# `code` is the word of docs/reference/protocol.md §3; `template` and `params` let a client say the
# error in its person's language; whatever else the sender can act on (who decided, where the thing
# stands now) is a further member.

_CODES = {400: "invalid_message", 401: "unauthorized", 403: "forbidden", 404: "not_found"}
_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},
    413: {"Connection": "close"},
    429: {"Retry-After": "60"},
}


class SlowBody(Refused):
    """The body did not arrive in time."""

    status = 408


def problem(status: int, code: str, detail: str, **members: Any) -> Response:  # noqa: ANN401
    """An error as the answer to a request.

    Args:
        members: What else the sender can act on; ready for JSON.
    """
    body = {
        "type": f"urn:gonogo:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        **members,
    }
    return written(status, json.dumps(body, ensure_ascii=False))


def written(status: int, text: str) -> Response:
    """An error as an answer, from JSON that is already written."""
    return Response(
        text.encode(errors="backslashreplace"),
        status_code=status,
        headers=dict(_HEADERS.get(status, {})),
        media_type="application/problem+json",
    )


def problem_of(error: GonogoError, **members: Any) -> Response:  # noqa: ANN401
    """One of gonogo's errors as the answer to a request."""
    facts = {**_parts_of(error.said), **_facts(error)}
    answer = problem(error.status, error.code, str(error), **facts, **members)
    if isinstance(error, TooFast):
        answer.headers["Retry-After"] = str(error.seconds)
    if isinstance(error, Busy):
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer


def _parts_of(said: str) -> dict[str, Any]:
    """As `parts_of`; a sentence that names nothing is its own template."""
    is_plain = not isinstance(said, Reason) and not {*"{}"} & {*said}
    return parts_of(because(said) if is_plain else said)


def error_event(error: GonogoError) -> dict[str, Any]:
    """One of gonogo's errors as the event that ends the answer to a message."""
    return {**said(error.code, error.said, is_final=True), **_see(error)}


def said(code: str, text: str, *, is_final: bool) -> dict[str, Any]:
    """An `error` event."""
    head = {"type": "error", "error": text, "content": text, "code": code}
    return {**head, **parts_of(text), "is_final": is_final}


def add_handlers(app: FastAPI) -> None:
    """Give every error of `app` the same shape."""
    app.add_exception_handler(GonogoError, _refused)
    app.add_exception_handler(HTTPException, _by_status)
    app.add_exception_handler(RequestValidationError, _bad_parameter)


def _see(error: GonogoError) -> dict[str, str]:
    return {"see": error.see} if isinstance(error, NotFound) and error.see else {}


def _facts(error: GonogoError) -> dict[str, Any]:
    if isinstance(error, InvalidPlan) and error.subtask_id is not None:
        return {"subtask_id": error.subtask_id}
    if not isinstance(error, AlreadyDecided):
        return _see(error)
    return {
        "decision": error.decision,
        "decided_by": error.decided_by,
        "decided_at": error.decided_at,
    }


def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, GonogoError):
        raise TypeError(error)
    return problem_of(error)


def _by_status(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise TypeError(error)
    code = _CODES.get(error.status_code, "invalid_message")
    said = _STATUSES.get(error.status_code, str(error.detail))
    answer = problem(error.status_code, code, str(said), **parts_of(said))
    answer.headers.update(error.headers or {})
    return answer


_STATUSES = {
    404: because("There is nothing at this address; see the addresses in GET /openapi.json"),
    405: because("This address does not take this method; see GET /openapi.json"),
}


def _bad_parameter(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise TypeError(error)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    said = mistake_of(first)
    return problem_of(InvalidMessage("{field}: {said}", field=where, said=said))


T = TypeVar("T", bound=BaseModel)
# A sender that is cut off in the middle of its body does not see the answer. So a body that is a
# little too long is read to its end and discarded; only one this many times too long is cut off.
_PASSED_OVER = 8


async def read_json(request: Request) -> Any:  # noqa: ANN401 - any JSON value
    """The body as JSON; no body at all counts as an object without fields.

    Raises:
        UnsupportedMedia: it is not `application/json` in UTF-8.
        TooLarge: over 2 MiB, or nested too deep.
        SlowBody: it did not arrive in time.
        InvalidMessage: it is not JSON that has one meaning.
    """
    media = request.headers.get("content-type")
    if media is not None and not _is_json(media):
        raise UnsupportedMedia("The body must be application/json, not {media}", media=media[:80])
    raw = await read_bytes(request, MAX_BYTES, "message")
    if not raw:
        return {}
    if media is None:
        raise UnsupportedMedia("The body must be JSON, with Content-Type: application/json")
    return loads(raw)


async def read_body(request: Request, model: type[T]) -> T:
    """The body as one of the request models; raises what `read_json` does, and on its shape.

    Raises:
        InvalidMessage: naming the field that is wrong.
    """
    return validated(model, await read_json(request))


async def read_bytes(request: Request, most: int, what: str) -> bytes:
    """The body as it came.

    Args:
        most: The bytes that it may have.
        what: What it is, for the text of a refusal.

    Raises:
        TooLarge: it has more.
        SlowBody: it did not arrive in time.
    """
    seconds = door_of(request).limits.body
    try:
        with anyio.fail_after(seconds):
            body = await _read(request, most)
    except TimeoutError:
        raise SlowBody(
            "The body did not arrive within {seconds:g} seconds; send it again", seconds=seconds
        ) from None
    if body is None:
        raise TooLarge("The {what} has more than {most} bytes; shorten it", what=what, most=most)
    return body


async def _read(request: Request, most: int) -> bytes | None:
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > _PASSED_OVER * most:
        return None
    body, length = bytearray(), 0
    async for chunk in request.stream():
        length += len(chunk)
        if length <= most:
            body += chunk
        elif length > _PASSED_OVER * most:
            break
    return bytes(body) if length <= most else None


def _is_json(media: str) -> bool:
    kind, *parameters = (part.strip().lower() for part in media.split(";"))
    charsets = [p for p in parameters if p.startswith("charset=")]
    return kind == "application/json" and all(
        p.removeprefix("charset=").strip('"') in {"utf-8", "utf8"} for p in charsets
    )


# Ids, languages and moments in requests.

Name = Annotated[str, AfterValidator(possible)]
"""An id in a path. A text that cannot be an id gets the same answer as an unknown id."""
LANGUAGE = r"^[A-Za-z]{2}(-[A-Za-z]{2})?$"
Language = Annotated[str | None, StringConstraints(pattern=LANGUAGE)]
"""A language in a query or a body."""


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(because("in UTC the year is not between 1 and 9999")) from None


Moment = Annotated[AwareDatetime, Field(strict=False), AfterValidator(_in_utc)]
"""A time, of whatever zone it was written in."""


class WantedFiles(BaseModel):
    """Which changed files are shown."""

    path: Annotated[str | None, StringConstraints(min_length=1, max_length=4096)] = None
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    offset: Annotated[int, Field(ge=0, lt=2**31)] = 0


# Answers to plain requests, and how a repeated request gets the same one.
#
# A POST with an `Idempotency-Key` is done once: its answer, refusals included, is stored under the
# key and given again. A failure of the server is not stored, so the request may be sent again.

Stored = dict[str, Any]
Action = Callable[[], Awaitable[BaseModel | None]]
Standing = Callable[[], Awaitable[BaseModel]]
_PREFIX = "/api/v1"


def answer(view: BaseModel | None, status: int = 200) -> Response:
    """A view as an answer; None is an answer without a body."""
    if view is None:
        return Response(status_code=204)
    body = view.model_dump_json(exclude_none=True)
    return Response(body, status_code=status, media_type="application/json")


async def once(
    caller: Caller,
    body: BaseModel,
    action: Action,
    status: int = 200,
    standing: Standing | None = None,
) -> Response:
    """Do what a POST asks, or give its stored answer again.

    Args:
        body: What was asked; a repeat must ask the same.
        status: Of the answer when it worked.
        standing: Gives the current state, which is sent with a conflict.

    Raises:
        Conflict: the key was used for something else.
    """

    async def stored() -> Stored:
        return await _outcome(action, status, standing)

    return _again(await kept(caller, body, stored))


async def kept(caller: Caller, body: BaseModel, action: Callable[[], Awaitable[Stored]]) -> Stored:
    """Do an action once for this request's idempotency key, and keep what came of it."""
    key = idempotency_key(caller.request)
    if key is None:
        return await action()
    asked = request_digest(caller.request, body)
    async with caller.door.one_at_a_time(caller.principal.id, key):
        known = await caller.runtime.answers.find(caller.principal, key, asked)
        if known is not None:
            return known
        outcome = await action()
        # The action has succeeded; do not report an error because its answer cannot be kept.
        with suppress(Busy):
            path = caller.request.url.path
            await caller.runtime.answers.keep(caller.principal, key, asked, outcome, path)
        return outcome


def idempotency_key(request: Request) -> str | None:
    """The key under which a request's answer is kept, if it has one.

    Raises:
        InvalidMessage: it is empty, too long or not plain text.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not key or len(key) > 200 or not key.isascii() or not key.isprintable():
        raise InvalidMessage("Idempotency-Key: 1 to 200 printable ASCII characters")
    return key


def request_digest(request: Request, body: BaseModel) -> str:
    """The digest of a request; the same for each of its paths (with and without the prefix)."""
    return digest(
        {
            "method": request.method,
            "path": request.url.path.removeprefix(_PREFIX),
            "body": body.model_dump(mode="json", exclude_unset=True),
        }
    )


async def _outcome(action: Action, status: int, standing: Standing | None) -> Stored:
    try:
        view = await action()
    except Refused as error:
        now = await standing() if standing and isinstance(error, Conflict) else None
        members = {} if now is None else {"current": now.model_dump(mode="json", exclude_none=True)}
        body = bytes(problem_of(error, **members).body).decode()
        return {"status": error.status, "problem": body}
    if view is None:
        return {"status": 204}
    return {"status": status, "body": view.model_dump_json(exclude_none=True)}


def _again(stored: Stored) -> Response:
    status: int = stored["status"]
    if "problem" in stored:
        return written(status, stored["problem"])
    if "body" in stored:
        return Response(stored["body"], status_code=status, media_type="application/json")
    if status == 204:
        return Response(status_code=204)
    return problem(
        409, "conflict", "This Idempotency-Key was used for another kind of request; use a new key"
    )


# In which bucket a client message counts: its type decides.
#
# A decision or a cancel never waits behind messages, whichever way it comes. A message that cannot
# be read counts as a request.


@contextmanager
def counted(
    rates: Rates, principal: Principal
) -> Generator[Callable[[ClientMessage], ClientMessage]]:
    """Give a function that counts a message; read and count the message inside the block.

    Raises:
        TooFast: it was one too many.
    """

    def count(message: ClientMessage) -> ClientMessage:
        _bucket(rates, message).take(principal.id)
        return message

    try:
        yield count
    except TooFast:
        raise
    except GonogoError:
        rates.requests.take(principal.id)
        raise


def _bucket(rates: Rates, message: ClientMessage) -> Bucket:
    match message:
        case UserMessage() | SwitchAgent():
            return rates.messages
        case PlanDecision() | HitlDecision() | Cancel():
            return rates.decisions
        case _:
            return rates.requests
