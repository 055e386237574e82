"""Runs the story in a process that can be made to kill itself at any commit.

    python crash_driver.py          reads jobs from its input, a JSON object a line

Each job runs in a fork of this process, which has imported everything, so that a run costs what the
story costs. A job is `{folder, crash: [number, side] | null, budget}`: the process gets SIGKILL
right before or right after its commit of that number, counted from the opening of the database.
When it has ended, a line `{signal, code, commits}` is written.

The database of a job is `folder/home/gonogo.db`; the person's log is `folder/told.jsonl`, and what
the model was asked is in `folder/requests.jsonl`.
"""

import json
import os
import signal
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import alembic.command  # noqa: F401 - so that no fork imports it
import anyio
import anyio.to_thread

from durability.person import Person, Told
from durability.story import LINES, SESSION
from gonogo.domain.canonical import digest
from gonogo.domain.conversation import ModelRequest, Reply, ToolAnswer
from gonogo.domain.errors import AlreadyDecided, Conflict
from gonogo.domain.messages import parse_message
from gonogo.llm import ScriptedModel
from gonogo.llm.model import OnText
from gonogo.runtime import Once, Runtime
from gonogo.settings import Settings
from gonogo.store import Store, _sqlite
from gonogo.tools import builtin_tools


class Commits:
    """Counts the commits of this process, and kills it at one of them."""

    def __init__(self, crash: list[Any] | None) -> None:
        self.count = 0
        self._number, self._side = crash or (0, "")

    def run(self, raw: sqlite3.Connection) -> None:
        self.count += 1
        mine = self.count == self._number
        if mine and self._side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        raw.execute("COMMIT")
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """A connection of SQLite whose commits are counted."""

    def __init__(self, raw: sqlite3.Connection, commits: Commits) -> None:
        self._raw, self._commits = raw, commits

    @property
    def in_transaction(self) -> bool:
        return self._raw.in_transaction

    def execute(self, statement: str) -> None:
        if statement == "COMMIT":
            self._commits.run(self._raw)
        else:
            self._raw.execute(statement)


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
        await self._runtime.accept(self._me, SESSION, message, once=once)

    async def pending(self) -> list[Any]:
        return (await self._runtime.pending(self._me, SESSION)).pending_approvals

    async def decide(self, approval_id: str, fields: dict[str, Any]) -> None:
        found = await self._runtime.approval(self._me, approval_id)
        about = {"type": "hitl_decision", "approval_id": approval_id}
        if found.kind == "plan":
            about = {"type": "plan_decision", "plan_id": found.plan_id}
        message = parse_message({**about, "digest": found.digest, **fields})
        try:
            await self._runtime.accept(self._me, SESSION, message)
        except (AlreadyDecided, Conflict) as error:
            sys.stderr.write(f"{approval_id}: {error}\n")

    @asynccontextmanager
    async def events(self, after: int) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        async with self._runtime.follow(self._me, SESSION, after) as bodies:
            yield bodies


async def play(folder: Path) -> None:
    """See the story of one folder through."""
    workspace = folder / "workspace"
    settings = Settings(home=folder / "home", config=folder / "config", workspace=workspace)
    model = RecordingModel(folder / "requests.jsonl")
    async with Runtime.open(settings, model=model) as runtime:
        await Person(Verbs(runtime), Told(folder / "told.jsonl"), workspace).see_through()


def run(job: dict[str, Any], commits: Commits) -> None:
    """One job, in a process of its own."""
    folder = Path(job["folder"])
    (folder / "home").mkdir(exist_ok=True)
    if not (folder / "home" / "gonogo.db").exists():
        (folder / "home" / "gonogo.db").write_bytes(job["empty"])
    raw = _sqlite._raw
    _sqlite._raw = lambda conn: Watched(raw(conn), commits)  # type: ignore[assignment]
    code = 0
    try:
        anyio.run(play, folder)
    except BaseException:
        traceback.print_exc()
        code = 1
    (folder / "commits").write_text(str(commits.count))
    os._exit(code)


def main() -> None:
    """Serve until the input ends."""
    for tool in builtin_tools().values():
        tool.schema()
    with tempfile.TemporaryDirectory() as folder:
        Store(f"sqlite:///{folder}/empty.db").close()
        empty = Path(folder, "empty.db").read_bytes()
    for line in sys.stdin:
        job = {**json.loads(line), "empty": empty}
        log = os.open(f"{job['folder']}/stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if (child := os.fork()) == 0:
            os.dup2(log, 2)
            os.setsid()
            signal.alarm(60)
            run(job, Commits(job.get("crash")))
        os.close(log)
        status = os.waitpid(child, 0)[1]
        ended = {"signal": os.WTERMSIG(status), "code": os.waitstatus_to_exitcode(status)}
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
