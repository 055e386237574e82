"""Clients come and go, and servers end in order: the plan runs on, and streams lose nothing."""

import json
import random
import signal
from typing import Any

import anyio
import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from durability import story
from durability.ground import Ground
from durability.person import Person
from durability.server import Server, Wire, processes_in
from durability.test_restart import HELD, LIMIT, eventually, is_a, living, until, waiting
from gonogo.domain.messages import PlanDecision


async def test_a_plan_runs_on_when_every_client_is_gone(ground: Ground):
    async with living(ground) as (server, client, wire):
        await wire.say(story.FIRST)
        plan_id = (await until(client, is_a("plan_notification")))[-1]["plan_id"]
        approve = PlanDecision(type="plan_decision", plan_id=plan_id, decision="approve")
        await client.decide_plan(approve)
        await client.aclose()
        noted = ground.workspace / "notes.md"
        await eventually(lambda: noted.read_text() == story.AFTERWARDS["notes.md"], "it goes on")

        async with server.client() as late, server.http() as http:
            await until(late, is_a("subtask_completed", subtask_id="note"))
            await until(late, is_a("approval_requested", subtask_id="ask"))
            await Person(Wire(late, http), ground.told, ground.workspace).see_through()

    assert story.contents(ground.workspace) == story.AFTERWARDS
    assert ground.problems() == []


class Fickle:
    """A client that leaves its stream again and again, and takes it up where it was."""

    def __init__(self, server: Server, chance: random.Random) -> None:
        self.server, self.chance = server, chance
        self.bodies: list[dict[str, Any]] = []
        self.breaks = 0

    @property
    def last(self) -> int:
        return self.bodies[-1]["seq"] if self.bodies else 0

    def take(self, body: dict[str, Any]) -> bool:
        """Keep what is durable; True: leave now."""
        if "seq" in body:
            self.bodies.append(body)
        return self.chance.random() < 0.2

    async def over_sse(self) -> None:
        while True:
            async with self.server.http() as http:
                headers = {"Last-Event-ID": str(self.last)}
                path = f"/sessions/{story.SESSION}/events"
                async with http.stream("GET", path, headers=headers, timeout=LIMIT) as stream:
                    async for line in stream.aiter_lines():
                        if line.startswith("data:") and self.take(json.loads(line[5:])):
                            break
            self.breaks += 1

    async def over_websocket(self) -> None:
        headers = {"Authorization": f"Bearer {self.server.token}"}
        where = self.server.url.replace("http", "ws") + f"/ws/{story.SESSION}"
        while True:
            # With a bounded queue this client stops reading, and then waits ten seconds for the
            # other side's farewell, which stands behind the frames that it will never read.
            async with connect(
                f"{where}?after={self.last}", additional_headers=headers, max_queue=None
            ) as socket:
                async for frame in socket:
                    if self.take(json.loads(frame)):
                        break
            self.breaks += 1


@pytest.mark.feature(211)
async def test_streams_that_break_at_random_give_together_what_the_database_holds(
    ground: Ground, chance: random.Random
):
    async with living(ground) as (server, _, wire):
        await wire.say(story.FIRST)
        one, two = Fickle(server, chance), Fickle(server, chance)
        async with anyio.create_task_group() as group:
            group.start_soon(one.over_sse)
            group.start_soon(two.over_websocket)
            await Person(wire, ground.told, ground.workspace).see_through()
            last = ground.told.last
            await eventually(lambda: one.last >= last and two.last >= last, "they catch up")
            group.cancel_scope.cancel()

    assert one.bodies == two.bodies == ground.told.events
    assert [body["seq"] for body in one.bodies] == list(range(1, ground.told.last + 1))
    assert min(one.breaks, two.breaks) >= 5
    assert ground.problems() == []


class Listener:
    """A stream that is open when the server is told to end."""

    def __init__(self) -> None:
        self.ended: str | None = None

    async def sse(self, http: httpx.AsyncClient, **request: Any) -> None:
        async with http.stream(timeout=LIMIT, **request) as stream:
            async for _ in stream.aiter_bytes():
                pass
        self.ended = "in order"

    async def websocket(self, server: Server) -> None:
        headers = {"Authorization": f"Bearer {server.token}"}
        where = server.url.replace("http", "ws") + f"/ws/{story.SESSION}"
        async with connect(where, additional_headers=headers) as socket:
            try:
                while True:
                    await socket.recv()
            except ConnectionClosed as closed:
                self.ended = f"{closed.rcvd.code if closed.rcvd else 'cut'}"


async def test_sigterm_ends_open_streams_in_order_and_leaves_no_process(
    ground: Ground,
):
    command = {"name": "execute_command", "arguments": {"command": HELD}}
    ground.model.script({"rules": [
        {"when": {"user": "hold"}, "replies": [
            {"calls": [{"name": "switch_mode", "arguments": {"mode": "coder"}}]},
            {"calls": [command]}]},
    ]})  # fmt: skip
    session, answer, socket = Listener(), Listener(), Listener()
    async with living(ground) as (server, client, wire), server.http() as http:
        await wire.say("hold")
        await until(client, is_a("approval_requested"))
        question = await waiting(wire)
        about = {"type": "hitl_decision", "approval_id": question.approval_id}
        sent = {"session_id": story.SESSION, "message": {**about, "decision": "approve"}}
        async with anyio.create_task_group() as group:
            path = f"/sessions/{story.SESSION}/events"
            group.start_soon(lambda: session.sse(http, method="GET", url=path))
            group.start_soon(socket.websocket, server)
            group.start_soon(
                lambda: answer.sse(http, method="POST", url="/agent/message/stream", json=sent)
            )
            await eventually(lambda: story.starts(ground.workspace, HELD) == 1, "it starts")
            server.process.send_signal(signal.SIGTERM)
            code = await anyio.to_thread.run_sync(server.process.wait, LIMIT)

    assert (session.ended, answer.ended) == ("in order", "in order")
    assert socket.ended in ("1001", "1012"), "going away, or about to be back"
    assert code == 0
    await eventually(lambda: not processes_in(ground.folder), "no process is left")
    assert not (ground.home / "owner.sock").exists()

    async with living(ground) as (_, client, wire):
        await until(client, is_a("approval_requested", kind="intervention"))
        assert story.starts(ground.workspace, HELD) == 1
        await eventually(lambda: not ground.problems(settled=True), "everything is at rest")
