"""The process that owns the state folder, who takes it over, and how a command finds it."""

import logging
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, aclosing, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
from msgspec import Struct, field

from gonogo.cli.folder import Folder, environment, hold, read_settings
from gonogo.cli.session.interrupts import Interrupts
from gonogo.cli.support import Stop, complain
from gonogo.client import Client, EventBody
from gonogo.domain.messages import ClientMessage
from gonogo.domain.states import PlanStatus, SubtaskStatus
from gonogo.settings import Settings

if TYPE_CHECKING:
    from gonogo.runtime import Runtime


# Reaching the runtime: through the process that owns the state folder, or by becoming it.
#
# Whoever holds the folder's lock serves it on a Unix socket; every other command finds the socket
# and is a client. A command that finds nobody opens the runtime itself, serves it for as long as it
# runs, and talks to it the same way.

PATIENCE = 30.0
"""Seconds that an owner may take to answer, while it starts or ends."""
GLANCE, LOOK = 0.05, 0.25
LONG = 86_400.0
"""Seconds that the database may be away from a command whose own process carries the work out."""
_POLITE = 1.0
_PLANS = 100
TOKEN_NAME = "state-folder"  # noqa: S105 - its name, not the secret


class RuntimeLink(Struct, frozen=True):
    """A way to the runtime."""

    client: Client
    runtime: "Runtime | None"
    """The runtime, where this process is the owner."""
    interrupts: Interrupts = field(default_factory=Interrupts)


@asynccontextmanager
async def connected(given: Mapping[str, Any] | None = None) -> AsyncGenerator[Client]:
    """A client for a command that only looks; where nobody owns the folder, nothing is set going.

    Args:
        given: Settings from the command line.

    Raises:
        Stop: an owner lives but does not answer.
    """
    async with linked(read_settings(given), goes_on=True, looks=True) as link:
        yield link.client


@asynccontextmanager
async def linked(
    settings: Settings, *, goes_on: bool = False, looks: bool = False, yields: bool = False
) -> AsyncGenerator[RuntimeLink]:
    """A way to the runtime; Ctrl-C and SIGTERM cancel what is done with it.

    Args:
        goes_on: No new work is begun: where no model is named, what was left undone goes on with
            the one that it was begun with.
        looks: Where nobody owns the folder, open it without setting anything going.
        yields: Ends by itself before long, so that a server may wait for that.

    Raises:
        Stop: an owner lives but does not answer.
        KeyboardInterrupt: after the clean-up that a signal caused.
    """
    folder = Folder(settings.home)
    folder.prepare()
    give_up = anyio.current_time() + PATIENCE
    while True:
        with folder.owned(yields=yields) as ours, ExitStack() as last:
            if ours and looks:
                async with _idle(folder, settings) as link, link.interrupts.heeded():
                    yield link
                return
            if ours:
                chosen = with_model(folder, settings, goes_on=goes_on)
                async with owning(folder, chosen) as link, link.interrupts.heeded():
                    yield link
                    await _see_work_off(link.client)
                    await _see_guests_off(folder, last)
                return
        with folder.visited() as inside:
            if inside and await answers(folder):
                async with _client(folder, settings) as client:
                    link = RuntimeLink(client, None)
                    async with link.interrupts.heeded():
                        yield link
                return
        if anyio.current_time() > give_up:
            raise silent(folder)
        await anyio.sleep(GLANCE)


def silent(folder: Folder) -> Stop:
    """What is said of an owner that lives and does not answer."""
    return Stop(
        f"Process {folder.owner()} owns {folder.home} and does not answer; "
        "wait for it to end, or stop it"
    )


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
    with folder.owned(yields=True) if alone else nullcontext(False) as ours:
        if not ours:
            yield None
            return
        async with _idle(folder, settings) as link:
            yield link.client


async def _see_work_off(client: Client) -> None:
    """Stay for what opening the folder set going: a step that is cut off may ask a person."""
    told = False
    while await is_busy(client):
        if not told:
            complain("a plan of this state folder is running; stays until it ends or waits")
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
            complain("done; waits for other gonogo commands that work through this one")
            told = True
        await anyio.sleep(GLANCE)


