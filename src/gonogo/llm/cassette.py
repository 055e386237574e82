"""Cassettes: the exchanges of a session with its model's provider, recorded and played again.

A cassette is a file of JSON lines. Each line is one HTTP exchange: the bytes of the request's body,
and the answer in the pieces in which it came, or how it broke off. Recording passes everything on
unchanged and appends a line when an exchange is over. Playing answers each request with what was
recorded for the same request, and never reaches the network.

Exchanges are found by their request and not by their place in the file, for subtasks run at the
same time. Two requests are the same if their bodies are, byte for byte, but for what differs in
each run: see `NormalForm`. No headers of requests are kept; what is secret is taken out of the rest
before it is written.
"""

import base64
import hashlib
import json
import logging
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx2
import msgspec
from msgspec import Struct

from gonogo.domain.errors import ModelNotConfigured
from gonogo.llm.failures import redacted

WITHHELD = "The reply held a secret, so it was not recorded, and nothing after it can be played"
_MOST = 1 << 30
"""Bytes of a cassette that is played."""
_AROUND = 40
"""Characters that are shown before and after the place where two requests differ."""
KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms")
_TOKEN = re.compile(r"gng_[-_A-Za-z0-9]{20,}")

logger = logging.getLogger(__name__)


class HttpExchange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request to a provider, and what came of it."""

    model: str
    """As people call it: `openai:gpt-5`."""
    base_url: str | None = None
    """The OpenAI-compatible server that the model was asked at."""
    method: str
    path: str
    """Path and query, without a key."""
    body: str
    status: int | None = None
    """None: there was no answer."""
    headers: dict[str, str] = {}
    chunks: tuple[str | dict[str, str], ...] = ()
    """The pieces of the answer; `{"base64": …}` is one that is not UTF-8."""
    error: str | None = None
    """How it broke off: the name of a transport error of httpx."""
    withheld: bool = False
    """The answer was left out, for a secret is in it."""


# What is secret, and what differs in each run.


def mapped(value: object, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - any JSON value
    """A JSON value with every text in it changed."""
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


def json_of(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a text; the text itself where it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def text_of(value: object) -> str:
    """A JSON value as a text; a text as it is."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Redaction(Struct, frozen=True):
    """Takes out what is secret."""

    secrets: tuple[str, ...] = ()

    def of_text(self, text: str) -> str:
        """A text without the secrets, and without what looks like one."""
        return _TOKEN.sub("***", redacted(text, self.secrets))

    def of_body(self, body: str) -> str:
        """A body without them; the very same text where it holds none."""
        value = json_of(body)
        clean = mapped(value, self.of_text)
        return body if clean == value else text_of(clean)

    def is_clean(self, answer: str) -> bool:
        """Whether an answer holds no secret, not even in pieces that come one after the other."""
        said = defaultdict[tuple[object, ...], list[str]](list)
        for line in answer.splitlines():
            _gather(json_of(line.removeprefix("data:")), (), said)
        texts = (*("".join(pieces) for pieces in said.values()), answer)
        return all(self.of_text(text) == text for text in texts)


def _gather(
    value: object, place: tuple[object, ...], said: dict[tuple[object, ...], list[str]]
) -> None:
    """The texts of a JSON value by their place, to be joined with those of the next piece."""
    match value:
        case str():
            said[place].append(value)
        case list():
            for number, item in enumerate(cast("list[object]", value)):
                _gather(item, (*place, number), said)
        case dict():
            for name, item in cast("dict[str, object]", value).items():
                _gather(item, (*place, name), said)
        case _:
            pass


ID = re.compile(r"(?<=_)[0-9a-f]{24,32}(?![0-9A-Za-z])|\A[0-9a-f]{9}\Z")
"""Our ids without their first word: `plan_…`, `call_…`; and those that a provider has cut short."""
_DIFFERS = (
    (
        re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"),
        "<time>",
    ),
    (re.compile(r'(?<=duration_ms": )[\d.]+|(?<=duration_ms":)[\d.]+'), "<duration>"),
    (re.compile(r'(?<=duration_seconds": )[\d.]+|(?<=duration_seconds":)[\d.]+'), "<duration>"),
    (re.compile(r"\b\d+\.\d+ ?(?:ms|s|sec|seconds)\b"), "<duration>"),
    (re.compile(r"(?:/private)?(?:/var)?/(?:tmp|folders)(?:/[\w.@+-]+)+"), "<temporary>"),
)
_HINTS = frozenset({"prompt_cache_key"})
"""Fields of a request that change no answer, and that hold ids in forms of their own."""


