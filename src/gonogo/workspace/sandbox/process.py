"""A running command: its output, and the end of all its processes."""

import os
import shutil
import signal
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from subprocess import PIPE

import anyio
import anyio.abc
import anyio.to_thread
from msgspec import Struct, field

from gonogo.domain.errors import ToolFailed

# Ending all processes of one command, even those that tried to escape.
#
# Each command has a mark in its environment, which its children inherit. On systems with `/proc`,
# the mark finds even a process that left the command's group and session.

MARK = "GONOGO_COMMAND"

_ROUNDS = 100
_PROC = Path("/proc")


def kill_group(leader: int) -> None:
    """Kill the process group that `leader` started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_marked(leader: int, mark: str) -> None:
    """Kill all processes of a command, again and again, until none is left."""
    for _ in range(_ROUNDS):
        kill_group(leader)
        left = _members(leader, mark)
        if not left:
            return
        for process in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)


def _members(leader: int, mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    own = os.getpid()
    return [
        int(entry.name)
        for entry in (_PROC.iterdir() if _PROC.is_dir() else ())
        if entry.name.isdigit() and int(entry.name) != own and _belongs(entry, leader, wanted)
    ]


def _belongs(entry: Path, leader: int, wanted: bytes) -> bool:
    try:
        status = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        # The fields are state, parent, group, session. A zombie is dead already.
        if status[0] in (b"Z", b"X"):
            return False
        if int(status[3]) == leader:
            return True
        return wanted in (entry / "environ").read_bytes().split(b"\0")
    except (OSError, IndexError):
        return False


# A keeper between gonogo and a program, and the pipe between the two: see `keeper`.
#
# All processes that the program starts stay below its keeper, so all of them end when the pipe is
# closed: by gonogo, or because it ended. A box has a keeper only if another machine may take the
# work over.


_BEAT, _SILENT = 0.5, 3.5
"""Seconds between two beats, and seconds of silence after which a keeper ends its program."""
_KEEPS_BOX = """
line=$1 seconds=$2
shift 2
{ while read -r -t "$seconds" -N 1 -u "$line"; do :; done; kill -KILL 0; } >/dev/null 2>&1 &
exec {line}<&- {said}>&2 2>/dev/null
"$@" 2>&"$said" {said}>&-
code=$?
kill -KILL %1
wait
exit "$code"
"""
"""The keeper of a box, in bash. A box ends all its processes by itself, so the keeper in Python,
which starts ten times slower, is not necessary. It kills the whole process group and itself."""


class Lifeline:
    """The pipe to the keeper of one program."""

    def __init__(self, is_ours: Callable[[], bool] | None = None) -> None:
        """Make the pipe, before the program starts.

        Args:
            is_ours: Whether no other machine can have the work. While it is False, the keeper hears
                nothing, and ends the program after a few seconds. None: no other ever can.
        """
        self._is_ours = is_ours
        self._theirs, self._ours = os.pipe()
        os.set_blocking(self._ours, False)
        self._open = [self._theirs, self._ours]

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors that the keeper inherits."""
        return (self._theirs,)

    def kept(self, argv: Sequence[str], *, boxed: bool = False) -> list[str]:
        """The command line of a keeper that runs the program.

        Args:
            boxed: The program is a box, which ends with its parent, with all its processes.
        """
        if boxed and self._is_ours is not None and (bash := find_program("bash")) is not None:
            keeper = [bash, "--noprofile", "--norc", "-c", _KEEPS_BOX, "keeper"]
        else:
            keeper = [*_interpreter(), "-c", _text()]
        seconds = "0" if self._is_ours is None else str(_SILENT)
        return [*keeper, str(self._theirs), seconds, *argv]

    async def beat(self) -> None:
        """Tell the keeper regularly that the work is still ours; runs until it is cancelled."""
        while self._is_ours is not None and self._ours in self._open:
            if self._is_ours():
                with suppress(OSError):
                    os.write(self._ours, b".")
            await anyio.sleep(_BEAT)

    def spawned(self) -> None:
        """Close the keeper's end here, as the keeper has it now."""
        self._close(self._theirs)

    def cut(self) -> None:
        """Let the keeper end the program, and all processes that came from it."""
        self._close(self._theirs)
        self._close(self._ours)

    def _close(self, end: int) -> None:
        if end in self._open:
            self._open.remove(end)
            os.close(end)