@asynccontextmanager
async def owning(folder: Folder, settings: Settings) -> AsyncGenerator[RuntimeLink]:
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

        group.start_soon(serve_here)
        try:
            await ready.wait()
            await leave_token(runtime, folder)
            async with _client(folder, settings, busy=LONG) as client:
                yield RuntimeLink(client, runtime)
            ended = True
        except Exception:
            ended = True
            raise
        finally:
            folder.socket.unlink(missing_ok=True)
            runtime.close_streams()
            group.cancel_scope.cancel()
    if not ended:
        raise KeyboardInterrupt


@asynccontextmanager
async def _idle(folder: Folder, settings: Settings) -> AsyncGenerator[RuntimeLink]:
    """Open the runtime for this command alone; the caller holds the lock for that moment."""
    import httpx

    from gonogo.runtime import Runtime
    from gonogo.server import create_app

    folder.socket.unlink(missing_ok=True)
    _log_to(folder)
    async with Runtime.open(settings, idle=True) as runtime:
        await leave_token(runtime, folder)
        transport = httpx.ASGITransport(create_app(runtime))
        token = folder.read_token()
        async with Client(
            "http://localhost", transport=transport, token=token, opening=_opening(settings)
        ) as client:
            yield RuntimeLink(client, runtime)


def with_model(folder: Folder, settings: Settings, *, goes_on: bool) -> Settings:
    """The settings, with the model that the folder's work goes on with where none is named."""
    if settings.model is not None:
        if not goes_on:
            folder.remember_model(settings.model)
        return settings
    from gonogo.llm import detect

    if not goes_on or detect(environment()) is not None:
        return settings
    return settings.model_copy(update={"model": folder.remembered_model()})


def _log_to(folder: Folder) -> None:
    """What goes wrong inside is for the log; the terminal belongs to the person."""
    from gonogo.telemetry import setup_logging

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
    from gonogo.server import serve

    await serve(runtime, port=None, uds=folder.address, on_ready=lambda _: ready.set())


async def answers(folder: Folder) -> bool:
    """Whether an owner is there and listens."""
    if folder.read_token() is None or not folder.socket.exists():
        return False
    try:
        async with await anyio.connect_unix(folder.address):
            return True
    except OSError:
        return False


def _client(folder: Folder, settings: Settings, busy: float = 0) -> Client:
    return Client(
        uds=folder.address, token=folder.read_token(), busy=busy, opening=_opening(settings)
    )


