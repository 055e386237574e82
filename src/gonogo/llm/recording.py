"""Recording the exchanges with a provider in a cassette, and playing them from one."""

import fcntl
import logging
import os
import stat
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.to_thread
import httpx2
import msgspec
from msgspec import Struct
from pydantic_ai.models import create_async_httpx2_client

from gonogo.domain.errors import ModelFailed, ModelNotConfigured, because
from gonogo.domain.tool_calls import ModelRequest, Reply
from gonogo.llm.choice import all_failed
from gonogo.llm.model import Model, OnText
from gonogo.llm.provider import Relay
from gonogo.llm.scripted import (
    KEPT_HEADERS,
    REMOVED,
    THE_BODY,
    WITHHELD,
    AskedModel,
    HttpExchange,
    Redaction,
    agreed,
    body_sent,
    bytes_of,
    difference,
    is_same,
    json_of,
    path_of,
    piece_of,
    told_apart,
)

# Recording.
#
# Everything is passed on as it comes. A line is appended when an answer is closed or breaks off, so
# a killed process leaves an incomplete last line at worst.

logger = logging.getLogger(__name__)


class Recorder(Struct, frozen=True, kw_only=True):
    """Appends exchanges to a cassette."""

    path: Path
    asked: AskedModel
    redaction: Redaction

    def check(self) -> None:
        """Check that the file can be written, and create it.

        Raises:
            ModelNotConfigured: it cannot be written.
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
        """The exchange to write for a request and its answer or error."""
        redaction, chunks = self.redaction, _readable(response, chunks)
        answer, pieces = b"".join(chunks).decode("utf-8", "replace"), [piece_of(c) for c in chunks]
        withheld = not redaction.is_clean(answer)
        if withheld and isinstance(json_of(answer), dict):
            # From a single JSON object, such as a refusal, the secret can be removed.
            withheld, pieces = False, [redaction.of_body(answer)]
        headers = response.headers if response is not None else httpx2.Headers()
        return HttpExchange(
            **msgspec.structs.asdict(self.asked), method=request.method,
            path=redaction.of_text(path_of(request)), body=redaction.of_body(body_sent(request)),
            status=response.status_code if response is not None else None,
            headers={name: headers[name] for name in KEPT_HEADERS if name in headers},
            chunks=() if withheld else tuple(pieces),
            error=type(error).__name__ if error else None, withheld=withheld,
        )  # fmt: skip

    async def keep(
        self, request: httpx2.Request, response: httpx2.Response | None = None,
        chunks: Sequence[bytes] = (), error: Exception | None = None,
    ) -> None:  # fmt: skip
        """Append an exchange. If the file cannot be written, only a warning is logged."""
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
        """Append a line; if the process ends meanwhile, the last line is incomplete."""
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
    """Remove a last line that a killed process has left incomplete."""
    end = size = os.fstat(file).st_size
    while end and os.pread(file, 1, end - 1) != b"\n":
        start = max(0, end - 65_536)
        found = os.pread(file, end - start, start).rfind(b"\n")
        end = start if found < 0 else start + found + 1
    if end != size:
        logger.warning("%s: the last line is incomplete and was taken away", path)
        os.ftruncate(file, end)


def _readable(response: httpx2.Response | None, chunks: Sequence[bytes]) -> Sequence[bytes]:
    """The readable pieces of an answer; one piece if the server compressed it all the same."""
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
        """Take the recorder.

        Args:
            way: The client that sends the requests; None: a new one.
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
        # No compression: the recorded text must be readable, and is searched for secrets.
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
        """Close the answer, and record its exchange."""
        try:
            await self._stream.aclose()
        finally:
            if not self._kept:
                self._kept = True
                kept = (self._request, self._response, self._chunks, self._error)
                await self._recorder.keep(*kept)


# Playing a cassette: each request gets the answer that was recorded for exactly the same request.
#
# Nothing reaches the network. If a request is not a recorded one, byte for byte, the replay of its
# session ends: from there on the session is another one than the recorded one.

