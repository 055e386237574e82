"""Running a command of an agent: in a box, within limits, and with nothing left afterwards.

Whatever ends a command (its own end, the time limit, the caller's cancellation), no process of it
is left when `run_command` returns. A box ends all its processes. Without a box, a keeper runs
between gonogo and the command, and all processes of the command stay below it.
"""

import os
import re
import resource
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from pathlib import Path
from secrets import token_hex
from shlex import quote
from subprocess import DEVNULL, PIPE, STDOUT
from types import MappingProxyType

import anyio
import anyio.abc
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from gonogo.domain.errors import ToolFailed
from gonogo.workspace.files.safe_open import root_opened
from gonogo.workspace.files.workspace import Workspace
from gonogo.workspace.sandbox.bubblewrap import (
    GIVE,
    PRIVATE_HOME,
    TRIES,
    Box,
    Sandbox,
    Sign,
    copy_of,
    filter_fd,
    nothing,
    sign_of,
)
from gonogo.workspace.sandbox.guards import Guarded, held, plain_settings
from gonogo.workspace.sandbox.network import CommandProxy, Network, Reached, door_of
from gonogo.workspace.sandbox.process import (
    DEFAULT_PATH,
    MARK,
    TIMED_OUT,
    Lifeline,
    Programs,
    Running,
    Sink,
    find_program,
    lifeline,
    uncancelled,
)

# How much of the machine one command may use, and how gonogo watches its processes together.
#
# The kernel's limits are for each single process, and some do not apply to root. So gonogo also
# measures what all processes of a box use together, and how much free space the workspace's disk
# loses. A command over a limit is ended.

_MIB = 1 << 20
_PAUSE = 0.25
_PROC = Path("/proc")
_BLOCK = 512
_COARSE = 2_500_000_000
"""Nanoseconds; some file systems store times in such coarse steps."""
_MOST_FILES = 1_000_000


class Ceilings(Struct, frozen=True, kw_only=True):
    """The limits of one command. Sizes are in MiB."""

    processes: int = 2_048
    """Processes and threads at once."""
    memory: int = 8_192
    """Memory of all its processes together; also the data of each one."""
    file: int = 8_192
    """Each file that it writes."""
    disk: int = 16_384
    """All files together that it writes in the workspace."""
    open_files: int = 4_096
    """Open files of one process."""
    temporary: int = 1_024
    """Each folder of its own: its home, /tmp, /var/tmp, /dev/shm."""

    @property
    def ulimits(self) -> str:
        """Arguments for ulimit, one limit per line: no core files, then these limits."""
        return "\n".join((
            "-c 0", f"-n {self.open_files}", f"-u {self.processes}",
            f"-d {self.memory * 1024}", f"-f {self.file * 1024}",
        ))  # fmt: skip

    async def passed(self, leader: int, disk: "Disk", *, boxed: bool) -> str:
        """Wait until a command passes a limit, and return the limit's name.

        Args:
            boxed: The command runs in a box, so its processes can be counted too.
        """
        while True:
            await anyio.sleep(_PAUSE)
            word = await anyio.to_thread.run_sync(self._over, leader, disk, boxed)
            if word is not None:
                return word

    def _over(self, leader: int, disk: "Disk", boxed: bool) -> str | None:
        inside = _inside(leader) if boxed else []
        threads = sum(_number(process / "stat", 17) for process in inside)
        if threads > self.processes:
            return "processes"
        if disk.is_over(self.disk * _MIB, inside):
            return "disk"
        page = resource.getpagesize()
        most = sum(_number(process / "statm", 1, shell=False) for process in inside) * page
        if most <= self.memory * _MIB:
            return None
        # Shared pages were counted for each process. The exact sum is slow, so only now.
        exact = sum(_share(process) for process in inside)
        return "memory" if exact > self.memory * _MIB else None


USUAL = Ceilings()


class Space(Struct, frozen=True):
    """Bytes and files on a disk."""

    size: int
    files: int

    def __add__(self, other: "Space") -> "Space":
        return Space(self.size + other.size, self.files + other.files)

    def __sub__(self, other: "Space") -> "Space":
        return Space(self.size - other.size, self.files - other.files)

    def passes(self, limit: "Space") -> bool:
        """Whether it is over a limit in size or in files."""
        return self.size > limit.size or self.files > limit.files


