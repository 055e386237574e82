"""What takes a process of its own: parked sessions, restarts, and the start of a command."""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench._rig import LIMIT, median
from bench._world import park


async def parked_cost(count: int) -> tuple[float, float]:
    """KiB of memory for each parked session, and the part of a core that all of them take."""
    with TemporaryDirectory() as empty, TemporaryDirectory() as full:
        await park(Path(empty), 1)
        await park(Path(full), count)
        without, _ = _run("idle", Path(empty), "-")
        with_them, busy = _run("idle", Path(full), "-")
    return max(0.0, with_them - without) / count, busy


async def answerable_s(runs: int, count: int) -> float:
    """Seconds from the start of a process to an answer taken, with many sessions parked."""
    with TemporaryDirectory() as folder:
        approvals = await park(Path(folder), count)
        took = [_since_start("approve", Path(folder), approvals[n]) for n in range(runs)]
    return median(took)


def restart_s(runs: int) -> float:
    """Seconds from a restart after kill -9 until the step that was broken off runs again."""
    with TemporaryDirectory() as folder:
        _killed(Path(folder), "begin")
        took = [_killed(Path(folder), "go on") for _ in range(runs)]
    return median(took)


def command_s(runs: int, *arguments: str, python: str = sys.executable) -> float:
    """Seconds of a whole Python process."""
    return median([_timed([python, *arguments]) for _ in range(runs)])


def _timed(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT)
    return time.monotonic() - began


def _command(role: str, home: Path, word: str) -> list[str]:
    return [sys.executable, "-m", "bench._child", role, str(home), word]


def _run(role: str, home: Path, word: str) -> list[float]:
    done = subprocess.run(
        _command(role, home, word), check=True, capture_output=True, text=True, timeout=LIMIT
    )
    return [float(number) for number in done.stdout.split()]


def _since_start(role: str, home: Path, word: str) -> float:
    began = time.monotonic()
    return _run(role, home, word)[0] - began


def _killed(home: Path, word: str) -> float:
    began = time.monotonic()
    process = subprocess.Popen(_command("work", home, word), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    with process:
        said = process.stdout.readline()
        process.kill()
    return float(said) - began
