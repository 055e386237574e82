"""Programs bound to us: spoken to while we live, and gone when we are, however we end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from fakes.world import is_running
from gonogo.domain.errors import ToolFailed
from gonogo.workspace import DEFAULT_PATH, bound_process

ENVIRONMENT = {"PATH": DEFAULT_PATH}
RUNAWAY = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]],
                 start_new_session=True, env={}, stdin=subprocess.DEVNULL)
print("ready", flush=True)
for line in sys.stdin:
    print(line.strip().upper(), flush=True)
"""
"""Starts a process that leaves its group, its session and its mark, then echoes."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_program_is_spoken_to_and_nothing_of_it_is_left(tmp_path):
    mark = f"bound-{os.getpid()}-left"
    argv = [sys.executable, "-c", RUNAWAY, mark]
    with anyio.fail_after(60):
        async with bound_process(argv, ENVIRONMENT, tmp_path) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert await process.stdout.receive() == b"ready\n"
            await process.stdin.send(b"hello\n")
            assert await process.stdout.receive() == b"HELLO\n"
            await is_running(mark)
    await is_running(mark, wanted=False)


async def test_its_own_end_is_seen_at_once(tmp_path):
    with anyio.fail_after(60):
        async with bound_process(["sh", "-c", "exit 7"], ENVIRONMENT, tmp_path) as process:
            assert await process.wait() == 7
            assert process.stdout is not None
            with pytest.raises(anyio.EndOfStream):
                await process.stdout.receive()


async def test_a_program_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ToolFailed, match=r"^There is no program 'no-such-program' on its PATH$"):
        async with bound_process(["no-such-program"], ENVIRONMENT, tmp_path):
            pass


HOLDER = """
import anyio, sys
from pathlib import Path
from gonogo.workspace import DEFAULT_PATH, bound_process

async def main():
    argv = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
    async with bound_process(argv, {"PATH": DEFAULT_PATH}, Path(".")) as process:
        print((await process.stdout.receive()).decode(), flush=True)
        await anyio.sleep(600)

anyio.run(main)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds a program as its owner does, and the mark of what that started."""
    mark = f"bound-{os.getpid()}-{tmp_path.name}"
    argv = [sys.executable, "-c", HOLDER, RUNAWAY, mark]
    path = os.pathsep.join(part for part in sys.path if part)
    with subprocess.Popen(
        argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process, mark
        process.kill()


async def test_nothing_is_left_when_its_owner_is_killed(holder):
    process, mark = holder
    process.kill()
    await is_running(mark, wanted=False)


async def test_a_program_dies_with_the_process_that_keeps_it(holder):
    process, _ = holder
    keeper = _children(process.pid)[0]
    program, runaway = (int(word) for word in (_children(keeper)[0], _runaway(keeper)))
    os.kill(keeper, signal.SIGKILL)
    with anyio.fail_after(60):
        while program in _children(keeper):  # noqa: ASYNC110 - processes tell nobody
            await anyio.sleep(0.01)
    os.kill(runaway, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    """A process's children; none when it is gone."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _runaway(keeper: int) -> int:
    [program] = _children(keeper)
    return _children(program)[0]
