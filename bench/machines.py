"""What several servers and workers cost, on one PostgreSQL: figures for MACHINES.md.

    scripts/bench-machines [--quick] [WORD …]

Real processes, a scripted model, the PostgreSQL of the tests (`fsync=off`). With words, only rows
that have one of them. Rows that are compared take turns, so that a busy machine is busy for all.
"""

import argparse
import functools
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import httpx
import psycopg

from bench._plans import layered_per_second
from bench._world import TABLES, copied
from durability import story
from durability.ground import Ground
from durability.machines import (
    HELD,
    OWNER,
    Follower,
    asked,
    begin_held,
    first_question,
    line,
    owner_of,
    say,
    server,
    until,
    worker,
)
from durability.person import Person
from durability.server import Server, processes_in
from fakes.nursery import Nursery, nursery
from fakes.openai_server import FakeOpenAI, fake_openai
from fakes.postgres import Server as Postgres
from fakes.postgres import programs
from fakes.postgres import server as postgres_server
from gonogo.client import Client
from gonogo.store import Store

Ms = list[float]
BUSY, BURN = "python3 burn.py", "sum(n * n for n in range(12_000_000))\n"
"""A command that takes a core for about a second."""
SESSIONS, PARKED, IDLE = 8, 10_000, 20.0


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
                row = conn.execute(OWNER).fetchone()
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


async def written(ground: Ground, times: int = 10, *, late: bool = False) -> Ms:
    """From a decision on one server to the file that was approved, by the clock of the kernel.

    Args:
        late: The worker has let the workspace go before the decision, so that it has no owner.
    """
    fronts = [server(ground), server(ground)]
    worker(ground)
    found: Ms = []
    call = {"name": "write_file", "arguments": {"path": "made.txt", "content": "made"}}
    ground.model.script({"rules": [{"when": {"last": "Do it"}, "reply": {"calls": [call]}}],
                         "default": {"text": "Well."}})  # fmt: skip
    made = ground.workspace / "made.txt"
    async with line(fronts[0]) as (client, _), fronts[0].http() as http, line(fronts[1]) as (
        other, _,
    ):  # fmt: skip
        for number in range(times):
            said = {"type": "user_message", "content": f"Do it {number}", "agent_type": "coder"}
            await say(http, said)
            question = await first_question(client)
            shown = await other.approval(question.approval_id)
            if late:
                await until(lambda: not asked(ground, _PLACED), 120)
            began = time.time_ns()
            await other.decide(question.approval_id, "approve", digest=shown.digest)
            await until(made.exists)
            found.append((made.stat().st_mtime_ns - began) / 1e6)
            made.unlink()
    return found


def _has_more(ground: Ground, count: int) -> bool:
    return len(story.ledger(ground.workspace)) > count


async def followed(ground: Ground) -> Ms:
    """From the commit of an event on a worker to a follower of another server."""
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
    with psycopg.connect(ground.environment["GONOGO_DB"]) as conn:
        committed = dict(conn.execute(_COMMITTED).fetchall())
    return [1000 * (at - committed[seq]) for seq, at in follower.arrived]


_COMMITTED = """
SELECT seq, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float FROM events
"""


async def _follow_when_there(ground: Ground, follower: Follower, client: Any) -> None:
    await until(lambda: ground.told.events)
    await follower.follow(client)


async def with_one_worker(ground: Ground) -> Ms:
    """The story, with one server and one worker that has joined it."""
    front = server(ground)
    worker(ground)
    # A server says that it listens when all is ready, a worker that it works before it has joined.
    await until(lambda: asked(ground, _JOINED))
    return await _story(ground, front)


_JOINED = "SELECT owner FROM places WHERE id = 'common' AND owner IS NOT NULL"


async def alone(ground: Ground) -> Ms:
    """The same with one process that does it all."""
    return await _story(ground, ground.server("serve").wait())


async def _story(ground: Ground, front: Server) -> Ms:
    async with AsyncExitStack() as stack:
        _, wire = await stack.enter_async_context(line(front))
        began = time.perf_counter()
        await Person(wire, ground.told, ground.workspace).see_through()
        return [(time.perf_counter() - began) * 1000]


