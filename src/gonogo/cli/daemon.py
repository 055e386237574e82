"""How a command reaches the runtime: as a client of who owns the state folder, or by owning it.

Whoever holds the folder's lock serves it on a Unix socket: a server, the process in the background,
or a command that does the work itself. Every other command finds the socket and is a client.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import httpx
from msgspec import Struct, field

from gonogo import __version__
from gonogo.cli.background import (
    GLANCE,
    PATIENCE,
    answers,
    facts_of_this,
    leaves,
    other_keys,
    runs_in_background,
    silent,
    start,
    stay_while_needed,
)
from gonogo.cli.folder import Folder, environment, hold, read_settings
from gonogo.cli.language import named_locale, own_locale, own_words
from gonogo.cli.session.interrupts import Interrupts
from gonogo.cli.support import Exit, complain
from gonogo.client import Client, Unreachable, over_socket
from gonogo.domain.errors import because
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.i18n import say
from gonogo.settings import Settings

if TYPE_CHECKING:
    from gonogo.runtime import Runtime


LOOK = 0.25
LONG = 86_400.0
"""Seconds that the database may be away from a command whose own process carries the work out."""
_POLITE = 1.0
_PLANS = 100
_LONG_LOG = 10 << 20
"""Bytes after which a log is put away, in the place of the one before."""
_SUCCESSION = 5.0
"""Seconds in which a process that was stopped may be followed by one of another version."""
TOKEN_NAME = "state-folder"  # noqa: S105 - its name, not the secret


class RuntimeLink(Struct, frozen=True):
    """A way to the runtime."""

    client: Client
    runtime: "Runtime | None"
    """The runtime, where this process is the owner."""
    interrupts: Interrupts = field(default_factory=Interrupts)
    folder: Folder | None = None
    """The state folder, on whose disk the work depends."""


@asynccontextmanager
async def connected(given: Mapping[str, Any] | None = None) -> AsyncGenerator[Client]:
    """A client for a command that only looks; where nobody owns the folder, nothing is set going.

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
        looks: Where nobody owns the folder, open it without setting anything going; but the place
            of a process in the background that was killed is taken.
        door: The command is there for an editor or an agent, for as long as that is.

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
        # What does all by itself needs the place, where that is not in use.
        await leaves(folder)
    give_up = anyio.current_time() + PATIENCE
    while True:
        with folder.visited() as inside:
            if inside and await answers(folder):
                async with _client(folder, settings, revives=starts, always=door) as client:
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
    """Own the folder for the time of a command; None where somebody else does."""
    with folder.owned() as ours, ExitStack() as last:
        if not ours:
            yield None
        elif looks:
            async with _idle(folder, settings) as link, link.interrupts.heeded():
                yield link
        else:
            async with owning(folder, settings) as link, link.interrupts.heeded():
                yield link
                await _see_work_off(link.client)
                await _see_guests_off(folder, last)


@asynccontextmanager
async def glance(
    folder: Folder, settings: Settings, *, alone: bool
) -> AsyncGenerator[Client | None]:
    """A client for one short look; None where nobody can be asked now. Signals are the caller's.

    Args:
        alone: Where nobody owns the folder, open it for this look, without setting anything going.
    """
    with folder.visited() as inside:
        if inside and await answers(folder):
            async with _client(folder, settings) as client:
                yield client
            return
    with folder.owned() if alone else nullcontext(False) as ours:
        if not ours:
            yield None
            return
        async with _idle(folder, settings) as link:
            yield link.client


