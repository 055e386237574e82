"""What may stand between gonogo and PostgreSQL: a line that breaks in a COMMIT, a proxy, a pooler.

They listen on a Unix socket in a folder of their own and speak the server's protocol just far
enough (https://www.postgresql.org/docs/current/protocol-message-formats.html).
"""

import select
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

_NAME = ".s.PGSQL.5432"
_COMMIT = b"\0COMMIT\0"
"""As it begins that has no name."""
_QUERY, _PARSE, _SYNC, _READY, _BYE = b"Q", b"P", b"S", b"Z", b"X"


def _exactly(line: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = line.recv(count - len(found))
        if not piece:
            raise ConnectionError("the other side is gone")
        found += piece
    return found


def _startup(line: socket.socket) -> bytes:
    length = _exactly(line, 4)
    return length + _exactly(line, struct.unpack("!I", length)[0] - 4)


def _message(line: socket.socket) -> tuple[bytes, bytes]:
    """The kind of the next message, and what it says."""
    kind, length = _exactly(line, 1), _exactly(line, 4)
    return kind, _exactly(line, struct.unpack("!I", length)[0] - 4)


def _send(line: socket.socket, kind: bytes, said: bytes) -> None:
    line.sendall(kind + struct.pack("!I", len(said) + 4) + said)


class Between:
    """Something at an address of its own, with a server behind it."""

    is_shut = False
    """Whether new connections break at once."""

    def __init__(self, folder: Path, server: Path) -> None:
        folder.mkdir()
        self._folder, self._server = folder, server
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(folder / _NAME))
        self._door.listen()
        threading.Thread(target=self._take, daemon=True).start()

    def url(self, database: str) -> str:
        """The address of a database behind it."""
        return f"postgresql://postgres@/{database}?host={quote(str(self._folder), safe='')}"

    def close(self) -> None:
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                threading.Thread(target=self._served, args=(near,), daemon=True).start()

    def _served(self, near: socket.socket) -> None:
        with near, suppress(OSError):
            if not self.is_shut:
                self._serve(near, _startup(near))

    def _serve(self, near: socket.socket, startup: bytes) -> None:
        raise NotImplementedError

    def _connected(self, startup: bytes) -> socket.socket:
        far = socket.socket(socket.AF_UNIX)
        far.connect(str(self._server / _NAME))
        far.sendall(startup)
        return far


class Breaking(Between):
    """A line that can be told to break in the middle of the next COMMIT."""

    breaks: Literal["before", "after"] | None = None
    """Whether the server hears of that COMMIT; either way its answer does not come back."""
    broken = 0

    def _serve(self, near: socket.socket, startup: bytes) -> None:
        with self._connected(startup) as far:
            self._answer(far, near)
            breaks = None
            while True:
                kind, said = _message(near)
                if self.breaks and kind == _PARSE and said.startswith(_COMMIT):
                    breaks, self.breaks, self.broken = self.breaks, None, self.broken + 1
                if breaks == "before":
                    return
                _send(far, kind, said)
                if kind == _BYE:
                    return
                if kind in (_QUERY, _SYNC):
                    self._answer(far, None if breaks else near)
                    if breaks:
                        return

    def _answer(self, far: socket.socket, near: socket.socket | None) -> None:
        kind = b""
        while kind != _READY:
            kind, said = _message(far)
            if near is not None:
                _send(near, kind, said)


class Proxy(Between):
    """Keeps the connections to a server that is gone; new ones reach another."""

    gone = 0
    """How often the server went, from one moment to the next and without a word."""

    def _serve(self, near: socket.socket, startup: bytes) -> None:
        gone = self.gone
        with self._connected(startup) as far:
            other = {near: far, far: near}
            while True:
                for source in select.select([near, far], [], [])[0]:
                    if not (piece := source.recv(1 << 16)):
                        return
                    if gone == self.gone:
                        other[source].sendall(piece)


class Pooler(Between):
    """Lends a client a connection of the server for one transaction, the last one used first."""

    def __init__(self, folder: Path, server: Path, size: int) -> None:
        self._free: list[socket.socket] = []
        self._all: list[socket.socket] = []
        self._made, self._size = 0, size
        self._news = threading.Condition()
        self._greeting = b""
        super().__init__(folder, server)

    def close(self) -> None:
        super().close()
        for far in self._all:
            far.close()

    def _serve(self, near: socket.socket, startup: bytes) -> None:
        self._give_back(self._lent(startup))
        near.sendall(self._greeting)
        while True:
            kind, said = _message(near)
            if kind == _BYE:
                return
            far = self._lent(startup)
            _send(far, kind, said)
            while not self._is_over(near, far, kind):
                kind, said = _message(near)
                _send(far, kind, said)
            self._give_back(far)

    def _is_over(self, near: socket.socket, far: socket.socket, kind: bytes) -> bool:
        """Pass an answer on, if one is due; whether the transaction has ended with it."""
        if kind not in (_QUERY, _SYNC):
            return False
        while True:
            kind, said = _message(far)
            _send(near, kind, said)
            if kind == _READY:
                return said == b"I"

    def _lent(self, startup: bytes) -> socket.socket:
        with self._news:
            if not self._free and self._made < self._size:
                self._made += 1
                self._free.append(self._greeted(startup))
            assert self._news.wait_for(lambda: self._free, timeout=60)
            return self._free.pop()

    def _give_back(self, far: socket.socket) -> None:
        with self._news:
            self._free.append(far)
            self._news.notify_all()

    def _greeted(self, startup: bytes) -> socket.socket:
        far, greeting, kind = self._connected(startup), b"", b""
        self._all.append(far)
        while kind != _READY:
            kind, said = _message(far)
            greeting += kind + struct.pack("!I", len(said) + 4) + said
        self._greeting = greeting
        return far
