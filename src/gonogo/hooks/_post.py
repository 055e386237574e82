"""One message, posted once."""

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache

import anyio
import anyio.to_thread
import httpx

from gonogo import __version__
from gonogo.hooks._config import Hook
from gonogo.hooks._signing import signature

Post = Callable[[str, bytes, int], Awaitable[str | None]]
"""Posts a body under a message's id, at a time in seconds since 1970. Gives why it did not arrive,
without anything that the receiver said."""


@asynccontextmanager
async def posting(hook: Hook) -> AsyncGenerator[Post]:
    """What posts to one hook."""
    secure = hook.url.startswith("https:")
    async with httpx.AsyncClient(
        verify=await anyio.to_thread.run_sync(_trusted) if secure else False,
        follow_redirects=False,
        # No proxy and no .netrc of the surroundings: what is sent goes where the file says.
        trust_env=False,
        timeout=hook.timeout,
        headers={"user-agent": f"gonogo/{__version__}", "content-type": "application/json"},
    ) as client:

        async def post(message_id: str, body: bytes, timestamp: int) -> str | None:
            return await _post(client, hook, message_id, body, timestamp)

        yield post


async def _post(
    client: httpx.AsyncClient, hook: Hook, message_id: str, body: bytes, timestamp: int
) -> str | None:
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(hook.secrets, message_id, timestamp, body),
    }
    try:
        with anyio.fail_after(hook.timeout):
            # The answer's body is of no interest, and never read.
            async with client.stream("POST", hook.url, content=body, headers=headers) as answer:
                return None if answer.is_success else f"HTTP {answer.status_code}"
    except (TimeoutError, httpx.TimeoutException):
        return f"no answer within {hook.timeout:g} seconds"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return type(error).__name__


@cache
def _trusted() -> ssl.SSLContext:
    # Reading the authorities takes tens of milliseconds.
    return httpx.create_ssl_context()
