"""Driving: what goes on by itself, for as long as this process is the one that drives the database.

When another process has driven meanwhile, everything that is under way here is nobody's: it is
ended, and all is read anew from the database, as at a start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import anyio

from gonogo.dispatch import Hub, LocalDispatcher
from gonogo.store import Connection, Store, patiently
from gonogo.store.calls import count_open_questions
from gonogo.telemetry import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Driving:
    """Runs the jobs and timers of one store."""

    store: Store
    dispatcher: LocalDispatcher
    hub: Hub
    metrics: Metrics
    clock: Callable[[], datetime]
    take_up: Callable[[Connection, datetime], None]
    """Sets going what was left undone."""

    async def serve(self, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401
        """Drive until cancelled; started once what was left undone is under way."""
        driver = self.store.driver
        assert driver is not None  # noqa: S101 - this process opened the store to drive
        with patiently():
            await self._drive(task_status)
            while True:
                await driver.take_over()
                self.hub.refresh()
                await self._drive()

    async def _drive(self, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401
        """Drive until somebody else does."""
        assert self.store.driver is not None  # noqa: S101 - see `serve`
        await self.count_questions()
        async with anyio.create_task_group() as group:
            await group.start(self.dispatcher.serve)
            await self.store.write(self.take_up, self.clock())
            task_status.started()
            await self.store.driver.stay()
            group.cancel_scope.cancel()
            self.store.drop_waiting()

    async def count_questions(self) -> None:
        """Count the open questions, before anything runs that could open or close one."""
        for kind, count in (await self.store.read(count_open_questions)).items():
            self.metrics.set_pending(kind, count)
