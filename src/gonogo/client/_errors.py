"""The server's refusals as the errors that they were there."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from gonogo.domain.errors import (
    AlreadyDecided,
    Busy,
    Failed,
    GonogoError,
    IllegalTransition,
    Internal,
    InvalidMessage,
    Refused,
    UnsupportedMedia,
)

_SPECIAL: dict[tuple[str, int], type[GonogoError]] = {
    ("internal", 503): Busy,
    ("internal", 500): Internal,
    ("invalid_message", 415): UnsupportedMedia,
}


class Unreachable(Failed):
    """No server answers, or its streams keep breaking."""

    status = 503


class Unintelligible(Failed):
    """What answers is no gonogo server, or one of another version."""

    status = 502

    def __init__(self, expected: str) -> None:
        super().__init__(
            f"The answer is no {expected} of this version's protocol: another server is at this "
            "address, or gonogo is of another version there; end that one and start it again"
        )
        self.expected = expected


def error_of(body: Mapping[str, Any]) -> GonogoError:
    """An error from a problem document, or from an `error` event."""
    detail = str(body.get("detail", body.get("content", "The server refused")))
    code, status = str(body.get("code", "")), int(body.get("status", 0))
    if code == AlreadyDecided.code:
        return _already_decided(detail, body)
    kind = _SPECIAL.get((code, status)) or _BY_CODE.get(code)
    if kind is None:
        kind = Internal if status >= 500 else Refused
    return kind(detail)


def refusal_of(answer: httpx.Response) -> GonogoError:
    """The error that an answer tells of; its body must have been read."""
    try:
        body: Any = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {"detail": f"The server answered {answer.status_code} {answer.reason_phrase}"}
    return error_of({"status": answer.status_code, **body})


def _already_decided(detail: str, body: Mapping[str, Any]) -> AlreadyDecided:
    # Its text is whole already; its constructor would write another around it.
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
