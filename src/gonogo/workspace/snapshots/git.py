"""Git as a store of objects, isolated from all settings except its own.

The store is a bare repository without references. Each program runs with a clean environment
and a time limit. It never reads a hook, filter, attribute, template or settings file of the machine
or of a person, and never searches for a repository.
"""

import hashlib
import mmap
import os
import re
import secrets
import struct
import subprocess
import threading
import zlib
from bisect import bisect_left
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedRandom, BufferedWriter
from itertools import accumulate
from pathlib import Path
from typing import IO, Literal

from gonogo.domain.errors import ToolFailed
from gonogo.workspace.sandbox.process import HELPERS_PATH, find_program

# A snapshot adds one pack of objects to its store; packs are written and searched in Python.
#
# The format is git's own (https://git-scm.com/docs/gitformat-pack), version 2 of both files. Git
# finds a pack by its index, which gets its name last, when both files are synced. The names are
# synced too before anybody learns that an object is stored, so they may rely on it.

Kind = Literal["blob", "tree"]
_NUMBERS = {"tree": 2, "blob": 3}
_PACK, _INDEX = b"PACK\0\0\0\2", b"\xfftOc\0\0\0\2"
_FANOUT = 256 * 4
_sha1 = partial(hashlib.sha1, usedforsecurity=False)
_FAR = 1 << 31
"""Offsets from here on are in a separate table of the index."""


def object_id(kind: Kind, data: bytes) -> str:
    """The id that git gives to an object."""
    head = f"{kind} {len(data)}\0".encode()
    return _sha1(head + data).hexdigest()


def tree_object(entries: Iterable[tuple[str, str, str]]) -> bytes:
    """The git tree object of entries, each a name, a mode and an id."""
    lines: list[tuple[bytes, bytes]] = []
    for name, mode, held in entries:
        raw = os.fsencode(name)
        order = raw + b"/" if mode == "40000" else raw
        lines.append((order, b"%s %s\0%s" % (mode.encode(), raw, bytes.fromhex(held))))
    return b"".join(line for _, line in sorted(lines))


class PackWriter:
    """Writes objects into a new pack; see `pack_writer`."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "objects/pack"
        self._temporary = self._folder / f"tmp_pack_{secrets.token_hex(6)}"
        self._file: BufferedRandom | None = None
        self._end = 0
        self._objects: list[tuple[bytes, int, int]] = []

    def write(self, kind: Kind, name: str, data: bytes) -> None:
        """Add an object that was not added yet."""
        if self._file is None:
            # Git's own name for an unfinished pack: a sweep finds it if it is left over.
            self._file = self._temporary.open("xb+")
            self._write(self._file, _PACK + bytes(4))
        packed = _head(_NUMBERS[kind], len(data)) + zlib.compress(data, 1)
        self._objects.append((bytes.fromhex(name), zlib.crc32(packed), self._end))
        self._write(self._file, packed)

    def _write(self, file: BufferedRandom, data: bytes) -> None:
        file.write(data)
        self._end += len(data)

    def finish(self) -> None:
        """Complete the pack and sync it to the disk; then git can see it."""
        if self._file is None:
            return
        file = self._file
        file.seek(len(_PACK))
        file.write(len(self._objects).to_bytes(4))
        file.seek(0)
        digest = hashlib.file_digest(file, _sha1).digest()
        file.write(digest)
        _bring_to_disk(file)
        place = self._folder / f"pack-{digest.hex()}.pack"
        index = self._temporary.with_suffix(".idx")
        with index.open("xb") as made:
            made.write(_index(sorted(self._objects), digest))
            _bring_to_disk(made)
        self._temporary.replace(place)
        index.replace(place.with_suffix(".idx"))
        keep_names(self._folder)

    def clear(self) -> None:
        """Remove unfinished files."""
        if self._file is not None:
            self._file.close()
            for path in (self._temporary, self._temporary.with_suffix(".idx")):
                path.unlink(missing_ok=True)


@contextmanager
def pack_writer(store: Path) -> Generator[PackWriter]:
    """Write a pack of the objects that are added inside; it is complete on the disk at the end.

    If no object is added, there is no pack.

    Raises:
        OSError: it cannot be written.
    """
    writer = PackWriter(store)
    try:
        yield writer
        writer.finish()
    finally:
        writer.clear()


class PackIndex:
    """The index of a pack, to find out which objects it has."""

    def __init__(self, path: Path) -> None:
        self.seen = set[str]()
        """The ids that were searched here and found."""
        self._data: mmap.mmap | bytes = b""
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > len(_INDEX) + _FANOUT:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        first = len(_INDEX) + _FANOUT
        is_whole = self._data[: len(_INDEX)] == _INDEX and path.with_suffix(".pack").exists()
        self._ends = struct.unpack(">256I", self._data[len(_INDEX) : first]) if is_whole else ()

    def find(self, names: set[str]) -> set[str]:
        """Return which of these objects the pack has; they are `seen` from now on."""
        if not self._ends:
            return set()
        # The number in a damaged index may be anything.
        count = min(self._ends[-1], len(self._data) // 20)
        # To search one id costs about as much as to read thirty.
        is_few = 32 * len(names) < count
        has = self._has if is_few else {*map(self._name, range(count))}.__contains__
        found = {name for name in names if has(_raw(name))}
        self.seen |= found
        return found

    def _has(self, raw: bytes) -> bool:
        start, end = self._ends[raw[0] - 1] if raw[0] else 0, self._ends[raw[0]]
        at = bisect_left(range(end), raw, start, end, key=self._name)
        return at < end and self._name(at) == raw

    def _name(self, number: int) -> bytes:
        place = len(_INDEX) + _FANOUT + 20 * number
        return self._data[place : place + 20]


def _raw(name: str) -> bytes:
    try:
        return bytes.fromhex(name)
    except ValueError:
        # Not an id; it may come from a damaged file.
        return bytes(20)


def keep_names(folder: Path) -> None:
    """Sync a folder, so that the names in it are on the disk, whoever made them."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _bring_to_disk(file: BufferedWriter | BufferedRandom) -> None:
    file.flush()
    os.fdatasync(file.fileno())


