"""`gonogo acp`: the door for editors, for as long as an editor is there."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from gonogo.cli._exits import Exit, Stop
from gonogo.cli._owner import linked
from gonogo.cli._setup import read_settings


async def run_acp(directory: Path | None, model: str | None) -> Exit:
    """Speak with the editor until it is gone."""
    from gonogo.acp import Pipe, serve_editor

    if sys.stdin.isatty():
        raise Stop(
            "gonogo acp is started by an editor and speaks with it; "
            "see docs/how-to/editors.md, or start gonogo run at a terminal",
            Exit.USAGE,
        )
    settings = read_settings({"workspace": directory, "model": model})
    with _own_pipes() as (source, sink):
        async with linked(settings) as link:
            await serve_editor(link.client, Pipe(source, sink), settings.locale)
    return Exit.DONE


@contextmanager
def _own_pipes() -> Generator[tuple[int, int]]:
    """Standard input and output for the protocol alone: what else is written goes to the errors."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield source, sink
    finally:
        os.close(source)
        os.close(sink)
