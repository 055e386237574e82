"""Plans of subtasks that do nothing, or sleep: what durability itself costs."""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from bench._rig import chain, layers, median, rig
from gonogo.execution.scheduling import Completed, Work

SLEEP = 0.05


async def no_op(work: Work) -> Completed:
    """Do nothing."""
    return Completed({"output": "done"})


async def sleep(work: Work) -> Completed:
    """Take 50 ms."""
    await anyio.sleep(SLEEP)
    return Completed({"output": "done"})


async def sequence_ms(runs: int, url: str | None = None, *, events_before: int = 0) -> float:
    """Milliseconds for each of 200 subtasks in sequence."""
    with TemporaryDirectory() as folder:
        async with rig(Path(folder), no_op, url) as made:
            await made.carry_out(chain(50), max_parallel=3)
            took = [
                await made.carry_out(chain(200), max_parallel=3, events_before=events_before)
                for _ in range(runs)
            ]
    return median(took) * 1000 / 200


async def layered_per_second(runs: int, depth: int, width: int, url: str | None = None) -> float:
    """Subtasks a second, of layers that do nothing; on SQLite, or on the database at an address."""
    with TemporaryDirectory() as folder:
        async with rig(Path(folder), no_op, url) as made:
            await made.carry_out(layers(2, width), max_parallel=width)
            took = [
                await made.carry_out(layers(depth, width), max_parallel=width) for _ in range(runs)
            ]
    return depth * width / median(took)


async def makespan_ratio(runs: int, url: str | None = None) -> float:
    """Ten layers of ten sleeping subtasks, beside their critical path."""
    with TemporaryDirectory() as folder:
        async with rig(Path(folder), sleep, url) as made:
            took = [await made.carry_out(layers(10, 10), max_parallel=10) for _ in range(runs)]
    return median(took) / (10 * SLEEP)
