"""A command under way: its output as it comes, and the end of all its processes."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio
import anyio.abc
import anyio.to_thread

from gonogo.workspace._lifeline import Lifeline
from gonogo.workspace._processes import kill_marked

TIMED_OUT = 124
"""The exit code of a command that reached its time limit, as timeout(1) gives it."""

_GRACE = 2.0


@contextmanager
def uncancelled() -> Generator[None]:
    """For what must not be cancelled half-way."""
    with anyio.CancelScope(shield=True):
        yield


class Sink:
    """Output as it comes: the first half of the cap, and the last."""

    def __init__(self, cap: int) -> None:
        self._half = max(cap // 2, 1)
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0

    @property
    def truncated(self) -> bool:
        """Whether something was left out."""
        return self._dropped > 0

    def add(self, chunk: bytes) -> None:
        """Take what came."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        """What was kept."""
        if not self._dropped:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[… {self._dropped} bytes left out …]\n{tail}"


class Running:
    """A command's processes, from spawn to the end of the last."""

    def __init__(self, process: anyio.abc.Process, mark: str, line: Lifeline | None) -> None:
        self._process, self._mark, self._line = process, mark, line
        self._ended = False

    @property
    def pid(self) -> int:
        """The process that leads the group."""
        return self._process.pid

    @property
    def exit_code(self) -> int:
        """As a shell gives it; that of the time limit while it runs."""
        code = self._process.returncode
        return TIMED_OUT if code is None else code if code >= 0 else 128 - code

    async def finish(self, sink: Sink) -> None:
        """Wait for the command; what it left in the background ends with it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._drain, sink)
            await self._process.wait()
            await self.kill()
            group.cancel_scope.deadline = anyio.current_time() + _GRACE

    async def end(self, sink: Sink | None = None) -> None:
        """Kill what is left and take the rest of the output. Not to be cancelled."""
        if self._ended:
            return
        self._ended = True
        with uncancelled():
            await self.kill()
            with anyio.move_on_after(_GRACE):
                await self._process.wait()
            if sink is not None:
                with anyio.move_on_after(_GRACE):
                    await self._drain(sink)
            await self._process.aclose()

    async def kill(self) -> None:
        """Kill all of it."""
        if self._line is not None:
            # The keeper alone sees what left the group and took off the mark; so it goes last.
            self._line.cut()
            with anyio.move_on_after(_GRACE):
                await self._process.wait()
        await anyio.to_thread.run_sync(kill_marked, self._process.pid, self._mark)

    async def _drain(self, sink: Sink) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        while True:
            try:
                sink.add(await stream.receive())
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                return
