"""Sweeps come again and again, whatever becomes of one of them."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes import rows
from fakes.rows import at
from gonogo.domain.errors import ToolFailed
from gonogo.domain.records import Job
from gonogo.execution.erasures import ERASE, SWEEP, Erasures, Jumps, Sweeps
from gonogo.execution.event_bus import Hub
from gonogo.execution.jobs import LocalDispatcher
from gonogo.i18n.texts import why
from gonogo.store import Store, Tx
from gonogo.store.calls import add_calls
from gonogo.store.erasing import deleted_sessions
from gonogo.store.events import entries
from gonogo.store.jobs import due_timers, first_timer
from gonogo.store.sessions import session_of, set_session
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
        retention=0, jumps=Jumps(store.clock),
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


@pytest.mark.parametrize("passed", [0, 400 * DAY.total_seconds()])
async def test_what_only_a_clock_that_was_set_ahead_makes_old_goes_with_the_next_sweep(
    store: Store, tmp_path: Path, passed: float
) -> None:
    seconds = [0.0]
    sweeps = replace(
        sweeper(store, Snapshots(tmp_path), 30), retention=100,
        jumps=Jumps(lambda: store.clock(), lambda: seconds[0]),
    )  # fmt: skip
    await store.write(rows.begin, "s1")
    store.clock = lambda: rows.NOW + 400 * DAY
    seconds[0] += passed
    await sweeps.job(Job(SWEEP, "snapshots"))
    [timer] = await store.read(at(store.clock() + DAY, due_timers))
    assert timer.run_at == store.clock() + DAY
    assert len(await store.read(deleted_sessions)) == bool(passed)

    await sweeps.job(Job(SWEEP, "snapshots"))
    assert len(await store.read(deleted_sessions)) == 1


# Beside the database ------------------------------------------------------------------------------


def erasing(store: Store, root: Path) -> Erasures:
    return Erasures(
        store=store, snapshots=Snapshots(root / "kept"), traffic=Traffic(),
        drafts=root / "drafts", taken=root / "taken",
        dispatcher=LocalDispatcher(store), hub=Hub(),
    )  # fmt: skip


async def test_what_was_written_and_taken_away_in_a_session_goes_with_it_and_no_more(
    store: Store, tmp_path: Path
) -> None:
    erasures = erasing(store, tmp_path)
    for name in ("p1-2", "p2-1", "p1"):
        (tmp_path / "drafts" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "drafts" / name).write_text("{}")
    for name in ("call_1", "call_2"):
        inner = tmp_path / "taken" / name / "in" / "ner"
        inner.mkdir(parents=True)
        (inner / "file").write_text("x")
        inner.chmod(0o000)
        inner.parent.chmod(0o500)
    (tmp_path / "taken" / "call_1" / "link").symlink_to("/")

    def deleted(tx: Tx) -> None:
        rows.begin(tx, "s1", "s2")
        rows.begin_plan(tx)
        add_calls(tx, [rows.call("call_1")])
        session = session_of(tx, "s1")
        assert session is not None
        erasures.begin(tx, session, "user:ann", reason="enough")

    await store.write(deleted)
    await erasures.job(Job(ERASE, "/code"))

    assert sorted(path.name for path in (tmp_path / "drafts").iterdir()) == ["p1", "p2-1"]
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["call_2"]
    assert await store.read(session_of, "s1") is None
    assert await store.read(session_of, "s2") is not None
    found = await store.read(entries, "system")
    noted = [(each.actor, each.action, each.subject, each.details) for each in found]
    assert ("user:ann", "session.deleted", "s1", {"reason": "enough"}) in noted
    assert [action for _, action, *_ in noted].count("session.erased") == 1


async def test_a_session_is_over_when_nothing_happened_in_it_for_so_many_days(
    store: Store, tmp_path: Path
) -> None:
    erasures = erasing(store, tmp_path)
    await store.write(rows.begin, "s1", "s2")
    await store.write(set_session, "s2", updated_at=rows.NOW - 2 * DAY)
    follower = erasures.hub.follow("s2")

    await erasures.expire(1.5)

    assert [each.id for each in await store.read(deleted_sessions)] == ["s2"]
    assert follower.is_last
    [entry] = await store.read(entries, "system")
    assert (entry.actor, entry.details["reason"]) == (
        "gonogo", "nothing happened in it for 1.5 days",
    )  # fmt: skip
    assert why(entry, "ru") == "в ней ничего не происходило; срок хранения в днях: 1.5"


async def test_after_a_start_each_workspace_of_a_deleted_session_is_erased(
    store: Store, tmp_path: Path
) -> None:
    erasures = erasing(store, tmp_path)

    def deleted(tx: Tx) -> list[Job]:
        rows.begin(tx, "s1", "s2", "s3")
        for key in ("s1", "s2"):
            set_session(tx, key, deleted=True)
        erasures.recover(tx)
        return [*tx.outbox.jobs]

    assert await store.write(deleted) == [Job("erase", "/code")]