@contextmanager
def lifeline(is_ours: Callable[[], bool] | None = None) -> Generator[Lifeline]:
    """A lifeline that is cut at the end of this context; see `Lifeline`."""
    line = Lifeline(is_ours)
    try:
        yield line
    finally:
        line.cut()


@cache
def _interpreter() -> list[str]:
    return [str(Path(sys.executable).resolve()), "-I", "-S"]


@cache
def _text() -> str:
    return Path(__file__).with_name("keeper.py").read_text("utf-8")


TIMED_OUT = 124
"""The exit code of a command that reached its time limit, the same as that of timeout(1)."""

_GRACE = 2.0


@contextmanager
def uncancelled() -> Generator[None]:
    """A context in which a cancellation waits until its end."""
    with anyio.CancelScope(shield=True):
        yield


class Sink:
    """Collects output: the first and the last bytes, half of the cap each."""

    def __init__(self, cap: int) -> None:
        self._half = max(cap // 2, 1)
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0

    @property
    def truncated(self) -> bool:
        """Whether something was left out."""
        return self._dropped > 0

    def add(self, chunk: bytes) -> None:
        """Add a piece of output."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        """The output that was kept."""
        if not self._dropped:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[… {self._dropped} bytes left out …]\n{tail}"


class Running:
    """The processes of a command, from its start to the end of the last one."""

    def __init__(self, process: anyio.abc.Process, mark: str, line: Lifeline | None) -> None:
        self._process, self._mark, self._line = process, mark, line
        self._ended = False

    @property
    def pid(self) -> int:
        """The process that leads the group."""
        return self._process.pid

    @property
    def exit_code(self) -> int:
        """The exit code as in a shell; while it runs, that of the time limit."""
        code = self._process.returncode
        return TIMED_OUT if code is None else code if code >= 0 else 128 - code

    async def finish(self, sink: Sink) -> None:
        """Wait for the command, then kill what it left in the background."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._drain, sink)
            await self._process.wait()
            await self.kill()
            group.cancel_scope.deadline = anyio.current_time() + _GRACE

    async def end(self, sink: Sink | None = None) -> None:
        """Kill what is left, and read the rest of the output. Cannot be cancelled."""
        if self._ended:
            return
        self._ended = True
        with uncancelled():
            await self.kill()
            with anyio.move_on_after(_GRACE):
                await self._process.wait()
            if sink is not None:
                with anyio.move_on_after(_GRACE):
                    await self._drain(sink)
            await self._process.aclose()

    async def kill(self) -> None:
        """Kill all processes of the command."""
        if self._line is not None:
            # Only the keeper finds processes without group and mark, so let it finish by itself.
            self._line.cut()
            with anyio.move_on_after(_GRACE):
                await self._process.wait()
        await anyio.to_thread.run_sync(kill_marked, self._process.pid, self._mark)

    async def _drain(self, sink: Sink) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        while True:
            try:
                sink.add(await stream.receive())
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                return


# Where programs are found: gonogo's own helpers, and those that commands name.
#
# A program in a folder that agents write is not a program of the machine but an agent's code,
# whatever its name: it is never found by its name among the others.

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

DEFAULT_PATH = f"{_SYSTEM}:{Path(sys.executable).parent}"
"""The PATH of commands when none is given: the system's folders, then the interpreter's."""
HELPERS_PATH = DEFAULT_PATH if sys.prefix == sys.base_prefix else _SYSTEM
"""The PATH for gonogo's own helpers: no virtual environment, as agents install into it."""

_SHELL = frozenset(
    """. : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare
    dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill
    let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt
    source suspend test times trap true type typeset ulimit umask unalias unset wait
    case coproc do done elif else esac fi for function if in select then time until while""".split()
)
"""Words that mean bash's own commands, even if there are programs of that name."""


def find_program(name: str, path: str = HELPERS_PATH) -> str | None:
    """The full path of a program, or None."""
    return shutil.which(name, path=path)


class Programs(Struct, frozen=True, kw_only=True):
    """The programs of commands: those of the machine, and those of one workspace."""

    path: str = DEFAULT_PATH
    """The operator's PATH: the folders of programs, in order."""
    roots: tuple[Path, ...] = ()
    """Folders that agents write in."""
    more: set[Path] = field(default_factory=set[Path])
    """More such folders, which become known later."""

    def know(self, folder: Path) -> None:
        """Note that agents write in a folder too."""
        self.more.add(folder)

    def elsewhere(self, workspace: Path) -> str:
        """The PATH without relative folders, and without those that agents write in."""
        places = self._places(workspace)
        kept = [entry for entry in self._entries() if not _is_written(entry, places)]
        return ":".join(kept) or _SYSTEM

    def of_machine(self, name: str, workspace: Path) -> str | None:
        """The full path of a program that no agent can have written."""
        path, places = self.elsewhere(workspace), self._places(workspace)
        return next((found for found in _found(name, path) if not _is_written(found, places)), None)

    def of_workspace(self, name: str, workspace: Path) -> str | None:
        """The full path of a program in the workspace, if it is the first on PATH."""
        found = next(_found(name, ":".join(self._entries())), None)
        return found if found is not None and _is_in(found, _by_name_and_link(workspace)) else None

    def _entries(self) -> list[str]:
        return [entry for entry in self.path.split(":") if os.path.isabs(entry)]

    def _places(self, workspace: Path) -> set[Path]:
        return _by_name_and_link(workspace, *self.roots, *self.more)


def _found(name: str, path: str) -> Iterator[str]:
    """Every program of that name, in the order of the PATH."""
    if "/" in name or name in _SHELL:
        return
    for entry in path.split(":"):
        found = shutil.which(name, path=entry)
        if found is not None:
            yield found


def _is_written(path: str, places: set[Path]) -> bool:
    return _is_in(path, places) or _is_open_to_all(path)


def _is_open_to_all(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _by_name_and_link(*folders: Path) -> set[Path]:
    """Folders, also with all links in their paths resolved."""
    return {place for folder in folders for place in (folder, Path(os.path.realpath(folder)))}


def _is_in(path: str, known: set[Path]) -> bool:
    """Whether a path is in one of the folders, as it is written or with links resolved."""
    places = {Path(os.path.normpath(path)), Path(os.path.realpath(path))}
    return any(place in known or not known.isdisjoint(place.parents) for place in places)


# Programs that gonogo talks to through pipes, and that end with it at the latest.
#
# They run without a box and with gonogo's rights: they are the operator's own.


@asynccontextmanager
async def bound_process(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path
) -> AsyncGenerator[anyio.abc.Process]:
    """Run a program inside this context; its standard streams are pipes.

    No process of it is left at the end of the context, or if this process is killed.

    Args:
        environment: The whole environment; the program is found on its `PATH`.

    Raises:
        ToolFailed: `io_error`: the program cannot be started.
    """
    program = find_program(argv[0], environment.get("PATH", ""))
    if program is None:
        raise ToolFailed("io_error", "There is no program {program!r} on its PATH", program=argv[0])
    mark = token_hex(16)
    with lifeline() as line:
        # No cancellation half-way: nobody could end a process that nobody knows.
        with uncancelled():
            marked = {**environment, MARK: mark}
            process = await _spawned([program, *argv[1:]], marked, folder, line)
        try:
            yield process
        finally:
            await Running(process, mark, line).end()


async def _spawned(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, line: Lifeline
) -> anyio.abc.Process:
    try:
        return await anyio.open_process(
            line.kept(argv), stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=str(folder),
            env=environment, start_new_session=True, pass_fds=line.fds,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise ToolFailed(
            "io_error", "{program!r} cannot be started: {error}", program=argv[0], error=error
        ) from error
    finally:
        line.spawned()
