"""The keeper runs between gonogo and a program: it ends all processes of the program with gonogo.

A bare interpreter gets this file's text as its program, so it imports nothing of gonogo. It has one
end of a pipe; only gonogo has the other end, which closes when gonogo ends, in whatever way, or
wants the program to end. Processes that the program starts become children of the keeper when their
own parents die, so none escapes. If the keeper itself is killed, the program is killed too.

If another machine may take the work over, gonogo also tells the keeper regularly that it still has
the work. After a few silent seconds, for example because gonogo is suspended, it ends the program.
"""

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

_PDEATHSIG, _SUBREAPER = 1, 36


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _started(command: list[str], lifeline: int) -> int:
    """Start the program in our process group and session, so that a kill of those ends it too."""
    child = os.fork()
    if child:
        return child
    try:
        _prctl(_PDEATHSIG, signal.SIGKILL)
        os.close(lifeline)
        os.execvp(command[0], command)  # noqa: S606 - what was asked for
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="replace"))
    os._exit(127)


def _children() -> list[int]:
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children") as listed:
            return [int(word) for word in listed.read().split()]
    except OSError:
        return []


def _end_all(child: int) -> None:
    """Kill the remaining processes, again and again, until there is no child."""
    while True:
        for process in {child, *_children()}:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _over(child: int) -> int | None:
    """Reap dead children, and return the program's exit code if it has ended."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                return os.waitstatus_to_exitcode(status)
            if pid == 0:
                break
    return None


def _close_others(*kept: int) -> None:
    """Close the program's descriptors: while open here, nobody would see the program close them."""
    for name in os.listdir("/dev/fd"):
        if int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


def main(lifeline: int, seconds: float, command: list[str]) -> int:
    """Run the program until it ends, or until the other end of the pipe is closed.

    Args:
        seconds: How long the pipe may be silent; 0: without limit.
    """
    _prctl(_SUBREAPER, 1)
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waker)
    child = _started(command, lifeline)
    _close_others(2, lifeline, woken, waker)
    code, heard = None, time.monotonic()
    while code is None:
        left = heard + seconds - time.monotonic() if seconds else None
        ready = select.select([lifeline, woken], [], [], None if left is None else max(left, 0))[0]
        if not ready or (lifeline in ready and not os.read(lifeline, 512)):
            break
        if lifeline in ready:
            heard = time.monotonic()
        with suppress(BlockingIOError):
            os.read(woken, 512)
        code = _over(child)
    _end_all(child)
    return 128 + signal.SIGKILL if code is None else code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
