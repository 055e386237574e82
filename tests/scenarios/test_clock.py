"""A clock that is set back while work is under way: nothing took less than no time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from fakes.world import World, call, calls, plan, says, step, write
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