def _head(kind: int, size: int) -> bytes:
    """The kind and size of an object: seven bits of size per byte, but four in the first byte."""
    byte, size = kind << 4 | size & 15, size >> 4
    head = bytearray()
    while size:
        head.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    head.append(byte)
    return bytes(head)


def _index(objects: list[tuple[bytes, int, int]], digest: bytes) -> bytes:
    """The index of a pack, for objects that are sorted by id."""
    counts = [0] * 256
    for name, _, _ in objects:
        counts[name[0]] += 1
    far = [place for _, _, place in objects if place >= _FAR]
    numbers = {place: _FAR | number for number, place in enumerate(far)}
    said = b"".join((
        _INDEX,
        struct.pack(">256I", *accumulate(counts)),
        *(name for name, _, _ in objects),
        struct.pack(f">{len(objects)}I", *(crc for _, crc, _ in objects)),
        struct.pack(f">{len(objects)}I", *(numbers.get(place, place) for *_, place in objects)),
        struct.pack(f">{len(far)}Q", *far),
        digest,
    ))  # fmt: skip
    return said + _sha1(said).digest()


TIME_LIMIT = 60.0
"""The most seconds of one program that reads or builds a tree."""
IMPORT_LIMIT = 900.0
"""The most seconds of one program that reads or packs contents."""

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

_CONFIG = """\
[core]
	repositoryformatversion = 0
	bare = true
	fileMode = true
	symlinks = true
	ignoreCase = false
	precomposeUnicode = false
	protectHFS = false
	protectNTFS = false
	quotePath = true
	autocrlf = false
	fsmonitor = false
	untrackedCache = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	hooksPath = /dev/null
	compression = 1
	fsync = objects
	fsyncMethod = batch
	sharedRepository = umask
[gc]
	auto = 0
[maintenance]
	auto = false
[protocol]
	allow = never
[submodule]
	recurse = false
"""
_ID = re.compile("[0-9a-f]{40}")
_EXCLUDED = ".gonogo/\n.hg/\n.svn/\n"
_ATTRIBUTES = "* -text -eol -ident -filter -working-tree-encoding\n"
_OWN_FILES = {
    "config": _CONFIG, "info/exclude": _EXCLUDED, "info/attributes": _ATTRIBUTES,
    # HEAD makes the folder a repository, so it is written last.
    "HEAD": "ref: refs/heads/none\n",
}  # fmt: skip


