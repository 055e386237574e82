"""The box that commands run in: bubblewrap, and what it shows of the machine.

Inside, the workspace is writable except its protected files, and the rest of the system is
read-only. People's homes, sockets and what the caller hides are not there. The box has its own,
empty network. The folders on PATH and of the interpreter stay readable, even inside a hidden home.
Other writable folders are in memory, and their size is bounded.
"""

import errno
import os
import platform
import pwd
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import chain
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import ToolFailed
from gonogo.domain.paths import is_secret
from gonogo.workspace.sandbox.guards import (
    SCAN_LIMIT,
    Guarded,
    guarded_paths,
    obeyed,
    own_repository,
)
from gonogo.workspace.sandbox.process import DEFAULT_PATH, find_program

# A copy of a workspace, for one command that may write but must change nothing.
#
# Small entries are copied; too large ones are left out, and the box shows them read-only in their
# place. Secrets are never copied, and links stay links.

_MOST_FILES = 20_000
_MOST_BYTES = 256 << 20
_REPOSITORY = ".git"


class WorkspaceCopy(Struct, frozen=True, kw_only=True):
    """A copy that is shown in the place of a workspace."""

    folder: Path
    left: tuple[Path, ...]
    """The entries of the workspace that were not copied."""


class _Need(Struct, frozen=True, order=True):
    """What a copy of an entry needs."""

    size: int
    files: int


@asynccontextmanager
async def copy_of(
    workspace: Path, shown: Callable[[str], bool] | None
) -> AsyncGenerator[WorkspaceCopy]:
    """A copy of a workspace, which exists inside this context.

    Args:
        shown: Which of the workspace's secrets may be in it, by path; None: all of them.
    """
    folder = Path(await anyio.to_thread.run_sync(tempfile.mkdtemp))
    try:
        left = await anyio.to_thread.run_sync(_copy, workspace, folder, shown)
        yield WorkspaceCopy(folder=folder, left=left)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


def _copy(workspace: Path, folder: Path, shown: Callable[[str], bool] | None) -> tuple[Path, ...]:
    """Copy entries while there is room, the smallest first, and return those left out."""
    size, files = _MOST_BYTES, _MOST_FILES
    entries = [Path(entry) for entry in os.scandir(workspace)]
    left = [entry for entry in entries if entry.name == _REPOSITORY]
    for need, entry in sorted((_need(entry), entry) for entry in entries if entry not in left):
        fits = need.size <= size and need.files <= files
        if fits and _is_taken(entry, folder / entry.name, workspace, shown):
            size, files = size - need.size, files - need.files
        else:
            left.append(entry)
    return tuple(left)


def _need(entry: Path) -> _Need:
    """What a copy of an entry needs; counting stops when there is no room for it."""
    size = files = 0
    for path in _below(entry):
        files += 1
        with suppress(OSError):
            status = path.lstat()
            size += status.st_size if S_ISREG(status.st_mode) else 0
        if size > _MOST_BYTES or files > _MOST_FILES:
            break
    return _Need(size, files)


def _below(entry: Path) -> Iterator[Path]:
    yield entry
    for folder, folders, names in os.walk(entry):
        yield from (Path(folder, name) for name in (*folders, *names))


def _is_taken(entry: Path, to: Path, workspace: Path, shown: Callable[[str], bool] | None) -> bool:
    """Copy an entry, without secrets, pipes and sockets. False if that cannot be done."""

    def is_left_out(path: Path) -> bool:
        inside, mode = path.relative_to(workspace).as_posix(), path.lstat().st_mode
        hidden = is_secret(inside) and shown is not None and not shown(inside)
        return hidden or not (S_ISDIR(mode) or S_ISREG(mode) or S_ISLNK(mode))

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if is_left_out(Path(folder, name))}

    try:
        if is_left_out(entry):
            return True
        if S_ISDIR(entry.lstat().st_mode):
            shutil.copytree(entry, to, symlinks=True, ignore=left_out)
        else:
            shutil.copy2(entry, to, follow_symlinks=False)
    except OSError:
        # It disappeared meanwhile, may not be read, or is too large for the disk.
        shutil.rmtree(to, ignore_errors=True)
        return False
    return True


