"""A database that is away is waited for: real servers of both kinds, real faults, the whole story.

While it is away the server says so and hangs nowhere; when it is back, everything goes on by
itself, and the end is that of a run that nobody disturbed: nothing failed, nothing was done, or
asked of the model, twice.

`GONOGO_DURABILITY_SEED=N` picks other moments; `scripts/test --nightly` lets the database stay away
for longer, and more often.
"""

import random
import resource
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync as in_thread

from durability import story
from durability.ground import EVERYTHING, SEED, Ground
from durability.person import PATIENCE, Person
from durability.server import STARTING, Server, Wire
from fakes.disk import Disk, small_disk
from fakes.nursery import Nursery
from fakes.openai_server import FakeOpenAI
from fakes.postgres import Server as Postgres

STAYS_AWAY, TIMES = (30.0, 2) if EVERYTHING else (1.5, 1)
"""Seconds each time, and how often."""
PATIENT = PATIENCE + TIMES * STAYS_AWAY
"""Seconds that a person and a client wait: one time may follow right after the other."""
SEEDS = range(8 if EVERYTHING else 1)
LONGEST = 10.0
"""Seconds that no request may take."""
Trouble = Callable[[Server], Awaitable[None]]
pytestmark = pytest.mark.feature(233)


@pytest.fixture
def on_postgres(ground: Ground, mortal_postgres: Postgres) -> Iterator[str]:
    """The name of a database that the ground's servers work with."""
    name = mortal_postgres.make()
    ground.environment["GONOGO_DB"] = mortal_postgres.url(name)
    yield name
    ground.close()
    if not mortal_postgres.runs:
        mortal_postgres.start()
    mortal_postgres.drop(name)


@pytest.fixture
def on_disk(
    tmp_path: Path, model_server: FakeOpenAI, born: Nursery
) -> Iterator[tuple[Ground, Disk]]:
    """Ground whose state folder is a disk of its own."""
    model_server.script(story.rules())
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "home"))
        ground = Ground(tmp_path, model_server, born)
        stack.callback(ground.close)
        yield ground, disk


async def asks(server: Server, method: str, path: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with httpx.AsyncClient(base_url=server.url, timeout=LONGEST) as http:
        return await http.request(
            method, path, headers=headers, json={} if method == "POST" else None
        )


async def is_ready(server: Server, wanted: bool) -> None:
    """Wait until the server says that it is ready, or that it is not."""
    with anyio.fail_after(STARTING):
        while (  # noqa: ASYNC110 - a server tells nobody
            answer := await asks(server, "GET", "/ready")
        ).is_success is not wanted:
            await anyio.sleep(0.05)
    if not wanted:
        assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
        assert int(answer.headers["retry-after"]) > 0


async def says_so(
    server: Server, seconds: float, *paths: tuple[str, str], statuses: Sequence[int] = (503,)
) -> None:
    """Have the server say for a while that its database is away, to whoever asks for what."""
    await is_ready(server, False)
    until = anyio.current_time() + seconds
    while anyio.current_time() < until:
        assert (await asks(server, "GET", "/health")).status_code == 200
        for method, path in paths:
            answer = await asks(server, method, f"/api/v1{path}")
            assert answer.status_code in statuses, answer.text
            if answer.status_code == 503:
                assert answer.json()["code"] == "unavailable"
                assert int(answer.headers["retry-after"]) > 0
        await anyio.sleep(0.2)
    assert not (await asks(server, "GET", "/ready")).is_success


@asynccontextmanager
async def told(ground: Ground, server: Server) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """The story, seen through by a person; gives what waits for so many events of it."""
    heard, news = 0, anyio.Event()

    def hear(_body: dict[str, Any]) -> None:
        nonlocal heard, news
        heard += 1
        news.set()
        news = anyio.Event()

    async def until_heard(count: int) -> None:
        with anyio.fail_after(STARTING):
            while heard < count:
                await news.wait()

    async with (
        server.client(busy=PATIENT) as client,
        server.http() as http,
        anyio.create_task_group() as group,
    ):
        person = Person(Wire(client, http), ground.told, ground.workspace, patience=PATIENT)
        group.start_soon(person.see_through, hear)
        yield until_heard


async def lives_through(ground: Ground, trouble: Trouble, *moments: int) -> Server:
    """Tell the story with trouble at some moments of it."""
    server = ground.server()
    await in_thread(server.wait)
    async with told(ground, server) as until_heard:
        for moment in moments:
            await until_heard(moment)
            await trouble(server)
            await is_ready(server, True)
    server.process.send_signal(signal.SIGTERM)
    assert await in_thread(server.process.wait, STARTING) == 0
    return server


def nothing_came_of_it(ground: Ground, server: Server) -> None:
    assert ground.problems() == []
    assert story.contents(ground.workspace) == story.AFTERWARDS
    commands = (story.BROKEN, story.GRANTED, story.ASKED)
    assert [story.starts(ground.workspace, command) for command in commands] == [1, 1, 1]
    assert len(ground.model.requests) == story.REQUESTS
    assert story.courses(ground.told.events) == story.COURSES
    log = server.log.read_text()
    assert "Traceback" not in log
    assert "exception" not in log


def moments(chance: random.Random, count: int) -> list[int]:
    return sorted(chance.sample(range(1, 45), count))


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_plan_goes_on_by_itself_when_postgresql_was_stopped(
    ground: Ground, on_postgres: str, mortal_postgres: Postgres, seed: int
) -> None:
    chance = random.Random(f"{SEED} {seed}")

    async def stops(server: Server) -> None:
        await in_thread(partial(mortal_postgres.stop, at_once=chance.random() < 0.5))
        await says_so(server, STAYS_AWAY, ("GET", "/plans"), ("POST", "/sessions"))
        await in_thread(mortal_postgres.start)

    server = await lives_through(ground, stops, *moments(chance, TIMES))

    nothing_came_of_it(ground, server)
    assert server.log.read_text().count("work waits for the database") <= TIMES


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_plan_goes_on_by_itself_when_all_connections_are_cut_twelve_times(
    ground: Ground, on_postgres: str, mortal_postgres: Postgres, seed: int
) -> None:
    chance = random.Random(f"{SEED} {seed}")

    async def cuts(_server: Server) -> None:
        await anyio.sleep(chance.uniform(0, 0.05))
        await in_thread(mortal_postgres.cut, on_postgres)

    server = await lives_through(ground, cuts, *moments(chance, 12))

    nothing_came_of_it(ground, server)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_plan_goes_on_by_itself_when_a_full_disk_was_freed(
    on_disk: tuple[Ground, Disk], seed: int
) -> None:
    ground, disk = on_disk
    chance = random.Random(f"{SEED} {seed}")

    async def fills(server: Server) -> None:
        await in_thread(disk.fill)
        # What is written may still find room in the files that there are.
        await says_so(server, STAYS_AWAY, ("POST", "/sessions"), statuses=(201, 503))
        await says_so(server, 0.1, ("GET", "/plans"), statuses=(200,))
        await in_thread(disk.free)

    server = await lives_through(ground, fills, *moments(chance, TIMES))

    nothing_came_of_it(ground, server)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_plan_goes_on_by_itself_when_no_file_could_be_made_for_a_while(
    on_disk: tuple[Ground, Disk], seed: int
) -> None:
    ground, disk = on_disk
    chance = random.Random(f"{SEED} {seed}")

    async def uses_up(server: Server) -> None:
        await in_thread(disk.use_up_names)
        await says_so(server, STAYS_AWAY)
        await in_thread(disk.free)

    server = await lives_through(ground, uses_up, *moments(chance, TIMES))

    nothing_came_of_it(ground, server)


async def test_a_plan_goes_on_by_itself_when_files_may_grow_again(ground: Ground) -> None:
    """The same without root's rights: what the system lets a process write is limited."""
    whole = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def limits(server: Server) -> None:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 15, whole[1]))
        await says_so(server, STAYS_AWAY, ("POST", "/sessions"), statuses=(201, 503))
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, whole)

    server = await lives_through(ground, limits, 5, 20)

    nothing_came_of_it(ground, server)


