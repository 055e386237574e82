"""The protocol's methods and their handlers, its errors, and its transport.

The library's own router passes the fields of `_meta` to methods as arguments, where they could
replace checked ones. Here a method gets the checked request.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from secrets import randbelow
from typing import Any, Generic, TypeVar, cast

import anyio
from acp import RequestError
from msgspec import Struct
from pydantic import BaseModel, ValidationError

from gonogo.client import Unreachable
from gonogo.domain.base import MAX_BYTES, loads
from gonogo.domain.errors import (
    Conflict,
    GonogoError,
    InternalFailure,
    InvalidMessage,
    NotFound,
    RateLimited,
    Refused,
    TooLarge,
    Unauthorized,
    because,
    parts_of,
)
from gonogo.i18n import told as in_language
from gonogo.pipes import LineReader, request_id_of, write_all

_LOG = logging.getLogger(__name__)
_INVALID_REQUEST, _INVALID_PARAMS, _INTERNAL = -32600, -32602, -32603
_AUTH_REQUIRED, _NOT_FOUND, _REFUSED = -32000, -32002, -32001
_CODES: tuple[tuple[type[GonogoError], int], ...] = (
    (InvalidMessage, _INVALID_PARAMS),
    (TooLarge, _INVALID_REQUEST),
    (NotFound, _NOT_FOUND),
    (Unauthorized, _AUTH_REQUIRED),
    (Conflict, _REFUSED),
    (RateLimited, _REFUSED),
    (Refused, _REFUSED),
)
T = TypeVar("T", bound=BaseModel)


class Route(Struct, Generic[T], frozen=True):
    """A method: the model of its parameters, and its handler."""

    model: type[T]
    answer: Callable[[T], Awaitable[Mapping[str, Any]]]

    async def handle(self, params: object) -> Mapping[str, Any]:
        """Check the parameters and call the handler.

        Raises:
            RequestError: the parameters are invalid.
        """
        try:
            request = self.model.model_validate({} if params is None else params)
        except ValidationError as error:
            raise _invalid(error) from None
        return await self.answer(request)


class Router:
    """Answers requests and handles notifications."""

    def __init__(
        self,
        requests: Mapping[str, Route[Any]],
        notifications: Mapping[str, Route[Any]],
        locale: str | None = None,
    ) -> None:
        self._requests, self._notifications, self._locale = requests, notifications, locale

    async def __call__(self, method: str, params: object, is_notification: bool) -> Any:  # noqa: ANN401 - as the library calls it
        """Answer one request, or handle one notification, which gets no answer.

        Raises:
            RequestError: the error for the sender.
        """
        if is_notification:
            await self._take(method, params)
            return None
        route = self._requests.get(method)
        if route is None:
            raise RequestError.method_not_found(method)
        try:
            return await route.handle(params)
        except GonogoError as error:
            raise told(error, self._locale) from None
        except RequestError:
            raise
        except Exception as error:
            _LOG.exception("%s failed", method)
            said = InternalFailure(
                "Internal error: {kind}; the log has more", kind=type(error).__name__
            )
            raise told(said, self._locale) from None

    async def _take(self, method: str, params: object) -> None:
        route = self._notifications.get(method)
        if route is None:
            return
        try:
            await route.handle(params)
        except (GonogoError, RequestError) as error:
            _LOG.warning("%s: %s", method, error)
        except Exception:
            _LOG.exception("%s failed", method)


def told(error: GonogoError, locale: str | None = None) -> RequestError:
    """A gonogo error as editors show it; `data.code` is its code in gonogo's own protocol."""
    code = next((number for kind, number in _CODES if isinstance(error, kind)), _INTERNAL)
    said = error.said
    if isinstance(error, Unreachable):
        said = because(
            "The gonogo server has gone away: {problem}; start it, then open the session again",
            problem=error,
        )
    text = in_language(said, locale) or type(error).__name__
    return RequestError(code, text, {"code": error.code, **parts_of(said)})


def refused(text: str) -> RequestError:
    """The error for parameters of the right shape with impossible values."""
    return RequestError(_INVALID_PARAMS, text)