# The system calls that a command in a box cannot use: a seccomp filter, in the kernel's format.
#
# Namespaces do not separate everything. The kernel's keyrings are inherited, sockets to the
# hypervisor of the machine lead out of any network, and io_uring would open them past a filter.

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
_FAMILIES = (1, 2, 10, 16)
"""Unix, IPv4, IPv6 and netlink: a namespace or the file system separates each of them."""
_X32 = 0x40000000


class _Machine(Struct, frozen=True):
    arch: int
    socket: int
    missing: tuple[int, ...]
    """keyctl, add_key, request_key, bpf, userfaultfd, perf_event_open, io_uring_setup."""


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, (250, 248, 249, 321, 323, 298, 425)),
    "aarch64": _Machine(0xC00000B7, 198, (219, 217, 218, 280, 282, 241, 425)),
}


@contextmanager
def filter_fd() -> Generator[int | None]:
    """A descriptor from which the filter is read; None for machines whose numbers are unknown."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        yield None
        return
    read, write = os.pipe()
    try:
        with os.fdopen(write, "wb") as pipe:
            pipe.write(b"".join(_program(machine)))
        yield read
    finally:
        os.close(read)


def _program(machine: _Machine) -> Iterator[bytes]:
    yield _step(_LOAD, _ARCH)
    yield from _unless(_EQUAL, machine.arch, errno.ENOSYS)
    yield _step(_LOAD, _NUMBER)
    yield from _if(_AT_LEAST, _X32, errno.ENOSYS)
    for number in machine.missing:
        yield from _if(_EQUAL, number, errno.ENOSYS)
    yield _step(_EQUAL, machine.socket, 1, 0)
    yield _step(_RETURN, _ALLOW)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    for family in _FAMILIES:
        yield _step(_EQUAL, family, 0, 1)
        yield _step(_RETURN, _ALLOW)
    yield _step(_RETURN, _ERRNO | errno.EAFNOSUPPORT)


def _if(code: int, value: int, error: int) -> Iterator[bytes]:
    yield _step(code, value, 0, 1)
    yield _step(_RETURN, _ERRNO | error)


def _unless(code: int, value: int, error: int) -> Iterator[bytes]:
    yield _step(code, value, 1, 0)
    yield _step(_RETURN, _ERRNO | error)


def _step(code: int, value: int, met: int = 0, unmet: int = 0) -> bytes:
    return struct.pack("=HBBI", code, met, unmet, value)


PRIVATE_HOME = "/run/home"
"""The home of commands in the box, which has its own, empty /run."""
BOUND_LIMIT = 500
"""How many folders of installed programs are bound, the upper ones first; each slows the box."""
MOST_BOUND = 2_500
"""The most protected names; bubblewrap takes no more."""
TRIES = 10
"""How often to try to build a box: what it hides may have disappeared meanwhile."""

_OWN = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108
"""Empty folders of the command's own, which disappear with it."""
_EMPTY = (*_OWN, "/home", "/root", "/mnt", "/media", "/sys")
_SHOWN = ("/sys/devices/system/cpu",)
_HIDDEN = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers",
           "/etc/ssh", "/etc/ssl/private", "/etc/letsencrypt", "/etc/kubernetes",
           "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet")  # fmt: skip
"""Files that gonogo could read if it runs as root."""
_LITTLE = 1 << 20
_PROBE_TIME = 10.0
_SOCKETS = Path("/proc/net/unix")
PACKAGE = Path(__file__).resolve().parents[2]
"""The folder of gonogo's own code."""


def nothing(path: str) -> bool:
    """A choice of paths that chooses none."""
    del path
    return False


