"""An event as it is sent: its JSON, which is written once for all who get it.

It is one line of valid UTF-8, whatever a model wrote, so that no reader takes a part of it for
another event.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder

# Readers that split lines as Python does would break a frame at these.
_LINE_ENDS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))


def as_line(body: Mapping[str, Any]) -> str:
    """A body as one line of JSON that is valid UTF-8 whatever a model wrote."""
    text = unbroken(json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=str))
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def unbroken(text: str) -> str:
    """JSON as one line, for whoever splits lines."""
    if text.isascii():
        return text
    for line_end, escape in _LINE_ENDS:
        text = text.replace(line_end, escape)
    return text


class Envelope(Struct, frozen=True):
    """What is known of an event without a look at what it tells."""

    type: str
    seq: int | None = None
    session_id: str | None = None
    turn_id: str | None = None
    plan_id: str | None = None
    subtask_id: str | None = None
    is_final: bool | None = None


_ENVELOPE = Decoder(Envelope)


class WrittenEvent(Mapping[str, Any]):
    """An event's body as all its followers get it, with its JSON, which is written once for all.

    One of the log comes as it was written there; what it tells is read by who looks into it. It
    does not change: who tells it otherwise makes a body of their own.
    """

    __slots__ = ("_envelope", "_fields", "_written")

    def __init__(self, fields: dict[str, Any] | None = None, written: str | None = None) -> None:
        self._fields, self._written = fields, written
        self._envelope: Envelope | None = None

    @classmethod
    def read(cls, written: str) -> "WrittenEvent":
        """The event that somebody else has written.

        Raises:
            msgspec.DecodeError: it is none.
        """
        event = cls(written=written)
        event._envelope = _ENVELOPE.decode(written)
        return event

    @property
    def written(self) -> str:
        """It as one line of JSON."""
        if self._written is None:
            self._written = as_line(self._fields or {})
        return self._written

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as a dictionary
        """As a dictionary does; what every event has is known without reading the rest."""
        fields = self._fields
        if fields is None and name in Envelope.__struct_fields__:
            if self._envelope is None:
                self._envelope = _ENVELOPE.decode(self.written)
            value = getattr(self._envelope, name)
            return default if value is None else value
        return self._body.get(name, default)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - as a dictionary
        if (value := self.get(name, _ABSENT)) is _ABSENT:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._body)

    def __len__(self) -> int:
        return len(self._body)

    def __repr__(self) -> str:
        return repr(self._body)

    @property
    def _body(self) -> dict[str, Any]:
        if self._fields is None:
            self._fields = json.loads(self.written)
        return self._fields


_ABSENT = object()
