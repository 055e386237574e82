"""A model that answers from a script: for tests, and for `--model demo`.

It keeps no state. The conversation in the request decides which line comes next. So a script
continues after a restart, and subtasks that run at once do not disturb each other.
"""

import gzip
import json
import logging
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import anyio
import msgspec
from msgspec import Meta, Struct

from gonogo.domain.base import mapped
from gonogo.domain.errors import ModelFailed, ModelNotConfigured, because
from gonogo.domain.tool_calls import Message, ModelRequest, Reply, ToolAnswer, Usage
from gonogo.llm.model import Effort, ModelRole, OnText, clean, redacted, tool_request

if TYPE_CHECKING:
    import httpx2

# Cassettes: the exchanges of a session with its model's provider, recorded and played again.
#
# A cassette is a file of JSON lines. Each line is one HTTP exchange: the bytes of the request's
# body, and the answer in the pieces in which it came, or how it broke off. Recording passes
# everything on unchanged and appends a line when an exchange is over. Playing answers each request
# with what was recorded for the same request, and never uses the network.
#
# Exchanges are found by their requests, not by their order in the file, as subtasks run at the same
# time. Two requests are the same if their bodies are equal, byte for byte; in the place of a secret
# that was removed from the recorded one, any text may be. Headers of requests are not stored.

WITHHELD = because(
    "The reply held a secret, so it was not recorded, and nothing after it can be played"
)
THE_BODY = because("the body")
_MOST = 1 << 30
"""The most bytes of a cassette that can be played."""
_AROUND = 40
"""How many characters are shown before and after the place where two requests differ."""
_FAILURES = 400
KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms")
_TOKEN = re.compile(r"gng_[-_A-Za-z0-9]{20,}")
REMOVED = "***"
"""The text that replaces a secret."""
_IN_A_TEXT = re.compile(r'(?:[^"\\]|\\.)+')


Prices = dict[str, float | None]
"""A `TokenPrice` as it is written."""


class PackedPiece(Struct, frozen=True):
    """A piece of an answer that is not UTF-8."""

    base64: bytes


class AskedModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model that was asked, with the settings that shape its requests, and its price."""

    model: str
    """Its name for people: `openai:gpt-5`."""
    base_url: str | None = None
    """The OpenAI-compatible server where it was asked."""
    role: ModelRole | None = None
    """The role in which it was asked."""
    effort: Effort | None = None
    temperature: float | None = None
    window: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    attempts: Annotated[int, Meta(ge=1, le=20)] | None = None
    """The most attempts for a request."""
    price: Prices | None = None


class HttpExchange(AskedModel, frozen=True, kw_only=True, omit_defaults=True):
    """One request to a provider, and its answer or error."""

    method: str
    path: str
    """Path and query, without a key."""
    body: str
    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    """None if there was no answer."""
    headers: dict[str, Annotated[str, Meta(pattern=r"\A[ -~]*\Z")]] = {}
    chunks: tuple[str | PackedPiece, ...] = ()
    """The pieces of the answer."""
    error: str | None = None
    """If it broke off, the name of httpx's transport error."""
    withheld: bool = False
    """The answer was left out, because it contains a secret."""

    @property
    def asked(self) -> AskedModel:
        """The model that was asked."""
        return AskedModel(**{name: getattr(self, name) for name in AskedModel.__struct_fields__})

    @property
    def is_failure(self) -> bool:
        """Whether the request got no answer, a broken one, or an error status."""
        return self.status is None or self.status >= _FAILURES or self.error is not None


# Removing secrets.


