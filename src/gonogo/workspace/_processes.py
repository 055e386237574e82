"""Ending all processes of one command, those that ran away included.

Each command carries a mark in its environment, which its children inherit. A process that left
the command's group and session is still found by the mark, on systems that have `/proc`.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

MARK = "GONOGO_COMMAND"

_ROUNDS = 100
_PROC = Path("/proc")


def kill_group(leader: int) -> None:
    """Kill the process group that `leader` started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_marked(leader: int, mark: str) -> None:
    """Kill whatever belongs to the command, until nothing is left."""
    for _ in range(_ROUNDS):
        kill_group(leader)
        left = _members(leader, mark)
        if not left:
            return
        for process in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)


def _members(leader: int, mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    own = os.getpid()
    return [
        int(entry.name)
        for entry in (_PROC.iterdir() if _PROC.is_dir() else ())
        if entry.name.isdigit() and int(entry.name) != own and _belongs(entry, leader, wanted)
    ]


def _belongs(entry: Path, leader: int, wanted: bytes) -> bool:
    try:
        status = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        # State, parent, group, session; a zombie is dead already and waits for its parent.
        if status[0] in (b"Z", b"X"):
            return False
        if int(status[3]) == leader:
            return True
        return wanted in (entry / "environ").read_bytes().split(b"\0")
    except (OSError, IndexError):
        return False
