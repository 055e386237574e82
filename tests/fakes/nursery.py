"""Processes that start at once: forks of one that has imported all of gonogo.

What such a process is and does is what `python -m MODULE …` is and does, with files, an
environment, a folder and a session of its own, but that the imports, most of a start, are done.
The process in the background that such a command starts is one of them, too. What a test says about
the start of a Python, it says with `subprocess`.
"""

import asyncio
import atexit
import ctypes
import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, TextIO

import coverage

from fakes.modules import import_all
from fakes.until import let_threads_end
from gonogo import demo
from gonogo.cli import daemon as background

_PDEATHSIG = 1
_LONGEST = 1 << 17
_FILES = 4
_LONGEST_QUEUE = 64
_SECONDS = 60
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE")
_MEASURING = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
_GREETING = b"""HTTP/1.1 200 OK\r
Content-Type: text/event-stream\r
Connection: close\r
\r
data: {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "greeter", "choices": [
data: {"index": 0, "delta": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}

data: [DONE]

"""


def python(*, measured: bool = True) -> dict[str, str]:
    """The environment that Python itself needs.

    Args:
        measured: Whether its coverage is measured, if ours is; that makes it half as fast, and is
            in vain where it is killed.
    """
    names = (*_PASSED_ON, *_MEASURING) if measured else _PASSED_ON
    kept = {name: os.environ[name] for name in names if name in os.environ}
    path = os.pathsep.join(path for path in sys.path if path)
    return {**kept, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


class Process:
    """One of them, to be waited for and killed as a `subprocess.Popen` is."""

    def __init__(self, words: list[str], life: int) -> None:
        self.args, self._life = words, os.fdopen(life, "rb", buffering=0)
        self.pid = int(self._life.readline())
        self.returncode: int | None = None
        self.stderr: IO[bytes] | None = None

    def poll(self) -> int | None:
        """How it ended; None while it lives."""
        return self._ended(0)

    def wait(self, timeout: float) -> int:
        """How it ended, once it has."""
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signal it, if it lives."""
        # It may have ended, and its end not be told yet.
        with suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut would, as far as it can tell."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, seconds: float) -> int | None:
        if self.returncode is None and select.select([self._life], [], [], seconds)[0]:
            self.returncode = int(self._life.readline())
            self._life.close()
        return self.returncode


class Nursery:
    """The process that forks, as those who order processes see it."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def start(
        self,
        *words: str,
        env: Mapping[str, str],
        cwd: Path,
        stdin: int = subprocess.DEVNULL,
        stdout: int,
        stderr: int,
    ) -> Process:
        """Do what `python -m WORDS…` does."""
        order = {"words": words, "environment": dict(env), "folder": str(cwd)}
        ours, theirs = os.pipe()
        with open(os.devnull) as nothing:
            typed = nothing.fileno() if stdin == subprocess.DEVNULL else stdin
            files = [typed, stdout, stderr, theirs]
            socket.send_fds(self._line, [json.dumps(order).encode()], files)
        os.close(theirs)
        return Process(list(words), ours)

    def converse(
        self, *words: str, env: Mapping[str, str], cwd: Path
    ) -> tuple[Process, TextIO, TextIO]:
        """Do what `python -m WORDS…` does; gives what it is told through, and what it says."""
        theirs, ours = os.pipe()
        read, write = os.pipe()
        process = self.start(*words, env=env, cwd=cwd, stdin=theirs, stdout=write, stderr=2)
        os.close(theirs)
        os.close(write)
        return process, os.fdopen(ours, "w"), os.fdopen(read)

    def run(
        self, *words: str, env: Mapping[str, str], cwd: Path, stdin: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Do what `python -m WORDS…` does, to its end."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            theirs, ours = os.pipe()
            files = {"stdin": theirs, "stdout": out.fileno(), "stderr": err.fileno()}
            process = self.start(*words, env=env, cwd=cwd, **files)
            os.close(theirs)
            with os.fdopen(ours, "w", errors="surrogateescape") as typed:
                typed.write(stdin)
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            return subprocess.CompletedProcess(words, code, _written(out), _written(err))


def _written(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@contextmanager
def nursery(folder: Path) -> Iterator[Nursery]:
    """The nursery of a folder, for as long as the block runs; the first who comes starts it."""
    place = folder / "nursery"
    with _line() as line:
        # It leaves with the last of those who have come, and looks for others under the same lock.
        with place.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                _found(place)
            line.connect(str(place))
        yield Nursery(line)


def _line() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _found(place: Path) -> None:
    with _line() as listener:
        listener.bind(str(place))
        listener.listen(_LONGEST_QUEUE)
        number = listener.fileno()
        # Whoever starts it has imported the same, measured.
        process = subprocess.Popen(
            [sys.executable, "-m", "fakes.nursery", str(place), str(number)],
            env=python(measured=False), pass_fds=[number], stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    # Nobody waits for its end: others may need it longer.
    process.returncode = 0


def main(place: Path, number: int) -> None:
    """Bear processes until nobody orders any more."""
    # What it imports stays: neither it nor a process that ends looks through it for garbage.
    gc.disable()
    _import_everything()
    let_threads_end()
    gc.freeze()
    gc.enable()
    _Mother(place, socket.socket(fileno=number)).live()


class _Mother:
    """The process that forks, as it sees itself."""

    def __init__(self, place: Path, listener: socket.socket) -> None:
        self._place, self._listener = place, listener
        self._lock = place.with_suffix(".lock").open()
        self._lines: dict[int, socket.socket] = {}
        self._alive: dict[int, _Alive] = {}
        self._news = select.poll()
        self._news.register(listener, select.POLLIN)

    def live(self) -> None:
        """Bear what is ordered, until nobody is there who could order anything."""
        while self._lines or not self._leaves():
            for ready, _ in self._news.poll():
                self._attend_to(ready)

    def _leaves(self) -> bool:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if is_asked := bool(select.select([self._listener], [], [], 0)[0]):
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        else:
            self._place.unlink(missing_ok=True)
        return not is_asked

    def _attend_to(self, ready: int) -> None:
        if ready == self._listener.fileno():
            line, _ = self._listener.accept()
            self._lines[line.fileno()] = line
            self._news.register(line, select.POLLIN)
        elif ready in self._alive:
            self._news.unregister(ready)
            self._alive.pop(ready).tell()
        elif (born := self._bear(self._lines[ready])) is None:
            self._news.unregister(ready)
            self._lines.pop(ready).close()
        else:
            self._alive[born.watch] = born
            self._news.register(born.watch, select.POLLIN)

    def _bear(self, line: socket.socket) -> "_Alive | None":
        """One more process; None when nobody orders any more."""
        order, files, *_ = socket.recv_fds(line, _LONGEST, _FILES)
        if not order:
            return None
        mother = os.getpid()
        if (pid := os.fork()) == 0:
            # Who was killed has ended nothing of what it ordered: it goes with the last of them.
            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != mother:
                # It was killed before we had asked for that.
                os._exit(1)
            self._forget()
            os.close(files.pop())
            _end(_become(self._place, json.loads(order), files))
        *theirs, life = files
        for each in theirs:
            os.close(each)
        os.write(life, b"%d\n" % pid)
        return _Alive(pid, os.pidfd_open(pid), life)

    def _forget(self) -> None:
        """Close what is not a child's."""
        for each in (self._lock, self._listener, *self._lines.values(), *self._alive.values()):
            each.close()


class _Alive(NamedTuple):
    pid: int
    watch: int
    """Can be read when it has ended."""
    life: int
    """Where to say how it ended."""

    def tell(self) -> None:
        status = os.waitpid(self.pid, 0)[1]
        # Nobody may want to know any more.
        with suppress(BrokenPipeError):
            os.write(self.life, b"%d\n" % os.waitstatus_to_exitcode(status))
        self.close()

    def close(self) -> None:
        os.close(self.watch)
        os.close(self.life)


def _import_everything() -> None:
    """What a command imports when it comes to it, and what libraries make of it at first use."""
    import httpx
    import uvicorn.lifespan.off
    import uvicorn.protocols.http.h11_impl
    import uvicorn.protocols.websockets.websockets_sansio_impl

    from gonogo.server.app import routes

    del uvicorn
    import_all()
    httpx.AsyncHTTPTransport()
    for route in routes():
        route.matches({"type": "http", "method": "GET", "path": "/", "root_path": ""})
    asyncio.run(_ask_a_model())
    _carry_out_everything()


def _carry_out_everything() -> None:
    """What is made at first use: the tree of commands, statements, schemas, what works here."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        demo.lay_out(work)
        # Whatever this machine lacks: what comes of it is for tests to say.
        environment = {
            **python(measured=False), "GONOGO_HOME": f"{folder}/home",
            "GONOGO_CONFIG": f"{folder}/none", "GONOGO_BACKGROUND": "false",
        }  # fmt: skip
        for words in (
            ["run", "Mend it", "-C", str(work), "--model", "demo", "--yes=all"],
            ["sessions", "list"], ["plans", "list", "--json"], ["approvals", "list"],
        ):  # fmt: skip
            _in_here("gonogo", words, environment)


def _in_here(module: str, words: list[str], environment: Mapping[str, str]) -> None:
    """Do what `python -m MODULE WORDS…` does, without a word and in this very process."""
    before, given = dict(os.environ), sys.argv
    _surround(environment)
    sys.argv = [module, *words]
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        try:
            _run(module)
        finally:
            sys.argv = given
            _surround(before)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _surround(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


async def _ask_a_model() -> None:
    """A first request, on which the libraries beneath build their schemas."""
    from gonogo.domain.tool_calls import ModelRequest, UserText
    from gonogo.llm import ModelSettings, open_model

    server = await asyncio.start_server(_greet, "127.0.0.1", 0)
    async with server:
        address = "http://{}:{}/v1".format(*server.sockets[0].getsockname())
        settings = ModelSettings(name="openai:greeter", base_url=address, api_key="x")
        model = open_model(settings, {})
        said = UserText(content="Good morning")
        request = ModelRequest(agent="ask", thread="main", system="", messages=(said,))
        await model.request(request, str)
        await model.aclose()


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(_GREETING)
    writer.close()


def _become(place: Path, order: dict[str, Any], files: list[int]) -> int:
    """Be the process that was ordered. Gives its exit code."""
    os.setsid()
    # Whoever started the tests may be deaf to the end of a terminal.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for number, each in enumerate(files[:3]):
        os.dup2(each, number)
    for each in files:
        os.close(each)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", 1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    _surround(order["environment"])
    if _MEASURING[1] in os.environ:
        coverage.process_startup(force=True)
    os.chdir(order["folder"])
    background.spawn = partial(_spawn, place)
    module, *sys.argv[1:] = order["words"]
    return _run(module)


def _spawn(place: Path, variables: Mapping[str, str]) -> Process:
    """What a command starts for the work of others, as one that starts at once."""
    said, says = os.pipe()
    with _line() as line, open(os.devnull, "wb") as nothing:
        line.connect(str(place))
        files = {"stdout": nothing.fileno(), "stderr": says}
        words = ("gonogo", *background.SERVES)
        process = Nursery(line).start(*words, env=variables, cwd=Path.cwd(), **files)
    os.close(says)
    process.stderr = os.fdopen(said, "rb")
    return process


def _run(module: str) -> int:
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """End as a Python does, but leave what it has imported to the kernel: that is most of it."""
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
    _end(0)
