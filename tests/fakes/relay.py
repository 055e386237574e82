"""A line to a server that can be cut and mended."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

_PIECE = 1 << 16


class Relay:
    """Hands on what comes at its own address, both ways, while the line is whole."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._target = parts.hostname, parts.port
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_cut = False
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        threading.Thread(target=self._take, daemon=True).start()

    def cut(self) -> None:
        """Break every connection; new ones break at once."""
        with self._lock:
            self._is_cut = True
            ends, self._ends = self._ends, set()
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.cut()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                self._join(near)

    def _join(self, near: socket.socket) -> None:
        with self._lock:
            if self._is_cut:
                near.close()
                return
            far = socket.create_connection(self._target)
            self._ends |= {near, far}
        threading.Thread(target=_hand_on, args=(near, far), daemon=True).start()


@contextmanager
def relay(address: str) -> Iterator[Relay]:
    made = Relay(address)
    try:
        yield made
    finally:
        made.close()


def _hand_on(near: socket.socket, far: socket.socket) -> None:
    other = {near: far, far: near}
    with near, far, suppress(OSError):
        while True:
            for source in select.select([near, far], [], [])[0]:
                piece = source.recv(_PIECE)
                if not piece:
                    return
                other[source].sendall(piece)
