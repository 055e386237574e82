"""A disk of its own, in memory, that can be filled and freed. To mount one takes root's rights."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_PIECE = 1 << 12


class Disk:
    """One that is mounted on a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler, self._names = folder / "filler", folder / "names"

    def fill(self) -> None:
        """Leave not one byte."""
        with suppress(OSError), self._filler.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(_PIECE))

    def use_up_names(self) -> None:
        """Leave not one inode, so that no file can be made any more."""
        self._names.mkdir(exist_ok=True)
        with suppress(OSError):
            for number in range(1 << 20):
                (self._names / f"{number}").touch()

    def free(self) -> None:
        """Give back what was used up."""
        self._filler.unlink(missing_ok=True)
        if self._names.exists():
            for path in self._names.iterdir():
                path.unlink()
            self._names.rmdir()

    def allow_writing(self, allowed: bool) -> None:
        """Have it be read only, or not; nobody may have a file of it open to write."""
        how = "rw" if allowed else "ro"
        subprocess.run(["mount", "-o", f"remount,{how}", self.folder], check=True, timeout=60)


@contextmanager
def small_disk(folder: Path, *, megabytes: int = 8, inodes: int = 500) -> Iterator[Disk]:
    """A disk on a folder, which is made; the test is skipped where none can be mounted."""
    with _mounted(folder, f"size={megabytes}m,nr_inodes={inodes}") as problem:
        if problem:
            pytest.skip(f"no disk can be mounted here: {problem}")
        yield Disk(folder)


@contextmanager
def own_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """A folder on a disk that nobody else takes from or frees; everybody's where none can be
    mounted."""
    with _mounted(folder, f"size={megabytes}m"):
        yield folder


@contextmanager
def _mounted(folder: Path, options: str) -> Iterator[str | None]:
    """A folder, which is made, with a disk on it, or why there is none."""
    folder.mkdir(mode=0o700, parents=True)
    if os.geteuid() != 0:
        yield "only root may mount a disk"
        return
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"{options},mode=700", "tmpfs", folder],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if made.returncode:
        yield made.stderr.strip() or "it says nothing"
        return
    try:
        yield None
    finally:
        # Whatever still has a file of it open keeps what it has.
        subprocess.run(["umount", "--lazy", folder], check=True, timeout=60)
