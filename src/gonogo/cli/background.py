"""The process that carries the work out when no command does: it outlives terminals and editors.

A command that finds nobody at work starts `gonogo serve --socket-only --exit-when-idle`, in a
session of its own, and is its client. There is one for each state folder; its lock says so. It ends
when no command is connected, nothing runs, and nothing is due soon; what is due later is done at
the next start.
"""

import hmac
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from gonogo import __version__
from gonogo.cli.folder import Folder, OwnerFacts, environment, hold
from gonogo.cli.support import Stop
from gonogo.settings import Settings

if TYPE_CHECKING:
    from gonogo.runtime import Runtime

SERVES = ("serve", "--socket-only", "--exit-when-idle")
"""The command that the process is."""
PATIENCE = 30.0
"""Seconds that an owner may take to answer, while it starts or ends."""
GLANCE = 0.05
_LEAVES = 2.0
"""Seconds in which an idle process that is asked to has left."""
_SOON = timedelta(minutes=10)
"""What is due in less keeps the process there."""
_LOOK = 5.0
_NAMES = frozenset(
    "PATH HOME USER LOGNAME SHELL TZ LANG LANGUAGE TMPDIR PYTHONPATH PYTHONUNBUFFERED VIRTUAL_ENV "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY "
    "http_proxy https_proxy all_proxy no_proxy ENABLE_AUTO_REPLANNING".split()
)
_OF_SESSIONS = frozenset({"GONOGO_UNATTENDED", "GONOGO_WORKSPACE"})
_PREFIXES = (
    "GONOGO_", "LC_", "XDG_", "AUTO_REPLANNING_", "AWS_", "AZURE_", "GOOGLE_", "OTEL_",
)  # fmt: skip
_KEY = re.compile(r"[A-Z0-9_]+_(?:API_KEY|BASE_URL|TOKEN)|OPENAI_\w+")
_WORD = re.compile(r"\w+")


def runs_in_background(settings: Settings, *, door: bool = False) -> bool:
    """Whether a process of its own is to carry the work of this command out.

    Args:
        door: The command is an editor's or an agent's, which have no terminal.
    """
    if settings.db is not None and not settings.db.startswith("sqlite"):
        return False
    if settings.background is not None:
        return settings.background
    return not environment().get("CI") and (door or any(os.isatty(each) for each in range(3)))


# Starting it.


async def start(folder: Folder, settings: Settings) -> None:
    """Have the process answer, ours or that of a command that was faster.

    Raises:
        Stop: it does not start; the text is what it said of that.
    """
    child = spawn(minimal(environment(), settings))
    assert child.stderr is not None  # noqa: S101 - a pipe
    with child.stderr:
        await _until_it_answers(folder, child)
    # It lives on, and nobody waits for its end.
    child.returncode = 0


def spawn(variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """The process, in a session of its own; what it says is to be read while it starts."""
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "gonogo", *SERVES],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=variables, start_new_session=True,
    )  # fmt: skip


async def _until_it_answers(folder: Folder, child: subprocess.Popen[bytes]) -> None:
    give_up = anyio.current_time() + PATIENCE
    while not await answers(folder):
        ended = child.poll()
        if ended == 0:
            return
        if ended is not None:
            if said := _last_words(child):
                raise Stop(said)
            raise Stop(
                "The background process ended immediately; read why in {log}", log=folder.log
            )
        if anyio.current_time() > give_up:
            raise silent(folder)
        await anyio.sleep(GLANCE)


def _last_words(child: subprocess.Popen[bytes]) -> str:
    said = child.stderr.read() if child.stderr else b""
    return said.decode(errors="replace").strip().removeprefix("gonogo: ")


async def answers(folder: Folder) -> bool:
    """Whether an owner is there and listens."""
    if folder.read_token() is None or not folder.socket.exists():
        return False
    try:
        async with await anyio.connect_unix(folder.address):
            return True
    except OSError:
        return False


