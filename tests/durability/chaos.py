"""Several servers and workers that are killed, stopped and cut off at random, and people at them.

Each person says one thing after the other in sessions of their own, to whichever server is there,
and answers what is asked. What they were told is kept, to be held against what is there at the end.
"""

import json
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx

from durability.checker import Told
from durability.ground import Ground
from durability.server import Server
from fakes.postgres import Server as Postgres
from gonogo.client import Client
from gonogo.domain.errors import GonogoError

MESSAGES = 8
"""What is said in one session; the next things are said in a new one, in a folder of its own."""
FINISHING = 120.0
"""Seconds in which all that was begun has to end, once nobody disturbs it any more."""
TAKEN_OVER = 60.0
"""Seconds after which the work of a dead worker has another one, on however busy a machine."""
_STOPPED = 7.0
_AWAY = "The database cannot be used now"
"""Why a process ends as soon as it has begun; what supervises it starts it again."""
_LAST = ("assistant_message", "error")
_TICK = """
import json, os, sys, time

def put(phase):
    line = {"command": "python3 tick.py " + " ".join(sys.argv[1:]), "phase": phase}
    line["at"] = time.time_ns()
    ledger = os.open("ledger.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(ledger, json.dumps(line).encode() + b"\\n")
    os.fsync(ledger)
    os.close(ledger)

put("start")
time.sleep(float(sys.argv[2]))
put("end")
print(sys.argv[1], "ticked")
"""


def rules() -> dict[str, Any]:
    """What the model answers: each thing that is said is one file and one command."""
    found: list[dict[str, Any]] = []
    for number in range(MESSAGES):
        lasts = 3.0 if number % 4 == 3 else 0.1
        calls = [
            {"name": "write_file", "arguments": {"path": f"{number}.txt", "content": f"{number}!"}},
            {"name": "execute_command",
             "arguments": {"command": f"python3 tick.py {number} {lasts}"}},
        ]  # fmt: skip
        found.append({"when": {"last": f"Do {number}."}, "reply": {"calls": calls}})
    return {"rules": found, "default": {"text": "Well."}}


class Cluster:
    """The processes, each of which is replaced when it ends."""

    def __init__(self, ground: Ground, chance: random.Random, servers: int, workers: int) -> None:
        self.ground, self.chance = ground, chance
        self.fronts = [self._server() for _ in range(servers)]
        self.workers = [self._worker() for _ in range(workers)]
        self.deeds: list[str] = []
        for each in self.fronts:
            each.wait()

    def _server(self) -> Server:
        return self.ground.server("serve", "--no-work")

    def _worker(self) -> Server:
        return self.ground.server("worker")

    def front(self) -> Server:
        return self.chance.choice(self.fronts)

    async def kill_worker(self) -> None:
        """As a power cut."""
        place = self.chance.randrange(len(self.workers))
        self.workers[place].kill()
        self.workers[place] = self._worker()

    async def kill_server(self) -> None:
        place = self.chance.randrange(len(self.fronts))
        self.fronts[place].kill()
        while True:
            fresh = self._server()
            try:
                await anyio.to_thread.run_sync(fresh.wait)
            except AssertionError:
                assert _AWAY in self.ground.log.read_text()
            else:
                self.fronts[place] = fresh
                return

    async def supervise(self) -> None:
        """Start a worker again that ended since the database was away when it began."""
        while True:
            for place, worker in enumerate(self.workers):
                if not worker.is_alive:
                    assert _AWAY in self.ground.log.read_text(), worker.log.read_text()
                    self.workers[place] = self._worker()
            await anyio.sleep(0.2)

    async def stop_worker(self) -> None:
        """Past its lease, and have it go on."""
        stopped = self.chance.choice(self.workers)
        stopped.process.send_signal(signal.SIGSTOP)
        await anyio.sleep(_STOPPED)
        stopped.process.send_signal(signal.SIGCONT)

    async def roll_worker(self) -> None:
        """As an upgrade does: another one is there before this one leaves."""
        place = self.chance.randrange(len(self.workers))
        left, self.workers[place] = self.workers[place], self._worker()
        left.process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(40):
            while left.is_alive:  # noqa: ASYNC110 - a process tells nobody
                await anyio.sleep(0.1)
            return
        raise AssertionError("a worker that was asked to leave did not")


