"""A provider's failure as `ModelFailed`: what happened, what to do, and no secrets.

May pass: timeouts, broken connections and streams, 408, 429 and 5xx. Will not: every other 4xx,
and a quota that is used up. A refusal because a request is longer than the model's window is
`PromptTooLong`: a shorter one may be answered.
"""

import re
from collections.abc import Iterable
from typing import Any, cast

from gonogo.domain.errors import ModelFailed, PromptTooLong, Reason, because, together

_PASSING = frozenset({408, 429})
_SERVERS_FAULT = 500
_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:sk|pk|gsk|xai|AIza)[-_][-_A-Za-z0-9]{6,}|\bAIza[-_A-Za-z0-9]{12,}"
)
_REFUSES_LENGTH = frozenset({400, 413, 422, None})
_SAYS_TOO_LONG = re.compile(
    r"context.?(length|size|window)|(prompt|input|request)( is|_)?.too.(long|large)"
    r"|too many (input )?tokens|token count.{0,40}exceeds|maximum number of tokens"
    r"|reduce the length",
    re.IGNORECASE,
)
"""As servers say it that pydantic-ai does not know."""
_MAX_TEXT = 500
_SHORTEST = 4


def model_failed(model: str, error: Exception, secrets: Iterable[str] = ()) -> ModelFailed:
    """Describe what a provider, or the way to it, did."""
    status = _status(error)
    kind = PromptTooLong if _is_too_long(error, status) else ModelFailed
    said = _what(model, error, status, secrets)
    step = None if kind is PromptTooLong else _step(error, status)
    return kind(
        said if step is None else together((said, step)),
        http_status=status,
        retry_after=getattr(error, "retry_after", None),
        transient=_may_pass(error, status),
        sent=not _was_never_sent(error),
    )


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, and without what looks like one."""
    # The longest first: another one may be the beginning of it.
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "***")
    return _LOOKS_LIKE_A_KEY.sub("***", text)


def _is_too_long(error: Exception, status: int | None) -> bool:
    """Whether the provider says that the request holds more than the model's window."""
    from pydantic_ai.exceptions import ModelAPIError, ModelContextWindowExceededError

    if isinstance(error, ModelContextWindowExceededError):
        return True
    if not isinstance(error, ModelAPIError) or status not in _REFUSES_LENGTH:
        return False
    detail = _detail(getattr(error, "body", None)) or str(error)
    return _SAYS_TOO_LONG.search(detail) is not None


def _status(error: Exception) -> int | None:
    from pydantic_ai.exceptions import ModelHTTPError

    return error.status_code if isinstance(error, ModelHTTPError) else None


def _what(model: str, error: Exception, status: int | None, secrets: Iterable[str]) -> Reason:
    if isinstance(error, TimeoutError):
        return because("{model} did not answer in time", model=model)
    detail = _line(_detail(getattr(error, "body", None)), secrets)
    if status is not None and detail:
        return because(
            "{model} answered {status}: {detail}", model=model, status=status, detail=detail
        )
    if status is not None:
        return because("{model} answered {status}", model=model, status=status)
    if isinstance(error, (AttributeError, TypeError, LookupError)):
        # The library of the provider trusts that an answer has the shape that it should have.
        return because("{model} sent an answer that gonogo cannot read", model=model)
    detail = detail or _line(str(error), secrets) or type(error).__name__
    return because("{model} failed: {detail}", model=model, detail=detail)


def _step(error: Exception, status: int | None) -> Reason | None:
    """What a person can do about it, where it is known."""
    if isinstance(error, TimeoutError):
        return because("try again, or choose another model")
    if _was_never_sent(error):
        return because("check the network and the address of the provider, then try again")
    match status:
        case 401 | 403:
            return because("check the key of this provider, then run: gonogo doctor")
        case 404:
            return because("check the name of the model and the address of the provider")
        case 429:
            return because("wait and try again, or choose another model")
        case int() if status >= _SERVERS_FAULT:
            return because("try again later, or choose another model")
        case _:
            return None


def _line(said: str, secrets: Iterable[str]) -> str:
    return " ".join(redacted(said, secrets).split())[:_MAX_TEXT].rstrip(".")


def _detail(body: object) -> str:
    if isinstance(body, str):
        return body
    if not isinstance(body, dict):
        return ""
    fields = cast("dict[str, Any]", body)
    return _detail(fields.get("error")) or str(fields.get("message") or "")


def _was_never_sent(error: Exception) -> bool:
    from pydantic_ai.exceptions import ModelConnectionError

    return isinstance(error, ModelConnectionError) and error.phase in ("pool", "connect")


def _may_pass(error: Exception, status: int | None) -> bool:
    import httpx2
    from pydantic_ai import exceptions

    if isinstance(error, exceptions.ModelQuotaExceededError):
        return False
    if status is not None:
        return status in _PASSING or status >= 500
    if isinstance(error, exceptions.ModelRequestRejectedError):
        return False
    return isinstance(
        error,
        (
            exceptions.ModelAPIError,
            exceptions.UnexpectedModelBehavior,
            httpx2.TransportError,
            OSError,
            TimeoutError,
        ),
    )
