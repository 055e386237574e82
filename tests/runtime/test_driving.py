"""A runtime drives its database as long as no other process does, and begins anew after that."""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync as in_thread
from sqlalchemy import create_engine, text

from fakes.world import LIMIT, World, calls, plan, says, step, world_of, write
from gonogo.domain.errors import Busy, Conflict
from gonogo.domain.events import AssistantMessage
from gonogo.domain.plan_views import AuditReport
from gonogo.domain.tool_calls import ModelRequest
from gonogo.execution.event_bus import Hub
from gonogo.execution.jobs import LocalDispatcher
from gonogo.llm import ScriptedModel
from gonogo.runtime import Runtime
from gonogo.runtime.maintenance import Driving
from gonogo.store import Store, Tx, driver, patiently
from gonogo.store import audit as auditing
from gonogo.store import events as log
from gonogo.telemetry import Metrics

pytestmark = pytest.mark.each_database

on_postgres = pytest.mark.parametrize("kind", ["postgresql"])


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_BEAT", 0.05)


async def until(holds: Any) -> None:
    with anyio.fail_after(LIMIT):
        while not holds():  # noqa: ASYNC110 - nobody tells of it
            await anyio.sleep(0.01)


def cut_locks(url: str) -> None:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as conn:
        conn.execute(text(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON oid = database"
            " WHERE locktype = 'advisory' AND datname = current_database()"
        ))  # fmt: skip
    engine.dispose()


async def taken_over(world: World) -> Store:
    """Have another process drive the database of a world."""
    url = world.settings.db or ""
    with anyio.fail_after(LIMIT):
        while True:
            await in_thread(cut_locks, url)
            # Whoever drove before may be the first again.
            with suppress(Busy, Conflict):
                return await in_thread(partial(Store, url, drives=True, patience=0.2))


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncIterator[World]:
    async with world_of(tmp_path, {}, db=database_url) as made:
        yield made


async def test_a_second_runtime_on_one_database_is_refused_and_one_that_looks_is_not(
    world: World, tmp_path: Path
) -> None:
    other = world.settings.model_copy(update={"home": tmp_path / "other"})
    store = world.runtime.parts.store
    with pytest.raises(Conflict, match="already use"):
        await Runtime.open(other, model=ScriptedModel({})).__aenter__()

    async with Runtime.open(other, model=ScriptedModel({}), idle=True) as looking:
        assert (await looking.sessions.page(looking.owner, 10, 0)).total == 0
    await store.probe()


async def test_a_runtime_that_could_not_be_opened_leaves_the_database_free(
    world: World, tmp_path: Path
) -> None:
    await world.stop()
    rules = world.settings.config / "rules.toml"
    rules.parent.mkdir(exist_ok=True)
    rules.write_text("This is no rule")
    with pytest.raises(Exception, match=r"rules\.toml"):
        await world.start()
    rules.unlink()

    await world.start()
    await world.runtime.check_ready()


@on_postgres
@pytest.mark.feature(234)
async def test_what_runs_when_another_process_drives_is_dropped_and_taken_up_anew_after_it(
    world: World, kind: str
) -> None:
    is_slow = True

    def writes(request: ModelRequest) -> dict[str, Any]:
        return calls(write("one.txt")) | {"delay": 3600 if is_slow else 0}

    world.lines |= {
        "main/architect": [plan(step("one"))],
        "one": [writes, says("one is there")],
    }
    await world.restart()
    await world.begin()
    await world.asked_model("one")
    runtime, dispatcher = world.runtime, world.runtime.parts.dispatcher
    told: set[str] = set()

    async def follow() -> None:
        async with runtime.streams.follow(world.ann, world.session, 0) as events, aclosing(events):
            async for event in events:
                told.add(event.get("content") or "")

    async with anyio.create_task_group() as group:
        group.start_soon(follow)
        second = await taken_over(world)
        await until(lambda: dispatcher.is_idle)
        with pytest.raises(Busy):
            await world.send({"type": "user_message", "content": "Hello?"})
        with pytest.raises(Busy):
            await runtime.check_ready()
        assert (await runtime.plans.get(world.ann, (await plans(world))[0])).status == "running"

        with patiently():
            await second.write(say, world.session, "said by the other")
        is_slow = False
        await in_thread(second.close)
        await world.until("plan_completed")
        await until(lambda: "said by the other" in told)
        group.cancel_scope.cancel()

    assert world.read("one.txt") == "made\n"
    assert len(world.model.asked("one")) == 3
    await runtime.check_ready()


async def plans(world: World) -> list[str]:
    found = await world.runtime.plans.page(world.ann, limit=10, offset=0)
    return [each.plan_id for each in found.plans]


def say(tx: Tx, session: str, what: str) -> None:
    log.tell(tx, session, AssistantMessage(content=what))


async def test_a_start_with_much_to_take_up_is_not_refused_as_if_the_database_was_away(
    database_url: str,
) -> None:
    def take_up(_tx: Tx) -> None:
        time.sleep(1)

    store = Store(database_url, drives=True, patience=0.2)
    dispatcher = LocalDispatcher(store)
    driving = Driving(
        store=store, dispatcher=dispatcher, hub=Hub(), metrics=Metrics(),
        handlers={}, on_timer=lambda tx, timer: None, take_up=take_up,
    )  # fmt: skip
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            await group.start(driving.serve)
            group.cancel_scope.cancel()
    store.close()


async def test_a_long_walk_over_the_audit_log_is_not_refused_as_if_the_database_was_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = auditing.verify

    def slow(*given: Any) -> AuditReport:
        time.sleep(3)
        return walk(*given)

    monkeypatch.setattr(auditing, "verify", slow)
    monkeypatch.setattr(world.runtime.parts.store._outage, "_patience", 2)
    assert (await world.runtime.audit.verify(world.ann)).problems == []


@on_postgres
async def test_a_lock_that_is_lost_alone_disturbs_nothing_that_runs(
    world: World, kind: str
) -> None:
    world.lines |= {
        "main/architect": [plan(step("one"))],
        "one": [calls(write("one.txt")) | {"delay": 0.5}, says("one is there")],
    }
    await world.restart()
    await world.begin()
    await world.asked_model("one")
    await in_thread(cut_locks, world.settings.db or "")
    await world.until("plan_completed")

    assert len(world.model.asked("one")) == 2