class Box(Struct, frozen=True, kw_only=True):
    """What one command's box contains."""

    workspace: Path
    cwd: Path
    hidden: tuple[Path, ...] = ()
    search_path: str = DEFAULT_PATH
    read_only: bool = False
    """The workspace is read-only too."""
    copy: WorkspaceCopy | None = None
    """A copy that is in the workspace's place, and may be written even if that is read-only."""
    writes_git: bool = False
    """The workspace's own repository may be written, except the files that git obeys."""
    shown: Callable[[str], bool] | None = None
    """Which files of the workspace that look like secrets are shown, by their paths; None: all."""
    may_change: Callable[[str], bool] = nothing
    """Which installed programs may be changed, by their paths."""
    guards: Guarded | None = None
    """The guarded names from an earlier look; gonogo looks again in any case."""
    unlooked: Collection[str] = ()
    """Folders that were not looked into; a person allowed the command to run all the same."""
    temporary: int = 1 << 30
    """The size in bytes of each folder that is the command's own."""

    @property
    def written(self) -> Path:
        """The folder on the disk that gets what the command writes in the workspace."""
        return self.workspace if self.copy is None else self.copy.folder

    def shows(self, path: Path) -> bool:
        """Whether a secret of the workspace is shown."""
        return self.shown is None or self.shown(path.relative_to(self.workspace).as_posix())

    def guarded(self) -> Guarded:
        """The guarded names in the workspace now.

        Raises:
            ToolFailed: `too_many_files`, if there are too many names to find them all, and no
                person allowed the command to run all the same.
        """
        found = guarded_paths(self.workspace) if self.guards is None else self.guards.renewed()
        if not found.missed <= {*self.unlooked}:
            raise ToolFailed(
                "too_many_files",
                "The workspace has more than {most} files, too many to find those that need "
                "protection; open a smaller folder",
                most=SCAN_LIMIT,
            )
        if len(found.protected) > MOST_BOUND:
            raise ToolFailed(
                "too_many_files",
                "The workspace has more than {most} protected names, such as .git; open a smaller "
                "folder",
                most=MOST_BOUND,
            )
        return found


class Sandbox(Struct, frozen=True):
    """A bubblewrap that works on this machine."""

    program: str
    sizes: bool = True
    """It can bound the size of folders in memory; older versions cannot."""

    @staticmethod
    def detect() -> "Sandbox | None":
        """Try bubblewrap; None if it is missing or may not make namespaces.

        A program that worked once is not tried again in the same process.
        """
        program = find_program("bwrap")
        if program is None:
            return None
        if program in _FOUND:
            return _FOUND[program]
        with tempfile.TemporaryDirectory() as folder:
            for sandbox in (Sandbox(program), Sandbox(program, sizes=False)):
                if any(sandbox._works(Path(folder).resolve()) for _ in range(TRIES)):
                    return _FOUND.setdefault(program, sandbox)
        return None

    def wrap(
        self,
        argv: Sequence[str],
        box: Box,
        filter_: int | None = None,
        contents: Mapping[int, Path] | None = None,
    ) -> list[str]:
        """The command line that runs `argv` in the box.

        Args:
            filter_: A descriptor from which the filter of system calls is read.
            contents: Descriptors with contents, each with the file that has it in the box.
        """
        box = box if self.sizes else replace(box, temporary=0)
        return [
            self.program,
            *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *_mounts(box),
            *chain.from_iterable(
                ("--ro-bind-data", str(fd), str(path)) for fd, path in (contents or {}).items()
            ),
            *(["--seccomp", str(filter_)] if filter_ is not None else []),
            *("--dir", PRIVATE_HOME, "--chdir", str(box.cwd), "--"),
            *argv,
        ]

    def _works(self, folder: Path) -> bool:
        box = Box(workspace=folder, cwd=folder)
        with filter_fd() as filter_:
            argv = self.wrap(["/bin/sh", "-c", "exit 42"], box, filter_)
            fds = () if filter_ is None else (filter_,)
            try:
                done = subprocess.run(  # noqa: S603 - our own command line
                    argv, env={}, stdin=subprocess.DEVNULL, capture_output=True,
                    timeout=_PROBE_TIME, pass_fds=fds,
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired):
                return False
        return done.returncode == 42


_FOUND: dict[str, Sandbox] = {}
"""The sandboxes that worked, by their programs."""


