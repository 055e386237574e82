"""The store as a whole: it waits for what is away, and says what it cannot do."""

import logging
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from sqlalchemy import event, select, text

from fakes.rows import begin
from fakes.until import time_passes
from gonogo.domain.errors import Busy, InvalidMessage
from gonogo.store import Store, patiently, postgres
from gonogo.store.schema import writers

LIMIT = 60


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/gonogo.db"


class Away:
    """Something beside the database that is away."""

    def __init__(self) -> None:
        self.asked = 0

    async def use(self) -> None:
        self.asked += 1
        raise Busy(reason="its disk is full")


async def test_what_lies_beside_the_database_is_waited_for_as_it_is(url, caplog):
    store, away = Store(url, patience=LIMIT / 4), Away()

    async def hurry() -> None:
        with pytest.raises(Busy):
            await store.ride(away.use)

    with caplog.at_level(logging.WARNING), anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(hurry)
            while away.asked < 2:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.005)
            time_passes(LIMIT / 2)
    assert [record.getMessage() for record in caplog.records] == [
        "work waits for the state folder: its disk is full"
    ]
    await store.write(begin)
    store.close()


async def refused_by(store: Store, refuse: Callable[[], None]) -> str | None:
    """Why somebody is refused who waits patiently."""
    away, reasons = Away(), list[str | None]()

    async def wait() -> None:
        with patiently(), pytest.raises(Busy) as refused:
            await store.ride(away.use)
        reasons.append(refused.value.reason)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            while away.asked < 3:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.005)
            refuse()
    return reasons[0]


async def test_who_waits_is_refused_once_it_is_nobodys_work_any_more(url):
    store = Store(url)
    for refuse in (store.drop_waiting, store.stop_waiting):
        assert await refused_by(store, refuse) == "its disk is full"
    await store.write(begin)
    store.close()


async def test_a_probe_writes_and_leaves_one_row(url):
    store = Store(url)
    for _ in range(3):
        await store.probe()

    found = await store.read(lambda tx: [tuple(row) for row in tx.execute(select(writers))])
    assert found == [("probe", 2)]
    store.close()


class Stop(Exception):
    """No connection is wanted."""


def test_a_server_that_does_not_answer_counts_as_away_unless_the_operator_says_otherwise():
    told: dict[str, object] = {}
    engine = postgres._engine("postgresql+psycopg://ann@host/db?keepalives_idle=9", print)

    @event.listens_for(engine, "do_connect")
    def connects(dialect, record, arguments, parameters) -> None:
        told.update(parameters)
        raise Stop

    with pytest.raises(Stop):
        engine.connect()
    assert {name: told.get(name) for name in ("host", "user", "dbname", *postgres._LINE)} == {
        "host": "host", "user": "ann", "dbname": "db", "connect_timeout": "4",
        "keepalives_idle": "9", "keepalives_interval": "2", "keepalives_count": "2",
        "tcp_user_timeout": "8000", "target_session_attrs": "read-write",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["postgresql"])
async def test_a_transaction_waits_for_anothers_lock_as_long_as_was_said(database_url):
    store = Store(database_url, patience=1.5)
    waits = text("SHOW lock_timeout")

    with patiently():
        assert await store.read(lambda tx: tx.execute(waits).scalar()) == "1500ms"
        assert await store.write(lambda tx: tx.execute(waits).scalar()) == "1500ms"
    assert (await store.room()).bytes > 100_000
    assert await store.settle()
    await store.vacuum()
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "x", "mysql://u:hunter2@h/d", "http://[", "postgresql:/", "postgres://u:hunter2@h/d",
        "postgresql+asyncpg://h/d", "sqlite://", "postgresql://u:hunter2@[::1/d",
    ],
)  # fmt: skip
def test_an_address_that_is_none_of_ours_is_refused_without_its_password(url):
    with pytest.raises(InvalidMessage, match="GONOGO_DB must be sqlite:///PATH or") as refused:
        Store(url)
    assert "hunter2" not in str(refused.value)
