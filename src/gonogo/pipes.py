"""File descriptors that messages come and go on: nobody blocks the event loop, nor a thread.

A thread that reads or writes could not be ended, so that a signal would be heard only once the
other side does something.
"""

import os
import stat

import anyio

_CHUNK = 65_536
_UNDIVIDED = 4_096
"""Bytes that a pipe which may be written to takes without blocking."""


async def read_some(source: int) -> bytes:
    """What comes next; nothing at the end, or where it cannot be read any more."""
    try:
        if not _is_regular(source):
            await anyio.wait_readable(source)
        return os.read(source, _CHUNK)
    except OSError:
        return b""


async def write_all(sink: int, data: bytes) -> None:
    """Write all of it.

    Raises:
        OSError: nobody reads any more.
    """
    regular = _is_regular(sink)
    while data:
        if not regular:
            await anyio.wait_writable(sink)
        data = data[os.write(sink, data[:_UNDIVIDED]) :]


def _is_regular(handle: int) -> bool:
    # A regular file never blocks, and cannot be waited for.
    return stat.S_ISREG(os.fstat(handle).st_mode)
