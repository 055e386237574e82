"""The owner of the state folder changes under an editor, who sees nothing of it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.asked import until_asked
from fakes.nursery import Nursery, Process
from fakes.world import calls, says, write

SCRIPT = {
    "rules": [
        {"when": {"last": "make"}, "reply": calls(write("a.txt"))},
        {"when": {"last": "slow"}, "reply": {"text": ["It took ", "a while."], "held_at": 2}},
    ],
    "default": says("Done."),
}


class Server:
    """A `gonogo serve`."""

    def __init__(self, process: Process, output: int) -> None:
        self.process, self._output = process, os.fdopen(output)

    async def until_it_serves(self) -> str:
        """What it has written by then."""
        with anyio.fail_after(60):
            return await anyio.to_thread.run_sync(self._read)

    async def line(self) -> str:
        """The next line that it writes."""
        with anyio.fail_after(60):
            return await anyio.to_thread.run_sync(self._output.readline)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self._output.close()

    def _read(self) -> str:
        said = ""
        while "http://" not in said:
            line = self._output.readline()
            assert line, said
            said += line
        return said


@pytest.fixture
def serve(born: Nursery, env: dict[str, str], folder: Path) -> Iterator[Any]:
    started: list[Server] = []

    def start() -> Server:
        read, write_ = os.pipe()
        words = ("gonogo", "serve", "--port", "0", "--workspace", str(folder))
        process = born.start(*words, env=env, cwd=folder, stdout=write_, stderr=write_)
        os.close(write_)
        started.append(Server(process, read))
        return started[-1]

    yield start
    for server in started:
        server.close()


def owner(home: Path) -> int:
    return int((home / "owner.lock").read_text().split()[0])


async def test_an_editor_goes_on_when_the_process_in_the_background_is_killed(
    editor, folder, home, provider, background
):
    provider.script(SCRIPT)
    async with editor(more=background) as pad, anyio.create_task_group() as group:
        session = (await pad.open(folder)).session_id
        await pad.agent.set_session_mode(session_id=session, mode_id="coder")
        first = owner(home)
        assert first != pad.process.pid
        ended: list[str] = []

        async def say(text: str) -> None:
            ended.append(await pad.say(session, text))
            pad.tell()

        group.start_soon(say, "slow")
        await pad.until(lambda: "It took" in pad.text)
        os.kill(first, signal.SIGKILL)
        provider.go()
        await pad.until(lambda: ended == ["end_turn"])
        assert owner(home) not in {first, pad.process.pid}
        assert pad.text.endswith("It took a while.")
        await until_asked(provider, lambda asked: len(asked) == 2)


async def test_a_server_opens_its_port_in_the_process_in_the_background_that_is_at_work(
    editor, folder, home, provider, serve, background
):
    provider.script(SCRIPT)
    async with editor(more=background) as pad:
        await pad.open(folder)
        first = owner(home)
        server = serve()
        await server.until_it_serves()
        assert owner(home) == first
