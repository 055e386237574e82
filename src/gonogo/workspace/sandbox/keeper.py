"""Run between us and a program: when we say so or are gone, it ends all that the program is.

Run by its text, with a bare interpreter, so it imports nothing of ours. It holds one end of a
pipe whose other end only we have; that one closes when we end, however we end. Whatever the program
starts becomes this process's child when its own parent dies, so nothing runs away. If it is this
process that is killed, the program goes with it.

Where another machine may take our work over, it also hears each moment that the work is ours still;
when it has not heard so for a few seconds, as when we are stopped, it ends the program as well.
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
    """Start the program: in our group and session, so that whoever kills those has it too."""
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
    """Kill what is left, and what is left of that, until there is no child."""
    while True:
        for process in {child, *_children()}:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _over(child: int) -> int | None:
    """Take the dead; gives how the program ended, if it did."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                return os.waitstatus_to_exitcode(status)
            if pid == 0:
                break
    return None


def _close_others(*kept: int) -> None:
    """Close what is the program's alone: held here too, its end would be seen by nobody."""
    for name in os.listdir("/dev/fd"):
        if int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


def main(lifeline: int, seconds: float, command: list[str]) -> int:
    """Run the program until it ends, or until nobody holds the other end of the pipe.

    Args:
        seconds: For which the pipe may be silent; 0: for ever.
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
