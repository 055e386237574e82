"""A whole runtime in a temporary folder: real database, files, sandbox; scripted model and clock.

Everything that waits has a time limit. The runtime lives in a task of its own, so that a test can
end it and open it again on the same folder.
"""

import os
import secrets
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from sqlalchemy import Engine, NullPool, create_engine

from durability.invariants import unreasoned
from fakes.template import lay_out
from gonogo.domain.identity import Principal, Role
from gonogo.domain.messages import parse_message
from gonogo.domain.tool_calls import ModelRequest, Reply
from gonogo.llm import ScriptedModel
from gonogo.runtime import Extensions, Receipt, Runtime
from gonogo.settings import Settings
from gonogo.store import Store, Tx, utc_now
from gonogo.store.audit import verify
from gonogo.store.events import events_after
from gonogo.store.jobs import set_timer
from gonogo.store.transaction import Direct, Recent

Body = dict[str, Any]
LIMIT = 60
"""Seconds that anything may take."""
on_both = pytest.mark.usefixtures("database_url")
"""Tells a story twice, once on each kind of database."""


def call(name: str, **arguments: Any) -> Body:
    """One tool call of a scripted reply."""
    return {"name": name, "arguments": arguments}


def write(path: str, content: str = "made\n") -> Body:
    """A call that writes a file."""
    return call("write_file", path=path, content=content)


def run(command: str, **more: Any) -> Body:
    """A call that runs a command."""
    return call("execute_command", command=command, **more)


def calls(*each: Body, text: str = "") -> Body:
    """A scripted reply that asks for tools."""
    return {"text": text, "calls": list(each)}


def says(text: str, delay: float = 0) -> Body:
    """A scripted reply without tools."""
    return {"text": text, "delay": delay}


def step(key: str, *after: str, agent: str = "coder", **more: Any) -> Body:
    """One subtask of a plan."""
    return {
        "id": key, "description": f"Do {key}", "agent": agent, "dependencies": list(after), **more,
    }  # fmt: skip


def plan(*subtasks: Body, goal: str = "A goal") -> Body:
    """A scripted reply that proposes a plan."""
    return calls(call("create_plan", goal=goal, subtasks=list(subtasks)))


@cache
def _installed(path: tuple[str, ...]) -> Extensions:
    """What is installed on a path: to look for it takes longer than to open the rest."""
    return Extensions.installed()


class Given(Settings):
    """Settings as a test gives them: to look through the environment takes longer than the rest."""

    def __init__(self, **given: Any) -> None:
        super(Settings, self).__init__(**given)


class Clock:
    """A clock that goes on by itself and can be moved forward."""

    def __init__(self, at: datetime | None = None) -> None:
        """Begin at a time, or now."""
        self.ahead = at - datetime.now(UTC) if at else timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Model(ScriptedModel):
    """A scripted model that keeps what it was asked."""

    def __init__(self, lines: Mapping[str, Sequence[Any]]) -> None:
        super().__init__(lines)
        self.requests: list[ModelRequest] = []
        self._held: dict[tuple[str, int], anyio.Event] = {}

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        self.requests.append(request)
        held = self._held.get((request.thread, len(self.asked(request.thread))))
        if held is not None:
            await held.wait()
        return await super().request(request, on_text)

    def hold(self, thread: str, number: int = 1) -> anyio.Event:
        """Keep the reply to a request of a conversation back, until the event is set."""
        return self._held.setdefault((thread, number), anyio.Event())

    def asked(self, thread: str) -> list[ModelRequest]:
        """What was asked for a subtask, or for `main`."""
        return [request for request in self.requests if request.thread == thread]