def _mounts(box: Box) -> Iterable[str]:
    """The mounts over the read-only system; for each path the deepest mount decides."""
    empty = {
        path for path in map(Path, _EMPTY) if os.path.isdir(path) and not path.is_symlink()
    } | _homes()
    hidden = {path.resolve() for path in (*box.hidden, *map(Path, _HIDDEN)) if os.path.exists(path)}
    # A setting may name /dev/null instead of a file; programs need it, so it is not hidden.
    hidden.discard(Path(os.devnull))
    folders = {path for path in empty | hidden if os.path.isdir(path)} - {box.workspace}
    guarded = box.guarded()
    mounts = [(path, "--tmpfs") for path in folders]
    mounts += [(path, "--ro-bind-try") for path in _kept(box, empty, hidden)]
    is_whole = box.read_only and box.copy is None
    mounts.append((box.workspace, "--ro-bind" if is_whole else "--bind"))
    mounts += [(path, "--ro-bind-try") for path in (box.copy.left if box.copy else ())]
    secret = {path for path in guarded.secret if not box.shows(path)}
    secret |= {path for path in _second_names(box.workspace, secret) if not box.shows(path)}
    mounts += [(path, "--ro-bind-try") for path in _bound(box, guarded, secret)]
    mounts.sort(key=lambda mount: (len(mount[0].parts), mount[1] != "--tmpfs"))
    for path, option in mounts:
        source = box.written if path == box.workspace else path
        yield from _empty(path, box) if option == "--tmpfs" else (option, str(source), str(path))
    covered = {path for path in hidden if not os.path.isdir(path)} | _sockets(box, folders) | secret
    for path in _outermost(covered):
        yield from _covered(path)
    for path in sorted({*folders, Path("/dev")} - set(map(Path, _OWN))):
        yield from ("--remount-ro", str(path))


def _bound(box: Box, guarded: Guarded, covered: Collection[Path]) -> list[Path]:
    """The paths of the workspace that are read-only, including gonogo's own code there."""
    programs = [path for path in guarded.programs(box.may_change) if path not in covered]
    programs.sort(key=lambda path: len(path.parts))
    protected = {*guarded.protected}
    if box.writes_git and (repository := own_repository(box.workspace)) in protected:
        protected = {*protected - {repository}, *obeyed(repository)}
    return _outermost({*protected, *own_code(box.workspace), *programs[:BOUND_LIMIT]})


def own_code(workspace: Path) -> list[Path]:
    """The folders of gonogo, and of the Python that runs it, that are in a workspace."""
    own = (Path(sys.prefix), Path(sys.base_prefix), PACKAGE)
    return [path for path in own if workspace in path.parents]


def _second_names(workspace: Path, secrets: Iterable[Path]) -> Iterable[Path]:
    """All names in the workspace of secret files that have several names (hard links)."""
    found = (_file_number(path) for path in secrets)
    wanted = {number for number, names in filter(None, found) if names > 1}
    folders = [workspace] if wanted else []
    inodes = {inode for _, inode in wanted}
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue  # it disappeared meanwhile, or may not be read
        folders += [Path(each) for each in entries if each.is_dir(follow_symlinks=False)]
        for path in (Path(each) for each in entries if each.inode() in inodes):
            number = _file_number(path)
            if number is not None and number[0] in wanted:
                yield path