def _opening(settings: Settings) -> dict[str, Any]:
    """What sessions of this command are opened with, whoever carries them out."""
    from gonogo.llm import detect

    fields = {
        "workspace": str(settings.workspace), "locale": settings.locale,
        "model": settings.model or detect(environment()), "unattended": settings.unattended or None,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


# Staying with the runtime for hours: who owns the folder may end, and somebody takes its place.
#
# A door that an editor or another agent holds open is a client of the owner of the state folder.
# When that ends, however it ends, the door's process takes the folder over, or finds that another
# has; its client asks again meanwhile, so what was under way goes on. The other way round it gives
# way to a server that wants the folder, as soon as nothing is under way.

SUCCESSOR = "--see-off"
_COURTESY = 10.0
"""Seconds that other commands may still take when a server wants the folder."""
_AGAIN = 5.0
"""Seconds after which an owner that could not begin tries again."""
_LOG = logging.getLogger(__name__)


class ProcessPlace(Struct, frozen=True):
    """Where this process stands."""

    folder: Folder
    client: Client
    """Asks whoever owns the folder."""
    heir: "_Heir"

    @property
    def runtime(self) -> "Runtime | None":
        """The runtime, while this process is the owner."""
        return self.heir.runtime

    async def is_needed(self) -> bool:
        """Whether something is under way, or others work, in the runtime of this process."""
        if self.runtime is None:
            return False
        with self.folder.closed() as alone:
            return not alone or not self.runtime.is_idle or await is_busy(self.client)


@asynccontextmanager
async def lasting(settings: Settings) -> AsyncGenerator[ProcessPlace]:
    """A way to the runtime that outlives its owner; it is left without waiting for anything.

    Raises:
        Stop: an owner lives but does not answer.
        KeyboardInterrupt: after the clean-up that a signal caused.
    """
    folder = Folder(settings.home)
    folder.prepare()
    async with anyio.create_task_group() as group:
        heir = _Heir(folder, settings)
        await group.start(heir.stay)
        async with _Guest(folder, settings) as client, Interrupts().heeded():
            yield ProcessPlace(folder, client, heir)
        group.cancel_scope.cancel()


class _Guest(Client):
    """A client that asks again while nobody owns the folder; a command that does stays for it."""

    def __init__(self, folder: Folder, settings: Settings) -> None:
        super().__init__(
            uds=folder.address, token=folder.read_token(), patience=PATIENCE,
            opening=_opening(settings),
        )  # fmt: skip
        self._folder = folder

    async def send(
        self, session_id: str | None, message: ClientMessage | Mapping[str, Any]
    ) -> AsyncGenerator[EventBody]:
        with self._folder.visited():
            async with aclosing(super().send(session_id, message)) as events:
                async for event in events:
                    yield event


class _Heir:
    """Owns the folder whenever nobody else does, and no server wants to."""

    def __init__(self, folder: Folder, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self.runtime: Runtime | None = None
        self._reached = False

    async def stay(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Have somebody own the folder, until cancelled.

        Raises:
            Stop: in the beginning somebody does, and does not answer.
        """
        give_up = anyio.current_time() + PATIENCE
        while True:
            if not self._folder.is_served():
                await self._try(task_status)
            if not self._reached and await answers(self._folder):
                self._told(task_status)
            if not self._reached and anyio.current_time() > give_up:
                raise silent(self._folder)
            await anyio.sleep(LOOK if self._reached else GLANCE)

    async def _try(self, task_status: anyio.abc.TaskStatus[None]) -> None:
        try:
            with self._folder.owned(yields=True) as ours:
                if ours:
                    await self._own(task_status)
        except Exception:
            if not self._reached:
                raise
            # Such as rules that have a defect now; whoever asks meanwhile waits, and is told.
            _LOG.exception("the place of the owner could not be taken")
            await anyio.sleep(_AGAIN)

    async def _own(self, task_status: anyio.abc.TaskStatus[None]) -> None:
        chosen = with_model(self._folder, self._settings, goes_on=self._reached)
        with ExitStack() as last:
            async with owning(self._folder, chosen) as link:
                assert link.runtime is not None  # noqa: S101 - that of this process
                self.runtime = link.runtime
                self._told(task_status)
                try:
                    await self._until_wanted(link.runtime, last)
                finally:
                    self.runtime = None

    async def _until_wanted(self, runtime: "Runtime", last: ExitStack) -> None:
        """Wait for a server that wants the folder, and for nothing to be under way."""
        since: float | None = None
        while True:
            await anyio.sleep(LOOK)
            if not self._folder.is_served():
                since = None
                continue
            since = since or anyio.current_time()
            late = anyio.current_time() > since + _COURTESY
            if runtime.is_idle and (hold(last, self._folder.closed()) or late):
                return

    def _told(self, task_status: anyio.abc.TaskStatus[None]) -> None:
        if not self._reached:
            self._reached = True
            task_status.started()


def start_successor(settings: Settings, left: Mapping[str, int]) -> None:
    """Have a process of its own take over what is under way here, see it through, and end.

    Args:
        left: The sessions in which something is, each with the last event that was seen.
    """
    words = [word for pair in left.items() for word in (SUCCESSOR, f"{pair[0]}@{pair[1]}")]
    model = ["--model", settings.model] if settings.model else []
    subprocess.Popen(  # noqa: S603 - our own command
        [
            sys.executable, "-m", "gonogo", "acp", "-C", str(settings.workspace), *model,
            *(words or [SUCCESSOR, ""]),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,
    )  # fmt: skip
