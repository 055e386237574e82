"""How much of the machine one command may take, and who watches over what it takes in all.

The kernel's limits hold for each process, and not all of them for root. So what all the processes
of a box take together is looked at while it runs, and a command that is over is ended.
"""

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

_MIB = 1 << 20
_PAUSE = 0.25
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The limits of one command. Sizes are in MiB."""

    processes: int = 2_048
    """Processes and threads at once."""
    memory: int = 8_192
    """Memory of all its processes; also data of each."""
    file: int = 8_192
    """One file that it writes."""
    open_files: int = 4_096
    """Files that one process has open."""
    temporary: int = 1_024
    """Each of the folders that are its own: its home, /tmp, /var/tmp, /dev/shm."""

    @property
    def ulimits(self) -> str:
        """Words for ulimit, one limit a line: core files, then these."""
        return "\n".join((
            "-c 0", f"-n {self.open_files}", f"-u {self.processes}",
            f"-d {self.memory * 1024}", f"-f {self.file * 1024}",
        ))  # fmt: skip

    async def passed(self, leader: int) -> str:
        """Wait until the processes of a box take more than they may, and say of what."""
        while True:
            await anyio.sleep(_PAUSE)
            word = await anyio.to_thread.run_sync(self._over, leader)
            if word is not None:
                return word

    def _over(self, leader: int) -> str | None:
        inside = _inside(leader)
        threads = sum(_number(process / "stat", 17) for process in inside)
        if threads > self.processes:
            return "processes"
        page = resource.getpagesize()
        most = sum(_number(process / "statm", 1, shell=False) for process in inside) * page
        if most <= self.memory * _MIB:
            return None
        # Pages that several share were counted for each; only now is the exact sum worth its time.
        exact = sum(_share(process) for process in inside)
        return "memory" if exact > self.memory * _MIB else None


USUAL = Ceilings()


def _inside(leader: int) -> list[Path]:
    """The processes of the box that a bubblewrap made: those of its first child's namespace."""
    try:
        children = (_PROC / str(leader) / "task" / str(leader) / "children").read_text().split()
    except OSError:
        return []
    space = _space(_PROC / children[0]) if children else None
    if space is None or space == _space(_PROC / "self"):
        return []
    return [entry for entry in _processes() if _space(entry) == space]


def _processes() -> Iterator[Path]:
    return (entry for entry in _PROC.iterdir() if entry.name.isdigit())


def _space(process: Path) -> str | None:
    try:
        return os.readlink(process / "ns/pid")
    except OSError:
        return None


def _number(file: Path, place: int, *, shell: bool = True) -> int:
    """A number of a line; of `stat` those after the program's name, which may hold anything."""
    try:
        text = file.read_text("utf-8", "replace")
        return int((text.rpartition(")")[2] if shell else text).split()[place])
    except (OSError, IndexError, ValueError):
        return 0


def _share(process: Path) -> int:
    """The memory of one process, with its share of what it shares."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