def silent(folder: Folder) -> Stop:
    """What is said of an owner that lives and does not answer."""
    return Stop(
        "Process {pid} uses {home} and does not answer; wait for it to end, or end it with: "
        "kill {pid}",
        pid=folder.owner(), home=folder.home,
    )  # fmt: skip


def minimal(given: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The variables that the process gets: ours, the system's, and those that hold its secrets."""
    files = (settings.mcp_file, settings.hooks_file, settings.models_file)
    named = {word for file in files for word in _named_in(file)}
    kept = {name: value for name, value in given.items() if _is_kept(name, named)}
    return {**kept, "GONOGO_HOME": str(settings.home)}


def _is_kept(name: str, named: set[str]) -> bool:
    if name in _OF_SESSIONS:
        return False
    ours = name in _NAMES or name in named or name.startswith(_PREFIXES)
    return ours or _KEY.fullmatch(name) is not None


def _named_in(file: Path) -> Iterator[str]:
    """The words of a file, of which some are names of variables."""
    with suppress(OSError, UnicodeDecodeError):
        yield from _WORD.findall(file.read_text(encoding="utf-8"))


# What an owner says of itself.


def facts_of_this(kind: Literal["background", "command", "server"]) -> OwnerFacts:
    """What this process says of itself while it owns the folder."""
    salt = secrets.token_hex(16)
    return OwnerFacts(
        pid=os.getpid(), version=__version__, kind=kind, since=datetime.now(UTC), salt=salt,
        keys=_digests(environment(), salt),
    )  # fmt: skip


def other_keys(facts: OwnerFacts) -> list[str]:
    """The provider's variables that this command has with other values than the owner."""
    ours = _digests(environment(), facts.salt)
    return sorted(name for name, digest in ours.items() if facts.keys.get(name) != digest)


def _digests(given: Mapping[str, str], salt: str) -> dict[str, str]:
    from gonogo.llm import provider_variables

    names = {
        *provider_variables(),
        "GONOGO_MODEL_API_KEY",
        "GONOGO_OPENAI_BASE_URL",
        "GONOGO_RECORD",
    }
    known = {name: given[name].encode(errors="replace") for name in names if given.get(name)}
    return {
        name: hmac.digest(salt.encode(), value, "sha256").hex() for name, value in known.items()
    }


# Ending it.


async def leaves(folder: Folder) -> bool:
    """Ask the process to leave if it is idle; whether it has left."""
    facts = folder.holder()
    if facts is None or facts.kind != "background":
        return not folder.is_owned()
    with suppress(ProcessLookupError):
        os.kill(facts.pid, signal.SIGUSR1)
    return await has_left(folder, _LEAVES)


async def has_left(folder: Folder, seconds: float) -> bool:
    """Wait until nobody owns the folder, for so long at most."""
    with anyio.move_on_after(seconds):
        while folder.is_owned():  # noqa: ASYNC110 - a lock tells nobody
            await anyio.sleep(GLANCE)
        return True
    return False


async def stay_while_needed(
    folder: Folder, runtime: "Runtime", linger: float, last: ExitStack
) -> None:
    """Wait until nothing is left to do; `last` then keeps new commands out."""
    since: float | None = None
    with anyio.open_signal_receiver(signal.SIGUSR1, signal.SIGHUP) as signals:
        while True:
            asked = await _asked(signals, min(_LOOK, max(linger / 4, GLANCE)))
            with ExitStack() as alone:
                if not (hold(alone, folder.closed()) and runtime.is_idle):
                    since = None
                    continue
                since = since or anyio.current_time()
                late = anyio.current_time() >= since + linger and not await _is_soon(runtime)
                if asked or late:
                    last.push(alone.pop_all())
                    return


async def _asked(signals: AsyncIterator[signal.Signals], seconds: float) -> bool:
    """Whether somebody asked for the end, within so many seconds."""
    with anyio.move_on_after(seconds):
        async for number in signals:
            if number == signal.SIGUSR1:
                return True
    return False


async def _is_soon(runtime: "Runtime") -> bool:
    due = await runtime.maintenance.next_due()
    return due is not None and due <= datetime.now(UTC) + _SOON
