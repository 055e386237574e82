"""A command under way: its output as it comes, and the end of all its processes."""

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

# Ending all processes of one command, those that ran away included.
#
# Each command carries a mark in its environment, which its children inherit. A process that left
# the command's group and session is still found by the mark, on systems that have `/proc`.

MARK = "GONOGO_COMMAND"

_ROUNDS = 100
_PROC = Path("/proc")


def kill_group(leader: int) -> None:
    """Kill the process group that `leader` started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_marked(leader: int, mark: str) -> None:
    """Kill whatever belongs to the command, until nothing is left."""
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
        # State, parent, group, session; a zombie is dead already and waits for its parent.
        if status[0] in (b"Z", b"X"):
            return False
        if int(status[3]) == leader:
            return True
        return wanted in (entry / "environ").read_bytes().split(b"\0")
    except (OSError, IndexError):
        return False


# A keeper between us and a program, and the pipe that it holds on to: see `keeper`.
#
# Whatever the program starts stays below its keeper, so all of it ends when the pipe is closed: by
# us, or with us. A box has a keeper only where another machine may take our work over.


_BEAT, _SILENT = 0.5, 3.5
"""Seconds between two beats, and those of silence after which a keeper ends its program."""
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
"""The keeper of a box, which ends all that is in it by itself: so bash will do, and an interpreter,
which takes ten times as long to begin, need not. It kills the whole group, itself included."""


class Lifeline:
    """One program's; cut when its block ends."""

    def __init__(self, is_ours: Callable[[], bool] | None = None) -> None:
        """Hold on to a program that is to be started.

        Args:
            is_ours: Whether nobody else can have the work; when the keeper has not heard so for a
                few seconds, it ends the program. None: nobody else ever can.
        """
        self._is_ours = is_ours
        self._theirs, self._ours = os.pipe()
        os.set_blocking(self._ours, False)
        self._open = [self._theirs, self._ours]

    @property
    def fds(self) -> tuple[int, ...]:
        """What the keeper inherits."""
        return (self._theirs,)

    def kept(self, argv: Sequence[str], *, boxed: bool = False) -> list[str]:
        """The command line of a keeper that runs the program.

        Args:
            boxed: The program is a box, which goes with its parent and has all of it inside.
        """
        if boxed and self._is_ours is not None and (bash := find_program("bash")) is not None:
            keeper = [bash, "--noprofile", "--norc", "-c", _KEEPS_BOX, "keeper"]
        else:
            keeper = [*_interpreter(), "-c", _text()]
        seconds = "0" if self._is_ours is None else str(_SILENT)
        return [*keeper, str(self._theirs), seconds, *argv]

    async def beat(self) -> None:
        """Say that the work is ours for as long as it is; to be cancelled."""
        while self._is_ours is not None and self._ours in self._open:
            if self._is_ours():
                with suppress(OSError):
                    os.write(self._ours, b".")
            await anyio.sleep(_BEAT)

    def spawned(self) -> None:
        """The keeper has its end."""
        self._close(self._theirs)

    def cut(self) -> None:
        """Have the keeper end the program, and all that came of it."""
        self._close(self._theirs)
        self._close(self._ours)

    def _close(self, end: int) -> None:
        if end in self._open:
            self._open.remove(end)
            os.close(end)


@contextmanager
def lifeline(is_ours: Callable[[], bool] | None = None) -> Generator[Lifeline]:
    """A lifeline that is cut when the block is over; see `Lifeline`."""
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
"""The exit code of a command that reached its time limit, as timeout(1) gives it."""

_GRACE = 2.0


@contextmanager
def uncancelled() -> Generator[None]:
    """For what must not be cancelled half-way."""
    with anyio.CancelScope(shield=True):
        yield


