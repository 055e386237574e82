"""The folder where a rollback keeps what comes and what goes, and the renames in and out of it.

Every rename looks at what it took out, and undoes itself when that is not what was expected. A
note in the folder says what is going on; `clear` deletes only what the note knows, and puts
whatever else it finds back into the workspace.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from gonogo.workspace._beneath import exchange, open_component, rename_new
from gonogo.workspace._standing import ABSENT, Standing, look, look_in, parent_opened
from gonogo.workspace._states import FileState

NAME = f".gonogo-{hashlib.sha256(b'rollback').hexdigest()[:16]}.tmp"
PART = "part"
"""What is not yet complete."""

_NOTE = "note.json"

Expected = Callable[[Standing], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """One path that is about to change: what stands there, and what will."""

    path: str
    found: Standing
    wanted: Standing

    def knows(self, thing: Standing) -> bool:
        """Whether the content is one that the store has, so that it can go."""
        return any(
            thing.kind == one.kind and thing.hash == one.hash for one in (self.found, self.wanted)
        )


def standing_of(state: FileState | None) -> Standing:
    """How a state will look on the disk."""
    if state is None:
        return ABSENT
    kind = "link" if state.is_link else "file"
    return Standing(kind=kind, hash=state.hash, mode=state.mode)


def temporary(path: str) -> str:
    """The name under which what belongs to `path` is kept."""
    return f".gonogo-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.tmp"


@dataclass(frozen=True, slots=True)
class Stage:
    """The open folder, and the open root beside it."""

    root: int
    folder: int

    def pull(self, path: str, expected: Expected) -> bool:
        """Take what stands at `path` out, if it is what is expected."""
        name = temporary(path)
        with parent_opened(self.root, path) as (folder, own):
            try:
                rename_new(folder, own, self.folder, name)
            except FileNotFoundError:
                return False
            if expected(look_in(self.folder, name)):
                return True
            rename_new(self.folder, name, folder, own)
            return False

    def push(self, path: str) -> bool:
        """Put what is kept to its place, if nothing stands there."""
        with parent_opened(self.root, path) as (folder, own):
            try:
                rename_new(self.folder, temporary(path), folder, own)
            except FileExistsError:
                return False
        return True

    def swap(self, path: str, expected: Expected) -> bool:
        """Exchange what is kept for what stands at `path`, if that is what is expected."""
        name = temporary(path)
        with parent_opened(self.root, path) as (folder, own):
            rename_new(self.folder, name, folder, name)
            try:
                fits = _exchanged(folder, name, own, expected)
            finally:
                rename_new(folder, name, self.folder, name)
            return fits

    def note(self, todo: Sequence[Noted]) -> None:
        """Say what is going to happen, before anything does."""
        said = [
            [one.path, [one.found.kind, one.found.hash], [one.wanted.kind, one.wanted.hash]]
            for one in todo
        ]
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(PART, flags, 0o600, dir_fd=self.folder), "wb") as file:
            file.write(json.dumps(said).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(PART, _NOTE, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        os.fsync(self.folder)


@contextmanager
def stage_opened(root: int) -> Generator[Stage]:
    """The folder, created where there is none."""
    with suppress(FileExistsError):
        os.mkdir(NAME, 0o700, dir_fd=root)
    folder = open_component(root, NAME, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Stage(root, folder)
    finally:
        os.close(folder)


def clear(root: int) -> None:
    """Delete the folder with what it keeps; what the note does not know goes back."""
    if look_in(root, NAME).kind == "absent":
        return
    with stage_opened(root) as stage:
        for noted in _noted(stage):
            _settle(stage, noted)
        for name in (PART, _NOTE):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=stage.folder)
    with suppress(OSError):
        os.rmdir(NAME, dir_fd=root)
    os.fsync(root)


def _exchanged(folder: int, name: str, own: str, expected: Expected) -> bool:
    """Exchange two names of a folder, and back again if the wrong thing came out."""
    # Where the system cannot swap in one step, somebody may save between two; then what is
    # still on its way is left to `clear`, which keeps whatever is not gonogo's.
    with suppress(FileNotFoundError, FileExistsError):
        _exchange(folder, name, own)
        if expected(look_in(folder, name)):
            return True
        _exchange(folder, name, own)
    return False


def _exchange(folder: int, name: str, own: str) -> None:
    if exchange(folder, name, own):
        return
    aside = temporary(name)
    rename_new(folder, own, folder, aside)
    rename_new(folder, name, folder, own)
    rename_new(folder, aside, folder, name)


def _noted(stage: Stage) -> list[Noted]:
    try:
        with open(open_component(stage.folder, _NOTE, os.O_RDONLY), "rb") as file:
            said: Any = json.load(file)
    except (FileNotFoundError, ValueError):
        return []
    return [
        Noted(
            path=path,
            found=Standing(kind=found[0], hash=found[1]),
            wanted=Standing(kind=wanted[0], hash=wanted[1]),
        )
        for path, found, wanted in said
    ]


def _settle(stage: Stage, noted: Noted) -> None:
    """Clear away what is kept for one path: in the folder, or left beside the file by a crash."""
    name = temporary(noted.path)
    with ExitStack() as stack:
        try:
            folder, own = stack.enter_context(parent_opened(stage.root, noted.path))
        except OSError:
            # The place is gone; if somebody's work is kept for it, that goes to the root.
            folder, own = stage.root, noted.path.rpartition("/")[2]
        else:
            for beside in (temporary(name), name):
                _settle_one(folder, beside, folder, own, noted)
        _settle_one(stage.folder, name, folder, own, noted)


def _settle_one(kept_in: int, kept: str, folder: int, own: str, noted: Noted) -> None:
    thing, there = look_in(kept_in, kept), look_in(folder, own)
    if thing.kind == "absent":
        return
    if noted.knows(thing):
        # Absent though it is to be replaced: the crash came between two renames.
        halfway = there == ABSENT and noted.wanted != ABSENT and thing.hash == noted.found.hash
        if halfway and kept == temporary(temporary(noted.path)):
            rename_new(kept_in, kept, folder, own)
        else:
            os.unlink(kept, dir_fd=kept_in)
        return
    place = own if there == ABSENT else f"{own}.saved-{secrets.token_hex(4)}"
    rename_new(kept_in, kept, folder, place)


def still(root: int, noted: Noted) -> bool:
    """Whether the path stands as it was found; a folder or a file in its way may be gone."""
    now = look(root, noted.path)
    return now == noted.found or (noted.found.kind == "folder" and now == ABSENT)
