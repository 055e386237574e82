"""What the last snapshot of one workspace held, so that the next one reads only what changed.

Only a cache: when it is missing, old or damaged, everything is read again. Other processes may
take snapshots of the same workspace; `held` lets one at a time.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gonogo.domain.errors import ToolFailed
from gonogo.workspace._git import replace_file
from gonogo.workspace._scan import Signature
from gonogo.workspace._states import Tree

PATIENCE = 60.0
"""Seconds that a lock is waited for."""

_VERSION = 1
# The clock of a file system ticks in steps; a change within the step of the last one leaves no
# trace in the times. Some keep whole or even seconds only.
_STEP = 50_000_000
_COARSE_STEP = 2_500_000_000


@dataclass(frozen=True, slots=True)
class Known:
    """One file as it was held; `signature` is None when it must be read again."""

    mode: int
    blob: str
    signature: Signature | None


@dataclass(slots=True)
class Index:
    """The files of the last snapshot, its id, and the digest of what it left alone."""

    files: dict[str, Known] = field(default_factory=dict[str, Known])
    tree: Tree | None = None
    meta: str = ""

    def distrusted(self) -> "Index":
        """The same paths, all of which must be read again."""
        return Index({path: Known(known.mode, "", None) for path, known in self.files.items()})


class Desk:
    """The place of one workspace in the store."""

    def __init__(self, store: Path, root: Path) -> None:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
        self.folder = store / "workspaces" / name
        self.note = self.folder / "rollback.json"
        """What a rollback that is at work, or was interrupted, is doing."""
        self._file = self.folder / "index.json"
        self._read: tuple[tuple[int, int, int], Index] | None = None

    def prepare(self) -> None:
        """Create the place where there is none."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep others from taking a snapshot of this workspace meanwhile.

        Raises:
            ToolFailed: `io_error` when others take too long.
        """
        self.prepare()
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lock(descriptor, "Another snapshot of this workspace takes too long")
            yield
        finally:
            os.close(descriptor)

    def load(self) -> Index:
        """The last index that anybody saved."""
        mark = self._mark()
        if mark is None:
            return Index()
        if self._read is None or self._read[0] != mark:
            self._read = (mark, _decoded(self._file))
        return self._read[1]

    def save(self, index: Index) -> None:
        """Keep an index for the next snapshot."""
        replace_file(self._file, _encoded(index))
        mark = self._mark()
        self._read = None if mark is None else (mark, index)

    def forget(self, keep: Collection[str]) -> None:
        """Forget what the last snapshot held, and what a rollback was doing.

        The next snapshot reads everything again. One that is kept, since it is somebody else's by
        now, is not forgotten.
        """
        self.note.unlink(missing_ok=True)
        if self.load().tree in keep:
            return
        self._read = None
        for file in (self._file, self.folder / "git-index"):
            file.unlink(missing_ok=True)

    def _mark(self) -> tuple[int, int, int] | None:
        try:
            status = self._file.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def now_in(folder: Path) -> int:
    """The time of the folder's file system's clock, in nanoseconds."""
    stamp = folder / "stamp"
    stamp.touch(mode=0o600)
    return stamp.stat().st_mtime_ns


def settled(signature: Signature, horizon: int) -> Signature | None:
    """The signature, if any later change is sure to change it too."""
    changed = max(signature[2], signature[3])
    step = _STEP if signature[3] % 1_000_000_000 else _COARSE_STEP
    # A time of change in the future is that of another clock, whose steps are not known.
    return signature if changed + step < horizon else None


@contextmanager
def open_store(folder: Path, *, alone: bool = False) -> Generator[None]:
    """Be in a store beside others; or alone, to take things away.

    Raises:
        ToolFailed: `io_error` when others take too long.
    """
    descriptor = os.open(folder / "sweep.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        lock(descriptor, "The store of snapshots is busy for too long", shared=not alone)
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int, otherwise: str, *, shared: bool = False) -> None:
    """Lock an open file or folder against others who lock it; closing it unlocks.

    Args:
        shared: Only against those who want it for themselves.

    Raises:
        ToolFailed: `io_error` with the text `otherwise` when others hold it for too long.
    """
    deadline = time.monotonic() + PATIENCE
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ToolFailed("io_error", otherwise) from None
            time.sleep(0.002)
        else:
            return


def _encoded(index: Index) -> bytes:
    files = [(path, known.mode, known.blob, known.signature) for path, known in index.files.items()]
    return json.dumps([_VERSION, index.tree, index.meta, files]).encode()


def _decoded(file: Path) -> Index:
    try:
        said: Any = json.loads(file.read_bytes())
        version, tree, meta, files = said
        if version != _VERSION:
            return Index()
        return Index(
            files={
                path: Known(mode, blob, None if signature is None else tuple(signature))
                for path, mode, blob, signature in files
            },
            tree=tree,
            meta=meta,
        )
    except (OSError, ValueError, TypeError):
        return Index()
