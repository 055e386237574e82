"""Waiting for what a model's server is asked."""

from collections.abc import Callable
from typing import Any

import anyio

from fakes.openai_server import FakeOpenAI

LIMIT = 60
"""Seconds that it may take."""
Body = dict[str, Any]


async def until_asked(provider: FakeOpenAI, enough: Callable[[list[Body]], object]) -> Any:
    """Wait until the model has been asked for something; gives what told so."""
    with anyio.fail_after(LIMIT):
        while not (found := enough(await anyio.to_thread.run_sync(lambda: provider.requests))):
            pass
    return found