def _invalid(error: ValidationError) -> RequestError:
    found = [
        {"field": ".".join(str(part) for part in each["loc"]), "problem": each["msg"]}
        for each in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return RequestError(_INVALID_PARAMS, "Invalid params", {"errors": found})


# Messages on two file descriptors, one line of JSON each, for the library's connection.
#
# The library's own reader skips lines that it cannot read, so their sender waits for an answer for
# ever, and it fails at answers that nobody asked for. This one answers unreadable lines with an
# error, and passes only messages on.

Message = dict[str, Any]
_BACKLOG = 1_000
_FAREWELL = 0.5
"""Seconds that the other side has to read the last answers."""
_LOWEST, _SPAN = 1 << 20, 1 << 30
"""The range in which the ids of our requests may begin."""


class ProtocolReply(Message):
    """The result of a request, with an act to do as soon as it is sent."""

    def __init__(self, fields: Mapping[str, Any], then: Callable[[], object]) -> None:
        super().__init__(fields)
        self.then = then


class Pipe:
    """A transport for the library's connection.

    Args:
        source: Where messages are read from; it must not be a terminal's.
        sink: Where messages are written to.
    """

    def __init__(self, source: int, sink: int) -> None:
        self._lines, self._sink = LineReader(source, MAX_BYTES), sink
        # An editor may answer a request of a killed agent late. That must not be taken for the
        # answer to one of our requests.
        self.first = _LOWEST + randbelow(_SPAN)
        """The id of our first request."""
        self._into, self._out = anyio.create_memory_object_stream[bytes](_BACKLOG)
        self._numbers: dict[int, Any] = {}

    async def receive(self) -> Message | None:
        """The next message; None when there are no more."""
        while (line := await self._lines.next()) is not None:
            message, refusal = _read(line)
            if refusal is None:
                return self._numbered(message)
            with suppress(ConnectionError):
                await self.send(refusal)
        return None

    async def send(self, message: Message) -> None:
        """Queue a message to be written after all earlier ones.

        Raises:
            ConnectionError: nobody reads any more.
        """
        if "method" in message and "id" in message:
            message = {**message, "id": self.first + message["id"]}
            self._numbers[id(message["params"])] = message["id"]
        try:
            await self._into.send(json.dumps(message, default=str).encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise ConnectionError("Connection closed") from None
        result = message.get("result")
        if isinstance(result, ProtocolReply):
            result.then()

    def _numbered(self, message: Message) -> Message:
        """A message with the connection's own ids, which count from 0."""
        number = message.get("id")
        if "method" in message or not isinstance(number, int):
            return message
        return {**message, "id": number - self.first}

    def number_of(self, params: object) -> Any:  # noqa: ANN401 - an id of JSON-RPC
        """The id of the request that was sent with these parameters; asked for once."""
        return self._numbers.pop(id(params), None)

    async def close(self) -> None:
        """Accept no more messages; queued ones are still written."""
        self._into.close()

    async def write(self) -> None:
        """Write queued messages until the pipe is closed, or nobody reads it."""
        with self._out, suppress(OSError):
            async for data in self._out:
                await write_all(self._sink, data)


async def farewell(pipe: Pipe, wrote: anyio.Event) -> None:
    """Close a pipe, and give the other side a moment to read the last messages."""
    await pipe.close()
    with anyio.move_on_after(_FAREWELL, shield=True):
        await wrote.wait()


def _read(line: bytes) -> tuple[Message, Message | None]:
    """A message, or the error that answers it."""
    try:
        message = loads(line)
    except TooLarge as error:
        return {}, _refusal(line, RequestError(-32600, str(error)))
    except GonogoError as error:
        return {}, _refusal(line, RequestError(-32700, f"Parse error: {error}"))
    if problem := _problem(message):
        return {}, _refusal(line, RequestError(-32600, f"Invalid request: {problem}"))
    return message, None


def _problem(message: object) -> str | None:
    if not isinstance(message, dict):
        return "a message is one object"
    fields = cast("Message", message)
    number = fields.get("id")
    if isinstance(number, bool) or not isinstance(number, str | int | None):
        return "id is a number or a string"
    if "method" in fields:
        return None if isinstance(fields["method"], str) else "method is a string"
    if "id" not in fields:
        return "a message has a method or an id"
    if not isinstance(fields.get("error"), dict | None):
        return "error is an object"
    if fields.get("error") is not None and fields.get("result") is not None:
        return "an answer has a result or an error, not both"
    return None


def _refusal(line: bytes, error: RequestError) -> Message:
    problem = {"code": error.code, "message": str(error)}
    return {"jsonrpc": "2.0", "id": request_id_of(line), "error": problem}
