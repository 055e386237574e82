"""Runs the story in a process that can be made to kill itself at any point of it.

    python crash_driver.py          reads jobs from its input, a JSON object a line

Each job runs in a fork of this process, which has imported everything, so that a run costs what the
story costs. A job is `{folder, crash: [what, number] | null, fresh}`: the process gets SIGKILL at
the n-th of something, counted from its start:

    before, after     right before, right after a commit
    before_retry, after_retry
                      the same, counted from the commit that records that an attempt failed
    filled, placed    when a file's new content lies beside it, when it has taken its place
    statement         before a statement of SQL, the migrations' included

When it has ended, a line `{signal, code, count}` is written, with what was counted: commits, files,
statements. `fresh` has the job make its own database; else it begins with an empty one.

The database of a job is `folder/home/gonogo.db`; the person's log is `folder/told.jsonl`, and what
the model was asked is in `folder/requests.jsonl`.
"""

import gc
import json
import os
import signal
import sqlite3
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from durability.person import Person, Told
from durability.story import LINES, SESSION, lay_out
from fakes.template import empty_database
from fakes.until import let_threads_end
from gonogo.domain.base import digest
from gonogo.domain.errors import AlreadyDecided, Conflict
from gonogo.domain.messages import parse_message
from gonogo.domain.tool_calls import ModelRequest, Reply, ToolAnswer
from gonogo.llm import ScriptedModel
from gonogo.llm.model import OnText
from gonogo.runtime import Once, Runtime
from gonogo.settings import Settings
from gonogo.store import (
    sqlite,
    steps,  # noqa: F401 - so that no fork imports it
)
from gonogo.store.transaction import Direct
from gonogo.tools import builtin_tools
from gonogo.workspace.files import safe_open as contents


class Fate:
    """Counts what happens in this process, and kills it at one of these things."""

    def __init__(self, crash: list[Any] | None) -> None:
        self.count: Counter[str] = Counter()
        self._crash = tuple(crash or ())
        self._has_failed = False

    def meet(self, what: str) -> None:
        self.count[what] += 1
        if self._crash == (what, self.count[what]):
            os.kill(os.getpid(), signal.SIGKILL)

    def meet_commit(self, side: str) -> None:
        self.meet(side)
        if self._has_failed:
            self.meet(f"{side}_retry")

    def _meet_statement(self, statement: str) -> None:
        self.meet("statement")
        self._has_failed |= statement.startswith("INSERT") and "subtask_retrying" in statement

    def wait_everywhere(self) -> None:
        """Have everything that is counted come by here."""
        raw, prepare = Direct.raw.func, sqlite._prepare
        Direct.raw = property(lambda conn: Watched(raw(conn), self))  # type: ignore[assignment]

        def prepared(connection: sqlite3.Connection, record: object) -> None:
            connection.set_trace_callback(self._meet_statement)
            prepare(connection, record)

        sqlite._prepare = prepared
        contents._fill = self._after(contents._fill, "filled")
        contents._place_new = self._after(contents._place_new, "placed")
        contents._replace = self._after(contents._replace, "placed")

    def _after(self, fn: Callable[..., None], what: str) -> Callable[..., None]:
        def run(*args: Any, **options: Any) -> None:
            fn(*args, **options)
            self.meet(what)

        return run


class Watched:
    """A connection of SQLite whose commits are counted."""

    def __init__(self, raw: sqlite3.Connection, fate: Fate) -> None:
        self._raw, self._fate = raw, fate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute(self, statement: str, *bound: Any) -> sqlite3.Cursor:
        if statement == "COMMIT":
            self._fate.meet_commit("before")
        cursor = self._raw.execute(statement, *bound)
        if statement == "COMMIT":
            self._fate.meet_commit("after")
        return cursor


class RecordingModel(ScriptedModel):
    """The scripted model, which writes down what it is asked before it answers."""

    def __init__(self, path: Path) -> None:
        super().__init__(LINES)
        self._path = path

    async def request(self, request: ModelRequest, on_text: OnText) -> Reply:
        with self._path.open("a") as file:
            file.write(json.dumps(as_sent(request)) + "\n")
        return await super().request(request, on_text)


