"""`gonogo acp`: the door for editors, for as long as an editor is there.

An editor that is closed waits for nobody, so the command leaves at once. Where it owned the state
folder and something was under way, a process of its own takes its place, sees that through, and
ends.
"""

import sys
from contextlib import aclosing, suppress
from pathlib import Path

import anyio

from gonogo.cli._exits import Exit, Stop
from gonogo.cli._heir import lasting, start_successor
from gonogo.cli._owner import linked
from gonogo.cli._pipes import own_pipes
from gonogo.cli._setup import read_settings
from gonogo.client import Client
from gonogo.domain.errors import GonogoError

_HINT = (
    "gonogo acp is started by an editor and speaks with it; "
    "see docs/how-to/editors.md, or start gonogo run at a terminal"
)


async def run_acp(directory: Path | None, model: str | None) -> Exit:
    """Speak with the editor until it is gone."""
    from gonogo.acp_server import Pipe, serve_editor

    if sys.stdin.isatty():
        raise Stop(_HINT, Exit.USAGE)
    settings = read_settings({"workspace": directory, "model": model})
    with own_pipes() as (source, sink):
        async with lasting(settings) as place:
            left = await serve_editor(place.client, Pipe(source, sink), settings.locale)
            is_owner = place.runtime is not None
            stays = is_owner and (bool(left) or await place.is_needed())
    if stays:
        start_successor(settings, left)
    return Exit.DONE


async def see_off(seen: list[str], model: str | None, directory: Path | None) -> Exit:
    """Take the place of a command whose editor is gone, until nothing is under way.

    Args:
        seen: `SESSION@SEQ` for each session in which something was under way.
    """
    settings = read_settings({"workspace": directory, "model": model})
    async with (
        linked(settings, goes_on=True, yields=True) as link,
        anyio.create_task_group() as group,
    ):
        for each in seen:
            session_id, _, seq = each.partition("@")
            group.start_soon(_until_final, link.client, session_id, int(seq))
    return Exit.DONE


async def _until_final(client: Client, session_id: str, seen: int) -> None:
    with suppress(GonogoError):
        async with aclosing(client.follow(session_id, seen)) as events:
            async for event in events:
                if event.get("is_final") and "seq" in event:
                    return
