"""The HTTP client of foreign servers: it goes nowhere else, and reads no body without end."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2

_CONNECT = 10.0


class _Bounded(httpx2.AsyncByteStream):
    """A body that may not be longer than it should."""

    def __init__(self, body: Any, most: int) -> None:  # noqa: ANN401 - the transport's own
        self._body, self._left = body, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            self._left -= len(chunk)
            if self._left < 0:
                raise httpx2.ReadError("the answer is too long")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """Bounds every body but streams of events, which their reader bounds event by event."""

    def __init__(self, most: int) -> None:
        super().__init__(trust_env=False)
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            # Little of it could become much.
            await response.aclose()
            raise httpx2.ReadError("the answer is packed, although that was declined")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Bounded(response.stream, self._most)
        return response


def bounded_client(headers: Mapping[str, str], timeout: float, most: int) -> httpx2.AsyncClient:
    """A client with these headers.

    Args:
        timeout: Seconds that a server may be silent in the middle of an answer.
        most: Bytes of one body.
    """
    return httpx2.AsyncClient(
        headers=dict(headers), transport=_Transport(most), trust_env=False,
        timeout=httpx2.Timeout(_CONNECT, read=timeout),
    )  # fmt: skip
