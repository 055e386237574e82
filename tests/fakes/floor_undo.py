"""Rollbacks of a shop floor: the real ones, on an event loop that stands still between steps.

Each waits before every transaction, until the test lets it write. Between two of them anything may
happen: people answer, cancel and edit files, time passes, the process dies.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fakes.floor_files import Crash, Truth
from gonogo.domain.errors import Conflict, NotFound
from gonogo.execution.rollback import AttemptRetreat, Rollbacks, wanted_rollback
from gonogo.execution.scheduling import Retreat, Work
from gonogo.workspace import Traffic

if TYPE_CHECKING:
    from fakes.floor import Floor

_IDLE = 20
"""Turns of the loop after which a rollback that waits for another one stands still."""
LIMIT = 60.0
"""Seconds after which a step has hung."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be undone."""

    plan_id: str
    checkpoint_id: str | None = None
    subtask_id: str | None = None


@dataclass(slots=True, eq=False)
class Rolling:
    """A rollback under way."""

    target: Target
    work: Work | None = None
    """The failed attempt that is undone, where no person asked."""
    task: Any = None
    at: int = 0
    """Transactions before which it has stood."""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    expected: Truth = field(default_factory=dict)
    """What is to lie in the folder afterwards, as the truth was when it looked."""
    seen: Truth = field(default_factory=dict)
    """What lay there when it looked."""
    about: Any = None
    """Its target, with what was not said."""
    again: bool = False
    """It was cut off before, and is done again."""
    clash: bool = False
    """Somebody changed a file after it looked and before it wrote: nothing goes back."""

    @property
    def done(self) -> bool:
        return self.task.done()

    @property
    def refused(self) -> bool:
        """It came to its end, and was refused."""
        return isinstance(self.task.exception(), Conflict | NotFound)

    @property
    def died(self) -> bool:
        """Its process died between two of its transactions."""
        return self.done and isinstance(self.task.exception(), Crash)


@dataclass(frozen=True, slots=True)
class _Gate:
    """A store that waits before every transaction."""

    floor: "Floor"
    rolling: Rolling

    async def read(self, fn: Callable[..., Any], *args: Any) -> Any:
        return self.floor.read(fn, *args)

    async def write(self, fn: Callable[..., Any], *args: Any) -> Any:
        self.rolling.at += 1
        self.rolling.go.clear()
        self.rolling.arrived.set()
        await self.rolling.go.wait()
        found = self.floor.write(fn, *args)
        self.floor.wrote_rollback(self.rolling)
        return found


class Undo:
    """The rollbacks of one process."""

    def __init__(self, floor: "Floor", loop: asyncio.AbstractEventLoop) -> None:
        self._floor, self._loop = floor, loop
        self._traffic = Traffic()
        self.under_way: list[Rolling] = []
        """The first one has the workspace; the others wait for it."""

    def begin(self, target: Target, work: Work | None = None) -> Rolling:
        """Have a rollback look, and stand before its first transaction if nothing refuses it."""
        rolling = Rolling(target, work)
        self.under_way.append(rolling)
        rolling.task = self._loop.create_task(self._whole(rolling))
        self._run(self._still(rolling) if len(self.under_way) > 1 else self._moved(rolling))
        return self._after(rolling)

    def step(self) -> Rolling:
        """Let the first one write, and go on to its next transaction or its end."""
        rolling = self.under_way[0]
        rolling.arrived.clear()
        rolling.go.set()
        self._run(self._moved(rolling))
        return self._after(rolling)

    def wait(self) -> Rolling:
        """Have the next one look, now that it has the workspace."""
        rolling = self.under_way[0]
        self._run(self._moved(rolling))
        return self._after(rolling)

    def die(self) -> None:
        """End them all where they stand."""
        tasks = [rolling.task for rolling in self.under_way]
        self.under_way = []
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = self._loop.run_until_complete(asyncio.wait(tasks, timeout=LIMIT))
            assert not left, f"rollbacks outlive their process: {left}"
        for task in tasks:
            # Looked at, so that nobody complains that it was not.
            _ = task.cancelled() or task.exception()

    def retreat(self, rolling: Rolling) -> Retreat:
        return AttemptRetreat(self._rollbacks(rolling))

    def _after(self, rolling: Rolling) -> Rolling:
        if rolling.done:
            self.under_way.remove(rolling)
            if rolling.task.exception() is not None and not rolling.refused:
                rolling.task.result()
        return rolling

    def _run(self, waits: Any) -> None:
        self._loop.run_until_complete(waits)

    async def _moved(self, rolling: Rolling) -> None:
        stands = asyncio.ensure_future(rolling.arrived.wait())
        done, _ = await asyncio.wait(
            {rolling.task, stands}, timeout=LIMIT, return_when=asyncio.FIRST_COMPLETED
        )
        stands.cancel()
        assert done, f"a rollback hangs: {rolling.target}"

    async def _still(self, rolling: Rolling) -> None:
        for _ in range(_IDLE):
            await asyncio.sleep(0)
        assert not rolling.arrived.is_set(), f"two rollbacks at once: {rolling.target}"

    async def _whole(self, rolling: Rolling) -> Any:
        if rolling.work is not None:
            return await self.retreat(rolling).undo(rolling.work)
        target = rolling.target

        def find(tx: Any) -> Any:
            return wanted_rollback(tx, target.plan_id, target.checkpoint_id, target.subtask_id)

        return await self._rollbacks(rolling).carry_out(find, "ann", include_shared=False)

    def _rollbacks(self, rolling: Rolling) -> Rollbacks:
        disk, gate = self._floor.ground.disk, _Gate(self._floor, rolling)
        store: Any = gate
        return Rollbacks(
            store=store, snapshots=disk.snapshots, traffic=self._traffic,
            open_workspace=lambda _: disk.workspace,
        )  # fmt: skip
