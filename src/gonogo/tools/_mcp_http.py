"""The HTTP client of foreign servers: it goes nowhere else, and reads no body without end."""

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2

from gonogo.tools.chatter import MOST_MESSAGE, REOPENED, Chatter

_CONNECT = 10.0
_NOT_ALLOWED = 405
_RESUMED = "last-event-id"
# What servers get wrong they could get wrong without end, each time with a traceback; what matters
# of it comes back as an error.
logging.getLogger("mcp.client.streamable_http").setLevel(logging.CRITICAL)


class _Body(httpx2.AsyncByteStream):
    """A body that may not be longer than it should; of a stream of events, the events may not."""

    def __init__(self, body: Any, chatter: Chatter, *, events: bool) -> None:  # noqa: ANN401 - the transport's own
        self._body, self._chatter, self._events = body, chatter, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_MESSAGE
        async for chunk in self._body:
            left -= 0 if self._events else len(chunk)
            if left < 0:
                raise httpx2.ReadError("the answer is too long")
            if not self._chatter.came(len(chunk), chunk.count(b"\n") if self._events else 0):
                raise httpx2.ReadError("the server is not listened to any more")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """Bounds every body, and does not wait for what comes unasked."""

    def __init__(self, chatter: Chatter) -> None:
        super().__init__(trust_env=False)
        self._chatter = chatter

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET" and not self._may_resume(request):
            return httpx2.Response(_NOT_ALLOWED, request=request)
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            # Little of it could become much.
            await response.aclose()
            raise httpx2.ReadError("the answer is packed, although that was declined")
        kind = response.headers.get("content-type", "")
        events = kind.lower().startswith("text/event-stream")
        response.stream = _Body(response.stream, self._chatter, events=events)
        return response

    def _may_resume(self, request: httpx2.Request) -> bool:
        return _RESUMED in request.headers and self._chatter.unasked(REOPENED)


def bounded_client(
    headers: Mapping[str, str], timeout: float, chatter: Chatter
) -> httpx2.AsyncClient:
    """A client with these headers.

    Args:
        timeout: Seconds that a server may be silent in the middle of an answer.
        chatter: Told how much comes.
    """
    return httpx2.AsyncClient(
        headers=dict(headers), transport=_Transport(chatter), trust_env=False,
        timeout=httpx2.Timeout(_CONNECT, read=timeout),
    )  # fmt: skip
