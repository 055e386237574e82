"""A model that answers from a script: for tests, and for `--model demo`.

It keeps no state. Which line comes next is told by the conversation it is given, so a script goes
on where it was after a restart, and subtasks that run at once do not disturb one another.
"""

import gzip
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import anyio
import msgspec

from gonogo.domain.errors import ModelFailed, ModelNotConfigured
from gonogo.domain.tool_calls import Message, ModelRequest, Reply, ToolAnswer, Usage
from gonogo.llm.cassette import HttpExchange, agreed, difference, json_of
from gonogo.llm.model import OnText, clean, tool_request

DEMO = "demo"
"""The name of the model that plays the recorded demo."""
Line = Mapping[str, Any] | Callable[[ModelRequest], Mapping[str, Any]]
"""`{"text", "calls": [{"name", "arguments"}], "cut", "delay"}`, or what makes one of a request.

`delay` is in seconds; `arguments` may be a string, which is read as a model's JSON is; `cut` ends
the reply at its limit of length.
"""

_PIECE = 24
_WINDOW = 200_000


class ScriptedModel:
    """Answers with the lines of a script.

    The key of a line is the subtask's id, or `main/<agent>` in a session's conversation. Its index
    is the number of replies that the conversation already had from that key. A last line that is
    no answer (it is empty, or cut off) is given again and again.
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
            ending: The line when the script has no more; None is a `ModelFailed`.
        """
        self.name = name
        self.window: int | None = _WINDOW
        self._lines = lines
        self._ending = ending

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Give the next line of the conversation's script, its text in small pieces."""
        return await self.answer(self.next_line(request), request, on_text)

    async def answer(
        self, line: Mapping[str, Any], request: ModelRequest, on_text: OnText
    ) -> Reply:
        """Give a line as the answer to a request."""
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
            ModelFailed: there is none.
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
    """Characters of a message; not of what a provider, or the record, has noted beside it."""
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
    """The language of what began the conversation: a person's task, or that of a plan."""
    return "ru" if re.search("[а-яё]", str(request.messages[:1])) else "en"


# The demo's model: it plays the cassettes that come with gonogo, one for each language.
#
# They hold what one run of the demo asked, byte for byte, and what the demo's story answered; its
# exchanges are gonogo's own and no provider's, so no library of theirs can change them. Who goes
# another way than the recording (rejects, edits, says something else, has another Python) is
# answered by the story's script. `scripts/demo_cassettes.py` makes the cassettes; nobody edits
# them.

_SUFFIX = ".jsonl.gz"
logger = logging.getLogger(__name__)


class DemoModel:
    """Answers as it was recorded; a request that was not recorded, as the script says."""

    def __init__(self, recorded: Sequence[HttpExchange], script: ScriptedModel) -> None:
        """Take what was recorded, and who answers everything else."""
        self.name, self.window = script.name, script.window
        self._lines = {each.body: each for each in recorded}
        self._script = script
        self.played = 0
        """Requests that were the recorded ones."""
        self.differences: list[str] = []
        """Where each of the others differs from the one that is most like it."""

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
        ModelNotConfigured: the demo's story is not part of it.
    """
    script, found = demo_model(), list[HttpExchange]()
    for file in resources.files("gonogo").joinpath("demo").iterdir():
        if file.name.endswith(_SUFFIX):
            found += unpacked(file.read_bytes())
    return DemoModel(found, script)


def body_of(request: ModelRequest) -> str:
    """What a model is told by a request."""
    told = request.model_dump(mode="json", include={"agent", "thread", "system", "tools"})
    return _json({**told, "messages": [_told(message) for message in request.messages]})


def exchange_of(request: ModelRequest, line: Mapping[str, Any]) -> HttpExchange:
    """A request and its answer, a line of the story, as a cassette has them."""
    return HttpExchange(
        model=DEMO, method="POST", path=f"/{DEMO}", body=body_of(request), status=200,
        chunks=(_json(line),),
    )  # fmt: skip


def line_of(exchange: HttpExchange) -> Mapping[str, Any]:
    """The line of the story that an exchange was answered with."""
    return json_of("".join(map(str, exchange.chunks)))


def packed(exchanges: Iterable[HttpExchange]) -> bytes:
    """A cassette as it comes with gonogo."""
    lines = [msgspec.json.encode(each) + b"\n" for each in exchanges]
    return gzip.compress(b"".join(lines), mtime=0)


def unpacked(data: bytes) -> list[HttpExchange]:
    """What a cassette holds that comes with gonogo."""
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
