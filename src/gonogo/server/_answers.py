"""Answers to plain requests, and how a repeated request gets the same one.

A POST with an `Idempotency-Key` is done once: its answer, refusals included, is stored under the
key and given again. What failed on our side is not an answer and may be tried again.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from gonogo.domain.errors import Busy, Conflict, InvalidMessage, Refused
from gonogo.domain.strict_json import digest
from gonogo.server._caller import Caller
from gonogo.server._problems import problem, problem_of, written

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
        standing: How the thing is now, which is said with a conflict.

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
        known = await caller.runtime.remember(caller.principal, key, asked)
        if known is not None:
            return known
        outcome = await action()
        # It has been done, which is not to be denied because the answer cannot be kept.
        with suppress(Busy):
            path = caller.request.url.path
            await caller.runtime.store_answer(caller.principal, key, asked, outcome, path)
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
    """What a request asks, whichever of its paths it came by."""
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
    return problem(409, "conflict", "This key was used for another kind of request")
