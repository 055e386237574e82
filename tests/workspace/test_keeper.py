"""The small programs between us and a command: one keeps it, one opens its port in a box.

They run by their text and import nothing of ours, so here they run as they do there.
"""

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from gonogo.workspace.sandbox import doorway, keeper

LIMIT = 60
PYTHON = (sys.executable, "-I", "-S")
ORPHANED = """(sh -c 'echo $$ >pid' &)
while ! [ -s pid ] || [ -e /proc/$(cat pid) ]; do :; done
exit 5"""
"""A child of its child dies, is nobody's, and is taken; only then it ends."""


class Kept:
    """A program, its keeper, and our end of the keeper's pipe."""

    def __init__(self, command: tuple[str, ...], folder: Path, seconds: float) -> None:
        theirs, self.ours = os.pipe()
        self.keeper = Popen(
            [*PYTHON, keeper.__file__, str(theirs), str(seconds), *command],
            cwd=folder, pass_fds=(theirs,), start_new_session=True,
            stdin=PIPE, stdout=PIPE, stderr=PIPE,
        )  # fmt: skip
        os.close(theirs)

    def cut(self) -> None:
        if self.ours >= 0:
            os.close(self.ours)
            self.ours = -1

    def end(self) -> tuple[int, bytes, bytes]:
        out, err = self.keeper.communicate(timeout=LIMIT)
        return self.keeper.returncode, out, err


@contextmanager
def kept(folder: Path, *command: str, seconds: float = 0) -> Iterator[Kept]:
    found = Kept(command, folder, seconds)
    try:
        yield found
    finally:
        found.cut()
        found.end()


@pytest.mark.parametrize(
    ("command", "end"),
    [
        (("sh", "-c", "echo out; echo err >&2; exit 7"), (7, b"out\n", b"err\n")),
        (("sh", "-c", "kill -TERM $$"), (143, b"", b"")),
        (("true",), (0, b"", b"")),
        (("sh", "-c", ORPHANED), (5, b"", b"")),
        (("./none",), (127, b"", b"./none: No such file or directory\n")),
    ],
)
def test_a_keeper_ends_as_its_program_does(
    tmp_path: Path, command: tuple[str, ...], end: tuple[int, bytes, bytes]
) -> None:
    with kept(tmp_path, *command) as found:
        assert found.end() == end


def test_a_keeper_that_hears_nothing_for_so_long_as_it_was_told_ends_its_program(
    tmp_path: Path,
) -> None:
    began = time.monotonic()
    with kept(tmp_path, "sleep", "60", seconds=0.6) as found:
        for _ in range(6):
            os.write(found.ours, b".")
            time.sleep(0.2)
        assert found.keeper.poll() is None
        assert found.end()[0] == 128 + signal.SIGKILL
    assert time.monotonic() - began >= 1.4


def test_a_keeper_ends_its_program_once_nobody_holds_the_other_end(tmp_path: Path) -> None:
    with kept(tmp_path, "sh", "-c", "echo $$; exec sleep 300") as found:
        pid = int(found.keeper.stdout.readline())
        found.cut()
        assert found.keeper.wait(LIMIT) == 137
    assert not Path(f"/proc/{pid}").exists()


def test_a_program_holds_no_descriptor_of_its_keepers(tmp_path: Path) -> None:
    with kept(tmp_path, "ls", "/proc/self/fd") as found:
        # The last one is that of the folder which is listed.
        assert found.end() == (0, b"0\n1\n2\n3\n", b"")


def test_what_a_program_closes_is_closed_though_it_goes_on(tmp_path: Path) -> None:
    script = "exec <&- >&-; echo ready >&2; exec sleep 300"
    with kept(tmp_path, "sh", "-c", script) as found:
        assert found.keeper.stderr.readline() == b"ready\n"
        assert select.select([found.keeper.stdout], [], [], LIMIT)[0]
        assert found.keeper.stdout.read() == b""
        with pytest.raises(BrokenPipeError):
            os.write(found.keeper.stdin.fileno(), b"x")


class Door:
    """A box's port on its way out, and the command that waits for it."""

    def __init__(self) -> None:
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(LIMIT)
        self.command = Popen(
            [*PYTHON, doorway.__file__, str(theirs.fileno()), "/usr/bin/env"],
            pass_fds=(theirs.fileno(),), stdout=PIPE, env={"A": "b", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        theirs.close()

    def said(self) -> list[str]:
        out, _ = self.command.communicate(timeout=LIMIT)
        return sorted(out.decode().splitlines())


@pytest.fixture
def door() -> Iterator[Door]:
    found = Door()
    yield found
    found.ours.close()
    found.command.kill()
    found.command.communicate()


def test_a_command_is_told_of_the_port_that_was_handed_out(door: Door) -> None:
    said, (handed,), _, _ = socket.recv_fds(door.ours, 8, 1)
    with socket.socket(fileno=handed) as port:
        host, number = port.getsockname()
        door.ours.send(b".")
        url = f"http://127.0.0.1:{number}"
        names = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy")

        assert (said, host) == (b".", "127.0.0.1")
        assert door.said() == sorted(
            ["A=b", "LC_ALL=C.UTF-8", *(f"{each}={url}" for each in names)]
        )


@pytest.mark.parametrize("answer", [b"", b"x"])
def test_a_command_whose_port_nobody_takes_does_not_begin(door: Door, answer: bytes) -> None:
    _, (handed,), _, _ = socket.recv_fds(door.ours, 8, 1)
    os.close(handed)
    door.ours.sendall(answer)
    door.ours.close()

    assert door.said() == []
    assert door.command.returncode == 126
