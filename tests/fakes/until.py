"""Waiting for what nobody tells of: processes, files, locks, and servers of libraries."""

from collections.abc import Callable

import anyio

LIMIT = 60


async def until(holds: Callable[[], object]) -> None:
    """Look again and again until something holds; it fails after a minute."""
    with anyio.fail_after(LIMIT):
        while not holds():  # noqa: ASYNC110 - whoever can be waited for is not asked here
            await anyio.sleep(0.01)
