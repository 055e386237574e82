"""The way to the runtime of this process: no socket, and no web framework for what is asked most.

A few questions, which only list or check, the runtime's own verbs answer, with the bytes that a
server has for them. Whatever else is asked the app of all clients answers, and it also says what
is wrong with a question.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
from pydantic import BaseModel, TypeAdapter

from gonogo.domain.base import Filter, Page

if TYPE_CHECKING:
    from gonogo.domain.identity import Principal
    from gonogo.runtime import Runtime

_Words = Mapping[str, str]
_Answer = Callable[["Runtime", "Principal", _Words], Awaitable[BaseModel]]
_PREFIX = "/api/v1"
_JSON = {"Content-Type": "application/json"}


class WithinProcess(httpx.AsyncBaseTransport):
    """Asks a runtime for a client, as the owner of a token."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._app: httpx.ASGITransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer as a server does."""
        known = _ANSWERS.get(request.url.path) if request.method == "GET" else None
        if known is not None:
            # Whatever goes wrong, the app is asked again and tells it.
            with suppress(Exception):
                token = request.headers.get("Authorization", "").removeprefix("Bearer ")
                principal = await self._runtime.people.authenticate(token)
                said = await known(self._runtime, principal, dict(request.url.params))
                body = said.model_dump_json(exclude_none=True)
                return httpx.Response(200, headers=_JSON, content=body)
        if self._app is None:
            from gonogo.server import create_app

            self._app = httpx.ASGITransport(create_app(self._runtime))
        return await self._app.handle_async_request(request)


async def _plans(runtime: "Runtime", principal: "Principal", words: _Words) -> BaseModel:
    from gonogo.domain.plan_views import WantedPlans

    return await runtime.plans.page(principal, **WantedPlans.model_validate(words).model_dump())


async def _sessions(runtime: "Runtime", principal: "Principal", words: _Words) -> BaseModel:
    _refuse_others(words, {"limit", "offset"})
    return await runtime.sessions.page(principal, **Page.model_validate(words).model_dump())


async def _approvals(runtime: "Runtime", principal: "Principal", words: _Words) -> BaseModel:
    from gonogo.domain.views import WantedApprovals

    wanted = WantedApprovals.model_validate(words)
    return await runtime.approvals.page(principal, wanted.filter, wanted.before, wanted.limit)


async def _verified(runtime: "Runtime", principal: "Principal", words: _Words) -> BaseModel:
    _refuse_others(words, {"session_id"})
    only = TypeAdapter[str | None](Filter).validate_python(words.get("session_id"))
    return await runtime.audit.verify(principal, (), only)


def _refuse_others(words: _Words, known: set[str]) -> None:
    """Leave to the app what is asked rarely."""
    if others := words.keys() - known:
        raise ValueError(others)


_ANSWERS: Mapping[str, _Answer] = {
    f"{_PREFIX}/plans": _plans,
    f"{_PREFIX}/sessions": _sessions,
    f"{_PREFIX}/approvals": _approvals,
    f"{_PREFIX}/audit/verify": _verified,
}
