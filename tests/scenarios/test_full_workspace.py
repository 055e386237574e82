"""A workspace whose disk takes nothing is no failure of the work: its plan waits, says what to do,
and goes on by itself."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from fakes.disk import Disk, small_disk
from fakes.world import LIMIT, World, calls, of, plan, says, step, write
from gonogo.cli.session.interrupts import pause_lines

LINES = {
    "main/architect": [plan(step("a"), step("b"), step("c", "a"))],
    "a": [calls(write("new/a.txt")), says("A")],
    "b": [calls(write("b.txt")), says("B")],
    "c": [calls(write("c.txt")), says("C")],
}
SAID = {"full": "is full; free some space", "read-only": "is read-only; make it writable"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "work") as disk:
        yield disk


def spoil(disk: Disk, how: str) -> None:
    if how == "full":
        disk.fill()
    else:
        disk.allow_writing(False)


def mend(disk: Disk) -> None:
    disk.allow_writing(True)
    disk.free()


async def shown(world: World, plan_id: str):
    return await world.runtime.plans.get(world.ann, plan_id)


async def next_try(world: World, plan_id: str) -> None:
    """Let the time come in which the disk is tried again."""
    until = (await shown(world, plan_id)).paused_until
    await world.later((until - world.clock()).total_seconds() + 0.01)


async def in_vain(world: World, plan_id: str) -> None:
    """Let the disk be tried again, and wait for what comes of it."""
    until = (await shown(world, plan_id)).paused_until
    await next_try(world, plan_id)
    with anyio.fail_after(LIMIT):
        while (await shown(world, plan_id)).paused_until == until:  # noqa: ASYNC110 - not told
            await anyio.sleep(0.003)
    await world.idle()


def outcomes(events: list[dict]) -> list[str]:
    """How the calls of subtasks ended."""
    return [e["metadata"]["status"] for e in of(events, "tool_result") if "subtask_id" in e]


async def begin(world: World) -> str:
    plan_id = await world.begin()
    await world.until("plan_paused")
    await world.idle()
    return plan_id


@pytest.mark.feature(233)
@pytest.mark.parametrize("how", SAID)
async def test_a_plan_waits_for_the_disk_of_its_workspace_and_goes_on(make, disk, how):
    async with make(LINES) as world:
        spoil(disk, how)
        plan_id = await begin(world)
        found = await shown(world, plan_id)
        assert (found.status, found.pause_reason) == ("paused", "disk")
        [told] = of(await world.log(), "plan_paused")
        assert f"{world.folder} {SAID[how]}" in told["content"]
        assert "Free some space" in pause_lines(found, [], "en")[0]

        # More often than a call may be judged that ends everybody who looks at it.
        for _ in range(5):
            await in_vain(world, plan_id)
        await world.restart()
        await in_vain(world, plan_id)
        mend(disk)
        await next_try(world, plan_id)
        await world.until("plan_completed", status="completed")

        found = await shown(world, plan_id)
        assert {(s.status, s.attempt) for s in found.subtasks} == {("completed", 1)}
        assert sorted(each.name for each in world.folder.rglob("*.txt")) == [
            "a.txt", "b.txt", "c.txt",
        ]  # fmt: skip
        events = await world.log()
        assert len(of(events, "plan_paused")) == len(of(events, "plan_resumed")) == 1
        assert outcomes(events) == ["completed"] * 3
        assert of(events, "error") == of(events, "approval_requested", kind="intervention") == []


@pytest.mark.feature(233)
async def test_a_plan_that_waits_for_its_disk_can_be_cancelled_and_its_files_are_as_they_were(
    make, disk
):
    async with make(LINES) as world:
        spoil(disk, "full")
        plan_id = await begin(world)
        await world.runtime.plans.cancel(world.ann, plan_id)
        await world.until("plan_cancelled")
        await world.idle()

        assert (await shown(world, plan_id)).status == "cancelled"
        assert set(outcomes(await world.log())) == {"failed"}
        mend(disk)
        assert list(world.folder.rglob("*.txt")) == []


async def test_outside_a_plan_the_agent_is_told_what_its_file_failed_with(make, disk):
    async with make({"main/coder": [calls(write("a.txt")), says("It is full")]}) as world:
        spoil(disk, "full")
        await world.say("Write it", "coder")
        [asked] = await world.pending()
        await world.decide(asked.call_id)

        events = await world.log()
        [told] = of(events, "tool_result")
        assert "io_error: 'a.txt': No space left on device" in str(told)
        assert of(events, "assistant_message")[-1]["content"] == "It is full"
