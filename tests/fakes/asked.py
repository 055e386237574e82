"""Waiting for what a model's server is asked."""

import json
import re
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
        requests: list[Body] = await anyio.to_thread.run_sync(lambda: provider.requests)
        while not (found := enough(requests)):
            requests = await anyio.to_thread.run_sync(provider.news, len(requests))
    return found


async def until_commented(provider: FakeOpenAI) -> str:
    """The id of the comment that a planner is asked to answer, once it is."""
    return await until_asked(provider, _comment_of)


def _comment_of(requests: list[Body]) -> str | None:
    for request in requests:
        told = re.search(r"you are to answer:\n(.*)", str(request["messages"][-1]["content"]))
        if told:
            return json.loads(told[1])[0]["comment_id"]
    return None