async def test_a_reply_that_comes_while_the_database_is_away_is_kept_and_not_asked_for_again(
    ground: Ground, on_postgres: str, mortal_postgres: Postgres
) -> None:
    slow = story.rules()
    slow["rules"][-1]["replies"][2] |= {"held": True}
    ground.model.script(slow)
    server = ground.server()
    await in_thread(server.wait)
    async with told(ground, server):
        with anyio.fail_after(STARTING):
            while len(ground.model.requests) < 3:
                await in_thread(ground.model.news, len(ground.model.requests))
        await in_thread(mortal_postgres.stop)
        await in_thread(ground.model.go)
        await says_so(server, 2.5)
        await in_thread(mortal_postgres.start)
    server.kill()

    nothing_came_of_it(ground, server)


async def test_a_server_that_is_to_end_waits_for_no_database(
    ground: Ground, on_postgres: str, mortal_postgres: Postgres
) -> None:
    server = ground.server()
    await in_thread(server.wait)
    async with server.client() as client, server.http() as http:
        await Wire(client, http).say(story.FIRST)
    with anyio.fail_after(STARTING):
        while len(ground.model.requests) < 2:
            await in_thread(ground.model.news, len(ground.model.requests))
    await in_thread(mortal_postgres.stop)
    await is_ready(server, False)
    server.process.send_signal(signal.SIGTERM)
    assert await in_thread(server.process.wait, STARTING) == 0
    await in_thread(mortal_postgres.start)

    again = await lives_through(ground, is_there)

    assert ground.problems() == []
    assert story.contents(ground.workspace) == story.AFTERWARDS
    assert "Traceback" not in again.log.read_text()


async def is_there(_server: Server) -> None:
    """No trouble at all."""


@pytest.mark.feature(234)
async def test_a_second_server_on_one_database_is_refused_until_the_first_one_is_dead(
    ground: Ground, on_postgres: str, tmp_path: Path, model_server: FakeOpenAI, born: Nursery
) -> None:
    other = Ground(tmp_path / "other", model_server, born)
    other.environment |= ground.environment
    first = ground.server()
    await in_thread(first.wait)
    async with told(ground, first) as until_heard:
        await until_heard(10)
        second = other.server()
        assert await in_thread(second.process.wait, STARTING) == 1
        said = second.log.read_text()
        assert "already used by gonogo" in said
        assert str(first.pid) in said
        assert "Traceback" not in said

    first.kill()
    third = other.server()
    await in_thread(third.wait)
    await is_ready(third, True)
    other.close()

    nothing_came_of_it(ground, first)
