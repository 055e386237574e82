"""Opening files beneath a folder, without ever following a link.

Every path here is relative to a directory descriptor and free of `..`. `open_by_kernel` lets the
kernel refuse links on the way (`openat2`); `open_by_walk` opens one component after the other
and refuses each link itself. Both are safe against others who swap folders for links meanwhile,
because nothing is checked before it is opened. Only `resolve` reads links: it returns the path
without them, which is then opened as strictly as any other.
"""

import ctypes
import errno
import hashlib
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Literal

from gonogo.domain.errors import ToolFailed, Unwritable
from gonogo.domain.text_safety import undrawn

Opener = Callable[[int, str, int], int]
"""Opens `path` beneath a directory descriptor with `os.open` flags."""

LINK_LIMIT = 40

_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_BASE = os.O_CLOEXEC | os.O_NOCTTY
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | _BASE
_WAY = getattr(os, "O_PATH", 0) | _FOLDER
"""Flags for a folder on the way, which need not be readable."""
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _raise_errno(path: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), path)


def open_by_kernel(root: int, path: str, flags: int) -> int:
    """Open `path` beneath `root` with openat2; a link on the way is ELOOP."""
    how = _OpenHow(
        flags=flags | _BASE,
        resolve=_RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS,
    )
    descriptor: int = _libc().syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_int(root),
        ctypes.c_char_p(os.fsencode(path)),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if descriptor < 0:
        _raise_errno(path)
    return descriptor


def open_by_walk(root: int, path: str, flags: int) -> int:
    """Open `path` beneath `root` one component after the other; a link on the way is ELOOP."""
    *parents, name = path.split("/")
    folder = os.open(".", _WAY, dir_fd=root)
    try:
        for parent in parents:
            below = open_component(folder, parent, _WAY)
            os.close(folder)
            folder = below
        return open_component(folder, name, flags | os.O_NOFOLLOW | _BASE)
    finally:
        os.close(folder)


def open_component(folder: int, name: str, flags: int) -> int:
    """Open one name in a folder; a link is ELOOP, even if the system raises ENOTDIR for it."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | _BASE, dir_fd=folder)
    except NotADirectoryError as error:
        if is_link(folder, name):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from error
        raise


def is_link(folder: int, name: str) -> bool:
    """Whether `name` is a symbolic link now."""
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False


@cache
def best_opener() -> Opener:
    """The kernel's own check if there is one, otherwise the walk."""
    try:
        root = os.open("/", os.O_RDONLY | _FOLDER)
    except OSError:
        return open_by_walk
    try:
        os.close(open_by_kernel(root, ".", os.O_RDONLY | os.O_DIRECTORY))
    except (OSError, AttributeError):
        return open_by_walk
    finally:
        os.close(root)
    return open_by_kernel


@contextmanager
def opened(opener: Opener, root: int, path: str, flags: int) -> Generator[int]:
    """The descriptor of `path`, closed at the end."""
    descriptor = opener(root, path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def root_opened(path: Path) -> Generator[int]:
    """The descriptor of a workspace's folder, by the path that it had when it was chosen.

    That path had no links. A link that was made since then leads to a folder that nobody chose.

    Raises:
        ToolFailed: `symlink_escape`.
    """
    descriptor = _open_root(os.fspath(path))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_root(path: str) -> int:
    top = os.open("/", _WAY)
    try:
        return best_opener()(top, path.strip("/") or ".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ToolFailed(
            "symlink_escape",
            "The way to the workspace {path!r} goes through a symbolic link now; put the folder "
            "back, or open a session in the folder that the link leads to",
            path=path,
        ) from error
    finally:
        os.close(top)


@contextmanager
def folder_made(root: int, path: str) -> Generator[int]:
    """The descriptor of the folder `path`; its missing parts are created."""
    folder = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=root)
    try:
        for name in () if path == "." else path.split("/"):
            below = _open_or_make(folder, name)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _open_or_make(folder: int, name: str) -> int:
    try:
        return open_component(folder, name, os.O_RDONLY | _FOLDER)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(name, dir_fd=folder)
        os.fsync(folder)
    except FileExistsError:
        pass
    return open_component(folder, name, os.O_RDONLY | _FOLDER)


def rename_new(folder: int, source: str, target_folder: int, target: str) -> None:
    """Rename without replacing anything.

    Raises:
        FileExistsError: `target` exists already.
    """
    if _renameat2(folder, source, target_folder, target, _RENAME_NOREPLACE):
        return
    os.link(source, target, src_dir_fd=folder, dst_dir_fd=target_folder, follow_symlinks=False)
    os.unlink(source, dir_fd=folder)


def exchange(folder: int, first: str, second: str) -> bool:
    """Swap two names in one step. False: the system cannot do that."""
    return _renameat2(folder, first, folder, second, _RENAME_EXCHANGE)


