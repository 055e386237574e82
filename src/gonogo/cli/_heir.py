"""Staying with the runtime for hours: who owns the folder may end, and somebody takes its place.

A door that an editor or another agent holds open is a client of the owner of the state folder. When
that ends, however it ends, the door's process takes the folder over, or finds that another has; its
client asks again meanwhile, so what was under way goes on. The other way round it gives way to a
server that wants the folder, as soon as nothing is under way.
"""

import logging
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from gonogo.cli._folder import Folder, hold
from gonogo.cli._interrupts import Interrupts
from gonogo.cli._owner import GLANCE, LOOK, PATIENCE, answers, is_busy, owning, silent, with_model
from gonogo.cli._setup import environment
from gonogo.client import Client, EventBody
from gonogo.domain.messages import ClientMessage
from gonogo.settings import Settings

if TYPE_CHECKING:
    from gonogo.runtime import Runtime

SUCCESSOR = "--see-off"
_COURTESY = 10.0
"""Seconds that other commands may still take when a server wants the folder."""
_AGAIN = 5.0
"""Seconds after which an owner that could not begin tries again."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
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
async def lasting(settings: Settings) -> AsyncGenerator[Place]:
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
        async with _Guest(folder) as client, Interrupts().heeded():
            yield Place(folder, client, heir)
        group.cancel_scope.cancel()


class _Guest(Client):
    """A client that asks again while nobody owns the folder; a command that does stays for it."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(uds=folder.address, token=folder.read_token(), patience=PATIENCE)
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
