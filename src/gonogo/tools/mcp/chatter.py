"""What a server of tools says without being asked, and when that is too much.

Nothing that we need ever comes unasked. Some servers log where messages should be, tell of their
progress or ask for a sign of life, so a good deal of that is passed over. A flood ends the server:
reading it would take the time of everybody else, and writing it down would fill the disk.
"""

import logging
from dataclasses import dataclass, field

import anyio

from gonogo.domain.errors import Reason, because

MOST_MESSAGE = 4 << 20
"""Bytes of one message."""
JUNK, REQUEST, REOPENED = 20, 10, 40
"""What counts as so many notifications: a line that is no message, a request to us, and that we
must ask again for the rest of an answer."""
_UNASKED, _UNASKED_BURST = 100, 2_000
"""Notifications a second, and at once."""
_BYTES, _BYTES_BURST = 4 << 20, 64 << 20
_LINE = 1 << 10
"""Bytes that a line counts besides its own."""
_KEPT, _SHOWN = 2_000, 300
"""Bytes of a program's last words, and characters that are shown of what a server said."""
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Allowance:
    """What may still come: it fills steadily, up to a burst."""

    rate: float
    burst: float
    left: float = field(init=False)
    since: float = field(default_factory=anyio.current_time)

    def __post_init__(self) -> None:
        self.left = self.burst

    def take(self, amount: float) -> bool:
        """Whether there was still so much."""
        now = anyio.current_time()
        self.left = min(self.burst, self.left + (now - self.since) * self.rate) - amount
        self.since = now
        return self.left >= 0


class Chatter:
    """All that one life of a server says besides its answers."""

    def __init__(self, server: str) -> None:
        """Begin to listen.

        Args:
            server: Its name, for the log.
        """
        self._server = server
        self._unasked = _Allowance(_UNASKED, _UNASKED_BURST)
        self._bytes = _Allowance(_BYTES, _BYTES_BURST)
        self._words = b""
        self._junk = 0
        self.gone = anyio.Event()
        """There is nobody at the other end any more, or somebody who is not listened to."""
        self.why: str | None = None
        """What we stopped listening for."""

    def words(self, chunk: bytes) -> None:
        """Keep the last of what a program says beside the protocol."""
        self._words = (self._words + chunk)[-_KEPT:]

    def came(self, size: int, lines: int = 1) -> bool:
        """Count what came, asked for or not. False: it is not listened to any more."""
        if not self._bytes.take(size + lines * _LINE):
            self.end("it writes too much too fast")
        return self.why is None

    def unasked(self, weight: float = 1) -> bool:
        """Count what came unasked. False: the server is not listened to any more."""
        if not self._unasked.take(weight):
            said = f"{self._junk} lines that are no messages" if self._junk else "what nobody asked"
            self.end(f"it does not stop writing {said}")
        return self.why is None

    def junk(self, line: bytes) -> bool:
        """Count a line that is no message. False: the server is not listened to any more."""
        self._junk += 1
        if self._junk == 1:
            _LOG.warning(
                "MCP server %s writes what is no message; this is said once: %s",
                self._server, _shown(line),
            )  # fmt: skip
        return self.unasked(JUNK)

    def end(self, why: str) -> None:
        """Listen no more."""
        if self.why is None:
            self.why = why
            _LOG.warning("MCP server %s is ended: %s", self._server, why)
        self.gone.set()

    def late(self, seconds: float) -> Reason:
        """Why a call has no answer, when there is still somebody who could give one."""
        if not self._junk:
            return because("its server timed out: no answer within {seconds:g} s", seconds=seconds)
        return because(
            "its server timed out: no answer within {seconds:g} s that can be read, "
            "and {lines} lines that are no messages",
            seconds=seconds, lines=self._junk,
        )  # fmt: skip

    def doubt(self, otherwise: str) -> Reason:
        """Why a call has no answer."""
        if self.why is not None:
            return because("its server was ended: {why}", why=self.why)
        return because("its server ended: {why}", why=self.reason(otherwise))

    def reason(self, otherwise: str) -> str:
        """Why it is over: what we ended it for, or else this, with its last words."""
        if self.why is not None:
            return f"it was ended: {self.why}"
        junk = f"; {self._junk} lines that it wrote are no messages" if self._junk else ""
        lines = self._words.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"{otherwise}{junk}; it said: {last[:_SHOWN]}" if last else f"{otherwise}{junk}"


def _shown(line: bytes) -> str:
    return repr(line[:_SHOWN].decode("utf-8", "replace"))
