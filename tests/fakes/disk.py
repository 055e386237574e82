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
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    folder.mkdir(mode=0o700, parents=True)
    options = f"size={megabytes}m,nr_inodes={inodes},mode=700"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        # Whatever still has a file of it open keeps what it has.
        subprocess.run(["umount", "--lazy", folder], check=True, timeout=60)
