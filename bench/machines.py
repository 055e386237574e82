"""What several servers and workers cost, on one PostgreSQL: figures for MACHINES.md.

    PYTHONPATH=src:tests .venv/bin/python -m bench.machines

Real processes, a scripted model, the PostgreSQL of the tests (`fsync=off`).
"""

import functools
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import psycopg

from durability import story
from durability.ground import Ground
from durability.person import Person
from durability.server import Server, processes_in
from durability.test_machines import (
    HELD,
    Follower,
    begin_held,
    first_question,
    line,
    owner_of,
    say,
    server,
    until,
    worker,
)
from fakes.nursery import nursery
from fakes.openai_server import fake_openai
from fakes.postgres import programs
from fakes.postgres import server as postgres_server
from gonogo.store import Store

Ms = list[float]
_OWNERS = (
    "SELECT nodes.pid FROM places JOIN nodes ON nodes.id = places.owner WHERE places.id <> 'common'"
)


async def taken_over(ground: Ground) -> Ms:
    """From kill -9 of an owner that is at work to the appointment of another one."""
    front, workers = server(ground), [worker(ground), worker(ground)]
    async with line(front) as (client, _), front.http() as http:
        await begin_held(ground, client, http)
        with psycopg.connect(ground.environment["GONOGO_DB"], autocommit=True) as conn:
            dead = owner_of(ground, workers)
            began = time.perf_counter()
            dead.kill()

            def other() -> bool:
                row = conn.execute(_OWNERS).fetchone()
                return row is not None and row[0] != dead.pid

            await until(other)
            return [(time.perf_counter() - began) * 1000]


async def cancelled(ground: Ground) -> Ms:
    """From a cancel on another server to the end of the command's processes."""
    fronts = [server(ground), server(ground)]
    worker(ground)
    async with line(fronts[0]) as (client, _), fronts[0].http() as http, fronts[1].http() as other:
        await begin_held(ground, client, http)
        began = time.perf_counter()
        await say(other, {"type": "cancel"})
        await until(lambda: not [p for p in processes_in(ground.workspace) if HELD in p])
        return [(time.perf_counter() - began) * 1000]


async def decided(ground: Ground) -> Ms:
    """From a decision on one server to the start of the command, its worker being there."""
    fronts = [server(ground), server(ground)]
    worker(ground)
    found: Ms = []
    call = {"calls": [{"name": "execute_command", "arguments": {"command": "python3 tick.py x"}}]}
    ground.model.script({"rules": [{"when": {"last": "Do it"}, "reply": call}],
                         "default": {"text": "Well."}})  # fmt: skip
    async with line(fronts[0]) as (client, _), fronts[0].http() as http, line(fronts[1]) as (
        other, _,
    ):  # fmt: skip
        for number in range(10):
            said = {"type": "user_message", "content": f"Do it {number}", "agent_type": "coder"}
            await say(http, said)
            question = await first_question(client)
            shown = await other.approval(question.approval_id)
            before = len(story.ledger(ground.workspace))
            began = time.time_ns()
            await other.decide(question.approval_id, "approve", digest=shown.digest)
            await until(functools.partial(_has_more, ground, before + 1))
            found.append((story.ledger(ground.workspace)[before]["at"] - began) / 1e6)
    return found


def _has_more(ground: Ground, count: int) -> bool:
    return len(story.ledger(ground.workspace)) > count


async def followed(ground: Ground) -> Ms:
    """From an event's transaction on a worker to a follower of another server."""
    fronts = [server(ground), server(ground)]
    worker(ground)
    follower = Follower()
    async with (
        line(fronts[0]) as (_, wire), line(fronts[1]) as (second, _),
        anyio.create_task_group() as group,
    ):  # fmt: skip
        person = Person(wire, ground.told, ground.workspace)
        group.start_soon(_follow_when_there, ground, follower, second)
        await person.see_through()
        group.cancel_scope.cancel()
    return [seconds * 1000 for seconds in follower.late]


async def _follow_when_there(ground: Ground, follower: Follower, client: Any) -> None:
    await until(lambda: ground.told.events)
    await follower.follow(client)


async def with_one_worker(ground: Ground) -> Ms:
    """The story, with one server and one worker."""
    front = server(ground)
    worker(ground)
    return await _story(ground, front)


async def alone(ground: Ground) -> Ms:
    """The same with one process that does it all."""
    return await _story(ground, ground.server("serve").wait())


async def _story(ground: Ground, front: Server) -> Ms:
    async with AsyncExitStack() as stack:
        _, wire = await stack.enter_async_context(line(front))
        began = time.perf_counter()
        await Person(wire, ground.told, ground.workspace).see_through()
        return [(time.perf_counter() - began) * 1000]


RUNS: dict[str, tuple[Callable[[Ground], Awaitable[Ms]], int]] = {
    "kill -9 of a worker → another one has its workspace": (taken_over, 5),
    "cancel on another server → the command is gone": (cancelled, 5),
    "decision on another server → the command begins": (decided, 2),
    "event committed by a worker → follower of another server": (followed, 2),
    "a story with one worker": (with_one_worker, 4),
    "the same story in one process": (alone, 4),
}


def main() -> None:
    """Print a row for each figure."""
    found = programs()
    if found is None:
        sys.exit("there is no PostgreSQL")
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server(found))
        model, born = stack.enter_context(fake_openai()), stack.enter_context(nursery())
        template = postgres.make()
        Store(postgres.url(template)).close()
        sys.stdout.write(
            f"load {os.getloadavg()[0]:.1f}\n| figure | p50 | worst | n |\n|---|---|---|---|\n"
        )
        for name, (run, times) in RUNS.items():
            taken: Ms = []
            for _ in range(times):
                with tempfile.TemporaryDirectory(prefix="gonogo-bench-") as folder:
                    ground = Ground(Path(folder), model, born)
                    model.script(story.rules())
                    database = postgres.make(template)
                    ground.environment["GONOGO_DB"] = postgres.url(database)
                    try:
                        taken += anyio.run(run, ground)
                    finally:
                        ground.close()
                        postgres.drop(database)
            sys.stdout.write(
                f"| {name} | {median(taken):,.0f} ms | {max(taken):,.0f} ms | {len(taken)} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
