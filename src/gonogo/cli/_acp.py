"""`gonogo acp`: the door for editors, for as long as an editor is there.

An editor that is closed waits for nobody, so the command leaves at once. Where it owned the state
folder and something was under way, a process of its own takes its place, sees that through, and
ends.
"""

import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import anyio

from gonogo.cli._exits import Exit, Stop
from gonogo.cli._folder import Folder
from gonogo.cli._owner import Link, is_busy, linked
from gonogo.cli._pipes import own_pipes
from gonogo.cli._setup import environment, read_settings
from gonogo.client import Client
from gonogo.domain.errors import GonogoError
from gonogo.settings import Settings

SUCCESSOR = "--see-off"
_HINT = (
    "gonogo acp is started by an editor and speaks with it; "
    "see docs/how-to/editors.md, or start gonogo run at a terminal"
)


class _Gone(Exception):
    """The editor is gone, and what stays for others is not for its process to wait for."""


async def run_acp(directory: Path | None, model: str | None) -> Exit:
    """Speak with the editor until it is gone."""
    from gonogo.acp import Pipe, serve_editor

    if sys.stdin.isatty():
        raise Stop(_HINT, Exit.USAGE)
    settings = read_settings({"workspace": directory, "model": model})
    left: dict[str, int] = {}
    stays = False
    with own_pipes() as (source, sink):
        async with _leaving(settings) as link:
            left = await serve_editor(link.client, Pipe(source, sink), settings.locale)
            if link.runtime is not None:
                stays = bool(left) or await _is_needed(link.client, Folder(settings.home))
                raise _Gone
    if stays:
        _start_successor(settings, left)
    return Exit.DONE


async def see_off(seen: list[str], model: str | None, directory: Path | None) -> Exit:
    """Take the place of a command whose editor is gone, until nothing is under way.

    Args:
        seen: `SESSION@SEQ` for each session in which something was under way.
    """
    settings = read_settings({"workspace": directory, "model": model})
    async with linked(settings, goes_on=True) as link, anyio.create_task_group() as group:
        for each in seen:
            session_id, _, seq = each.partition("@")
            group.start_soon(_until_final, link.client, session_id, int(seq))
    return Exit.DONE


@asynccontextmanager
async def _leaving(settings: Settings) -> AsyncGenerator[Link]:
    """A way to the runtime that is left without waiting for what others do with it."""
    with suppress(_Gone):
        try:
            async with linked(settings) as link:
                yield link
        except* _Gone:
            raise _Gone from None


async def _is_needed(client: Client, folder: Folder) -> bool:
    with folder.closed() as alone:
        return not alone or await is_busy(client)


async def _until_final(client: Client, session_id: str, seen: int) -> None:
    with suppress(GonogoError):
        async with aclosing(client.follow(session_id, seen)) as events:
            async for event in events:
                if event.get("is_final") and "seq" in event:
                    return


def _start_successor(settings: Settings, left: Mapping[str, int]) -> None:
    words = [word for pair in left.items() for word in (SUCCESSOR, f"{pair[0]}@{pair[1]}")]
    if not words:
        words = [SUCCESSOR, ""]
    model = ["--model", settings.model] if settings.model else []
    subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "gonogo", "acp", "-C", str(settings.workspace), *model, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,
    )