async def handed_over(ground: Ground) -> Ms:
    """From SIGTERM of an owner whose plan runs to the appointment of another one."""
    front, workers = server(ground), [worker(ground), worker(ground)]
    left: list[tuple[int, float]] = []
    found: Ms = []

    def watch(body: dict[str, Any]) -> None:
        if body["type"] == "subtask_completed" and not left:
            owner = owner_of(ground, workers)
            owner.process.send_signal(signal.SIGTERM)
            left.append((owner.pid, time.perf_counter()))

    async with line(front) as (_, wire), anyio.create_task_group() as group:
        person = Person(wire, ground.told, ground.workspace)
        group.start_soon(person.see_through, watch)
        await until(lambda: left)
        [(pid, began)] = left
        await until(lambda: asked(ground, OWNER) not in (None, pid))
        found.append((time.perf_counter() - began) * 1000)
    return found


async def steps_per_second(ground: Ground) -> Ms:
    """Subtasks that do nothing, in layers of 50, in one process."""
    url = ground.environment["GONOGO_DB"]
    return [await layered_per_second(3, 20, 50, url)]


async def busy_with(ground: Ground, workers: int) -> Ms:
    """Sessions that each run one command that takes a core, at once."""
    rules = ground.folder / "config" / "rules.toml"
    rules.parent.mkdir()
    rules.write_text(f'[[rule]]\ncommand = "{BUSY}"\ndecision = "allow"\n')
    call = {"calls": [{"name": "execute_command", "arguments": {"command": BUSY}}]}
    ground.model.script({"rules": [{"when": {"last": "Do it"}, "reply": call}],
                         "default": {"text": "Well."}})  # fmt: skip
    front = server(ground)
    for _ in range(workers):
        worker(ground)
    async with front.http() as http, front.client() as client:
        for number in range(SESSIONS):
            folder = ground.workspace / f"busy{number}"
            folder.mkdir()
            (folder / "burn.py").write_text(BURN)
            place = {"session_id": f"busy{number}", "workspace": str(folder)}
            (await http.post("/sessions", json=place)).raise_for_status()
        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for number in range(SESSIONS):
                group.start_soon(_do, http, client, f"busy{number}")
        return [(time.perf_counter() - began) * 1000]


async def _do(http: httpx.AsyncClient, client: Client, session: str) -> None:
    message = {"type": "user_message", "content": "Do it", "agent_type": "coder"}
    body = {"session_id": session, "message": message}
    async with http.stream("POST", "/agent/message/stream", json=body) as answer:
        answer.raise_for_status()
    async for event in client.follow(session, 0):
        if event.get("is_final"):
            if event["type"] != "assistant_message":
                raise RuntimeError(event)
            return


@asynccontextmanager
async def parked(ground: Ground) -> AsyncIterator[None]:
    """Many sessions of one workspace that wait for a person."""
    call = {"calls": [{"name": "execute_command", "arguments": {"command": BUSY}}]}
    ground.model.script({"rules": [{"when": {"last": "Do it"}, "reply": call}]})
    front, one = server(ground), worker(ground)
    async with line(front) as (client, _), front.http() as http:
        await say(http, {"type": "user_message", "content": "Do it", "agent_type": "coder"})
        question = await first_question(client)
    for each in (front, one):
        each.process.send_signal(signal.SIGTERM)
    await until(lambda: not front.is_alive and not one.is_alive)
    await anyio.to_thread.run_sync(_copy_all, ground, question.approval_id)
    yield


def _copy_all(ground: Ground, approval_id: str) -> None:
    with psycopg.connect(ground.environment["GONOGO_DB"]) as conn:
        call = conn.execute("SELECT id, turn_id FROM tool_calls").fetchone()
        ids = (story.SESSION, approval_id, *(call or ()))
        for table in TABLES:
            found = conn.execute(f"SELECT * FROM {table}")  # noqa: S608 - one of our own names
            names = [column.name for column in found.description or ()]
            at = names.index("id") if table == "messages" else None
            kept = [name for name in names if name != "id" or at is None]
            copy = f"COPY {table} ({', '.join(kept)}) FROM STDIN"
            rows = copied(found.fetchall(), ids, PARKED)
            with conn.cursor().copy(copy) as into:
                for row in rows:
                    into.write_row([v for place, v in enumerate(row) if place != at])
        conn.execute("ANALYZE")


async def starts_with_parked(ground: Ground) -> Ms:
    """From the start of a server, and of a worker, to its being there, many sessions parked."""
    async with parked(ground):
        found: Ms = []
        for start in (server, worker):
            began = time.perf_counter()
            await anyio.to_thread.run_sync(start, ground)
            found.append((time.perf_counter() - began) * 1000)
        return found


