"""Traffic: calls that say what they change share a workspace, one that may change anything has it
alone, and nobody is kept waiting by one who gave up."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from gonogo.workspace import Traffic

ROOT = Path("/a")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_several_share_and_one_alone_waits_for_them_and_keeps_later_ones_out() -> None:
    traffic, order = Traffic(), list[str]()
    first = anyio.Event()

    async def shares(name: str, until: anyio.Event | None = None) -> None:
        async with traffic.shared(ROOT):
            order.append(name)
            if until is not None:
                await until.wait()

    async def alone() -> None:
        async with traffic.alone(ROOT):
            order.append("alone")
            await anyio.lowlevel.checkpoint()
            order.append("over")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(shares, "one", first)
            group.start_soon(shares, "two")
            await anyio.wait_all_tasks_blocked()
            group.start_soon(alone)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(shares, "late")
            await anyio.wait_all_tasks_blocked()
            assert order == ["one", "two"]
            first.set()

    assert order == ["one", "two", "alone", "over", "late"]


async def test_who_gives_up_waiting_keeps_nobody_out() -> None:
    traffic = Traffic()
    with anyio.fail_after(60):
        async with traffic.shared(ROOT):
            with anyio.move_on_after(0.01):
                async with traffic.alone(ROOT):
                    raise AssertionError("it is not free")
            async with traffic.shared(ROOT):
                pass
        async with traffic.alone(ROOT):
            pass


async def test_who_gives_up_at_the_moment_of_their_turn_keeps_nobody_out() -> None:
    traffic, scope = Traffic(), anyio.CancelScope()

    async def waits() -> None:
        with scope:
            async with traffic.alone(ROOT):
                raise AssertionError("it gave up")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group, traffic.shared(ROOT):
            group.start_soon(waits)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
        async with traffic.alone(ROOT):
            pass
    assert traffic._ways == {}


async def test_several_who_wait_alone_come_one_by_one() -> None:
    traffic, inside, most = Traffic(), list[str](), list[int]()

    async def goes(name: str) -> None:
        async with traffic.alone(ROOT):
            inside.append(name)
            most.append(len(inside))
            await anyio.lowlevel.checkpoint()
            inside.remove(name)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(goes, name)
    assert most == [1, 1, 1]
    assert traffic._ways == {}


async def test_workspaces_do_not_wait_for_each_other() -> None:
    traffic = Traffic()
    with anyio.fail_after(60):
        async with traffic.alone(ROOT), traffic.alone(Path("/b")):
            pass
