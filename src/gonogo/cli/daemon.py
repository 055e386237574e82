"""How a command reaches the runtime: as a client of the state folder's owner, or by owning it.

Whoever holds the folder's lock serves it on a Unix socket: a server, the process in the background,
or a command that does the work itself. Every other command finds the socket and is a client.
"""

import hmac
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import httpx
from msgspec import Struct, field
from pydantic import BaseModel, TypeAdapter

from gonogo import __version__
from gonogo.cli.folder import Folder, OwnerFacts, environment, hold, read_settings
from gonogo.cli.session.interrupts import Interrupts
from gonogo.cli.support import Exit, Stop, complain, named_locale, own_locale, own_words
from gonogo.client import Client, Unreachable, over_socket
from gonogo.domain.base import Filter, Page
from gonogo.domain.errors import because
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.i18n import say
from gonogo.settings import Settings

if TYPE_CHECKING:
    from gonogo.domain.identity import Principal
    from gonogo.runtime import Runtime

# The background process carries the work out when no command does. It outlives terminals and
# editors.
#
# A command that finds no owner starts `gonogo serve --socket-only --exit-when-idle` in a session
# of its own, and becomes its client. The folder's lock ensures that there is one per state folder.
# It ends when no command is connected, nothing runs, and nothing is due soon; what is due later is
# done at the next start.

SERVES = ("serve", "--socket-only", "--exit-when-idle")
"""The command line of the background process."""
PATIENCE = 30.0
"""Seconds that an owner may take to answer, while it starts or ends."""
GLANCE = 0.05
_LEAVES = 2.0
"""Seconds in which an idle process ends after it was asked to."""
_SOON = timedelta(minutes=10)
"""The process does not end if something is due within this time."""
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
    """Whether a background process should carry out the work of this command.

    Args:
        door: The command serves an editor or an agent, which have no terminal.
    """
    if settings.db is not None and not settings.db.startswith("sqlite"):
        return False
    if settings.background is not None:
        return settings.background
    return not environment().get("CI") and (door or any(os.isatty(each) for each in range(3)))


# Starting it.


async def start(folder: Folder, settings: Settings) -> None:
    """Start the background process and wait until it, or that of a faster command, answers.

    Raises:
        Stop: it does not start; the text is its own error message.
    """
    child = spawn(minimal(environment(), settings))
    assert child.stderr is not None  # noqa: S101 - a pipe
    with child.stderr:
        await _until_it_answers(folder, child)
    # The process lives on; a return code keeps Python from warning that nobody waits for it.
    child.returncode = 0