_NOT_RECORDED = 422
"""A status for which no provider's library tries again."""


class _Asking:
    """One request of a session while it is being answered."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.missed: str | None = None
        """Why there is no recorded answer for it."""
        self.last: HttpExchange | None = None
        """The last exchange that answered it."""


_ASKING: ContextVar[_Asking | None] = ContextVar("asking", default=None)


class Player(httpx2.AsyncBaseTransport):
    """Answers requests from the recording, without the network.

    Each session plays the cassette from its beginning: several answers that were recorded for the
    same request are given in their order.
    """

    def __init__(
        self, path: Path, exchanges: Sequence[tuple[int, HttpExchange]], redaction: Redaction
    ) -> None:
        """Take the recorded exchanges, each with its number in the file."""
        self._path, self._exchanges, self._redaction = path, exchanges, redaction
        self._recorded: dict[str, list[tuple[int, HttpExchange]]] | None = None
        self._played = defaultdict[tuple[str, str], int](int)
        self._lock = anyio.Lock()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Find the exchange of a request, and give its recorded answer."""
        asking = _ASKING.get() or _Asking("")
        async with self._lock:
            found = await anyio.to_thread.run_sync(self._found, request, asking)
        if isinstance(found, str):
            asking.missed = found
            error = {"type": "not_recorded", "code": _NOT_RECORDED, "message": found}
            return httpx2.Response(_NOT_RECORDED, json={"type": "error", "error": error})
        asking.last = found
        if found.status is None:
            raise _error_of(found)
        return httpx2.Response(found.status, headers=found.headers, stream=_Playing(found))

    def _found(self, request: httpx2.Request, asking: _Asking) -> HttpExchange | str:
        """The exchange that answers a request next, or why there is none."""
        address = f"{request.method} {path_of(request)}"
        body = self._redaction.of_body(body_sent(request))
        key = self._key_of(address, body)
        if key is None:
            number, apart = self._nearest(address, body)
            return because(
                "it is not the recorded one. Nearest is exchange {number}: {difference}",
                number=number, difference=apart,
            )  # fmt: skip
        recorded, place = self._index()[key], (asking.session, key)
        if self._played[place] < len(recorded):
            number, found = recorded[self._played[place]]
            self._played[place] += 1
            if found.withheld:
                return because("exchange {number}: {what}", number=number, what=WITHHELD)
            return found
        if asking.last is not None and asking.last.is_failure:
            # More attempts than in the recording: a request that finally failed fails again.
            return asking.last
        return because(
            "it is made more often than it was recorded (exchange {number})",
            number=recorded[0][0],
        )

    def _index(self) -> dict[str, list[tuple[int, HttpExchange]]]:
        """The exchanges by their requests, each list in the order of the recording."""
        if self._recorded is None:
            found = defaultdict[str, list[tuple[int, HttpExchange]]](list)
            for number, each in self._exchanges:
                found[_digest(_address(each), self._body(each))].append((number, each))
            self._recorded = dict(found)
        return self._recorded

    def _body(self, exchange: HttpExchange) -> str:
        """A recorded body, also without secrets that are known only now."""
        return self._redaction.of_body(exchange.body)

    def _key_of(self, address: str, body: str) -> str | None:
        """The key in the index for a request; None if it was not recorded."""
        key = _digest(address, body)
        if key in self._index():
            return key
        for _, each in self._exchanges:
            recorded = self._body(each) if REMOVED in each.body else ""
            if _address(each) == address and is_same(recorded, body):
                return _digest(address, recorded)
        return None

    def _nearest(self, address: str, body: str) -> tuple[int, str]:
        """The number of the most similar recorded request, and the first difference from it."""
        bodies = [(number, _address(each), self._body(each)) for number, each in self._exchanges]
        number, there, recorded = max(bodies, key=lambda each: agreed(each[2], body))
        # If the values are equal, the address or the written form of the body differs.
        told = difference(json_of(recorded), json_of(body)) if recorded != body else ""
        told = told or (
            told_apart(because("the address"), there, address) if there != address
            else told_apart(THE_BODY, recorded, body)
        )  # fmt: skip
        return number, told


