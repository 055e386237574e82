"""The confined folder: how file tools look at it and change it, and its instruction files.

No method leaves the root, whatever the path is, even if others swap folders for links meanwhile.
Reads follow links that stay inside; changes follow none. All methods block; call them from a worker
thread.
"""

import fcntl
import os
import posixpath
import re
import stat
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import anyio
from msgspec import Struct, field

from gonogo.domain.base import content_hash
from gonogo.domain.errors import ToolFailed, because
from gonogo.domain.instructions import (
    FoundInstructions,
    FoundSkill,
    InstructionText,
    Source,
    always_applies,
    applies_to,
    description_of,
    front_matter,
    readable,
)
from gonogo.domain.paths import is_secret, write_guard
from gonogo.workspace.files import safe_open
from gonogo.workspace.files.safe_open import (
    READING,
    Base,
    Opener,
    best_opener,
    check_base,
    check_regular,
    clear,
    folder_made,
    hash_all,
    is_link,
    opened,
    put,
    read_all,
    rename_new,
    resolve,
    root_opened,
    told,
)
from gonogo.workspace.files.search import Listing, Query, SearchResult, list_folder, search_folder

READ_LIMIT = 8 * 1024 * 1024
"""The most bytes of a file that is read as a whole."""
LOCK_PATIENCE = 10.0
"""Seconds that a change waits for another change of the same workspace."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


class Stat(Struct, frozen=True, kw_only=True):
    """What is at a path; sizes in bytes."""

    kind: Literal["file", "folder", "link", "other"]
    size: int
    mode: int


class Workspace:
    """A folder that agents may touch, and nothing beside it."""

    def __init__(self, root: Path, *, opener: Opener | None = None) -> None:
        """Open a folder.

        Raises:
            ToolFailed: `file_not_found` if there is no folder, `io_error`.
        """
        self.root = Path(os.path.abspath(root))
        with self._root(str(root)):
            pass
        self._open = opener or best_opener()

    def normal(self, path: str) -> str:
        """The relative form of a path, without a look at the disk; `.` is the root.

        Raises:
            ToolFailed: `bad_path`, `path_outside_workspace`, or `not_a_regular_file` for the
                empty path.
        """
        return safe_open.join(safe_open.split(path, str(self.root)))

    def real(self, path: str, *, follow_last: bool = True) -> str:
        """The relative path without links that `path` leads to; the last part need not exist.

        Args:
            follow_last: Whether to follow the last part too if it is a link.

        Raises:
            ToolFailed: as `normal`, or `symlink_escape`.
        """
        parts = safe_open.split(path, str(self.root))
        with self._root(path) as root:
            self._no_dots_behind_links(root, parts)
            normal = safe_open.join(parts)
            names = () if normal == "." else normal.split("/")
            return resolve(root, names, follow_last=follow_last)

    def real_file(self, path: str, *, follow_last: bool = True) -> str:
        """Like `real`, but refuses a path that is written as a folder's, such as `a/`."""
        says_folder = path.endswith(("/", "/.", "/.."))
        real = self.real(path, follow_last=follow_last or says_folder)
        if real == "." or says_folder:
            raise ToolFailed("not_a_regular_file", "{path!r} names a folder", path=path)
        return real

    def check_writable(self, path: str) -> None:
        """Refuse a path that must never be changed, not even if a person approves it.

        Raises:
            ToolFailed: `protected_path`.
        """
        if write_guard(self.normal(path)) == "deny":
            raise ToolFailed(
                "protected_path", "{path!r} is protected: tools never change it", path=path
            )

    def stat(self, path: str) -> Stat | None:
        """What is at the path, links not followed; None if there is nothing."""
        normal = self.normal(path)
        try:
            with root_opened(self.root) as root, self._parent(root, normal) as (folder, name):
                status = os.lstat(name, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError:
            with told(path):
                raise
        return Stat(kind=_kind(status.st_mode), size=status.st_size, mode=status.st_mode & 0o7777)

    def hash(self, path: str) -> str | None:
        """The content hash of a regular file, links not followed; None if there is no file.

        Raises:
            ToolFailed: `symlink_escape`, `not_a_regular_file`, `hardlink`.
        """
        with self._root(path) as root:
            return self._hash(root, self.normal(path))

    def read(self, path: str, *, limit: int = READ_LIMIT, follow: bool = True) -> bytes:
        """The content of a regular file.

        Args:
            limit: The most bytes that a file may have.
            follow: Whether to follow links inside the workspace.

        Raises:
            ToolFailed: among others `file_not_found`, `not_a_regular_file`, `too_large`.
        """
        name = self.real_file(path) if follow else self.normal(path)
        with self._root(path) as root, opened(self._open, root, name, READING) as file:
            check_regular(file, path)
            return read_all(file, path, limit)

    def write(self, path: str, data: bytes, *, base: Base) -> None:
        """Write `data` into a file; missing folders are created, the mode is kept.

        Args:
            base: The content hash that the file must have, None for no file, or `any`.

        Raises:
            ToolFailed: `changed_since_approval`, `protected_path`, and as `hash`.
        """
        normal = self._changeable(path)
        with self._root(path) as root, _exclusive(root):
            current = self._hash(root, normal)
            check_base(path, current, base)
            if current == content_hash(data):
                return
            parent, name = posixpath.split(normal)
            with folder_made(root, parent or ".") as folder:
                put(folder, name, data, path=path, current=current)

    def clear(self, path: str, *, before: str | None) -> None:
        """Remove temporary files that a killed write has left beside a file.

        Args:
            before: The content hash of the file before that write; None for no file.

        Raises:
            ToolFailed: as `write`.
        """
        normal = self._changeable(path)
        with self._root(path) as root, _exclusive(root), suppress(FileNotFoundError):
            unwritten = self._hash(root, normal) == before
            with self._parent(root, normal) as (folder, name):
                clear(folder, name, unwritten=unwritten, before=before)

    def delete(self, path: str, *, base: Base) -> None:
        """Remove a regular file.

        Raises:
            ToolFailed: `file_not_found`, `changed_since_approval`, `protected_path`.
        """
        normal = self._changeable(path)
        with self._root(path) as root, _exclusive(root):
            self._check_there(root, normal, base)
            with self._parent(root, normal) as (folder, name):
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)

    def move(self, source: str, destination: str, *, base: Base) -> None:
        """Rename a regular file; nothing is replaced, missing folders are created.

        Raises:
            ToolFailed: `file_exists`, and as `delete`.
        """
        old, new = self._changeable(source), self._changeable(destination)
        with self._root(destination) as root, _exclusive(root):
            with told(source):
                self._check_there(root, old, base)
            parent, name = posixpath.split(new)
            with (
                self._parent(root, old) as (from_, old_name),
                folder_made(root, parent or ".") as to,
            ):
                rename_new(from_, old_name, to, name)
                os.fsync(to)
                os.fsync(from_)

    def mkdir(self, path: str) -> bool:
        """Create a folder and its missing parents. False: it existed already.

        Raises:
            ToolFailed: `protected_path`, `symlink_escape`, `not_a_regular_file`.
        """
        normal = self._changeable(path)
        existed = self.stat(normal) is not None
        with self._root(path) as root, folder_made(root, normal):
            return not existed

    def list(self, path: str, *, depth: int, limit: int, follow: bool = True) -> Listing:
        """The entries of a folder, sorted; links are not followed; state folders are left out.

        Args:
            depth: How many levels; 1 is only the folder itself.
            limit: The most entries.

        Raises:
            ToolFailed: `file_not_found`, `not_a_regular_file` if it is not a folder.
        """
        name = self.real(path) if follow else self.normal(path)
        with self._root(path) as root, opened(self._open, root, name, _FOLDER) as folder:
            return list_folder(folder, name, depth=depth, limit=limit)

    def search(self, query: Query, *, path: str = ".", follow: bool = True) -> SearchResult:
        """Find the matching lines of the text files below `path`, without secrets.

        Raises:
            ToolFailed: `invalid_arguments` for a bad pattern, `path_outside_workspace` for a
                glob that leads out of the workspace, `timeout`.
        """
        name = self.real(path) if follow else self.normal(path)
        return search_folder(self.root, self._open, name, query)

    @contextmanager
    def folder(self, path: str) -> Generator[int]:
        """The descriptor of a folder, links not followed, to start a command there safely."""
        with self._root(path) as root:
            descriptor = self._open(root, self.normal(path), _FOLDER)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _root(self, path: str) -> Generator[int]:
        """The descriptor of the root; errors inside name `path`."""
        with told(path), root_opened(self.root) as descriptor:
            yield descriptor

    @contextmanager
    def _parent(self, root: int, normal: str) -> Generator[tuple[int, str]]:
        parent, name = posixpath.split(normal)
        with opened(self._open, root, parent or ".", _FOLDER) as folder:
            yield folder, name

    def _hash(self, root: int, normal: str) -> str | None:
        try:
            with opened(self._open, root, normal, READING) as file:
                check_regular(file, normal)
                return hash_all(file)
        except FileNotFoundError:
            return None

    def _check_there(self, root: int, normal: str, base: Base) -> None:
        current = self._hash(root, normal)
        if current is None and base == "any":
            raise ToolFailed("file_not_found", "{path!r} does not exist", path=normal)
        check_base(normal, current, base)

    def _changeable(self, path: str) -> str:
        normal = self.normal(path)
        if normal == ".":
            raise ToolFailed("not_a_regular_file", "The root of the workspace cannot be changed")
        self.check_writable(normal)
        return normal

    def _no_dots_behind_links(self, root: int, parts: tuple[str, ...]) -> None:
        for place, part in enumerate(parts):
            if part != "..":
                continue
            before = safe_open.join(parts[:place])
            try:
                with self._parent(root, before) as (folder, name):
                    linked = name not in ("", ".") and is_link(folder, name)
            except FileNotFoundError:
                continue
            if linked:
                raise ToolFailed(
                    "symlink_escape", "{path!r} is a link: no `..` may follow it", path=before
                )


