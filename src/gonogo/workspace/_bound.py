"""Programs that live as long as we do: spoken to through pipes, and gone when we are.

They run beside us with the rights that we have, in no box: they are the operator's own.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from subprocess import PIPE

import anyio
import anyio.abc

from gonogo.domain.errors import ToolFailed
from gonogo.workspace._lifeline import Lifeline, lifeline
from gonogo.workspace._processes import MARK
from gonogo.workspace._programs import find_program
from gonogo.workspace._running import Running, uncancelled


@asynccontextmanager
async def bound_process(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path
) -> AsyncGenerator[anyio.abc.Process]:
    """Run a program for as long as the block; its standard streams are pipes.

    Nothing of it is left when the block is over, nor when this process is killed.

    Args:
        environment: All that it gets; its `PATH` says where it is found.

    Raises:
        ToolFailed: `io_error`: it cannot be started.
    """
    program = find_program(argv[0], environment.get("PATH", ""))
    if program is None:
        raise ToolFailed("io_error", f"There is no program {argv[0]!r} on its PATH")
    mark = token_hex(16)
    with lifeline() as line:
        # Not to be cancelled half-way: a process that nobody holds could not be ended.
        with uncancelled():
            marked = {**environment, MARK: mark}
            process = await _spawned([program, *argv[1:]], marked, folder, line)
        try:
            yield process
        finally:
            await Running(process, mark, line).end()


async def _spawned(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, line: Lifeline
) -> anyio.abc.Process:
    try:
        return await anyio.open_process(
            line.kept(argv), stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=folder,
            env=environment, start_new_session=True, pass_fds=line.fds,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise ToolFailed("io_error", f"{argv[0]!r} cannot be started: {error}") from error
    finally:
        line.spawned()