def _renameat2(folder: int, source: str, target_folder: int, target: str, flags: int) -> bool:
    call = getattr(_libc(), "renameat2", None)
    if call is None:
        return False
    if call(folder, os.fsencode(source), target_folder, os.fsencode(target), flags) == 0:
        return True
    if ctypes.get_errno() in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    _raise_errno(target)
    return False


def resolve(root: int, parts: Sequence[str], *, follow_last: bool = True) -> str:
    """The path without links that `parts` lead to; parts that do not exist stay as they are.

    Raises:
        ToolFailed: `symlink_escape` if a link leads out or is absolute, or links go in circles.
    """
    walk = _LinkWalk(root, list(reversed(parts)), follow_last=follow_last)
    try:
        while walk.todo:
            walk.step()
        return "/".join(walk.names) or "."
    finally:
        walk.close()


class _LinkWalk:
    """A walk along links: the names so far, and the open folder of each that exists."""

    def __init__(self, root: int, todo: list[str], *, follow_last: bool) -> None:
        self.todo, self.follow_last = todo, follow_last
        self.names: list[str] = []
        self._folders = [os.open(".", os.O_RDONLY | _FOLDER, dir_fd=root)]
        self._links = 0

    def close(self) -> None:
        for folder in self._folders:
            os.close(folder)

    def step(self) -> None:
        name = self.todo.pop()
        if name == "..":
            self._up()
            return
        target = self._link(name)
        if target is not None:
            self._follow(name, target)
            return
        self.names.append(name)
        if self.todo and len(self._folders) == len(self.names):
            self._down(name)

    def _up(self) -> None:
        if not self.names:
            raise ToolFailed("symlink_escape", "A link leads out of the workspace")
        self.names.pop()
        while len(self._folders) > len(self.names) + 1:
            os.close(self._folders.pop())

    def _down(self, name: str) -> None:
        try:
            self._folders.append(open_component(self._folders[-1], name, os.O_RDONLY | _FOLDER))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                raise

    def _link(self, name: str) -> str | None:
        if len(self._folders) != len(self.names) + 1 or not (self.todo or self.follow_last):
            return None
        try:
            return os.readlink(name, dir_fd=self._folders[-1])
        except OSError:
            return None

    def _follow(self, name: str, target: str) -> None:
        self._links += 1
        if self._links > LINK_LIMIT:
            raise ToolFailed("symlink_escape", "The link {name!r} goes in circles", name=name)
        if target.startswith("/"):
            raise ToolFailed(
                "symlink_escape", "The link {name!r} leads out of the workspace", name=name
            )
        parts = [part for part in target.split("/") if part not in ("", ".")]
        self.todo.extend(reversed(parts))


# What a path may look like, before any look at the disk.
#
# `split` splits a path and refuses names that are not allowed here: with control, bidirectional or
# invisible characters, with characters that look like a slash or dot, too long or too deep. `join`
# resolves the dots and refuses a path that leads out. Nothing is decoded or expanded: `%2e`, `~`
# and `\` are ordinary characters.

MAX_PATH = 4096
MAX_NAME = 255
MAX_DEPTH = 100

_HIDING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_TWINS = frozenset("\u2024\u2025\u2044\u2215\u29f8\u29f5\ufe68\uff0e\uff0f\uff3c")
_DEVICES = ("dev", "proc", "sys")
_OTHER_SYSTEMS = re.compile(r"~|[A-Za-z]:|.*\\", re.DOTALL)
"""Paths that other systems read in another way, so that they lead elsewhere."""


def split(path: str, root: str | None) -> tuple[str, ...]:
    """The parts of a path below the root; `..` is kept, `.` and empty parts are not.

    Args:
        root: The absolute path of the root, which a path may begin with; None if it is unknown.

    Raises:
        ToolFailed: `bad_path`, `path_outside_workspace`, or `not_a_regular_file` for the empty
            path and for paths in /dev, /proc or /sys.
    """
    if not path:
        raise ToolFailed("not_a_regular_file", "The path is empty")
    if len(path) > MAX_PATH:
        raise ToolFailed("bad_path", "A path has at most {most} characters", most=MAX_PATH)
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/"):
        parts = _below(parts, path, root)
    for part in parts:
        _check_name(part)
    return parts


def join(parts: Sequence[str]) -> str:
    """Resolve `..` among the parts and write them as one relative path; `.` is the root itself.

    Raises:
        ToolFailed: `path_outside_workspace`, or `bad_path` for a path that is too deep.
    """
    kept: list[str] = []
    for part in parts:
        if part != "..":
            kept.append(part)
            continue
        if not kept:
            raise ToolFailed(
                "path_outside_workspace",
                "{path!r} leads out of the workspace",
                path="/".join(parts),
            )
        kept.pop()
    if len(kept) > MAX_DEPTH:
        raise ToolFailed("bad_path", "A path has at most {most} levels", most=MAX_DEPTH)
    return "/".join(kept) or "."


