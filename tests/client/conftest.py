"""A client of the real server over a stand-in runtime, and of servers that misbehave."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from gonogo.client import Client
from server.conftest import runtime, served

__all__ = ["runtime", "served"]


@pytest.fixture
def client(served, tmp_path):
    """A client over the Unix socket: `async with client() as c`."""

    @asynccontextmanager
    async def opened(token: str = "token-a", **options) -> AsyncIterator[Client]:  # noqa: S107
        path = tmp_path / "s"
        async with served(uds=path, **options), Client(uds=path, token=token) as found:
            yield found

    return opened


@pytest.fixture
def against() -> Callable[..., Client]:
    """A client of a server that is a function: `against(handler)`."""

    def made(handler: Callable[[httpx.Request], httpx.Response], **more: float) -> Client:
        transport = httpx.MockTransport(handler)
        return Client("http://127.0.0.1:1", token="t", transport=transport, **more)

    return made
