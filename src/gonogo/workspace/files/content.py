"""The bytes of one file: checked, hashed, and replaced in one step.

A replacement is written beside the file, brought to the disk and renamed over it, so that a
reader, a crash or a cut of power sees the old content or the new one. Where the kernel can swap
two names, what the swap took out is compared with what was expected to be there, and put back
when it is something else: not even a change in the last instant is lost.
"""

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from typing import Literal

from gonogo.domain.errors import ToolFailed
from gonogo.workspace.files.safe_open import exchange, open_component, rename_new

READING = os.O_RDONLY | os.O_NONBLOCK
"""Non-blocking, so that a pipe in the place of a file is seen instead of waited for."""

_CHUNK = 1 << 20

Base = str | Literal["any"] | None
"""What must be there before a change: a content hash, nothing (None), or anything."""


def check_regular(descriptor: int, path: str) -> os.stat_result:
    """The status of an open file that tools may touch.

    Raises:
        ToolFailed: `not_a_regular_file`, or `hardlink` when the file has a second name.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed("not_a_regular_file", "{path!r} is not a regular file", path=path)
    if status.st_nlink > 1:
        raise ToolFailed(
            "hardlink", "{path!r} has a second name, perhaps outside the workspace", path=path
        )
    return status


def read_all(descriptor: int, path: str, limit: int) -> bytes:
    """The whole content.

    Raises:
        ToolFailed: `too_large` when it has more than `limit` bytes.
    """
    # A file may grow while it is read, so its size is only the first of two looks.
    if os.fstat(descriptor).st_size > limit:
        raise ToolFailed(
            "too_large", "{path!r} has more than {limit} bytes", path=path, limit=limit
        )
    chunks: list[bytes] = []
    room = limit + 1
    while chunk := os.read(descriptor, min(_CHUNK, room)):
        chunks.append(chunk)
        room -= len(chunk)
    if not room:
        raise ToolFailed(
            "too_large", "{path!r} has more than {limit} bytes", path=path, limit=limit
        )
    return b"".join(chunks)


def hash_all(descriptor: int) -> str:
    """The content hash of an open file of any size."""
    running = hashlib.sha256()
    while chunk := os.read(descriptor, _CHUNK):
        running.update(chunk)
    return "sha256:" + running.hexdigest()


def check_base(path: str, current: str | None, base: Base) -> None:
    """Compare what is there with what was expected.

    Raises:
        ToolFailed: `changed_since_approval`.
    """
    if base == "any" or base == current:
        return
    if base is None:
        raise ToolFailed(
            "changed_since_approval", "{path!r} was created after it was approved", path=path
        )
    if current is None:
        raise ToolFailed(
            "changed_since_approval", "{path!r} was deleted after it was approved", path=path
        )
    raise ToolFailed(
        "changed_since_approval", "{path!r} has changed since it was approved", path=path
    )


def put(folder: int, name: str, data: bytes, *, path: str, current: str | None) -> None:
    """Make `name` hold `data`, if it still holds what hashes to `current` (None: nothing).

    Raises:
        ToolFailed: `changed_since_approval`.
    """
    temporary = f"{_beside(name)}{secrets.token_hex(4)}.tmp"
    try:
        _fill(folder, temporary, data, like=None if current is None else name)
        if current is None:
            _place_new(folder, temporary, name, path)
        else:
            _replace(folder, temporary, name, path, current)
        os.fsync(folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


def clear(folder: int, name: str, *, unwritten: bool, before: str | None) -> None:
    """Remove what a `put` that was killed has left beside `name`.

    What the file held before is certainly old; anything else is certainly new only while the file
    is `unwritten`. The rest may be what somebody wrote in the last instant, and stays.
    """
    for entry in os.listdir(folder):
        left = entry.startswith(_beside(name)) and entry.endswith(".tmp")
        if left and (unwritten or _hash_or_odd(folder, entry) == before):
            os.unlink(entry, dir_fd=folder)


def _beside(name: str) -> str:
    """The beginning of the names of files that are about to take the place of `name`."""
    return f".gonogo-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"


def _fill(folder: int, temporary: str, data: bytes, *, like: str | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666, dir_fd=folder)
    try:
        if like is not None:
            _adopt(descriptor, os.lstat(like, dir_fd=folder))
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _adopt(descriptor: int, status: os.stat_result) -> None:
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        # Only the superuser may give files away; the mode is kept in any case.
        with suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _place_new(folder: int, temporary: str, name: str, path: str) -> None:
    try:
        rename_new(folder, temporary, folder, name)
    except FileExistsError:
        check_base(path, "", None)


def _replace(folder: int, temporary: str, name: str, path: str, current: str) -> None:
    try:
        swapped = exchange(folder, temporary, name)
    except FileNotFoundError:
        check_base(path, None, current)
        return
    if not swapped:
        check_base(path, _hash_or_odd(folder, name), current)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    displaced = _hash_or_odd(folder, temporary)
    if displaced != current:
        exchange(folder, temporary, name)
        check_base(path, displaced, current)


def _hash_or_odd(folder: int, name: str) -> str:
    try:
        descriptor = open_component(folder, name, READING)
    except OSError:
        return "odd"
    try:
        return hash_all(descriptor) if stat.S_ISREG(os.fstat(descriptor).st_mode) else "odd"
    finally:
        os.close(descriptor)
