"""The owner of the state folder changes under an editor, who sees nothing of it."""

import os
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
        {"when": {"last": "slow"}, "reply": {"text": ["It took ", "a while."], "pause": 1}},
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


async def test_an_editor_goes_on_when_its_server_is_killed_and_gives_way_to_the_next(
    editor, folder, home, provider, serve
):
    provider.script(SCRIPT)
    first = serve()
    await first.until_it_serves()
    async with editor() as pad, anyio.create_task_group() as group:
        session = (await pad.open(folder)).session_id
        await pad.agent.set_session_mode(session_id=session, mode_id="coder")
        ended: list[str] = []

        async def say(text: str) -> None:
            ended.append(await pad.say(session, text))
            pad.tell()

        group.start_soon(say, "slow")
        await pad.until(lambda: "It took" in pad.text)
        first.process.kill()
        await pad.until(lambda: ended == ["end_turn"])
        assert owner(home) == pad.process.pid
        assert pad.text.endswith("It took a while.")
        await until_asked(provider, lambda asked: len(asked) == 2)

        pad.patience = anyio.Event()
        group.start_soon(say, "make")
        await pad.until(lambda: len(pad.questions) == 1)
        second = serve()
        assert f"waits for process {pad.process.pid} " in await second.until_it_serves()
        assert owner(home) == second.process.pid
        pad.patience.set()
        await pad.until(lambda: len(ended) == 2)
        assert (folder / "a.txt").exists()
    assert ended == ["end_turn"] * 2
    assert len(pad.questions) == 1
