"""The small programs between us and a command: two keep it, one opens its port in a box.

They run by their text and import nothing of ours, so here they run as they do there.
"""

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from gonogo.workspace.sandbox import doorway, keeper, process

LIMIT = 60
PYTHON = (sys.executable, "-I", "-S")
ORPHANED = """(sh -c 'echo $$ >pid' &)
while ! [ -s pid ] || [ -e /proc/$(cat pid) ]; do :; done
exit 5"""
"""A child of its child dies, is nobody's, and is taken; only then it ends."""


ANY = [*PYTHON, keeper.__file__]
OF_A_BOX = ["bash", "--noprofile", "--norc", "-c", process._KEEPS_BOX, "keeper"]
SILENT = 60.0
"""Seconds that are never silent here."""


class Kept:
    """A program, its keeper, and our end of the keeper's pipe."""

    def __init__(
        self, command: tuple[str, ...], folder: Path, seconds: float, words: list[str]
    ) -> None:
        theirs, self.ours = os.pipe()
        self.keeper = Popen(
            [*words, str(theirs), str(seconds), *command],
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
def kept(
    folder: Path, *command: str, seconds: float = SILENT, by: list[str] = ANY
) -> Iterator[Kept]:
    found = Kept(command, folder, seconds, by)
    try:
        yield found
    finally:
        found.cut()
        found.end()


@pytest.mark.parametrize("by", [ANY, OF_A_BOX])
@pytest.mark.parametrize(
    ("command", "end"),
    [
        (("sh", "-c", "echo out; echo err >&2; exit 7"), (7, b"out\n", b"err\n")),
        (("sh", "-c", "kill -TERM $$"), (143, b"", b"")),
        (("true",), (0, b"", b"")),
    ],
)
def test_a_keeper_ends_as_its_program_does(
    tmp_path: Path, by: list[str], command: tuple[str, ...], end: tuple[int, bytes, bytes]
) -> None:
    with kept(tmp_path, *command, by=by) as found:
        assert found.end() == end


@pytest.mark.parametrize(
    ("command", "end"),
    [
        (("sh", "-c", ORPHANED), (5, b"", b"")),
        (("./none",), (127, b"", b"./none: No such file or directory\n")),
    ],
)
def test_a_keeper_without_a_box_takes_orphans_and_names_what_it_cannot_start(
    tmp_path: Path, command: tuple[str, ...], end: tuple[int, bytes, bytes]
) -> None:
    with kept(tmp_path, *command, seconds=0) as found:
        assert found.end() == end


def outlives_its_silence(found: Kept, seconds: float) -> bool:
    """Whether a program is there still when it has been heard of for twice as long as it may be
    silent: on a machine that does nothing else for so long, it is not."""
    for _ in range(6):
        with suppress(BrokenPipeError):
            os.write(found.ours, b".")
        time.sleep(seconds / 3)
    return found.keeper.poll() is None


@pytest.mark.parametrize("by", [ANY, OF_A_BOX])
def test_a_keeper_that_hears_nothing_for_so_long_as_it_was_told_ends_its_program(
    tmp_path: Path, by: list[str]
) -> None:
    for seconds in (0.6, 3, 15):
        with kept(tmp_path, "sleep", "300", seconds=seconds, by=by) as found:
            outlived = outlives_its_silence(found, seconds)
            # The box's keeper goes with it.
            assert found.end()[0] == (137 if by is ANY else -signal.SIGKILL)
        if outlived:
            break
    assert outlived


@pytest.mark.parametrize("by", [ANY, OF_A_BOX])
def test_a_keeper_ends_its_program_once_nobody_holds_the_other_end(
    tmp_path: Path, by: list[str]
) -> None:
    with kept(tmp_path, "sh", "-c", "echo ready; exec sleep 300", by=by) as found:
        assert found.keeper.stdout.readline() == b"ready\n"
        found.cut()
        assert found.keeper.wait(LIMIT) == (137 if by is ANY else -signal.SIGKILL)
        # All that held its output has gone.
        assert found.keeper.stdout.read() == b""


@pytest.mark.parametrize("by", [ANY, OF_A_BOX])
def test_a_program_holds_no_descriptor_of_its_keepers(tmp_path: Path, by: list[str]) -> None:
    with kept(tmp_path, "ls", "/proc/self/fd", by=by) as found:
        # The last one is that of the folder which is listed.
        assert found.end() == (0, b"0\n1\n2\n3\n", b"")


@pytest.mark.parametrize("by", [ANY, OF_A_BOX])
def test_a_program_can_be_interrupted_as_without_a_keeper(tmp_path: Path, by: list[str]) -> None:
    ask = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    ours = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    with kept(tmp_path, sys.executable, "-c", ask, by=by) as found:
        assert found.end() == (0, f"{ours}\n".encode(), b"")


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
