"""DBOS on SQLite; every result durable before the next.

Run in an environment of its own, see `beside.py`. `python run_dbos.py FOLDER WORK`.
"""

import asyncio
import sys
import time
from pathlib import Path
from statistics import median

from dbos import DBOS, SetWorkflowID

SLEEP = 0.05
RAN: dict[str, float] = {}


@DBOS.step()
def no_op(number: int) -> int:
    """Do nothing."""
    return number


@DBOS.step()
async def no_op_async(number: int) -> int:
    """Do nothing."""
    return number


@DBOS.step()
async def sleep(number: int) -> int:
    """Take 50 ms."""
    await asyncio.sleep(SLEEP)
    return number


@DBOS.step()
def act(name: str) -> None:
    """Say when it ran."""
    RAN[name] = time.perf_counter()


@DBOS.step()
def forever() -> None:
    """Say when it began, and never end."""
    print(time.monotonic(), flush=True)
    time.sleep(3_600)


@DBOS.workflow()
def steps(count: int) -> int:
    """Steps one after the other."""
    return sum(no_op(number) for number in range(count))


@DBOS.workflow()
async def layers_of(kind: str, depth: int, width: int) -> int:
    """Layers of steps that run at once."""
    step = sleep if kind == "sleep" else no_op_async
    for _ in range(depth):
        await asyncio.gather(*(step(number) for number in range(width)))
    return depth


@DBOS.workflow()
def waits(name: str, count: int) -> None:
    """Act once for each answer."""
    for number in range(count):
        DBOS.recv("answer", timeout_seconds=600)
        act(f"{name}/{number}")


@DBOS.workflow()
def breaks_off() -> None:
    """One step that is done, and one that never is."""
    no_op(1)
    forever()


def launched(folder: Path) -> None:
    """Have DBOS work on a database in the folder."""
    url = f"sqlite:///{folder / 'peer.db'}"
    DBOS(config={"name": "peer", "system_database_url": url, "run_admin_server": False})
    DBOS.launch()


def sequence(folder: Path) -> float:
    """Milliseconds for each of 200 steps."""
    launched(folder)
    took = []
    for _ in range(4):
        began = time.perf_counter()
        steps(200)
        took.append(time.perf_counter() - began)
    return median(took[1:]) * 1000 / 200


async def _layers(kind: str, depth: int, width: int, runs: int) -> float:
    await layers_of(kind, 2, width)
    took = []
    for _ in range(runs):
        began = time.perf_counter()
        await layers_of(kind, depth, width)
        took.append(time.perf_counter() - began)
    return median(took)


def layered(folder: Path) -> float:
    """Steps a second, of 20 layers of 50."""
    launched(folder)
    return 1_000 / asyncio.run(_layers("no-op", 20, 50, 3))


def makespan(folder: Path) -> float:
    """Ten layers of ten steps of 50 ms, beside their critical path."""
    launched(folder)
    return asyncio.run(_layers("sleep", 10, 10, 3)) / (10 * SLEEP)


def decision(folder: Path) -> float:
    """Milliseconds from an answer until the step that waited for it runs."""
    launched(folder)
    waiting, took = DBOS.start_workflow(waits, "decision", 20), []
    for number in range(20):
        time.sleep(0.2)
        began = time.perf_counter()
        DBOS.send(waiting.get_workflow_id(), True, "answer")
        while f"decision/{number}" not in RAN:
            time.sleep(0.0002)
        took.append(RAN[f"decision/{number}"] - began)
    return median(took) * 1000


def woken(folder: Path) -> float:
    """Parked flows whose next step runs, a second."""
    launched(folder)
    count = 200
    parked = [DBOS.start_workflow(waits, f"parked-{number}", 1) for number in range(count)]
    time.sleep(2)
    began = time.perf_counter()
    for each in parked:
        DBOS.send(each.get_workflow_id(), True, "answer")
    for each in parked:
        each.get_result()
    return count / (time.perf_counter() - began)


def broken_off(folder: Path) -> None:
    """Run a step that says when it began and never ends; the caller kills and starts this again."""
    fresh = not (folder / "peer.db").exists()
    launched(folder)
    if fresh:
        with SetWorkflowID("restart"):
            DBOS.start_workflow(breaks_off)
    time.sleep(3_600)


WORKS = {
    "sequence": sequence, "layered": layered, "makespan": makespan, "decision": decision,
    "woken": woken, "restart": broken_off,
}  # fmt: skip

if __name__ == "__main__":
    print(WORKS[sys.argv[2]](Path(sys.argv[1])), flush=True)
    DBOS.destroy()
