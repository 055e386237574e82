"""Sweeps come again and again, whatever becomes of one of them."""

from datetime import timedelta
from pathlib import Path

import pytest

from fakes import rows
from fakes.rows import at
from gonogo.domain.errors import ToolFailed
from gonogo.domain.records import Job
from gonogo.execution.erasures import SWEEP, Erasures, Sweeps
from gonogo.execution.event_bus import Hub
from gonogo.execution.jobs import LocalDispatcher
from gonogo.store import Store
from gonogo.store.jobs import due_timers, first_timer
from gonogo.workspace import Snapshots, Traffic

DAY = timedelta(days=1)


@pytest.fixture
def kind() -> str:
    return "sqlite"


class Broken(Snapshots):
    def sweep(self, *_: object, **__: object) -> int:
        raise ToolFailed("io_error", "the disk is gone")


def sweeper(store: Store, snapshots: Snapshots, days: float) -> Sweeps:
    erasures = Erasures(
        store=store, snapshots=snapshots, traffic=Traffic(),
        drafts=Path("nowhere"), taken=Path("nowhere"),
        dispatcher=LocalDispatcher(store), hub=Hub(),
    )  # fmt: skip
    return Sweeps(
        store=store, snapshots=snapshots, erasures=erasures, days=days,
        retention=0,
    )  # fmt: skip


@pytest.mark.parametrize("days", [0, 30])
@pytest.mark.parametrize("snapshots", [Snapshots, Broken])
async def test_a_sweep_has_the_next_one_come_a_day_later_although_it_fails(
    store: Store, tmp_path: Path, snapshots: type[Snapshots], days: float
) -> None:
    sweeps = sweeper(store, snapshots(tmp_path), days)
    await sweeps.job(Job(SWEEP, "snapshots"))

    [timer] = await store.read(at(rows.NOW + DAY, due_timers))
    assert (timer.kind, timer.run_at) == (SWEEP, rows.NOW + DAY)


async def test_a_start_has_a_sweep_come_soon_and_puts_off_none_that_is_to_come(
    store: Store, tmp_path: Path
) -> None:
    sweeps = sweeper(store, Snapshots(tmp_path), 30)
    await store.write(sweeps.arm)
    await store.write(at(rows.NOW + DAY, sweeps.arm))

    assert await store.read(first_timer) == rows.NOW + timedelta(minutes=10)
