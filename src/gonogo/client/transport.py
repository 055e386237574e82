"""One connection to a server: plain requests, and streams that continue after a break."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

import anyio
import httpcore
import httpx
from httpcore._backends.anyio import AnyIOStream
from msgspec import Struct, field
from pydantic import BaseModel, ValidationError

from gonogo.domain.errors import (
    AlreadyDecided,
    Busy,
    GonogoError,
    IllegalTransition,
    Internal,
    InternalFailure,
    InvalidMessage,
    NotFound,
    Refused,
    UnsupportedMedia,
    because,
    of_parts,
    parts_of,
)
from gonogo.domain.messages import ClientMessage, possible

if TYPE_CHECKING:
    from gonogo.domain.events import AnyEvent, Event

# Server-sent events, read as they come.
#
# Lines end only with LF or CR LF. The JSON of a frame may contain other characters that Python
# treats as the end of a line.

EventBody = dict[str, Any]


def read_event(body: EventBody) -> "AnyEvent | Event":
    """An event as a value; one of a type that this version does not know keeps its envelope."""
    from gonogo.domain.events import EVENTS, Event

    try:
        return EVENTS.validate_python(body)
    except ValidationError:
        return Event.model_validate(body)


async def read_stream(chunks: AsyncIterator[bytes]) -> AsyncIterator[EventBody]:
    """The events of a stream of bytes, `done` included. A frame that was cut is left out."""
    data: list[str] = []
    async for line in _lines(chunks):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            body = json.loads("\n".join(data))
            data = []
            yield body


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode()


# The server's refusals as the errors that they were there.

_SPECIAL: dict[tuple[str, int], type[GonogoError]] = {
    ("internal", 503): Busy,
    ("internal", 500): Internal,
    ("invalid_message", 415): UnsupportedMedia,
}


class Unreachable(InternalFailure):
    """No server answers, or its streams keep breaking."""

    status = 503


class NoAnswer(Unreachable):
    """A server is there, but does not answer in time."""


class Unintelligible(InternalFailure):
    """What answers is no gonogo server, or one of another version."""

    status = 502

    def __init__(self, expected: str) -> None:
        super().__init__(
            "The answer is not a valid {expected} of this version's protocol: another server is at "
            "this address, or it has another version of gonogo; stop it and start gonogo again",
            expected=expected,
        )
        self.expected = expected


def error_of(body: Mapping[str, Any]) -> GonogoError:
    """An error from a problem document, or from an `error` event."""
    detail = of_parts(str(body.get("detail", body.get("content", _REFUSED))), body)
    code, status = str(body.get("code", "")), int(body.get("status", 0))
    if code == AlreadyDecided.code:
        return _already_decided(detail, body)
    kind = _SPECIAL.get((code, status)) or _BY_CODE.get(code)
    if kind is None:
        kind = Internal if status >= 500 else Refused
    error = kind(detail)
    error.code = code or kind.code
    if isinstance(error, NotFound):
        error.see = body.get("see")
    return error


def refusal_of(answer: httpx.Response) -> GonogoError:
    """The error that an answer tells of; its body must have been read."""
    try:
        body: Any = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        said = because(
            "The server answered {status} {phrase}; try again, and if that does not help, "
            "look in its log",
            status=answer.status_code, phrase=answer.reason_phrase,
        )  # fmt: skip
        body = {"detail": str(said), **parts_of(said)}
    return error_of({"status": answer.status_code, **body})


def _already_decided(detail: str, body: Mapping[str, Any]) -> AlreadyDecided:
    # The text is complete; the constructor would write another text around it.
    error = AlreadyDecided.__new__(AlreadyDecided)
    error.args = (detail,)
    error.decision = str(body.get("decision", ""))
    error.decided_by = str(body.get("decided_by", ""))
    error.decided_at = str(body.get("decided_at", ""))
    return error


def _kinds(root: type[GonogoError]) -> Iterator[type[GonogoError]]:
    for kind in root.__subclasses__():
        # What other rooms add to the tree says more than the wire does.
        known = kind.__module__ == GonogoError.__module__ and kind is not IllegalTransition
        if known and "code" in vars(kind):
            yield kind
        yield from _kinds(kind)


_BY_CODE = {kind.code: kind for kind in _kinds(GonogoError)} | {
    InvalidMessage.code: InvalidMessage,
}

T = TypeVar("T", bound=BaseModel)
PREFIX = "/api/v1"
KEY = "Idempotency-Key"
ATTEMPTS = 6
"""Times in a row that a stream may break without an event before the client gives up."""
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 2.0
_CONNECT = 10.0
_SILENCE = 45.0
"""Seconds without a byte after which a stream is broken; the server sends one every 15."""
_REFUSED = because("The server refused this and gave no reason; look in its log")
_BREAKS = because("The stream breaks again and again")
_Query = str | int | datetime | None


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def plain(message: ClientMessage | Mapping[str, Any]) -> dict[str, Any]:
    """A message as it is sent."""
    if not isinstance(message, BaseModel):
        return dict(message)
    return {**message.model_dump(mode="json", exclude_unset=True), "type": message.type}


def named(name: str) -> str:
    """An id as one part of a path, which cannot lead to another path.

    Raises:
        NotFound: nothing can have it.
    """
    return possible(name).replace(".", "%2E")


def over_socket(path: Path | str) -> httpx.AsyncHTTPTransport:
    """The way to a server by its Unix socket."""
    return _OverSocket(str(path))


class _OverSocket(httpx.AsyncHTTPTransport):
    def __init__(self, path: str) -> None:
        # The pool that httpx makes takes no backend, and it reads all certificates, although
        # nothing is encrypted here.
        self._pool = httpcore.AsyncConnectionPool(
            uds=path, network_backend=_Sockets(), max_connections=100, keepalive_expiry=5.0
        )


class _Sockets(httpcore.AsyncNetworkBackend):
    """Unix sockets, read by the event loop's own transport.

    `anyio.connect_unix` reads by `add_reader(socket, future.set_result)`: where a read is cancelled
    as its bytes arrive, the loop reports an InvalidStateError, a traceback at Ctrl-C.
    """

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - of the library's signature
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        link = socket.socket(socket.AF_UNIX)
        link.setblocking(False)
        try:
            with anyio.fail_after(timeout):
                await asyncio.get_running_loop().sock_connect(link, path)
            return AnyIOStream(await anyio.abc.SocketStream.from_socket(link))
        except BaseException as error:
            link.close()
            if isinstance(error, TimeoutError):
                raise httpcore.ConnectTimeout from error
            if isinstance(error, OSError):
                raise httpcore.ConnectError(str(error)) from error
            raise


class Transport:
    """The ways to ask one server.

    Args:
        base_url: Where the server is, without the prefix; leave it out with `uds`.
        uds: The server's Unix socket.
        token: Shown with every request.
        timeout: Seconds that a plain answer may take.
        patience: Seconds for which requests are repeated while the server cannot be reached.
        busy: Seconds for which requests are repeated while the server answers that it is busy.
        transport: Another way to the server, such as one within this process.
        opening: Default values for sessions that are opened.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        uds: Path | str | None = None,
        token: str | None = None,
        timeout: float = 30.0,
        patience: float = 0,
        busy: float = 0,
        transport: httpx.AsyncBaseTransport | None = None,
        opening: Mapping[str, Any] | None = None,
    ) -> None:
        if transport is None and uds is not None:
            transport = over_socket(uds)
        self._patience, self._busy = patience, max(busy, patience)
        self.opening = dict(opening or {})
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if uds is not None:
            # On one machine sending bytes costs less than compressing them.
            headers["Accept-Encoding"] = "identity"
        self._http = httpx.AsyncClient(
            base_url=(base_url or "http://gonogo").rstrip("/"),
            headers=headers,
            timeout=timeout,
            transport=transport,
            # Reading the certificate authorities takes tens of milliseconds; only TLS needs them.
            verify=not (base_url or "").startswith("http:"),
            # A proxy for the outside world has no business between the two of us.
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        """Use it in a block and it is closed at the end."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _get(self, path: str, model: type[T], /, **query: _Query) -> T:
        return _read(model, await self._ask("GET", path, params=_params(query)))

    async def _post(
        self,
        path: str,
        model: type[T],
        body: Mapping[str, Any] | None = None,
        **options: Any,  # noqa: ANN401 - of the request
    ) -> T:
        headers = {KEY: uuid4().hex}
        answer = await self._ask("POST", path, json=body or {}, headers=headers, **options)
        return _read(model, answer)

    async def _patch(self, path: str, model: type[T], body: Mapping[str, Any]) -> T:
        return _read(model, await self._ask("PATCH", path, json=body))

    async def _delete(self, path: str) -> None:
        await self._ask("DELETE", path)

    async def _ask(self, method: str, path: str, **options: Any) -> bytes:  # noqa: ANN401
        until = anyio.current_time() + self._busy
        while (answer := await self._answered(method, path, options)).is_error:
            error = refusal_of(answer)
            # A DELETE may have been carried out all the same.
            again = isinstance(error, Busy) and method != "DELETE"
            if anyio.current_time() >= until or not again:
                raise error
            await anyio.sleep(_LONGEST_DELAY)
        return answer.content

    async def _answered(self, method: str, path: str, options: Mapping[str, Any]) -> httpx.Response:
        until, delay = anyio.current_time() + self._patience, _FIRST_DELAY
        while True:
            try:
                return await self._http.request(method, PREFIX + path, **options)
            except httpx.TransportError as error:
                # A POST has its key; a DELETE may have been carried out already.
                again = method != "DELETE" or isinstance(error, httpx.ConnectError)
                if anyio.current_time() >= until or not again:
                    raise _lost(error) from error
            await anyio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    async def listen(self, where: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Have the process at the Unix socket listen on a port too, for as long as this is read.

        Args:
            where: As `gonogo.server.app` has it.

        Raises:
            GonogoError: it does not, and says why.
        """
        left, lasting = b"", {"json": where, "timeout": httpx.Timeout(None)}
        async for piece in self._long("POST", "/listeners", lasting):
            *lines, left = (left + piece).split(b"\n")
            for line in lines:
                yield json.loads(line)

    async def listeners(self) -> list[str]:
        """Where the process at the Unix socket listens on ports."""
        return json.loads(await self._ask("GET", "/listeners"))["urls"]

    async def news(self) -> AsyncGenerator[EventBody]:
        """Which sessions change, from now on; the first piece says only that the stream is open.

        Raises:
            GonogoError: the stream broke, or was refused. Whoever opens it again looks once.
        """
        query = StreamQuery(method="GET", path="/news", follows=True, was_open=True)
        try:
            async with self._opened(query) as pieces:
                async for piece in pieces:
                    yield piece
        except httpx.TransportError as error:
            raise _lost(error) from error

    def _pieces(self, path: str, **query: _Query) -> AsyncGenerator[bytes]:
        """A long answer, as it comes."""
        return self._long("GET", path, {"params": _params(query)})

    async def _long(
        self, method: str, path: str, options: Mapping[str, Any]
    ) -> AsyncGenerator[bytes]:
        try:
            async with self._http.stream(method, PREFIX + path, **options) as answer:
                if answer.is_error:
                    await answer.aread()
                    raise refusal_of(answer)
                async for piece in answer.aiter_bytes():
                    yield piece
        except httpx.TransportError as error:
            raise _lost(error) from error

    async def _stream(self, question: "StreamQuery") -> AsyncGenerator[EventBody]:
        """Every event of a stream once, up to its `done`; a break is not seen from outside."""
        breaks = _Breaks()
        while True:
            failure: GonogoError = Unreachable(
                "{what}: the server ended the stream; try again", what=_BREAKS
            )
            try:
                async with self._opened(question) as events:
                    async for event in events:
                        if event["type"] == "done":
                            return
                        if question.is_news(event):
                            breaks.count = 0
                            yield event
            except httpx.TransportError as error:
                failure = Unreachable("{what}: {error}", what=_BREAKS, error=_why(error))
            except Busy as error:
                failure = error
            patience = self._busy if isinstance(failure, Busy) else self._patience
            await anyio.sleep(breaks.add(failure, patience))

    @asynccontextmanager
    async def _opened(self, question: "StreamQuery") -> AsyncGenerator[AsyncIterator[EventBody]]:
        async with self._http.stream(
            question.method,
            PREFIX + question.path,
            json=question.body,
            params=question.params,
            headers=question.headers,
            timeout=httpx.Timeout(_CONNECT, read=_SILENCE),
        ) as answer:
            if answer.is_error:
                await answer.aread()
                raise refusal_of(answer)
            question.was_open = True
            if question.on_open is not None:
                question.on_open()
            yield read_stream(answer.aiter_bytes())


class StreamQuery(Struct, kw_only=True):
    """The request for a stream, used each time that it is opened."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    follows: bool
    """After a break, continue after the last event; else repeat the request under one key."""
    seen: int = 0
    """The last event that is known."""
    key: str = field(default_factory=lambda: uuid4().hex)

    on_open: Callable[[], object] | None = None
    """Called when it is open: what was sent is kept."""
    was_open: bool = False

    @property
    def params(self) -> dict[str, int]:
        """Where the stream begins when it is opened for the first time."""
        return {"after": self.seen} if self.follows and not self.was_open else {}

    @property
    def headers(self) -> dict[str, str]:
        """The headers that make it safe to repeat the request."""
        if not self.follows:
            return {KEY: self.key}
        return {"Last-Event-ID": str(self.seen)} if self.was_open else {}

    def is_news(self, event: EventBody) -> bool:
        """Return whether an event is new, and remember it."""
        seq = event.get("seq")
        if seq is None:
            return True
        if seq <= self.seen:
            return False
        self.seen = seq
        return True


class _Breaks(Struct):
    """How many times in a row a stream broke without an event in between."""

    count: int = 0
    since: float = 0.0

    def add(self, failure: GonogoError, patience: float) -> float:
        """Count a break; return the seconds to wait before the stream is opened again.

        Raises:
            GonogoError: the failure, when that was tried often and long enough.
        """
        self.count += 1
        if self.count == 1:
            self.since = anyio.current_time()
        if self.count >= ATTEMPTS and anyio.current_time() >= self.since + patience:
            raise failure
        return min(_FIRST_DELAY * 2**self.count, _LONGEST_DELAY)


def _read(model: type[T], answer: bytes) -> T:
    try:
        return model.model_validate_json(answer)
    except ValidationError as error:
        raise Unintelligible(model.__name__) from error


def _lost(error: httpx.TransportError) -> Unreachable:
    return (NoAnswer if isinstance(error, httpx.ReadTimeout) else Unreachable)(_why(error))


def _why(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ReadTimeout):
        return because("it did not answer in time")
    return str(error) or type(error).__name__


def _params(query: Mapping[str, _Query]) -> dict[str, str | int]:
    return {
        name.rstrip("_"): value.isoformat() if isinstance(value, datetime) else value
        for name, value in given(query).items()
    }