def _digest(address: str, body: str) -> str:
    return sha256(f"{address}\n{body}".encode("utf-8", "surrogatepass")).hexdigest()


def _address(exchange: HttpExchange) -> str:
    return f"{exchange.method} {exchange.path}"


class _Playing(httpx2.AsyncByteStream):
    """The body of a recorded answer, in its pieces."""

    def __init__(self, exchange: HttpExchange) -> None:
        self._exchange, self._left = exchange, iter(exchange.chunks)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # A second reader gets only the rest, as on a connection.
        for piece in self._left:
            yield bytes_of(piece)
        if self._exchange.error is not None:
            raise _error_of(self._exchange)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


def _error_of(exchange: HttpExchange) -> httpx2.TransportError:
    kind = getattr(httpx2, exchange.error or "", None)
    known = isinstance(kind, type) and issubclass(kind, httpx2.TransportError)
    return (kind if kind is not None and known else httpx2.ReadError)("as it was recorded")


class PlayedModel:
    """The models that were recorded for one role; the one that has the request recorded answers.

    A model that failed in the recording fails again, and the next one answers in its place.
    """

    def __init__(self, path: Path, models: Sequence[Model], client: httpx2.AsyncClient) -> None:
        """Take the models, in the order of their first requests in the recording."""
        self._path, self._models, self.client = path, models, client
        self._asked = defaultdict[str, int](int)
        self._ended: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The name of the first model."""
        return self._models[0].name

    @property
    def window(self) -> int | None:
        """The smallest window of the models, like `FallbackModel.window`."""
        return min(filter(None, (model.window for model in self._models)), default=None)

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Ask the models, one after the other; see `Model.request`.

        Raises:
            ModelFailed: they failed as in the recording, or the request is not in the cassette.
        """
        if (told := self._ended.get(request.session)) is not None:
            raise ModelFailed(told)
        self._asked[request.session] += 1
        relay, failed, missed = Relay(on_text), list[ModelFailed](), list[str]()
        for model in self._models:
            relay.restart()
            asking = _Asking(request.session)
            token = _ASKING.set(asking)
            try:
                reply = await model.request(request, relay.feed)
            except ModelFailed as failure:
                if asking.missed is None:
                    failed.append(failure)
                else:
                    missed.append(asking.missed)
                continue
            finally:
                _ASKING.reset(token)
            relay.finish()
            return reply.model_copy(update={"passed": failed[0].said}) if failed else reply
        raise all_failed(failed) if failed else self._end(request.session, missed[0])

    def _end(self, session: str, missed: str) -> ModelFailed:
        """End the replay of a session: all later requests of it get this failure too."""
        told = because(
            "{file}, request {number} of this session: {missed}. The replay ends here; record it "
            "again if the change is meant",
            file=self._path.name, number=self._asked[session], missed=missed,
        )  # fmt: skip
        self._ended[session] = told
        return ModelFailed(told)

    async def aclose(self) -> None:
        """Close the connections."""
        for model in self._models:
            await model.aclose()
        await self.client.aclose()


class RecordedModel(Struct, frozen=True, kw_only=True):
    """A model whose exchanges are recorded."""

    model: Model
    client: httpx2.AsyncClient

    @property
    def name(self) -> str:
        """The model's own."""
        return self.model.name

    @property
    def window(self) -> int | None:
        """The model's own."""
        return self.model.window

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Ask the model; see `Model.request`."""
        return await self.model.request(request, on_text)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.model.aclose()
        await self.client.aclose()


def playing_client(player: Player) -> httpx2.AsyncClient:
    """An HTTP client that plays the recording."""
    return create_async_httpx2_client(transport=player)
