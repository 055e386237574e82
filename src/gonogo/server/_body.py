"""A request's body: JSON, strictly, within a limit of bytes and of seconds.

The limit is checked while reading, so an endless body is never kept.
"""

from typing import Any, TypeVar

import anyio
from fastapi import Request
from pydantic import BaseModel

from gonogo.domain import strict_json
from gonogo.domain.errors import TooLarge, UnsupportedMedia
from gonogo.domain.messages import validated
from gonogo.domain.strict_json import MAX_BYTES
from gonogo.server._caller import door_of
from gonogo.server._problems import SlowBody

T = TypeVar("T", bound=BaseModel)
# A sender that is cut off in the middle of its body does not see the answer. So what is a little
# too long is read to its end and forgotten; only what is this many times too long is cut off.
_PASSED_OVER = 8


async def read_json(request: Request) -> Any:  # noqa: ANN401 - any JSON value
    """The body as JSON; no body at all counts as an object without fields.

    Raises:
        UnsupportedMedia: it is not `application/json` in UTF-8.
        TooLarge: over 2 MiB, or nested too deep.
        SlowBody: it did not arrive in time.
        InvalidMessage: it is not JSON that has one meaning.
    """
    media = request.headers.get("content-type")
    if media is not None and not _is_json(media):
        raise UnsupportedMedia(f"The body must be application/json, not {media[:80]}")
    raw = await read_bytes(request, MAX_BYTES, "message")
    if not raw:
        return {}
    if media is None:
        raise UnsupportedMedia("The body must be application/json, and say so")
    return strict_json.loads(raw)


async def read_body(request: Request, model: type[T]) -> T:
    """The body as one of the request models; raises what `read_json` does, and on its shape.

    Raises:
        InvalidMessage: naming the field that is wrong.
    """
    return validated(model, await read_json(request))


async def read_bytes(request: Request, most: int, what: str) -> bytes:
    """The body as it came.

    Args:
        most: The bytes that it may have.
        what: What it is, for the text of a refusal.

    Raises:
        TooLarge: it has more.
        SlowBody: it did not arrive in time.
    """
    seconds = door_of(request).limits.body
    try:
        with anyio.fail_after(seconds):
            body = await _read(request, most)
    except TimeoutError:
        raise SlowBody(f"The body did not arrive within {seconds:g} seconds") from None
    if body is None:
        raise TooLarge(f"A {what} has at most {most} bytes")
    return body


async def _read(request: Request, most: int) -> bytes | None:
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > _PASSED_OVER * most:
        return None
    body, length = bytearray(), 0
    async for chunk in request.stream():
        length += len(chunk)
        if length <= most:
            body += chunk
        elif length > _PASSED_OVER * most:
            break
    return bytes(body) if length <= most else None


def _is_json(media: str) -> bool:
    kind, *parameters = (part.strip().lower() for part in media.split(";"))
    charsets = [p for p in parameters if p.startswith("charset=")]
    return kind == "application/json" and all(
        p.removeprefix("charset=").strip('"') in {"utf-8", "utf8"} for p in charsets
    )
