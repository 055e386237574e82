"""Servers and workers that die, stop and are cut off: work goes on, once, and nothing is lost."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from durability import chaos
from durability.checker import STUCK, Told, check
from durability.ground import Ground
from fakes.nursery import Nursery
from fakes.openai_server import FakeOpenAI
from fakes.postgres import Server as Postgres

SECONDS = float(os.environ.get("GONOGO_CHAOS_SECONDS", "600"))
"""How long the nightly one lasts."""


@pytest.fixture
def place(tmp_path: Path, model_server: FakeOpenAI, born: Nursery) -> Iterator[Ground]:
    """A folder without a database yet."""
    model_server.script(chaos.rules())
    found = Ground(tmp_path, model_server, born)
    yield found
    found.close()


@pytest.fixture
def ground(place: Ground, postgres: Postgres, _postgres_template: str) -> Iterator[Ground]:
    """One with a database that is ready."""
    name = postgres.lend(_postgres_template)
    place.environment["GONOGO_DB"] = postgres.url(name)
    yield place
    place.close()
    postgres.take_back(name)


@pytest.fixture
def bare_ground(place: Ground, mortal_postgres: Postgres) -> Iterator[Ground]:
    """One with an empty database, whose server may be stopped."""
    name = mortal_postgres.make()
    place.environment["GONOGO_DB"] = mortal_postgres.url(name)
    yield place
    place.close()
    if not mortal_postgres.runs:
        mortal_postgres.start()
    mortal_postgres.drop(name)


async def play(
    ground: Ground, chance: random.Random, postgres: Postgres, *, short: bool
) -> tuple[chaos.Cluster, list[chaos.Person], list[str]]:
    """Have people work while the processes under them end, and a while after; what is wrong."""
    cluster = await anyio.to_thread.run_sync(chaos.Cluster, ground, chance, 2, 2 if short else 3)
    told, enough = Told(), anyio.Event()
    havoc = chaos.Havoc(cluster, postgres, restarts=not short)
    people = [chaos.Person(cluster, told, f"p{number}") for number in range(2 if short else 4)]
    with chaos.kept(ground.folder / "told.json", told):
        async with anyio.create_task_group() as group:
            group.start_soon(cluster.supervise)
            for person in people:
                group.start_soon(person.work, enough)
            await (havoc.once_each(0.7) if short else havoc.at_random(SECONDS))
            enough.set()
            with anyio.fail_after(chaos.FINISHING):
                while any(not person.is_over for person in people):  # noqa: ASYNC110
                    await anyio.sleep(0.1)
            group.cancel_scope.cancel()
    folders = [folder for person in people for folder in person.folders]
    return cluster, people, await settled(ground.environment["GONOGO_DB"], folders, told)


async def settled(database: str, folders: list[Path], told: Told) -> list[str]:
    """What is wrong, once whoever died at last was found dead."""
    with anyio.move_on_after(chaos.TAKEN_OVER):
        while problems := await anyio.to_thread.run_sync(check, database, folders, told):
            if any(not problem.startswith(STUCK) for problem in problems):
                return problems
            await anyio.sleep(0.5)
        return problems
    return await anyio.to_thread.run_sync(check, database, folders, told)


@pytest.mark.feature(235)
async def test_no_death_loses_or_repeats_anything(
    ground: Ground, chance: random.Random, postgres: Postgres
) -> None:
    cluster, people, problems = await play(ground, chance, postgres, short=True)

    assert problems == [], cluster.deeds
    assert all(person.done for person in people)


@pytest.mark.nightly
async def test_a_long_time_of_deaths_loses_or_repeats_nothing(
    bare_ground: Ground, chance: random.Random, mortal_postgres: Postgres
) -> None:
    cluster, people, problems = await play(bare_ground, chance, mortal_postgres, short=False)

    print(  # noqa: T201 - the figures of the night
        Counter(cluster.deeds), sum(person.done for person in people), "messages, the slowest",
        f"{max(person.slowest for person in people):.1f} s",
    )  # fmt: skip
    assert problems == [], cluster.deeds
