"""What a step costs as everything around it grows, in processor time.

A busy disk or a busy machine says little in it.
"""

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from bench._plans import no_op
from bench._rig import LIMIT, Rig, chain, new_session, rig
from gonogo.store import Tx, utc_now
from gonogo.store.sessions import SessionFilter, add_session, list_sessions, standings

EVENTS = (0, 5_000, 50_000)
SUBTASKS = (10, 100, 500)
PLANS = (1, 10, 100)
SESSIONS = (1, 1_000, 10_000)
_STEPS = 50
_PAGE = 50
_PAGES = 20


@asynccontextmanager
async def _warm() -> AsyncIterator[Rig]:
    with TemporaryDirectory() as folder:
        async with rig(Path(folder), no_op) as made:
            await made.carry_out(chain(_STEPS), max_parallel=3)
            yield made


async def after_events(count: int) -> float:
    """Milliseconds of processor for each step in a session that has so many events."""
    async with _warm() as made:
        return await made.cpu(chain(_STEPS), events_before=count) / _STEPS


async def of_subtasks(count: int) -> float:
    """The same in a plan of so many subtasks, one after the other."""
    async with _warm() as made:
        return await made.cpu(chain(count)) / count


async def of_plans(count: int) -> float:
    """The same while so many plans of ten subtasks go on at once."""
    async with _warm() as made:
        plans = [await made.ready(chain(10), max_parallel=3) for _ in range(count)]
        began = time.process_time()
        with anyio.fail_after(LIMIT):
            for plan_id in plans:
                await made.go(plan_id)
            for plan_id in plans:
                await made.over[plan_id].wait()
        return (time.process_time() - began) * 1000 / (10 * count)


async def of_sessions(count: int) -> float:
    """The same where there are so many sessions."""
    async with _warm() as made:
        await made.store.write(_add_sessions, count)
        return await made.cpu(chain(_STEPS)) / _STEPS


async def page_of_sessions(count: int) -> float:
    """Milliseconds of processor for the first page of so many sessions."""
    async with _warm() as made:
        await made.store.write(_add_sessions, count)
        await made.store.read(_page)
        began = time.process_time()
        for _ in range(_PAGES):
            await made.store.read(_page)
        return (time.process_time() - began) * 1000 / _PAGES


_CURVES = (
    ("a step after so many events", after_events, EVENTS),
    ("a step of a plan of so many subtasks", of_subtasks, SUBTASKS),
    ("a step while so many plans go on", of_plans, PLANS),
    ("a step beside so many sessions", of_sessions, SESSIONS),
    ("a page of 50 of so many sessions", page_of_sessions, SESSIONS),
)


def curves(runs: int) -> Iterator[str]:
    """Each curve as a row of a table, as soon as it is there.

    Each point is the least of the runs: what else the machine does has disturbed that the least.
    """
    for work, measure, sizes in _CURVES:
        found = [min(anyio.run(partial(measure, size)) for _ in range(runs)) for size in sizes]
        yield row(work, sizes, found)


def row(work: str, sizes: Sequence[int], found: Sequence[float]) -> str:
    """A curve as a row of the table."""
    points = " · ".join(f"{size:,}: {ms:.2f}" for size, ms in zip(sizes, found, strict=True))
    return f"| {work} | {points} | {found[-1] / found[0]:.2f} |"


def _add_sessions(tx: Tx, count: int) -> None:
    for _ in range(count):
        add_session(tx, new_session(utc_now()))


def _page(tx: Tx) -> None:
    found, _total = list_sessions(tx, SessionFilter(), _PAGE)
    standings(tx, [session.id for session in found])