class World:
    """A runtime and its surroundings."""

    def __init__(self, root: Path, group: TaskGroup, lines: Mapping[str, Any], **set_: Any) -> None:
        self.root, self._group = root, group
        self.folder = root / "work"
        self.folder.mkdir(exist_ok=True)
        self.settings = Given(
            home=root / "home", config=root / "config", workspace=self.folder, **set_
        )
        if self.settings.db is None:
            lay_out(self.settings.home)
        self.lines: dict[str, Any] = dict(lines)
        self.clock = Clock()
        self.session = ""
        self.model = Model(self.lines)
        self.runtime: Runtime
        self.ann = Principal(id="user:ann", name="ann", role=Role.OPERATOR)
        self.bob = Principal(id="user:bob", name="bob", role=Role.OPERATOR)
        self.open_model: Callable[[World], Any] | None = None
        """Opens another model than the scripted one, at the next start."""
        self.extensions: Extensions | None = None
        """In the place of what is installed, from the next start on."""
        self.honest = True
        """Its audit is whole: the story does not meddle with the database."""
        self._stop = anyio.Event()
        self._stopped = anyio.Event()
        self._open = anyio.Event()

    # Its life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the runtime on the folder."""
        with anyio.fail_after(LIMIT):
            await self._group.start(self._live)

    async def stop(self) -> None:
        """Close the runtime."""
        self._stop.set()
        with anyio.fail_after(LIMIT):
            await self._stopped.wait()

    async def restart(self) -> None:
        """Close the runtime, whatever it does, and open it again on the same folder."""
        await self.stop()
        await self.start()

    async def started(self) -> None:
        """Wait until the runtime is open."""
        with anyio.fail_after(LIMIT):
            await self._open.wait()

    async def _live(self, *, task_status: Any) -> None:
        self._stop, self._stopped = anyio.Event(), anyio.Event()
        stop, stopped = self._stop, self._stopped
        self.model = Model(self.lines)
        model = self.open_model(self) if self.open_model else self.model
        try:
            async with Runtime.open(
                self.settings,
                model=model,
                clock=self.clock,
                extensions=self.extensions or _installed(tuple(sys.path)),
            ) as runtime:
                self.runtime = runtime
                self._open.set()
                task_status.started()
                await stop.wait()
                self._open = anyio.Event()
        finally:
            stopped.set()

    async def idle(self) -> None:
        """Wait until no job runs and none is about to."""
        dispatcher = self.runtime.parts.dispatcher
        with anyio.fail_after(LIMIT):
            while dispatcher._running or dispatcher._boxes:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.003)

    async def asked_model(self, thread: str, times: int = 1) -> None:
        """Wait until the model was asked so often in a conversation."""
        with anyio.fail_after(LIMIT):
            while len(self.model.asked(thread)) < times:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.003)

    def time_went_by(self) -> None:
        """Let by how much the clock was moved be known: nobody has set it."""
        self.runtime.parts.sweeps.jumps.since_last()

    async def later(self, seconds: float) -> None:
        """Move the clock, as if time went by, and have the timers looked at."""
        self.clock.ahead += timedelta(seconds=seconds)
        self.time_went_by()

        def nudge(tx: Tx) -> None:
            # Before every other timer: only an earlier one has the timers read again.
            set_timer(tx, "nudge", "test", datetime(2000, 1, 1, tzinfo=UTC))

        await self.runtime.parts.store.write(nudge)

    # What people do ---------------------------------------------------------------------------

    async def send(
        self,
        message: Body,
        *,
        session: str | None = None,
        by: Principal | None = None,
        connection: str | None = None,
    ) -> Receipt:
        """Send a client message. The first one opens the world's session."""
        wanted = session if session is not None else self.session or None
        with anyio.fail_after(LIMIT):
            receipt = await self.runtime.messages.accept(
                by or self.ann, wanted, parse_message(message), connection=connection
            )
        self.session = self.session or receipt.session_id
        return receipt

    async def ask(self, message: Body, **more: Any) -> list[Body]:
        """Send a message and collect its answer."""
        return await self.answer(await self.send(message, **more))

    async def answer(self, receipt: Receipt) -> list[Body]:
        """The events of an answer, without the deltas of text."""
        with anyio.fail_after(LIMIT) as limit:
            async with self.runtime.streams.answer(receipt) as events:
                return [
                    {**event} async for event in renewing(events, limit) if "token" not in event
                ]

    async def say(self, content: str = "Go", agent: str | None = None, **more: Any) -> list[Body]:
        """Say something as the user."""
        message = {"type": "user_message", "content": content}
        return await self.ask(message | ({"agent_type": agent} if agent else {}), **more)

    async def propose(self, content: str = "Build it") -> str:
        """Have the architect propose its plan. Gives the plan's id."""
        events = await self.say(content, "architect")
        return events[-1]["metadata"]["plan_id"]

    async def begin(self) -> str:
        """Have the architect propose its plan and approve it, and wait for nothing more."""
        plan_id = await self.propose()
        await self.send({"type": "plan_decision", "plan_id": plan_id, "decision": "approve"})
        return plan_id

    async def decide_plan(
        self, plan_id: str, decision: str = "approve", by: Principal | None = None, **more: Any
    ) -> list[Body]:
        """Decide a plan and collect what follows."""
        message = {"type": "plan_decision", "plan_id": plan_id, "decision": decision, **more}
        return await self.ask(message, by=by)

    async def decide(
        self, call_id: str, decision: str = "approve", by: Principal | None = None, **more: Any
    ) -> list[Body]:
        """Decide a tool call and collect what follows."""
        message = {"type": "hitl_decision", "call_id": call_id, "decision": decision, **more}
        return await self.ask(message, by=by)

    # What can be seen -------------------------------------------------------------------------

    async def pending(self, session: str | None = None) -> list[Any]:
        """The open questions of a session."""
        found = await self.runtime.sessions.pending(self.ann, session or self.session)
        assert found.count == len(found.pending_approvals)
        return found.pending_approvals

    async def log(self, session: str | None = None) -> list[Body]:
        """Every event of a session, from the database."""
        found: list[Body] = []
        store, of = self.runtime.parts.store, session or self.session
        while page := await store.read(events_after, of, len(found)):
            found += [{**event} for event in page]
        return found

    async def until(
        self, type_: str, *, session: str | None = None, after: int = 0, **fields: Any
    ) -> Body:
        """Wait for an event of a session."""
        with anyio.fail_after(LIMIT) as limit:
            of = session or self.session
            async with self.runtime.streams.follow(self.runtime.owner, of, after) as events:
                async for event in renewing(events, limit):
                    flat = {**event.get("metadata", {}), **event}
                    wanted = all(flat.get(name) == value for name, value in fields.items())
                    if event["type"] == type_ and wanted and "token" not in event:
                        return {**event}
        raise AssertionError(f"the stream ended before {type_}")

    async def audit(self, action: str | None = None, session: str | None = None) -> list[Any]:
        """The audit entries of a session."""
        of = session or self.session
        found = await self.runtime.audit.entries(self.runtime.owner, of, limit=10_000)
        return [entry for entry in found if action in (None, entry.action)]

    async def history(self, role: str | None = None) -> list[Any]:
        """The messages of the session."""
        found = await self.runtime.sessions.history(self.ann, self.session)
        return [message for message in found.messages if role in (None, message.role)]

    def read(self, path: str) -> str | None:
        """A file's text, None when there is no file."""
        file = self.folder / path
        return file.read_text() if file.exists() else None


