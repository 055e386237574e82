"""Errors as `application/problem+json`: one shape for every status, and no traceback.

`code` is the word of docs/reference/protocol.md §3; `template` and `params` let a client say the
error in its person's language; whatever else the sender can act on (who decided, where the thing
stands now) is a further member.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from gonogo.domain.errors import (
    AlreadyDecided,
    Busy,
    GonogoError,
    InvalidMessage,
    InvalidPlan,
    NotFound,
    Reason,
    Refused,
    because,
    mistake_of,
    parts_of,
)
from gonogo.server.auth import TooFast

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
    """An error whose JSON is there already."""
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
