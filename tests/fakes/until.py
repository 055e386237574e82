"""Waiting for what nobody tells of: processes, files, locks, and servers of libraries."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

LIMIT = 60
_Result = TypeVar("_Result")


async def until(holds: Callable[[], object]) -> None:
    """Look again and again until something holds; it fails after a minute."""
    with anyio.fail_after(LIMIT):
        while not holds():  # noqa: ASYNC110 - whoever can be waited for is not asked here
            await anyio.sleep(0.01)


async def with_time_to_begin(
    attempt: Callable[[float], Awaitable[_Result]], has_begun: Callable[[_Result], object]
) -> _Result:
    """What came of an attempt that was cut off after it had begun: a busy machine begins late.

    Args:
        attempt: Takes the seconds after which it is cut off.
    """
    for seconds in (2, 8):
        found = await attempt(seconds)
        if has_begun(found):
            return found
    return await attempt(LIMIT / 2)
