"""The system calls that no command in a box gets: a seccomp filter, as the kernel reads it.

Namespaces do not divide everything. The kernel's keyrings are inherited, sockets to the machine's
hypervisor lead out of any network, and io_uring would open them past a filter.
"""

import errno
import os
import platform
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
_FAMILIES = (1, 2, 10, 16)
"""Unix, IPv4, IPv6 and netlink, each of which a namespace or the file system divides."""
_X32 = 0x40000000


@dataclass(frozen=True, slots=True)
class _Machine:
    arch: int
    socket: int
    missing: tuple[int, ...]
    """keyctl, add_key, request_key, bpf, userfaultfd, perf_event_open, io_uring_setup."""


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, (250, 248, 249, 321, 323, 298, 425)),
    "aarch64": _Machine(0xC00000B7, 198, (219, 217, 218, 280, 282, 241, 425)),
}


@contextmanager
def filter_fd() -> Generator[int | None]:
    """A descriptor that gives the filter; None on machines that we have no numbers for."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        yield None
        return
    read, write = os.pipe()
    try:
        with os.fdopen(write, "wb") as pipe:
            pipe.write(b"".join(_program(machine)))
        yield read
    finally:
        os.close(read)


def _program(machine: _Machine) -> Iterator[bytes]:
    yield _step(_LOAD, _ARCH)
    yield from _unless(_EQUAL, machine.arch, errno.ENOSYS)
    yield _step(_LOAD, _NUMBER)
    yield from _if(_AT_LEAST, _X32, errno.ENOSYS)
    for number in machine.missing:
        yield from _if(_EQUAL, number, errno.ENOSYS)
    yield _step(_EQUAL, machine.socket, 1, 0)
    yield _step(_RETURN, _ALLOW)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    for family in _FAMILIES:
        yield _step(_EQUAL, family, 0, 1)
        yield _step(_RETURN, _ALLOW)
    yield _step(_RETURN, _ERRNO | errno.EAFNOSUPPORT)


def _if(code: int, value: int, error: int) -> Iterator[bytes]:
    yield _step(code, value, 0, 1)
    yield _step(_RETURN, _ERRNO | error)


def _unless(code: int, value: int, error: int) -> Iterator[bytes]:
    yield _step(code, value, 1, 0)
    yield _step(_RETURN, _ERRNO | error)


def _step(code: int, value: int, met: int = 0, unmet: int = 0) -> bytes:
    return struct.pack("=HBBI", code, met, unmet, value)
