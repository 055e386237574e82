"""The state folder, and what a start reads: the settings, the folder's token, its owner."""

import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from gonogo.cli.support import Stop
from gonogo.settings import Settings


def read_settings(given: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings.

    Args:
        given: Settings from the command line; None leaves a setting as it is. A model given here
            does every kind of work, whatever the file of models says.
    """
    said: dict[str, Any] = {n: value for n, value in (given or {}).items() if value is not None}
    if "model" in said:
        said["models"] = Path(os.devnull)
    return Settings(**said)


def environment() -> Mapping[str, str]:
    """The environment variables of this process."""
    return os.environ


def program() -> str:
    """How this program is started, for printed commands that people copy."""
    if shutil.which("gonogo"):
        return "gonogo"
    started = Path(sys.argv[0]).absolute()
    return f"{sys.executable} -m gonogo" if started.suffix == ".py" else str(started)


# The state folder: who owns it, and how its owner is reached.
#
# A process owns the folder as long as it holds the lock. The kernel frees the lock when the process
# ends, however it ends, so a held lock always means a living process. The socket and the token are
# beside the lock, for the same user only.

_OPEN_FILES = Path("/proc/self/fd")
_LONGEST_SOCKET = 100
"""The kernel's limit for a socket's path is 108 bytes, on other systems 104."""


class OwnerFacts(Struct, frozen=True, kw_only=True):
    """What the owner of a state folder tells commands of the same user about itself."""

    pid: int
    version: str
    kind: Literal["background", "command", "server"]
    since: datetime
    salt: str
    keys: dict[str, str]
    """The variables that name a model's provider and its keys, each with a salted digest."""


class Folder(Struct, frozen=True):
    """The state folder and the names in it."""

    home: Path

    @property
    def lock(self) -> Path:
        """Held for life by the owner; its text is the owner's process id."""
        return self.home / "owner.lock"

    @property
    def guests(self) -> Path:
        """Shared by the commands that are clients of the owner."""
        return self.home / "guests.lock"

    @property
    def socket(self) -> Path:
        """Where the owner listens."""
        return self.home / "owner.sock"

    @property
    def token_file(self) -> Path:
        """The token with which clients identify themselves to any owner."""
        return self.home / "owner.token"

    @property
    def address(self) -> Path:
        """A path of the socket that the kernel accepts, however long the folder's path is.

        Raises:
            Stop: there is no such name on this system.
        """
        if len(os.fsencode(self.socket)) <= _LONGEST_SOCKET:
            return self.socket
        if not _OPEN_FILES.is_dir():
            raise Stop(
                "The path {home} is too long; set GONOGO_HOME to a shorter one", home=self.home
            )
        return _OPEN_FILES / str(_opened(self.home)) / self.socket.name

    @property
    def log(self) -> Path:
        """Where a command that owns the folder logs."""
        return self.home / "gonogo.log"

    @property
    def facts(self) -> Path:
        """The file with the owner's facts; it stays if the owner was killed."""
        return self.home / "owner.json"

    def prepare(self) -> None:
        """Create the folder for this user only.

        Raises:
            Stop: it belongs to somebody else.
        """
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self.home.stat()
        if found.st_uid != os.geteuid():
            raise Stop(
                "{home} belongs to another user; set GONOGO_HOME to a folder of yours",
                home=self.home,
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            self.home.chmod(0o700)

    @contextmanager
    def owned(self) -> Generator[bool]:
        """Own the folder for a block if nobody else does; gives whether this process owns it."""
        handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            ours = _taken(handle)
            if ours:
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
            yield ours
        finally:
            os.close(handle)

    def is_owned(self) -> bool:
        """Whether a process owns the folder."""
        with suppress(FileNotFoundError):
            handle = os.open(self.lock, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return not _taken(handle, fcntl.LOCK_SH)
            finally:
                os.close(handle)
        return False

    def visited(self) -> AbstractContextManager[bool]:
        """Be a guest of the owner, which then stays; gives False while the owner is leaving."""
        return self._at_guests(fcntl.LOCK_SH)

    def closed(self) -> AbstractContextManager[bool]:
        """Let no more guests in; gives False while some are there."""
        return self._at_guests(fcntl.LOCK_EX)

    @contextmanager
    def _at_guests(self, kind: int) -> Generator[bool]:
        handle = os.open(self.guests, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield _taken(handle, kind)
        finally:
            os.close(handle)

    def owner(self) -> str:
        """The owner's process id, as it wrote it."""
        said = self.lock.read_text(encoding="ascii", errors="replace").split()
        return said[0] if said else "unknown"

    def read_facts(self) -> "OwnerFacts | None":
        """The facts of the owner, or those that a killed owner left."""
        try:
            return msgspec.json.decode(self.facts.read_bytes(), type=OwnerFacts)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def holder(self) -> "OwnerFacts | None":
        """The facts of the process that owns the folder now; None: no owner, or no facts from it.

        Facts that a killed owner left do not count for its successor: by now, another process may
        have the killed one's id.
        """
        facts = self.read_facts() if self.is_owned() else None
        return facts if facts is not None and str(facts.pid) == self.owner() else None

    def write_facts(self, facts: "OwnerFacts") -> None:
        """Write the facts of this process, which owns the folder."""
        self._write(self.facts, msgspec.json.encode(facts).decode())

    def forget_facts(self) -> None:
        """Remove this process's facts, which shows that it ended and was not killed."""
        if (facts := self.read_facts()) is not None and facts.pid == os.getpid():
            self.facts.unlink(missing_ok=True)

    def read_token(self) -> str | None:
        """The token for clients of the owner; None while there is none."""
        return self._read(self.token_file)

    def write_token(self, secret: str) -> None:
        """Write the token for clients of this process, readable by this user only."""
        self._write(self.token_file, secret)

    def _read(self, path: Path) -> str | None:
        with suppress(FileNotFoundError, UnicodeDecodeError):
            said = path.read_text(encoding="ascii").strip()
            # Unprintable text is a damaged token; None has the owner make another.
            return said if said.isprintable() and said else None
        return None

    def _write(self, path: Path, text: str) -> None:
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        fresh.replace(path)


def hold(held: ExitStack, lock: AbstractContextManager[bool]) -> bool:
    """Try to take a lock, and keep it until the stack closes; return whether it was taken."""
    with ExitStack() as attempt:
        if attempt.enter_context(lock):
            held.push(attempt.pop_all())
            return True
    return False


@cache
def _opened(folder: Path) -> int:
    """Open the folder as a file descriptor that stays open as long as the process lives."""
    return os.open(folder, os.O_DIRECTORY | os.O_CLOEXEC)


def _taken(handle: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise Stop(
            "The state folder cannot be locked: {problem}; set GONOGO_HOME to a folder on a disk "
            "of this machine",
            problem=error.strerror,
        ) from error
    return True