def elsewhere(path: str) -> str:
    """The relative form of a path on another machine, which may have any operating system.

    Raises:
        ToolFailed: as `split` and `join`, and `bad_path` if on some system the path leads out.
    """
    if _OTHER_SYSTEMS.match(path):
        raise ToolFailed(
            "bad_path", "{path!r} means different files on different systems", path=path
        )
    return join(split(path, None))


def _below(parts: tuple[str, ...], path: str, root: str | None) -> tuple[str, ...]:
    if root is not None:
        above = tuple(part for part in root.split("/") if part)
        if parts[: len(above)] == above:
            return parts[len(above) :]
    if parts[:1] and parts[0] in _DEVICES:
        raise ToolFailed("not_a_regular_file", "{path!r} is not a file of the workspace", path=path)
    raise ToolFailed("path_outside_workspace", "{path!r} is outside the workspace", path=path)


def _check_name(name: str) -> None:
    if any(_misleads(character) for character in name):
        raise ToolFailed(
            "bad_path", "The name {name!a} has characters that mislead readers", name=name
        )
    if len(name.encode()) > MAX_NAME:
        raise ToolFailed("bad_path", "A name has at most {most} bytes", most=MAX_NAME)
    if "::$" in name:
        raise ToolFailed("bad_path", "The name {name!r} is an alias of another file", name=name)


def _misleads(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    return unicodedata.category(character) in _HIDING or character in _TWINS or undrawn(character)


# Errors of the operating system, as the kinds and texts that a model gets.

OF_THE_SYSTEM = {
    errno.ENOENT: ("file_not_found", "{path!r} does not exist"),
    errno.ELOOP: ("symlink_escape", "{path!r} goes through a symbolic link"),
    errno.EXDEV: ("symlink_escape", "{path!r} leads out of the workspace"),
    errno.ENOTDIR: ("not_a_regular_file", "{path!r} has a file where a folder is needed"),
    errno.EISDIR: ("not_a_regular_file", "{path!r} is a folder"),
    errno.ENXIO: ("not_a_regular_file", "{path!r} is not a regular file"),
    errno.ENODEV: ("not_a_regular_file", "{path!r} is not a regular file"),
    errno.EEXIST: ("file_exists", "{path!r} already exists"),
    errno.ENAMETOOLONG: ("bad_path", "{path!r} is too long"),
}
OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""Errors that mean that the disk accepts no writes at all now."""


@contextmanager
def told(path: str) -> Generator[None]:
    """Convert OS errors inside to the failure of a tool that worked on `path`.

    Raises:
        ToolFailed: instead of any OSError.
    """
    try:
        yield
    except OSError as error:
        known, why = OF_THE_SYSTEM.get(error.errno or 0), error.strerror or error
        if error.errno in OF_THE_DISK:
            raise Unwritable("{path!r}: {error}", path=path, error=why) from error
        if known is None:
            raise ToolFailed("io_error", "{path!r}: {error}", path=path, error=why) from error
        kind, said = known
        raise ToolFailed(kind, said, path=path) from error


# The bytes of one file: checked, hashed, and replaced in one step.
#
# A replacement is written beside the file, synced to the disk and renamed over it. So readers see
# the old content or the new one, even after a crash or a power cut. If the kernel can swap two
# names, the old file is compared with the expected content after the swap, and swapped back if it
# differs: so not even a change in the last instant is lost.

READING = os.O_RDONLY | os.O_NONBLOCK
"""Non-blocking, so that opening a pipe in the place of a file does not hang."""

_CHUNK = 1 << 20

Base = str | Literal["any"] | None
"""What must be at a path before a change: a content hash, nothing (None), or anything."""


def check_regular(descriptor: int, path: str) -> os.stat_result:
    """Check that tools may touch an open file, and return its status.

    Raises:
        ToolFailed: `not_a_regular_file`, or `hardlink` if the file has a second name.
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
        ToolFailed: `too_large` if it has more than `limit` bytes.
    """
    # A file may grow while it is read, so its size now is only the first of two checks.
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
    """Compare the current content with the expected one.

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
    """Write `data` to `name`, if its content still has the hash `current` (None: no file).

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
    """Remove temporary files that a killed `put` has left beside `name`.

    A file with the content from before is certainly old. Any other one is certainly the new content
    only while the target is `unwritten`. Otherwise it may be what somebody else wrote in the last
    instant, so it stays.
    """
    for entry in os.listdir(folder):
        left = entry.startswith(_beside(name)) and entry.endswith(".tmp")
        if left and (unwritten or _hash_or_odd(folder, entry) == before):
            os.unlink(entry, dir_fd=folder)


def _beside(name: str) -> str:
    """The prefix of the names of temporary files that will replace `name`."""
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
        # Only the superuser may change the owner; the mode is kept in any case.
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
