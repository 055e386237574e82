"""Values that cross a process boundary: their base classes, their JSON and their digests."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, NoReturn, Self, cast

from msgspec import Struct
from msgspec.json import Decoder
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from gonogo.domain.errors import InvalidMessage, TooLarge

ID = r"^[A-Za-z0-9_.:-]{1,128}$"
Id = Annotated[str, StringConstraints(pattern=ID, strict=True)]
Text = Annotated[str, StringConstraints(strict=True)]
Filter = Annotated[str | None, StringConstraints(pattern=ID)]
"""An id in a query."""


class Frozen(BaseModel):
    """A value that crosses a process boundary: immutable, and strict about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class View(BaseModel):
    """An immutable body."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    @classmethod
    def of(cls, *records: object, **given: Any) -> Self:  # noqa: ANN401 - as its fields are
        """Make a view from records: a field that is not given comes from a record's equal name."""
        wanted = cls.model_fields.keys() - given.keys()
        same = {
            name: getattr(record, name)
            for record in reversed(records)
            for name in wanted
            if hasattr(record, name)
        }
        return cls(**same, **given)


class Request(BaseModel):
    """A message from a client: immutable, no unknown fields, no coercion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)
    nulls: ClassVar[frozenset[str]] = frozenset()
    """The fields in which null is a value."""


class LenientRequest(Request):
    """A message or a decision in which a null field counts as left out."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, fields: Any) -> Any:  # noqa: ANN401 - as a stranger wrote it
        if not isinstance(fields, dict):
            return fields
        given = cast("dict[str, Any]", fields)
        return {n: value for n, value in given.items() if value is not None or n in cls.nulls}


class Page(BaseModel):
    """The requested part of a long list."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    offset: Annotated[int, Field(ge=0, lt=2**31)] = 0


def elapsed(since: datetime, until: datetime) -> float:
    """The seconds from one moment to a later one; 0 if the clock was set back in between."""
    return max(0.0, (until - since).total_seconds())


# Strict reading of untrusted JSON.
#
# Python's `json` accepts duplicate keys, NaN, numbers out of range and lone surrogates, and deep
# nesting makes it fail. Each of these has been used to smuggle a second meaning past a check, so
# each is refused here.

MAX_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 32
# Possessive, and it accepts a string without an end: searching again for the end of each quote
# would take quadratic time.
_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_FORBIDDEN = re.compile("[\ud800-\udfff\x00]")


def loads(text: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON, refusing what two parsers could read differently.

    Raises:
        TooLarge: over 2 MiB, or nested deeper than 32.
        InvalidMessage: not JSON, a duplicate key, NaN or a number out of range, a lone surrogate or
            a NUL.
    """
    text = _as_text(text)
    _check_depth(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except ValueError as error:
        raise InvalidMessage("Not valid JSON: {error}", error=error) from None
    check_text(value)
    return value


def check_text(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Check every string of a JSON value for characters that not all databases can store.

    Raises:
        InvalidMessage: a lone surrogate or a NUL.
    """
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if _FORBIDDEN.search(item):
                raise InvalidMessage("Text must not contain NUL or lone surrogates; remove them")
        elif isinstance(item, list):
            pending.extend(cast("list[Any]", item))
        elif isinstance(item, dict):
            fields = cast("dict[Any, Any]", item)
            pending.extend(fields)
            pending.extend(fields.values())


def _as_text(text: str | bytes) -> str:
    size = len(text)
    if isinstance(text, str) and not text.isascii() and size <= MAX_BYTES:
        size = len(text.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        raise TooLarge("The message has more than {most} bytes; shorten it", most=MAX_BYTES)
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise InvalidMessage("Not valid UTF-8; send UTF-8") from None


def _check_depth(text: str) -> None:
    depth = 0
    for token in _BRACKETS.finditer(text):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        if depth > MAX_DEPTH:
            raise TooLarge(
                "The message is nested more than {most} levels deep; make it flatter",
                most=MAX_DEPTH,
            )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise InvalidMessage("An object has the same key twice; keep one of them")
    return value


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise InvalidMessage(
            "The number {digits} is out of range; use a smaller one", digits=digits[:40]
        )
    return number


def _no_constant(name: str) -> NoReturn:
    raise InvalidMessage("{name} is not JSON", name=name)


# Canonical JSON and its digests.
#
# These digests compare what a person was shown, what an approval stores and what runs. So equal
# values must give equal bytes on every platform: sorted keys, no blanks, UTF-8, no NaN.


def canonical_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Write a JSON value in its one canonical form.

    Raises:
        ValueError: the value holds NaN or an infinity.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """`sha256:` and the hex digest of a JSON value's canonical form."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode()).hexdigest()


def content_hash(data: bytes) -> str:
    """`sha256:` and the hex digest of a file's bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def mapped(value: object, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - any JSON value
    """Apply a function to every string in a JSON value, except to the names of fields."""
    match value:
        case str():
            return change(value)
        case list():
            return [mapped(item, change) for item in cast("list[object]", value)]
        case dict():
            fields = cast("dict[str, object]", value)
            return {name: mapped(item, change) for name, item in fields.items()}
        case _:
            return value


# An event as it is sent: its JSON, encoded once for all receivers.
#
# It is one line of valid UTF-8, whatever a model wrote, so that no reader takes a part of it for
# another event.

# Readers that split lines as Python does would break an event at these characters.
_LINE_ENDS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))


def as_line(body: Mapping[str, Any]) -> str:
    """Encode a body as one line of JSON that is valid UTF-8, whatever a model wrote."""
    text = unbroken(json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=str))
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def unbroken(text: str) -> str:
    """Escape the line ends in JSON, for readers that split lines."""
    if text.isascii():
        return text
    for line_end, escape in _LINE_ENDS:
        text = text.replace(line_end, escape)
    return text


class Envelope(Struct, frozen=True):
    """The fields that every event may have; they are read without decoding the rest."""

    type: str
    seq: int | None = None
    session_id: str | None = None
    turn_id: str | None = None
    plan_id: str | None = None
    subtask_id: str | None = None
    is_final: bool | None = None


_ENVELOPE = Decoder(Envelope)


class WrittenEvent(Mapping[str, Any]):
    """An immutable event body, with its JSON, which is encoded once for all followers.

    An event from the log comes as JSON and is decoded only when somebody reads its fields.
    """

    __slots__ = ("_envelope", "_fields", "_written")

    def __init__(self, fields: dict[str, Any] | None = None, written: str | None = None) -> None:
        self._fields, self._written = fields, written
        self._envelope: Envelope | None = None

    @classmethod
    def read(cls, written: str) -> "WrittenEvent":
        """Make an event from its JSON.

        Raises:
            msgspec.DecodeError: it is not an event.
        """
        event = cls(written=written)
        event._envelope = _ENVELOPE.decode(written)
        return event

    @property
    def written(self) -> str:
        """The event as one line of JSON."""
        if self._written is None:
            self._written = as_line(self._fields or {})
        return self._written

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as a dictionary
        """Work as in a dictionary; the fields of `Envelope` are read without decoding the rest."""
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
