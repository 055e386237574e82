"""A door over a runtime, opened for one test at a socket of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from gonogo.runtime import Runtime
from gonogo.server import serve

LIMIT = 60


@asynccontextmanager
async def door_at(runtime: Runtime, socket: Path) -> AsyncIterator[None]:
    """Serve a runtime at a socket, from when it listens until the block is left."""
    listening = anyio.Event()
    async with anyio.create_task_group() as group:
        told = partial(serve, port=None, uds=socket, on_ready=lambda _: listening.set())
        group.start_soon(told, runtime)
        with anyio.fail_after(LIMIT):
            await listening.wait()
        yield
        group.cancel_scope.cancel()
