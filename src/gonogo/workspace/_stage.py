"""The folder where a rollback keeps what comes and what goes, and the renames in and out of it.

Every rename looks at what it took out, and undoes itself when that is not what was expected. A
note says what is going on; it lies in the store, where no command of an agent can write one, and
the folder has a name that nobody can guess. `clear` deletes only what the note knows, and puts
whatever else it finds back into the workspace.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gonogo.workspace._beneath import exchange, open_component, rename_new
from gonogo.workspace._git import replace_file
from gonogo.workspace._standing import ABSENT, Standing, look, look_in, parent_opened
from gonogo.workspace._states import FileState

PART = "part"
"""What is not yet complete."""

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


@dataclass(frozen=True, slots=True)
class Note:
    """What one rollback is doing; `token` is in the names of all that it keeps."""

    token: str
    todo: tuple[Noted, ...]

    @property
    def folder(self) -> str:
        """The name of the folder."""
        return f".gonogo-{self.token}.tmp"

    def kept(self, path: str) -> str:
        """The name under which what belongs to `path` is kept."""
        salted = f"{self.token}/{path}".encode("utf-8", "surrogateescape")
        return f".gonogo-{hashlib.sha256(salted).hexdigest()[:16]}.tmp"


@dataclass(frozen=True, slots=True)
class Stage:
    """The open folder, and the open root beside it."""

    root: int
    folder: int
    note: Note

    def pull(self, path: str, expected: Expected) -> bool:
        """Take what stands at `path` out, if it is what is expected."""
        name = self.note.kept(path)
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
                rename_new(self.folder, self.note.kept(path), folder, own)
            except FileExistsError:
                return False
        return True

    def swap(self, path: str, expected: Expected) -> bool:
        """Exchange what is kept for what stands at `path`, if that is what is expected."""
        name = self.note.kept(path)
        with parent_opened(self.root, path) as (folder, own):
            rename_new(self.folder, name, folder, name)
            try:
                fits = _exchanged(folder, name, own, expected)
            finally:
                rename_new(folder, name, self.folder, name)
            return fits


def start(file: Path, todo: Sequence[Noted]) -> Note:
    """Say what is going to happen, before anything does."""
    note = Note(secrets.token_hex(8), tuple(todo))
    said = [
        [one.path, [one.found.kind, one.found.hash], [one.wanted.kind, one.wanted.hash]]
        for one in todo
    ]
    replace_file(file, json.dumps([note.token, said]).encode(), durable=True)
    return note


@contextmanager
def stage_opened(root: int, note: Note) -> Generator[Stage]:
    """The folder, created where there is none."""
    with suppress(FileExistsError):
        os.mkdir(note.folder, 0o700, dir_fd=root)
    folder = open_component(root, note.folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Stage(root, folder, note)
    finally:
        os.close(folder)


def clear(root: int, file: Path) -> None:
    """End what the note tells of: delete what it knows, and put back what it does not."""
    note = _read(file)
    if note is None:
        return
    with stage_opened(root, note) as stage:
        for noted in note.todo:
            _settle(stage, noted)
        with suppress(FileNotFoundError):
            os.unlink(PART, dir_fd=stage.folder)
    with suppress(OSError):
        os.rmdir(note.folder, dir_fd=root)
    os.fsync(root)
    file.unlink()


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
    aside = _aside(name)
    rename_new(folder, own, folder, aside)
    rename_new(folder, name, folder, own)
    rename_new(folder, aside, folder, name)


def _read(file: Path) -> Note | None:
    try:
        token, said = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    todo = tuple(
        Noted(
            path=path,
            found=Standing(kind=found[0], hash=found[1]),
            wanted=Standing(kind=wanted[0], hash=wanted[1]),
        )
        for path, found, wanted in said
    )
    return Note(token, todo)


def _aside(name: str) -> str:
    """The name of what was taken out while what goes in is still called `name`."""
    return f".gonogo-{hashlib.sha256(name.encode()).hexdigest()[:16]}.tmp"


def _settle(stage: Stage, noted: Noted) -> None:
    """Clear away what is kept for one path: in the folder, or left beside the file by a crash."""
    name = stage.note.kept(noted.path)
    with ExitStack() as stack:
        try:
            folder, own = stack.enter_context(parent_opened(stage.root, noted.path))
        except OSError:
            # The place is gone; if somebody's work is kept for it, that goes to the root.
            folder, own = stage.root, noted.path.rpartition("/")[2]
        else:
            _put_back(folder, _aside(name), own, noted)
            for beside in (_aside(name), name):
                _settle_one(folder, beside, folder, own, noted)
        _settle_one(stage.folder, name, folder, own, noted)


def _put_back(folder: int, aside: str, own: str, noted: Noted) -> None:
    """Undo the half of an exchange that a crash left."""
    taken_out = look_in(folder, aside).hash == noted.found.hash is not None
    if taken_out and noted.wanted != ABSENT and look_in(folder, own) == ABSENT:
        rename_new(folder, aside, folder, own)


def _settle_one(kept_in: int, kept: str, folder: int, own: str, noted: Noted) -> None:
    thing, there = look_in(kept_in, kept), look_in(folder, own)
    if thing == ABSENT:
        return
    if noted.knows(thing):
        os.unlink(kept, dir_fd=kept_in)
        return
    place = own if there == ABSENT else f"{own}.saved-{secrets.token_hex(4)}"
    rename_new(kept_in, kept, folder, place)


def still(root: int, noted: Noted) -> bool:
    """Whether the path stands as it was found; a folder or a file in its way may be gone."""
    now = look(root, noted.path)
    return now == noted.found or (noted.found.kind == "folder" and now == ABSENT)
