"""Answers that the client has already: each JSON answer has an `ETag`, and a match is a 304.

The tag is a hash of the body (RFC 9110, sections 8.8.3 and 13.1.2), so it needs no version of what
is shown and cannot be wrong: the view is made as always, and only its bytes are not sent again.
It is a weak one, because the layer around this one may compress the body.
"""

from hashlib import blake2b

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_KEPT = frozenset({b"cache-control", b"etag", b"vary", b"x-content-type-options"})
"""The headers that a 304 has (RFC 9110, section 15.4.5): those of the answer but for its body's."""


class Conditional:
    """An ASGI app that answers a GET by 304 where `If-None-Match` names the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through; what is no GET is not looked at."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        wanted = Headers(scope=scope).get("if-none-match", "")
        await self._app(scope, receive, _Tagged(send, wanted).take)


class _Tagged:
    """What is sent for one request; the head waits for the first part of the body."""

    def __init__(self, send: Send, wanted: str) -> None:
        self._send, self._wanted = send, wanted
        self._head: Message | None = None

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_whole_json(message):
            self._head = message
            return
        if self._head is not None:
            head, self._head = self._head, None
            await self._send(head if message.get("more_body") else self._tag(head, message))
        await self._send(message)

    def _tag(self, head: Message, body: Message) -> Message:
        tag = f'W/"{blake2b(body["body"], digest_size=16).hexdigest()}"'
        MutableHeaders(scope=head)["ETag"] = tag
        if not _names(self._wanted, tag):
            return head
        body["body"] = b""
        kept = [(name, value) for name, value in head["headers"] if name.lower() in _KEPT]
        return {**head, "status": 304, "headers": kept}


def _is_whole_json(message: Message) -> bool:
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return message["status"] == 200 and kind.startswith("application/json")


def _names(wanted: str, tag: str) -> bool:
    """Whether an `If-None-Match` names a tag, by weak comparison."""
    told = {each.strip().removeprefix("W/") for each in wanted.split(",")}
    return bool(told & {"*", tag.removeprefix("W/")})
