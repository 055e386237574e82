"""Sweeps come again and again, whatever becomes of one of them."""

from datetime import timedelta
from pathlib import Path

import pytest

from fakes import rows
from gonogo.domain.errors import ToolFailed
from gonogo.domain.records import Job
from gonogo.orchestrator import SWEEP, Sweeps
from gonogo.store import Store
from gonogo.store.timers import due_timers, first_timer
from gonogo.workspace import Snapshots

DAY = timedelta(days=1)


@pytest.fixture
def kind() -> str:
    return "sqlite"


class Broken(Snapshots):
    def sweep(self, *_: object, **__: object) -> int:
        raise ToolFailed("io_error", "the disk is gone")


@pytest.mark.parametrize("snapshots", [Snapshots, Broken])
async def test_a_sweep_has_the_next_one_come_a_day_later_although_it_fails(
    store: Store, tmp_path: Path, snapshots: type[Snapshots]
) -> None:
    sweeps = Sweeps(store=store, snapshots=snapshots(tmp_path), clock=lambda: rows.NOW, days=30)
    await sweeps.job(Job(SWEEP, "snapshots"))

    [timer] = await store.read(due_timers, rows.NOW + DAY)
    assert (timer.kind, timer.run_at) == (SWEEP, rows.NOW + DAY)


async def test_a_start_has_a_sweep_come_soon_and_puts_off_none_that_is_to_come(
    store: Store, tmp_path: Path
) -> None:
    sweeps = Sweeps(store=store, snapshots=Snapshots(tmp_path), clock=lambda: rows.NOW, days=30)
    await store.write(sweeps.arm, rows.NOW)
    await store.write(sweeps.arm, rows.NOW + DAY)

    assert await store.read(first_timer) == rows.NOW + timedelta(minutes=10)


async def test_where_all_is_kept_for_ever_nothing_is_swept(store: Store, tmp_path: Path) -> None:
    sweeps = Sweeps(store=store, snapshots=Broken(tmp_path), clock=lambda: rows.NOW, days=0)
    await store.write(sweeps.arm, rows.NOW)
    await sweeps.job(Job(SWEEP, "snapshots"))

    assert await store.read(first_timer) is None
