"""Reads and writes messages on file descriptors without blocking the event loop or a thread.

A thread that reads or writes cannot be stopped, so the process would react to a signal only when
the other side does something.
"""

import json
import os
import re
import stat
from contextlib import suppress

import anyio

_CHUNK = 65_536
_UNDIVIDED = 4_096
"""Bytes that a writable pipe takes without blocking."""
_HEAD = 256
"""Bytes at the beginning of an unreadable line in which its request id is searched."""
_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\])*"|-?\d{1,18})\s*[,}]')
_METHOD = re.compile(rb'"method"\s*:\s*"')


async def read_some(source: int) -> bytes:
    """Read the next bytes; empty at the end, or if the source cannot be read any more."""
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


class LineReader:
    """The lines that come on a descriptor; it must not be a terminal's.

    Args:
        longest: Bytes of a line. A longer line is cut to one byte more, so that it is noticed.
    """

    def __init__(self, source: int, longest: int) -> None:
        self._source, self._longest = source, longest
        self._held = bytearray()
        self._looked = 0

    async def next(self) -> bytes | None:
        """The next line that is not blank, even the last without a newline; None at the end."""
        while (line := await self._line()) is not None:
            if line.strip():
                return line
        return None

    async def _line(self) -> bytes | None:
        while (cut := self._held.find(b"\n", self._looked)) < 0:
            del self._held[self._longest + 1 :]
            self._looked = len(self._held)
            more = await read_some(self._source)
            if not more:
                last = bytes(self._held)
                self._held.clear()
                self._looked = 0
                return last or None
            self._held += more
        line = bytes(self._held[:cut])
        del self._held[: cut + 1]
        self._looked = 0
        return line


def request_id_of(line: bytes) -> int | str | None:
    """The id of an unreadable JSON-RPC request, if it is near the beginning of the line."""
    head = line[:_HEAD]
    found = _ID.search(head) if _METHOD.search(head) else None
    # An id with invalid UTF-8 or a control character cannot be sent back.
    with suppress(ValueError):
        return json.loads(found[1]) if found else None
    return None


def _is_regular(handle: int) -> bool:
    # A regular file never blocks, and cannot be waited for.
    return stat.S_ISREG(os.fstat(handle).st_mode)