class Disk:
    """What was written to the disk of a workspace since a command began.

    The loss of free space is quick to see, but others write there too. So only if the loss is more
    than the command may write, gonogo looks which files were written.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._free, self._began = _free(workspace), time.time_ns() - _COARSE
        self._of_others = Space(0, 0)

    def is_over(self, most: int, inside: Iterable[Path] = ()) -> bool:
        """Whether more bytes than `most`, or far too many files, were written since.

        Args:
            inside: The command's processes: deleted files that they have open count too.
        """
        limit = Space(most, _MOST_FILES)
        lost = self._free - _free(self._workspace)
        if not (lost - self._of_others).passes(limit):
            return False
        written = _written(self._workspace, self._began) + _held(inside)
        self._of_others = lost - written
        # With twice the limit, assume that it was the command: some files may be hidden from us.
        return written.passes(limit) or lost.passes(Space(2 * most, 2 * _MOST_FILES))


def _free(folder: Path) -> Space:
    """The free space of a folder's disk; if the folder is not there, of its parent's disk."""
    try:
        found = os.statvfs(folder)
    except (FileNotFoundError, NotADirectoryError):
        return _free(folder.parent)
    return Space(found.f_bfree * found.f_frsize, found.f_ffree)


def _written(workspace: Path, since: int) -> Space:
    """The size and number of files in a workspace that changed since a moment, each once."""
    files: dict[tuple[int, int], int] = {}
    for folder, _, names in os.walk(workspace):
        for name in names:
            with suppress(OSError):
                found = os.lstat(f"{folder}/{name}")
                if found.st_ctime_ns >= since:
                    files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    return Space(sum(files.values()), len(files))


def _held(processes: Iterable[Path]) -> Space:
    """The size and number of deleted files that processes still have open."""
    files: dict[tuple[int, int], int] = {}
    for process in processes:
        with suppress(OSError):
            for entry in os.scandir(process / "fd"):
                found = entry.stat()
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    return Space(sum(files.values()), len(files))


def _inside(leader: int) -> list[Path]:
    """The processes of a box: those in the namespace of its first process.

    Args:
        leader: The process of bubblewrap, or of its keeper.
    """
    first = _first_inside(str(leader), _space(_PROC / "self"))
    space = first and _space(_PROC / first)
    return [entry for entry in _processes() if _space(entry) == space] if space else []


def _first_inside(process: str, own: str | None) -> str | None:
    """The first descendant of a process that is in another namespace than gonogo."""
    try:
        children = (_PROC / process / "task" / process / "children").read_text().split()
    except OSError:
        return None
    spaces = ((child, _space(_PROC / child)) for child in children)
    found = (
        _first_inside(child, own) if space == own else space and child for child, space in spaces
    )
    return next(filter(None, found), None)


def _shows(leader: int, workspace: Path, which: os.stat_result) -> bool:
    """Whether the box below a process shows exactly this folder as the workspace.

    bubblewrap binds the workspace by its path, which may lead elsewhere by now.
    """
    inside = _first_inside(str(leader), _space(_PROC / "self"))
    if inside is None:
        return True
    try:
        return os.path.samestat(os.stat(f"/proc/{inside}/root{workspace}"), which)
    except PermissionError:
        return True
    except OSError:
        return False


def _processes() -> Iterator[Path]:
    return (entry for entry in _PROC.iterdir() if entry.name.isdigit())


def _space(process: Path) -> str | None:
    try:
        return os.readlink(process / "ns/pid")
    except OSError:
        return None


def _number(file: Path, place: int, *, shell: bool = True) -> int:
    """A number in a line; in `stat` the numbers begin after the program's name."""
    try:
        text = file.read_text("utf-8", "replace")
        return int((text.rpartition(")")[2] if shell else text).split()[place])
    except (OSError, IndexError, ValueError):
        return 0


