"""`gonogo mcp`: the door for other agents, for as long as one is there."""

import sys
from pathlib import Path

from gonogo.cli._exits import Exit, Stop
from gonogo.cli._heir import lasting, start_successor
from gonogo.cli._pipes import own_pipes
from gonogo.cli._setup import read_settings


async def run_mcp(directory: Path | None, model: str | None) -> Exit:
    """Speak with the other agent until it is gone."""
    from gonogo.mcp_server import serve_agents

    if sys.stdin.isatty():
        raise Stop(
            "gonogo mcp is started by another agent and speaks with it; see docs/how-to/mcp.md",
            Exit.USAGE,
        )
    settings = read_settings({"workspace": directory, "model": model})
    with own_pipes() as (source, sink):
        async with lasting(settings) as place:
            await serve_agents(place.client, source, sink)
            stays = await place.is_needed()
    if stays:
        start_successor(settings, {})
    return Exit.DONE
