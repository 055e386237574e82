"""What comes and goes on a descriptor comes whole and in order, and nobody waits in a thread."""

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from gonogo.pipes import read_some, write_all

LIMIT = 60
DATA = bytes(range(256)) * 1_024


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for each in ends:
        try:
            os.close(each)
        except OSError:
            continue


async def test_more_than_a_pipe_holds_goes_through_it_while_both_sides_wait(
    pipe: tuple[int, int],
) -> None:
    source, sink = pipe
    came = bytearray()

    async def give() -> None:
        await write_all(sink, DATA)
        os.close(sink)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            group.start_soon(give)
            while some := await read_some(source):
                assert len(some) <= 65_536
                came += some

    assert bytes(came) == DATA


async def test_a_file_is_written_and_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file, anyio.fail_after(LIMIT):
        await write_all(file.fileno(), DATA)
        await write_all(file.fileno(), b"")
    assert path.read_bytes() == DATA
    with path.open("rb") as file, anyio.fail_after(LIMIT):
        found = [await read_some(file.fileno()) for _ in range(5)]
    assert [len(each) for each in found] == [65_536] * 4 + [0]
    assert b"".join(found) == DATA


async def test_what_cannot_be_read_any_more_is_at_its_end_and_what_nobody_reads_is_an_error(
    pipe: tuple[int, int],
) -> None:
    source, sink = pipe
    os.close(source)
    with anyio.fail_after(LIMIT):
        assert await read_some(source) == b""
        with pytest.raises(OSError, match="Broken pipe"):
            await write_all(sink, b"x")
