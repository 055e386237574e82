"""From a person's decision to the next action, in one process."""

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import anyio

from bench._rig import LIMIT
from bench._world import World, asking, world


async def decision_ms(sessions: int, decisions: int, url: str | None = None) -> list[float]:
    """Milliseconds from each approval of a tool call until the tool runs."""
    with TemporaryDirectory() as folder:
        async with world(Path(folder), asking(decisions), url) as made:
            with anyio.fail_after(LIMIT):
                took = [await _session(made, decisions) for _ in range(sessions)]
    return [each for one in took for each in one]


async def _session(made: World, decisions: int) -> list[float]:
    session_id = await made.say("make folders")
    return [await _one(made, await made.approval(session_id)) for _ in range(decisions)]


async def _one(made: World, approval_id: str) -> float:
    ran = anyio.Event()
    ended = 0.0

    def on_run() -> None:
        nonlocal ended
        ended = perf_counter()
        ran.set()

    made.on_run = on_run
    began = perf_counter()
    await made.approve(approval_id)
    await ran.wait()
    return (ended - began) * 1000
