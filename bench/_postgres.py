"""The same works on SQLite and on PostgreSQL, in turn, each beside its own driver's commits."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import anyio

from bench._decisions import decision_ms
from bench._plans import layered_per_second, makespan_ratio, sequence_ms
from bench._report import say
from bench._rig import median
from bench._waking import woken_per_second
from bench._yardstick import commit_ms, postgres_commit_ms
from fakes.postgres import Server, programs, server


class Work(NamedTuple):
    """One work, on the database at an address, or on SQLite without one."""

    name: str
    unit: str
    run: Callable[[str | None], Awaitable[float]]
    in_commits: Callable[[float], float] | None = None
    """Milliseconds of one piece of it, where they are told in commits."""


async def _decision(url: str | None) -> float:
    return median(await decision_ms(2, 20, url))


def _per_piece(rate: float) -> float:
    return 1_000 / rate


def works() -> tuple[Work, ...]:
    """All works, in the order of the table."""
    return (
        Work("200 no-op subtasks in sequence, each", "ms", partial(sequence_ms, 3), float),
        Work(
            "1,000 no-op subtasks in 20 layers", "/s", partial(layered_per_second, 3, 20, 50),
            _per_piece,
        ),
        Work("100 × 50 ms in layers ÷ critical path", "×", partial(makespan_ratio, 3)),
        Work("decision → the approved tool runs, p50", "ms", _decision, float),
        Work("parked plans woken", "/s", partial(woken_per_second, 200), _per_piece),
    )  # fmt: skip


def table() -> Iterator[str]:
    """The rows of the table, as Markdown, each as soon as it is measured.

    Raises:
        LookupError: there is no PostgreSQL here.
    """
    found = programs()
    if found is None:
        raise LookupError("No PostgreSQL was found; install the package postgresql")
    with server(found, fsync=True) as postgres:
        yield "| work | SQLite | its commits | PostgreSQL | its commits |"
        yield "|---|---|---|---|---|"
        with _fresh(postgres) as url:
            lite, big = commit_ms(), postgres_commit_ms(url)
        yield f"| one INSERT and COMMIT, bare driver | {lite:.2f} ms | 1 | {big:.2f} ms | 1 |"
        for work in works():
            say(work.name)
            yield _row(work, postgres)


def _row(work: Work, postgres: Server) -> str:
    lite_yard = commit_ms()
    lite = anyio.run(work.run, None)
    with _fresh(postgres) as url:
        big_yard = postgres_commit_ms(url)
        big = anyio.run(work.run, url)
    cells = [*_cells(work, lite, lite_yard), *_cells(work, big, big_yard)]
    return f"| {work.name} | {' | '.join(cells)} |"


def _cells(work: Work, value: float, yard: float) -> tuple[str, str]:
    digits = 0 if value >= 100 else 2
    commits = "-" if work.in_commits is None else f"{work.in_commits(value) / yard:.1f}"
    return f"{value:,.{digits}f} {work.unit}", commits


@contextmanager
def _fresh(postgres: Server) -> Iterator[str]:
    name = postgres.make()
    try:
        yield postgres.url(name)
    finally:
        postgres.drop(name)