class Sink:
    """Output as it comes: the first half of the cap, and the last."""

    def __init__(self, cap: int) -> None:
        self._half = max(cap // 2, 1)
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0

    @property
    def truncated(self) -> bool:
        """Whether something was left out."""
        return self._dropped > 0

    def add(self, chunk: bytes) -> None:
        """Take what came."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        """What was kept."""
        if not self._dropped:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[… {self._dropped} bytes left out …]\n{tail}"


class Running:
    """A command's processes, from spawn to the end of the last."""

    def __init__(self, process: anyio.abc.Process, mark: str, line: Lifeline | None) -> None:
        self._process, self._mark, self._line = process, mark, line
        self._ended = False

    @property
    def pid(self) -> int:
        """The process that leads the group."""
        return self._process.pid

    @property
    def exit_code(self) -> int:
        """As a shell gives it; that of the time limit while it runs."""
        code = self._process.returncode
        return TIMED_OUT if code is None else code if code >= 0 else 128 - code

    async def finish(self, sink: Sink) -> None:
        """Wait for the command; what it left in the background ends with it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._drain, sink)
            await self._process.wait()
            await self.kill()
            group.cancel_scope.deadline = anyio.current_time() + _GRACE

    async def end(self, sink: Sink | None = None) -> None:
        """Kill what is left and take the rest of the output. Not to be cancelled."""
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
        """Kill all of it."""
        if self._line is not None:
            # The keeper alone sees what left the group and took off the mark; so it goes last.
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


# Where programs are found: our own helpers, and those that commands name.
#
# A program that lies where agents write is no program of the machine but code of theirs, whatever
# it is called: it is never found by its name alone among the others.

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

DEFAULT_PATH = f"{_SYSTEM}:{Path(sys.executable).parent}"
"""The PATH of commands when none is given: the system's folders, then the interpreter's."""
HELPERS_PATH = DEFAULT_PATH if sys.prefix == sys.base_prefix else _SYSTEM
"""Where we find what we run ourselves: in no virtual environment, since agents install into one."""

_SHELL = frozenset(
    """. : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare
    dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill
    let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt
    source suspend test times trap true type typeset ulimit umask unalias unset wait
    case coproc do done elif else esac fi for function if in select then time until while""".split()
)
"""What bash itself is meant by, whatever programs there are."""


def find_program(name: str, path: str = HELPERS_PATH) -> str | None:
    """The full path of a program, or None."""
    return shutil.which(name, path=path)


class Programs(Struct, frozen=True, kw_only=True):
    """The programs of commands: those of the machine, and those of one workspace."""

    path: str = DEFAULT_PATH
    """As the operator has it: where a program is looked for, and in which order."""
    roots: tuple[Path, ...] = ()
    """Folders that agents write in."""
    more: set[Path] = field(default_factory=set[Path])
    """Further ones, as they become known."""

    def know(self, folder: Path) -> None:
        """From now on agents write in a folder too."""
        self.more.add(folder)

    def elsewhere(self, workspace: Path) -> str:
        """The PATH without what is relative, or lies where agents write."""
        places = self._places(workspace)
        kept = [entry for entry in self._entries() if not _is_written(entry, places)]
        return ":".join(kept) or _SYSTEM

    def of_machine(self, name: str, workspace: Path) -> str | None:
        """The full path of a program that no agent wrote."""
        path, places = self.elsewhere(workspace), self._places(workspace)
        return next((found for found in _found(name, path) if not _is_written(found, places)), None)

    def of_workspace(self, name: str, workspace: Path) -> str | None:
        """The full path of the workspace's own program, where PATH names that first."""
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
    """Folders, and what they lead to."""
    return {place for folder in folders for place in (folder, Path(os.path.realpath(folder)))}


def _is_in(path: str, known: set[Path]) -> bool:
    """Whether a path lies in one of the folders, by its name or by what that leads to."""
    places = {Path(os.path.normpath(path)), Path(os.path.realpath(path))}
    return any(place in known or not known.isdisjoint(place.parents) for place in places)


# Programs that live as long as we do: spoken to through pipes, and gone when we are.
#
# They run beside us with the rights that we have, in no box: they are the operator's own.


@asynccontextmanager
async def bound_process(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path
) -> AsyncGenerator[anyio.abc.Process]:
    """Run a program for as long as the block; its standard streams are pipes.

    Nothing of it is left when the block is over, nor when this process is killed.

    Args:
        environment: All that it gets; its `PATH` says where it is found.

    Raises:
        ToolFailed: `io_error`: it cannot be started.
    """
    program = find_program(argv[0], environment.get("PATH", ""))
    if program is None:
        raise ToolFailed("io_error", "There is no program {program!r} on its PATH", program=argv[0])
    mark = token_hex(16)
    with lifeline() as line:
        # Not to be cancelled half-way: a process that nobody holds could not be ended.
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