async def renewing(events: AsyncIterator[Body], limit: anyio.CancelScope) -> AsyncIterator[Body]:
    """Events as they come; the time that anything may take begins again with each."""
    async for event in events:
        limit.deadline = anyio.current_time() + LIMIT
        yield event


def kinds(events: Sequence[Body]) -> list[str]:
    """The types of events, in order."""
    return [event["type"] for event in events]


def of(events: Sequence[Body], type_: str, **fields: Any) -> list[Body]:
    """The events of one type whose fields, or metadata, are as given."""
    found = [event for event in events if event["type"] == type_]
    return [
        event
        for event in found
        if all(
            {**event.get("metadata", {}), **event}.get(name) == value
            for name, value in fields.items()
        )
    ]


def a_while() -> str:
    """A time to sleep for, as nobody else has it: its process is found by it."""
    return f"97.{secrets.randbelow(10**12):012}"


HELD = "sh hold.sh"


def held_once(folder: Path, mark: str) -> None:
    """Have `HELD` be a command that sleeps for a time of `a_while`, or not if `go` is there.

    It succeeds, also where its sleep is ended.
    """
    (folder / "hold.sh").write_text(f"test -e go || sleep {mark} || true\n")


async def is_running(mark: str, wanted: bool = True) -> None:
    """Wait until a process whose command line holds the text runs, or none does any more."""
    with anyio.fail_after(LIMIT):
        while _runs(mark) is not wanted:  # noqa: ASYNC110 - processes tell nobody
            await anyio.sleep(0.01)


async def ends(mark: str) -> None:
    """Wait until no process whose command line holds the text runs; the loop's clock may stand."""

    def look() -> None:
        until = monotonic() + LIMIT
        while _runs(mark):
            assert monotonic() < until, f"{mark} runs still"
            sleep(0.01)

    await anyio.to_thread.run_sync(look)


def end_sleep(mark: str) -> None:
    """End the process that sleeps for a time of `a_while`: the shell around it goes on."""
    [process] = _processes(f"sleep\0{mark}\0", whole=True)
    os.kill(process, signal.SIGTERM)


def _runs(mark: str) -> bool:
    return any(_processes(mark))


def _processes(mark: str, *, whole: bool = False) -> Iterator[int]:
    """Those whose command line holds the text, or is it."""
    for process in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        try:
            with open(f"/proc/{process}/cmdline", "rb", buffering=0) as line:
                found = line.read()
        except OSError:
            continue
        has = found == mark.encode() if whole else mark.encode() in found
        if has and process != os.getpid():
            yield process


@asynccontextmanager
async def world_of(
    root: Path, lines: Mapping[str, Any], *, at: datetime | None = None, **set_: Any
) -> AsyncIterator[World]:
    """A world that ends with the block.

    Args:
        at: What its clock says at first; by default what time it is.
    """
    async with anyio.create_task_group() as group:
        world = World(root, group, lines, **set_)
        world.clock = Clock(at)
        await world.start()
        try:
            yield world
        finally:
            with anyio.CancelScope(shield=True):
                await world.stop()
    if world.honest:
        # Whatever was told here: each thing that ran or was decided says in the audit why.
        database = world.settings.db or f"sqlite:///{root / 'home' / 'gonogo.db'}"
        problems = [*unreasoned(database), *await _audit_problems(database)]
        assert problems == [], problems


async def _audit_problems(url: str) -> list[str]:
    kind, _, file = url.partition(":///")
    if kind == "sqlite":
        # A whole store takes ten times as long to open as it takes to read what is there.
        _THE_FILE[0] = file
        with Direct(_files()) as conn:
            return verify(Tx(conn, utc_now(), Recent())).problems
    store = Store(url)
    try:
        return (await store.read(verify)).problems
    finally:
        store.close()


_THE_FILE = [""]


@cache
def _files() -> Engine:
    """Reads whatever file is meant: what is asked of each is compiled once."""
    opened = lambda: sqlite3.connect(_THE_FILE[0])  # noqa: E731
    return create_engine("sqlite://", creator=opened, poolclass=NullPool)
