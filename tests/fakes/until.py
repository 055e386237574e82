"""Waiting for what nobody tells of: processes, files, locks, and servers of libraries.

What is done after a time is not waited for: the event loop's clock is moved.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio

LIMIT = 60
_Result = TypeVar("_Result")


async def until(holds: Callable[[], object]) -> None:
    """Look again and again until something holds; it fails after a minute."""
    with anyio.fail_after(LIMIT):
        while not holds():  # noqa: ASYNC110 - whoever can be waited for is not asked here
            await anyio.sleep(0.01)


def let_threads_end() -> None:
    """Have this thread be the only one, before a fork: no other survives it.

    One that was told to end may take a moment longer; it fails where one goes on.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(LIMIT)
    assert threading.active_count() == 1, threading.enumerate()


def time_passes(seconds: float) -> None:
    """Have the event loop's clock go forward: what it would do until then, it does now."""
    loop = asyncio.get_running_loop()
    loop.time = lambda before=loop.time: before() + seconds


@contextmanager
def clock_stops_after(seconds: float) -> Iterator[None]:
    """What waits for the event loop's clock to go on for longer waits for ever.

    So it is shown that something takes no longer, on however busy a machine.
    """
    loop = asyncio.get_running_loop()
    time, last = loop.time, loop.time() + seconds
    loop.time = lambda: min(time(), last)
    try:
        yield
    finally:
        loop.time = time


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