def _share(process: Path) -> int:
    """The memory of one process, including its part of the shared memory."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


NO_PROGRAMS: Mapping[str, str] = MappingProxyType({})
OUTPUT_CAP = 64 * 1024
"""How many bytes of output are kept by default."""
_ALONE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1"}
_PROGRAM = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*")
_LIMITS = f"""
while read -r limit; do ulimit $limit 2>/dev/null; done <<<"$3"
{GIVE}
exec "$1" --noprofile --norc -c "$2"
"""


class CommandOutput(Struct, frozen=True, kw_only=True):
    """The result of a command; `output` is only head and tail if it was longer than the cap."""

    exit_code: int
    """128 plus the number of the signal, if a signal ended the command."""
    output: str
    truncated: bool
    timed_out: bool
    over: str | None = None
    """The limit for which it was ended: `processes`, `memory` or `disk`."""
    network: Reached | None = None
    """What it reached; None if it had no network."""


async def run_command(  # noqa: PLR0913 - each is a choice of the caller
    workspace: Workspace,
    script: str,
    *,
    cwd: str | None,
    timeout: float,  # noqa: ASYNC109 - the limit is part of the result
    output_cap: int = OUTPUT_CAP,
    sandbox: Sandbox | None,
    hidden: Sequence[Path] = (),
    network: Network | None = None,
    read_only: bool = False,
    on_copy: bool = False,
    writes_git: bool = False,
    shown: Callable[[str], bool] | None = None,
    may_change: Callable[[str], bool] = nothing,
    guards: Guarded | None = None,
    unlooked: Collection[str] = (),
    ceilings: Ceilings = USUAL,
    search_path: str = DEFAULT_PATH,
    programs: Mapping[str, str] = NO_PROGRAMS,
    on_spawn: Callable[[int], None] | None = None,
    is_ours: Callable[[], bool] | None = None,
) -> CommandOutput:
    """Run a script in bash, with a clean environment, and end all processes that it started.

    Args:
        cwd: Where it runs, relative to the workspace and without links; None: the root.
        timeout: Seconds. All its processes are killed at the limit, and on cancellation.
        output_cap: The most bytes of output that are kept: the first and the last half.
        sandbox: The box; None runs the script without one.
        hidden: Folders and files that the box does not show.
        network: What it may reach; None: nothing. Without a box this has no effect.
        read_only: Nothing in the workspace can be changed; needs a box.
        on_copy: The command works on a copy of the workspace, which is deleted afterwards.
        writes_git: In the box, git can write in the workspace's repository, and finds no settings
            that would start a program. Only for git itself.
        shown: Which of the workspace's secrets the box shows, by path; None: all of them.
        may_change: Which installed programs may be changed in the box, by path.
        guards: The guarded names from an earlier look.
        unlooked: Folders that were not looked into; a person allowed it to run all the same.
        search_path: The command's PATH; folders in the workspace are removed from it.
        programs: The full paths of programs that the script names.
        on_spawn: Called with the id of the process group's leader, for each box that is built.
        is_ours: Whether no other machine can have the work: see `Lifeline`.

    Raises:
        ToolFailed: `file_not_found` or `symlink_escape` for `cwd`, `io_error` if there is no
            bash, or its box cannot be built, or there is no box for `read_only`, `too_many_files`
            if nobody can say what the box must guard. Nothing of the script has run then.
    """
    if read_only and sandbox is None:
        raise ToolFailed(
            "io_error", "Without a sandbox, nothing stops a command from writing files"
        )
    box = Box(
        workspace=workspace.root,
        cwd=workspace.root / workspace.normal(cwd or "."),
        hidden=tuple(hidden),
        search_path=Programs(path=search_path).elsewhere(workspace.root),
        read_only=read_only,
        writes_git=writes_git,
        shown=shown,
        may_change=may_change,
        guards=guards,
        unlooked=unlooked,
        temporary=ceilings.temporary << 20,
    )
    named = _named(programs, workspace.root) + script
    async with copy_of(workspace.root, shown) if on_copy else nullcontext() as copy:
        inside = _Inside(named, replace(box, copy=copy), sandbox, ceilings)
        order = _Order(inside, network, output_cap, on_spawn, is_ours)
        end = await _carried_out(workspace, order, anyio.current_time() + timeout)
    return CommandOutput(
        exit_code=end.exit_code,
        output=end.sink.text(),
        truncated=end.sink.truncated,
        timed_out=end.timed_out,
        over=None if end.timed_out else end.over,
        network=end.network,
    )


class _Inside(Struct, frozen=True):
    """What runs, and in which box."""

    script: str
    box: Box
    sandbox: Sandbox | None
    ceilings: Ceilings


class _Order(Struct, frozen=True):
    """A command to start, perhaps after several tries."""

    inside: _Inside
    network: Network | None
    output_cap: int
    on_spawn: Callable[[int], None] | None
    is_ours: Callable[[], bool] | None

    @property
    def is_kept(self) -> bool:
        """Whether it needs a keeper: a box ends with gonogo, but not while gonogo is suspended."""
        return self.inside.sandbox is None or self.is_ours is not None


class _End(Struct, frozen=True):
    """The result of one try."""

    began: bool
    """The command began; if not, nothing of it has run."""
    exit_code: int
    sink: Sink
    timed_out: bool
    over: str | None
    network: Reached | None

    @property
    def counts(self) -> bool:
        """Whether this is the final result; if not, it is tried again."""
        return self.began or self.timed_out or self.over is not None


async def _carried_out(workspace: Workspace, order: _Order, until: float) -> _End:
    """Build boxes until the command begins in one."""
    end = await _try(workspace, order, until)
    for _ in range(TRIES - 1):
        if end.counts:
            break
        end = await _try(workspace, order, until)
    if not end.counts:
        why = end.sink.text().strip()
        raise ToolFailed("io_error", "The command cannot be started: {error}", error=why)
    return end


async def _try(workspace: Workspace, order: _Order, until: float) -> _End:
    sink, over = Sink(order.output_cap), None
    boxed = order.inside.sandbox is not None
    with (
        door_of(order.network, boxed=boxed) as door,
        sign_of(boxed=boxed) as sign,
        lifeline(order.is_ours) if order.is_kept else nullcontext() as line,
    ):
        inherited = _Inherited(door, sign, line)
        async with _started(workspace, order, inherited) as process:
            with anyio.CancelScope(deadline=until) as limit:
                over = await _watched(process, sink, order.inside, inherited)
            await process.end(sink)
        return _End(
            began=sign is None or sign.given,
            exit_code=TIMED_OUT if limit.cancelled_caught else process.exit_code,
            sink=sink,
            timed_out=limit.cancelled_caught,
            over=over,
            network=None if door is None else door.report,
        )


async def _watched(
    process: Running, sink: Sink, inside: _Inside, inherited: "_Inherited"
) -> str | None:
    """Wait for a command, and return the limit that it passed, if any."""
    passed: list[str] = []
    boxed = inside.sandbox is not None
    disk = Disk(inside.box.written)

    async def watch() -> None:
        passed.append(await inside.ceilings.passed(process.pid, disk, boxed=boxed))
        await process.kill()

    async with anyio.create_task_group() as group, AsyncExitStack() as stack:
        group.start_soon(watch)
        if inherited.sign is not None:
            group.start_soon(inherited.sign.answer)
        if inherited.line is not None:
            group.start_soon(inherited.line.beat)
        if inherited.door is not None:
            await stack.enter_async_context(inherited.door.served())
        await process.finish(sink)
        group.cancel_scope.cancel()
    return passed[0] if passed else None


@asynccontextmanager
async def _started(
    workspace: Workspace, order: _Order, inherited: "_Inherited"
) -> AsyncGenerator[Running]:
    mark, inside = token_hex(16), order.inside
    async with _home(inside.sandbox) as home:
        environment = _environment(inside.box, home, mark, networked=inherited.door is not None)
        # No cancellation half-way: nobody could end a process that nobody knows.
        with uncancelled():
            process = await _spawn(workspace, inside, inherited, environment)
        running = Running(process, mark, inherited.line)
        try:
            if order.on_spawn is not None:
                order.on_spawn(process.pid)
            yield running
        finally:
            await running.end()


class _Inherited(Struct, frozen=True):
    """The descriptors that a box or a keeper inherits from gonogo."""

    door: CommandProxy | None
    sign: Sign | None
    line: Lifeline | None

    @property
    def fds(self) -> tuple[int, ...]:
        return tuple(fd for each in self._all() for fd in each.fds)

    @property
    def way(self) -> str:
        """The descriptor of the sign's channel, as an argument for bash."""
        return "" if self.sign is None else str(self.sign.fds[0])

    def spawned(self) -> None:
        for each in self._all():
            each.spawned()

    def _all(self) -> Iterator[CommandProxy | Sign | Lifeline]:
        return (each for each in (self.door, self.sign, self.line) if each is not None)


