"""Many plans that wait for a person, answered at once."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import anyio

from bench._rig import LIMIT, Rig, chain, rig
from gonogo.execution.scheduling import Completed, Outcome, Parked, Work
from gonogo.store.plans import subtask_key


@dataclass(slots=True)
class _Waiting:
    """A runner whose subtasks wait for a person once, and are done when they are run again."""

    count: int
    rig: Rig | None = None
    parked: int = 0
    woken: int = 0
    all_parked: anyio.Event = field(default_factory=anyio.Event)
    all_woken: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, work: Work) -> Outcome:
        if self.rig is not None and not self.all_parked.is_set():
            return await self._park(self.rig, work)
        self.woken += 1
        if self.woken == self.count:
            self.all_woken.set()
        return Completed({"output": "woken"})

    async def _park(self, made: Rig, work: Work) -> Outcome:
        await made.store.write(made.engine.work.park, work)
        self.parked += 1
        if self.parked == self.count:
            self.all_parked.set()
        return Parked()


async def woken_per_second(count: int, url: str | None = None) -> float:
    """Answers to parked plans that have their next step run, a second."""
    waiting = _Waiting(count)
    with TemporaryDirectory() as folder:
        async with rig(Path(folder), waiting.run, url) as made:
            waiting.rig = made
            with anyio.fail_after(LIMIT):
                return count / await _wake(made, waiting)


async def _wake(made: Rig, waiting: _Waiting) -> float:
    plans = [await made.begin(chain(1), max_parallel=1) for _ in range(waiting.count)]
    await waiting.all_parked.wait()
    began = perf_counter()
    async with anyio.create_task_group() as group:
        for plan_id in plans:
            key = subtask_key(plan_id, 1, "s0")
            group.start_soon(made.store.write, made.engine.work.resume, key)
    await waiting.all_woken.wait()
    return perf_counter() - began
