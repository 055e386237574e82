"""A whole runtime with a scripted model, and sessions that wait in it for a person."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
from msgspec.structs import replace

from gonogo.domain.messages import parse_message
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.settings import Settings
from gonogo.tools import Tool

TOOL = "create_directory"
"""The tool that is approved; its body is replaced by a probe."""


def settings_for(home: Path, url: str | None = None) -> Settings:
    """Settings that keep everything under one folder."""
    workspace = home / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    return Settings(home=home / "state", config=home / "config", workspace=workspace, db=url)


def asking(times: int) -> ScriptedModel:
    """A model whose coder wants to use the tool so many times, and then is done."""
    lines: list[Any] = [
        {"calls": [{"name": TOOL, "arguments": {"path": f"folder{n}"}}]} for n in range(times)
    ]
    return ScriptedModel({"main/coder": [*lines, {"text": "done"}]})


@dataclass(slots=True)
class World:
    """An open runtime whose tool tells when it runs."""

    runtime: Runtime
    on_run: Callable[[], None] = lambda: None
    _asked: dict[str, str] = field(default_factory=dict)
    _waiting: dict[str, anyio.Event] = field(default_factory=dict)

    async def say(self, text: str) -> str:
        """Begin a session; gives its id."""
        message = parse_message({"type": "user_message", "content": text, "agent_type": "coder"})
        receipt = await self.runtime.messages.accept(self.runtime.owner, None, message)
        return receipt.session_id

    async def approval(self, session_id: str) -> str:
        """The next question of a session, when it is asked."""
        while session_id not in self._asked:
            event = self._waiting[session_id] = anyio.Event()
            with anyio.fail_after(60):
                await event.wait()
        return self._asked.pop(session_id)

    async def approve(self, approval_id: str) -> None:
        """Answer yes."""
        message = {"type": "hitl_decision", "approval_id": approval_id, "decision": "approve"}
        await self.runtime.messages.accept(self.runtime.owner, None, parse_message(message))

    def watch(self, body: dict[str, Any]) -> None:
        """Take note of questions as they are told."""
        if body["type"] == "approval_requested":
            self._asked[body["session_id"]] = body["metadata"]["approval_id"]
            event = self._waiting.pop(body["session_id"], None)
            if event is not None:
                event.set()


@asynccontextmanager
async def world(home: Path, model: ScriptedModel, url: str | None = None) -> AsyncIterator[World]:
    """A runtime over a state folder, and over the database at an address if there is one."""
    async with Runtime.open(settings_for(home, url), model=model) as runtime:
        made = World(runtime)
        tools = cast("dict[str, Tool]", runtime.parts.gate.tools)
        tools[TOOL] = replace(tools[TOOL], run=_probe(made))
        runtime.parts.hub.watch(made.watch)
        yield made


def _probe(made: World) -> Callable[..., Awaitable[dict[str, Any]]]:
    async def run(*_: object) -> dict[str, Any]:
        made.on_run()
        return {"created": True}

    return run


async def park(home: Path, count: int) -> list[str]:
    """Have so many sessions wait for a person; gives the ids of their approvals.

    One waits by the real path; its rows are then copied under other ids.
    """
    async with world(home, asking(1)) as made:
        session_id = await made.say("make a folder")
        approval_id = await made.approval(session_id)
    return _copies(home / "state" / "gonogo.db", session_id, approval_id, count)


TABLES = ("sessions", "turns", "messages", "events", "tool_calls", "approvals", "timers", "audit")


def _copies(path: Path, session_id: str, approval_id: str, count: int) -> list[str]:
    conn = sqlite3.connect(path)
    calls = conn.execute("SELECT id, turn_id FROM tool_calls").fetchone()
    ids = (session_id, approval_id, *calls)
    for table in TABLES:
        _copy(conn, table, ids, count)
    conn.commit()
    conn.close()
    return [_other(approval_id, n) for n in range(count)]


def _copy(conn: sqlite3.Connection, table: str, ids: tuple[str, ...], count: int) -> None:
    rows = conn.execute(f"SELECT * FROM {table}")  # noqa: S608 - one of our own names
    names = [column[0] for column in rows.description]
    values = copied(rows.fetchall(), ids, count)
    if table == "messages":
        values = [[None if n == "id" else v for n, v in zip(names, row, strict=True)]
                  for row in values]  # fmt: skip
    marks = ", ".join("?" * len(names))
    conn.executemany(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608


def copied(rows: Sequence[tuple[Any, ...]], ids: Sequence[str], count: int) -> list[list[Any]]:
    """So many copies of those rows that speak of ids, which are others in each copy."""
    kept = [row for row in rows if row[0] != "system" and _speaks_of(ids, row)]
    return [
        [_renamed(value, ids, n) for value in row]
        for n in range(count) for row in kept
    ]  # fmt: skip


def _speaks_of(ids: Sequence[str], row: tuple[Any, ...]) -> bool:
    return any(isinstance(value, str) and each in value for each in ids for value in row)


def _renamed(value: Any, ids: Sequence[str], number: int) -> Any:
    if isinstance(value, str):
        for each in ids:
            value = value.replace(each, _other(each, number))
    return value


def _other(name: str, number: int) -> str:
    return f"{name[:-6]}{number:06x}"
