"""Running a command of an agent: boxed, bounded, and gone when it is over.

Whatever ends a command (its own end, the time limit, the caller's cancellation), no process of it
is left when `run_command` returns.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from subprocess import DEVNULL, PIPE, STDOUT

import anyio
import anyio.abc
import anyio.to_thread

from gonogo.domain.errors import ToolFailed
from gonogo.workspace._processes import MARK, kill_marked
from gonogo.workspace._programs import DEFAULT_PATH, find_program
from gonogo.workspace._sandbox import PRIVATE_HOME, Box, Sandbox
from gonogo.workspace._workspace import Workspace

OUTPUT_CAP = 64 * 1024
"""Bytes of output that are kept when the caller names no cap."""
TIMED_OUT = 124
"""The exit code of a command that reached its time limit, as timeout(1) gives it."""

_GRACE = 2.0
_LIMITS = """
for limit in "-c 0" "-n 4096" "-u 4096" "-d 8388608" "-f 8388608"; do
  ulimit $limit 2>/dev/null
done
exec "$1" --noprofile --norc -c "$2"
"""
"""Core files, open files, processes, KiB of data in memory, KiB of one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutput:
    """What came of a command; `output` has head and tail when it was longer than the cap."""

    exit_code: int
    """128 and the signal's number for a command that a signal ended."""
    output: str
    truncated: bool
    timed_out: bool
    duration_ms: int


async def run_command(  # noqa: PLR0913 - each is a choice of the caller
    workspace: Workspace,
    script: str,
    *,
    cwd: str | None,
    timeout: float,  # noqa: ASYNC109 - the limit is part of the result
    output_cap: int = OUTPUT_CAP,
    sandbox: Sandbox | None,
    hidden: Sequence[Path] = (),
    network: bool = False,
    read_only: bool = False,
    search_path: str = DEFAULT_PATH,
    on_spawn: Callable[[int], None] | None = None,
) -> CommandOutput:
    """Run a script in bash, with a clean environment, and end all that it started.

    Args:
        cwd: Where it runs, relative to the workspace and without links; None is the root.
        timeout: Seconds. All its processes are killed at the limit, and on cancellation.
        output_cap: The most bytes of output that are kept: the first and the last half.
        sandbox: The box; None runs it plainly.
        hidden: Folders and files that the box does not show.
        read_only: The box shows the workspace, and nothing in it can be changed.
        search_path: The command's PATH.
        on_spawn: Told the id of the process group's leader.

    Raises:
        ToolFailed: `file_not_found` or `symlink_escape` for `cwd`, `io_error` when there is no
            bash.
    """
    started = time.perf_counter()
    sink = _Sink(output_cap)
    box = Box(
        workspace=workspace.root,
        cwd=workspace.root / workspace.normal(cwd or "."),
        hidden=tuple(hidden),
        search_path=search_path,
        network=network,
        read_only=read_only,
    )
    async with _started(workspace, script, box, sandbox, on_spawn) as process:
        with anyio.move_on_after(timeout) as limit:
            await process.finish(sink)
        timed_out = limit.cancelled_caught
        await process.end(sink)
    return CommandOutput(
        exit_code=TIMED_OUT if timed_out else process.exit_code,
        output=sink.text(),
        truncated=sink.truncated,
        timed_out=timed_out,
        duration_ms=round((time.perf_counter() - started) * 1000),
    )


class _Sink:
    """Output as it comes: the first half of the cap, and the last."""

    def __init__(self, cap: int) -> None:
        self._half = max(cap // 2, 1)
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0

    @property
    def truncated(self) -> bool:
        return self._dropped > 0

    def add(self, chunk: bytes) -> None:
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        if not self._dropped:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[… {self._dropped} bytes left out …]\n{tail}"


class _Running:
    """A command's processes, from spawn to the end of the last."""

    def __init__(self, process: anyio.abc.Process, mark: str) -> None:
        self._process, self._mark = process, mark
        self._ended = False

    @property
    def exit_code(self) -> int:
        code = self._process.returncode
        return TIMED_OUT if code is None else code if code >= 0 else 128 - code

    async def finish(self, sink: _Sink) -> None:
        """Wait for the command; what it left in the background ends with it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._drain, sink)
            await self._process.wait()
            await self._kill()
            group.cancel_scope.deadline = anyio.current_time() + _GRACE

    async def end(self, sink: _Sink | None = None) -> None:
        """Kill what is left and take the rest of the output. Not to be cancelled."""
        if self._ended:
            return
        self._ended = True
        with _uncancelled():
            await self._kill()
            with anyio.move_on_after(_GRACE):
                await self._process.wait()
            if sink is not None:
                with anyio.move_on_after(_GRACE):
                    await self._drain(sink)
            await self._process.aclose()

    async def _kill(self) -> None:
        await anyio.to_thread.run_sync(kill_marked, self._process.pid, self._mark)

    async def _drain(self, sink: _Sink) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        while True:
            try:
                sink.add(await stream.receive())
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                return


@asynccontextmanager
async def _started(
    workspace: Workspace,
    script: str,
    box: Box,
    sandbox: Sandbox | None,
    on_spawn: Callable[[int], None] | None,
) -> AsyncGenerator[_Running]:
    mark = token_hex(16)
    async with _home(sandbox) as home:
        environment = _environment(box, home, mark)
        # Not to be cancelled half-way: a process that nobody holds could not be ended.
        with _uncancelled():
            process = await _spawn(workspace, script, box, sandbox, environment)
        running = _Running(process, mark)
        try:
            if on_spawn is not None:
                on_spawn(process.pid)
            yield running
        finally:
            await running.end()


@contextmanager
def _uncancelled() -> Generator[None]:
    with anyio.CancelScope(shield=True):
        yield


async def _spawn(
    workspace: Workspace,
    script: str,
    box: Box,
    sandbox: Sandbox | None,
    environment: dict[str, str],
) -> anyio.abc.Process:
    bash = find_program("bash", box.search_path) or find_program("bash")
    if bash is None:
        raise ToolFailed("io_error", "There is no bash on this machine")
    argv = [bash, "--noprofile", "--norc", "-c", _LIMITS, "gonogo", bash, script]
    if sandbox is not None:
        argv = await anyio.to_thread.run_sync(sandbox.wrap, argv, box)
    relative = box.cwd.relative_to(workspace.root).as_posix()
    with workspace.folder(relative) as folder:
        # By its descriptor: a folder that is swapped for a link now is not followed.
        here = f"/proc/self/fd/{folder}" if sys.platform == "linux" else str(box.cwd)
        try:
            return await anyio.open_process(
                argv,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                cwd=here,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ToolFailed("io_error", f"The command cannot be started: {error}") from error


def _environment(box: Box, home: str, mark: str) -> dict[str, str]:
    return {
        "PATH": box.search_path,
        "HOME": home,
        "TMPDIR": "/tmp" if home == PRIVATE_HOME else home,  # noqa: S108 - the box's own
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        MARK: mark,
    }


@asynccontextmanager
async def _home(sandbox: Sandbox | None) -> AsyncGenerator[str]:
    if sandbox is not None:
        yield PRIVATE_HOME
        return
    folder = await anyio.to_thread.run_sync(tempfile.mkdtemp)
    try:
        yield folder
    finally:
        with _uncancelled():
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))