class Git:
    """One bare repository, and the programs that work on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._is_prepared = False
        self._folders = set[str]()
        """Folders of loose objects whose names are certainly synced."""
        self._packs: dict[str, PackIndex] = {}
        self._environment = {
            "PATH": HELPERS_PATH,
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "LC_ALL": "C",
            "GIT_DIR": str(folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }

    def prepare(self) -> None:
        """Create the repository if it does not exist, and update the settings of an older one."""
        if self._is_prepared:
            return
        is_new = not (self.folder / "HEAD").exists()
        for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        for name, text in _OWN_FILES.items():
            if _content(self.folder / name) != text.encode():
                replace_file(self.folder / name, text.encode())
        for folder in (self.folder / "objects", self.folder, self.folder.parent) if is_new else ():
            keep_names(folder)
        self._is_prepared = True

    def run(
        self,
        *arguments: str,
        given: bytes = b"",
        limit: float = TIME_LIMIT,
    ) -> bytes:
        """Run one program to its end and return what it wrote.

        Args:
            given: Its standard input.
            limit: The most seconds.

        Raises:
            ToolFailed: `io_error` if it fails, `timeout`.
        """
        try:
            done = subprocess.run(  # noqa: S603 - our own words, no shell
                [_program(), *arguments], input=given, capture_output=True, timeout=limit,
                env=self._environment, cwd=str(self.folder), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise _too_slow(arguments) from error
        except OSError as error:
            raise _failed(arguments, str(error).encode()) from error
        if done.returncode:
            raise _failed(arguments, done.stderr)
        return done.stdout

    def keep(self, data: bytes) -> str:
        """Store one content like `git hash-object -w`, but in Python, and return its id.

        Raises:
            OSError: it cannot be written.
        """
        name = blob_id(data)
        place = self.place(name)
        try:
            # An existing object becomes as fresh as a new one, so that no sweep removes it.
            os.utime(place)
        except FileNotFoundError:
            place.parent.mkdir(mode=0o700, exist_ok=True)
            _write_object(place, zlib.compress(_headed(data), 1))
        if place.parent.name not in self._folders:
            keep_names(self.folder / "objects")
            self._folders.add(place.parent.name)
        keep_names(place.parent)
        return name

    def lacking(self, names: set[str]) -> set[str]:
        """Return which of the named objects do not exist."""
        self._look_at_packs()
        if left := self._not_found(names):
            # Another process may have combined packs meanwhile.
            self._look_at_packs()
            left = self._not_found(left)
        return left

    def has(self, name: str) -> bool:
        """Whether an object exists; packs that are newer than the last `lacking` do not count."""
        return not self._not_found({name})

    def _not_found(self, names: set[str]) -> set[str]:
        for pack in self._packs.values():
            names = names - pack.seen
        for pack in self._packs.values() if names else ():
            names = names - pack.find(names)
        return {name for name in names if not self.place(name).exists()}

    def _look_at_packs(self) -> None:
        folder, packs = self.folder / "objects/pack", list[tuple[str, PackIndex]]()
        for name in os.listdir(folder):
            if name.startswith("pack-") and name.endswith(".idx"):
                with suppress(FileNotFoundError):
                    packs.append((name, self._packs.get(name) or PackIndex(folder / name)))
        # First the packs in which most ids were found.
        self._packs = dict(sorted(packs, key=lambda pack: -len(pack[1].seen)))

    def renew(self, names: Iterable[str]) -> None:
        """Make existing objects that are used again as fresh, and as safely synced, as new ones."""
        in_packs, folders = False, set[Path]()
        for name in names:
            place = self.place(name)
            try:
                os.utime(place)
                folders.add(place.parent)
            except FileNotFoundError:
                in_packs = True
        for folder in (*folders, *([self.folder / "objects/pack"] if in_packs else ())):
            keep_names(folder)
        for pack in (self.folder / "objects/pack").glob("*.pack") if in_packs else ():
            with suppress(FileNotFoundError):
                os.utime(pack)

    def place(self, name: str) -> Path:
        """The file of an object if it is loose."""
        return self.folder / "objects" / name[:2] / name[2:]

    def held(self, names: Iterable[str]) -> list[str]:
        """Return which of the named objects exist, sorted."""
        given = "".join(f"{name}\n" for name in sorted(names)).encode()
        said = self.run("cat-file", "--batch-check=%(objectname) %(objecttype)", given=given)
        lines = said.decode().splitlines()
        return [line.split()[0] for line in lines if not line.endswith(" missing")]

    @contextmanager
    def process(
        self,
        *arguments: str,
        given: bool,
        limit: float = TIME_LIMIT,
        extra: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Generator[subprocess.Popen[bytes]]:
        """A running program, killed at the limit or if the context is left early.

        Raises:
            ToolFailed: `io_error` if it fails, `timeout`.
        """
        try:
            running = subprocess.Popen(  # noqa: S603 - our own words, no shell
                [_program(), *arguments], stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=str(cwd or self.folder),
                env={**self._environment, **(extra or {})},
            )  # fmt: skip
        except OSError as error:
            raise _failed(arguments, str(error).encode()) from error
        late, broken = threading.Event(), False
        timer = threading.Timer(limit, lambda: (late.set(), running.kill()))
        timer.daemon = True
        timer.start()
        try:
            yield running
            _, said = running.communicate()
        except BrokenPipeError:
            _, said = running.communicate()
            broken = True
        finally:
            timer.cancel()
            running.kill()
            with running:
                pass
        if late.is_set():
            raise _too_slow(arguments)
        if running.returncode or broken:
            raise _failed(arguments, said)


def replace_file(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace one of the store's own files in one step.

    Args:
        durable: Sync it to the disk before this returns.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        keep_names(path.parent)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def check_id(name: str) -> str:
    """Check that this is an id, so that no program takes it for an option or a path.

    Raises:
        ToolFailed: `invalid_arguments`.
    """
    if not _ID.fullmatch(name):
        raise ToolFailed("invalid_arguments", "{name!r} is not the id of a snapshot", name=name)
    return name


def blob_id(data: bytes) -> str:
    """The id that git gives to a content."""
    return object_id("blob", data)


def _headed(data: bytes) -> bytes:
    return b"blob %d\0" % len(data) + data


def _write_object(place: Path, packed: bytes) -> None:
    # Git's own name for an unfinished object, so that a sweep finds it if it is left over.
    temporary = place.with_name(f"tmp_obj_{secrets.token_hex(6)}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
    try:
        with open(file, "wb") as stream:
            stream.write(packed)
            stream.flush()
            os.fdatasync(file)
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)


class Outlet:
    """Reads contents, one after the other, from one program."""

    def __init__(self, running: subprocess.Popen[bytes]) -> None:
        self._given, self._answers = _there(running.stdin), _there(running.stdout)
        self.has_ended = False
        """The program has ended: git gives up at a content that is damaged in a pack."""

    def read(self, blob: str) -> bytes:
        """The content of a blob, checked against its id.

        Raises:
            ToolFailed: `io_error` if it is missing or damaged.
        """
        self._given.write(check_id(blob).encode() + b"\n")
        self._given.flush()
        said = self._answers.readline().split()
        if not said:
            self.has_ended = True
            raise _damaged(blob)
        if len(said) != 3 or said[1] != b"blob":
            raise ToolFailed("io_error", "The snapshot store has no content {blob!r}", blob=blob)
        data = self._answers.read(int(said[2]))
        self._answers.read(1)
        if blob_id(data) != blob:
            raise _damaged(blob)
        return data


def _damaged(blob: str) -> ToolFailed:
    return ToolFailed("io_error", "The snapshot store's content {blob!r} is damaged", blob=blob)


@contextmanager
def outlet(git: Git) -> Generator[Outlet]:
    """A reader of contents."""
    with git.process("cat-file", "--batch", given=True, limit=IMPORT_LIMIT) as running:
        yield Outlet(running)


def _there(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ToolFailed("io_error", "git was started without a pipe")
    return stream


def _program() -> str:
    program = find_program("git")
    if program is None:
        raise ToolFailed("io_error", "This machine has no git; install git")
    return program


def _too_slow(arguments: tuple[str, ...]) -> ToolFailed:
    return ToolFailed("timeout", "The snapshot took too long (git {command})", command=arguments[0])


def _failed(arguments: tuple[str, ...], said: bytes) -> ToolFailed:
    text = said.decode("utf-8", "replace").strip()[-500:]
    return ToolFailed(
        "io_error",
        "The snapshot store failed: git {command}: {text}",
        command=arguments[0],
        text=text,
    )
