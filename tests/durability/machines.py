"""Several servers and workers on one PostgreSQL, as tests and `bench/machines.py` have them."""

import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import httpx
import psycopg

from durability import story
from durability.ground import Ground
from durability.server import Server, Wire
from gonogo.client import Client

LIMIT = 60
"""Seconds after which something does not come any more."""
HELD = "python3 tick.py held"
OWNER = """
SELECT nodes.pid FROM places JOIN nodes ON nodes.id = places.owner WHERE places.id <> 'common'
"""
WORKS = re.compile(r"process \d+")


def server(ground: Ground) -> Server:
    return ground.server("serve", "--no-work").wait()


def worker(ground: Ground) -> Server:
    return ground.server("worker").wait(WORKS)


def asked(ground: Ground, statement: str, *params: Any) -> Any:
    with psycopg.connect(ground.environment["GONOGO_DB"]) as conn:
        row = conn.execute(statement, params).fetchone()
        return row[0] if row else None


def owner_of(ground: Ground, workers: list[Server]) -> Server:
    pid = asked(ground, OWNER)
    return next(each for each in workers if each.pid == pid)


async def until(holds: Callable[[], object], seconds: float = LIMIT) -> float:
    """Wait until something holds; the seconds that it took."""
    began = time.monotonic()
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - other processes tell nobody
            await anyio.sleep(0.02)
    return time.monotonic() - began


@asynccontextmanager
async def line(front: Server) -> AsyncIterator[tuple[Client, Wire]]:
    async with front.client() as client, front.http() as http:
        yield client, Wire(client, http)


class Follower:
    """What a client of one server is told, and when."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.arrived: list[tuple[int, float]] = []
        """When events came that were told since: by their numbers, in seconds of the clock."""

    async def follow(self, client: Client) -> None:
        began = datetime.now(UTC)
        async for body in client.follow(story.SESSION, 0):
            if "seq" in body:
                self.events.append(body)
                if datetime.fromisoformat(body["ts"]) > began:
                    self.arrived.append((body["seq"], datetime.now(UTC).timestamp()))

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events]

    def has(self, kind: str) -> bool:
        return any(event["type"] == kind for event in self.events)


async def say(http: httpx.AsyncClient, message: dict[str, Any]) -> None:
    body = {"session_id": story.SESSION, "message": message}
    async with http.stream("POST", "/agent/message/stream", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()


async def first_question(client: Client) -> Any:
    with anyio.fail_after(LIMIT):
        while True:
            found = (await client.pending_approvals(story.SESSION)).pending_approvals
            if found:
                return found[0]
            await anyio.sleep(0.05)


async def begin_held(ground: Ground, client: Client, http: httpx.AsyncClient) -> None:
    """Have an agent run a command that lasts until it is told to go."""
    command = {"calls": [{"name": "execute_command", "arguments": {"command": HELD}}]}
    ground.model.script({
        "rules": [{"when": {"user": "Hold on"}, "replies": [command, {"text": "It is over."}]}]
    })  # fmt: skip
    await say(http, {"type": "user_message", "content": "Hold on", "agent_type": "coder"})
    question = await first_question(client)
    await Wire(client, http).decide(question.approval_id, {"decision": "approve"})
    await until(lambda: story.starts(ground.workspace, HELD))