class Havoc:
    """What is done to a cluster, and when."""

    def __init__(self, cluster: Cluster, postgres: Postgres, *, restarts: bool) -> None:
        self._cluster, self._postgres = cluster, postgres
        self._one_at_a_time = anyio.Lock()
        self._database = cluster.ground.environment["GONOGO_DB"].split("@/")[1].split("?")[0]
        self._ways: dict[str, Callable[[], Awaitable[None]]] = {
            "kill a worker": cluster.kill_worker,
            "stop a worker": cluster.stop_worker,
            "roll a worker": cluster.roll_worker,
            "kill a server": cluster.kill_server,
            "cut connections": self._cut,
        }
        if restarts:
            self._ways["restart PostgreSQL"] = self._restart

    async def once_each(self, pause: float) -> None:
        """Each of them, in a random order, one beginning while others last."""
        ways = list(self._ways)
        self._cluster.chance.shuffle(ways)
        async with anyio.create_task_group() as group:
            for way in ways:
                group.start_soon(self._do, way)
                await anyio.sleep(pause)

    async def at_random(self, seconds: float) -> None:
        """Any of them, for so long."""
        until = time.monotonic() + seconds
        async with anyio.create_task_group() as group:
            while time.monotonic() < until:
                group.start_soon(self._do, self._cluster.chance.choice(list(self._ways)))
                await anyio.sleep(self._cluster.chance.uniform(0.5, 5))

    async def _do(self, way: str) -> None:
        self._cluster.deeds.append(way)
        await self._ways[way]()

    async def _cut(self) -> None:
        async with self._one_at_a_time:
            await anyio.to_thread.run_sync(self._postgres.cut, self._database)

    async def _restart(self) -> None:
        async with self._one_at_a_time:
            await anyio.to_thread.run_sync(self._postgres.stop)
            await anyio.sleep(self._cluster.chance.choice([0.1, 2, 6]))
            await anyio.to_thread.run_sync(self._postgres.start)


class Person:
    """One person, who has work done until it is enough."""

    def __init__(self, cluster: Cluster, told: Told, name: str) -> None:
        self._cluster, self._told, self._name = cluster, told, name
        self.done = 0
        self.is_over = False
        self.slowest = 0.0
        self.folders: list[Path] = []

    async def work(self, enough: anyio.Event) -> None:
        try:
            await self._work(enough)
        finally:
            self.is_over = True

    async def _work(self, enough: anyio.Event) -> None:
        while not enough.is_set():
            session = f"{self._name}-{len(self.folders)}"
            folder = self._cluster.ground.workspace / session
            folder.mkdir()
            (folder / "tick.py").write_text(_TICK)
            self.folders.append(folder)
            await self._ask(session, partial(_open, session, folder))
            seen = 0
            for number in range(MESSAGES):
                if enough.is_set():
                    return
                began = time.monotonic()
                await self._say(session, f"Do {number}.")
                seen = await self._see_through(session, seen)
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.done += 1

    async def _ask(self, what: str, attempt: Callable[[httpx.AsyncClient], Awaitable[int]]) -> None:
        """Ask any server, until one has done it."""
        while True:
            front = self._cluster.front()
            with suppress(httpx.TransportError):
                async with front.http() as http:
                    status = await attempt(http)
                    if status < 500:
                        return
                    assert status == 503, f"{what}: {status}"
            await anyio.sleep(0.1)

    async def _say(self, session: str, content: str) -> None:
        body = {
            "session_id": session,
            "message": {"type": "user_message", "content": content, "agent_type": "coder"},
        }
        headers = {"Idempotency-Key": f"{session} {content}"}

        async def attempt(http: httpx.AsyncClient) -> int:
            path = "/agent/message/stream"
            async with http.stream("POST", path, json=body, headers=headers) as answer:
                if answer.status_code >= 400:
                    said = (await answer.aread()).decode()
                    assert answer.status_code == 503, said
                return answer.status_code

        await self._ask(content, attempt)
        self._told.said[f"{session} {content}"] = content

    async def _see_through(self, session: str, seen: int) -> int:
        """Follow a session from any server until its turn is over; the last event's number."""
        while True:
            front = self._cluster.front()
            try:
                async with (
                    front.client(busy=0) as client,
                    anyio.create_task_group() as group,
                ):
                    group.start_soon(self._answer, client, session)
                    async for body in client.follow(session, seen):
                        if "seq" not in body:
                            continue
                        assert body["seq"] == seen + 1, f"{session}: {body['seq']} after {seen}"
                        self._told.events.append(body)
                        seen = body["seq"]
                        if body.get("is_final") and body["type"] in _LAST:
                            group.cancel_scope.cancel()
                            break
                    return seen
            except* (GonogoError, httpx.TransportError):
                pass
            await anyio.sleep(0.1)

    async def _answer(self, client: Client, session: str) -> None:
        while True:
            for question in (await client.pending_approvals(session)).pending_approvals:
                decision: dict[str, Any] = {"decision": "approve"}
                if question.kind == "intervention":
                    seen = {"seen": "nobody looked"}
                    decision = {"decision": "edit", "modified_arguments": {"result": seen}}
                await client.decide(question.approval_id, **decision)
                self._told.decided.add(question.approval_id)
            await anyio.sleep(0.05)


async def _open(session: str, folder: Path, http: httpx.AsyncClient) -> int:
    answer = await http.post("/sessions", json={"session_id": session, "workspace": str(folder)})
    # It may be there since an attempt whose answer was lost.
    return 201 if answer.status_code == 409 else answer.status_code


@contextmanager
def kept(path: Path, told: Told) -> Iterator[None]:
    """What the people were told, on the disk for whoever looks into a failure."""
    try:
        yield
    finally:
        lines = {"said": told.said, "decided": sorted(told.decided), "events": len(told.events)}
        path.write_text(json.dumps(lines, indent=1))
