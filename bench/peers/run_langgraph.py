"""LangGraph on SQLite: graphs whose checkpoints are durable before the next layer begins.

Its functional API is faster, but goes on before the result of a step is on the disk. Run in an
environment of its own, see `beside.py`. `python run_langgraph.py FOLDER WORK`.
"""

import asyncio
import sqlite3
import sys
import time
from operator import add
from pathlib import Path
from statistics import median
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

DURABLE = {"durability": "sync"}
SLEEP = 0.05


def config(name: str) -> dict:
    """One thread of LangGraph's, with room for all its steps."""
    return {"configurable": {"thread_id": name}, "recursion_limit": 10_000}


class State(TypedDict):
    """How many steps were done."""

    done: Annotated[int, add]


def no_op(state: State) -> dict:
    """Do nothing."""
    return {"done": 1}


async def no_op_async(state: State) -> dict:
    """Do nothing."""
    return {"done": 1}


async def sleep(state: State) -> dict:
    """Take 50 ms."""
    await asyncio.sleep(SLEEP)
    return {"done": 1}


def graph_of(step: object, depth: int, width: int, store: object) -> object:
    """Layers of steps; each waits for all of the layer before."""
    made, before = StateGraph(State), [START]
    for layer in range(depth):
        names = [f"s{layer}-{number}" for number in range(width)]
        for name in names:
            made.add_node(name, step)
            made.add_edge(before if len(before) > 1 else before[0], name)
        before = names
    made.add_edge(before if len(before) > 1 else before[0], END)
    return made.compile(checkpointer=store)


def saver(folder: Path) -> SqliteSaver:
    """A store whose commits are as durable as gonogo's."""
    connection = sqlite3.connect(folder / "peer.db", check_same_thread=False)
    made = SqliteSaver(connection)
    made.setup()
    connection.execute("PRAGMA synchronous=FULL")
    return made


def sequence(folder: Path) -> float:
    """Milliseconds for each of 200 steps."""
    flow, took = graph_of(no_op, 200, 1, saver(folder)), []
    for run in range(4):
        began = time.perf_counter()
        flow.invoke({"done": 0}, config(f"sequence-{run}"), **DURABLE)
        took.append(time.perf_counter() - began)
    return median(took[1:]) * 1000 / 200


async def _layers(folder: Path, step: object, depth: int, width: int, runs: int) -> float:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "layers.db")) as store:
        await store.setup()
        await store.conn.execute("PRAGMA synchronous=FULL")
        flow = graph_of(step, depth, width, store)
        took = []
        for run in range(runs + 1):
            began = time.perf_counter()
            await flow.ainvoke({"done": 0}, config(f"run-{run}"), **DURABLE)
            took.append(time.perf_counter() - began)
    return median(took[1:])


def layered(folder: Path) -> float:
    """Steps a second, of 20 layers of 50."""
    return 1_000 / asyncio.run(_layers(folder, no_op_async, 20, 50, 3))


def makespan(folder: Path) -> float:
    """Ten layers of ten steps of 50 ms, beside their critical path."""
    return asyncio.run(_layers(folder, sleep, 10, 10, 3)) / (10 * SLEEP)


def decision(folder: Path) -> float:
    """Milliseconds from an answer until the step that waited for it runs."""
    ran = []

    @task
    def act() -> None:
        ran.append(time.perf_counter())

    @entrypoint(checkpointer=saver(folder))
    def flow(count: int) -> int:
        for _ in range(count):
            interrupt("May it?")
            act().result()
        return count

    at, took = config("decision"), []
    flow.invoke(20, at, **DURABLE)
    for _ in range(20):
        began = time.perf_counter()
        flow.invoke(Command(resume=True), at, **DURABLE)
        took.append(ran[-1] - began)
    return median(took) * 1000


def woken(folder: Path) -> float:
    """Parked flows whose next step runs, a second."""
    return asyncio.run(_woken(folder, 200))


async def _woken(folder: Path, count: int) -> float:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "woken.db")) as store:
        await store.setup()
        await store.conn.execute("PRAGMA synchronous=FULL")

        @task
        async def act(number: int) -> int:
            return number

        @entrypoint(checkpointer=store)
        async def flow(number: int) -> int:
            interrupt("May it?")
            return await act(number)

        for number in range(count):
            await flow.ainvoke(number, config(f"parked-{number}"), **DURABLE)
        began = time.perf_counter()
        await asyncio.gather(
            *(
                flow.ainvoke(Command(resume=True), config(f"parked-{number}"), **DURABLE)
                for number in range(count)
            )
        )
        return count / (time.perf_counter() - began)


def broken_off(folder: Path) -> None:
    """Run a step that says when it began and never ends; the caller kills and starts this again."""

    @task
    def forever() -> None:
        print(time.monotonic(), flush=True)
        time.sleep(3_600)

    @task
    def first() -> None:
        pass

    @entrypoint(checkpointer=saver(folder))
    def flow(count: int) -> int:
        first().result()
        forever().result()
        return count

    at = config("restart")
    known = flow.get_state(at).next
    flow.invoke(None if known else 1, at, **DURABLE)


WORKS = {
    "sequence": sequence, "layered": layered, "makespan": makespan, "decision": decision,
    "woken": woken, "restart": broken_off,
}  # fmt: skip

if __name__ == "__main__":
    print(WORKS[sys.argv[2]](Path(sys.argv[1])))
