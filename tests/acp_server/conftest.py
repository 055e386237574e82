"""Editors that speak with a real `gonogo acp` over pipes, by the client's half of the library."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import connect_to_agent, schema

from cli.conftest import end_background, environment
from fakes.nursery import Nursery, Process
from fakes.openai_server import FakeOpenAI, fake_openai
from fakes.template import lay_out

LIMIT = 60
"""Seconds that anything may take."""
Body = dict[str, Any]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    lay_out(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The project that is open in the editor."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def provider() -> Iterator[FakeOpenAI]:
    with fake_openai() as server:
        yield server


@pytest.fixture
def env(home: Path, provider: FakeOpenAI) -> dict[str, str]:
    return environment(
        home,
        {
            "GONOGO_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": provider.base_url,
            "OPENAI_API_KEY": "x",
        },
    )


class Pad:
    """An editor: shows what it is sent, and answers what it is asked as it was told to."""

    def __init__(self) -> None:
        self.agent: Any = None
        self.process: Process
        self.hang_up: Callable[[], Awaitable[None]]
        self.shown: list[tuple[str, Any]] = []
        self.questions: list[tuple[Any, list[Any]]] = []
        self.forms: list[Any] = []
        self.wire: list[tuple[str, Body]] = []
        self.person: Callable[[Any, list[Any]], Awaitable[str | None]] = self._as_always
        self.default: str | None = "approve"
        """What the person chooses; None closes the question."""
        self.fields: Body | None = None
        self.patience = anyio.Event()
        """Whether the person answers at all."""
        self.patience.set()
        self.news = anyio.Event()

    # What the library calls -----------------------------------------------------------------------

    def on_connect(self, conn: object) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.shown.append((session_id, update))
        self.tell()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.questions.append((tool_call, options))
        self.tell()
        await self.patience.wait()
        chosen = await self.person(tool_call, options)
        if chosen is None:
            outcome: Any = schema.DeniedOutcome(outcome="cancelled")
        else:
            outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append((message, mode))
        if self.fields is None:
            return schema.DeclineElicitationResponse(action="decline")
        return schema.AcceptElicitationResponse(action="accept", content=self.fields)

    async def ext_notification(self, method: str, params: Body) -> None:
        pass

    # What a test asks -----------------------------------------------------------------------------

    async def open(self, folder: Path, *, forms: bool = False) -> Any:
        """Say hello, and open a session in a folder."""
        await self.greet(forms=forms)
        return await self.agent.new_session(cwd=str(folder), mcp_servers=[])

    async def greet(self, *, forms: bool = False) -> Any:
        able = schema.ClientCapabilities()
        if forms:
            able.elicitation = schema.ElicitationCapabilities(
                form=schema.ElicitationFormCapabilities()
            )
        return await self.agent.initialize(protocol_version=1, client_capabilities=able)

    async def say(self, session_id: str, text: str) -> str:
        """Prompt, and give why it ended."""
        with anyio.fail_after(LIMIT):
            block = schema.TextContentBlock(type="text", text=text)
            answer = await self.agent.prompt(session_id=session_id, prompt=[block])
            return answer.stop_reason

    async def until(self, seen: Callable[[], object]) -> None:
        """Wait for something to have come."""
        with anyio.fail_after(LIMIT):
            while not seen():
                await self.news.wait()

    @property
    def text(self) -> str:
        """All that agents said."""
        return "".join(
            update.content.text
            for _, update in self.shown
            if update.session_update == "agent_message_chunk"
        )

    def of(self, kind: str) -> list[Any]:
        """The updates of one kind."""
        return [update for _, update in self.shown if update.session_update == kind]

    def methods(self, method: str) -> list[Body]:
        """What the agent has sent by one method."""
        return [
            body for way, body in self.wire if way == "incoming" and body.get("method") == method
        ]

    async def _as_always(self, tool_call: object, options: object) -> str | None:
        return self.default

    def tell(self) -> None:
        """There is news for whoever waits."""
        self.news.set()
        self.news = anyio.Event()

    def note(self, event: Any) -> None:
        self.wire.append((event.direction.value, event.message))
        self.tell()


@pytest.fixture
def background(home: Path) -> Iterator[dict[str, str]]:
    """The variables with which a process of its own does the work; it is ended with the test."""
    yield {"GONOGO_BACKGROUND": "true"}
    end_background(home)


Editors = Callable[..., Any]


@pytest.fixture
def editor(env: dict[str, str], folder: Path, born: Nursery) -> Editors:
    """Start an editor and its agent: `async with editor() as pad`."""

    @asynccontextmanager
    async def opened(
        *words: str, more: Mapping[str, str] | None = None, pad: Pad | None = None
    ) -> AsyncIterator[Pad]:
        pad = pad or Pad()
        process, ours, theirs = start(born, {**env, **(more or {})}, folder, *words)
        pad.process = process
        reader, writer = await _streams(theirs, ours)
        connection = connect_to_agent(
            pad, writer, reader, use_unstable_protocol=True, observers=[pad.note]
        )
        try:
            pad.hang_up = partial(_hang_up, connection, writer)
            yield pad
        finally:
            await pad.hang_up()
            try:
                await anyio.to_thread.run_sync(process.wait, LIMIT)
            finally:
                process.kill()

    return opened


async def _hang_up(connection: Any, writer: asyncio.StreamWriter) -> None:
    await connection.close()
    writer.close()


def start(
    born: Nursery, env: Mapping[str, str], folder: Path, *words: str
) -> tuple[Process, int, int]:
    """A `gonogo acp`, and the ends of the pipes to and from it."""
    theirs, ours = os.pipe()
    read, write = os.pipe()
    process = born.start(
        "gonogo", "acp", *words, env=env, cwd=folder, stdin=theirs, stdout=write, stderr=2
    )
    os.close(theirs)
    os.close(write)
    return process, ours, read


@pytest.fixture
def begin(
    born: Nursery, env: dict[str, str], folder: Path
) -> Callable[[], tuple[Process, int, int]]:
    """Start a `gonogo acp`; gives the process, and the ends of the pipes to and from it."""
    return partial(start, born, env, folder)


async def _streams(read: int, write: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**24)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", buffering=0)
    )
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(write, "wb", buffering=0)
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


class Raw:
    """Lines to and from a `gonogo acp`, written by hand."""

    def __init__(self, born: Nursery, env: Mapping[str, str], folder: Path) -> None:
        self.process, write, read = start(born, env, folder)
        self._into, self._from = os.fdopen(write, "wb"), os.fdopen(read, "rb")

    def write(self, data: bytes) -> None:
        self._into.write(data)
        self._into.flush()

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def read(self) -> Body:
        line = self._from.readline()
        assert line, "the agent has ended"
        return json.loads(line)

    def ask(self, method: str, params: object, number: object = 1) -> Body:
        """Send a request, and give its answer."""
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while (answer := self.read()).get("id") != number or "method" in answer:
            pass
        return answer

    def end(self) -> int:
        self._into.close()
        return self.process.wait(timeout=LIMIT)

    def close(self) -> None:
        for file in (self._into, self._from):
            if not file.closed:
                file.close()
        try:
            self.process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()


@pytest.fixture
def raw(env: dict[str, str], folder: Path, born: Nursery) -> Iterator[Raw]:
    opened = Raw(born, env, folder)
    yield opened
    opened.close()