async def _spawn(
    workspace: Workspace, inside: _Inside, inherited: _Inherited, environment: dict[str, str]
) -> anyio.abc.Process:
    box = inside.box
    bash = find_program("bash", box.search_path) or find_program("bash")
    if bash is None:
        raise ToolFailed("io_error", "This machine has no bash; install bash")
    argv = [bash, "--noprofile", "--norc", "-c", _LIMITS, "gonogo", bash, inside.script]
    argv += [inside.ceilings.ulimits, inherited.way]
    relative = box.cwd.relative_to(workspace.root).as_posix()
    settings = await anyio.to_thread.run_sync(_settings, inside)
    with root_opened(box.workspace) as root:
        which = os.fstat(root)
    with (
        _boxed(inside.sandbox) as filter_,
        held(settings) as held_settings,
        workspace.folder(relative) as folder,
    ):
        fds = inherited.fds if filter_ is None else (filter_, *inherited.fds)
        fds = (*held_settings, *fds)
        if inherited.door is not None:
            argv = inherited.door.through(argv)
        if inside.sandbox is not None:
            wrap = partial(inside.sandbox.wrap, argv, box, filter_, held_settings)
            argv = await anyio.to_thread.run_sync(wrap)
        if inherited.line is not None:
            argv = inherited.line.kept(argv, boxed=inside.sandbox is not None)
        # By its descriptor: so it does not matter if the folder is swapped for a link now.
        here = f"/proc/self/fd/{folder}" if sys.platform == "linux" else str(box.cwd)
        try:
            process = await anyio.open_process(
                argv, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, cwd=here, env=environment,
                start_new_session=True, pass_fds=fds,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise ToolFailed(
                "io_error", "The command cannot be started: {error}", error=error
            ) from error
    inherited.spawned()
    if inherited.sign is not None and box.copy is None:
        inherited.sign.is_right = partial(_shows, process.pid, box.workspace, which)
    return process


def _named(programs: Mapping[str, str], workspace: Path) -> str:
    """Bash source for the script's first line, which binds each name to the program's path."""
    return "".join(
        _pinned(name, quote(path), own=path.startswith(f"{workspace}/"))
        for name, path in programs.items()
        if _PROGRAM.fullmatch(name)
    )


def _pinned(name: str, path: str, *, own: bool) -> str:
    # Python finds its virtual environment by the path with which it is called.
    return f'{name}() {{ {path} "$@"; }}; ' if own else f"hash -p {path} {name}; "


def _settings(inside: _Inside) -> dict[Path, bytes]:
    """The settings that git sees instead of those of repositories, in a box where it writes."""
    if inside.sandbox is None or not inside.box.writes_git:
        return {}
    return plain_settings(inside.box.guarded(), inside.box.search_path)


def _boxed(sandbox: Sandbox | None) -> AbstractContextManager[int | None]:
    return nullcontext() if sandbox is None else filter_fd()


def _environment(box: Box, home: str, mark: str, *, networked: bool) -> dict[str, str]:
    # Servers that a test starts in its own box are reached without the proxy.
    direct = "localhost,127.0.0.1,::1"
    more = {"NO_PROXY": direct, "no_proxy": direct, "NODE_USE_ENV_PROXY": "1"}
    return {
        "PATH": box.search_path,
        "HOME": home,
        "TMPDIR": "/tmp" if home == PRIVATE_HOME else home,  # noqa: S108 - the box's own
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        MARK: mark,
        # A read-only command must not see a repository around the workspace.
        **({"GIT_CEILING_DIRECTORIES": str(box.workspace.parent)} if box.read_only else {}),
        **(_ALONE if box.writes_git else {}),
        **(more if networked else {}),
    }


@asynccontextmanager
async def _home(sandbox: Sandbox | None) -> AsyncGenerator[str]:
    if sandbox is not None:
        yield PRIVATE_HOME
        return
    folder = await anyio.to_thread.run_sync(tempfile.mkdtemp)
    try:
        yield folder
    finally:
        with uncancelled():
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))