def json_of(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text; the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def text_of(value: object) -> str:
    """A JSON value as a text; a string stays as it is."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Redaction(Struct, frozen=True):
    """Removes secrets."""

    secrets: tuple[str, ...] = ()

    def of_text(self, text: str) -> str:
        """A text without the secrets, and without anything that looks like one."""
        return _TOKEN.sub(REMOVED, redacted(text, self.secrets))

    def of_body(self, body: str) -> str:
        """A body without secrets; exactly the same text if it has none."""
        value = json_of(body)
        try:
            clean = mapped(value, self.of_text)
        except RecursionError:
            return self.of_text(body)
        return body if clean == value else text_of(clean)

    def is_clean(self, answer: str) -> bool:
        """Whether an answer has no secret, not even one that is split over several pieces."""
        said = defaultdict[tuple[object, ...], list[str]](list)
        for line in answer.splitlines():
            _gather(json_of(line.removeprefix("data:")), (), said)
        texts = (*("".join(pieces) for pieces in said.values()), answer)
        return all(self.of_text(text) == text for text in texts)


def _gather(
    value: object, place: tuple[object, ...], said: dict[tuple[object, ...], list[str]]
) -> None:
    """Collect the strings of a JSON value by their place, to join them with the next piece's."""
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


def is_same(recorded: str, now: str) -> bool:
    """Whether a body equals the recorded one, if any text may be in place of removed secrets.

    Secrets that are known here were removed from both.
    """
    first, *rest = recorded.split(REMOVED)
    now = text_of(json_of(now))
    if not rest or not (now.startswith(first) and now.endswith(rest[-1])):
        return False
    at, end = len(first), len(now) - len(rest[-1])
    for part in rest[:-1]:
        found = now.find(part, at + 1, end)
        if found < 0 or not _IN_A_TEXT.fullmatch(now, at, found):
            return False
        at = found + len(part)
    return _IN_A_TEXT.fullmatch(now, at, end) is not None


def difference(recorded: object, now: object, place: str = "") -> str:
    """The first place where two JSON values differ, with both values; empty if they are equal."""
    match recorded, now:
        case dict(), dict():
            was, is_ = cast("dict[str, object]", recorded), cast("dict[str, object]", now)
            if list(was) != list(is_):
                what = because("the list of fields of {place}", place=place or THE_BODY)
                return told_apart(what, " ".join(was), " ".join(is_))
            pairs = [(f"{place}.{name}".lstrip("."), was[name], is_[name]) for name in was]
        case list(), list():
            old, new = cast("list[object]", recorded), cast("list[object]", now)
            pairs = [(f"{place}[{n}]", *both) for n, both in enumerate(zip(old, new, strict=False))]
            length = because("the length of {place}", place=place)
            pairs.append((length, len(old), len(new)))
        case _:
            same = recorded == now
            return "" if same else told_apart(place or THE_BODY, text_of(recorded), text_of(now))
    return next((told for at, a, b in pairs if (told := difference(a, b, at))), "")


def agreed(recorded: str, now: str) -> int:
    """The length of the common beginning of two texts."""
    return next(
        (at for at, (a, b) in enumerate(zip(recorded, now, strict=False)) if a != b),
        min(len(recorded), len(now)),
    )


def told_apart(place: str, recorded: str, now: str) -> str:
    """A sentence that says where two texts differ."""
    at = agreed(recorded, now)
    a, b = (text[max(0, at - _AROUND) : at + _AROUND] for text in (recorded, now))
    return because(
        "{place} differs at character {at}: recorded {a!r}, now {b!r}", place=place, at=at, a=a, b=b
    )


# The lines of a cassette.


def piece_of(chunk: bytes) -> str | PackedPiece:
    """A piece of an answer as a cassette stores it."""
    try:
        return chunk.decode("utf-8")
    except UnicodeDecodeError:
        return PackedPiece(chunk)


def bytes_of(piece: str | PackedPiece) -> bytes:
    """The original bytes of a piece of an answer."""
    return piece.encode() if isinstance(piece, str) else piece.base64


def body_sent(request: "httpx2.Request") -> str:
    """The body of a request."""
    return request.content.decode("utf-8", "replace")


def path_of(request: "httpx2.Request") -> str:
    """Path and query of a request, without a key."""
    query = "&".join(
        each for each in request.url.query.decode("ascii", "replace").split("&")
        if each and not each.startswith("key=")
    )  # fmt: skip
    return request.url.path + (f"?{query}" if query else "")


def read_cassette(path: Path) -> list[HttpExchange]:
    """The exchanges of a cassette; an incomplete last line is left out, with a warning.

    Raises:
        ModelNotConfigured: the file cannot be read, or is not a cassette.
    """
    try:
        lines = _lines(path)
    except (OSError, ValueError) as error:
        # A name with a NUL in it is a ValueError.
        why = error.strerror if isinstance(error, OSError) else error.args[0]
        raise ModelNotConfigured(
            "replay:{path}: {strerror}; name a recording that can be read", path=path, strerror=why
        ) from None
    found: list[HttpExchange] = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(msgspec.json.decode(line, type=HttpExchange))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if found and number == len(lines):
                logger.warning("%s: the last line is incomplete and was left out", path)
                break
            raise ModelNotConfigured(
                "replay:{path}: line {number} is not a recorded exchange; record the file again",
                path=path,
                number=number,
            ) from None
    if not found:
        raise ModelNotConfigured(
            "replay:{path}: it contains no recorded exchanges; record the file again", path=path
        )
    return found


def _lines(path: Path) -> list[bytes]:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as cassette:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(because("it is not a regular file"))
        if facts.st_size > _MOST:
            raise ValueError(because("it has more than {most} bytes", most=_MOST))
        return [line for line in cassette.read().split(b"\n") if line]


DEMO = "demo"
"""The name of the model that plays the recorded demo."""
Line = Mapping[str, Any] | Callable[[ModelRequest], Mapping[str, Any]]
"""`{"text", "calls": [{"name", "arguments"}], "cut", "delay"}`, or a function that makes one.

`delay` is in seconds; `arguments` may be a string, which is read like a model's JSON; with `cut`
the reply ends as if at its length limit.
"""

_PIECE = 24
_WINDOW = 200_000


class ScriptedModel:
    """Answers with the lines of a script.

    The key of a line is the subtask's id, or `main/<agent>` in a session's conversation. Its index
    is the number of replies that the conversation already has from that key. If the last line is
    not an answer (it is empty, or cut off), it is given again and again.
    """

    def __init__(
        self,
        lines: Mapping[str, Sequence[Line]],
        name: str = "scripted",
        *,
        ending: Line | None = None,
    ) -> None:
        """Take a script.

        Args:
            ending: The line after the end of the script; None: a `ModelFailed` is raised.
        """
        self.name = name
        self.window: int | None = _WINDOW
        self._lines = lines
        self._ending = ending

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Answer with the next line of the conversation's script, its text in small pieces."""
        return await self.answer(self.next_line(request), request, on_text)

    async def answer(
        self, line: Mapping[str, Any], request: ModelRequest, on_text: OnText
    ) -> Reply:
        """Answer a request with a line."""
        began = time.perf_counter()
        await anyio.sleep(line.get("delay", 0))
        text = clean(str(line.get("text", "")))
        for start in range(0, len(text), _PIECE):
            on_text(text[start : start + _PIECE])
            await anyio.lowlevel.checkpoint()
        return Reply(
            text=text,
            calls=tuple(
                tool_request(call["name"], call.get("arguments")) for call in line.get("calls", ())
            ),
            cut=bool(line.get("cut")),
            model=self._mark(request),
            usage=Usage(
                input_tokens=sum(map(_size, request.messages)) // 4,
                output_tokens=len(json.dumps(line, default=str)) // 4,
                duration_ms=(time.perf_counter() - began) * 1000,
            ),
        )

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _mark(self, request: ModelRequest) -> str:
        return f"{self.name}/{request.agent}"

    def next_line(self, request: ModelRequest) -> Mapping[str, Any]:
        """The next line of a conversation's script.

        Raises:
            ModelFailed: there is no next line.
        """
        in_main = request.thread == "main"
        key = f"main/{request.agent}" if in_main else request.thread
        given = [
            message
            for message in request.messages
            if isinstance(message, Reply) and (not in_main or message.model == self._mark(request))
        ]
        earlier = [m for m in request.earlier if not in_main or m == self._mark(request)]
        lines, said = self._lines.get(key, ()), len(earlier) + len(given)
        if lines and given and said >= len(lines) and given[-1].is_unfinished:
            said = len(lines) - 1
        line = lines[said] if said < len(lines) else self._ending
        if line is None:
            raise ModelFailed(
                "The script {name!r} has no line {number} for {key!r}; add one",
                name=self.name, number=said, key=key,
            )  # fmt: skip
        return line(request) if callable(line) else line


def _size(message: Message) -> int:
    """The characters of a message, without data of the provider or the record."""
    made = "".join(map(str, getattr(message, "calls", ())))
    return len(getattr(message, "content", "") or getattr(message, "text", "")) + len(made)


def demo_model() -> ScriptedModel:
    """The model that replays the recorded run on the sample project.

    Raises:
        ModelNotConfigured: the recording is not part of this installation.
    """
    from gonogo.demo import recording, told

    try:
        stories = {locale: recording(locale) for locale in ("en", "ru")}
    except FileNotFoundError:
        raise ModelNotConfigured(
            "This installation has no demo recording; reinstall gonogo"
        ) from None

    def line(thread: str, number: int) -> Line:
        return lambda request: stories[_language_of(request)][thread][number]

    lines = {
        thread: [line(thread, number) for number in range(len(found))]
        for thread, found in stories["en"].items()
    }
    return ScriptedModel(
        lines, DEMO, ending=lambda request: {"text": told(_ENDING, _language_of(request))}
    )


_ENDING = "The recorded demo ends here."


def _language_of(request: ModelRequest) -> str:
    """The language of the first message of a conversation: the task of a person or a plan."""
    return "ru" if re.search("[а-яё]", str(request.messages[:1])) else "en"


# The demo's model: it plays the cassettes that come with gonogo, one for each language.
#
# They contain the requests of one run of the demo, byte for byte, and the answers of the demo's
# story. The format is gonogo's own, so no provider's library can change it. If a run differs from
# the recording (a person rejects, edits or says something else, or Python is another one), the
# script of the story answers. `scripts/demo_cassettes.py` makes the cassettes; nobody edits them.

_SUFFIX = ".jsonl.gz"
logger = logging.getLogger(__name__)


class DemoModel:
    """Gives the recorded answers; requests that were not recorded are answered by the script."""

    def __init__(self, recorded: Sequence[HttpExchange], script: ScriptedModel) -> None:
        """Take the recording, and the script for everything else."""
        self.name, self.window = script.name, script.window
        self._lines = {each.body: each for each in recorded}
        self._script = script
        self.played = 0
        """The number of requests that were recorded."""
        self.differences: list[str] = []
        """For each other request, its difference from the most similar recorded one."""

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Answer a request; see `Model.request`."""
        body = body_of(request)
        found = self._lines.get(body)
        if found is not None:
            self.played += 1
            return await self._script.answer(line_of(found), request, on_text)
        self.differences.append(self._difference(body))
        logger.info("%s: not the recorded request: %s", DEMO, self.differences[-1])
        return await self._script.request(request, on_text)

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _difference(self, body: str) -> str:
        nearest = max(self._lines, key=lambda each: agreed(each, body), default="{}")
        return difference(json_of(nearest), json_of(body))


def open_demo() -> DemoModel:
    """The demo's model, with the cassettes of this installation.

    Raises:
        ModelNotConfigured: the demo's story is not part of the installation.
    """
    script, found = demo_model(), list[HttpExchange]()
    for file in resources.files("gonogo").joinpath("demo").iterdir():
        if file.name.endswith(_SUFFIX):
            found += unpacked(file.read_bytes())
    return DemoModel(found, script)


def body_of(request: ModelRequest) -> str:
    """What a request tells the model, as a body for a cassette."""
    told = request.model_dump(mode="json", include={"agent", "thread", "system", "tools"})
    return _json({**told, "messages": [_told(message) for message in request.messages]})


def exchange_of(request: ModelRequest, line: Mapping[str, Any]) -> HttpExchange:
    """An exchange for a cassette, from a request and its answer, a line of the story."""
    return HttpExchange(
        model=DEMO, method="POST", path=f"/{DEMO}", body=body_of(request), status=200,
        chunks=(_json(line),),
    )  # fmt: skip


def line_of(exchange: HttpExchange) -> Mapping[str, Any]:
    """The line of the story that is the answer of an exchange."""
    return json_of("".join(map(str, exchange.chunks)))


def packed(exchanges: Iterable[HttpExchange]) -> bytes:
    """The bytes of a cassette in the form that comes with gonogo."""
    lines = [msgspec.json.encode(each) + b"\n" for each in exchanges]
    return gzip.compress(b"".join(lines), mtime=0)


def unpacked(data: bytes) -> list[HttpExchange]:
    """The exchanges in a cassette that comes with gonogo."""
    lines = gzip.decompress(data).splitlines()
    return [msgspec.json.decode(line, type=HttpExchange) for line in lines]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _told(message: Message) -> dict[str, Any]:
    match message:
        case Reply():
            fields = {"text", "calls", "cut"}
        case ToolAnswer():
            fields = {"call_id", "tool_name", "content", "is_error"}
        case _:
            fields = {"content"}
    return {"role": message.role, **message.model_dump(mode="json", include=fields)}