async def idle_with_parked(ground: Ground) -> Ms:
    """Percent of a core that a server and a worker take together, once nothing is left to do."""
    async with parked(ground):
        both = [await anyio.to_thread.run_sync(start, ground) for start in (server, worker)]
        await until(lambda: not asked(ground, _PLACED), 120)
        await anyio.sleep(_SETTLES)
        before = sum(_cpu_s(each.pid) for each in both)
        await anyio.sleep(IDLE)
        return [100 * (sum(_cpu_s(each.pid) for each in both) - before) / IDLE]


_SETTLES = 3
"""Seconds in which what a start and a released workspace leave to do is done."""
_PLACED = "SELECT count(*) FROM places WHERE owner IS NOT NULL AND id <> 'common'"


def _cpu_s(pid: int) -> float:
    """By what each thread ran, to the nanosecond: ticks would be as long as what is measured."""
    ran = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in ran) / 1e9


Run = Callable[[Ground], Awaitable[Ms]]


class Row(NamedTuple):
    """A figure."""

    what: str
    run: Run
    times: int
    goal: str = "-"
    unit: str = "ms"


ROWS: Sequence[Sequence[Row]] = (
    [Row("kill -9 of a worker → another one has its workspace", taken_over, 5, "≤ 10 s, all")],
    [Row("SIGTERM of a worker whose plan runs → another one has its workspace", handed_over, 5,
         "≤ 2 s")],
    [Row("cancel on another server → the command is gone", cancelled, 5, "≤ 1 s")],
    [Row("decision on another server → the command begins, sandbox and Python included", decided,
         2)],
    [
        Row("decision on another server → the approved file is written", written, 2, "≤ 25 ms"),
        Row("the same, of a workspace that no worker has at that moment",
            functools.partial(written, times=2, late=True), 2, "≤ 400 ms"),
    ],
    [Row("event committed by a worker → follower of another server", followed, 2, "≤ 20 ms")],
    [
        Row("a story (a message, a plan of five subtasks, three questions) with one worker",
            with_one_worker, 6, "within 5 % of one process"),
        Row("the same story in one process", alone, 6),
    ],
    [Row("subtasks that do nothing, layers of 50, one process", steps_per_second, 3, "≥ 2,000",
         "/s")],
    [
        Row(f"{SESSIONS} sessions, each with a command that takes a core for a second: {n} workers",
            functools.partial(busy_with, workers=n), 2)
        for n in (1, 2, 4)
    ],
    [Row(f"start of a process, {PARKED:,} sessions parked", starts_with_parked, 2, "≤ 2 s")],
    [Row(f"idle server and worker together, {PARKED:,} sessions parked", idle_with_parked, 1,
         "≤ 1", "% of a core")],
)  # fmt: skip
"""Those in one group take turns."""


def main() -> None:
    """Print a row for each figure."""
    parser = argparse.ArgumentParser(prog="scripts/bench-machines", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="each once")
    parser.add_argument("words", nargs="*", help="only rows that have one of them")
    given = parser.parse_args()
    found = programs()
    if found is None:
        sys.exit("there is no PostgreSQL")
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server(found))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model, born = stack.enter_context(fake_openai()), stack.enter_context(nursery(folder))
        template = postgres.make()
        Store(postgres.url(template)).close()
        _say("| work | p50 | worst | n | load | goal |\n|---|---|---|---|---|---|")
        for group in ROWS:
            rows = [r for r in group if not given.words or any(w in r.what for w in given.words)]
            taken: dict[Row, Ms] = {row: [] for row in rows}
            for turn in range(max([1 if given.quick else row.times for row in rows], default=0)):
                for row in rows[:: -1 if turn % 2 else 1]:
                    with _ground(model, born, postgres, template) as ground:
                        taken[row] += anyio.run(row.run, ground)
            for row in rows:
                _say(_line(row, taken[row]))


@contextmanager
def _ground(
    model: FakeOpenAI, born: Nursery, postgres: Postgres, template: str
) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="gonogo-bench-") as folder:
        ground = Ground(Path(folder), model, born)
        model.script(story.rules())
        database = postgres.make(template)
        ground.environment["GONOGO_DB"] = postgres.url(database)
        try:
            yield ground
        finally:
            ground.close()
            postgres.drop(database)


def _line(row: Row, taken: Ms) -> str:
    digits = 2 if max(taken) < 10 else 0
    worst = min(taken) if row.unit == "/s" else max(taken)
    figures = [f"{figure:,.{digits}f} {row.unit}" for figure in (median(taken), worst)]
    load = f"{os.getloadavg()[0]:.0f}"
    return f"| {' | '.join([row.what, *figures, str(len(taken)), load, row.goal])} |"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