def as_sent(request: ModelRequest) -> dict[str, Any]:
    """A request as OpenAI's servers are sent it."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": request.system}]
    for message in request.messages:
        if isinstance(message, ToolAnswer):
            answer = {"tool_call_id": message.call_id, "content": message.content}
            messages.append({"role": "tool", **answer})
        elif isinstance(message, Reply):
            calls = [_sent_call(call.id, call.name, call.arguments) for call in message.calls]
            said = {"role": "assistant", "content": message.text or None}
            messages.append({**said, "tool_calls": calls} if calls else said)
        else:
            messages.append({"role": "user", "content": message.content})
    tools = [{"type": "function", "function": {"name": tool.name}} for tool in request.tools]
    return {"model": "scripted", "thread": request.thread, "messages": messages, "tools": tools}


def _sent_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments or {})}
    return {"id": call_id, "type": "function", "function": function}


class Verbs:
    """The line of a person who stands beside the runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._me = runtime, runtime.owner

    async def say(self, content: str) -> None:
        message = parse_message({"type": "user_message", "content": content})
        once = Once(by=self._me, key=content, digest=digest(content))
        await self._runtime.messages.accept(self._me, SESSION, message, once=once)

    async def pending(self) -> list[Any]:
        return (await self._runtime.sessions.pending(self._me, SESSION)).pending_approvals

    async def decide(self, approval_id: str, fields: dict[str, Any]) -> None:
        found = await self._runtime.approvals.get(self._me, approval_id)
        about = {"type": "hitl_decision", "approval_id": approval_id}
        if found.kind == "plan":
            about = {"type": "plan_decision", "plan_id": found.plan_id}
        message = parse_message({**about, "digest": found.digest, **fields})
        try:
            await self._runtime.messages.accept(self._me, SESSION, message)
        except (AlreadyDecided, Conflict) as error:
            sys.stderr.write(f"{approval_id}: {error}\n")

    @asynccontextmanager
    async def events(self, after: int) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        async with self._runtime.streams.follow(self._me, SESSION, after) as bodies:
            yield ({**body} async for body in bodies)


async def play(folder: Path) -> None:
    """See the story of one folder through."""
    workspace = folder / "workspace"
    settings = Settings(home=folder / "home", config=folder / "config", workspace=workspace)
    model = RecordingModel(folder / "requests.jsonl")
    async with Runtime.open(settings, model=model) as runtime:
        await Person(Verbs(runtime), Told(folder / "told.jsonl"), workspace).see_through()


def run(job: dict[str, Any], empty: bytes, fate: Fate) -> None:
    """One job, in a process of its own."""
    folder = Path(job["folder"])
    database = folder / "home" / "gonogo.db"
    database.parent.mkdir(exist_ok=True)
    if not job.get("fresh") and not database.exists():
        database.write_bytes(empty)
    fate.wait_everywhere()
    code = 0
    try:
        anyio.run(play, folder)
    except BaseException:
        traceback.print_exc()
        code = 1
    (folder / "count.json").write_text(json.dumps(fate.count))
    os._exit(code)


def carried_out(job: dict[str, Any], empty: bytes) -> dict[str, Any]:
    """Fork for a job, and tell how that ended."""
    count = Path(job["folder"]) / "count.json"
    count.unlink(missing_ok=True)
    log = os.open(f"{job['folder']}/stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if (child := os.fork()) == 0:
        os.dup2(log, 2)
        os.setsid()
        signal.alarm(300)
        run(job, empty, Fate(job.get("crash")))
    os.close(log)
    status = os.waitpid(child, 0)[1]
    counted = json.loads(count.read_text()) if count.exists() else {}
    code = os.waitstatus_to_exitcode(status)
    return {"signal": os.WTERMSIG(status), "code": code, "count": counted}


def rehearse(empty: bytes) -> None:
    """Play once here: what is imported and compiled on the way, no fork has to do again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder / "workspace")
        (folder / "home").mkdir()
        (folder / "home" / "gonogo.db").write_bytes(empty)
        anyio.run(play, folder)


def main() -> None:
    """Serve until the input ends."""
    for tool in builtin_tools().values():
        tool.schema()
    empty = empty_database()
    rehearse(empty)
    let_threads_end()
    # What is here already is not to be looked through for garbage by each fork.
    gc.freeze()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(carried_out(json.loads(line), empty)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
