"""Commands as people and scripts run them: real processes, with a terminal or without one.

They are forks of one that has imported what they need; one that is said to be `whole` begins with a
new Python.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from fakes.nursery import Nursery, Process, python
from fakes.template import lay_out
from gonogo.cli.folder import Folder

SECONDS = 60
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[[int], Process | subprocess.Popen[bytes]]


def environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {
        **python(),
        "GONOGO_HOME": str(home),
        "GONOGO_CONFIG": str(home / "no-config"),
        "TERM": "xterm",
        "GONOGO_BACKGROUND": "false",
        **(more or {}),
    }


def end_background(home: Path) -> None:
    """End the process in the background of a state folder, if there is one."""
    folder, until = Folder(home), time.monotonic() + SECONDS
    while folder.is_owned():
        owner = folder.owner()
        if owner.isdecimal():
            os.kill(int(owner), signal.SIGKILL)
            return
        # One that begins says a moment later who it is; one that leaves says so no more.
        assert time.monotonic() < until, owner
        time.sleep(0.01)


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, start: Start) -> None:
        self.output = ""
        self._read = 0
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (50, 200))
        self.process = start(theirs)
        os.close(theirs)

    def expect(self, text: str, seconds: float = SECONDS) -> str:
        """Wait until the command has written a text that was not expected before."""
        until = time.monotonic() + seconds
        while text not in self.output[self._read :]:
            assert time.monotonic() < until, f"no {text!r} in:\n{self.output}"
            if not self._more(until) and text not in self.output[self._read :]:
                raise AssertionError(f"ended without {text!r}:\n{self.output}")
        end = self.output.index(text, self._read) + len(text)
        passed, self._read = self.output[self._read : end], end
        return passed

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self, seconds: float = SECONDS) -> int:
        """Wait until the command has ended; its exit code."""
        until = time.monotonic() + seconds
        while self._more(until):
            assert time.monotonic() < until, self.output
        return self.process.wait(timeout=max(1, until - time.monotonic()))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=60)
        os.close(self._ours)

    def _more(self, until: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return True
        try:
            read = os.read(self._ours, 65_536)
        except OSError:
            return False
        self.output += _COLOURS.sub("", read.decode(errors="replace")).replace("\r\n", "\n")
        return bool(read)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    lay_out(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def gonogo(home: Path, tmp_path: Path, born: Nursery) -> Run:
    """Run a command without a terminal, to its end."""

    def run(
        *words: str,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        cwd: Path = tmp_path,
        whole: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        where = {"env": environment(home, env), "cwd": cwd, "timeout": SECONDS}
        if not whole:
            return born.run("gonogo", *words, stdin=stdin, **where)
        command = [sys.executable, "-m", "gonogo", *words]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, **where
        )

    return run


def _hears_hangups() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def terminal(home: Path, tmp_path: Path, born: Nursery) -> Iterator[Callable[..., Terminal]]:
    """Run a command, or a Python script, at a terminal."""
    opened: list[Terminal] = []

    def start(
        *words: str,
        env: Mapping[str, str] | None = None,
        script: str | None = None,
        whole: bool = False,
    ) -> Terminal:
        what = ["-c", script] if script else ["-m", "gonogo"]
        where = {"env": environment(home, env), "cwd": tmp_path}

        def begin(end: int) -> Process | subprocess.Popen[bytes]:
            files = {"stdin": end, "stdout": end, "stderr": end}
            if not script and not whole:
                return born.start("gonogo", *words, **files, **where)
            command = [sys.executable, *what, *words]
            # Where nobody may hang up on the tests, this one is still told so.
            return subprocess.Popen(
                command, start_new_session=True, preexec_fn=_hears_hangups, **files, **where
            )

        terminal = Terminal(begin)
        opened.append(terminal)
        return terminal

    yield start
    for one in opened:
        one.close()
