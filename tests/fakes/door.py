"""A door over a runtime, opened for one test at a socket of its own; and who comes through it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from fakes.world import World
from gonogo.client import Client
from gonogo.domain.identity import Role
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.server import serve
from gonogo.settings import Settings

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


@asynccontextmanager
async def served(folder: Path, lines: Any) -> AsyncIterator[tuple[Runtime, Path]]:
    """A runtime that works in a folder by a script, or with a model, and its socket."""
    (folder / "work").mkdir()
    settings = Settings(home=folder / "home", config=folder / "config", workspace=folder / "work")
    socket = folder / "s"
    async with (
        Runtime.open(
            settings, model=lines if isinstance(lines, ScriptedModel) else ScriptedModel(lines)
        ) as runtime,
        door_at(runtime, socket),
    ):
        yield runtime, socket


@asynccontextmanager
async def client_at(
    runtime: Runtime, socket: Path, name: str, role: Role = Role.OPERATOR
) -> AsyncIterator[Client]:
    """The client of somebody who is given a token."""
    _, token = await runtime.people.create_token(runtime.owner, name, role)
    async with Client(uds=socket, token=token) as client:
        yield client


@asynccontextmanager
async def client_of(world: World) -> AsyncIterator[Client]:
    """The client of an admin, through a door of its own."""
    socket = world.root / "s"
    async with (
        door_at(world.runtime, socket),
        client_at(world.runtime, socket, "boss", Role.ADMIN) as client,
    ):
        yield client
