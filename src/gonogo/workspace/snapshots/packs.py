"""What a snapshot adds to its store: one pack of objects, written and looked up without a program.

The form is git's own (https://git-scm.com/docs/gitformat-pack), version 2 of both files. Git sees a
pack by its index, which gets its name last, when both are on the disk. Whoever is told that an
object is held may write that down: by then the names are on the disk, too.
"""

import hashlib
import mmap
import os
import secrets
import struct
import zlib
from bisect import bisect_left
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import partial
from io import BufferedRandom, BufferedWriter
from itertools import accumulate
from pathlib import Path
from typing import Literal

Kind = Literal["blob", "tree"]
_NUMBERS = {"tree": 2, "blob": 3}
_PACK, _INDEX = b"PACK\0\0\0\2", b"\xfftOc\0\0\0\2"
_FANOUT = 256 * 4
_sha1 = partial(hashlib.sha1, usedforsecurity=False)
_FAR = 1 << 31
"""Places from here on have a table of their own."""


def object_id(kind: Kind, data: bytes) -> str:
    """The id that git gives to an object."""
    head = f"{kind} {len(data)}\0".encode()
    return _sha1(head + data).hexdigest()


def tree_object(entries: Iterable[tuple[str, str, str]]) -> bytes:
    """The tree of entries, each a name, a mode and an id."""
    lines: list[tuple[bytes, bytes]] = []
    for name, mode, held in entries:
        raw = os.fsencode(name)
        order = raw + b"/" if mode == "40000" else raw
        lines.append((order, b"%s %s\0%s" % (mode.encode(), raw, bytes.fromhex(held))))
    return b"".join(line for _, line in sorted(lines))


class PackWriter:
    """Takes objects in; see `pack_writer`."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "objects/pack"
        self._temporary = self._folder / f"tmp_pack_{secrets.token_hex(6)}"
        self._file: BufferedRandom | None = None
        self._end = 0
        self._objects: list[tuple[bytes, int, int]] = []

    def write(self, kind: Kind, name: str, data: bytes) -> None:
        """Take in an object that was not taken in yet."""
        if self._file is None:
            # By the name that git gives to what is not whole yet: a sweep finds what is left of it.
            self._file = self._temporary.open("xb+")
            self._write(self._file, _PACK + bytes(4))
        packed = _head(_NUMBERS[kind], len(data)) + zlib.compress(data, 1)
        self._objects.append((bytes.fromhex(name), zlib.crc32(packed), self._end))
        self._write(self._file, packed)

    def _write(self, file: BufferedRandom, data: bytes) -> None:
        file.write(data)
        self._end += len(data)

    def finish(self) -> None:
        """Have all of it on the disk, for git to see."""
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
        """Leave nothing half-written."""
        if self._file is not None:
            self._file.close()
            for path in (self._temporary, self._temporary.with_suffix(".idx")):
                path.unlink(missing_ok=True)


@contextmanager
def pack_writer(store: Path) -> Generator[PackWriter]:
    """A pack of what is taken in, whole on the disk at the end; none where nothing was.

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
    """Which objects a pack has."""

    def __init__(self, path: Path) -> None:
        self.seen = set[str]()
        """What was looked for here and found."""
        self._data: mmap.mmap | bytes = b""
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > len(_INDEX) + _FANOUT:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        first = len(_INDEX) + _FANOUT
        is_whole = self._data[: len(_INDEX)] == _INDEX and path.with_suffix(".pack").exists()
        self._ends = struct.unpack(">256I", self._data[len(_INDEX) : first]) if is_whole else ()

    def find(self, names: set[str]) -> set[str]:
        """Those that the pack has; they are `seen` from now on."""
        if not self._ends:
            return set()
        # A damaged index may say any number.
        count = min(self._ends[-1], len(self._data) // 20)
        # To search for one costs about as much as to read thirty.
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
        # No id, as one that was read from a damaged file.
        return bytes(20)


def keep_names(folder: Path) -> None:
    """Have the names of what lies in a folder be on the disk, whoever gave them."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _bring_to_disk(file: BufferedWriter | BufferedRandom) -> None:
    file.flush()
    os.fdatasync(file.fileno())


def _head(kind: int, size: int) -> bytes:
    """The kind and size of an object, seven bits to a byte, the first of which has four."""
    byte, size = kind << 4 | size & 15, size >> 4
    head = bytearray()
    while size:
        head.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    head.append(byte)
    return bytes(head)


def _index(objects: list[tuple[bytes, int, int]], digest: bytes) -> bytes:
    """The index of a pack whose objects are in the order of their ids."""
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
