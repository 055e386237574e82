"""The demo's model: it plays the cassettes that come with gonogo, one for each language.

They hold what one run of the demo asked, byte for byte, and what the demo's story answered; its
exchanges are gonogo's own and no provider's, so no library of theirs can change them. Who goes
another way than the recording (rejects, edits, says something else, has another Python) is answered
by the story's script. `scripts/demo_cassettes.py` makes the cassettes; nobody edits them.
"""

import gzip
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec

from gonogo.domain.tool_calls import Message, ModelRequest, Reply, ToolAnswer
from gonogo.llm.cassette import HttpExchange, agreed, difference, json_of
from gonogo.llm.model import OnText
from gonogo.llm.scripted import DEMO, ScriptedModel, demo_model

_ENDING = ".jsonl.gz"
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
        if file.name.endswith(_ENDING):
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
