"""Which method of the protocol is answered by what, and how an error is told.

The library's own router hands the fields of `_meta` to methods as arguments, where they could take
the place of checked ones; here a method gets the request as it was checked.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from acp import RequestError
from pydantic import BaseModel, ValidationError

from gonogo.client import Unreachable
from gonogo.domain.errors import (
    Conflict,
    GonogoError,
    InvalidMessage,
    NotFound,
    RateLimited,
    Refused,
    TooLarge,
    Unauthorized,
)

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


@dataclass(frozen=True, slots=True)
class Route(Generic[T]):
    """A method: what its parameters are, and who answers it."""

    model: type[T]
    answer: Callable[[T], Awaitable[Mapping[str, Any]]]

    async def handle(self, params: object) -> Mapping[str, Any]:
        """Check the parameters and have the method answered.

        Raises:
            RequestError: they are not what the method takes.
        """
        try:
            request = self.model.model_validate({} if params is None else params)
        except ValidationError as error:
            raise _invalid(error) from None
        return await self.answer(request)


class Router:
    """Answers requests and takes notifications."""

    def __init__(
        self, requests: Mapping[str, Route[Any]], notifications: Mapping[str, Route[Any]]
    ) -> None:
        self._requests, self._notifications = requests, notifications

    async def __call__(self, method: str, params: object, is_notification: bool) -> Any:  # noqa: ANN401 - as the library calls it
        """Answer one request, or take one notification, which is never answered.

        Raises:
            RequestError: what the sender is told.
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
            raise told(error) from None
        except RequestError:
            raise
        except Exception as error:
            _LOG.exception("%s failed", method)
            kind = type(error).__name__
            raise RequestError(_INTERNAL, f"Internal error: {kind}; the log has more") from None

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


def told(error: GonogoError) -> RequestError:
    """An error of ours as the editor is told of it; `data.code` is the word of our own wire."""
    code = next((number for kind, number in _CODES if isinstance(error, kind)), _INTERNAL)
    text = str(error) or type(error).__name__
    if isinstance(error, Unreachable):
        text = f"The gonogo server has gone away: {text}"
    return RequestError(code, text, {"code": error.code})


def refused(text: str) -> RequestError:
    """The parameters have the right shape, and cannot be."""
    return RequestError(_INVALID_PARAMS, text)


def _invalid(error: ValidationError) -> RequestError:
    found = [
        {"field": ".".join(str(part) for part in each["loc"]), "problem": each["msg"]}
        for each in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return RequestError(_INVALID_PARAMS, "Invalid params", {"errors": found})
