"""Running a command of an agent: boxed, bounded, and gone when it is over.

Whatever ends a command (its own end, the time limit, the caller's cancellation), no process of it
is left when `run_command` returns. In a box that is the end of the box; without one, a keeper
stands between us and the command, under which all stays that comes of it.
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

# How much of the machine one command may take, and who watches over what it takes in all.
#
# The kernel's limits hold for each process, and not all of them for root. So what all the processes
# of a box take together is looked at while it runs, and so is what the workspace's disk loses; a
# command that is over is ended.

_MIB = 1 << 20
_PAUSE = 0.25
_PROC = Path("/proc")
_BLOCK = 512
_COARSE = 2_500_000_000
"""Nanoseconds: the clocks of some file systems go in such steps."""
_MOST_FILES = 1_000_000


class Ceilings(Struct, frozen=True, kw_only=True):
    """The limits of one command. Sizes are in MiB."""

    processes: int = 2_048
    """Processes and threads at once."""
    memory: int = 8_192
    """Memory of all its processes; also data of each."""
    file: int = 8_192
    """One file that it writes."""
    disk: int = 16_384
    """All the files that it writes in the workspace."""
    open_files: int = 4_096
    """Files that one process has open."""
    temporary: int = 1_024
    """Each of the folders that are its own: its home, /tmp, /var/tmp, /dev/shm."""

    @property
    def ulimits(self) -> str:
        """Words for ulimit, one limit a line: core files, then these."""
        return "\n".join((
            "-c 0", f"-n {self.open_files}", f"-u {self.processes}",
            f"-d {self.memory * 1024}", f"-f {self.file * 1024}",
        ))  # fmt: skip

    async def passed(self, leader: int, disk: "Disk", *, boxed: bool) -> str:
        """Wait until a command takes more than it may, and say of what.

        Args:
            boxed: Its processes are those of a box, and counted too.
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
        # Pages that several share were counted for each; only now is the exact sum worth its time.
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
        """Whether it is more than a limit in one of them."""
        return self.size > limit.size or self.files > limit.files


class Disk:
    """The disk of a workspace, since a command began.

    What it has lost is known at once, but others write there as well. So only where it has lost
    more than the command may take is it worth its time to look which files those are.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._free, self._began = _free(workspace), time.time_ns() - _COARSE
        self._of_others = Space(0, 0)

    def is_over(self, most: int, inside: Iterable[Path] = ()) -> bool:
        """Whether what was written since takes more bytes, or is far too many files.

        Args:
            inside: The command's processes: what only they hold of a file is counted too.
        """
        limit = Space(most, _MOST_FILES)
        lost = self._free - _free(self._workspace)
        if not (lost - self._of_others).passes(limit):
            return False
        written = _written(self._workspace, self._began) + _held(inside)
        self._of_others = lost - written
        # Nobody else takes so much; what is hidden from us is not held in favour of the command.
        return written.passes(limit) or lost.passes(Space(2 * most, 2 * _MOST_FILES))


def _free(folder: Path) -> Space:
    """What a folder's disk has left; while the folder is away, what its parent's has."""
    try:
        found = os.statvfs(folder)
    except (FileNotFoundError, NotADirectoryError):
        return _free(folder.parent)
    return Space(found.f_bfree * found.f_frsize, found.f_ffree)


def _written(workspace: Path, since: int) -> Space:
    """The files of a workspace that were changed since a moment, each counted once."""
    files: dict[tuple[int, int], int] = {}
    for folder, _, names in os.walk(workspace):
        for name in names:
            with suppress(OSError):
                found = os.lstat(f"{folder}/{name}")
                if found.st_ctime_ns >= since:
                    files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    return Space(sum(files.values()), len(files))


def _held(processes: Iterable[Path]) -> Space:
    """The files without a name that processes have open."""
    files: dict[tuple[int, int], int] = {}
    for process in processes:
        with suppress(OSError):
            for entry in os.scandir(process / "fd"):
                found = entry.stat()
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    return Space(sum(files.values()), len(files))


def _inside(leader: int) -> list[Path]:
    """The processes of the box that a bubblewrap made: those of its first child's namespace.

    Args:
        leader: The bubblewrap, or its keeper.
    """
    first = _first_inside(str(leader), _space(_PROC / "self"))
    space = first and _space(_PROC / first)
    return [entry for entry in _processes() if _space(entry) == space] if space else []


def _first_inside(process: str, own: str | None) -> str | None:
    """The first of what a process has started whose namespace is not ours."""
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
    """Whether the box below a process has a folder in the workspace's place, and no other.

    bubblewrap binds it by its path, which may have come to lead elsewhere meanwhile.
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
    """A number of a line; of `stat` those after the program's name, which may hold anything."""
    try:
        text = file.read_text("utf-8", "replace")
        return int((text.rpartition(")")[2] if shell else text).split()[place])
    except (OSError, IndexError, ValueError):
        return 0


