"""What Ctrl-C does: it ends the command, unless somebody wants to ask the person first."""

import signal
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import anyio
from anyio.abc import TaskStatus

from gonogo.cli._ask import at_editor


class Interrupts:
    """Ctrl-C as a command sees it."""

    def __init__(self) -> None:
        self._take: Callable[[], None] | None = None

    @contextmanager
    def taken_by(self, take: Callable[[], None] | None) -> Generator[None]:
        """Have Ctrl-C call a function for the time of a block, where there is one."""
        before, self._take = self._take, take
        try:
            yield
        finally:
            self._take = before

    @asynccontextmanager
    async def heeded(self) -> AsyncGenerator[None]:
        """Let SIGINT and SIGTERM cancel the body, and say so once it has cleaned up."""
        caught: list[int] = []

        async def watch(*, task_status: TaskStatus[None]) -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                task_status.started()
                async for number in signals:
                    if number == signal.SIGINT and at_editor():
                        continue
                    if number == signal.SIGINT and self._take is not None:
                        self._take()
                        continue
                    caught.append(number)
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            await group.start(watch)
            yield
            group.cancel_scope.cancel()
        if caught:
            raise KeyboardInterrupt
