"""A clock that is set back while work is under way.

Nothing took less than no time, and nothing waits for a moment that comes a second time.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from sqlalchemy import select

from fakes.world import LIMIT, World, call, calls, plan, says, step, write
from gonogo.domain.schedule import SLACK
from gonogo.store import Tx
from gonogo.store.schema import timers
from scenarios.conftest import Makes

STORY = {
    "main/architect": [plan(step("one"), step("two", "one", timeout=30))],
    "one": [calls(write("one.txt")), says("one is there")],
    "two": [
        calls(call("execute_command", command="touch two.txt", timeout=20)),
        says("two is there"),
    ],
}


class Backwards:
    """A clock that is set back by a minute whenever somebody looks."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        self.ahead -= timedelta(minutes=1)
        return datetime.now(UTC) + self.ahead


def times(said: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number of an answer that says how long something took."""
    if isinstance(said, dict):
        for key, value in said.items():
            inside = f"{name}.{key}" if "seconds" in name else key
            yield from times(value, inside)
    elif isinstance(said, list):
        for each in said:
            yield from times(each, name)
    elif isinstance(said, int | float) and ("seconds" in name or name.endswith("_ms")):
        yield name, said


async def told(world: World, plan_id: str) -> list[Any]:
    runtime, ann = world.runtime, world.ann
    views = [
        await runtime.plans.get(ann, plan_id),
        await runtime.plans.status(ann, plan_id),
        await runtime.plans.graph(ann, plan_id),
        await runtime.reports.analytics(ann, until=datetime.now(UTC) + timedelta(hours=1)),
    ]
    shown = [view.model_dump(mode="json") for view in views]
    audit = [entry.model_dump(mode="json") for entry in await world.audit()]
    return [*await world.log(), *shown, *audit]


async def test_a_clock_that_is_set_back_makes_no_time_negative(make: Makes) -> None:
    async with make(STORY) as world:
        world.clock = Backwards()  # type: ignore[assignment]
        # Its entries are in order, and their moments are not.
        world.honest = False
        await world.restart()
        plan_id = await world.begin()
        await world.until("approval_requested", kind="tool")
        [question] = await world.pending()
        await world.decide(question.call_id)
        await world.until("plan_completed")
        said = await told(world, plan_id)

    found = [each for part in said for each in times(part)]
    assert {name.split(".")[0] for name, _ in found} >= {
        "duration_seconds", "duration_ms", "waited_seconds", "latency_seconds",
    }  # fmt: skip
    assert [each for each in found if each[1] < 0] == []


JUMPS = [timedelta(hours=-1), timedelta(days=-366)]


async def set_clock(world: World, jump: timedelta, *, restart: bool) -> None:
    """Set the clock back, and let that be seen."""
    world.clock.ahead += jump
    if restart:
        await world.restart()
    await world.later(0)
    with anyio.fail_after(LIMIT):
        while await world.runtime.parts.store.read(is_ahead):  # noqa: ASYNC110 - it tells nobody
            await anyio.sleep(0.003)


def is_ahead(tx: Tx) -> bool:
    """Whether a timer is left that was set at a moment which is still to come."""
    return bool(tx.execute(select(timers.c.key).where(timers.c.set_at > tx.now + SLACK)).all())


@pytest.mark.parametrize("jump", JUMPS, ids=str)
@pytest.mark.parametrize("restart", [False, True])
async def test_a_retry_waits_no_longer_as_the_clock_is_set_back(
    make: Makes, jump: timedelta, restart: bool
) -> None:
    asked: list[Any] = []

    def flaky(request: Any) -> Any:
        asked.append(request)
        if len(asked) == 1:
            raise TimeoutError
        return says("at last")

    policy = {"max_attempts": 2, "delay": 60, "on": ["unknown"]}
    lines = {"main/architect": [plan(step("a", retry_policy=policy))], "a": [flaky]}
    async with make(lines) as world:
        await world.begin()
        await world.until("subtask_retrying")
        await world.idle()
        await set_clock(world, jump, restart=restart)
        await world.later(61)
        ended = await world.until("plan_completed")
        assert ended["metadata"]["status"] == "completed"


@pytest.mark.parametrize("jump", JUMPS, ids=str)
@pytest.mark.parametrize("restart", [False, True])
async def test_a_question_of_a_clock_that_went_ahead_expires_in_its_time(
    make: Makes, jump: timedelta, restart: bool
) -> None:
    lines = {"main/coder": [calls(write("a.txt")), says("Nobody answered")]}
    async with make(lines, approval_expiry_tool=600, approval_warning=0) as world:
        world.clock.ahead -= jump
        await world.say("Write", "coder")
        await set_clock(world, jump, restart=restart)
        [question] = await world.pending()
        assert question.expires_at is not None
        assert question.expires_at - world.clock() <= timedelta(seconds=600)
        await world.later(601)
        await world.until("assistant_message", content="Nobody answered")
        assert world.read("a.txt") is None