def _share(process: Path) -> int:
    """The memory of one process, with its share of what it shares."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


NO_PROGRAMS: Mapping[str, str] = MappingProxyType({})
OUTPUT_CAP = 64 * 1024
"""Bytes of output that are kept when the caller names no cap."""
_ALONE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1"}
_PROGRAM = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*")
_LIMITS = f"""
while read -r limit; do ulimit $limit 2>/dev/null; done <<<"$3"
{GIVE}
exec "$1" --noprofile --norc -c "$2"
"""


class CommandOutput(Struct, frozen=True, kw_only=True):
    """What came of a command; `output` has head and tail when it was longer than the cap."""

    exit_code: int
    """128 and the signal's number for a command that a signal ended."""
    output: str
    truncated: bool
    timed_out: bool
    over: str | None = None
    """The limit that it passed and was ended for: `processes`, `memory` or `disk`."""
    network: Reached | None = None
    """What it reached; None when it had no network."""


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
    """Run a script in bash, with a clean environment, and end all that it started.

    Args:
        cwd: Where it runs, relative to the workspace and without links; None is the root.
        timeout: Seconds. All its processes are killed at the limit, and on cancellation.
        output_cap: The most bytes of output that are kept: the first and the last half.
        sandbox: The box; None runs it plainly.
        hidden: Folders and files that the box does not show.
        network: What it reaches; None is nothing. Without a box there is no telling.
        read_only: The box shows the workspace, and nothing in it can be changed.
        on_copy: What the command changes there is a copy, which goes with it.
        writes_git: The box shows the workspace's repository so that git can write in it, and finds
            there no settings by which it would start anything. For git alone.
        shown: Which of the workspace's secrets the box shows, by path; None is all of them.
        may_change: Which installed programs the box lets be changed, by path.
        guards: What the box guards, as it was found lately.
        unlooked: The folders that a person let it run without a look at them.
        search_path: The command's PATH; folders that lie in the workspace are no part of it.
        programs: The full paths of programs that the script names.
        on_spawn: Told the id of the process group's leader, for each box that is built.
        is_ours: Whether nobody else can have the work: see `Lifeline`.

    Raises:
        ToolFailed: `file_not_found` or `symlink_escape` for `cwd`, `io_error` when there is no
            bash, or when its box cannot be built, or there is none for `read_only`,
            `too_many_files` when nobody can say what the box has to guard: then nothing of it has
            run.
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
    """What runs, and what holds it."""

    script: str
    box: Box
    sandbox: Sandbox | None
    ceilings: Ceilings


class _Order(Struct, frozen=True):
    """What is tried until it has begun."""

    inside: _Inside
    network: Network | None
    output_cap: int
    on_spawn: Callable[[int], None] | None
    is_ours: Callable[[], bool] | None

    @property
    def is_kept(self) -> bool:
        """Whether a keeper stands between us and it: a box ends with us, but not when we stop."""
        return self.inside.sandbox is None or self.is_ours is not None


class _End(Struct, frozen=True):
    """What came of one try."""

    began: bool
    """The command did; where it did not, nothing of it has run."""
    exit_code: int
    sink: Sink
    timed_out: bool
    over: str | None
    network: Reached | None

    @property
    def counts(self) -> bool:
        """Nothing is tried again after it."""
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
    """Wait for a command; gives the limit that it passed, if it did."""
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
        # Not to be cancelled half-way: a process that nobody holds could not be ended.
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
    """What a box or a keeper has from us."""

    door: CommandProxy | None
    sign: Sign | None
    line: Lifeline | None

    @property
    def fds(self) -> tuple[int, ...]:
        return tuple(fd for each in self._all() for fd in each.fds)

    @property
    def way(self) -> str:
        """The sign's, as bash is told."""
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
        # By its descriptor: a folder that is swapped for a link now is not followed.
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
    """Bash source, on the script's first line, by which a name is the program at just that path."""
    return "".join(
        _pinned(name, quote(path), own=path.startswith(f"{workspace}/"))
        for name, path in programs.items()
        if _PROGRAM.fullmatch(name)
    )


def _pinned(name: str, path: str, *, own: bool) -> str:
    # A Python finds the environment that it belongs to by the path that it is called by.
    return f'{name}() {{ {path} "$@"; }}; ' if own else f"hash -p {path} {name}; "


def _settings(inside: _Inside) -> dict[Path, bytes]:
    """What git is shown in the place of settings of repositories, in a box where it writes."""
    if inside.sandbox is None or not inside.box.writes_git:
        return {}
    return plain_settings(inside.box.guarded(), inside.box.search_path)


def _boxed(sandbox: Sandbox | None) -> AbstractContextManager[int | None]:
    return nullcontext() if sandbox is None else filter_fd()


def _environment(box: Box, home: str, mark: str, *, networked: bool) -> dict[str, str]:
    # Servers that a test starts beside itself are reached without the proxy.
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
        # Nothing of a repository around the workspace is shown to who only reads.
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
