"""A door over a stand-in runtime: without a network for answers, on a real port for streams."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import httpx
import pytest

from gonogo.server import Ready, create_app, serve
from server.stand_in import StandIn

TOKEN = "token-a"
URL = "http://127.0.0.1:8001"
Asks = Callable[..., httpx.AsyncClient]
Serves = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def runtime() -> StandIn:
    return StandIn()


@pytest.fixture
def ask(runtime: StandIn) -> Asks:
    """Clients of the app, called directly: `ask(token=…)`."""

    def client(token: str | None = TOKEN, *, base_url: str = URL, **options) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(create_app(runtime, **options), raise_app_exceptions=True)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(transport=transport, base_url=base_url, headers=headers)

    return client


@pytest.fixture
def served(runtime: StandIn) -> Serves:
    """The app on a free port, with a client of it."""

    @asynccontextmanager
    async def run(token: str | None = TOKEN, **options) -> AsyncIterator[httpx.AsyncClient]:
        where: list[Ready] = []
        listening = anyio.Event()

        def ready(found: Ready) -> None:
            where.append(found)
            listening.set()

        async def server() -> None:
            await serve(runtime, port=0, on_ready=ready, **options)

        async with anyio.create_task_group() as group:
            group.start_soon(server)
            with anyio.fail_after(60):
                await listening.wait()
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with httpx.AsyncClient(base_url=where[0].url, headers=headers) as client:
                client.ready = where[0]
                yield client
            runtime.closing.set()

    return run
