"""How much of the machine one command may take, and who watches over what it takes in all.

The kernel's limits hold for each process, and not all of them for root. So what all the processes
of a box take together is looked at while it runs, and so is what the workspace's disk loses; a
command that is over is ended.
"""

import os
import resource
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

_MIB = 1 << 20
_PAUSE = 0.25
_PROC = Path("/proc")
_BLOCK = 512
_COARSE = 2_500_000_000
"""Nanoseconds: the clocks of some file systems go in such steps."""
_MOST_FILES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The limits of one command. Sizes are in MiB."""

    processes: int = 2_048
    """Processes and threads at once."""
    memory: int = 8_192
    """Memory of all its processes; also data of each."""
    file: int = 8_192
    """One file that it writes."""
    disk: int = 16_384
    """All the files that it writes in the workspace."""
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

    async def passed(self, leader: int, disk: "Disk", *, boxed: bool) -> str:
        """Wait until a command takes more than it may, and say of what.

        Args:
            boxed: Its processes are those of a box, and counted too.
        """
        while True:
            await anyio.sleep(_PAUSE)
            word = await anyio.to_thread.run_sync(self._over, leader, disk, boxed)
            if word is not None:
                return word

    def _over(self, leader: int, disk: "Disk", boxed: bool) -> str | None:
        inside = _inside(leader) if boxed else []
        threads = sum(_number(process / "stat", 17) for process in inside)
        if threads > self.processes:
            return "processes"
        if disk.is_over(self.disk * _MIB, inside):
            return "disk"
        page = resource.getpagesize()
        most = sum(_number(process / "statm", 1, shell=False) for process in inside) * page
        if most <= self.memory * _MIB:
            return None
        # Pages that several share were counted for each; only now is the exact sum worth its time.
        exact = sum(_share(process) for process in inside)
        return "memory" if exact > self.memory * _MIB else None


USUAL = Ceilings()


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes and files on a disk."""

    size: int
    files: int

    def __add__(self, other: "Space") -> "Space":
        return Space(self.size + other.size, self.files + other.files)

    def __sub__(self, other: "Space") -> "Space":
        return Space(self.size - other.size, self.files - other.files)

    def passes(self, limit: "Space") -> bool:
        """Whether it is more than a limit in one of them."""
        return self.size > limit.size or self.files > limit.files


class Disk:
    """The disk of a workspace, since a command began.

    What it has lost is known at once, but others write there as well. So only where it has lost
    more than the command may take is it worth its time to look which files those are.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._free, self._began = _free(workspace), time.time_ns() - _COARSE
        self._of_others = Space(0, 0)

    def is_over(self, most: int, inside: Iterable[Path] = ()) -> bool:
        """Whether what was written since takes more bytes, or is far too many files.

        Args:
            inside: The command's processes: what only they hold of a file is counted too.
        """
        limit = Space(most, _MOST_FILES)
        lost = self._free - _free(self._workspace)
        if not (lost - self._of_others).passes(limit):
            return False
        written = _written(self._workspace, self._began) + _held(inside)
        self._of_others = lost - written
        # Nobody else takes so much; what is hidden from us is not held in favour of the command.
        return written.passes(limit) or lost.passes(Space(2 * most, 2 * _MOST_FILES))


def _free(folder: Path) -> Space:
    found = os.statvfs(folder)
    return Space(found.f_bfree * found.f_frsize, found.f_ffree)


def _written(workspace: Path, since: int) -> Space:
    """The files of a workspace that were changed since a moment, each counted once."""
    files: dict[tuple[int, int], int] = {}
    for folder, _, names in os.walk(workspace):
        for name in names:
            with suppress(OSError):
                found = os.lstat(f"{folder}/{name}")
                if found.st_ctime_ns >= since:
                    files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    return Space(sum(files.values()), len(files))


def _held(processes: Iterable[Path]) -> Space:
    """The files without a name that processes have open."""
    files: dict[tuple[int, int], int] = {}
    for process in processes:
        with suppress(OSError):
            for entry in os.scandir(process / "fd"):
                found = entry.stat()
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    return Space(sum(files.values()), len(files))


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