def _file_number(path: Path) -> tuple[tuple[int, int], int] | None:
    """A file's device and inode, and how many names it has; None if it is not a regular file."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return ((found.st_dev, found.st_ino), found.st_nlink) if S_ISREG(found.st_mode) else None


def _outermost(paths: Collection[Path]) -> list[Path]:
    """The paths that are not below another one, sorted."""
    known = {*paths}
    return sorted(path for path in known if known.isdisjoint(path.parents))


def _empty(path: Path, box: Box) -> Iterable[str]:
    size = box.temporary if str(path) in _OWN else min(box.temporary, _LITTLE)
    return (*(("--size", str(size)) if box.temporary else ()), "--tmpfs", str(path))


def _covered(path: Path) -> Iterable[str]:
    if os.path.isdir(path):
        return ("--tmpfs", str(path), "--remount-ro", str(path))
    return ("--ro-bind", "/dev/null", str(path))


def _kept(box: Box, empty: set[Path], hidden: set[Path]) -> set[Path]:
    """Folders of programs that are inside a hidden folder, and are not above an emptied one."""
    wanted = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent}
    for entry in filter(None, box.search_path.split(":")):
        folder = Path(entry)
        wanted.add(folder.parent if folder.name == "shims" else folder)
    wanted |= set(map(Path, _SHOWN))
    true = {path.resolve() for path in wanted if path.is_absolute() and os.path.isdir(path)}
    return {
        path
        for path in true - hidden
        if any(path.is_relative_to(folder) for folder in empty | hidden)
        and not any(folder.is_relative_to(path) for folder in empty)
        and not path.is_relative_to(box.workspace)
    }


def _sockets(box: Box, covered: set[Path]) -> set[Path]:
    """Visible sockets on which somebody outside the box listens.

    A command can connect to a socket that it can see: neither a read-only mount nor a separate
    network prevents that.
    """
    try:
        lines = _SOCKETS.read_text("utf-8", "replace").splitlines()[1:]
    except OSError:
        return set()
    names = {fields[7] for line in lines if len(fields := line.split(None, 7)) == 8}
    # A name that is too long for a socket was bound through an open folder: /proc/self/fd/9/s.
    paths = {Path(os.path.realpath(name)) for name in names if name.startswith("/")}
    return {
        path
        for path in paths
        if _is_socket(path)
        and (path.is_relative_to(box.workspace) or not covered.intersection(path.parents))
    }  # fmt: skip


def _is_socket(path: Path) -> bool:
    try:
        return path.is_socket()
    except OSError:
        # The folder of another user: commands cannot get into it either.
        return False


def _homes() -> set[Path]:
    try:
        home = Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()
    except KeyError:
        return set()
    return {home} - {Path("/")}


# The sign that a command began: a script in the box asks gonogo before it starts the command.
#
# The files for a box may change while it is built, so that building fails. Without the sign nothing
# of the command has run, so the box may be built again. And a command begins only in a box that
# ends with gonogo: if gonogo is killed while the box is built, nobody answers, and nothing runs.
# The channel of the sign is closed before the command starts.

GIVE = r"""
guards() {
  guards=
  while read -r name value; do
    case $name in Seccomp*) guards+=" $value" ;; esac
  done <"/proc/$1/status"
}
if [ -n "$4" ]; then
  guards $$
  own=$guards
  until guards 1; [ "$guards" = "$own" ]; do :; done
  { printf . >&"$4" && read -r -N 1 -u "$4" && eval "exec $4>&-"; } || exit 126
fi
"""
"""The script that asks, in bash: `$4` is the channel's descriptor, or empty.

It waits until the box's first process has the same filter of system calls as the command: just
before bubblewrap sets that, it makes this process end with its parent. The parent itself was made
to end with gonogo long before.
"""


class Sign:
    """The sign of one command."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._given = False
        self.is_right: Callable[[], bool] = lambda: True
        """Whether the box shows the workspace that it was built for."""

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors that the box inherits."""
        return (self._theirs.fileno(),)

    @property
    def given(self) -> bool:
        """Whether the command began."""
        return self._given

    def spawned(self) -> None:
        """Close the box's end here: so if the box ends, the channel closes."""
        self._theirs.close()

    async def answer(self) -> None:
        """Wait until the box asks, then let the command begin; return if the box ends first.

        A box that shows another folder gets no permission, so it ends.
        """
        await anyio.wait_readable(self._ours)
        with suppress(OSError):
            if self._ours.recv(1) != b".":
                return
            if self.is_right():
                self._ours.send(b"!")
                self._given = True
            else:
                self._ours.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close both ends."""
        self._theirs.close()
        self._ours.close()


@contextmanager
def sign_of(*, boxed: bool) -> Generator[Sign | None]:
    """The sign of a boxed command; None without a box, as there is nothing that could fail."""
    if not boxed:
        yield None
        return
    sign = Sign()
    try:
        yield sign
    finally:
        sign.close()