def _kind(mode: int) -> Literal["file", "folder", "link", "other"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


@contextmanager
def _exclusive(root: int) -> Generator[None]:
    """Lock the workspace against other changes, including those of other processes."""
    deadline = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ToolFailed("io_error", "The workspace is locked by another change") from None
            time.sleep(0.002)
    try:
        yield
    finally:
        fcntl.flock(root, fcntl.LOCK_UN)


# Traffic: who may change the files of one workspace at the same time.
#
# Calls that declare what they change share a workspace. A call that may change anything has it
# alone, so every change meanwhile is its own, or a person's. First come, first served. This works
# within one process, and only while a call runs: nobody waits for a person here.


class _Place(Struct):
    alone: bool
    turn: anyio.Event = field(default_factory=anyio.Event)


class _Way(Struct):
    """Lets calls into one workspace."""

    inside: int = 0
    closed: bool = False
    queue: deque[_Place] = field(default_factory=deque[_Place])

    async def enter(self, *, alone: bool) -> None:
        place = _Place(alone)
        self.queue.append(place)
        self._let_in()
        entered = False
        try:
            await place.turn.wait()
            entered = True
        finally:
            if not entered:
                self._give_up(place)

    def leave(self) -> None:
        self.inside -= 1
        self.closed = False
        self._let_in()

    def _give_up(self, place: _Place) -> None:
        if place.turn.is_set():
            self.leave()
            return
        self.queue.remove(place)
        self._let_in()

    def _let_in(self) -> None:
        while self.queue and self._has_room(self.queue[0]):
            place = self.queue.popleft()
            self.inside += 1
            self.closed = place.alone
            place.turn.set()

    def _has_room(self, place: _Place) -> bool:
        return not self.closed and (self.inside == 0 or not place.alone)


class Traffic:
    """Lets calls into any number of workspaces."""

    def __init__(self) -> None:
        self._ways: dict[Path, _Way] = {}
        self._entered: dict[Path, int] = {}
        """How often anybody has entered a workspace."""

    @asynccontextmanager
    async def shared(self, root: Path) -> AsyncGenerator[None]:
        """Inside this context, change files while others may do so too."""
        async with self._inside(root, alone=False):
            yield

    def is_closed(self, root: Path) -> bool:
        """Whether somebody is in alone, or anybody waits. May be called in any thread."""
        way = self._ways.get(root)
        return way is not None and (way.closed or bool(way.queue))

    def mark(self, root: Path) -> int | None:
        """A number that stays the same until somebody enters; None: somebody is inside."""
        return None if root in self._ways else self._entered.get(root, 0)

    def is_untouched(self, root: Path, mark: int) -> bool:
        """Whether nobody but the caller, who is inside now, has entered since a mark."""
        return self._entered.get(root, 0) == mark + 1

    @asynccontextmanager
    async def alone(self, root: Path) -> AsyncGenerator[None]:
        """Inside this context, change files while nobody else does."""
        async with self._inside(root, alone=True):
            yield

    @asynccontextmanager
    async def _inside(self, root: Path, *, alone: bool) -> AsyncGenerator[None]:
        way = self._ways.setdefault(root, _Way())
        await way.enter(alone=alone)
        self._entered[root] = self._entered.get(root, 0) + 1
        try:
            yield
        finally:
            way.leave()
            if not way.inside and not way.queue:
                self._ways.pop(root, None)


# Where gonogo looks for instruction files and skills, and how it reads them.
#
# Those of a workspace are read as file tools read: no link leads out, only regular files, no
# secrets, and nothing that a rule forbids to read or asks about. The user's own are in their
# configuration folder, which no agent writes. All of it blocks: call it from a worker thread.

ROOT_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md")
NEARER_FILES = ("AGENTS.md", "CLAUDE.md")
"""Those that are also read in subfolders, for the files below."""
RULES = ".cursor/rules"
SKILLS = (".agents/skills", ".claude/skills")
OWN_FILE, OWN_SKILLS = "AGENTS.md", "skills"
SKILL_FILE = "SKILL.md"

MOST_BYTES = 256 * 1024
"""The most bytes of such a file; larger ones are not read."""
MOST_FOLDERS = 100
"""In how many subfolders gonogo looks for instruction files."""
_MOST_RULES, _MOST_SKILLS, _MOST_NAMES = 64, 64, 400
_SKILL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def nothing_barred(path: str) -> bool:
    """A rule that forbids nothing."""
    del path
    return False


class SkillText(Struct, frozen=True, kw_only=True):
    """A skill as it is now; `path` is None for one of the user's own."""

    name: str
    path: str | None
    data: bytes


class InstructionReader(Struct, frozen=True, kw_only=True):
    """Reads the instruction files and skills that there are now."""

    own: Path | None = None
    """The user's own configuration folder."""
    on: bool = True
    """If off, it finds nothing."""
    barred: Callable[[str], bool] = nothing_barred
    """Whether a rule forbids to read a path of a workspace, or asks a person first."""

    def look(self, folder: Path | None, touched: Sequence[str] = ()) -> FoundInstructions:
        """Find the instruction files and skills for work in a folder.

        Args:
            folder: The workspace; None if it is not on this machine.
            touched: The paths that an agent has touched in it.
        """
        if not self.on:
            return FoundInstructions()
        left_out: dict[str, str] = {}
        files = [*self._own_files(left_out)]
        skills = {skill.name: skill for skill in self._own_skills()}
        if folder is not None:
            look = _WorkspaceLook(Workspace(folder), self.barred, left_out)
            files += [*look.files(ROOT_FILES), *look.rules(touched), *look.nearer(touched)]
            skills = {skill.name: skill for skill in look.skills()} | skills
        # The user's own skills come first, and replace others of the same name.
        ordered = sorted(skills.values(), key=lambda skill: (skill.source != "user", skill.name))
        return FoundInstructions(
            files=tuple(files), skills=tuple(ordered[:_MOST_SKILLS]), left_out=left_out
        )

    def skill(self, workspace: Workspace, name: str) -> SkillText:
        """One skill, the user's own before those of the workspace.

        Raises:
            ToolFailed: `skill_not_found`, or why it cannot be read.
        """
        if not self.on or not _SKILL.fullmatch(name):
            raise ToolFailed("skill_not_found", "There is no skill {name!a}", name=name)
        if self.own is not None:
            data = _own_bytes(self.own / OWN_SKILLS / name / SKILL_FILE)
            if isinstance(data, bytes):
                return SkillText(name=name, path=None, data=data)
        for folder in SKILLS:
            path = f"{folder}/{name}/{SKILL_FILE}"
            try:
                return SkillText(name=name, **_skill_file(workspace, path))
            except ToolFailed as failure:
                if failure.kind != "file_not_found":
                    raise
        raise ToolFailed("skill_not_found", "There is no skill {name!a}", name=name)

    def _own_files(self, left_out: dict[str, str]) -> Iterator[InstructionText]:
        data = _own_bytes(self.own / OWN_FILE) if self.own is not None else None
        if isinstance(data, bytes):
            yield _found("user", OWN_FILE, data)
        elif data is not None:
            left_out[str(self.own and self.own / OWN_FILE)] = data

    def _own_skills(self) -> Iterator[FoundSkill]:
        folder = self.own and self.own / OWN_SKILLS
        try:
            names = sorted(each.name for each in folder.iterdir()) if folder is not None else []
        except OSError:
            return
        for name in filter(_SKILL.fullmatch, names):
            data = _own_bytes(self.own / OWN_SKILLS / name / SKILL_FILE) if self.own else None
            if isinstance(data, bytes):
                yield _skill(name, "user", f"{OWN_SKILLS}/{name}/{SKILL_FILE}", data)


def _skill_file(workspace: Workspace, path: str) -> dict[str, Any]:
    real = workspace.real_file(path)
    # A link that was made after the verdict must not lead to another kind of file.
    if posixpath.basename(real) != SKILL_FILE or is_secret(real):
        raise ToolFailed(
            "symlink_escape", "{path!r} is a link to a file that is not a skill", path=path
        )
    return {"path": real, "data": workspace.read(real, limit=MOST_BYTES, follow=False)}


def _own_bytes(path: Path) -> bytes | str | None:
    """The content of a file of the user's own, or the reason why it is not read; None: no file."""
    try:
        if not path.is_file():
            return because("it is not a regular file") if path.exists() else None
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        return error.strerror or because("it cannot be read")
    if len(data) > MOST_BYTES:
        return because("it has more than {most} bytes", most=MOST_BYTES)
    return data


class _WorkspaceLook:
    """One look at a workspace; it notes which files exist but are not read."""

    def __init__(
        self, workspace: Workspace, barred: Callable[[str], bool], left_out: dict[str, str]
    ) -> None:
        self._workspace, self._barred, self._left_out = workspace, barred, left_out

    def files(self, paths: Iterable[str]) -> Iterator[InstructionText]:
        """Read those of the files that exist."""
        for path in paths:
            if (data := self._bytes(path)) is not None:
                yield _found("repository", path, data)

    def nearer(self, touched: Sequence[str]) -> Iterator[InstructionText]:
        """Read the files in subfolders on the way to touched paths, from the top down."""
        there = (folder for folder in _names_on_the_way(touched) if self._is_folder(folder))
        found = islice(there, MOST_FOLDERS)
        return self.files(f"{folder}/{name}" for folder in found for name in NEARER_FILES)

    def rules(self, touched: Sequence[str]) -> Iterator[InstructionText]:
        """The rules of an editor: for every task, for touched files, or offered to be read."""
        found = (path for path in self._below(RULES, depth=4) if path.endswith(".mdc"))
        for path in islice(found, _MOST_RULES):
            if (data := self._bytes(path)) is None:
                continue
            fields, _ = front_matter(readable(data))
            about = description_of(fields)
            if always_applies(fields) or applies_to(fields, touched):
                yield _found("repository", path, data)
            elif about:
                yield _found("repository", path, data, offered=about)

    def skills(self) -> Iterator[FoundSkill]:
        """The skills of the workspace; if two have the same name, the first."""
        seen = set[str]()
        for folder in SKILLS:
            for place in self._below(folder, depth=1):
                name, path = posixpath.basename(place), f"{place}/{SKILL_FILE}"
                if name in seen or not _SKILL.fullmatch(name):
                    continue
                if (data := self._bytes(path)) is not None:
                    seen.add(name)
                    yield _skill(name, "repository", path, data)

    def _is_folder(self, path: str) -> bool:
        try:
            found = self._workspace.stat(path)
        except ToolFailed:
            return False
        return found is not None and found.kind == "folder"

    def _is_there(self, path: str) -> bool:
        """Whether the path exists: a quick look, as this runs before each request to a model."""
        return os.path.lexists(self._workspace.root / path)

    def _below(self, folder: str, *, depth: int) -> list[str]:
        if not self._is_there(folder):
            return []
        try:
            found = self._workspace.list(folder, depth=depth, limit=500)
        except ToolFailed:
            return []
        return [entry.path for entry in found.entries]

    def _bytes(self, path: str) -> bytes | None:
        if not self._is_there(path):
            return None
        try:
            real = self._workspace.real_file(path)
            if is_secret(real) or self._barred(real) or self._barred(path):
                self._left_out[path] = because("only a person can allow reading it")
                return None
            return self._workspace.read(real, limit=MOST_BYTES, follow=False)
        except ToolFailed as failure:
            if failure.kind != "file_not_found":
                self._left_out[path] = failure.said
            return None


def _names_on_the_way(touched: Sequence[str]) -> list[str]:
    """The paths and all folders above them, each once, in the order in which they were touched."""
    found: dict[str, None] = {}
    for path in touched:
        names = path.split("/")
        found |= {"/".join(names[: n + 1]): None for n in range(len(names))}
        if len(found) > _MOST_NAMES:
            break
    return [name for name in found if name not in ("", ".")][:_MOST_NAMES]


def _found(source: Source, path: str, data: bytes, *, offered: str = "") -> InstructionText:
    text = readable(data)
    if path.endswith(".mdc"):
        text = front_matter(text)[1].strip("\n")
    return InstructionText(
        source=source, path=path, sha256=content_hash(data).removeprefix("sha256:"),
        size=len(data), text=text, offered=offered,
    )  # fmt: skip


def _skill(name: str, source: Source, path: str, data: bytes) -> FoundSkill:
    about = description_of(front_matter(readable(data))[0])
    return FoundSkill(name=name, source=source, path=path, description=about)
