"""Server-sent events, read as they come.

Lines end with LF, or CR and LF, and with nothing else: what Python also takes for the end of a line
may stand inside a frame's JSON.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

from pydantic import ValidationError

from gonogo.domain.events import EVENTS, AnyEvent, Event

EventBody = dict[str, Any]


def read_event(body: EventBody) -> AnyEvent | Event:
    """An event as a value; one of a type that this version does not know keeps its envelope."""
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