async def _suited(folder: Folder) -> None:
    """Have a process in the background that is of another version, or has other keys, give way.

    One that works goes on, and the difference is said.
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
    """Stay for what opening the folder set going: a step that is cut off may ask a person."""
    told = False
    while await is_busy(client):
        if not told:
            complain(own_words("A plan is running; this command stays until it ends or waits."))
            told = True
        await anyio.sleep(LOOK)


async def is_busy(client: Client) -> bool:
    """Whether a subtask of some plan is running."""
    running = await client.plans(status=PlanStatus.RUNNING, limit=_PLANS)
    states = (subtask.status for plan in running.plans for subtask in plan.subtasks)
    return SubtaskStatus.RUNNING in states


async def _see_guests_off(folder: Folder, last: ExitStack) -> None:
    """Stay for the commands that are our clients; `last` then keeps new ones out."""
    began, told = anyio.current_time(), False
    while True:
        if hold(last, folder.closed()):
            return
        if not told and anyio.current_time() > began + _POLITE:
            complain(
                own_words("Done. Waiting for other gonogo commands that work through this one.")
            )
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
            # Somebody closed the runtime under us.
            group.cancel_scope.cancel()

        folder.write_facts(facts_of_this(kind))
        await leave_token(runtime, folder)
        group.start_soon(serve_here)
        try:
            await ready.wait()
            async with _client(folder, settings, busy=LONG) as client:
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
    from gonogo.cli.within import WithinProcess
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
    """Be the process in the background: carry out what commands ask for, at nobody's terminal."""
    settings = read_settings({**given, "workspace": Path("/")})
    folder = Folder(settings.home)
    folder.prepare()
    with folder.owned() as ours, ExitStack() as last, suppress(KeyboardInterrupt):
        if not ours:
            # Another was faster, and is as good.
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
    """What is written from now on is for the log: who started this process has heard enough."""
    log = os.open(folder.log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _log_to(folder: Folder) -> None:
    """What goes wrong inside is for the log; the terminal belongs to the person."""
    from gonogo.telemetry import setup_logging

    file = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    if os.fstat(file).st_size > _LONG_LOG:
        os.close(file)
        folder.log.replace(folder.log.with_suffix(".log.1"))
        file = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    setup_logging("WARNING", stream=os.fdopen(file, "w", buffering=1))


async def leave_token(runtime: "Runtime", folder: Folder) -> None:
    """Have a token for this machine's commands in the folder.

    It outlives its owner, so that a command whose owner has ended finds the next one. One that was
    revoked is made anew.
    """
    from gonogo.domain.errors import Unauthorized
    from gonogo.domain.identity import Role

    with suppress(Unauthorized):
        await runtime.people.authenticate(folder.read_token() or "")
        return
    _, secret = await runtime.people.create_token(runtime.owner, TOKEN_NAME, Role.ADMIN)
    folder.write_token(secret)


async def _serve(runtime: "Runtime", folder: Folder, ready: anyio.Event) -> None:
    from gonogo.server import NEW_LISTENER, serve

    await serve(
        runtime, port=None, uds=folder.address, on_ready=lambda _: ready.set(),
        more=[NEW_LISTENER],
    )  # fmt: skip


class _Reviving(httpx.AsyncBaseTransport):
    """The way to the process in the background, which starts another where that was killed.

    One that was stopped is started again only for who is there for long, such as an editor.
    """

    def __init__(self, folder: Folder, settings: Settings, *, always: bool) -> None:
        self._folder, self._settings, self._always = folder, settings, always
        self._way = over_socket(folder.address)
        self._lock = anyio.Lock()
        self._stopped_since: float | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask the owner; where none listens, nothing was sent yet."""
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
        """Nobody owns the folder; another command may be about to start the next process.

        Raises:
            Unreachable: there was time for that.
        """
        now = anyio.current_time()
        self._stopped_since = self._stopped_since or now
        if now > self._stopped_since + _SUCCESSION:
            raise Unreachable(because("The work was stopped"))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._way.aclose()


def _client(
    folder: Folder, settings: Settings, busy: float = 0, *, revives: bool = False,
    always: bool = False,
) -> Client:  # fmt: skip
    way = _Reviving(folder, settings, always=always) if revives else None
    return Client(
        uds=folder.address, token=folder.read_token(), busy=busy, transport=way,
        patience=PATIENCE if revives else 0, opening=_opening(settings),
    )  # fmt: skip


def _opening(settings: Settings) -> dict[str, Any]:
    """What sessions of this command are opened with, whoever carries them out."""
    from gonogo.llm import detect

    # Where a file says who is asked for what, that decides.
    has_roles = settings.models_file.is_file()
    fields = {
        "workspace": str(settings.workspace), "locale": named_locale(environment()),
        "model": None if has_roles else settings.model or detect(environment()),
        "unattended": settings.unattended or None,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}