class NormalForm(Struct, frozen=True):
    """A request's body without what differs in each run of the same session.

    These are our own ids (the same id stands for the same thing), times of day with their date,
    durations, and paths of temporary folders. Everything else counts, the order of fields too.
    """

    value: Any
    ids: tuple[str, ...]
    """The ids in the order in which they come first."""

    @classmethod
    def of(cls, body: str, redaction: Redaction) -> "NormalForm":
        """The normal form of a body."""
        ids: dict[str, str] = {}

        def change(text: str) -> str:
            text = redaction.of_text(text)
            text = ID.sub(lambda found: ids.setdefault(found[0], f"<{len(ids) + 1}>"), text)
            for pattern, word in _DIFFERS:
                text = pattern.sub(word, text)
            return text

        value = json_of(body)
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            value = {name: item for name, item in fields.items() if name not in _HINTS}
        return cls(mapped(value, change), tuple(ids))

    def digest(self, exchange: HttpExchange) -> str:
        """What two same requests have in common."""
        told = "\n".join((exchange.method, exchange.path, text_of(self.value)))
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def difference(recorded: object, now: object, place: str = "") -> str:
    """The first place where two JSON values differ, with what stands there; empty: they do not."""
    match recorded, now:
        case dict(), dict():
            was, is_ = cast("dict[str, object]", recorded), cast("dict[str, object]", now)
            if list(was) != list(is_):
                what = f"the list of fields of {place or 'the body'}"
                return told_apart(what, " ".join(was), " ".join(is_))
            pairs = [(f"{place}.{name}".lstrip("."), was[name], is_[name]) for name in was]
        case list(), list():
            old, new = cast("list[object]", recorded), cast("list[object]", now)
            pairs = [(f"{place}[{n}]", *both) for n, both in enumerate(zip(old, new, strict=False))]
            pairs.append((f"the length of {place}", len(old), len(new)))
        case _:
            same = recorded == now
            return "" if same else told_apart(place or "the body", text_of(recorded), text_of(now))
    return next((told for at, a, b in pairs if (told := difference(a, b, at))), "")


def agreed(recorded: str, now: str) -> int:
    """How many characters two texts begin with together."""
    return next(
        (at for at, (a, b) in enumerate(zip(recorded, now, strict=False)) if a != b),
        min(len(recorded), len(now)),
    )


def told_apart(place: str, recorded: str, now: str) -> str:
    """Where two texts differ, in a sentence."""
    at = agreed(recorded, now)
    a, b = (text[max(0, at - _AROUND) : at + _AROUND] for text in (recorded, now))
    return f"{place} differs at character {at}: recorded {a!r}, now {b!r}"


# Its lines.


def piece_of(chunk: bytes) -> str | dict[str, str]:
    """A piece of an answer as it is written."""
    try:
        return chunk.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(chunk).decode("ascii")}


def bytes_of(piece: str | dict[str, str]) -> bytes:
    """A piece of an answer as it came."""
    return piece.encode() if isinstance(piece, str) else base64.b64decode(piece.get("base64", ""))


def body_of(request: httpx2.Request) -> str:
    """The body of a request."""
    return request.content.decode("utf-8", "replace")


def path_of(request: httpx2.Request) -> str:
    """Path and query of a request, without a key."""
    query = "&".join(
        each for each in request.url.query.decode("ascii", "replace").split("&")
        if each and not each.startswith("key=")
    )  # fmt: skip
    return request.url.path + (f"?{query}" if query else "")


def read_cassette(path: Path) -> list[HttpExchange]:
    """The exchanges of a cassette; an incomplete last line is left out, with a warning.

    Raises:
        ModelNotConfigured: it cannot be read, or is no cassette.
    """
    try:
        lines = _lines(path)
    except OSError as error:
        raise ModelNotConfigured(
            "replay:{path}: {strerror}", path=path, strerror=error.strerror
        ) from None
    found: list[HttpExchange] = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(msgspec.json.decode(line, type=HttpExchange))
        except (msgspec.DecodeError, UnicodeDecodeError):
            if found and number == len(lines):
                logger.warning("%s: the last line is incomplete and was left out", path)
                break
            raise ModelNotConfigured(
                "replay:{path}: line {number} is no exchange", path=path, number=number
            ) from None
    if not found:
        raise ModelNotConfigured("replay:{path}: nothing is recorded in it", path=path)
    return found


def _lines(path: Path) -> list[bytes]:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as cassette:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(0, "it is no regular file")
        if facts.st_size > _MOST:
            raise OSError(0, f"it has more than {_MOST} bytes")
        return [line for line in cassette.read().split(b"\n") if line]