def spawn(variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the process in a session of its own; the caller reads its errors while it starts."""
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
    """Return the error about an owner that lives but does not answer."""
    return Stop(
        "Process {pid} uses {home} and does not answer; wait for it to end, or end it with: "
        "kill {pid}",
        pid=folder.owner(), home=folder.home,
    )  # fmt: skip


def minimal(given: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The process's environment: gonogo's variables, the system's, and those with its secrets."""
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
    """All words of a file; some of them are names of variables."""
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
    """The model provider's variables whose values differ between this command and the owner."""
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
    """Ask the background process to end if it is idle; return whether it has ended."""
    facts = folder.holder()
    if facts is None or facts.kind != "background":
        return not folder.is_owned()
    with suppress(ProcessLookupError):
        os.kill(facts.pid, signal.SIGUSR1)
    return await has_left(folder, _LEAVES)


async def has_left(folder: Folder, seconds: float) -> bool:
    """Wait at most so many seconds until nobody owns the folder; return whether that is so."""
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
    """Whether somebody asks this process to end, within so many seconds."""
    with anyio.move_on_after(seconds):
        async for number in signals:
            if number == signal.SIGUSR1:
                return True
    return False


async def _is_soon(runtime: "Runtime") -> bool:
    due = await runtime.maintenance.next_due()
    return due is not None and due <= datetime.now(UTC) + _SOON


LOOK = 0.25
LONG = 86_400.0
"""Seconds that the database may be unreachable for a command that carries out the work itself."""
_STAYS = "A plan is running; this command ends when the plan ends or waits for you."
_POLITE = 1.0
_PLANS = 100
_LONG_LOG = 10 << 20
"""Bytes after which a log is rotated; it replaces the previous rotated one."""
_SUCCESSION = 5.0
"""Seconds in which a process of another version may follow one that was stopped."""
TOKEN_NAME = "state-folder"  # noqa: S105 - its name, not the secret


class RuntimeLink(Struct, frozen=True):
    """A way to the runtime."""

    client: Client
    runtime: "Runtime | None"
    """The runtime, if this process is the owner."""
    interrupts: Interrupts = field(default_factory=Interrupts)
    folder: Folder | None = None
    """The state folder; the work needs free space on its disk."""


@asynccontextmanager
async def connected(given: Mapping[str, Any] | None = None) -> AsyncGenerator[Client]:
    """A client for a command that only reads; if nobody owns the folder, no work is started.

    Args:
        given: Settings from the command line.

    Raises:
        Stop: an owner lives but does not answer.
    """
    async with linked(read_settings(given), looks=True) as link:
        yield link.client


@asynccontextmanager
async def linked(
    settings: Settings, *, looks: bool = False, door: bool = False
) -> AsyncGenerator[RuntimeLink]:
    """A way to the runtime; Ctrl-C and SIGTERM cancel what is done with it.

    Args:
        looks: The command only reads. If nobody owns the folder, open it without starting any
            work; but a background process that was killed is started again.
        door: The command serves an editor or an agent, for as long as that is connected.

    Raises:
        Stop: an owner lives but does not answer, or none can be started.
        KeyboardInterrupt: after the clean-up that a signal caused.
    """
    folder = Folder(settings.home)
    folder.prepare()
    starts = runs_in_background(settings, door=door)
    if starts and not looks:
        await _suited(folder)
    elif settings.background is False and not looks:
        # A command that does all the work itself needs the folder, so an idle owner must leave.
        await leaves(folder)
    give_up = anyio.current_time() + PATIENCE
    while True:
        with folder.visited() as inside:
            if inside and await answers(folder):
                async with client_of(folder, settings, revives=starts, always=door) as client:
                    link = RuntimeLink(client, None, folder=folder)
                    async with link.interrupts.heeded():
                        yield link
                return
        if starts and not folder.is_owned() and not (looks and folder.read_facts() is None):
            await start(folder, settings)
            continue
        ours = looks or not starts
        async with _alone(folder, settings, looks=looks) if ours else nullcontext() as link:
            if link is not None:
                yield link
                return
        if anyio.current_time() > give_up:
            raise silent(folder)
        await anyio.sleep(GLANCE)


@asynccontextmanager
async def _alone(
    folder: Folder, settings: Settings, *, looks: bool
) -> AsyncGenerator[RuntimeLink | None]:
    """Own the folder for the time of a command; gives None if somebody else owns it."""
    with folder.owned() as ours, ExitStack() as last:
        if not ours:
            yield None
        elif looks:
            async with _idle(folder, settings) as link, link.interrupts.heeded():
                yield link
        else:
            async with owning(folder, settings) as link, link.interrupts.heeded():
                try:
                    yield link
                except Exception:
                    # Only this command failed; the others still work through this process.
                    await _see_guests_off(folder, last)
                    raise
                await _see_work_off(link.client)
                await _see_guests_off(folder, last)


@asynccontextmanager
async def glance(
    folder: Folder, settings: Settings, *, alone: bool
) -> AsyncGenerator[Client | None]:
    """A client for one short look; None if nobody can be asked now. The caller handles signals.

    Args:
        alone: If nobody owns the folder, open it for this look, without starting any work.
    """
    with folder.visited() as inside:
        if inside and await answers(folder):
            async with client_of(folder, settings) as client:
                yield client
            return
    with folder.owned() if alone else nullcontext(False) as ours:
        if not ours:
            yield None
            return
        async with _idle(folder, settings) as link:
            yield link.client


async def _suited(folder: Folder) -> None:
    """Ask a background process of another version, or with other keys, to end.

    If it is at work, it goes on, and the user is told of the difference.
    """
    facts = folder.holder()
    if facts is None or facts.kind != "background":
        return
    locale = own_locale()
    if facts.version != __version__ and not await leaves(folder):
        complain(
            say("cli_other_version", locale, pid=facts.pid, theirs=facts.version, ours=__version__)
        )
    elif (names := other_keys(facts)) and not await leaves(folder):
        complain(say("cli_other_keys", locale, pid=facts.pid, names=", ".join(names)))


async def _see_work_off(client: Client) -> None:
    """Wait for the work that opening the folder started: cut off, it might have to ask a person."""
    told = False
    while await is_busy(client):
        if not told:
            complain(own_words(_STAYS))
            told = True
        await anyio.sleep(LOOK)


async def is_busy(client: Client) -> bool:
    """Whether a subtask of some plan is running."""
    running = await client.plans(status=PlanStatus.RUNNING, limit=_PLANS)
    states = (subtask.status for plan in running.plans for subtask in plan.subtasks)
    return SubtaskStatus.RUNNING in states


async def _see_guests_off(folder: Folder, last: ExitStack) -> None:
    """Wait until the commands that are our clients end; `last` then keeps new ones out."""
    began, told = anyio.current_time(), False
    while True:
        if hold(last, folder.closed()):
            return
        if not told and anyio.current_time() > began + _POLITE:
            complain(own_words("Waiting for other gonogo commands that use this process to end."))
            told = True
        await anyio.sleep(GLANCE)


@asynccontextmanager
async def owning(
    folder: Folder, settings: Settings, kind: Literal["background", "command"] = "command"
) -> AsyncGenerator[RuntimeLink]:
    """Open the runtime and serve it on the folder's socket; the caller holds the lock."""
    from gonogo.runtime import Runtime

    folder.socket.unlink(missing_ok=True)
    _log_to(folder)
    ready, ended = anyio.Event(), False
    async with Runtime.open(settings) as runtime, anyio.create_task_group() as group:

        async def serve_here() -> None:
            await _serve(runtime, folder, ready)
            # The server ended by itself, so the runtime was closed: end this command too.
            group.cancel_scope.cancel()

        folder.write_facts(facts_of_this(kind))
        await leave_token(runtime, folder)
        group.start_soon(serve_here)
        try:
            await ready.wait()
            async with client_of(folder, settings, busy=LONG) as client:
                yield RuntimeLink(client, runtime, folder=folder)
            ended = True
        except Exception:
            ended = True
            raise
        finally:
            folder.socket.unlink(missing_ok=True)
            folder.facts.unlink(missing_ok=True)
            runtime.close_streams()
            group.cancel_scope.cancel()
    if not ended:
        raise KeyboardInterrupt


@asynccontextmanager
async def _idle(folder: Folder, settings: Settings) -> AsyncGenerator[RuntimeLink]:
    """Open the runtime for this command alone; the caller holds the lock for that moment."""
    from gonogo.cli.daemon import WithinProcess
    from gonogo.runtime import Runtime

    folder.socket.unlink(missing_ok=True)
    _log_to(folder)
    async with Runtime.open(settings, idle=True) as runtime:
        await leave_token(runtime, folder)
        token = folder.read_token()
        async with Client(
            "http://localhost",
            transport=WithinProcess(runtime),
            token=token,
            opening=_opening(settings),
        ) as client:
            yield RuntimeLink(client, runtime, folder=folder)


async def run_in_background(given: Mapping[str, Any], *, until_idle: bool) -> Exit:
    """Be the background process: carry out what commands ask for, without a terminal."""
    settings = read_settings({**given, "workspace": Path("/")})
    folder = Folder(settings.home)
    folder.prepare()
    with folder.owned() as ours, ExitStack() as last, suppress(KeyboardInterrupt):
        if not ours:
            # Another process was faster and does the same.
            return Exit.DONE
        os.chdir("/")
        async with owning(folder, settings, "background") as link:
            assert link.runtime is not None  # noqa: S101 - that of this process
            _close_streams(folder)
            if not until_idle:
                await anyio.sleep_forever()
            await stay_while_needed(folder, link.runtime, settings.linger, last)
    return Exit.DONE


def _close_streams(folder: Folder) -> None:
    """Send standard output and errors to the log: whoever started this process needs no more."""
    log = os.open(folder.log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _log_to(folder: Folder) -> None:
    """Log internal errors to the log file; the terminal belongs to the person."""
    from gonogo.telemetry import setup_logging

    file = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    if os.fstat(file).st_size > _LONG_LOG:
        os.close(file)
        folder.log.replace(folder.log.with_suffix(".log.1"))
        file = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    setup_logging("WARNING", stream=os.fdopen(file, "w", buffering=1))


async def leave_token(runtime: "Runtime", folder: Folder) -> None:
    """Ensure that the folder has a token for this machine's commands.

    The token outlives the owner, so that a command whose owner has ended can use the next one. A
    revoked token is replaced.
    """
    from gonogo.domain.errors import Unauthorized
    from gonogo.domain.identity import Role

    with suppress(Unauthorized):
        await runtime.people.authenticate(folder.read_token() or "")
        return
    _, secret = await runtime.people.create_token(runtime.owner, TOKEN_NAME, Role.ADMIN)
    folder.write_token(secret)


async def _serve(runtime: "Runtime", folder: Folder, ready: anyio.Event) -> None:
    from gonogo.server import LISTENERS, NEW_LISTENER, serve

    await serve(
        runtime, port=None, uds=folder.address, on_ready=lambda _: ready.set(),
        more=[LISTENERS, NEW_LISTENER],
    )  # fmt: skip


class _Reviving(httpx.AsyncBaseTransport):
    """The way to the background process; if that was killed, it starts another one.

    A process that was stopped is started again only for long-lived clients, such as an editor.
    """

    def __init__(self, folder: Folder, settings: Settings, *, always: bool) -> None:
        self._folder, self._settings, self._always = folder, settings, always
        self._way = over_socket(folder.address)
        self._lock = anyio.Lock()
        self._stopped_since: float | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask the owner; if none listens, nothing was sent yet, so it is safe to try again."""
        try:
            answer = await self._way.handle_async_request(request)
        except httpx.ConnectError:
            async with self._lock:
                killed = self._folder.read_facts() is not None
                if self._folder.is_owned():
                    raise
                if not (killed or self._always):
                    self._wait_for_another()
                    raise
                await start(self._folder, self._settings)
            answer = await self._way.handle_async_request(request)
        self._stopped_since = None
        return answer

    def _wait_for_another(self) -> None:
        """Give another command time to start the next process, as nobody owns the folder.

        Raises:
            Unreachable: that time is over.
        """
        now = anyio.current_time()
        self._stopped_since = self._stopped_since or now
        if now > self._stopped_since + _SUCCESSION:
            raise Unreachable(because("The work was stopped"))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._way.aclose()


def client_of(
    folder: Folder, settings: Settings, busy: float = 0, *, revives: bool = False,
    always: bool = False,
) -> Client:  # fmt: skip
    """A client of the process that owns the folder."""
    way = _Reviving(folder, settings, always=always) if revives else None
    return Client(
        uds=folder.address, token=folder.read_token(), busy=busy, transport=way,
        patience=PATIENCE if revives else 0, opening=_opening(settings),
    )  # fmt: skip


def _opening(settings: Settings) -> dict[str, Any]:
    """The fields with which this command opens sessions, whoever carries them out."""
    from gonogo.llm import detect

    # If a file assigns models to roles, it decides.
    has_roles = settings.models_file.is_file()
    fields = {
        "workspace": str(settings.workspace), "locale": named_locale(environment()),
        "model": None if has_roles else settings.model or detect(environment()),
        "unattended": settings.unattended or None,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


# The way to the runtime of this process: no socket, and no web framework for frequent requests.
#
# The runtime's own verbs answer a few requests that only list or check, with the same bytes as a
# server would send. The server's app answers all other requests, and it also says what is wrong
# with a request.

_Words = Mapping[str, str]
_Answer = Callable[["Runtime", "Principal", _Words], Awaitable[BaseModel]]
_API_PATH = "/api/v1"
_JSON = {"Content-Type": "application/json"}


class WithinProcess(httpx.AsyncBaseTransport):
    """Passes a client's requests to a runtime in this process, as the owner of a token."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._app: httpx.ASGITransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer as a server does."""
        known = _ANSWERS.get(request.url.path) if request.method == "GET" else None
        if known is not None:
            # If anything goes wrong, the app gets the request and reports the error.
            with suppress(Exception):
                token = request.headers.get("Authorization", "").removeprefix("Bearer ")
                principal = await self._runtime.people.authenticate(token)
                said = await known(self._runtime, principal, dict(request.url.params))
                body = said.model_dump_json(exclude_none=True)
                return httpx.Response(200, headers=_JSON, content=body)
        if self._app is None:
            from gonogo.server import create_app

            self._app = httpx.ASGITransport(create_app(self._runtime))
        return await self._app.handle_async_request(request)


async def _plans(runtime: "Runtime", principal: "Principal", words: _Words) -> BaseModel:
    from gonogo.domain.plan_views import WantedPlans

    return await runtime.plans.page(principal, **WantedPlans.model_validate(words).model_dump())


async def _sessions(runtime: "Runtime", principal: "Principal", words: _Words) -> BaseModel:
    _refuse_others(words, {"limit", "offset"})
    return await runtime.sessions.page(principal, **Page.model_validate(words).model_dump())


async def _approvals(runtime: "Runtime", principal: "Principal", words: _Words) -> BaseModel:
    from gonogo.domain.views import WantedApprovals

    wanted = WantedApprovals.model_validate(words)
    return await runtime.approvals.page(principal, wanted.filter, wanted.before, wanted.limit)


async def _verified(runtime: "Runtime", principal: "Principal", words: _Words) -> BaseModel:
    _refuse_others(words, {"session_id"})
    only = TypeAdapter[str | None](Filter).validate_python(words.get("session_id"))
    return await runtime.audit.verify(principal, (), only)


def _refuse_others(words: _Words, known: set[str]) -> None:
    """Refuse unknown parameters, so that the app answers such a request."""
    if others := words.keys() - known:
        raise ValueError(others)


_ANSWERS: Mapping[str, _Answer] = {
    f"{_API_PATH}/plans": _plans,
    f"{_API_PATH}/sessions": _sessions,
    f"{_API_PATH}/approvals": _approvals,
    f"{_API_PATH}/audit/verify": _verified,
}
