"""Records the exchanges with a provider in a cassette.

Everything is passed on as it comes. A line is appended when an answer is closed or breaks off, so
that a process that is killed leaves an incomplete last line at worst.
"""

import fcntl
import logging
import os
import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.to_thread
import httpx2
import msgspec
from msgspec import Struct
from pydantic_ai.models import create_async_httpx2_client

from gonogo.domain.errors import ModelNotConfigured
from gonogo.llm.cassette import (
    KEPT_HEADERS,
    WITHHELD,
    AskedModel,
    HttpExchange,
    Redaction,
    body_of,
    json_of,
    path_of,
    piece_of,
)

logger = logging.getLogger(__name__)


class Recorder(Struct, frozen=True, kw_only=True):
    """Appends exchanges to a cassette."""

    path: Path
    asked: AskedModel
    redaction: Redaction

    def check(self) -> None:
        """Check that the file can be written, and create it.

        Raises:
            ModelNotConfigured: it cannot.
        """
        try:
            os.close(self._open())
        except OSError as error:
            raise ModelNotConfigured(
                "GONOGO_RECORD: {path}: {strerror}; name a file that can be written",
                path=self.path,
                strerror=error.strerror,
            ) from None

    def exchange(
        self, request: httpx2.Request, response: httpx2.Response | None, chunks: Sequence[bytes],
        error: Exception | None,
    ) -> HttpExchange:  # fmt: skip
        """What is written of a request and what came of it."""
        redaction, chunks = self.redaction, _readable(response, chunks)
        answer, pieces = b"".join(chunks).decode("utf-8", "replace"), [piece_of(c) for c in chunks]
        withheld = not redaction.is_clean(answer)
        if withheld and isinstance(json_of(answer), dict):
            # An answer that is one piece of JSON, such as a refusal, can be told without.
            withheld, pieces = False, [redaction.of_body(answer)]
        headers = response.headers if response is not None else httpx2.Headers()
        return HttpExchange(
            **msgspec.structs.asdict(self.asked), method=request.method,
            path=redaction.of_text(path_of(request)), body=redaction.of_body(body_of(request)),
            status=response.status_code if response is not None else None,
            headers={name: headers[name] for name in KEPT_HEADERS if name in headers},
            chunks=() if withheld else tuple(pieces),
            error=type(error).__name__ if error else None, withheld=withheld,
        )  # fmt: skip

    async def keep(
        self, request: httpx2.Request, response: httpx2.Response | None = None,
        chunks: Sequence[bytes] = (), error: Exception | None = None,
    ) -> None:  # fmt: skip
        """Append an exchange. A file that cannot be written ends no request: that is logged."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._keep, request, response, chunks, error)

    def _keep(
        self, request: httpx2.Request, response: httpx2.Response | None, chunks: Sequence[bytes],
        error: Exception | None,
    ) -> None:  # fmt: skip
        exchange = self.exchange(request, response, chunks, error)
        if exchange.withheld:
            logger.warning("%s: %s", self.path, WITHHELD)
        try:
            self._append(msgspec.json.encode(exchange) + b"\n")
        except OSError as failed:
            logger.warning("%s: an exchange was not recorded: %s", self.path, failed.strerror)

    def _append(self, line: bytes) -> None:
        """Write a line, whole or, should the process end, as an incomplete last one."""
        file = self._open()
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            _cut_incomplete(file, self.path)
            while line:
                line = line[os.write(file, line) :]
        finally:
            os.close(file)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(self.path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(0, "it is not a regular file")
        os.fchmod(file, 0o600)
        return file


def _cut_incomplete(file: int, path: Path) -> None:
    """Take away a last line that a process which was killed has left incomplete."""
    end = size = os.fstat(file).st_size
    while end and os.pread(file, 1, end - 1) != b"\n":
        start = max(0, end - 65_536)
        found = os.pread(file, end - start, start).rfind(b"\n")
        end = start if found < 0 else start + found + 1
    if end != size:
        logger.warning("%s: the last line is incomplete and was taken away", path)
        os.ftruncate(file, end)


def _readable(response: httpx2.Response | None, chunks: Sequence[bytes]) -> Sequence[bytes]:
    """The pieces of an answer as they are read; one piece where a server packs it all the same."""
    packed = response.headers.get("content-encoding") if response is not None else None
    if packed in (None, "identity"):
        return chunks
    try:
        packing = {"content-encoding": packed}
        return [httpx2.Response(200, headers=packing, content=b"".join(chunks)).content]
    except httpx2.DecodingError:
        return []


def without_user(url: str | None) -> str | None:
    """An address without a name and a password."""
    if url is None:
        return None
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class RecordingClient(httpx2.AsyncClient):
    """An HTTP client that records what it sends and gets."""

    def __init__(self, recorder: Recorder, way: httpx2.AsyncClient | None = None) -> None:
        """Take who writes it down.

        Args:
            way: What sends the requests; None is one of its own.
        """
        self._way = way or create_async_httpx2_client()
        super().__init__(timeout=self._way.timeout, headers=self._way.headers)
        self._recorder = recorder

    async def send(
        self,
        request: httpx2.Request,
        *,
        stream: bool = False,
        **more: Any,  # noqa: ANN401
    ) -> httpx2.Response:
        """Send a request; its exchange is recorded when the answer is closed, or breaks off."""
        # What is written down can be read, and is looked through for secrets.
        request.headers["accept-encoding"] = "identity"
        try:
            response = await self._way.send(request, stream=True, **more)
        except httpx2.TransportError as error:
            await self._recorder.keep(request, error=error)
            raise
        response.stream = _Listening(self._recorder, request, response)
        if not stream:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._way.aclose()
        await super().aclose()


class _Listening(httpx2.AsyncByteStream):
    """The body of an answer, passed on as it comes."""

    def __init__(
        self, recorder: Recorder, request: httpx2.Request, response: httpx2.Response
    ) -> None:
        self._recorder, self._request, self._response = recorder, request, response
        self._stream = cast("httpx2.AsyncByteStream", response.stream)
        self._chunks: list[bytes] = []
        self._error: Exception | None = None
        self._kept = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                self._chunks.append(chunk)
                yield chunk
        except httpx2.TransportError as error:
            self._error = error
            raise

    async def aclose(self) -> None:
        """Close it, and have it written down."""
        try:
            await self._stream.aclose()
        finally:
            if not self._kept:
                self._kept = True
                kept = (self._request, self._response, self._chunks, self._error)
                await self._recorder.keep(*kept)
